"""The reader: records of assigned partitions, without a group.

    async with Reader(bootstrap_servers="127.0.0.1:9092") as reader:
        reader.assign({TopicPartition("orders", 0): "beginning"})
        async for record in reader:
            print(record.offset, record.value)

Fetching runs ahead of the caller: one Fetch at a time to each leader over all its partitions, a long poll,
up to `max_buffered_bytes` for each partition; then that partition rests until the caller has taken some.
"""

import asyncio
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Self, Unpack

from client.consumer.fetched import ConsumerRecord, FetchedBatches
from client.consumer.fetcher import Fetcher
from client.consumer.offsets import EARLIEST, LATEST, OffsetAndTimestamp, list_offsets
from client.consumer.options import ReaderKeywords, ReaderOptions
from client.consumer.reader_state import Chunk, PartitionState, Position, Timestamp, known_position
from client.consumer.turn import Turn
from client.errors import ClosedError, KafkaError
from client.options import refuse_unknown, shows
from client.topic_partition import TopicPartition
from client.wire.cluster import Cluster

if TYPE_CHECKING:
    import pyarrow as pa


class Reader:
    """An asyncio reader of assigned partitions; an asynchronous context manager and iterator.

    Options (names as in aiokafka and kafka-python; times in ms, sizes in bytes):

    - `auto_offset_reset`: "latest", "earliest" or "none" (raise): where to go on when an offset is not in
      the log.
    - `isolation_level`: "read_uncommitted" or "read_committed" (only committed transactions).
    - `fetch_min_bytes`, `fetch_max_wait_ms`: a broker answers when it has so much or so long has passed.
    - `fetch_max_bytes`: one answer; `max_partition_fetch_bytes`: one partition in it. A single larger batch
      still comes.
    - `max_buffered_bytes`: fetched ahead for one partition.
    - `check_crcs`: check the checksum of every batch.
    - `client_rack`: where this client stands; a broker may name a replica there to fetch from (KIP-392).
    - `allow_auto_create_topics`: have the broker make topics that are asked for, where it does that.

    Raises InvalidOptionError for a value that breaks a rule.
    """

    @shows(ReaderOptions)
    def __init__(self, options: ReaderOptions | None = None, /, **keywords: Unpack[ReaderKeywords]) -> None:
        # A subclass passes `options`; users pass keywords.
        if options is None:
            refuse_unknown(keywords, Reader)
            options = ReaderOptions(**keywords)
        self._options = options
        self._cluster = Cluster(options, on_error=self._failed)
        self._states: dict[TopicPartition, PartitionState] = {}
        self._fetcher = Fetcher(self._cluster, self._states, options, on_fetched=self._fetched, on_error=self._failed)
        self._turn = Turn(self._has_nothing_in_hand, self._wake)
        # Fetched and not handed out.
        self._ready: deque[Chunk] = deque()
        self._error: BaseException | None = None
        self._waiter: asyncio.Future[None] | None = None
        # What `async for` is in the middle of.
        self._chunk: Chunk | None = None
        # Where that begins which the caller has got in one piece, until it comes back for more.
        self._in_hand: dict[TopicPartition, int] = {}
        # How often it has come back.
        self._asked = 0
        self._closed = False

    # ---- life

    async def start(self) -> None:
        """Reach the cluster. Raises NoBrokersAvailableError. Not needed inside `async with`."""
        await self._cluster.start()

    async def __aenter__(self) -> Self:
        try:
            await self.start()
        except BaseException:
            await self._cluster.close()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Stop fetching and close the connections; a waiting caller gets ClosedError."""
        self._closed = True
        self._wake()
        self._fetcher.close()
        await self._cluster.close()

    # ---- assignment

    async def partitions_for(self, topic: str) -> list[int]:
        """The partitions of a topic. Raises UnknownTopicOrPartitionError."""
        found = await self._cluster.topic(topic, timeout_s=self._options.request_timeout_s, tolerate_unknown_s=0)
        return list(found.partitions)

    def assign(self, positions: Mapping[TopicPartition, Position]) -> None:
        """Read these partitions, each from its position, and no others. Raises InvalidOptionError."""
        states = {name: PartitionState(name, position) for name, position in positions.items()}
        self._drop(list(self._states))
        self._add(states)

    def _add(self, states: Mapping[TopicPartition, PartitionState]) -> None:
        """Read these, too."""
        self._states.update(states)
        self._cluster.track({name.topic for name in states})
        self._fetcher.wake()

    def _drop(self, partitions: Iterable[TopicPartition]) -> None:
        """Read these no more; answers under way are for nobody."""
        for partition in partitions:
            self._states.pop(partition).generation += 1
        self._cluster.untrack({name.topic for name in partitions} - {name.topic for name in self._states})

    def assignment(self) -> list[TopicPartition]:
        """The partitions that are read."""
        return list(self._states)

    def stop_at(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Fetch nothing from these offsets on, of partitions that are read; the batch that holds the last one before
        comes whole. Raises KeyError for a partition not read.
        """
        for partition, offset in offsets.items():
            self._states[partition].stop_offset = offset

    def seek(self, partition: TopicPartition, position: Position) -> None:
        """Go on from another place; what was fetched ahead is dropped. Raises KeyError for a partition
        not read.
        """
        self._states[partition].seek(position)
        self._fetcher.wake()

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Fetch no more of these, and hand nothing out; what is fetched already is kept."""
        for partition in partitions:
            state = self._states[partition]
            state.paused = True
            if self._chunk is not None and self._chunk.state is state:
                self._ready.appendleft(self._chunk)
                self._chunk = None

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        """Go on with these."""
        for partition in partitions:
            state = self._states[partition]
            state.paused = False
            self._ready.extendleft(reversed(state.held))
            state.held.clear()
        self._wake()
        self._fetcher.wake()

    def paused(self) -> list[TopicPartition]:
        """The partitions that rest."""
        return [name for name, state in self._states.items() if state.paused]

    def position(self, partition: TopicPartition) -> int:
        """The offset of the next record to be handed out. Raises NoOffsetError before it is looked up."""
        return known_position(self._states[partition])

    def is_known(self, partition: TopicPartition) -> bool:
        """Whether the position has been looked up, so that `position` gives it."""
        return self._states[partition].position is not None

    def high_watermark(self, partition: TopicPartition) -> int:
        """The partition's high watermark as of the last answer; -1 before the first."""
        return self._states[partition].high_watermark

    def lag(self, partition: TopicPartition) -> int | None:
        """How many offsets are left to read up to the end as of the last answer (with read_committed the last stable
        offset); None before the first.
        """
        state = self._states[partition]
        end = state.last_stable_offset if self._options.read_committed else state.high_watermark
        return None if end < 0 or state.position is None else max(end - state.position, 0)

    def last_fetch_error(self) -> KafkaError | None:
        """Why fetching does not get on, while it is tried again; None while it does."""
        return self._fetcher.last_error

    # ---- offsets

    async def beginning_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The log start offsets."""
        return await self._offsets(partitions, EARLIEST)

    async def end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Where reading ends now: the high watermarks, with read_committed the last stable offsets."""
        return await self._offsets(partitions, LATEST)

    async def _offsets(self, partitions: Iterable[TopicPartition], which: int) -> dict[TopicPartition, int]:
        found = await self._list_offsets(dict.fromkeys(partitions, which))
        return {partition: answer.offset for partition, answer in found.items()}

    async def offsets_for_times(
        self, times: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """The first offset at or after a time in ms; None where no record is as late."""
        found = await self._list_offsets(times)
        return {partition: answer if answer.offset >= 0 else None for partition, answer in found.items()}

    async def _list_offsets(self, wanted: Mapping[TopicPartition, int]) -> dict[TopicPartition, OffsetAndTimestamp]:
        return await list_offsets(
            self._cluster,
            wanted,
            read_committed=self._options.read_committed,
            timeout_s=self._options.request_timeout_s,
        )

    # ---- records

    async def fetch_batches(self, *, timeout_ms: float | None = None) -> FetchedBatches | None:
        """The next run of whole batches of one partition, undecoded; None after `timeout_ms`.

        The position moves behind them. Raises the broker's error, CorruptRecordError, ClosedError.
        """
        try:
            async with asyncio.timeout(None if timeout_ms is None else timeout_ms / 1000):
                chunk = await self._next_chunk()
        except TimeoutError:
            return None
        return self._whole(chunk)

    async def fetch_table(
        self, columns: Collection[str] | None = None, *, timeout_ms: float | None = None
    ) -> "pa.Table":
        """All records that are there, of all partitions, as one Arrow table (see client.arrow.tables);
        those of a partition are in order. Waits for the first of them, for at most `timeout_ms`; then it is empty.
        pyarrow and numpy must be installed.

        `columns`: as for `FetchedBatches.to_arrow`. Deserializers are not used. The positions move behind what is in
        the table. Raises the broker's error, CorruptRecordError, InvalidRecordError, InvalidOptionError, ClosedError.
        """
        from client.arrow.tables import to_arrow

        fetches = []
        try:
            async with asyncio.timeout(None if timeout_ms is None else timeout_ms / 1000):
                chunk: Chunk | None = await self._next_chunk()
                while chunk is not None:
                    fetches.append(self._whole(chunk))
                    chunk = self._pop()
        except TimeoutError:
            pass
        try:
            return to_arrow(fetches, columns)
        except BaseException:
            for fetched in reversed(fetches):
                self.seek(fetched.partition, fetched.first_offset)
            raise

    def _whole(self, chunk: Chunk) -> FetchedBatches:
        """Hand all of it out."""
        self._chunk = None
        state, batches = chunk.state, chunk.batches
        assert state.position is not None
        batches.first_offset = max(state.position, batches.first_offset)
        self._in_hand.setdefault(state.partition, batches.first_offset)
        state.position = max(batches.next_offset, batches.first_offset)
        return batches

    async def fetch(self, *, timeout_ms: float | None = None) -> list[ConsumerRecord]:
        """The records of one answer of one partition, in order; empty after `timeout_ms`.

        May be empty earlier: where an answer held nothing but control records or aborted transactions, only
        the position moves. Raises the broker's error, CorruptRecordError, ClosedError.
        """
        batches = await self.fetch_batches(timeout_ms=timeout_ms)
        if batches is None:
            return []
        try:
            return list(self._records_of(batches))
        except BaseException:
            self.seek(batches.partition, batches.first_offset)
            raise

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ConsumerRecord:
        """The next record of any partition; waits as long as it takes."""
        if self._turn.wanted:
            await self._turn.come_back()
        while True:
            chunk = self._chunk
            if chunk is not None and chunk.state.generation == chunk.generation:
                try:
                    record = next(chunk.records, None)
                except BaseException:
                    self._put_back(chunk)
                    raise
                if record is not None:
                    chunk.state.position = record.offset + 1
                    return record
                chunk.state.position = chunk.end
            self._chunk = None
            self._chunk = await self._next_chunk()

    def _put_back(self, chunk: Chunk) -> None:
        """A record cannot be read: fetch it anew, for the caller to get the same error or to seek past it."""
        self._chunk = None
        assert chunk.state.position is not None
        chunk.state.seek(chunk.state.position)
        self._fetcher.wake()

    async def _next_chunk(self) -> Chunk:
        """What is in hand still, or else the oldest answer that counts; waits as long as it takes."""
        if self._turn.wanted:
            await self._turn.come_back()
        self._asked += 1
        self._in_hand = {}
        chunk = self._chunk
        if chunk is not None and chunk.state.generation == chunk.generation:
            return chunk
        self._chunk = None
        while (found := self._take()) is None:
            await self._wait()
        return found

    def _take(self) -> Chunk | None:
        """As `_pop`; raises what there is to tell instead of None."""
        if self._closed:
            raise ClosedError("the reader has been closed")
        if (chunk := self._pop()) is None and self._error is not None:
            error, self._error = self._error, None
            raise error
        return chunk

    def _pop(self) -> Chunk | None:
        """The oldest answer that counts, None where there is none or it is not the caller's turn."""
        while self._ready and not self._turn.is_taken:
            chunk = self._ready.popleft()
            state = chunk.state
            if state.generation != chunk.generation:
                continue
            if state.paused:
                state.held.append(chunk)
                continue
            state.buffered -= chunk.size_bytes
            chunk.size_bytes = 0
            self._fetcher.wake()
            return chunk
        return None

    def _has_nothing_in_hand(self) -> bool:
        return self._waiter is not None or not (self._in_hand or self._chunk is not None)

    async def _wait(self) -> None:
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _fetched(self, state: PartitionState, batches: FetchedBatches) -> None:
        self._ready.append(Chunk(state, batches, self._records_of(batches)))
        self._wake()

    def _records_of(self, batches: FetchedBatches) -> Iterator[ConsumerRecord]:
        return batches.records()

    def _failed(self, error: BaseException) -> None:
        if self._error is None or isinstance(self._error, KafkaError):
            self._error = error
        self._wake()


__all__ = ["Position", "Reader", "Timestamp"]
