"""The turn: either the application handles records, or a rebalance changes the assigned partitions.

A rebalance takes the turn between two records: when the application asks for more records, or already waits for them.
So no partition moves to another member while the application handles one of its records, and the commit before the move
contains exactly the handled records. Kafka's own consumer rebalances inside `poll` for the same reason. Here,
heartbeats go on while the application works.
"""

import asyncio
from collections.abc import Callable


class Turn:
    """`is_waiting` returns whether the application has no record to handle; `on_given_back` lets it continue."""

    def __init__(self, is_waiting: Callable[[], bool], on_given_back: Callable[[], None]) -> None:
        # A rebalance or an action waits for the turn. The application checks this before each record.
        self.wanted = False
        self._is_waiting = is_waiting
        self._on_given_back = on_given_back
        self._actions: list[Callable[[], None]] = []
        self._takers = 0
        self._came_back: asyncio.Future[None] | None = None
        self._given_back: asyncio.Future[None] | None = None

    @property
    def is_taken(self) -> bool:
        """Whether a rebalance has the turn, so that no record may be returned."""
        return self._takers > 0

    @property
    def is_idle(self) -> bool:
        """Whether the application has no record to handle."""
        return self._given_back is not None or self._is_waiting()

    def between_records(self, action: Callable[[], None]) -> None:
        """Call `action` now if the application has no record to handle, else when it asks for more records."""
        if self.is_idle:
            action()
        else:
            self._actions.append(action)
            self.wanted = True

    async def take(self) -> None:
        """Wait until the application has no record to handle. No record is returned from now until `give_back`."""
        self._takers += 1
        self.wanted = True
        try:
            while not self.is_idle:
                if self._came_back is None:
                    self._came_back = asyncio.get_running_loop().create_future()
                await asyncio.shield(self._came_back)
        except BaseException:
            self.give_back()
            raise

    def give_back(self) -> None:
        """End one `take`; after the last one the application may continue."""
        self._takers -= 1
        if not self._takers:
            self.wanted = bool(self._actions)
            if self._given_back is not None and not self._given_back.done():
                self._given_back.set_result(None)
            self._on_given_back()

    async def come_back(self) -> None:
        """The application asks for more records: run what waits for the turn first."""
        actions, self._actions = self._actions, []
        for action in actions:
            action()
        while self._takers:
            self._given_back = asyncio.get_running_loop().create_future()
            if self._came_back is not None:
                self._came_back.set_result(None)
                self._came_back = None
            try:
                await self._given_back
            finally:
                self._given_back = None
        self.wanted = False
