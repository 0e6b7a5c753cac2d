"""What every API handler offers to the dispatcher.

`handle` returns the answer, None where the request wants none (Produce with acks=0), or an awaitable of it. What a
handler has begun is finished even when the client disconnects meanwhile. Only what is returned as `CancelOnDisconnect`
is cancelled then: the waits of Fetch (a long poll) and Produce (acks=all).

`needs` names the resource and the operation that a caller must be allowed, so that authorisation comes later without
touching handlers. `failed` builds the answer that says "this request failed with that code" wherever the API has room
for it: the dispatcher uses it for errors that no handler expected.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Generator
from enum import Enum
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

from broker.requests.context import RequestContext
from protocol.error_codes import ErrorCode
from protocol.message import Message

RequestT = TypeVar("RequestT", bound=Message)
ResponseT = TypeVar("ResponseT", bound=Message)


class Resource(Enum):
    """Kafka's resource types."""

    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5


class Operation(Enum):
    """Kafka's ACL operations."""

    NONE = 0
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12


class Needs(NamedTuple):
    """What a caller must be allowed."""

    resource: Resource
    operation: Operation


class Handler(ABC, Generic[RequestT, ResponseT]):
    """One API."""

    __slots__ = ()
    needs: Needs

    @abstractmethod
    def handle(self, request: RequestT, context: RequestContext) -> ResponseT | Later[ResponseT | None] | None:
        """Answer `request`; see the module's text for what may be returned."""

    @abstractmethod
    def failed(self, request: RequestT, code: ErrorCode) -> ResponseT:
        """The answer that carries `code` wherever this API reports errors."""


A = TypeVar("A")
B = TypeVar("B")


class CancelOnDisconnect(Generic[A]):
    """An answer that is waited for as long as its client is connected: then the future is cancelled."""

    __slots__ = ("future",)

    def __init__(self, future: asyncio.Future[A]) -> None:
        self.future = future

    def __await__(self) -> Generator[Any, None, A]:
        """The answer."""
        return self.future.__await__()


Later: TypeAlias = Coroutine[Any, Any, A] | CancelOnDisconnect[A]
"""What a handler returns in place of an answer that is not there yet."""


def then(waiting: asyncio.Future[A], transform: Callable[[A], B]) -> CancelOnDisconnect[B]:
    """What `transform` makes of the awaited result. A disconnect cancels the wait."""
    transformed: asyncio.Future[B] = asyncio.get_running_loop().create_future()

    def done(finished: asyncio.Future[A]) -> None:
        if transformed.done():
            return
        if finished.cancelled():
            transformed.cancel()
            return
        try:
            transformed.set_result(transform(finished.result()))
        except Exception as error:
            transformed.set_exception(error)

    waiting.add_done_callback(done)
    transformed.add_done_callback(lambda _: waiting.cancel())
    return CancelOnDisconnect(transformed)
