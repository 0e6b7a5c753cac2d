"""Records gathered into batches, a queue for each partition.

A batch is built (compressed, numbered) just before it is first sent and is then sent again as the same bytes, which is
what lets a broker recognise it as a duplicate. The order within a partition holds because

- batches go out in the order of the queue, and of those under way at the same time each continues the sequence numbers
  of the one before: a broker takes none before its predecessor;
- after a failure nothing new goes out until everything under way is answered; then all that is left goes out again,
  oldest first. What was written after all is recognised (a broker remembers the last five batches of a producer, and
  so no more than five are under way);
- the first batch under a producer id and epoch goes alone: a broker that has never heard of a producer takes whatever
  number comes first;
- a batch keeps its numbers as long as it might have been written. One that is refused as out of order may have been:
  a broker that was started again remembers fewer batches. But the last one that it wrote it does remember, and it
  writes none without its predecessor. So those behind are sent as well: if one of them is there, all before it are;
  if all are refused, none was written, and they are numbered anew under another epoch.

A batch that a broker finds too large is sent again in two halves, and so on until a record is too large alone.

Without idempotence there are no numbers, and one batch of a partition is under way at a time.
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

# What a record is charged to the buffer memory above its bytes, and what of that it does not take in a batch: length,
# attributes, deltas and lengths are 12 bytes at most there, or a few more in records so large that it does not matter.
RECORD_OVERHEAD = 32
_SLACK = 20
RECORD_BYTES = RECORD_OVERHEAD - _SLACK
# As many as a broker remembers of one producer in one partition.
MAX_IN_FLIGHT_PER_PARTITION = 5

_SEQUENCE_MASK = 0x7FFFFFFF
_PRODUCER = struct.Struct(">qhi")


# A record between `send` and the bytes of its batch: timestamp, key, value, headers, the future of where it is written,
# bytes charged to the buffer memory. A plain tuple: making anything dearer is felt in records a second.
PendingRecord = tuple[int, bytes | None, bytes | None, tuple[Header, ...], "asyncio.Future[RecordMetadata]", int]


def size_of_headers(headers: Sequence[Header]) -> int:
    """How many bytes the headers are charged with. Raises TypeError for one that is none."""
    size = 0
    for name, content in headers:
        if not isinstance(name, str) or not (content is None or isinstance(content, bytes)):
            raise TypeError(f"a header must be a name and bytes or None, not {(name, content)!r}")
        size += 10 + len(name.encode()) + (0 if content is None else len(content))
    return size


def too_large(size: int, limit: int, topic: str = "") -> KafkaError:
    """The error for a record of so many bytes where a request may have `limit`."""
    message = f"the record has about {size} bytes, max_request_size is {limit}"
    return error_for(ErrorCode.MESSAGE_TOO_LARGE, message, context=topic)


class RecordMetadata(NamedTuple):
    """Where a record was written. `offset` is -1 with acks=0 or where the broker found it written already."""

    topic: str
    partition: int
    offset: int
    timestamp: int

    @property
    def topic_partition(self) -> TopicPartition:
        """Topic and partition as one name."""
        return TopicPartition(self.topic, self.partition)


class Batch:
    """Records for one partition that travel together."""

    __slots__ = (
        "attempts",
        "builder",
        "completion",
        "created_at",
        "data",
        "futures",
        "in_flight",
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
        # Until it is built; from then on what of them is still wanted.
        self.records: list[PendingRecord] = []
        self.futures: Sequence[asyncio.Future[RecordMetadata]] = ()
        self.timestamps: Sequence[int] = ()
        # Bytes charged to the buffer memory.
        self.size = 0
        # How often it was written to a connection.
        self.attempts = 0
        self.in_flight = False
        # A later one under the same epoch is acknowledged, so this one is there, too.
        self.is_written = False
        self.data: bytearray | None = None
        # Producer id and epoch that it is numbered under.
        self.producer = NONE
        self.last_error: KafkaError | None = None
        # Made by who wants to wait for the whole batch (flush).
        self.completion: asyncio.Future[None] | None = None

    @property
    def count(self) -> int:
        """How many records wait to be built."""
        return len(self.records)

    def succeed(self, partition: TopicPartition, base_offset: int, log_append_time: int) -> None:
        """Tell every record where it was written; `log_append_time` is -1 where the producer's time holds."""
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
        """Tell every record that it was not written, or that nobody knows."""
        for future in (*self.futures, *(record[4] for record in self.records)):
            if not future.done():
                future.set_exception(error)
        self._complete()

    def record_futures(self) -> "Sequence[asyncio.Future[RecordMetadata]]":
        """What tells of each record, once it is built: parts of it take them over."""
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
    """The batches of one partition, oldest first; the last one is still filling.

    Invariant: first stand those that were `refused`, then the `in_flight` ones, unless `retrying`.
    """

    __slots__ = (
        "_new_builder",
        "_sequence",
        "batches",
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
        # The broker that batches are sent to.
        self.node_id = -1
        # One failed: nothing is sent until none is in flight.
        self.retrying = False
        self.retry_at = 0.0
        # How many were out of order since the last success.
        self.refused = 0
        # Under which the next batch gets `_sequence`, and under which the broker has taken one.
        self.producer = NONE
        self.known_producer = NONE
        self._sequence = 0
        self._new_builder = new_builder

    def append(self, record: PendingRecord, batch_size: int) -> bool:
        """Put a record into the last batch, or into a new one where it does not fit; True if it is a new
        one.
        """
        batches = self.batches
        size = record[5]
        if batches:
            batch = batches[-1]
            records = batch.records
            # A batch that was built has no records any more.
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
        """Put a batch that is full behind all others."""
        batch = new(self._new_builder())
        self.batches.append(batch)
        return batch

    def next_batch(self, limit: int, producer: tuple[int, int], *, hurry: bool) -> Batch | None:
        """The batch that may be sent now, with at most `limit` in flight; None while an answer has to come first.

        Behind one in flight goes what is full, or anything in a `hurry`: what is not may fill meanwhile.
        """
        count = self.refused + self.in_flight
        if count == 0:
            return self.batches[0] if self.batches else None
        if self.retrying or self.in_flight >= limit:
            return None
        batch = self.batches[count] if count < len(self.batches) else None
        if self.refused and (batch is None or batch.attempts == 0):
            return None if self.in_flight else self.batches[0]  # to be numbered anew
        if batch is None:
            return None
        if batch.data is None and (self.producer != producer or not (hurry or len(self.batches) > count + 1)):
            return None
        return batch if self.refused or self.known_producer == self.producer else None

    @property
    def is_refused(self) -> bool:
        """Whether nothing that was sent has been written: number anew, or give up."""
        count = self.refused
        return count > 0 and not self.in_flight and (count >= len(self.batches) or not self.batches[count].attempts)

    def may_go_to(self, node_id: int) -> bool:
        """Whether a broker may be sent something: not while another one has batches in flight. What another one has
        refused it is asked again.
        """
        if self.node_id != node_id:
            if self.in_flight:
                return False
            self.node_id = node_id
            self.refused = 0
        return True

    def sent(self, batch: Batch) -> None:
        """A batch was written to a connection."""
        assert not batch.in_flight
        batch.attempts += 1
        batch.in_flight = True
        self.in_flight += 1

    def answered(self, batch: Batch) -> None:
        """A batch is not in flight any more, whatever became of it."""
        batch.in_flight = False
        self.in_flight -= 1
        if self.in_flight == 0:
            self.retrying = False

    def refuse(self, batch: Batch) -> bool:
        """Note that a batch was out of order; False if it only waits for an earlier one that is to be sent again."""
        if self.retrying or self.refused >= len(self.batches) or self.batches[self.refused] is not batch:
            return False
        self.refused += 1
        return True

    def written_before(self, batch: Batch) -> list[Batch]:
        """Note that a batch was written: those before it were, too. The ones that were refused in vain."""
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
        """A batch has ended."""
        self.refused = 0
        if self.batches and self.batches[0] is batch:
            self.batches.popleft()
        elif batch in self.batches:  # else close() has taken it
            self.batches.remove(batch)

    def build(self, batch: Batch, producer: tuple[int, int]) -> bytearray:
        """A batch as bytes, with the partition's next sequence numbers where there is a producer id."""
        if batch.data is None:
            if producer != NONE:
                builder = batch.builder
                builder.base_sequence = self._number(batch, producer, batch.count)
                builder.producer_id, builder.producer_epoch = producer
            return batch.build()
        return batch.data

    def can_split(self, batch: Batch) -> bool:
        """Whether a batch that was sent can be sent in parts."""
        return batch.builder.count > 1 and batch in self.batches  # else close() has taken it

    def split(self, batch: Batch) -> None:
        """Put two batches of half as many records in the place of one that is too large and so was not written.

        They keep its numbers, so that those behind it follow on, and what it takes of the buffer memory.
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
        """The next sequence number, which the batch of `count` records takes."""
        if self.producer != producer:
            self.producer = producer
            self._sequence = 0
        batch.producer = producer
        sequence = self._sequence
        self._sequence = (sequence + count) & _SEQUENCE_MASK
        return sequence

    def number_anew(self, producer: tuple[int, int]) -> None:
        """Give all batches numbers under a new epoch."""
        self.refused = 0
        self.producer = NONE
        for batch in self.batches:
            if batch.data is not None:
                # A copy: a connection may still be writing the old bytes.
                batch.data = bytearray(batch.data)
                sequence = self._number(batch, producer, batch.builder.count)
                _PRODUCER.pack_into(batch.data, PRODUCER_ID_OFFSET, *producer, sequence)
                update_crc(batch.data, 0)
