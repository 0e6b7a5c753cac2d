"""Put records into the queues of their partitions, or let them wait until the metadata has their topic and partition.

A partition may have been added to its topic since the last metadata. So a record for a partition that is not known
waits for it, as in Kafka's producer; records for other partitions do not wait. Records of one topic that wait for the
topic, and those of one partition that wait for the partition, keep their order.
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
        # Records with the partition that the caller chose, by what they wait for: a topic (None), or a partition of it.
        self._waiting: dict[tuple[str, int | None], deque[tuple[int | None, PendingRecord]]] = {}

    def add(self, name: str, partition: int | None, record: PendingRecord) -> None:
        """Place a record, now or when the metadata has its topic and its partition."""
        topic = self._topics.get(name)
        if topic is None or topic.metadata is not self._cluster.metadata:
            topic = self._look_up(name)
        if self._waiting:
            for wanted in ((name, None), (name, partition)):
                if (waiting := self._waiting.get(wanted)) is not None:
                    waiting.append((partition, record))
                    return
        if topic is None:
            self._wait(name, None, (partition, record))
        else:
            self._place(name, topic, partition, record)

    async def add_columns(self, name: str, partition: int | None, columns: Columns) -> ColumnBatch:
        """Place a full batch; look up or create its topic first if it is unknown. Raises the broker's error, or
        UnknownTopicOrPartitionError for a partition that the topic does not have after `max_block_ms`.
        """
        _check_number(name, partition)
        while True:
            topic = self._topics.get(name)
            if topic is None or topic.metadata is not self._cluster.metadata:
                topic = self._look_up(name)
            is_waited_for = self._waiting.keys() & {(name, None), (name, partition)}
            if topic is not None and not is_waited_for and (partition is None or partition in topic.queues):
                break
            await self._cluster.topic(name, timeout_s=self._max_block_s, partition=partition)
            await asyncio.sleep(0)  # records that wait are placed first
        is_free = partition is None
        if partition is None:
            partition = self._partitioner.partition(name, None, topic.partitions, topic.available)
        queue = topic.queues.get(partition)
        if queue is None:
            raise _no_partition(name, partition)
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

    def _wait(self, name: str, partition: int | None, record: tuple[int | None, PendingRecord]) -> None:
        """Let a record wait for its topic, or for a partition of it."""
        self._waiting[name, partition] = deque([record])
        what = f"partitions of {name}" if partition is None else f"partition {partition} of {name}"
        self._cluster.background.spawn(self._find(name, partition), what)

    async def _find(self, name: str, partition: int | None) -> None:
        waiting = self._waiting[name, partition]
        try:
            await self._cluster.topic(name, timeout_s=self._max_block_s, partition=partition)
        except KafkaError as error:
            self._fail(waiting, error)
        else:
            topic = self._look_up(name)
            while waiting and topic is not None:  # a failure may fail the rest
                self._place(name, topic, *waiting.popleft())
        del self._waiting[name, partition]

    def _fail(self, records: deque[tuple[int | None, PendingRecord]], error: KafkaError) -> None:
        while records:
            self._on_failed(records.popleft()[1], error)

    def _place(self, name: str, topic: _Topic, chosen: int | None, record: PendingRecord) -> None:
        number = chosen
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
            self._place_later(name, chosen, number, record)
        elif queue.append(record, self._batch_size):
            if len(queue.batches) > 1:
                self._partitioner.batch_full(name, number)
            self._sender.batch_begun(queue)

    def _place_later(self, name: str, chosen: int | None, number: int, record: PendingRecord) -> None:
        """Let a record wait for the partition that its caller chose; fail it if the partitioner chose a wrong one."""
        if chosen is None or number < 0:
            self._on_failed(record, _no_partition(name, number))
        elif (waiting := self._waiting.get((name, number))) is not None:
            waiting.append((number, record))
        else:
            self._wait(name, number, (number, record))


def _check_number(name: str, partition: int | None) -> None:
    if partition is not None and partition < 0:
        raise _no_partition(name, partition)


def _no_partition(name: str, partition: int) -> KafkaError:
    return error_for(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"no partition {partition}", context=name)
