"""Records gathered into batches, a queue for each partition.

Invariants. Of one partition at most one batch is in flight, so a batch that is sent again can never
overtake the next: order holds with and without idempotence. A batch is built (compressed, sequence numbers
set) just before it is first sent and is then sent again as the same bytes, which is what lets a broker
recognise it as a duplicate.
"""

import asyncio
from collections import deque
from typing import NamedTuple

from client.errors import KafkaError
from client.topic_partition import TopicPartition
from protocol.compression import CompressionType
from protocol.record import Header
from protocol.record_batch_builder import RecordBatchBuilder

# Length, attributes, deltas and lengths of one record at their widest, and what a Python object costs
# beside the bytes.
RECORD_OVERHEAD = 32


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
        "last_error",
        "producer_epoch",
        "producer_id",
        "size",
        "timestamps",
    )

    def __init__(self, builder: RecordBatchBuilder, created_at: float) -> None:
        self.builder = builder
        self.created_at = created_at
        self.futures: list[asyncio.Future[RecordMetadata]] = []
        self.timestamps: list[int] = []
        # Bytes charged to the buffer memory.
        self.size = 0
        # How often it was written to a connection.
        self.attempts = 0
        self.data: bytearray | None = None
        self.producer_id = -1
        self.producer_epoch = -1
        self.last_error: KafkaError | None = None
        # Made by who wants to wait for the whole batch (flush).
        self.completion: asyncio.Future[None] | None = None

    def succeed(self, partition: TopicPartition, base_offset: int, log_append_time: int) -> None:
        """Tell every record where it was written; `log_append_time` is -1 where the producer's time holds."""
        topic, number = partition
        offset = base_offset
        for future, timestamp in zip(self.futures, self.timestamps, strict=True):
            if not future.done():
                time = timestamp if log_append_time < 0 else log_append_time
                future.set_result(RecordMetadata(topic, number, offset, time))
            if offset >= 0:
                offset += 1
        self._complete()

    def fail(self, error: KafkaError) -> None:
        """Tell every record that it was not written, or that nobody knows."""
        for future in self.futures:
            if not future.done():
                future.set_exception(error)
        self._complete()

    def _complete(self) -> None:
        if self.completion is not None and not self.completion.done():
            self.completion.set_result(None)


class PartitionQueue:
    """The batches of one partition, oldest first; the last one is still filling."""

    __slots__ = ("batches", "in_flight", "next_sequence", "partition", "producer", "retry_at")

    def __init__(self, partition: TopicPartition) -> None:
        self.partition = partition
        self.batches: deque[Batch] = deque()
        self.in_flight = False
        self.retry_at = 0.0
        # The sequence of the next batch to be built, valid for this producer id and epoch only.
        self.next_sequence = 0
        self.producer = (-1, -1)

    def append(
        self,
        record: "PendingRecord",
        *,
        now: float,
        batch_size: int,
        compression: CompressionType,
        level: int | None,
    ) -> bool:
        """Put a record into the last batch, or into a new one where it does not fit; True if it is a new
        one.
        """
        batches = self.batches
        batch = batches[-1] if batches else None
        is_new = batch is None or batch.data is not None or batch.builder.size_estimate + record.size > batch_size
        if is_new:
            batch = Batch(RecordBatchBuilder(compression=compression, level=level), now)
            batches.append(batch)
        assert batch is not None
        batch.builder.append(record.timestamp, record.key, record.value, record.headers)
        batch.futures.append(record.future)
        batch.timestamps.append(record.timestamp)
        batch.size += record.size
        return is_new

    def build(self, batch: Batch, producer_id: int, producer_epoch: int) -> None:
        """Turn a batch into bytes, with the partition's next sequence numbers where there is a producer
        id.
        """
        if producer_id >= 0:
            if self.producer != (producer_id, producer_epoch):
                self.producer = (producer_id, producer_epoch)
                self.next_sequence = 0
            builder = batch.builder
            builder.producer_id = batch.producer_id = producer_id
            builder.producer_epoch = batch.producer_epoch = producer_epoch
            builder.base_sequence = self.next_sequence
            self.next_sequence = (self.next_sequence + builder.count) & 0x7FFFFFFF
        batch.data = batch.builder.build()


class PendingRecord:
    """A record between `send` and its batch."""

    __slots__ = ("future", "headers", "key", "partition", "size", "timestamp", "topic", "value")

    def __init__(
        self,
        topic: str,
        partition: int | None,
        key: bytes | None,
        value: bytes | None,
        headers: tuple[Header, ...],
        timestamp: int,
        future: "asyncio.Future[RecordMetadata]",
    ) -> None:
        self.topic = topic
        self.partition = partition
        self.key = key
        self.value = value
        self.headers = headers
        self.timestamp = timestamp
        self.future = future
        size = RECORD_OVERHEAD
        if key is not None:
            size += len(key)
        if value is not None:
            size += len(value)
        for name, content in headers:
            size += 8 + 4 * len(name) + (0 if content is None else len(content))
        self.size = size
