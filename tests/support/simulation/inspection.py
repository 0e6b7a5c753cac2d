"""Inspection of the brokers of a run: the contents of their logs below the high watermarks, and the leaders.

It reads what production objects say and changes nothing. Each log is read once: what was committed there must still
be there, and is not compared again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

from client.topic_partition import TopicPartition
from protocol.record_batch import iter_batches
from replication.partition import Partition
from storage.log.log import Log
from support.simulation.cluster import SimulatedCluster
from support.simulation.ledger import BrokenPromiseError, Ledger, StoredBatch

_EVERYTHING = 1 << 30


class Inspection:
    """Compares the replicas with the ledger on request."""

    def __init__(
        self,
        cluster: SimulatedCluster,
        ledger: Ledger,
        partitions: Sequence[TopicPartition],
        has_lost_some: Callable[[int], bool],
    ) -> None:
        """has_lost_some: whether a broker may lack committed records, because its power was cut."""
        self._has_lost_some = has_lost_some
        self._cluster = cluster
        self._ledger = ledger
        self._partitions = partitions
        self._compared: dict[tuple[int, TopicPartition], tuple[Log, int]] = {}

    def look(self) -> None:
        """Compare the committed records of the replicas. Raises BrokenPromiseError."""
        if self._ledger.broken is not None:
            raise self._ledger.broken
        for broker_id, host in self._cluster.hosts.items():
            broker = host.broker
            if broker is None or broker.services is None:
                continue
            for key in self._partitions:
                log = self._log(broker_id, key)
                if log is not None and not host.disk.is_broken(str(log.directory)):
                    self._compare(broker_id, key, log)

        for key in self._partitions:
            self._check_in_sync(key)

    def _check_in_sync(self, key: TopicPartition) -> None:
        """Check that every electable replica has all committed records."""
        state = self._cluster.state(*key)
        end = self._ledger.of(*key).committed_end
        for broker_id in state.isr if state is not None else ():
            log = self._log(broker_id, key)
            if log is not None and log.log_end_offset < end and not self._has_lost_some(broker_id):
                raise BrokenPromiseError(
                    f"{key} is committed up to {end}, broker {broker_id} is in sync and ends at {log.log_end_offset}"
                )

    def _compare(self, broker_id: int, key: TopicPartition, log: Log) -> None:
        known, compared = self._compared.get((broker_id, key), (None, 0))
        if known is not log:  # the broker was restarted: its committed offsets are checked from the start
            compared = 0
        end = log.high_watermark
        if log.log_end_offset < compared:
            raise BrokenPromiseError(
                f"{key} on broker {broker_id} was committed up to {compared} and ends at {log.log_end_offset}"
            )
        if end < compared:
            raise BrokenPromiseError(f"{key} on broker {broker_id}: the high watermark went from {compared} to {end}")
        for batch in stored(log, compared, end):
            self._ledger.commit(*key, batch, broker_id)
        self._compared[broker_id, key] = (log, end)

    def are_equal(self) -> bool:
        """Whether no replica moves, and all are in sync, with the same log end offset and high watermark."""
        for key in self._partitions:
            if not self._cluster.is_in_sync(*key) or self._cluster.is_moving(*key):
                return False
            logs = [self._log(broker_id, key) for broker_id in self._cluster.replicas(*key)]
            if len({(log.log_end_offset, log.high_watermark) if log is not None else None for log in logs}) != 1:
                return False
            if logs[0] is None or logs[0].high_watermark != logs[0].log_end_offset:
                return False
        return True

    def compare_whole_logs(self) -> dict[TopicPartition, int]:
        """Compare all replicas of an idle cluster byte by byte. Return their end offsets."""
        ends = {}
        for key in self._partitions:
            replicas = self._cluster.replicas(*key)
            contents = {broker_id: _bytes(self._log(broker_id, key)) for broker_id in replicas}
            if len(set(contents.values())) != 1:
                sizes = {broker_id: len(content) for broker_id, content in contents.items()}
                raise BrokenPromiseError(f"the replicas of {key} differ: {sizes} bytes")
            log = self._log(replicas[0], key)
            assert log is not None
            ends[key] = log.log_end_offset
        return ends

    def _log(self, broker_id: int, key: TopicPartition) -> Log | None:
        broker = self._cluster.hosts[broker_id].broker
        if broker is None or broker.services is None:
            return None
        partition = broker.services.replicas.partitions.get(key)
        return None if partition is None else partition.log


def stored(log: Log, start: int, end: int) -> list[StoredBatch]:
    """The batches of a log that begin in [start, end)."""
    found = []
    offset = max(start, log.log_start_offset)
    while offset < end:
        records = log.read(offset, _EVERYTHING, max_offset=end).records
        if records is None:
            break
        for batch in iter_batches(records.to_bytes()):
            batch.check_crc()
            if batch.base_offset >= start:
                found.append(StoredBatch.of(batch))
            offset = batch.next_offset
    return found


def _bytes(log: Log | None) -> bytes:
    assert log is not None
    parts = []
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        records = log.read(offset, _EVERYTHING, max_offset=log.log_end_offset).records
        assert records is not None
        data = records.to_bytes()
        parts.append(data)
        offset = [batch.next_offset for batch in iter_batches(data)][-1]
    return b"".join(parts)


def watch_leaders(ledger: Ledger, topics: Collection[str]) -> Callable[[], None]:
    """Report every broker that becomes a leader to the ledger. Call the returned function to end this."""
    production = Partition.make_leader

    def make_leader(self: Partition, log: Log, *, broker_id: int, leader_epoch: int, **named: Any) -> None:
        if self.topic in topics:
            ledger.lead(self.topic, self.partition, leader_epoch, broker_id)
        production(self, log, broker_id=broker_id, leader_epoch=leader_epoch, **named)

    Partition.make_leader = make_leader  # type: ignore[method-assign]

    def end() -> None:
        Partition.make_leader = production  # type: ignore[method-assign]

    return end
