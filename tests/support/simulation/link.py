"""A link from one host to another: its latency, and whether it is cut.

Links go one way. What is sent into one that is cut waits until it heals, as TCP sends again until then; within a
connection the order stays.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Callable

from support.simulation.process import NOBODY

QUICK_S = (0.0002, 0.002)


class Link:
    """From one host to another."""

    def __init__(self, rng: random.Random) -> None:
        self.latency_s = QUICK_S
        self.blocks = 0
        """How many reasons there are that nothing gets through."""
        self._random = rng
        self._pipes: set[Pipe] = set()
        self._healed: list[asyncio.Future[None]] = []

    @property
    def is_cut(self) -> bool:
        """True while the link is cut."""
        return self.blocks > 0

    def cut(self) -> None:
        """Add a reason to cut the link."""
        self.blocks += 1

    def heal(self) -> None:
        """Remove a reason; without reasons, the link works again."""
        self.blocks -= 1
        assert self.blocks >= 0
        if not self.blocks:
            for pipe in sorted(self._pipes, key=lambda pipe: pipe.number):
                pipe.go_on()
            healed, self._healed = self._healed, []
            for future in healed:
                if not future.done():
                    future.set_result(None)

    def delay_s(self) -> float:
        """The latency of data that is sent now."""
        return self._random.uniform(*self.latency_s)

    async def cross(self) -> None:
        """Wait as long as a packet takes that is resent until it arrives."""
        while True:
            await asyncio.sleep(self.delay_s())
            if not self.is_cut:
                return
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._healed.append(future)
            await future

    def opened(self, pipe: Pipe) -> None:
        """Register a connection with data on the link."""
        self._pipes.add(pipe)

    def closed(self, pipe: Pipe) -> None:
        """Unregister the connection."""
        self._pipes.discard(pipe)


class Pipe:
    """One direction of one connection; `arrive` gets what comes out, with nobody's context."""

    def __init__(self, number: int, link: Link, arrive: Callable[[object], None]) -> None:
        self.number = number
        self._link = link
        self._arrive = arrive
        self._items: deque[tuple[float, object]] = deque()
        self._last_due = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._holds = 0
        self._is_closed = False

    def __hash__(self) -> int:
        return self.number

    def send(self, item: object) -> None:
        """Send data. An end that is closed may still answer with a reset."""
        self._link.opened(self)
        now = asyncio.get_running_loop().time()
        self._last_due = max(self._last_due, now + self._link.delay_s())
        self._items.append((self._last_due, item))
        self.go_on()

    def go_on(self) -> None:
        """Schedule the delivery of the next data."""
        if self._timer is None and self._items and not self._link.is_cut and not self._holds:
            loop = asyncio.get_running_loop()
            due = max(self._items[0][0], loop.time())
            self._timer = loop.call_at(due, self._out, context=NOBODY)

    def _out(self) -> None:
        self._timer = None
        if self._link.is_cut or self._holds:
            return
        now = asyncio.get_running_loop().time()
        while self._items and self._items[0][0] <= now:
            self._arrive(self._items.popleft()[1])
        if self._is_closed and not self._items:
            self._link.closed(self)
        self.go_on()

    def hold(self) -> None:
        """Keep the data in flight, and what is sent later: other connections overtake this one."""
        self._holds += 1

    def release(self) -> None:
        """Undo `hold`."""
        self._holds -= 1
        self.go_on()

    def drop(self, keep: int = 0) -> None:
        """Lose the data in flight, except for the first `keep`."""
        while len(self._items) > keep:
            self._items.pop()

    def __len__(self) -> int:
        return len(self._items)

    def close(self) -> None:
        """Close the direction: the connection has ended. What is on its way still arrives."""
        self._is_closed = True
        if not self._items:
            self._link.closed(self)
