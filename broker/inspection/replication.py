"""Replication of this broker's partitions for the console: how far the replicas are, and the way of one record.

A trace is hung into its partition, and into the Produce handler, only while it watches. Without one, a produce request
costs two comparisons with None more.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from time import perf_counter
from typing import Final, NamedTuple

from broker.requests.context import RequestContext
from broker.services import Services
from console.inspection.errors import BusyError, NotHereError, NothingThereError
from console.inspection.replication import FollowerState, ReplicationState, TraceStep
from protocol.sentinels import NO_LEADER, UNKNOWN_OFFSET
from replication.follower_progress import NEVER
from replication.partition import Partition
from storage.log.append import LogAppendInfo

MAX_EVENTS: Final = 2_000
"""Events of each kind that a trace keeps: the newest ones."""
SETTLE_S: Final = 2.0
"""How long a trace waits for followers after the answer."""


class _Appended(NamedTuple):
    first_offset: int
    last_offset: int
    received_s: float
    at_s: float


class PartitionTrace:
    """Implements `console.inspection.replication.PartitionTrace`, and `replication.partition.PartitionWatcher`."""

    def __init__(self, services: Services, partition: Partition) -> None:
        self._services = services
        self._partition = partition
        self._received_s = 0.0
        self._appends: deque[_Appended] = deque(maxlen=MAX_EVENTS)
        self._fetches: deque[tuple[int, int, float]] = deque(maxlen=MAX_EVENTS)
        self._watermarks: deque[tuple[int, float]] = deque(maxlen=MAX_EVENTS)
        self._changed = asyncio.Event()
        self._ends_before = dict(partition.sync.end_offsets) if partition.sync is not None else {}
        partition.watcher = self
        services.produce_watchers.add(self)

    def close(self) -> None:
        """See `PartitionTrace`. Idempotent."""
        if self._partition.watcher is self:
            self._partition.watcher = None
        self._services.produce_watchers.discard(self)

    # -- called by the broker --------------------------------------------------------------------------------------

    def produce_received(self, context: RequestContext) -> None:
        """See `broker.services.ProduceWatcher`."""
        self._received_s = context.began_s

    def appended(self, info: LogAppendInfo) -> None:
        """See `PartitionWatcher`."""
        now_s = perf_counter()
        self._appends.append(_Appended(info.first_offset, info.last_offset, self._received_s, now_s))
        sync = self._partition.sync
        if sync is not None and not sync.end_offsets:
            self._watermarks.append((info.last_offset + 1, now_s))  # one replica: what is appended is committed

    def follower_fetched(self, replica_id: int, offset: int) -> None:
        """See `PartitionWatcher`."""
        self._fetches.append((replica_id, offset, perf_counter()))
        self._changed.set()

    def high_watermark_moved(self, offset: int) -> None:
        """See `PartitionWatcher`."""
        self._watermarks.append((offset, perf_counter()))

    # -- called by the console -------------------------------------------------------------------------------------

    async def settled(self, offset: int) -> list[int]:
        """See `PartitionTrace`."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(SETTLE_S):
                while self._missing(offset):
                    self._changed.clear()
                    await self._changed.wait()
        return self._missing(offset)

    def _missing(self, offset: int) -> list[int]:
        have = {replica for replica, fetched, _ in self._fetches if fetched > offset}
        return sorted(set(self._ends_before) - have)

    def steps(self, offset: int, sent_s: float) -> list[TraceStep]:
        """See `PartitionTrace`."""
        broker_id = self._services.broker_id
        found: list[tuple[str, int | None, float]] = []
        for one in self._appends:
            if one.first_offset <= offset <= one.last_offset:
                if one.received_s >= sent_s:
                    found.append(("RECEIVED", broker_id, one.received_s))
                found.append(("APPENDED", broker_id, one.at_s))
                break
        seen: set[int] = set()
        for replica, fetched, at_s in self._fetches:
            if fetched > offset and replica not in seen:
                seen.add(replica)
                found.append(("FETCHED", replica, at_s))
        committed = next((at_s for watermark, at_s in self._watermarks if watermark > offset), None)
        if committed is not None:
            found.append(("COMMITTED", broker_id, committed))
        return [
            TraceStep(step=name, broker_id=broker, at_us=round((at_s - sent_s) * 1e6)) for name, broker, at_s in found
        ]


class Replication:
    """Implements `console.inspection.replication.ReplicationInspection`."""

    def __init__(self, services: Services) -> None:
        self._services = services

    def state(self, topic: str, partition: int) -> ReplicationState:
        """See `ReplicationInspection`."""
        found = self._partition(topic, partition)
        log, sync = found.log, found.sync
        assert log is not None
        followers = []
        if sync is not None:
            now_ms = sync.rules.now_ms()
            for broker_id, end_offset in sync.end_offsets.items():
                caught_up_ms = sync.progress[broker_id].last_caught_up_ms
                is_caught_up = end_offset == log.log_end_offset
                ago = None if caught_up_ms == NEVER else 0 if is_caught_up else max(now_ms - caught_up_ms, 0)
                followers.append(
                    FollowerState(
                        broker_id=broker_id,
                        end_offset=None if end_offset == UNKNOWN_OFFSET else end_offset,
                        is_in_sync=broker_id in found.isr,
                        caught_up_ms_ago=ago,
                    )
                )
        return ReplicationState(
            broker_id=self._services.broker_id,
            leader=None if found.leader_id == NO_LEADER else found.leader_id,
            leader_epoch=found.leader_epoch,
            replicas=list(found.replicas),
            isr=list(found.isr),
            min_insync_replicas=log.config.min_insync_replicas,
            log_start_offset=log.log_start_offset,
            high_watermark=log.high_watermark,
            log_end_offset=log.log_end_offset,
            followers=followers,
        )

    def trace(self, topic: str, partition: int) -> PartitionTrace:
        """See `ReplicationInspection`."""
        found = self._partition(topic, partition)
        if not found.is_leader:
            raise NotHereError(
                f"Broker {found.leader_id} leads {topic}-{partition}: only its console can follow a record."
            )
        if found.watcher is not None:
            raise BusyError(f"A record of {topic}-{partition} is being followed; try again in a moment.")
        return PartitionTrace(self._services, found)

    def _partition(self, topic: str, partition: int) -> Partition:
        """Return a partition with a log. Raises NothingThereError."""
        found = self._services.replicas.partitions.get((topic, partition))
        if found is not None and found.log is not None:
            return found
        state = self._services.metadata.snapshot.partition(topic, partition)
        if state is None:
            raise NothingThereError(f"there is no partition {topic}-{partition}")
        brokers = ", ".join(map(str, state.replicas))
        raise NothingThereError(f"{topic}-{partition} is not on this broker, but on: {brokers}")
