"""Concurrent reads of the registry. ZooKeeper answers a session's requests in order, so many share one round trip."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeVar

K = TypeVar("K")
T = TypeVar("T")

READS_AT_ONCE: Final = 200
"""Number of concurrent reads, each of them a task: enough to hide the round trip."""


async def read_all(read: Callable[[K], Awaitable[T]], keys: Sequence[K]) -> list[T]:
    """Return the result of `read` for each key, in the order of the keys. Raises the exceptions of `read`."""
    found: list[T] = []
    for start in range(0, len(keys), READS_AT_ONCE):
        found += await asyncio.gather(*map(read, keys[start : start + READS_AT_ONCE]))
    return found
