"""A wait of a test: a deadline, and an error that says what was expected and what was seen instead."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Final, Protocol, TypeVar

from client.errors import KafkaError

T = TypeVar("T")


class _Client(Protocol):
    async def close(self) -> None: ...


C = TypeVar("C", bound=_Client)

CLIENT_ID: Final = "ottla-testing"
REQUEST_TIMEOUT_MS: Final = 10_000
RETRIES_MS: Final = 1_000
"""How long an admin client repeats a failed request by itself: `poll` repeats it, too, and remembers its error."""
TIMEOUT_S: Final = 30.0
"""The deadline of every assertion by default, in seconds. A wait ends when its condition holds."""
_FIRST_PAUSE_S: Final = 0.005
_LONGEST_PAUSE_S: Final = 0.1


class NotYetError(Exception):
    """Raised by a look at a cluster whose condition does not hold yet; the message says what was seen instead."""


class Seen:
    """What a wait has seen last; it becomes a part of the error after the deadline."""

    def __init__(self) -> None:
        self._text: Callable[[], object] = lambda: "no answer of a broker"

    def put(self, text: Callable[[], object]) -> None:
        """Remember what was seen; `text` is called only for the error."""
        self._text = text

    def __str__(self) -> str:
        return str(self._text())


@contextlib.asynccontextmanager
async def deadline(expected: str, timeout_s: float) -> AsyncIterator[Seen]:
    """Run the body for at most `timeout_s` seconds.

    Raises AssertionError after them, with `expected` and what the body has put into the `Seen`.
    """
    seen = Seen()
    try:
        async with asyncio.timeout(timeout_s):
            yield seen
    except TimeoutError:
        raise AssertionError(f"not within {timeout_s:g} s: {expected}. Last seen: {seen}") from None


async def poll(look: Callable[[], Awaitable[T]], seen: Seen) -> T:
    """Await `look()` until it raises neither NotYetError nor a retriable KafkaError; return its result.

    There is no limit: the `deadline` around it ends it. Raises every other error of `look`.
    """
    pause_s = _FIRST_PAUSE_S
    while True:
        try:
            return await look()
        except NotYetError as answer:
            seen.put(answer.__str__)
        except KafkaError as error:
            if not error.retriable:
                raise
            seen.put(f"{type(error).__name__}: {error}".__str__)
        await asyncio.sleep(pause_s)
        pause_s = min(1.5 * pause_s, _LONGEST_PAUSE_S)


@contextlib.asynccontextmanager
async def closed_after(client: C) -> AsyncIterator[C]:
    """Close a client after the body. It connects when it is first used: the cluster may not be there yet."""
    try:
        yield client
    finally:
        await client.close()


def short(value: object, longest: int = 80) -> str:
    """Return the `repr` of a value, cut after `longest` characters."""
    text = repr(value)
    return text if len(text) <= longest else f"{text[:longest]}… ({len(text)} characters)"


def number_of(count: int, name: str) -> str:
    """Return a count with its noun: "1 record", "2 records"."""
    return f"{count} {name}" if count == 1 else f"{count} {name}s"
