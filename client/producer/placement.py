"""Put records into the queues of their partitions, or let them wait until their topic's metadata is known.

Records of one topic keep their order while they wait.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from client.errors import KafkaError, error_for
from client.producer.accumulator import PartitionQueue, PendingRecord
from client.producer.column_batch import ColumnBatch, Columns
from client.producer.options import ProducerOptions
from client.producer.partitioner import Partitioner
from client.producer.sender import Sender
from client.topic_partition import TopicPartition
from client.wire.cluster import Cluster
from client.wire.metadata import Metadata
from protocol.error_codes import ErrorCode


class _Topic(NamedTuple):
    """A topic in one metadata snapshot: the partitions for the partitioner, and the queues by partition."""

    metadata: Metadata
    partitions: tuple[int, ...]
    available: tuple[int, ...]
    queues: dict[int, PartitionQueue]


class Placement:
    """Puts records into the sender's queues. `on_failed` is called for each record that cannot be placed."""

    def __init__(
        self,
        cluster: Cluster,
        sender: Sender,
        partitioner: Partitioner,
        options: ProducerOptions,
        *,
        on_failed: Callable[[PendingRecord, KafkaError], None],
    ) -> None:
        self._cluster = cluster
        self._sender = sender
        self._partitioner = partitioner
        self._batch_size = options.batch_size
        self._max_block_s = options.max_block_s
        self._on_failed = on_failed
        self._topics: dict[str, _Topic] = {}
        # Records with the partition that the caller chose, by topic.
        self._waiting: dict[str, deque[tuple[int | None, PendingRecord]]] = {}

    def add(self, name: str, partition: int | None, record: PendingRecord) -> None:
        """Place a record, now or when the metadata of its topic is known."""
        topic = self._topics.get(name)
        if topic is None or topic.metadata is not self._cluster.metadata:
            topic = self._look_up(name)
        if topic is None or self._waiting:
            waiting = self._waiting.get(name)
            if waiting is not None:
                waiting.append((partition, record))
                return
            if topic is None:
                self._waiting[name] = deque([(partition, record)])
                self._cluster.background.spawn(self._find_topic(name), f"partitions of {name}")
                return
        self._place(name, topic, partition, record)

    async def add_columns(self, name: str, partition: int | None, columns: Columns) -> ColumnBatch:
        """Place a full batch; look up or create its topic first if it is unknown. Raises the broker's error, or
        UnknownTopicOrPartitionError for a partition that the topic does not have.
        """
        while True:
            topic = self._topics.get(name)
            if topic is None or topic.metadata is not self._cluster.metadata:
                topic = self._look_up(name)
            if topic is not None and name not in self._waiting:
                break
            await self._cluster.topic(name, timeout_s=self._max_block_s)
            await asyncio.sleep(0)  # records that wait for the topic are placed first
        is_free = partition is None
        if partition is None:
            partition = self._partitioner.partition(name, None, topic.partitions, topic.available)
        queue = topic.queues.get(partition)
        if queue is None:
            raise error_for(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"no partition {partition}", context=name)
        batch = queue.append_batch(lambda builder: ColumnBatch(builder, columns))
        if is_free:
            self._partitioner.batch_full(name, partition)
        self._sender.batch_begun(queue)
        return batch

    def waiting(self) -> list[PendingRecord]:
        """The records that are not placed yet."""
        return [record for records in self._waiting.values() for _, record in records]

    def abandon(self, error: KafkaError) -> None:
        """Fail the records that are not placed yet."""
        for records in self._waiting.values():
            self._fail(records, error)

    def _look_up(self, name: str) -> _Topic | None:
        metadata = self._cluster.metadata
        found = metadata.topics.get(name)
        if found is None or not found.partitions:
            self._topics.pop(name, None)
            return None
        topic = self._topics[name] = _Topic(
            metadata,
            tuple(found.partitions),
            tuple(known.partition for known in found.partitions.values() if known.leader >= 0),
            {number: self._sender.queue(TopicPartition(name, number)) for number in found.partitions},
        )
        return topic

    async def _find_topic(self, name: str) -> None:
        waiting = self._waiting[name]
        try:
            await self._cluster.topic(name, timeout_s=self._max_block_s)
        except KafkaError as error:
            self._fail(waiting, error)
        else:
            topic = self._look_up(name)
            while waiting and topic is not None:  # a failure may fail the rest
                self._place(name, topic, *waiting.popleft())
        del self._waiting[name]

    def _fail(self, records: deque[tuple[int | None, PendingRecord]], error: KafkaError) -> None:
        while records:
            self._on_failed(records.popleft()[1], error)

    def _place(self, name: str, topic: _Topic, number: int | None, record: PendingRecord) -> None:
        if number is None:
            try:
                number = self._partitioner.partition(name, record[1], topic.partitions, topic.available)
            except Exception as raised:
                failure = KafkaError(f"the partitioner raised {raised!r}")
                failure.__cause__ = raised
                self._on_failed(record, failure)
                return
        queue = topic.queues.get(number)
        if queue is None:
            error = error_for(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"no partition {number}", context=name)
            self._on_failed(record, error)
        elif queue.append(record, self._batch_size):
            if len(queue.batches) > 1:
                self._partitioner.batch_full(name, number)
            self._sender.batch_begun(queue)
