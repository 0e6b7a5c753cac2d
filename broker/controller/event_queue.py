"""The controller's queue: one event at a time, each queued at most once, and questions of others in between.

Events are level-triggered, so an event that fails because the tree changed meanwhile, or because an answer was lost, is
put into the queue again: it looks anew. What says that the whole term is over ends the queue's content with it.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from broker.errors import NotControllerError
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

RETRY_BACKOFF_S = 0.1
FULL_BACKOFF_S = 1.0

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
"""What the queue deals with; an event raises nothing else that it can expect, but ZnodeFormatError."""

ELECTION = "election"
"""The one event that is of interest in no office, too."""


class EventQueue:
    """What is to be looked at."""

    def __init__(
        self, is_active: Callable[[], bool], replaced: Callable[[], None], expired: Callable[[], None]
    ) -> None:
        """`replaced` and `expired`: the term is over, since somebody else is elected, or the session has ended."""
        self._is_active = is_active
        self._replaced = replaced
        self._expired = expired
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
        """Queue an event after a while, if this term lasts so long."""

        def notice() -> None:
            self._timers.discard(timer)
            self.notice(name, event)

        timer = asyncio.get_running_loop().call_later(delay_s, notice)
        self._timers.add(timer)

    async def ask(self, what: str, work: Callable[[], Awaitable[T]]) -> T:
        """Have `work` done in its turn; it is done again where the tree changed meanwhile.

        Raises NotControllerError where this broker is none, or ceases to be one before it is done; and what `work`
        raises.
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
        """The term is over: what is queued and was asked was for it."""
        for timer in self._timers:
            timer.cancel()
        self._timers.clear()
        for name in [name for name in self._events if name != ELECTION]:
            del self._events[name]
        for answer in list(self._questions):
            if not answer.done():
                answer.set_exception(NotControllerError("This is not the controller any more."))

    async def handle_next(self) -> None:
        """Wait for an event, and do it."""
        while not self._events:
            self._wake.clear()
            await self._wake.wait()
        name = next(iter(self._events))
        event = self._events.pop(name)
        if name != ELECTION and not self._is_active():
            return
        try:
            await event()
        except SessionExpiredError:
            self._expired()
        except ZnodeFormatError as error:
            logger.error("%s: left alone: %s", name, error)
        except RegistryFullError as error:
            logger.warning("%s: nothing can be decided (%s): looking again", name, error)
            await asyncio.sleep(FULL_BACKOFF_S)
            self.notice(name, event)
        except RETRIED as error:
            if error.path == ControllerEpochZnode.path():
                logger.info("another controller has taken over")
                self._replaced()
                return
            logger.info("%s: the tree changed meanwhile, or the answer was lost (%s): looking again", name, error)
            await asyncio.sleep(RETRY_BACKOFF_S)
            self.notice(name, event)
