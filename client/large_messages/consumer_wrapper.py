"""The base of consumers that change the records of another consumer and pass all other calls to it.

    async with Consumer("files", bootstrap_servers=..., group_id="g", enable_auto_commit=False) as consumer:
        whole = ChunkingConsumer(consumer)
        async for record in whole:
            ...
            await whole.commit()

The caller starts and closes the inner consumer, and fetches records only through the wrapper. A wrapper may be wrapped
again, and can be the consumer of a listener container.
"""

from collections.abc import Iterable, Mapping
from typing import Self

from client.consumer.fetched import ConsumerRecord
from client.consumer.group_metadata import OffsetAndMetadata
from client.consumer.reader_state import Position
from client.consumer.rebalance_listener import RebalanceListener
from client.consumer.record_source import RecordSource
from client.options import refuse
from client.topic_partition import TopicPartition


class ConsumerWrapper:
    """A wrapper; methods do the same as in `Consumer` unless documented otherwise. Raises InvalidOptionError for a
    consumer with `enable_auto_commit`, which would commit records that the wrapper holds back.
    """

    def __init__(self, consumer: RecordSource) -> None:
        if consumer.enable_auto_commit:
            raise refuse("enable_auto_commit", True, "must be False for a consumer that is wrapped")
        self._consumer = consumer

    @property
    def enable_auto_commit(self) -> bool:
        """Always False."""
        return False

    @property
    def max_poll_records(self) -> int:
        """The setting of the inner consumer."""
        return self._consumer.max_poll_records

    @property
    def rebalance_listener(self) -> RebalanceListener:
        """The listener that is called when partitions are assigned or revoked."""
        return self._consumer.rebalance_listener

    @rebalance_listener.setter
    def rebalance_listener(self, listener: RebalanceListener) -> None:
        self._consumer.rebalance_listener = listener

    async def getmany(
        self, *, timeout_ms: float | None = None, max_records: int | None = None
    ) -> dict[TopicPartition, list[ConsumerRecord]]:
        """The next records, by partition and in order."""
        return await self._consumer.getmany(timeout_ms=timeout_ms, max_records=max_records)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ConsumerRecord:
        """The next record; waits without a limit. `getmany` costs less."""
        while True:
            for records in (await self.getmany(max_records=1)).values():
                return records[0]

    async def commit(self, offsets: Mapping[TopicPartition, int | OffsetAndMetadata] | None = None) -> None:
        """Commit these offsets, or those after the last returned record of each partition."""
        await self._consumer.commit(offsets)

    def assignment(self) -> list[TopicPartition]:
        """The assigned partitions."""
        return self._consumer.assignment()

    def seek(self, partition: TopicPartition, position: Position) -> None:
        """Continue at another offset."""
        self._consumer.seek(partition, position)

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Hand out no records of these partitions."""
        self._consumer.pause(partitions)

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        """Hand out records of these partitions again."""
        self._consumer.resume(partitions)
