"""Whose turn it is: the application's, which handles records, or a rebalance's, which takes partitions away.

A rebalance takes its turn between two records: when the application asks for more, or is waiting for more already. So a
record is never handled while its partition is given to somebody else, and what is committed before a partition goes is
exactly what has been handled. Kafka's own consumer gets the same by rebalancing inside `poll`; here heartbeats go on
meanwhile, whatever the application does.
"""

import asyncio
from collections.abc import Callable


class Turn:
    """`is_waiting()` says whether the application has nothing in hand; `on_given_back` is called when it may go on."""

    def __init__(self, is_waiting: Callable[[], bool], on_given_back: Callable[[], None]) -> None:
        # Somebody waits for the application to come back: it looks at this before each record.
        self.wanted = False
        self._is_waiting = is_waiting
        self._on_given_back = on_given_back
        self._actions: list[Callable[[], None]] = []
        self._takers = 0
        self._came_back: asyncio.Future[None] | None = None
        self._given_back: asyncio.Future[None] | None = None

    @property
    def is_taken(self) -> bool:
        """Whether nothing may be handed out now."""
        return self._takers > 0

    @property
    def is_idle(self) -> bool:
        """Whether the application has nothing in hand."""
        return self._given_back is not None or self._is_waiting()

    def between_records(self, action: Callable[[], None]) -> None:
        """Have `action` called when the application has nothing in hand, now or as soon as it comes back."""
        if self.is_idle:
            action()
        else:
            self._actions.append(action)
            self.wanted = True

    async def take(self) -> None:
        """Wait for the application; from now to `give_back` nothing is handed out."""
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
        """Let the application go on, once for each `take`."""
        self._takers -= 1
        if not self._takers:
            self.wanted = bool(self._actions)
            if self._given_back is not None and not self._given_back.done():
                self._given_back.set_result(None)
            self._on_given_back()

    async def come_back(self) -> None:
        """The application has come back: whoever waited for it goes first."""
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
