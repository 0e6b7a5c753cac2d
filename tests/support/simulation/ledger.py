"""The guarantees of Kafka, checked against the observations of producers, consumers, replicas and leaders.

Whoever sees something that contradicts what was seen before raises `BrokenPromiseError`. Values are unique, so a
record is known by its value.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from client.consumer.fetched import ConsumerRecord
from protocol.record_batch import RecordBatch

Key = tuple[str, int]


class BrokenPromiseError(AssertionError):
    """An observation contradicts a guarantee."""


class StoredBatch(NamedTuple):
    """The fields of a batch in a log that must be equal on all replicas."""

    base_offset: int
    last_offset: int
    leader_epoch: int
    crc: int

    @classmethod
    def of(cls, batch: RecordBatch) -> StoredBatch:
        """The contents of a log."""
        return cls(batch.base_offset, batch.last_offset, batch.partition_leader_epoch, batch.crc)


@dataclass
class PartitionLedger:
    """One partition."""

    acknowledged: dict[int, bytes] = field(default_factory=dict)
    """By offset: with acks=all."""
    acknowledged_somewhere: set[bytes] = field(default_factory=set)
    """Those that the broker knew it had, and not where."""
    seen: dict[int, bytes] = field(default_factory=dict)
    """By offset: what consumers were given."""
    committed: dict[int, StoredBatch] = field(default_factory=dict)
    """By base offset: what was below the high watermark of a replica."""
    committed_end: int = 0
    """The highest high watermark, as far as whole batches."""
    leaders: dict[int, int] = field(default_factory=dict)
    """Broker by leader epoch."""


class Ledger:
    """All partitions."""

    def __init__(self) -> None:
        self.partitions: dict[Key, PartitionLedger] = {}
        self.broken: BrokenPromiseError | None = None
        """What was seen where it could not be raised: within a broker."""

    def of(self, topic: str, partition: int) -> PartitionLedger:
        """The ledger of one partition."""
        return self.partitions.setdefault((topic, partition), PartitionLedger())

    @property
    def acknowledged(self) -> int:
        """The number of acknowledged records."""
        return sum(len(one.acknowledged) + len(one.acknowledged_somewhere) for one in self.partitions.values())

    @property
    def consumed(self) -> int:
        """The number of records that consumers have received."""
        return sum(len(one.seen) for one in self.partitions.values())

    def acknowledge(self, topic: str, partition: int, offset: int, value: bytes) -> None:
        """Record an acknowledgement of a producer; offset -1: unknown."""
        ledger = self.of(topic, partition)
        if offset < 0:
            ledger.acknowledged_somewhere.add(value)
            return
        before = ledger.acknowledged.setdefault(offset, value)
        if before != value:
            raise BrokenPromiseError(f"{topic}-{partition}@{offset} was acknowledged twice: {before!r} and {value!r}")
        self._agree(topic, partition, offset, ledger.seen.get(offset), value)

    def consume(self, record: ConsumerRecord, expected_offset: int) -> None:
        """Record that a consumer received a record when it expected an offset."""
        topic, partition, offset = record.topic, record.partition, record.offset
        assert record.value is not None
        if offset != expected_offset:
            raise BrokenPromiseError(f"{topic}-{partition}: offset {offset} came where {expected_offset} was to come")
        ledger = self.of(topic, partition)
        self._agree(topic, partition, offset, ledger.seen.setdefault(offset, record.value), record.value)
        self._agree(topic, partition, offset, ledger.acknowledged.get(offset), record.value)

    def _agree(self, topic: str, partition: int, offset: int, one: bytes | None, other: bytes) -> None:
        if one is not None and one != other:
            raise BrokenPromiseError(f"{topic}-{partition}@{offset} was {one!r} and is {other!r}")

    def answer_end(self, key: Key, end: int, at_least: int) -> None:
        """Record the end offset that a consumer received; `at_least`: the offset that it knew at its request."""
        if end < at_least:
            raise BrokenPromiseError(f"{key} was seen up to {at_least}, and is said to end at {end}")

    def lead(self, topic: str, partition: int, leader_epoch: int, broker_id: int) -> None:
        """Record that a broker leads in an epoch."""
        before = self.of(topic, partition).leaders.setdefault(leader_epoch, broker_id)
        if before != broker_id and self.broken is None:
            text = f"{topic}-{partition}: brokers {before} and {broker_id} lead epoch {leader_epoch}"
            self.broken = BrokenPromiseError(text)

    def commit(self, topic: str, partition: int, batch: StoredBatch, broker_id: int) -> None:
        """Record a batch below the high watermark in a replica's log."""
        ledger = self.of(topic, partition)
        ledger.committed_end = max(ledger.committed_end, batch.last_offset + 1)
        before = ledger.committed.setdefault(batch.base_offset, batch)
        if before != batch:
            raise BrokenPromiseError(f"{topic}-{partition}: {before} was committed, broker {broker_id} has {batch}")

    def check_complete(self, topic: str, partition: int, content: dict[int, bytes]) -> None:
        """The whole partition, as read at the end."""
        ledger = self.of(topic, partition)
        for what, offsets in (("acknowledged", ledger.acknowledged), ("given to consumers", ledger.seen)):
            for offset, value in offsets.items():
                if content.get(offset) != value:
                    there = content.get(offset)
                    raise BrokenPromiseError(f"{topic}-{partition}@{offset} was {what} as {value!r}, and is {there!r}")
        if missing := ledger.acknowledged_somewhere.difference(content.values()):
            raise BrokenPromiseError(f"{topic}-{partition}: {sorted(missing)} were acknowledged, and are not there")
        self._check_order(topic, partition, content)

    def _check_order(self, topic: str, partition: int, content: dict[int, bytes]) -> None:
        """Check that each value occurs once, and each producer's values in order. Values are `<producer>-<number>`."""
        last: dict[bytes, tuple[int, int]] = {}
        for offset in sorted(content):
            producer, _, number = content[offset].partition(b"-")
            before = last.get(producer)
            if before is not None and int(number) <= before[0]:
                raise BrokenPromiseError(
                    f"{topic}-{partition}: {content[offset]!r} at {offset} is behind number {before[0]} at {before[1]}"
                )
            last[producer] = (int(number), offset)
