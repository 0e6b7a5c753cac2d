"""Many reads of the registry at once: ZooKeeper answers a session's requests in order, one round trip for many."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeVar

K = TypeVar("K")
T = TypeVar("T")

READS_AT_ONCE: Final = 200
"""So many hide the round trip; each is a task."""


async def read_all(read: Callable[[K], Awaitable[T]], keys: Sequence[K]) -> list[T]:
    """What `read` returns for each key, in their order. Raises what one of them raises."""
    found: list[T] = []
    for start in range(0, len(keys), READS_AT_ONCE):
        found += await asyncio.gather(*map(read, keys[start : start + READS_AT_ONCE]))
    return found
