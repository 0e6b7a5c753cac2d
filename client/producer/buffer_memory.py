"""The memory for records that wait for a broker, and the callers that wait for some of it.

First come, first served, even if a later record fits and an earlier one does not: a record sent later must not
overtake. One waiting caller is woken at a time; the next one after that caller has taken its share or given up. A
record larger than the whole memory is accepted when the memory is empty.
"""

import asyncio
from collections import deque

from client.errors import BufferFullError


class BufferMemory:
    """`limit` bytes, `used` of them taken. Every wait lasts at most `max_block_s`."""

    __slots__ = ("_max_block_s", "_waiters", "_woken", "limit", "used")

    def __init__(self, limit: int, max_block_s: float) -> None:
        self.limit = limit
        self.used = 0
        self._max_block_s = max_block_s
        self._waiters: deque[asyncio.Future[None]] = deque()
        # A waiter that was woken and has not checked for room yet.
        self._woken: asyncio.Future[None] | None = None

    def fits(self, size: int) -> bool:
        """Whether `size` bytes are free."""
        return self.used + size <= self.limit or not self.used

    async def take(self, size: int) -> None:
        """Take `size` bytes; wait until they are free. Raises BufferFullError after `max_block_s`."""
        if self._waiters or self._woken is not None or not self.fits(size):
            await self._wait(size)
        self.used += size

    def take_nowait(self, size: int) -> None:
        """Take `size` bytes if they are free now. Raises BufferFullError."""
        used = self.used
        if used and used + size > self.limit:
            raise BufferFullError(f"{self.used} bytes wait for a broker (buffer_memory={self.limit})")
        self.used = used + size

    async def has_room(self) -> None:
        """Wait until a quarter is free, and at least one turn of the event loop. Raises BufferFullError."""
        await asyncio.sleep(0)
        while not self.fits(self.limit // 4):
            await self._wait(self.limit // 4)

    def release(self, size: int) -> None:
        """Return `size` bytes."""
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
                    enqueue = self._waiters.appendleft  # this caller stays first in the queue
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
