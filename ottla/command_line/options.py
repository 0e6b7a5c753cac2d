"""Options that several subcommands share, and the parsing of their values."""

import re
from collections.abc import Sequence
from datetime import datetime
from typing import Annotated

import typer

from client.topic_partition import TopicPartition
from ottla.command_line import variables
from ottla.command_line.completion import complete_servers
from ottla.command_line.failure import CommandError
from registry.znodes.tree import LAYOUTS

BootstrapServer = Annotated[
    str,
    typer.Option(
        "--bootstrap-server",
        "-b",
        envvar=variables.BOOTSTRAP_SERVER,
        autocompletion=complete_servers,
        metavar="HOST:PORT",
        help="A broker of the cluster; separate several with commas.",
    ),
]
"""The option of each command that connects to a cluster; `command_line.global_options` adds `--profile` to it."""
DEFAULT_BOOTSTRAP_SERVER = "127.0.0.1:9092"

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]

_DECIMAL_SIZES = {"": 1, "k": 1024, "m": 1024**2, "g": 1024**3}


def parse_pairs(texts: Sequence[str] | None, option: str) -> dict[str, str]:
    """Return the name and value of every "name=value". Raises CommandError, which names the option."""
    pairs = {}
    for text in texts or ():
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise CommandError(f"{option} {text!r} is not name=value")
        pairs[name] = value
    return pairs


def parse_assignment(text: str | None, option: str = "--replica-assignment") -> list[list[int]] | None:
    """Return the replicas of every partition of "0:1,1:2": commas separate partitions, colons separate replicas.

    Raises CommandError for anything else.
    """
    if text is None:
        return None
    try:
        return [[int(replica) for replica in partition.split(":")] for partition in text.split(",")]
    except ValueError:
        raise CommandError(
            f"{option} {text!r} must be broker ids, with colons between replicas and commas between partitions"
        ) from None


def parse_names(texts: Sequence[str], known: Sequence[str], option: str) -> list[str]:
    """Return the names in Kafka's spelling; `texts` may be in any case. Raises CommandError for an unknown name."""
    by_lower = {name.lower(): name for name in known}
    found = []
    for text in texts:
        if text.lower() not in by_lower:
            raise CommandError(f"{option} {text!r} must be one of {', '.join(known)}")
        found.append(by_lower[text.lower()])
    return found


def parse_topics(texts: Sequence[str], option: str) -> dict[str, list[int] | None]:
    """Return the topics and partition numbers of "orders:0,2"; of "orders" None for all partitions.

    Raises CommandError for anything else.
    """
    found: dict[str, list[int] | None] = {}
    for text in texts:
        topic, colon, numbers = text.partition(":")
        if not topic or (colon and re.fullmatch(r"[0-9]+(,[0-9]+)*", numbers) is None):
            raise CommandError(f"{option} {text!r} is neither a topic nor topic:0,1,2 with partition numbers")
        if not colon:
            found[topic] = None
        elif (before := found.setdefault(topic, [])) is not None:
            before += [int(number) for number in numbers.split(",")]
    return found


def parse_partition(text: str) -> TopicPartition:
    """Return the partition named by a text such as "orders-0". Raises CommandError."""
    topic, _, number = text.rpartition("-")
    if not topic or re.fullmatch(r"[0-9]+", number) is None:
        raise CommandError(f"{text!r} is not a partition such as orders-0")
    return TopicPartition(topic, int(number))


def parse_size(text: str, option: str) -> int:
    """Return the number of bytes of "100", "64k" or "1M". Raises CommandError."""
    match = re.fullmatch(r"(\d+)([kmg]?)b?", text.strip().lower())
    if match is None:
        raise CommandError(f"{option} {text!r} is not a size such as 100, 64k or 1m")
    return int(match[1]) * _DECIMAL_SIZES[match[2]]


def parse_time(text: str, option: str) -> int:
    """Return milliseconds since the epoch; `text` is such a number or an ISO time (local time if it names no zone).

    Raises CommandError for anything else.
    """
    if re.fullmatch(r"\d+", text):
        return int(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise CommandError(f"{option} {text!r} is neither milliseconds nor a time such as 2026-11-21T08:00") from None
    return int(moment.timestamp() * 1000)


def unescape(text: str, option: str) -> bytes:
    r"""Return the bytes of a text with \t, \n, \r, \0, \\ and \xNN. Raises CommandError for another escape."""
    out = bytearray()
    position = 0
    while position < len(text):
        character = text[position]
        if character != "\\":
            out += character.encode("utf-8", "surrogateescape")
            position += 1
            continue
        match = re.compile(r"\\(?:x([0-9a-fA-F]{2})|([tnr0\\]))").match(text, position)
        if match is None:
            raise CommandError(f"{option} {text!r}: \\ must be followed by t, n, r, 0, \\ or xNN")
        if match[1] is not None:
            out.append(int(match[1], 16))
        else:
            out += {"t": b"\t", "n": b"\n", "r": b"\r", "0": b"\0", "\\": b"\\"}[match[2]]
        position = match.end()
    return bytes(out)


def check_layout(layout: str) -> None:
    """Raise CommandError if `layout` (`--layout`) is not a known layout of the tree."""
    if layout not in LAYOUTS:
        raise CommandError(f"--layout {layout}: must be one of {', '.join(LAYOUTS)}")
