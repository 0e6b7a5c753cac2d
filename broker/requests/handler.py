"""The interface between the dispatcher and the handler of an API.

`handle` returns the answer, None if the request wants none (Produce with acks=0), or an awaitable of it: a coroutine,
which runs in a task, or a future, which costs none. Both are completed even if the client disconnects meanwhile. Only
what is returned as `CancelOnDisconnect` is cancelled then: the waits of Fetch (a long poll) and Produce (acks=all).

What clients need permission for is in broker/authorization/rules.py: handlers know nothing of it. `failed` builds an
answer with an error code in every place that the API has for one: the dispatcher uses it for errors that a handler does
not handle, and authorization for requests that it refuses.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Coroutine, Generator
from types import TracebackType
from typing import Any, Generic, TypeAlias, TypeVar

from broker.requests.context import RequestContext
from protocol.error_codes import ErrorCode
from protocol.message import Message

RequestT = TypeVar("RequestT", bound=Message, contravariant=True)
ResponseT = TypeVar("ResponseT", bound=Message, covariant=True)


class Handler(ABC, Generic[RequestT, ResponseT]):
    """The handler of one API."""

    __slots__ = ()

    @abstractmethod
    def handle(self, request: RequestT, context: RequestContext) -> ResponseT | Later[ResponseT | None] | None:
        """Answer `request`. The module describes what may be returned."""

    @abstractmethod
    def failed(self, request: RequestT, code: ErrorCode) -> ResponseT:
        """Return an answer with `code` wherever this API reports errors."""


AnyHandler: TypeAlias = Handler[Any, Message]
"""The handler of some API, called with requests of that API."""

A = TypeVar("A", covariant=True)
B = TypeVar("B")


class CancelOnDisconnect(Generic[A]):
    """An answer that is made of what a future brings. A disconnect cancels the future."""

    __slots__ = ("_make", "future")

    def __init__(self, future: asyncio.Future[Any], make: Callable[[Any], A] | None = None) -> None:
        """make: returns the answer; None if the future brings it."""
        self.future = future
        self._make = make

    def result(self) -> A:
        """Make the answer: once, when the future is done. Raises what the future or `make` raises."""
        found = self.future.result()
        return found if self._make is None else self._make(found)

    def then(self, change: Callable[[A], B]) -> CancelOnDisconnect[B]:
        """Return the answer with a change."""
        return CancelOnDisconnect(self.future, lambda _: change(self.result()))

    def cancel(self) -> None:
        """Do not wait any longer."""
        self.future.cancel()

    def add_done_callback(self, callback: Callable[[asyncio.Future[Any]], object]) -> None:
        """Call back when the future is done or cancelled."""
        self.future.add_done_callback(callback)

    def __await__(self) -> Generator[Any, None, A]:
        """Wait for the answer and make it."""
        yield from self.future.__await__()
        return self.result()


class Closing(Coroutine[Any, Any, B]):
    """Awaits what is coming. If that is a coroutine, it is closed with this one, also before its first step."""

    __slots__ = ("_coming", "_steps")

    def __init__(self, coming: Awaitable[Any], steps: Coroutine[Any, Any, B]) -> None:
        """steps: awaits `coming` and returns the answer."""
        self._coming = coming
        self._steps = steps

    def send(self, value: Any) -> Any:
        """Run the next step."""
        return self._steps.send(value)

    def throw(self, kind: Any, error: Any = None, traceback: TracebackType | None = None) -> Any:
        """Run the next step with an exception."""
        return self._steps.throw(kind if error is None else error)

    def close(self) -> None:
        """End both."""
        self._steps.close()
        if isinstance(self._coming, Coroutine):
            self._coming.close()

    def __await__(self) -> Generator[Any, Any, B]:
        return self._steps.__await__()


class Changed(Closing[B]):
    """What is coming, with a change."""

    __slots__ = ()

    def __init__(self, coming: Awaitable[A], change: Callable[[A], B]) -> None:
        """change: returns the answer, called with what is coming."""

        async def steps() -> B:
            return change(await coming)

        super().__init__(coming, steps())


Later: TypeAlias = Coroutine[Any, Any, A] | asyncio.Future[Any] | CancelOnDisconnect[A]
"""An answer that a handler does not have yet. Future[Any]: a future of an answer is no future of an answer or None."""
