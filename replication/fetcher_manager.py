"""All fetchers of a broker: `num.replica.fetchers` for each leader that it follows, created with their first partition.

Kafka's hash of topic and partition selects one of the leader's fetchers.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator

from protocol.sentinels import NO_LEADER
from replication.fetch_settings import FetchSettings
from replication.fetch_state import FetchState
from replication.fetcher import Fetcher
from replication.partition import Partition

logger = logging.getLogger(__name__)

Key = tuple[str, int]
FetcherId = tuple[int, int]
"""(leader, number)."""


class FetcherManager:
    """The fetchers by id. `failed`: partitions that are not fetched until the controller sends a new state."""

    def __init__(self, new_fetcher: Callable[[int, int], Fetcher], settings: FetchSettings) -> None:
        """new_fetcher: creates a fetcher, from a leader and a number."""
        self.fetchers: dict[FetcherId, Fetcher] = {}
        self.failed: set[Key] = set()
        self._new_fetcher = new_fetcher
        self._settings = settings
        self._count = settings.num_replica_fetchers
        self._running: dict[FetcherId, asyncio.Task[None]] = {}
        self._resized = asyncio.Event()
        self._leaving: dict[Key, FetchState] = {}  # partitions that move from one fetcher to another
        self._tasks: asyncio.TaskGroup | None = None

    async def run(self) -> None:
        """Run the fetchers until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            self._tasks = tasks
            for fetcher_id, fetcher in self.fetchers.items():
                self._running[fetcher_id] = tasks.create_task(fetcher.run())
            try:
                await self._resize()
            finally:
                self._tasks = None

    def add(self, partition: Partition) -> None:
        """Fetch a partition from its leader, in its leader epoch. Do nothing if it has no leader."""
        key = (partition.topic, partition.partition)
        self.failed.discard(key)
        if partition.leader_id == NO_LEADER or partition.log is None:
            return
        fetcher_id = (partition.leader_id, fetcher_number(*key, self._count))
        fetcher = self.fetchers.get(fetcher_id)
        if fetcher is None:
            fetcher = self.fetchers[fetcher_id] = self._new_fetcher(*fetcher_id)
            if self._tasks is not None:
                self._running[fetcher_id] = self._tasks.create_task(fetcher.run())
        fetcher.add(partition)

    def drop(self, key: Key) -> FetchState | None:
        """Stop fetching a partition. Return its state; None if it was not fetched."""
        self.failed.discard(key)
        for fetcher in self.fetchers.values():
            state = fetcher.remove(key)
            if state is not None:
                return state
        return None

    async def remove(self, keys: Iterable[Key]) -> None:
        """Stop fetching partitions. On return, no task changes their logs."""
        for key in keys:
            for state in (self.drop(key), self._leaving.get(key)):
                if state is not None:
                    await state.until_idle()

    def stop_idle(self) -> None:
        """Stop the fetchers that have no partitions."""
        for fetcher_id in [one for one, fetcher in self.fetchers.items() if not fetcher.states]:
            del self.fetchers[fetcher_id]
            task = self._running.pop(fetcher_id, None)
            if task is not None:
                task.cancel()

    def settings_changed(self) -> None:
        """Distribute the partitions again if the number of fetchers has changed."""
        self._resized.set()

    async def _resize(self) -> None:
        while True:
            await self._resized.wait()
            self._resized.clear()
            if self._settings.num_replica_fetchers == self._count:
                continue
            self._count = self._settings.num_replica_fetchers
            for state in list(self.states()):
                if self.drop(state.key) is not state:
                    continue
                self._leaving[state.key] = state
                await state.until_idle()
                del self._leaving[state.key]
                partition = state.partition
                is_followed = (partition.leader_epoch, partition.is_leader) == (state.leader_epoch, False)
                if is_followed and not self.is_fetched(state.key):  # the controller may have sent a state meanwhile
                    self.add(partition)
            self.stop_idle()

    def is_fetched(self, key: Key) -> bool:
        """Whether a partition is fetched."""
        return any(key in fetcher.states for fetcher in self.fetchers.values())

    def states(self) -> Iterator[FetchState]:
        """Every partition that is fetched."""
        for fetcher in self.fetchers.values():
            yield from fetcher.states.values()


def fetcher_number(topic: str, partition: int, count: int) -> int:
    """Return which of `count` fetchers a partition belongs to, by Java's hash of topic and partition."""
    value = 0
    for character in topic:
        value = (31 * value + ord(character)) & 0xFFFFFFFF
    value = (31 * value + partition) & 0xFFFFFFFF
    signed = value - (1 << 32) if value >> 31 else value
    return 0 if signed == -(1 << 31) else abs(signed) % count
