"""Generated records: `ottla produce orders --template '{"id": {n}, "user": "{uuid}"}'`.

| placeholder | |
|---|---|
| {n} | the number of the record, from 1 |
| {uuid} | a random UUID |
| {int:1..100} | a random integer, both ends included |
| {float:0..5} | a random number with two decimals |
| {choice:a|b|c} | one of the texts |
| {text:12} | random lower-case letters, this many |
| {time} | the current time in UTC, ISO |
| {ms} | the current time in ms since the epoch |

Braces that enclose anything else than a lower-case word are text, as in JSON. With a seed, everything but {time} and
{ms} is the same in every run.
"""

import asyncio
import re
import string
import time
import uuid
from collections.abc import AsyncIterator, Callable
from random import Random
from typing import Final

from ottla.command_line.failure import CommandError
from ottla.records.record_format import iso_time

Make = Callable[[int], str]

PLACEHOLDERS: Final = "{n} {uuid} {int:1..100} {float:0..5} {choice:a|b|c} {text:12} {time} {ms}"
_PLACEHOLDER = re.compile(r"\{([a-z]+)(?::([^{}]*))?\}")
_BLOCK = 500


class Template:
    """A text with placeholders. Raises CommandError for an unknown one; `option` is the option that has the text."""

    def __init__(self, text: str, option: str, random: Random) -> None:
        self._parts: list[Make] = []
        position = 0
        for found in _PLACEHOLDER.finditer(text):
            self._parts.append(_constant(text[position : found.start()]))
            self._parts.append(_placeholder(found, option, random))
            position = found.end()
        self._parts.append(_constant(text[position:]))

    def __call__(self, number: int) -> bytes:
        """Return the text of a record."""
        return "".join([part(number) for part in self._parts]).encode("utf-8", "surrogateescape")


async def generate(template: Template, count: int) -> AsyncIterator[list[bytes]]:
    """Yield the texts of `count` records, in blocks."""
    for first in range(1, count + 1, _BLOCK):
        yield [template(number) for number in range(first, min(first + _BLOCK, count + 1))]
        await asyncio.sleep(0)  # a turn of the event loop, in which records are sent


def _constant(text: str) -> Make:
    return lambda _: text


def _placeholder(found: re.Match[str], option: str, random: Random) -> Make:
    name, argument = found[1], found[2]
    simple: dict[str, Make] = {
        "n": str,
        "uuid": lambda _: str(uuid.UUID(int=random.getrandbits(128), version=4)),
        "time": lambda _: iso_time(_now_ms()),
        "ms": lambda _: str(_now_ms()),
    }
    with_argument: dict[str, Callable[[str, Random], Make | None]] = {
        "int": _integer,
        "float": _float,
        "choice": _choice,
        "text": _text,
    }
    make = None
    if argument is None:
        make = simple.get(name)
    elif name in with_argument:
        make = with_argument[name](argument, random)
    if make is None:
        raise CommandError(f"{option}: {found[0]} is not a placeholder such as {PLACEHOLDERS}")
    return make


def _integer(argument: str, random: Random) -> Make | None:
    match = re.fullmatch(r"(-?[0-9]+)\.\.(-?[0-9]+)", argument)
    if match is None or int(match[1]) > int(match[2]):
        return None
    low, high = int(match[1]), int(match[2])
    return lambda _: str(random.randint(low, high))


def _float(argument: str, random: Random) -> Make | None:
    match = re.fullmatch(r"(-?[0-9]+(?:\.[0-9]+)?)\.\.(-?[0-9]+(?:\.[0-9]+)?)", argument)
    if match is None or float(match[1]) > float(match[2]):
        return None
    low, high = float(match[1]), float(match[2])
    return lambda _: f"{random.uniform(low, high):.2f}"


def _choice(argument: str, random: Random) -> Make:
    choices = argument.split("|")
    return lambda _: random.choice(choices)


def _text(argument: str, random: Random) -> Make | None:
    if re.fullmatch(r"[0-9]+", argument) is None:
        return None
    length = int(argument)
    return lambda _: "".join(random.choices(string.ascii_lowercase, k=length))


def _now_ms() -> int:
    return int(time.time() * 1000)
