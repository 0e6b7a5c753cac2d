"""From a frame to a handler and back to a frame.

An invalid frame (too short, an API or a version that is not served, fields that cannot be decoded) closes its
connection with one log line: after it, the connection cannot be trusted to be aligned. The one exception is
ApiVersions: an unknown version is answered in version 0, so that newer clients can use an older version (KIP-511).
"""

from __future__ import annotations

import asyncio
import logging
import struct
from collections.abc import Callable, Coroutine, Iterable
from time import perf_counter
from typing import Any

from broker.errors import code_of
from broker.metrics import ApiMetrics, BrokerMetrics
from broker.network.connection import CloseConnectionError, Connection
from broker.network.output import Answer
from broker.quotas.client_quotas import NO_QUOTAS, NOT_THROTTLED, ClientQuotas
from broker.requests.api_table import Api
from broker.requests.context import RequestContext
from broker.requests.handler import AnyHandler, CancelOnDisconnect, Later
from broker.requests.metered import Metered
from protocol.api_keys import ApiKey, response_class
from protocol.error_codes import ErrorCode
from protocol.errors import ProtocolError
from protocol.headers import decode_request_header, request_header_version, response_header_version
from protocol.message import Message

logger = logging.getLogger(__name__)

_unpack_header = struct.Struct(">hhih").unpack_from  # api key, api version, correlation id, length of the client id
_HEADER_SIZE = 10
_SHORT_HEADER_SIZE = 8  # without a client id
_pack_answer = struct.Struct(">ii").pack  # size, correlation id


class _Route:
    """One row of the API table, prepared for calls."""

    __slots__ = (
        "api",
        "client_id_from",
        "decode",
        "flexible_from",
        "handle",
        "handler",
        "is_produce",
        "is_throttled",
        "max_version",
        "metrics",
        "min_version",
        "tagged_from",
        "tells_throttle_time",
    )

    def __init__(self, api: Api, handler: AnyHandler, metrics: ApiMetrics) -> None:
        self.api = api
        self.handler = handler
        self.metrics = metrics
        self.decode = api.request.decode
        self.handle = handler.handle
        self.flexible_from = api.request.FLEXIBLE_FROM
        self.min_version = api.min_version
        self.max_version = api.max_version
        versions = range(api.min_version, api.max_version + 1)
        # First version whose header has a client id: all but ControlledShutdown's version 0.
        self.client_id_from = min(v for v in versions if request_header_version(api.key, v) > 0)
        self.is_produce = api.key is ApiKey.PRODUCE
        self.is_throttled = api.key not in NOT_THROTTLED
        fields = response_class(api.key).FIELDS
        self.tells_throttle_time = any(field.name == "throttle_time_ms" for field in fields)
        # First version whose response header has tagged fields; ApiVersions never has them (KIP-511).
        self.tagged_from = min((v for v in versions if response_header_version(api.key, v) == 1), default=1 << 15)


_COMING = (CancelOnDisconnect, asyncio.Future)


class _Pending:
    """A request whose answer comes later."""

    __slots__ = (
        "_coming",
        "_context",
        "_dispatcher",
        "_request",
        "_route",
        "_started_s",
    )

    def __init__(
        self,
        dispatcher: Dispatcher,
        route: _Route,
        request: Message,
        context: RequestContext,
        later: Later[Message | None],
        started_s: float,
    ) -> None:
        self._dispatcher = dispatcher
        self._route = route
        self._request = request
        self._context = context
        self._started_s = started_s
        if dispatcher.has_quotas:
            context.pause()
        self._coming: CancelOnDisconnect[Message | None] | asyncio.Future[Message | None]
        if isinstance(later, _COMING):
            self._coming = later
        else:
            self._coming = dispatcher.start_task(Metered(later, context) if dispatcher.has_quotas else later)

    def on_ready(self, callback: Callable[[], None]) -> None:
        """See `PendingAnswer`."""
        self._coming.add_done_callback(lambda _: callback())

    def result(self) -> Answer | None:
        """See `PendingAnswer`."""
        self._context.resume()
        try:
            response = self._coming.result()
        except asyncio.CancelledError:
            raise CloseConnectionError("the broker is stopping") from None
        except CloseConnectionError:
            raise
        except Exception as error:
            response = self._dispatcher.unexpected(self._route, self._request, error)
        if response is None:
            self._dispatcher.answered_nothing(self._route, self._context, self._started_s)
            return None
        return self._dispatcher.encode(self._route, response, self._context, self._started_s)

    def abandon(self) -> None:
        """See `PendingAnswer`. A handler is completed, unless it returned `CancelOnDisconnect`."""
        if isinstance(self._coming, CancelOnDisconnect):
            self._coming.cancel()


class Dispatcher:
    """Decodes requests, calls handlers and encodes answers."""

    def __init__(
        self,
        handlers: Iterable[tuple[Api, AnyHandler]],
        metrics: BrokerMetrics,
        start_task: Callable[[Coroutine[Any, Any, Message | None]], asyncio.Future[Message | None]],
        quotas: ClientQuotas = NO_QUOTAS,
    ) -> None:
        self.start_task = start_task
        self._quotas = quotas
        self._metrics = metrics
        self._routes = {int(api.key): _Route(api, handler, metrics.api(api.name)) for api, handler in handlers}

    def handle_frame(self, frame: memoryview, connection: Connection) -> Answer | _Pending | None:
        """Answer one frame (without its size prefix). Raises CloseConnectionError for an invalid request."""
        started_s = perf_counter()
        try:
            api_key, version, correlation_id, client_id_size = _unpack_header(frame)
        except struct.error:
            raise self._rejected(f"a frame of {len(frame)} bytes is too short for a request header") from None
        route = self._routes.get(api_key)
        if route is None or not route.min_version <= version <= route.max_version:
            return self._unsupported(frame, connection, api_key, version, correlation_id)
        try:
            if version < route.client_id_from:
                offset, client_id = _SHORT_HEADER_SIZE, None
            elif client_id_size >= 0:
                offset = _HEADER_SIZE + client_id_size
                if offset > len(frame):
                    raise self._rejected(f"the client id of {client_id_size} bytes exceeds the frame")
                client_id = str(frame[_HEADER_SIZE:offset], "utf-8")
            else:
                offset, client_id = _HEADER_SIZE, None
            if version >= route.flexible_from:
                if frame[offset] == 0:
                    offset += 1  # no tagged fields: the usual case
                else:
                    _, offset = decode_request_header(frame)
            request, _ = route.decode(frame, version, offset)
        except (ProtocolError, UnicodeDecodeError, IndexError) as error:
            raise self._rejected(f"{route.api.name} v{version} cannot be decoded: {error}") from None
        context = RequestContext(connection, version, correlation_id, client_id, len(frame), started_s)
        if not route.is_throttled:
            context.is_settled = True
        route.metrics.request_bytes += len(frame)
        try:
            response = route.handle(request, context)
        except CloseConnectionError:
            raise
        except Exception as error:
            response = self.unexpected(route, request, error)
        if response is None:
            self.answered_nothing(route, context, started_s)
            return None
        if isinstance(response, Message):
            return self.encode(route, response, context, started_s)
        return _Pending(self, route, request, context, response, started_s)

    def serves(self, api_key: int, version: int) -> bool:
        """Return whether this version of an API is served."""
        route = self._routes.get(api_key)
        return route is not None and route.min_version <= version <= route.max_version

    def refusal(self, frame: memoryview, connection: Connection, code: ErrorCode) -> Answer:
        """Return the answer to a request that is not handled. Raises ProtocolError for one that cannot be decoded."""
        started_s = perf_counter()
        header, offset = decode_request_header(frame)
        route = self._routes[header.request_api_key]
        request, _ = route.decode(frame, header.request_api_version, offset)
        route.metrics.request_bytes += len(frame)
        route.metrics.errors += 1
        version, client_id = header.request_api_version, header.client_id
        context = RequestContext(connection, version, header.correlation_id, client_id, len(frame), started_s)
        return self.encode(route, route.handler.failed(request, code), context, started_s)

    def encode(self, route: _Route, response: Message, context: RequestContext, started_s: float) -> Answer:
        """Return the frame of an answer, in pieces; record ranges are not read."""
        version = context.api_version
        try:
            pieces = response.encode(version)
        except ProtocolError as error:
            logger.error("the answer to %s v%d cannot be encoded", route.api.name, version, exc_info=error)
            raise CloseConnectionError(f"the answer to {route.api.name} v{version} cannot be encoded") from None
        ended_s = perf_counter()  # after the encoding: one reading for metrics and quotas
        if self._quotas.is_active and (throttle_ms := self._quotas.settle(context, route.is_produce, ended_s)):
            context.connection.mute(throttle_ms / 1000)
            if route.tells_throttle_time:
                response.throttle_time_ms = throttle_ms  # type: ignore[attr-defined]  # see tells_throttle_time
                pieces = response.encode(version)
        size = 4
        for piece in pieces:
            size += len(piece)
        if version >= route.tagged_from:
            size += 1
            head = _pack_answer(size, context.correlation_id) + b"\0"
        else:
            head = _pack_answer(size, context.correlation_id)
        route.metrics.answered(ended_s - started_s, size + 4)
        if len(pieces) == 1 and type(body := pieces[0]) is bytearray:
            return [head + body]  # without records: one piece is cheaper for the connection
        return [head, *pieces]

    @property
    def has_quotas(self) -> bool:
        """Whether any client has a quota."""
        return self._quotas.is_active

    def answered_nothing(self, route: _Route, context: RequestContext, started_s: float) -> None:
        """Count a request that gets no answer (Produce with acks=0)."""
        ended_s = perf_counter()
        if self._quotas.is_active and (throttle_ms := self._quotas.settle(context, route.is_produce, ended_s)):
            context.connection.mute(throttle_ms / 1000)
        route.metrics.answered(ended_s - started_s, 0)

    def unexpected(self, route: _Route, request: Message, error: Exception) -> Message:
        """Return the answer for an exception that a handler has not handled."""
        route.metrics.errors += 1
        code = code_of(error)
        if code is ErrorCode.UNKNOWN_SERVER_ERROR:
            logger.error("%s failed unexpectedly", route.api.name, exc_info=error)
        return route.handler.failed(request, code)

    def _unsupported(
        self, frame: memoryview, connection: Connection, api_key: int, version: int, correlation_id: int
    ) -> Answer | _Pending | None:
        route = self._routes.get(api_key)
        if api_key == ApiKey.API_VERSIONS and route is not None:
            context = RequestContext(connection, 0, correlation_id, None, len(frame), perf_counter())
            response = route.handler.failed(route.api.request(), ErrorCode.UNSUPPORTED_VERSION)
            return self.encode(route, response, context, perf_counter())
        if route is None:
            raise self._rejected(f"API key {api_key} is unknown or not served")
        served = f"{route.api.min_version} to {route.api.max_version}"
        raise self._rejected(f"{route.api.name} version {version} is not served ({served} are)")

    def _rejected(self, reason: str) -> CloseConnectionError:
        self._metrics.rejected_frames += 1
        return CloseConnectionError(reason)
