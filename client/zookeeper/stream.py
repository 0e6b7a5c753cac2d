"""Streams of records, one for each thread of a ZooKeeper consumer, and the gate that holds them back.

A record is *in hand* from the moment at which its stream returns it until the stream is asked for the next one. The
commit before the release of a partition includes records in hand. Other commits do not: a program that ends while it
handles a record receives the record again.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterator

from client.consumer.fetched import ConsumerRecord, FetchedBatches
from client.consumer.reader_state import PartitionState
from client.errors import ClosedError
from client.zookeeper.session_lease import SessionLease


class StreamGate:
    """Whether streams may return records: only while the consumer owns its partitions and its lease is valid."""

    def __init__(self, lease: SessionLease) -> None:
        self._lease = lease
        self._open = False
        self._held: asyncio.TimerHandle | None = None
        self._error: BaseException | None = None
        self._waiting: set[asyncio.Future[None]] = set()
        self.is_closed = False

    @property
    def is_open(self) -> bool:
        """Whether a stream may return its next record now."""
        return self._open and self._held is None and self._lease.is_valid

    def hold(self, seconds: float) -> None:
        """Return no records for this time, or until `unhold`."""
        self.unhold()
        self._held = asyncio.get_running_loop().call_later(seconds, self.unhold)

    def unhold(self) -> None:
        """End `hold`."""
        if self._held is not None:
            self._held.cancel()
            self._held = None
            self.ring()

    def open(self) -> None:
        """Open the gate: the partitions are claimed."""
        self._open = True
        self.ring()

    def shut(self) -> None:
        """Close the gate: streams return no records until `open`."""
        self._open = False

    def close(self) -> None:
        """Close the gate for ever; waiting calls end."""
        self._open = False
        self.is_closed = True
        self.unhold()
        self.ring()

    def fail(self, error: BaseException) -> None:
        """Store an error for the next call for a record, if none is stored."""
        if self._error is None:
            self._error = error
        self.ring()

    def check(self) -> None:
        """Raise the stored error, once; ClosedError after `close`."""
        if self._error is not None:
            error, self._error = self._error, None
            raise error
        if self.is_closed:
            raise ClosedError("the consumer has been closed")

    def ring(self) -> None:
        """Wake all waiting calls."""
        for waiting in self._waiting:
            if not waiting.done():
                waiting.set_result(None)

    async def wait(self) -> None:
        """Wait for `ring`."""
        waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.add(waiting)
        try:
            await waiting
        finally:
            self._waiting.discard(waiting)

    async def next_of(self, take: Callable[[], ConsumerRecord | None]) -> ConsumerRecord:
        """Wait until `take` returns a record, and return it. Raises the stored error, StopAsyncIteration at the end."""
        while (record := take()) is None:
            try:
                self.check()
            except ClosedError:
                raise StopAsyncIteration from None
            await self.wait()
        return record


class ConsumerStream:
    """The records of one thread, in order within each partition: an asynchronous iterator for one task.

    It waits during a rebalance and continues with the thread's new partitions; it ends when the consumer is closed.
    Raises RebalanceFailedError, the broker's error, CorruptRecordError.
    """

    def __init__(self, gate: StreamGate, on_taken: Callable[[], None]) -> None:
        """`on_taken` is called when there is room for more records."""
        self._gate = gate
        self._on_taken = on_taken
        self._ready: deque[tuple[PartitionState, int, FetchedBatches]] = deque()
        self._records: Iterator[ConsumerRecord] = iter(())
        self._state: PartitionState | None = None
        self._generation = 0
        self._end = 0
        # The partition and offset of the record in hand.
        self._in_hand: tuple[PartitionState, int] | None = None

    def __aiter__(self) -> "ConsumerStream":
        return self

    async def __anext__(self) -> ConsumerRecord:
        """The next record; waits without a limit."""
        return await self._gate.next_of(self.take)

    def take(self) -> ConsumerRecord | None:
        """Return the next record if the gate is open, else None. The previous record is no longer in hand."""
        self._in_hand = None
        if not self._gate.is_open:
            return None
        while True:
            state = self._state
            if state is not None and state.generation == self._generation:
                record = self._next_of(state)
                if record is not None:
                    return record
            self._state = None
            if not self._ready:
                return None
            state, generation, batches = self._ready.popleft()
            if state.generation == generation:
                state.buffered -= batches.size_bytes
                self._state, self._generation, self._end = state, generation, batches.next_offset
                self._records = batches.records()
                self._on_taken()

    def _next_of(self, state: PartitionState) -> ConsumerRecord | None:
        try:
            record = next(self._records, None)
        except BaseException:
            # Nothing is skipped: the next call reads the same position, and raises again.
            assert state.position is not None
            state.seek(state.position)
            self._on_taken()
            raise
        if record is None:
            state.position = max(self._end, state.position or 0)
            return None
        state.position = record.offset + 1
        self._in_hand = (state, record.offset)
        return record

    def finish(self) -> None:
        """Note that the record in hand is handled."""
        self._in_hand = None

    def in_hand(self, state: PartitionState) -> int | None:
        """The offset of the record in hand, if it belongs to this partition."""
        return self._in_hand[1] if self._in_hand is not None and self._in_hand[0] is state else None

    def add(self, state: PartitionState, batches: FetchedBatches) -> None:
        """Add fetched batches."""
        self._ready.append((state, state.generation, batches))

    def clear(self) -> None:
        """Drop records that were fetched and not returned."""
        self._ready.clear()
        self._state = None
