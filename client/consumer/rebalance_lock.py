"""A lock between the application, which handles records, and a rebalance, which changes the assigned partitions.

A rebalance gets the lock between two records: when the application asks for more records, or already waits for them.
So no partition moves to another member while the application handles one of its records, and the commit before the move
contains exactly the handled records. Kafka's own consumer rebalances inside `poll` for the same reason. Here,
heartbeats go on while the application works.
"""

import asyncio
from collections.abc import Callable


class RebalanceLock:
    """`is_waiting` returns whether the application has no record to handle; `on_released` lets it continue."""

    def __init__(self, is_waiting: Callable[[], bool], on_released: Callable[[], None]) -> None:
        # A rebalance or an action waits for the lock. The application checks this before each record.
        self.wanted = False
        self._is_waiting = is_waiting
        self._on_released = on_released
        self._actions: list[Callable[[], None]] = []
        self._holders = 0
        self._available: asyncio.Future[None] | None = None
        self._released: asyncio.Future[None] | None = None

    @property
    def is_held(self) -> bool:
        """Whether a rebalance has the lock, so that no record may be returned."""
        return self._holders > 0

    @property
    def is_idle(self) -> bool:
        """Whether the application has no record to handle."""
        return self._released is not None or self._is_waiting()

    def between_records(self, action: Callable[[], None]) -> None:
        """Call `action` now if the application has no record to handle, else when it asks for more records."""
        if self.is_idle:
            action()
        else:
            self._actions.append(action)
            self.wanted = True

    async def acquire(self) -> None:
        """Wait until the application has no record to handle. No record is returned from now until `release`."""
        self._holders += 1
        self.wanted = True
        try:
            while not self.is_idle:
                if self._available is None:
                    self._available = asyncio.get_running_loop().create_future()
                await asyncio.shield(self._available)
        except BaseException:
            self.release()
            raise

    def release(self) -> None:
        """End one `acquire`; after the last one the application may continue."""
        self._holders -= 1
        if not self._holders:
            self.wanted = bool(self._actions)
            if self._released is not None and not self._released.done():
                self._released.set_result(None)
            self._on_released()

    async def yield_to_rebalance(self) -> None:
        """The application asks for more records: run what waits for the lock first."""
        actions, self._actions = self._actions, []
        for action in actions:
            action()
        while self._holders:
            self._released = asyncio.get_running_loop().create_future()
            if self._available is not None:
                self._available.set_result(None)
                self._available = None
            try:
                await self._released
            finally:
                self._released = None
        self.wanted = False
