"""Streams of records, one for each thread of a ZooKeeper consumer, and the gate before them.

A record is *in hand* from the moment it is handed out until its stream is asked for the next one. What has been handed
out counts for the offset that is committed before a partition is let go; what is in hand does not count for the commits
in between, so that a program that dies while it works on a record gets it again.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterator

from client.consumer.fetched import ConsumerRecord, FetchedBatches
from client.consumer.reader_state import PartitionState
from client.errors import ClosedError
from client.zookeeper.session_lease import SessionLease


class StreamGate:
    """Whether records may be handed out: while the consumer owns what it reads, and its lease is valid."""

    def __init__(self, lease: SessionLease) -> None:
        self._lease = lease
        self._open = False
        self._held: asyncio.TimerHandle | None = None
        self._error: BaseException | None = None
        self._waiting: set[asyncio.Future[None]] = set()
        self.is_closed = False

    @property
    def is_open(self) -> bool:
        """Whether the next record may go out now."""
        return self._open and self._held is None and self._lease.is_valid

    def hold(self, seconds: float) -> None:
        """Hand nothing out for a moment, or until `unhold`."""
        self.unhold()
        self._held = asyncio.get_running_loop().call_later(seconds, self.unhold)

    def unhold(self) -> None:
        """The moment is over."""
        if self._held is not None:
            self._held.cancel()
            self._held = None
            self.ring()

    def open(self) -> None:
        """The partitions are claimed."""
        self._open = True
        self.ring()

    def shut(self) -> None:
        """Nothing goes out from now on."""
        self._open = False

    def close(self) -> None:
        """Nothing will ever go out again: whoever waits is told."""
        self._open = False
        self.is_closed = True
        self.unhold()
        self.ring()

    def fail(self, error: BaseException) -> None:
        """Tell the next who asks for a record of an error."""
        if self._error is None:
            self._error = error
        self.ring()

    def check(self) -> None:
        """Raise the error that is to be told; ClosedError after `close`."""
        if self._error is not None:
            error, self._error = self._error, None
            raise error
        if self.is_closed:
            raise ClosedError("the consumer has been closed")

    def ring(self) -> None:
        """Have everybody who waits look again."""
        for waiting in self._waiting:
            if not waiting.done():
                waiting.set_result(None)

    async def wait(self) -> None:
        """Wait for a ring."""
        waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.add(waiting)
        try:
            await waiting
        finally:
            self._waiting.discard(waiting)

    async def next_of(self, take: Callable[[], ConsumerRecord | None]) -> ConsumerRecord:
        """What `take` gives, once that is a record. Raises what is to be told, StopAsyncIteration at the end."""
        while (record := take()) is None:
            try:
                self.check()
            except ClosedError:
                raise StopAsyncIteration from None
            await self.wait()
        return record


class ConsumerStream:
    """The records of one thread, in order within each partition: an asynchronous iterator for one task.

    It waits while the group is rebalanced and goes on with what the thread reads then; it ends when the consumer is
    closed. Raises RebalanceFailedError, the broker's error, CorruptRecordError.
    """

    def __init__(self, gate: StreamGate, on_taken: Callable[[], None]) -> None:
        """`on_taken` hears that there is room for more."""
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
        """The next record; waits as long as it takes."""
        return await self._gate.next_of(self.take)

    def take(self) -> ConsumerRecord | None:
        """The next record if there is one that may be handed out now. The one before is in hand no longer."""
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
            # Nothing is skipped for it: the same place is read again, and told of again.
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
        """The record in hand is done with."""
        self._in_hand = None

    def in_hand(self, state: PartitionState) -> int | None:
        """The offset of the record in hand, where it is one of this partition."""
        return self._in_hand[1] if self._in_hand is not None and self._in_hand[0] is state else None

    def add(self, state: PartitionState, batches: FetchedBatches) -> None:
        """Take what was fetched."""
        self._ready.append((state, state.generation, batches))

    def clear(self) -> None:
        """Forget what was fetched and not handed out."""
        self._ready.clear()
        self._state = None
