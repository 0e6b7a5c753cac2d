"""The groups that somebody looks at: one reading for all who look, its history, and samples while nobody does.

A group is watched from the first look until half an hour after the last one. At most `MAX_WATCHED` groups are; the one
that was looked at longest ago makes room. Without a watched group there is no task.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Final, Generic, TypeVar

from client.admin.admin import Admin
from client.errors import KafkaError
from console.groups.history import KEPT_S, SAMPLE_S, LagHistory
from console.groups.readings import GroupReading, Summaries, read_group, read_summaries
from console.groups.timeline import Timeline

MAX_WATCHED: Final = 20
FRESH_S: Final = 0.5
"""How old the reading of a group may be that is shown."""
SUMMARIES_FRESH_S: Final = 3.0
REST: Final = 5
"""Reading all groups takes at most one part in this many of the time."""
T = TypeVar("T")


class SharedReading(Generic[T]):
    """One reading at a time, for all who ask: who asks while it runs, or soon after it, gets the same one."""

    def __init__(self, read: Callable[[], Awaitable[T]], fresh_s: float, clock: Callable[[], float]) -> None:
        """clock: in seconds, monotonic."""
        self._read = read
        self._fresh_s = fresh_s
        self._clock = clock
        self._task: asyncio.Task[T] | None = None
        self._stale_at = 0.0

    async def get(self) -> T:
        """Return a reading. Raises the errors of `read`."""
        if self._task is None or (self._task.done() and (_failed(self._task) or self._clock() >= self._stale_at)):
            self._task = asyncio.ensure_future(self._run())
        return await asyncio.shield(self._task)

    async def _run(self) -> T:
        start = self._clock()
        found = await self._read()
        end = self._clock()
        self._stale_at = end + max(self._fresh_s, (end - start) * REST)
        return found

    async def close(self) -> None:
        """End a reading that runs."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)


def _failed(task: asyncio.Task[T]) -> bool:
    return task.cancelled() or task.exception() is not None


class GroupWatch:
    """One watched group."""

    def __init__(self, admin: Admin, group_id: str, clock: Callable[[], float], now_ms: Callable[[], int]) -> None:
        self._admin = admin
        self._group_id = group_id
        self._now_ms = now_ms
        self.history = LagHistory()
        self.timeline = Timeline()
        self.looked_at = clock()
        self.reading = SharedReading(self._read, FRESH_S, clock)
        self.read_at_ms = 0
        """The time of the last reading."""

    async def _read(self) -> GroupReading:
        found = await read_group(self._admin, self._group_id)
        self.read_at_ms = now_ms = self._now_ms()
        self.timeline.add(now_ms, found.group)
        offsets = {
            partition: (found.committed_offset(partition), found.ends.get(partition))
            for partition in found.committed.keys() | found.ends.keys()
        }
        self.history.add(now_ms, offsets)
        return found


class GroupWatches:
    """All watched groups of a console, and the summaries of all groups."""

    def __init__(
        self,
        *,
        clock: Callable[[], float] = time.monotonic,
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
        sample_s: float = SAMPLE_S,
    ) -> None:
        """clock: in seconds, monotonic. sample_s: the time between two samples."""
        self._clock = clock
        self._now_ms = now_ms
        self._sample_s = sample_s
        self._watches: dict[str, GroupWatch] = {}
        self._sampling: asyncio.Task[None] | None = None
        self._summaries: SharedReading[Summaries] | None = None

    async def look(self, admin: Admin, group_id: str) -> tuple[GroupWatch, GroupReading]:
        """Read a group, and watch it from now on. Raises GroupIdNotFoundError, TimeoutError and other errors."""
        watch = self._watches.pop(group_id, None)
        if watch is None:
            watch = GroupWatch(admin, group_id, self._clock, self._now_ms)
            while len(self._watches) >= MAX_WATCHED:
                await self._watches.pop(next(iter(self._watches))).reading.close()
        self._watches[group_id] = watch  # the last one was looked at last
        watch.looked_at = self._clock()
        try:
            reading = await watch.reading.get()
        except KafkaError:
            if not watch.history.times_ms and self._watches.get(group_id) is watch:
                del self._watches[group_id]
            raise
        if self._sampling is None or self._sampling.done():
            self._sampling = asyncio.ensure_future(self._sample())
        return watch, reading

    async def summaries(self, admin: Admin) -> Summaries:
        """Return the members and the lag of all groups, a few seconds old at most."""
        if self._summaries is None:
            self._summaries = SharedReading(lambda: read_summaries(admin), SUMMARIES_FRESH_S, self._clock)
        return await self._summaries.get()

    @property
    def watched(self) -> list[str]:
        """The groups that are watched."""
        return list(self._watches)

    async def close(self) -> None:
        """End all readings."""
        if self._sampling is not None:
            self._sampling.cancel()
            await asyncio.gather(self._sampling, return_exceptions=True)
        for watch in self._watches.values():
            await watch.reading.close()
        self._watches.clear()
        if self._summaries is not None:
            await self._summaries.close()

    async def _sample(self) -> None:
        """Read the watched groups every now and then, until nobody has looked at one for half an hour."""
        while True:
            await asyncio.sleep(self._sample_s)
            oldest = self._clock() - KEPT_S
            for group_id in [name for name, watch in self._watches.items() if watch.looked_at < oldest]:
                await self._watches.pop(group_id).reading.close()
            if not self._watches:
                return
            readings = (watch.reading.get() for watch in list(self._watches.values()))
            await asyncio.gather(*readings, return_exceptions=True)
