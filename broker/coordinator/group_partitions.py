"""The partitions of `__consumer_offsets` that this broker leads, and the groups in each.

A partition's groups are read from its log when this broker is elected its leader, and forgotten when it resigns. In
between they are looked for here, and nowhere else.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable, Iterator
from functools import partial
from typing import Any

from broker.coordinator.consumer.group import AnyGroup
from broker.coordinator.coordinator_log import Batches, CoordinatorLog
from broker.coordinator.group_replay import GroupReplay

logger = logging.getLogger(__name__)

RECORDS_A_TURN = 500
"""Records that are taken in one turn of the event loop while a partition is loaded."""


class GroupsPartition:
    """The groups of one partition in one term."""

    __slots__ = ("groups", "is_loading", "open_groups", "partition", "term")

    def __init__(self, partition: int, term: int) -> None:
        self.partition = partition
        self.term = term
        self.is_loading = True
        self.groups: dict[str, AnyGroup] = {}
        self.open_groups: dict[int, set[str]] = {}
        """Groups that have offsets in the open transaction of a producer, by its id."""


class GroupPartitions:
    """All of them. See the module docstring."""

    def __init__(
        self,
        log: CoordinatorLog,
        *,
        now_ms: Callable[[], int],
        start_task: Callable[[Coroutine[Any, Any, None]], None],
        loaded: Callable[[AnyGroup], None],
        unload: Callable[[AnyGroup], None],
    ) -> None:
        """loaded: a group has been read. unload: a group is forgotten."""
        self._log = log
        self._now_ms = now_ms
        self._start_task = start_task
        self._loaded = loaded
        self._unload = unload
        self._partitions: dict[int, GroupsPartition] = {}
        self._one_at_a_time = asyncio.Semaphore(1)

    def listen(self) -> None:
        """Begin to follow the terms of the log."""
        self._log.listen(self._elected, self._resigned)

    @property
    def is_loading(self) -> bool:
        """True while a partition is being loaded."""
        return any(partition.is_loading for partition in self._partitions.values())

    def of(self, group_id: str) -> GroupsPartition | None:
        """The partition that a group belongs to, loaded or not; None where another broker leads it."""
        return self._partitions.get(self._log.partition_for(group_id))

    def by_number(self, numbers: Iterable[int]) -> Iterator[GroupsPartition]:
        """Those of these partitions that are here."""
        return (self._partitions[number] for number in numbers if number in self._partitions)

    def all_groups(self) -> Iterator[tuple[GroupsPartition, AnyGroup]]:
        """Every group of every partition that is loaded. It may be forgotten meanwhile."""
        for partition in list(self._partitions.values()):
            if not partition.is_loading:
                for group in list(partition.groups.values()):
                    yield partition, group

    def _elected(self, number: int, term: int) -> None:
        self._partitions[number] = partition = GroupsPartition(number, term)
        self._start_task(self._load(partition))

    def _resigned(self, number: int) -> None:
        partition = self._partitions.pop(number)
        for group in list(partition.groups.values()):
            self._unload(group)

    async def _load(self, partition: GroupsPartition) -> None:
        name = f"{self._log.topic}-{partition.partition}"
        started_s = asyncio.get_running_loop().time()
        replayed = await self._log.replay(partition.partition, partition.term, partial(self._replay, name))
        if replayed is None or self._partitions.get(partition.partition) is not partition:
            return
        replay, count = replayed
        partition.groups = replay.groups()
        for group in list(partition.groups.values()):
            for producer_id in group.offsets.producers:
                partition.open_groups.setdefault(producer_id, set()).add(group.group_id)
            self._loaded(group)
        partition.is_loading = False
        if count:
            took_s = asyncio.get_running_loop().time() - started_s
            logger.info("%s: %d groups from %d records in %.1f s", name, len(partition.groups), count, took_s)

    async def _replay(self, name: str, batches: Batches) -> tuple[GroupReplay, int]:
        """What the log says, and the number of its records."""
        async with self._one_at_a_time:
            replay = GroupReplay(name, self._now_ms())
            count = since_pause = 0
            async for batch in batches:
                taken = replay.apply(batch)
                count += taken
                since_pause += taken
                if since_pause >= RECORDS_A_TURN:
                    since_pause = 0
                    await asyncio.sleep(0)
            return replay, count

    def close(self) -> None:
        """Tell everybody who waits that this broker stops."""
        for number in list(self._partitions):
            self._resigned(number)
