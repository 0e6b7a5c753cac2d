"""The reader: records of assigned partitions, without a group.

    async with Reader(bootstrap_servers="127.0.0.1:9092") as reader:
        reader.assign({TopicPartition("orders", 0): "beginning"})
        async for record in reader:
            print(record.offset, record.value)

It fetches ahead of the caller, up to `max_buffered_bytes` for each partition: one Fetch at a time to each leader, a
long poll for all its partitions. A partition whose buffer is full is not fetched until the caller has taken records.
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
from client.consumer.rebalance_lock import RebalanceLock
from client.errors import ClosedError, IllegalStateError, KafkaError
from client.options import refuse_unknown, shows
from client.topic_partition import TopicPartition
from client.wire.cluster import Cluster

if TYPE_CHECKING:
    import pyarrow as pa


class Reader:
    """An asyncio reader of assigned partitions; an asynchronous context manager and iterator.

    Options (names as in aiokafka and kafka-python; times in ms, sizes in bytes):

    - `security_protocol`, `ssl_…`, `sasl_…`: TLS and the login; `client.wire.security_options` describes them.
    - `auto_offset_reset`: where to continue if an offset is out of range: "latest", "earliest" or "none" (raise).
    - `isolation_level`: "read_uncommitted" or "read_committed" (only committed transactions).
    - `fetch_min_bytes`, `fetch_max_wait_ms`: a broker responds when it has this many bytes or this time has passed.
    - `fetch_max_bytes`: the size of a response; `max_partition_fetch_bytes`: of one partition in it. A single larger
      batch is returned nevertheless.
    - `max_buffered_bytes`: the bytes that are fetched ahead for one partition.
    - `check_crcs`: check the CRC of every batch.
    - `client_rack`: the rack of this client; a broker may name a replica in it to fetch from (KIP-392).
    - `allow_auto_create_topics`: let the broker create missing topics, if it is configured to.
    - `bootstrap_servers`, `client_id`, `request_timeout_ms` and the rest: as in `Producer`.

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
        self._rebalance_lock = RebalanceLock(self._has_nothing_in_hand, self._wake)
        # Fetched and not yet returned.
        self._ready: deque[Chunk] = deque()
        self._error: BaseException | None = None
        # Chunks in `_ready` that were fetched before the error: they are returned before it is raised.
        self._before_error = 0
        self._waiter: asyncio.Future[None] | None = None
        # The chunk whose records `async for` returns one by one.
        self._chunk: Chunk | None = None
        # The first offsets of the records that the caller got at once, by partition, until it asks for more.
        self._in_hand: dict[TopicPartition, int] = {}
        # How often the caller has asked for more.
        self._asked = 0
        self._closed = False

    # ---- life

    async def start(self) -> None:
        """Connect to the cluster. `async with` calls it. Raises NoBrokersAvailableError."""
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
        """Stop fetching and close the connections. A waiting call raises ClosedError."""
        self._closed = True
        self._wake()
        self._fetcher.close()
        await self._cluster.close()

    # ---- assignment

    async def partitions_for(self, topic: str) -> list[int]:
        """Return the partitions of a topic. Raises UnknownTopicOrPartitionError."""
        found = await self._cluster.topic(topic, timeout_s=self._options.request_timeout_s, tolerate_unknown_s=0)
        return list(found.partitions)

    def assign(self, positions: Mapping[TopicPartition, Position]) -> None:
        """Read exactly these partitions, each from its position. Raises InvalidOptionError."""
        states = {name: PartitionState(name, position) for name, position in positions.items()}
        self._drop(list(self._states))
        self._add(states)

    def incremental_assign(self, positions: Mapping[TopicPartition, Position]) -> None:
        """Read these partitions, too, each from its position.

        Raises IllegalStateError for a partition that is read already, InvalidOptionError.
        """
        for name in positions:
            if name in self._states:
                raise IllegalStateError(f"{name} is assigned already: use seek() to change its position")
        self._add({name: PartitionState(name, position) for name, position in positions.items()})

    def _add(self, states: Mapping[TopicPartition, PartitionState]) -> None:
        """Start reading these partitions, too."""
        self._states.update(states)
        self._cluster.track({name.topic for name in states})
        self._fetcher.wake()

    def _drop(self, partitions: Iterable[TopicPartition]) -> None:
        """Stop reading these partitions; responses that are on their way are dropped."""
        for partition in partitions:
            self._states.pop(partition).generation += 1
        self._cluster.untrack({name.topic for name in partitions} - {name.topic for name in self._states})

    def assignment(self) -> list[TopicPartition]:
        """The partitions that this reader reads."""
        return list(self._states)

    def stop_at(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Stop fetching at these offsets. The batch with the last record before such an offset is returned whole.

        Raises KeyError for a partition that is not read.
        """
        for partition, offset in offsets.items():
            self._states[partition].stop_offset = offset

    def seek(self, partition: TopicPartition, position: Position) -> None:
        """Continue at another position; records that were fetched ahead are dropped.

        Raises KeyError for a partition that is not read.
        """
        self._states[partition].seek(position)
        self._fetcher.wake()

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Stop fetching and returning records of these partitions. Records that are already fetched are kept."""
        for partition in partitions:
            state = self._states[partition]
            state.paused = True
            if self._chunk is not None and self._chunk.state is state:
                self._ready.appendleft(self._chunk)
                self._before_error += 1
                self._chunk = None

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        """Continue with paused partitions."""
        for partition in partitions:
            state = self._states[partition]
            state.paused = False
            self._ready.extendleft(reversed(state.held))
            self._before_error += len(state.held)
            state.held.clear()
        self._wake()
        self._fetcher.wake()

    def paused(self) -> list[TopicPartition]:
        """The paused partitions."""
        return [name for name, state in self._states.items() if state.paused]

    def position(self, partition: TopicPartition) -> int:
        """The offset of the next record to return. Raises NoOffsetError while it is unknown."""
        return known_position(self._states[partition])

    def is_known(self, partition: TopicPartition) -> bool:
        """Whether `position` is known."""
        return self._states[partition].position is not None

    def high_watermark(self, partition: TopicPartition) -> int:
        """The high watermark of the partition in the last Fetch response; -1 before the first."""
        return self._states[partition].high_watermark

    def lag(self, partition: TopicPartition) -> int | None:
        """The number of offsets up to the end of the partition in the last Fetch response; None before the first.

        The end is the high watermark, with read_committed the last stable offset.
        """
        state = self._states[partition]
        end = state.last_stable_offset if self._options.read_committed else state.high_watermark
        return None if end < 0 or state.position is None else max(end - state.position, 0)

    def last_fetch_error(self) -> KafkaError | None:
        """The error because of which fetching is retried; None if the last Fetch succeeded."""
        return self._fetcher.last_error

    # ---- offsets

    async def beginning_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The log start offsets."""
        return await self._offsets(partitions, EARLIEST)

    async def end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The high watermarks; with read_committed the last stable offsets."""
        return await self._offsets(partitions, LATEST)

    async def _offsets(self, partitions: Iterable[TopicPartition], which: int) -> dict[TopicPartition, int]:
        found = await self._list_offsets(dict.fromkeys(partitions, which))
        return {partition: answer.offset for partition, answer in found.items()}

    async def offsets_for_times(
        self, times: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """The first offset at or after a time in ms since the epoch; None if all records are older."""
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
        """Return the next batches of one partition, not decoded; None if `timeout_ms` passes first.

        The position moves after them. Raises the broker's error, CorruptRecordError, ClosedError.
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
        """Return all fetched records of all partitions as one Arrow table (see client.arrow.tables).

        The records of a partition are in order. Waits for the first record; the table is empty if `timeout_ms` passes
        first. Needs pyarrow and numpy. `columns`: as for `FetchedBatches.to_arrow`. Deserializers are not used. The
        positions move after the records in the table.

        Raises the broker's error, CorruptRecordError, InvalidRecordError, InvalidOptionError, ClosedError.
        """
        from client.arrow.tables import to_arrow  # pyarrow is optional, and takes 0.1 s and 40 MB

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
        """Return all batches of a chunk, and move the position after them."""
        self._chunk = None
        state, batches = chunk.state, chunk.batches
        batches.first_offset = max(known_position(state), batches.first_offset)
        self._in_hand.setdefault(state.partition, batches.first_offset)
        state.position = max(batches.next_offset, batches.first_offset)
        return batches

    async def fetch(self, *, timeout_ms: float | None = None) -> list[ConsumerRecord]:
        """Return the records of one partition in one Fetch response, in order; empty if `timeout_ms` passes first.

        It is also empty if the response has only control records or aborted transactions: then only the position moves.
        Raises the broker's error, CorruptRecordError, ClosedError.
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
        """Return the next record of any partition, without a time limit."""
        if self._rebalance_lock.wanted:
            await self._rebalance_lock.yield_to_rebalance()
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
        """Fetch a record that cannot be decoded again: the caller gets the same error, or seeks past the record."""
        self._chunk = None
        chunk.state.seek(known_position(chunk.state))
        self._fetcher.wake()

    async def _next_chunk(self) -> Chunk:
        """Return the current chunk, else the oldest one in the buffer; wait for it without a time limit."""
        if self._rebalance_lock.wanted:
            await self._rebalance_lock.yield_to_rebalance()
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
        """As `_pop`, but raise the pending error after the chunks that were fetched before it."""
        if self._closed:
            raise ClosedError("the reader has been closed")
        chunk = self._pop() if self._error is None or self._before_error > 0 else None
        if chunk is None and self._error is not None:
            error, self._error = self._error, None
            raise error
        return chunk

    def _pop(self) -> Chunk | None:
        """Return the oldest chunk in the buffer; None if there is none, or a rebalance has the lock."""
        while self._ready and not self._rebalance_lock.is_held:
            chunk = self._ready.popleft()
            self._before_error -= 1
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
        # The first error until it is raised: later ones may follow from it, as an offset that is out of range in a
        # recreated topic. A bug is more than an error of a broker.
        if self._error is None or (isinstance(self._error, KafkaError) and not isinstance(error, KafkaError)):
            self._error = error
            self._before_error = len(self._ready)
        self._wake()


__all__ = ["Position", "Reader", "Timestamp"]
