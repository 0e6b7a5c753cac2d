"""The request queue of one registry on ZooKeeper.

Requests are passed to kazoo in the order of the calls, at most `zookeeper.max.in.flight.requests` at a time. When the
connection is lost:

* *Requests that are not sent* wait until the connection is restored or the session expires.
* *Reads in flight* are sent again in their order: repeating a read is harmless.
* *Writes in flight* raise ConnectionLossError. Kafka's client sends them again and then guesses, for each kind of write
  in a different way, whether the first attempt was applied. Here the caller must read and decide, because only the
  caller knows the meaning of its write: a changed version may be the effect of its own write or of another client's.
"""

from __future__ import annotations

import asyncio
from collections import deque
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, Any

from registry.errors import ConnectionLossError, RegistryError
from registry.zookeeper.errors import LOST, translated

if TYPE_CHECKING:
    from collections.abc import Callable

    from kazoo.client import KazooClient


class RequestKind(Enum):
    """The kind of a request; it decides what happens if the connection is lost."""

    READ = 0
    WRITE = 1
    CREATE = 2  # a write; NoNodeError means that the parent is missing
    ARMING = 3  # a read that arms a watch; it is dropped, as all watches are armed again


class Request:
    """One call: the function that passes it to kazoo, and the future of the caller."""

    __slots__ = ("future", "kind", "number", "path", "send")

    def __init__(
        self,
        number: int,
        path: str,
        send: Callable[[KazooClient], Any],
        future: asyncio.Future[Any],
        kind: RequestKind,
    ) -> None:
        self.number = number  # order of the calls
        self.path = path
        self.send = send
        self.future = future
        self.kind = kind

    def fail(self, error: RegistryError) -> None:
        """Raise the error in the caller, unless the caller has stopped waiting."""
        if not self.future.done():
            self.future.set_exception(error)


class RequestQueue:
    """The request queue, see the module. Nothing is sent before `resume`."""

    def __init__(self, max_in_flight: int, on_lost: Callable[[], None]) -> None:
        """`on_lost` is called when an answer says that the connection is lost; it must call `suspend`."""
        self._max_in_flight = max_in_flight
        self._on_lost = on_lost
        self._client: KazooClient | None = None  # None without a connection
        self._backlog: deque[Request] = deque()
        self._in_flight: set[Request] = set()
        self._calls = 0

    def add(self, path: str, send: Callable[[KazooClient], Any], kind: RequestKind) -> asyncio.Future[Any]:
        """Queue a request; return a future for kazoo's answer or the registry's error."""
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._calls += 1
        self._backlog.append(Request(self._calls, path, send, future, kind))
        self._send()
        return future

    def suspend(self) -> None:
        """Stop sending: the connection is lost."""
        self._client = None
        self._backlog = deque(request for request in self._backlog if request.kind is not RequestKind.ARMING)

    def resume(self, client: KazooClient, arm: Callable[[], None]) -> None:
        """Send on a new connection: first the requests that `arm` adds, then the waiting ones."""
        waiting = sorted(self._backlog, key=lambda request: request.number)  # reads to be repeated among them
        self._backlog.clear()
        self._client = client
        arm()
        self._backlog.extend(waiting)
        self._send()

    def fail_all(self, error: RegistryError) -> None:
        """Fail all requests: the session has ended."""
        self._client = None
        requests = sorted([*self._in_flight, *self._backlog], key=lambda request: request.number)
        self._in_flight.clear()
        self._backlog.clear()
        for request in requests:
            request.fail(type(error)(str(error), request.path))

    def _send(self) -> None:
        """Pass requests to kazoo, up to the limit of requests in flight."""
        while self._client is not None and self._backlog and len(self._in_flight) < self._max_in_flight:
            request = self._backlog.popleft()
            if request.future.done():  # its caller has stopped waiting
                continue
            self._in_flight.add(request)
            request.send(self._client).rawlink(partial(self._answered, request))

    def _answered(self, request: Request, result: Any) -> None:
        if request not in self._in_flight:
            return  # the session has ended meanwhile
        self._in_flight.discard(request)
        try:
            value = result.get_nowait()
        except Exception as problem:
            error = translated(problem, request.path, creates=request.kind is RequestKind.CREATE)
            if isinstance(problem, LOST):
                self._on_lost()  # the change of state will follow; nothing more must be sent before it
            is_read = request.kind is RequestKind.READ
            if isinstance(error, ConnectionLossError) and is_read and not request.future.done():
                self._backlog.append(request)
            else:
                request.fail(error)
        else:
            if not request.future.done():
                request.future.set_result(value)
        self._send()
