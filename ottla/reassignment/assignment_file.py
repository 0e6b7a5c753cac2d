"""Partitions and their replicas in a file, in the format of Kafka's tools for reassignment and election.

    {"version":1,"partitions":[{"topic":"orders","partition":0,"replicas":[1,2],"log_dirs":["any","any"]}]}

`log_dirs` has a log directory for each replica: an absolute path on its broker, or "any" for the current directory, or
one that the broker chooses. `log_dirs` is optional. A file that only names partitions has no `replicas`. A file for the
deletion of records has an `offset` in place of both.
"""

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from client.admin.types import Replica
from client.topic_partition import TopicPartition
from ottla.command_line.failure import CommandError

_VERSION = 1
_ANY = "any"
_MAX_INT = 2**31 - 1
_MAX_OFFSET = 2**63 - 1
_ALL_RECORDS = -1
STDIN = "-"


class Assignment(NamedTuple):
    """Partitions with the brokers of their replicas, and the log directories of replicas that are not "any"."""

    replicas: dict[TopicPartition, list[int]]
    log_dirs: dict[Replica, str]


def read_assignment(path: Path) -> Assignment:
    """Return the assignment in a file ("-": standard input).

    Raises CommandError, which names the entry and the broken rule, and OSError.
    """
    found = Assignment({}, {})
    for where, entry, partition in _entries(path, {"topic", "partition", "replicas", "log_dirs"}):
        replicas = entry.get("replicas")
        if not _are_numbers(replicas) or not replicas or len(set(replicas)) < len(replicas):
            raise CommandError(f"{where}: replicas {json.dumps(replicas)} must be a list of different broker ids")
        log_dirs = entry.get("log_dirs", [_ANY] * len(replicas))
        if not _are_paths(log_dirs) or len(log_dirs) != len(replicas):
            raise CommandError(
                f"{where}: log_dirs {json.dumps(log_dirs)} must be {_ANY!r} or an absolute path for each replica"
            )
        found.replicas[partition] = replicas
        for broker, log_dir in zip(replicas, log_dirs, strict=True):
            if log_dir != _ANY:
                found.log_dirs[Replica(*partition, broker)] = log_dir
    return found


def read_partitions(path: Path) -> list[TopicPartition]:
    """Return the partitions that a file names. Raises the errors of `read_assignment`."""
    return [partition for _, _, partition in _entries(path, {"topic", "partition"})]


def read_trim_offsets(path: Path) -> dict[TopicPartition, int]:
    """Return the offset of each partition before which records are to be deleted; -1 means all records.

    Raises the errors of `read_assignment`.
    """
    found = {}
    for where, entry, partition in _entries(path, {"topic", "partition", "offset"}):
        offset = entry.get("offset")
        if not isinstance(offset, int) or isinstance(offset, bool) or not _ALL_RECORDS <= offset <= _MAX_OFFSET:
            raise CommandError(
                f"{where}: offset {json.dumps(offset)} must be a number from {_ALL_RECORDS} (all records)"
            )
        found[partition] = offset
    return found


def format_assignment(
    replicas: Mapping[TopicPartition, Sequence[int]], log_dirs: Mapping[Replica, str] | None = None
) -> str:
    """Return the single line of the file. `log_dirs` are the log directories that are not "any"."""
    known = log_dirs or {}
    document = {
        "version": _VERSION,
        "partitions": [
            {
                "topic": topic,
                "partition": number,
                "replicas": list(of),
                "log_dirs": [known.get(Replica(topic, number, broker), _ANY) for broker in of],
            }
            for (topic, number), of in replicas.items()
        ],
    }
    return json.dumps(document, separators=(",", ":"), ensure_ascii=False) + "\n"


def _entries(path: Path, keys: set[str]) -> list[tuple[str, dict[str, Any], TopicPartition]]:
    document = _document(path)
    if document.get("version", _VERSION) != _VERSION:
        raise CommandError(f"{path}: version {json.dumps(document['version'])} must be {_VERSION}")
    entries = document.get("partitions")
    if not isinstance(entries, list) or not entries:
        raise CommandError(f'{path} has no list of "partitions", or an empty one')
    found = []
    seen: set[TopicPartition] = set()
    for position, entry in enumerate(entries):
        where = f"{path}, partition {position}"
        if not isinstance(entry, dict):
            raise CommandError(f"{where}: {json.dumps(entry)} is not an object")
        unknown = sorted(entry.keys() - keys)
        if unknown:
            raise CommandError(f"{where}: field {unknown[0]!r} must be one of {', '.join(sorted(keys))}")
        topic, number = entry.get("topic"), entry.get("partition")
        if not isinstance(topic, str) or not topic:
            raise CommandError(f"{where}: topic {json.dumps(topic)} is not a name")
        if not isinstance(number, int) or not _is_number(number):
            raise CommandError(f"{where}: partition {json.dumps(number)} must be a number from 0 to {_MAX_INT}")
        partition = TopicPartition(topic, number)
        if partition in seen:
            raise CommandError(f"{where}: {partition} is named twice")
        seen.add(partition)
        found.append((where, entry, partition))
    return found


def _document(path: Path) -> dict[str, Any]:
    data = sys.stdin.buffer.read() if str(path) == STDIN else path.read_bytes()
    try:
        document = json.loads(data)
    except ValueError as error:  # a UnicodeDecodeError, too
        raise CommandError(f"{path} is not JSON: {error}") from None
    if not isinstance(document, dict):
        raise CommandError(f"{path} is not a JSON object")
    return document


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MAX_INT


def _are_paths(value: object) -> bool:
    return isinstance(value, list) and all(
        isinstance(one, str) and (one == _ANY or one.startswith("/")) for one in value
    )


def _are_numbers(value: object) -> bool:
    return isinstance(value, list) and all(map(_is_number, value))
