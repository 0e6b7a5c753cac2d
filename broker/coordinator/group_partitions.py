"""The partitions of `__consumer_offsets` that this broker leads, and the groups in each.

The groups of a partition are read from its log when this broker becomes the leader, and dropped from memory when it
resigns. Every lookup of a group goes through `GroupPartitions`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterator
from functools import partial
from typing import Any

from broker.coordinator.consumer.group import AnyGroup
from broker.coordinator.coordinator_log import Batches, CoordinatorLog
from broker.coordinator.group_replay import GroupReplay
from protocol.error_codes import ErrorCode

logger = logging.getLogger(__name__)

RECORDS_A_TURN = 500
"""The number of records to read in one iteration of the event loop while a partition is loading."""


class GroupsPartition:
    """The groups of one partition during one term."""

    __slots__ = ("_ended", "groups", "is_loading", "open_groups", "partition", "term")

    def __init__(self, partition: int, term: int) -> None:
        self.partition = partition
        self.term = term
        self.is_loading = True
        self.groups: dict[str, AnyGroup] = {}
        self.open_groups: dict[int, set[str]] = {}
        """By producer id: the groups that have offsets in the producer's open transaction."""
        self._ended: list[tuple[int, int, bool]] = []
        """The transactions that have ended since the loading began: producer id, marker's offset, whether committed."""

    def finish_loading(self, groups: dict[str, AnyGroup]) -> None:
        """Adopt the groups that were read from the log, which may not have the ends of transactions since then."""
        self.groups = groups
        for group in groups.values():
            for producer_id in group.offsets.producers:
                self.open_groups.setdefault(producer_id, set()).add(group.group_id)
        self.is_loading = False
        for producer_id, marker_offset, committed in self._ended:
            self.end_transaction(producer_id, marker_offset, committed=committed)
        self._ended.clear()

    def end_transaction(self, producer_id: int, marker_offset: int, *, committed: bool) -> None:
        """End a producer's transaction in all groups: see `GroupOffsets.end_transaction`."""
        if self.is_loading:
            self._ended.append((producer_id, marker_offset, committed))
            return
        found = [self.groups.get(group_id) for group_id in self.open_groups.pop(producer_id, ())]
        left = {
            group.group_id
            for group in found
            if group is not None and group.offsets.end_transaction(producer_id, marker_offset, committed=committed)
        }
        if left:
            self.open_groups[producer_id] = left


class GroupPartitions:
    """All partitions that this broker leads. See the module docstring."""

    def __init__(
        self,
        log: CoordinatorLog,
        *,
        now_ms: Callable[[], int],
        start_task: Callable[[Coroutine[Any, Any, None]], None],
        loaded: Callable[[AnyGroup], None],
        unload: Callable[[AnyGroup], None],
    ) -> None:
        """loaded: called for every group that was read. unload: called for every group when this broker resigns."""
        self._log = log
        self._now_ms = now_ms
        self._start_task = start_task
        self._loaded = loaded
        self.unload = unload
        self._partitions: dict[int, GroupsPartition] = {}
        self._one_at_a_time = asyncio.Semaphore(1)
        self.is_closed = False

    def listen(self) -> None:
        """Start listening to the terms of the log."""
        self._log.listen(self._elected, self._resigned)

    @property
    def is_loading(self) -> bool:
        """True while any partition is loading."""
        return any(partition.is_loading for partition in self._partitions.values())

    def of(self, group_id: str) -> GroupsPartition | None:
        """Return the partition of a group, even if it is still loading; None if this broker is not its leader."""
        return self._partitions.get(self._log.partition_for(group_id))

    def find(self, group_id: str, *, may_be_empty: bool = False) -> GroupsPartition | ErrorCode:
        """Return the partition of a group, or the error if this broker cannot serve the group.

        may_be_empty: accept the empty group id. Old clients commit offsets with it, so it can be described and deleted.
        """
        if not group_id and not may_be_empty:
            return ErrorCode.INVALID_GROUP_ID
        if self.is_closed:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        partition = self.of(group_id)
        if partition is None:
            return ErrorCode.NOT_COORDINATOR
        return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if partition.is_loading else partition

    def by_number(self, number: int) -> GroupsPartition | None:
        """Return the partition with this number; None if this broker does not lead it."""
        return self._partitions.get(number)

    def all_groups(self) -> Iterator[tuple[GroupsPartition, AnyGroup]]:
        """Yield every group of every loaded partition. Groups may be removed during the iteration."""
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
            self.unload(group)

    async def _load(self, partition: GroupsPartition) -> None:
        name = f"{self._log.topic}-{partition.partition}"
        started_s = asyncio.get_running_loop().time()
        replayed = await self._log.replay(partition.partition, partition.term, partial(self._replay, name))
        if replayed is None or self._partitions.get(partition.partition) is not partition:
            return
        replay, count = replayed
        partition.finish_loading(replay.groups())
        for group in list(partition.groups.values()):
            self._loaded(group)
        if count:
            took_s = asyncio.get_running_loop().time() - started_s
            logger.info("%s: %d groups from %d records in %.1f s", name, len(partition.groups), count, took_s)

    async def _replay(self, name: str, batches: Batches) -> tuple[GroupReplay, int]:
        """Read all batches. Return the replay and the number of records."""
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
        """Resign from all partitions, because the broker stops. Waiting requests are answered."""
        self.is_closed = True
        self._log.close()
