"""Collects records in batches, in one queue for each partition.

A batch is built (compressed, numbered) just before it is first sent. A retry sends the same bytes, so that a broker
recognises a duplicate. The order within a partition holds because of these rules:

- Batches are sent in the order of the queue. The sequence numbers of each batch in flight continue those of the batch
  before it, and a broker accepts no batch before its predecessor.
- After a failure no new batch is sent until every batch in flight is answered. Then all remaining batches are sent
  again, oldest first. A broker recognises those that it has written: it remembers the last five batches of a producer,
  so at most five are in flight.
- The first batch under a producer id and epoch is sent alone: a broker that does not know a producer accepts any first
  sequence number.
- A batch keeps its sequence numbers as long as it might have been written. A batch that is refused as out of order
  might have been written, because a broker remembers fewer batches after a restart. But the broker still remembers the
  last batch that it wrote, and it writes no batch without its predecessor. So the batches behind the refused batch are
  sent as well: if one of them is written, all batches before it are; if all are refused, none was written, and they
  get new sequence numbers under another epoch.
- But a broker goes on with the requests of a connection that the client has given up. If an earlier batch failed, these
  may write that batch yet, and then those that were refused for want of it. So the refused batches that were sent on
  a lost connection, too, fail with it. When the next batch is written, under another epoch, none of them can be.

A batch that a broker refuses as too large is split into two halves, repeatedly, until a single record is too large.

Without idempotence there are no sequence numbers, and a partition has one batch in flight at a time.
"""

import asyncio
import struct
from collections import deque
from collections.abc import Callable, Sequence
from itertools import repeat
from typing import NamedTuple, TypeVar

from client.errors import KafkaError, error_for
from client.producer.identity import NONE
from client.topic_partition import TopicPartition
from protocol.error_codes import ErrorCode
from protocol.record import Header
from protocol.record_batch import BATCH_HEADER_SIZE, PRODUCER_ID_OFFSET, read_batch, update_crc
from protocol.record_batch_builder import RecordBatchBuilder

# Bytes charged to the buffer memory for each record beyond key, value and headers; and how many of these a record does
# not need in a batch. Length, attributes, deltas and lengths need at most 12 bytes there, or a few more in records so
# large that the difference does not matter.
RECORD_OVERHEAD = 32
_SLACK = 20
RECORD_BYTES = RECORD_OVERHEAD - _SLACK
# A broker remembers this many batches of one producer in one partition.
MAX_IN_FLIGHT_PER_PARTITION = 5

_SEQUENCE_MASK = 0x7FFFFFFF
_PRODUCER = struct.Struct(">qhi")


# A record between `send` and the bytes of its batch: timestamp, key, value, headers, the future of its RecordMetadata,
# bytes charged to the buffer memory. A plain tuple, because a more expensive object lowers the throughput measurably.
PendingRecord = tuple[int, bytes | None, bytes | None, tuple[Header, ...], "asyncio.Future[RecordMetadata]", int]


def size_of_headers(headers: Sequence[Header]) -> int:
    """The number of bytes charged for the headers. Raises TypeError for an invalid header."""
    size = 0
    for name, content in headers:
        if not isinstance(name, str) or not (content is None or isinstance(content, bytes)):
            raise TypeError(f"a header must be a name and bytes or None, not {(name, content)!r}")
        size += 10 + len(name.encode()) + (0 if content is None else len(content))
    return size


def too_large(size: int, limit: int, topic: str = "") -> KafkaError:
    """The error for a record of `size` bytes, which exceeds `limit`, the largest request."""
    message = f"the record has about {size} bytes, max_request_size is {limit}"
    return error_for(ErrorCode.MESSAGE_TOO_LARGE, message, context=topic)


class RecordMetadata(NamedTuple):
    """Where a record was written. `offset` is -1 with acks=0, or if the broker had written the record before."""

    topic: str
    partition: int
    offset: int
    timestamp: int

    @property
    def topic_partition(self) -> TopicPartition:
        """Topic and partition as a TopicPartition."""
        return TopicPartition(self.topic, self.partition)


class Batch:
    """Records for one partition that are sent together."""

    __slots__ = (
        "attempts",
        "builder",
        "completion",
        "created_at",
        "data",
        "futures",
        "in_flight",
        "is_unanswered",
        "is_written",
        "last_error",
        "producer",
        "records",
        "size",
        "timestamps",
    )

    def __init__(self, builder: RecordBatchBuilder, created_at: float) -> None:
        self.builder = builder
        self.created_at = created_at
        # The records until the batch is built; then their futures and timestamps.
        self.records: list[PendingRecord] = []
        self.futures: Sequence[asyncio.Future[RecordMetadata]] = ()
        self.timestamps: Sequence[int] = ()
        # Bytes charged to the buffer memory.
        self.size = 0
        # How often the batch was written to a connection.
        self.attempts = 0
        self.in_flight = False
        # It was sent and the answer is lost: a broker may still write it.
        self.is_unanswered = False
        # A later batch under the same epoch is acknowledged, so this batch is written, too.
        self.is_written = False
        self.data: bytearray | None = None
        # The producer id and epoch of its sequence numbers.
        self.producer = NONE
        self.last_error: KafkaError | None = None
        # Created by a caller that waits for the whole batch (flush).
        self.completion: asyncio.Future[None] | None = None

    @property
    def count(self) -> int:
        """The number of records that are not built yet."""
        return len(self.records)

    def succeed(self, partition: TopicPartition, base_offset: int, log_append_time: int) -> None:
        """Complete the future of every record. `log_append_time` is -1 if the producer's timestamps are kept."""
        topic, number = partition
        count = len(self.futures)
        offsets = range(base_offset, base_offset + count) if base_offset >= 0 else repeat(-1, count)
        times = self.timestamps if log_append_time < 0 else repeat(log_append_time, count)
        written = map(RecordMetadata._make, zip(repeat(topic), repeat(number), offsets, times, strict=False))
        for future, metadata in zip(self.futures, written, strict=True):
            if not future.done():
                future.set_result(metadata)
        self._complete()

    def fail(self, error: KafkaError) -> None:
        """Fail the future of every record: it was not written, or whether it was written is unknown."""
        for future in (*self.futures, *(record[4] for record in self.records)):
            if not future.done():
                future.set_exception(error)
        self._complete()

    def record_futures(self) -> "Sequence[asyncio.Future[RecordMetadata]]":
        """The future of each record of a built batch, for the parts into which the batch is split."""
        return self.futures

    def build(self) -> bytearray:
        """Turn the records into bytes."""
        self.timestamps, keys, values, headers, self.futures, _ = zip(*self.records, strict=True)
        self.records = []
        self.builder.extend(self.timestamps, keys, values, headers)
        self.data = self.builder.build()
        return self.data

    def _complete(self) -> None:
        if self.completion is not None and not self.completion.done():
            self.completion.set_result(None)


B = TypeVar("B", bound=Batch)


class PartitionQueue:
    """The batches of one partition, oldest first; the last batch may still accept records.

    Invariant: the queue begins with the `refused` batches, followed by those `in_flight`, unless `retrying`.
    """

    __slots__ = (
        "_new_builder",
        "_sequence",
        "batches",
        "gap",
        "in_flight",
        "known_producer",
        "node_id",
        "partition",
        "producer",
        "refused",
        "retry_at",
        "retrying",
    )

    def __init__(self, partition: TopicPartition, new_builder: Callable[[], RecordBatchBuilder]) -> None:
        self.partition = partition
        self.batches: deque[Batch] = deque()
        self.in_flight = 0
        # The broker that the batches are sent to.
        self.node_id = -1
        # A batch failed: nothing is sent until no batch is in flight.
        self.retrying = False
        self.retry_at = 0.0
        # How many batches were out of order since the last success.
        self.refused = 0
        # The producer id and epoch of `_sequence`, the next number; and those under which the broker accepted a batch.
        self.producer = NONE
        self.known_producer = NONE
        # Those of the last batch that failed after it was sent.
        self.gap = NONE
        self._sequence = 0
        self._new_builder = new_builder

    def append(self, record: PendingRecord, batch_size: int) -> bool:
        """Put a record into the last batch, or into a new one if it does not fit. Return True for a new batch."""
        batches = self.batches
        size = record[5]
        if batches:
            batch = batches[-1]
            records = batch.records
            # A batch that was built has no records.
            if records and batch.size + size - _SLACK * len(records) <= batch_size - BATCH_HEADER_SIZE + _SLACK:
                records.append(record)
                batch.size += size
                return False
        batch = Batch(self._new_builder(), asyncio.get_running_loop().time())
        batches.append(batch)
        batch.records.append(record)
        batch.size = size
        return True

    def append_batch(self, new: Callable[[RecordBatchBuilder], B]) -> B:
        """Append a full batch."""
        batch = new(self._new_builder())
        self.batches.append(batch)
        return batch

    def next_batch(self, limit: int, producer: tuple[int, int], *, flushing: bool) -> Batch | None:
        """Return the batch that may be sent now, with at most `limit` in flight; None if an answer must arrive first.

        Behind a batch in flight, only a full batch is sent, so that a partial batch can fill meanwhile. If `flushing`,
        a partial batch is sent, too.
        """
        count = self.refused + self.in_flight
        if count == 0:
            return self.batches[0] if self.batches else None
        if self.retrying or self.in_flight >= limit:
            return None
        batch = self.batches[count] if count < len(self.batches) else None
        if self.refused and (batch is None or batch.attempts == 0):
            return None if self.in_flight else self.batches[0]  # gets new sequence numbers
        if batch is None:
            return None
        if batch.data is None and (self.producer != producer or not (flushing or len(self.batches) > count + 1)):
            return None
        return batch if self.refused or self.known_producer == self.producer else None

    @property
    def is_refused(self) -> bool:
        """Whether nothing that was sent has been written: the batches get new sequence numbers, or fail."""
        count = self.refused
        return count > 0 and not self.in_flight and (count >= len(self.batches) or not self.batches[count].attempts)

    def doubtful(self) -> list[Batch]:
        """The refused batches that may yet be written, after one that failed before them."""
        return [batch for batch in self.batches if batch.is_unanswered and batch.producer == self.gap]

    def may_go_to(self, node_id: int) -> bool:
        """Whether batches may be sent to a broker: not while another broker has some in flight. Batches that the other
        broker refused are sent again.
        """
        if self.node_id != node_id:
            if self.in_flight:
                return False
            self.node_id = node_id
            self.refused = 0
        return True

    def sent(self, batch: Batch) -> None:
        """Note that a batch was written to a connection."""
        assert not batch.in_flight
        batch.attempts += 1
        batch.in_flight = True
        self.in_flight += 1

    def answered(self, batch: Batch) -> None:
        """Note that a batch is no longer in flight, with any result."""
        batch.in_flight = False
        self.in_flight -= 1
        if self.in_flight == 0:
            self.retrying = False

    def refuse(self, batch: Batch) -> bool:
        """Note that a batch was out of order. Return False if it only waits for an earlier batch that is retried."""
        if self.retrying or self.refused >= len(self.batches) or self.batches[self.refused] is not batch:
            return False
        self.refused += 1
        return True

    def written_before(self, batch: Batch) -> list[Batch]:
        """Note that a batch was written, and so were those before it. Return those of them that had been refused."""
        before = []
        for one in self.batches:
            if one is batch:
                break
            if one.producer == batch.producer != NONE and one.attempts:
                one.is_written = True
                before.append(one)
        found = before[: self.refused]
        self.refused = 0
        return found

    def remove(self, batch: Batch) -> None:
        """Remove a batch that was acknowledged or failed."""
        self.refused = 0
        if self.batches and self.batches[0] is batch:
            self.batches.popleft()
        elif batch in self.batches:  # else close() has removed it
            self.batches.remove(batch)

    def build(self, batch: Batch, producer: tuple[int, int]) -> bytearray:
        """Return a batch as bytes, with the partition's next sequence numbers if there is a producer id."""
        if batch.data is None:
            if producer != NONE:
                builder = batch.builder
                builder.base_sequence = self._number(batch, producer, batch.count)
                builder.producer_id, builder.producer_epoch = producer
            return batch.build()
        return batch.data

    def can_split(self, batch: Batch) -> bool:
        """Whether a batch that was sent can be split."""
        return batch.builder.count > 1 and batch in self.batches  # else close() has removed it

    def split(self, batch: Batch) -> None:
        """Replace a batch that is too large, and so was not written, by two batches of half as many records.

        They keep its sequence numbers, so that the next batch still follows, and its share of the buffer memory.
        """
        assert batch.data is not None
        sent = read_batch(batch.data)
        pending: list[PendingRecord] = [
            (record.timestamp, record.key, record.value, record.headers, future, 0)
            for record, future in zip(sent.records(), batch.record_futures(), strict=True)
        ]
        middle = len(pending) // 2
        size = batch.size * middle // len(pending)
        first = self._part(batch, pending[:middle], sent.base_sequence, size)
        sequence = (sent.base_sequence + middle) & _SEQUENCE_MASK
        rest = self._part(batch, pending[middle:], sequence, batch.size - size)
        rest.completion = batch.completion
        at = self.batches.index(batch)
        self.batches[at] = rest
        self.batches.insert(at, first)
        self.retrying = self.in_flight > 0
        self.refused = 0

    def _part(self, batch: Batch, records: list[PendingRecord], sequence: int, size: int) -> Batch:
        part = Batch(self._new_builder(), batch.created_at)
        part.attempts = batch.attempts
        part.producer = batch.producer
        if batch.producer != NONE:
            part.builder.base_sequence = sequence
            part.builder.producer_id, part.builder.producer_epoch = batch.producer
        part.records = records
        part.size = size
        part.build()
        return part

    def _number(self, batch: Batch, producer: tuple[int, int], count: int) -> int:
        """Return the next sequence number and advance it by `count`, the records of the batch."""
        if self.producer != producer:
            self.producer = producer
            self._sequence = 0
        batch.producer = producer
        sequence = self._sequence
        self._sequence = (sequence + count) & _SEQUENCE_MASK
        return sequence

    def number_anew(self, producer: tuple[int, int]) -> None:
        """Give all batches that were built new sequence numbers under a new epoch."""
        self.refused = 0
        self.producer = NONE
        for batch in self.batches:
            if batch.data is not None:
                # A copy: a connection may still be writing the old bytes.
                batch.data = bytearray(batch.data)
                sequence = self._number(batch, producer, batch.builder.count)
                _PRODUCER.pack_into(batch.data, PRODUCER_ID_OFFSET, *producer, sequence)
                update_crc(batch.data, 0)
