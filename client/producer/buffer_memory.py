"""The memory that records may take while they wait for a broker, and who waits for some of it.

First come, first served, also where a later record would fit and an earlier one does not: a record sent
later must not overtake. One of those who wait is told to look at a time; the next one when that one has
taken its share or given up. A record larger than everything is let in when nothing else is there.
"""

import asyncio
from collections import deque

from client.errors import BufferFullError


class BufferMemory:
    """`limit` bytes, of which `used` are taken. `max_block_s` bounds every wait."""

    __slots__ = ("_max_block_s", "_waiters", "_woken", "limit", "used")

    def __init__(self, limit: int, max_block_s: float) -> None:
        self.limit = limit
        self.used = 0
        self._max_block_s = max_block_s
        self._waiters: deque[asyncio.Future[None]] = deque()
        # Who has been told to look and has not looked yet.
        self._woken: asyncio.Future[None] | None = None

    def fits(self, size: int) -> bool:
        """Whether so many bytes are free."""
        return self.used + size <= self.limit or not self.used

    async def take(self, size: int) -> None:
        """Take so many bytes, waiting for them where need be. Raises BufferFullError after `max_block_ms`."""
        if self._waiters or self._woken is not None or not self.fits(size):
            await self._wait(size)
        self.used += size

    def take_nowait(self, size: int) -> None:
        """Take so many bytes if they are free now. Raises BufferFullError."""
        used = self.used
        if used and used + size > self.limit:
            raise BufferFullError(f"{self.used} bytes wait for a broker (buffer_memory={self.limit})")
        self.used = used + size

    async def has_room(self) -> None:
        """Wait until a quarter is free, and at least one turn of the loop. Raises BufferFullError."""
        await asyncio.sleep(0)
        while not self.fits(self.limit // 4):
            await self._wait(self.limit // 4)

    def release(self, size: int) -> None:
        """Give bytes back."""
        self.used -= size
        self._wake()

    async def _wait(self, size: int) -> None:
        loop = asyncio.get_running_loop()
        enqueue = self._waiters.append
        try:
            async with asyncio.timeout(self._max_block_s):
                while True:
                    waiter: asyncio.Future[None] = loop.create_future()
                    enqueue(waiter)
                    try:
                        await waiter
                    finally:
                        if self._woken is waiter:
                            self._woken = None
                    if self.fits(size):
                        return
                    enqueue = self._waiters.appendleft  # it keeps its turn
        except TimeoutError:
            raise BufferFullError(f"no room in buffer_memory={self.limit} within {self._max_block_s:g} s") from None
        finally:
            loop.call_soon(self._wake)

    def _wake(self) -> None:
        while self._waiters and self._woken is None and self.used < self.limit:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)
                self._woken = waiter
