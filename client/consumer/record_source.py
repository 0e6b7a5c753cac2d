"""The consumer interface that a listener container needs: `Consumer` and its wrappers have it."""

from collections.abc import Iterable, Mapping
from typing import Protocol

from client.consumer.fetched import ConsumerRecord
from client.consumer.group_metadata import OffsetAndMetadata
from client.consumer.reader_state import Position
from client.consumer.rebalance_listener import RebalanceListener
from client.topic_partition import TopicPartition


class RecordSource(Protocol):
    """See `Consumer` for the methods."""

    rebalance_listener: RebalanceListener

    @property
    def enable_auto_commit(self) -> bool: ...

    @property
    def max_poll_records(self) -> int: ...

    async def getmany(
        self, *, timeout_ms: float | None = None, max_records: int | None = None
    ) -> dict[TopicPartition, list[ConsumerRecord]]: ...

    async def commit(self, offsets: Mapping[TopicPartition, int | OffsetAndMetadata] | None = None) -> None: ...

    def assignment(self) -> list[TopicPartition]: ...

    def seek(self, partition: TopicPartition, position: Position) -> None: ...

    def pause(self, partitions: Iterable[TopicPartition]) -> None: ...

    def resume(self, partitions: Iterable[TopicPartition]) -> None: ...
