"""The controller's queue: one event at a time, each queued at most once, and requests in between.

Events are level-triggered. An event that fails, because the tree has changed meanwhile or an answer was lost, is queued
again and looks at the tree again. If the failure shows that the term is over, the whole queue is dropped.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from broker.errors import NotControllerError
from client.wire.backoff import Backoff, Retries
from registry.errors import (
    BadVersionError,
    ConnectionLossError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    RegistryFullError,
    SessionExpiredError,
    ZnodeFormatError,
)
from registry.znodes.controller import ControllerEpochZnode

logger = logging.getLogger(__name__)

T = TypeVar("T")
Event = Callable[[], Awaitable[None]]

RETRIED = (
    BadVersionError,
    NoNodeError,
    NodeExistsError,
    NotEmptyError,
    ConnectionLossError,
    RegistryFullError,
    SessionExpiredError,
)
"""Errors that the queue handles. Besides these, an event raises only ZnodeFormatError as an expected error."""

ELECTION = "election"
"""The one event that is also handled while this broker is not the controller."""


class EventQueue:
    """The events that are to be handled."""

    def __init__(
        self,
        is_active: Callable[[], bool],
        replaced: Callable[[], None],
        expired: Callable[[], None],
        backoff: Backoff,
    ) -> None:
        """replaced: called if another controller is elected. expired: called if the session has expired."""
        self._is_active = is_active
        self._replaced = replaced
        self._expired = expired
        self._retries = Retries(backoff)
        self._events: dict[str, Event] = {}
        self._wake = asyncio.Event()
        self._timers: set[asyncio.TimerHandle] = set()
        self._questions: set[asyncio.Future[Any]] = set()
        self._numbers = itertools.count()

    def notice(self, name: str, event: Event) -> None:
        """Queue an event, unless it is queued already."""
        self._events.setdefault(name, event)
        self._wake.set()

    def notice_later(self, delay_s: float, name: str, event: Event) -> None:
        """Queue an event after a delay, unless the term ends before."""

        def notice() -> None:
            self._timers.discard(timer)
            self.notice(name, event)

        timer = asyncio.get_running_loop().call_later(delay_s, notice)
        self._timers.add(timer)

    async def ask(self, what: str, work: Callable[[], Awaitable[T]]) -> T:
        """Call `work` in its turn, and return its result. `work` is called again if the tree has changed meanwhile.

        Raises NotControllerError if this broker is not the controller, or ceases to be before `work` is done; and what
        `work` raises.
        """
        if not self._is_active():
            raise NotControllerError("This is not the correct controller for this cluster.")
        answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._questions.add(answer)
        answer.add_done_callback(self._questions.discard)

        async def event() -> None:
            try:
                result = await work()
            except RETRIED:
                raise
            except Exception as error:
                if not answer.done():
                    answer.set_exception(error)
            else:
                if not answer.done():
                    answer.set_result(result)

        self.notice(f"{what} {next(self._numbers)}", event)
        return await answer

    def drop(self) -> None:
        """End the term: drop its events, and fail its requests."""
        for timer in self._timers:
            timer.cancel()
        self._timers.clear()
        for name in [name for name in self._events if name != ELECTION]:
            del self._events[name]
        for answer in list(self._questions):
            if not answer.done():
                answer.set_exception(NotControllerError("This is no longer the controller."))

    async def handle_next(self) -> None:
        """Wait for an event and handle it."""
        while not self._events:
            self._wake.clear()
            await self._wake.wait()
        name = next(iter(self._events))
        event = self._events.pop(name)
        if name != ELECTION and not self._is_active():
            return
        try:
            await event()
            self._retries.succeeded()
        except SessionExpiredError:
            self._expired()
        except ZnodeFormatError as error:
            logger.error("%s: ignored: %s", name, error)
        except RegistryFullError as error:
            logger.warning("%s: no decision can be written (%s): retrying", name, error)
            await self._retry(name, event)
        except RETRIED as error:
            if error.path == ControllerEpochZnode.path():
                logger.info("another controller has taken over")
                self._replaced()
                return
            logger.info("%s: the tree has changed meanwhile, or the answer was lost (%s): retrying", name, error)
            await self._retry(name, event)

    async def _retry(self, name: str, event: Event) -> None:
        await self._retries.wait()
        self.notice(name, event)
