"""Which queue a record goes into, and where records wait whose topic's partitions are still being asked for.

Records of one topic keep their order over that wait.
"""

import asyncio
from collections import deque
from collections.abc import Callable

from client.accumulator import PendingRecord
from client.cluster import Cluster
from client.errors import KafkaError, error_for
from client.metadata import TopicMetadata
from client.partitioner import Partitioner
from client.sender import Sender
from client.topic_partition import TopicPartition
from protocol.error_codes import ErrorCode


class Placement:
    """Puts records into the sender's queues. `on_failed` hears of each that cannot be placed."""

    def __init__(
        self,
        cluster: Cluster,
        sender: Sender,
        partitioner: Partitioner,
        *,
        batch_size: int,
        max_block_s: float,
        on_failed: Callable[[PendingRecord, KafkaError], None],
    ) -> None:
        self._cluster = cluster
        self._sender = sender
        self._partitioner = partitioner
        self._batch_size = batch_size
        self._max_block_s = max_block_s
        self._on_failed = on_failed
        self._waiting: dict[str, deque[PendingRecord]] = {}
        # By topic: the metadata they come from, all partitions, those with a leader.
        self._choices: dict[str, tuple[TopicMetadata, tuple[int, ...], tuple[int, ...]]] = {}

    def add(self, record: PendingRecord) -> None:
        """Place a record, now or when its topic is known."""
        waiting = self._waiting.get(record.topic)
        if waiting is None:
            topic = self._cluster.metadata.topics.get(record.topic)
            if topic is not None and topic.partitions:
                self._place(record, topic)
                return
            waiting = self._waiting[record.topic] = deque()
            self._cluster.background.spawn(self._find_topic(record.topic), f"partitions of {record.topic}")
        waiting.append(record)

    def waiting(self) -> list[PendingRecord]:
        """The records that are not placed yet."""
        return [record for records in self._waiting.values() for record in records]

    def abandon(self, error: KafkaError) -> None:
        """Fail what is not placed yet."""
        for records in self._waiting.values():
            self._fail(records, error)

    async def _find_topic(self, name: str) -> None:
        waiting = self._waiting[name]
        try:
            topic = await self._cluster.topic(name, timeout_s=self._max_block_s)
        except KafkaError as error:
            self._fail(waiting, error)
        else:
            while waiting:  # one that fails may fail the rest
                self._place(waiting.popleft(), topic)
        del self._waiting[name]

    def _fail(self, records: deque[PendingRecord], error: KafkaError) -> None:
        while records:
            self._on_failed(records.popleft(), error)

    def _place(self, record: PendingRecord, topic: TopicMetadata) -> None:
        number = record.partition
        if number is None:
            choices = self._choices.get(topic.name)
            if choices is None or choices[0] is not topic:
                led = tuple(known.partition for known in topic.partitions.values() if known.leader >= 0)
                choices = self._choices[topic.name] = (topic, tuple(topic.partitions), led)
            try:
                number = self._partitioner.partition(topic.name, record.key, choices[1], choices[2])
            except Exception as raised:
                failure = KafkaError(f"the partitioner raised {raised!r}")
                failure.__cause__ = raised
                self._on_failed(record, failure)
                return
        if number not in topic.partitions:
            error = error_for(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"no partition {number}", context=topic.name)
            self._on_failed(record, error)
            return
        queue = self._sender.queue(TopicPartition(topic.name, number))
        is_new = queue.append(record, now=asyncio.get_running_loop().time(), batch_size=self._batch_size)
        if is_new and len(queue.batches) > 1:
            self._partitioner.batch_full(topic.name, number)
        self._sender.appended(queue, is_new_batch=is_new)
