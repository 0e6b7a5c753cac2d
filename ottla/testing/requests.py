"""Capture of the requests that clients send to the brokers of a cluster.

    producer.flush()
    (request,) = cluster.requests.wait(api="Produce", client_id="billing")
    assert request.error_code == 0

Requests of other brokers are not captured, nor those with which clients authenticate. The newest requests are kept:
their number and their size are limited.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from broker.errors import code_of
from broker.network.connection import CloseConnectionError
from broker.requests.api_table import Api, WrapHandler
from broker.requests.context import RequestContext
from broker.requests.handler import AnyHandler, CancelOnDisconnect, Closing, Handler, Later
from ottla.testing.request_topics import topics_of
from ottla.testing.waiting import TIMEOUT_S, deadline, number_of
from protocol.error_codes import ErrorCode
from protocol.message import Message

_BYTES = ("record_set", "byte_string", "uuid")
_SHOWN: Final = 10

Answer = Message | Later[Message | None] | None


@dataclass(slots=True)
class CapturedRequest:
    """One request of a client."""

    number: int
    """Requests are numbered from 1 in the order in which they arrived."""
    broker: int
    """The id of the broker."""
    api: str
    """Kafka's name of the API: Produce, ListOffsets, …."""
    version: int
    client_id: str | None
    request: Message
    """The decoded request; its record batches are bytes."""
    topics: frozenset[str]
    """The names of the topics that it names; ids are replaced by names."""
    size_bytes: int
    received_ms: int
    """When it arrived, in milliseconds since 1970, by the broker's clock."""
    error_code: ErrorCode | None = None
    """The first error in the answer, NONE for a success; None without an answer."""
    is_over: bool = False
    """Whether the broker has answered it, or will not answer it: the connection was closed, or it wants no answer."""

    def __str__(self) -> str:
        outcome = "in progress" if not self.is_over else "no answer" if self.error_code is None else None
        about = f" of {', '.join(sorted(self.topics))}" if self.topics else ""
        answer = outcome if self.error_code is None else self.error_code.name
        return f"{self.api} v{self.version}{about} from {self.client_id!r} to broker {self.broker}: {answer}"


class CapturedRequests:
    """The requests of a cluster. Its methods may be called in every thread but the cluster's own.

    The options of the methods choose requests: by Kafka's name of the API, client id, topic and broker id.
    """

    def __init__(self, call: Callable[..., Any], is_of_broker: Callable[[RequestContext], bool]) -> None:
        """call: runs a coroutine function in the brokers' event loop. is_of_broker: whether a broker sent a request."""
        self.max_requests = 10_000
        """How many requests are kept."""
        self.max_bytes = 16 * 1024 * 1024
        """Size of the frames of the requests that are kept; the newest is kept even if it is larger."""
        self._call = call
        self._is_of_broker = is_of_broker
        self._requests: deque[CapturedRequest] = deque()
        self._bytes = 0
        self._count = 0
        self._waiting: set[asyncio.Future[None]] = set()

    def seen(
        self,
        *,
        api: str | None = None,
        client_id: str | None = None,
        topic: str | None = None,
        broker: int | None = None,
    ) -> list[CapturedRequest]:
        """Return the captured requests, the oldest first."""
        return self._call(self.chosen, chooser(api, client_id, topic, broker))  # type: ignore[no-any-return]

    def wait(
        self,
        *,
        api: str | None = None,
        client_id: str | None = None,
        topic: str | None = None,
        broker: int | None = None,
        count: int = 1,
        timeout_s: float = TIMEOUT_S,
    ) -> list[CapturedRequest]:
        """Wait until `count` requests are over, also earlier ones, and return all that are.

        Raises AssertionError after `timeout_s`, with the last requests.
        """
        chosen = chooser(api, client_id, topic, broker)
        options = {"api": api, "client_id": client_id, "topic": topic, "broker": broker}
        wanted = ", ".join(f"{name}={value}" for name, value in options.items() if value is not None)
        expected = f"{number_of(count, 'request')}{f' with {wanted}' if wanted else ''}"
        return self._call(self._wait, chosen, count, expected, timeout_s)  # type: ignore[no-any-return]

    def clear(self) -> None:
        """Forget the requests that are captured."""
        self._call(self._clear)

    async def chosen(self, chosen: Callable[[CapturedRequest], bool]) -> list[CapturedRequest]:
        """Return captured requests, in the brokers' event loop."""
        return [one for one in self._requests if chosen(one)]

    async def _clear(self) -> None:
        self._requests.clear()
        self._bytes = 0

    async def _wait(
        self, chosen: Callable[[CapturedRequest], bool], count: int, expected: str, timeout_s: float
    ) -> list[CapturedRequest]:
        async with deadline(expected, timeout_s) as seen:
            seen.put(self._last)
            while True:
                found = [one for one in self._requests if one.is_over and chosen(one)]
                if len(found) >= count:
                    return found
                changed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
                self._waiting.add(changed)
                try:
                    await changed
                finally:
                    self._waiting.discard(changed)
        raise AssertionError  # `deadline` raises

    def _last(self) -> str:
        last = [str(one) for one in self._requests][-_SHOWN:]
        return "\n  ".join([f"{number_of(len(self._requests), 'request')}, the last of them", *last])

    # -- of the brokers ----------------------------------------------------------------------------------------------

    def wrapper(
        self, broker_id: int, now_ms: Callable[[], int], topic_name: Callable[[bytes], str | None]
    ) -> WrapHandler:
        """Return what wraps the handlers of a broker. topic_name: returns the topic with an id."""

        def wrap(api: Api, handler: AnyHandler) -> AnyHandler:
            def new(request: Any, context: RequestContext) -> CapturedRequest | None:
                if self._is_of_broker(context):
                    return None
                named = topics_of(request)
                by_id = {name for topic_id in named.ids if (name := topic_name(topic_id)) is not None}
                return self._add(
                    CapturedRequest(
                        number=self._count + 1,
                        broker=broker_id,
                        api=api.name,
                        version=context.api_version,
                        client_id=context.client_id,
                        request=_copied(request),
                        topics=named.names | by_id,
                        size_bytes=context.request_bytes,
                        received_ms=now_ms(),
                    )
                )

            return _Capturing(handler, new, self._changed)

        return wrap

    def _add(self, captured: CapturedRequest) -> CapturedRequest:
        self._count += 1
        self._requests.append(captured)
        self._bytes += captured.size_bytes
        while len(self._requests) > self.max_requests or (self._bytes > self.max_bytes and len(self._requests) > 1):
            self._bytes -= self._requests.popleft().size_bytes
        return captured

    def _changed(self) -> None:
        for waiting in self._waiting:
            if not waiting.done():
                waiting.set_result(None)


def chooser(
    api: str | None, client_id: str | None, topic: str | None, broker: int | None
) -> Callable[[CapturedRequest], bool]:
    """Return what chooses requests; None: any."""
    wanted_api = None if api is None else _plain(api)

    def chosen(one: CapturedRequest) -> bool:
        return (
            (wanted_api is None or _plain(one.api) == wanted_api)
            and (client_id is None or one.client_id == client_id)
            and (topic is None or topic in one.topics)
            and (broker is None or one.broker == broker)
        )

    return chosen


def _plain(api: str) -> str:
    return api.replace("_", "").lower()


class _Capturing(Handler[Any, Message]):
    """The handler of an API whose requests are captured."""

    __slots__ = ("_changed", "_handler", "_new")

    def __init__(
        self,
        handler: AnyHandler,
        new: Callable[[Any, RequestContext], CapturedRequest | None],
        changed: Callable[[], None],
    ) -> None:
        self._handler = handler
        self._new = new
        self._changed = changed

    def handle(self, request: Any, context: RequestContext) -> Answer:
        """See `Handler`."""
        captured = self._new(request, context)
        if captured is None:
            return self._handler.handle(request, context)
        with self._noting_failure(captured):
            answer = self._handler.handle(request, context)
        if answer is None or isinstance(answer, Message):
            self._over(captured, answer)
        elif isinstance(answer, CancelOnDisconnect):
            made = answer
            return _Noted(made.future, lambda: self._made(captured, made))
        elif isinstance(answer, asyncio.Future):
            answer.add_done_callback(lambda future: self._ended(captured, future))
        else:
            return _Coming(answer, self._awaited(captured, answer), lambda: self._over(captured, None))
        return answer

    def failed(self, request: Any, code: ErrorCode) -> Message:
        """See `Handler`."""
        return self._handler.failed(request, code)

    async def _awaited(self, captured: CapturedRequest, coming: Coroutine[Any, Any, Message | None]) -> Message | None:
        with self._noting_failure(captured):
            answer = await coming
        self._over(captured, answer)
        return answer

    def _made(self, captured: CapturedRequest, coming: CancelOnDisconnect[Message | None]) -> Message | None:
        with self._noting_failure(captured):
            answer = coming.result()
        self._over(captured, answer)
        return answer

    def _ended(self, captured: CapturedRequest, future: asyncio.Future[Message | None]) -> None:
        if future.cancelled():
            self._over(captured, None)
        elif (error := future.exception()) is not None:
            self._failed(captured, error)
        else:
            self._over(captured, future.result())

    @contextmanager
    def _noting_failure(self, captured: CapturedRequest) -> Iterator[None]:
        """Note what is raised instead of an answer, also if the broker stops meanwhile."""
        try:
            yield
        except (Exception, asyncio.CancelledError) as error:
            self._failed(captured, error)
            raise

    def _failed(self, captured: CapturedRequest, error: BaseException) -> None:
        """Note the error that the dispatcher answers with."""
        if not isinstance(error, CloseConnectionError) and isinstance(error, Exception):
            captured.error_code = code_of(error)
        self._over(captured, None)

    def _over(self, captured: CapturedRequest, answer: Message | None) -> None:
        if answer is not None:
            captured.error_code = ErrorCode(_first_error(answer))
        captured.is_over = True
        self._changed()


class _Coming(Closing[Message | None]):
    """The answer of a coroutine. If that is closed without one, the request is over."""

    __slots__ = ("_closed",)

    def __init__(
        self,
        coming: Coroutine[Any, Any, Message | None],
        steps: Coroutine[Any, Any, Message | None],
        closed: Callable[[], None],
    ) -> None:
        super().__init__(coming, steps)
        self._closed = closed

    def close(self) -> None:
        """See `Closing`."""
        super().close()
        self._closed()


class _Noted(CancelOnDisconnect[Message | None]):
    """An answer that is noted when it is made."""

    __slots__ = ("_noted",)

    def __init__(self, future: asyncio.Future[Any], noted: Callable[[], Message | None]) -> None:
        super().__init__(future)
        self._noted = noted

    def result(self) -> Message | None:
        """See `CancelOnDisconnect`."""
        return self._noted()


# -- messages ----------------------------------------------------------------------------------------------------------


@cache
def _structs_with(kind: type[Message], wanted: Callable[[Any], bool]) -> tuple[tuple[str, bool], ...]:
    """Return (name of the field, whether it is an array) of the structs that have such a field, at any depth."""
    return tuple(
        (field.name, field.kind == "array")
        for field in kind.FIELDS
        if isinstance(field.element, type) and _has(field.element, wanted)
    )


@cache
def _own(kind: type[Message], wanted: Callable[[Any], bool]) -> tuple[str, ...]:
    return tuple(field.name for field in kind.FIELDS if wanted(field))


def _has(kind: type[Message], wanted: Callable[[Any], bool]) -> bool:
    return bool(_own(kind, wanted) or _structs_with(kind, wanted))


def _is_bytes(field: Any) -> bool:
    return bool(field.kind in _BYTES)


def _is_error(field: Any) -> bool:
    return bool(field.name == "error_code")


def _copied(message: Message) -> Message:
    """Return a message with bytes of its own: those of a request are in the connection's buffer."""
    kind = type(message)
    if not _has(kind, _is_bytes):
        return message
    values = {field.name: getattr(message, field.name) for field in kind.FIELDS}
    for name in _own(kind, _is_bytes):
        value = values[name]
        if value is not None:
            values[name] = bytes(value)
    for name, is_array in _structs_with(kind, _is_bytes):
        value = values[name]
        if value is not None:
            values[name] = [_copied(one) for one in value] if is_array else _copied(value)
    copied = kind(**values)  # copy.copy takes longer
    copied.unknown_tags = message.unknown_tags
    return copied


def _first_error(message: Message) -> int:
    """Return the first error code in an answer that is not 0; 0 if there is none."""
    for name in _own(type(message), _is_error):
        if code := int(getattr(message, name)):
            return code
    for name, is_array in _structs_with(type(message), _is_error):
        value = getattr(message, name)
        for one in (value or ()) if is_array else (value,):
            if one is not None and (code := _first_error(one)):
                return code
    return 0
