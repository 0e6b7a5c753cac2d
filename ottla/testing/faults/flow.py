"""One direction of a connection whose bytes are held, late or slow."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final, NamedTuple

TICK_S: Final = 0.05
"""A slow flow passes on what its rate allows in this time at once."""


class Conditions(NamedTuple):
    """What happens to the bytes of one direction."""

    held: bool = False
    """Nothing is passed on until this changes."""
    delay_s: float = 0.0
    bytes_per_s: float | None = None

    def with_(self, other: Conditions) -> Conditions:
        """Return what happens if both apply: the longer delay, the lower rate."""
        rates = [rate for rate in (self.bytes_per_s, other.bytes_per_s) if rate is not None]
        return Conditions(self.held or other.held, max(self.delay_s, other.delay_s), min(rates) if rates else None)


NORMAL: Final = Conditions()


class Flow:
    """Passes bytes on, in order, under conditions that may change. The end of the stream is passed on like bytes."""

    def __init__(self, deliver: Callable[[memoryview], None], deliver_end: Callable[[], None]) -> None:
        """deliver: takes bytes. deliver_end: called when the stream has ended and all bytes are delivered."""
        self.conditions = NORMAL
        self.size = 0
        """Bytes that are not passed on yet."""
        self.is_blocked = False
        """Set by the receiver: it takes nothing at the moment. Call `pump` when this has changed."""
        self.on_changed: Callable[[], None] = lambda: None
        """Called when bytes have been passed on."""
        self._deliver = deliver
        self._deliver_end = deliver_end
        self._loop = asyncio.get_running_loop()
        self._queue: deque[tuple[float, memoryview | None]] = deque()  # when a piece is due; None for the end
        self._free_s = 0.0  # when a slow flow may pass on the next piece
        self._timer: asyncio.TimerHandle | None = None

    def put(self, data: bytes) -> None:
        """Pass on bytes, now or later."""
        self.size += len(data)
        self._queue.append((self._loop.time() + self.conditions.delay_s, memoryview(data)))
        self.pump()

    def end(self) -> None:
        """Pass on the end of the stream, now or later."""
        self._queue.append((self._loop.time() + self.conditions.delay_s, None))
        self.pump()

    @property
    def is_empty(self) -> bool:
        """Whether everything is passed on."""
        return not self._queue

    def change(self, conditions: Conditions) -> None:
        """Change the conditions, also for what waits: without a delay, it is due now."""
        if conditions == self.conditions:
            return
        if not conditions.delay_s and self.conditions.delay_s:
            self._queue = deque((0.0, data) for _, data in self._queue)
        self.conditions = conditions
        self._free_s = 0.0
        self.pump()

    def clear(self) -> None:
        """Drop what waits: the connection is lost."""
        self._queue.clear()
        self.size = 0
        self._stop_timer()

    def pump(self) -> None:
        """Pass on what is due."""
        self._stop_timer()
        before = self.size
        while self._queue and not self.is_blocked and not self.conditions.held:
            due_s, data = self._queue[0]
            now_s = self._loop.time()
            due_s = max(due_s, self._free_s)
            if now_s < due_s:
                self._timer = self._loop.call_at(due_s, self.pump)
                break
            if data is None:
                self._queue.popleft()
                self._deliver_end()
            else:
                self._pass_on(data, now_s)
        if self.size != before:
            self.on_changed()

    def _pass_on(self, data: memoryview, now_s: float) -> None:
        """Deliver the first piece in the queue, or as much of it as the rate allows."""
        due_s, _ = self._queue.popleft()
        rate = self.conditions.bytes_per_s
        if rate is not None:
            step = max(1, int(rate * TICK_S))
            if len(data) > step:
                self._queue.appendleft((due_s, data[step:]))
                data = data[:step]
            self._free_s = now_s + len(data) / rate
        self.size -= len(data)
        self._deliver(data)

    def unread(self, data: memoryview) -> None:
        """Take back the rest of what was delivered: the receiver has taken only the beginning."""
        self.size += len(data)
        self._queue.appendleft((0.0, data))

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
