"""A consumer of messages that `ChunkingProducer` has split into chunks; it passes other records unchanged."""

import asyncio
from collections.abc import Callable, Mapping, Sequence

from client.consumer.fetched import ConsumerRecord
from client.consumer.group_metadata import OffsetAndMetadata
from client.consumer.reader_state import Position
from client.consumer.rebalance_listener import RebalanceListener, call
from client.consumer.record_source import RecordSource
from client.errors import IllegalStateError
from client.large_messages.chunk_assembler import ChunkAssembler, GivenUp, log_given_up
from client.large_messages.consumer_wrapper import ConsumerWrapper
from client.options import refuse_unknown
from client.topic_partition import TopicPartition


class ChunkingConsumer(ConsumerWrapper):
    """Hands out whole messages, each at the offset of its last chunk. See `ConsumerWrapper`; `ChunkAssembler` describes
    the options, and what happens to messages that are never complete.

    Commits stay at or below the first chunk of every message that is incomplete or not handled, so no message is lost;
    records between its chunks may be repeated after a restart. The inner consumer must have no `value_deserializer`.
    """

    def __init__(
        self,
        consumer: RecordSource,
        *,
        max_buffered_bytes: int = 64 * 1024 * 1024,
        max_gap: int = 10_000,
        on_given_up: Callable[[GivenUp], None] = log_given_up,
        **unknown: object,
    ) -> None:
        refuse_unknown(unknown, ChunkingConsumer)
        super().__init__(consumer)
        self._assembler = ChunkAssembler(
            max_buffered_bytes=max_buffered_bytes, max_gap=max_gap, on_given_up=on_given_up
        )
        # The offsets after the last record read.
        self._positions: dict[TopicPartition, int] = {}
        self._listener: RebalanceListener | None = None
        try:
            self._listener = consumer.rebalance_listener
        except IllegalStateError:
            return  # there is no group
        consumer.rebalance_listener = _Forgets(self)

    @property
    def rebalance_listener(self) -> RebalanceListener:
        """The listener that is called when partitions are assigned or revoked."""
        return super().rebalance_listener if self._listener is None else self._listener

    @rebalance_listener.setter
    def rebalance_listener(self, listener: RebalanceListener) -> None:
        if self._listener is None:
            self._consumer.rebalance_listener = listener  # raises: there is no group
        self._listener = listener

    async def getmany(
        self, *, timeout_ms: float | None = None, max_records: int | None = None
    ) -> dict[TopicPartition, list[ConsumerRecord]]:
        """The next messages, by partition and in order, from at most `max_records` records at a time."""
        loop = asyncio.get_running_loop()
        deadline = None if timeout_ms is None else loop.time() + timeout_ms / 1000
        whole: dict[TopicPartition, list[ConsumerRecord]] = {}
        while True:
            left_ms = None if deadline is None else max(0.0, deadline - loop.time()) * 1000
            found = await self._consumer.getmany(timeout_ms=left_ms, max_records=max_records)
            for partition, records in found.items():
                self._positions[partition] = records[-1].offset + 1
                messages = [message for record in records if (message := self._assembler.add(record)) is not None]
                if messages:
                    whole[partition] = messages
            if whole or not found:
                return whole

    async def commit(self, offsets: Mapping[TopicPartition, int | OffsetAndMetadata] | None = None) -> None:
        """Commit these offsets, or those after the last returned message, but lower if necessary; see the class."""
        if offsets is None:
            offsets = {name: self._positions[name] for name in self.assignment() if name in self._positions}
        safe: dict[TopicPartition, int | OffsetAndMetadata] = {}
        done = {}
        for name, offset in offsets.items():
            if isinstance(offset, OffsetAndMetadata):
                done[name] = offset.offset
                safe[name] = offset._replace(offset=self._assembler.safe_offset(name, offset.offset))
            else:
                done[name] = offset
                safe[name] = self._assembler.safe_offset(name, offset)
        await self._consumer.commit(safe)
        for name, number in done.items():
            self._assembler.done(name, number)

    def seek(self, partition: TopicPartition, position: Position) -> None:
        """Continue at another offset; if that is inside an incomplete message, at its first chunk."""
        if isinstance(position, int) and position <= self._positions.get(partition, -1):
            position = self._assembler.safe_offset(partition, position)
        self._forget((partition,))
        self._consumer.seek(partition, position)

    def _forget(self, partitions: Sequence[TopicPartition]) -> None:
        for partition in partitions:
            self._assembler.forget(partition)
            self._positions.pop(partition, None)


class _Forgets(RebalanceListener):
    """Calls the caller's listener, which may commit, and drops incomplete messages: their chunks are read again."""

    def __init__(self, consumer: ChunkingConsumer) -> None:
        self._consumer = consumer

    async def on_partitions_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        self._consumer._forget(partitions)
        await call(self._consumer.rebalance_listener.on_partitions_assigned, partitions)

    async def on_partitions_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        try:
            await call(self._consumer.rebalance_listener.on_partitions_revoked, partitions)
        finally:
            self._consumer._forget(partitions)

    async def on_partitions_lost(self, partitions: Sequence[TopicPartition]) -> None:
        self._consumer._forget(partitions)
        await call(self._consumer.rebalance_listener.on_partitions_lost, partitions)
