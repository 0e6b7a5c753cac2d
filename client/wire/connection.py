"""One TCP connection to a broker, with pipelined requests.

Rules. Every request gets the next correlation id. A broker answers the requests of one connection in the order in which
they were sent, so an answer belongs to the oldest request in flight. If its correlation id differs, the stream is
broken and the connection is closed. When a connection ends, every request in flight fails with an error that names
host and port; whether the broker carried them out is then unknown. A request that is not answered in time also ends the
connection, as in Kafka's own client: later requests would wait behind it. Cancelling a request only drops its answer.

A request is one write and one future, without a task. Between brokers, configuration sets the versions, which are
passed to `request`; a client calls `negotiate` first, and the connection chooses the highest common version.

A secured connection (`client.wire.connection_security`) is open when TLS and the login have succeeded. While a login is
repeated, other requests are held back until it has ended.
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, TypeVar, cast

from client.errors import (
    ApiNotServedError,
    BrokerUnreachableError,
    ConnectionLostError,
    KafkaError,
    MalformedResponseError,
    RequestTimeoutError,
    UnsupportedApiError,
    error_for,
)
from client.wire.connection_errors import lost, unreachable
from client.wire.connection_security import UNSECURED, ConnectionSecurity
from client.wire.frame_buffer import FrameBuffer, FrameError
from client.wire.frames import correlation_id_of, decode_response, encode_request
from client.wire.network import AsyncioNetwork, Network
from protocol.api_keys import ApiKey, response_class
from protocol.error_codes import ErrorCode
from protocol.errors import ProtocolError
from protocol.message import Message
from protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse

R = TypeVar("R", bound=Message)

DEFAULT_REQUEST_TIMEOUT_S = 30.0
DEFAULT_CONNECT_TIMEOUT_S = 10.0
DEFAULT_MAX_RESPONSE_SIZE = 256 * 1024 * 1024
SOFTWARE_NAME = "ottla"
SOFTWARE_VERSION = "0.1.0"

# Up to this many bytes a request is joined into one buffer; above, the copy costs more than a vectored write.
_JOIN_LIMIT = 64 * 1024


class _InFlight:
    """A request that waits for its answer."""

    __slots__ = ("api_key", "api_version", "correlation_id", "deadline", "future", "response")

    def __init__(
        self,
        correlation_id: int,
        api_key: int,
        api_version: int,
        response: type[Message],
        future: "asyncio.Future[Message]",
        deadline: float,
    ) -> None:
        self.correlation_id = correlation_id
        self.api_key = api_key
        self.api_version = api_version
        self.response = response
        self.future = future
        self.deadline = deadline


class Connection(asyncio.BufferedProtocol):
    """A connection to one broker. Use `await Connection.open(...)`; also an asynchronous context manager.

    All methods must be called in the event loop that opened it.
    """

    _transport: asyncio.Transport
    """Set by `connection_made`, the first call of every protocol."""

    def __init__(
        self,
        host: str,
        port: int,
        *,
        client_id: str | None = "ottla",
        request_timeout_s: float = DEFAULT_REQUEST_TIMEOUT_S,
        max_response_size: int = DEFAULT_MAX_RESPONSE_SIZE,
    ) -> None:
        self.host = host
        self.port = port
        self.client_id = client_id
        # The broker's versions (lowest, highest) by API key, after `negotiate`.
        self.api_versions: dict[int, tuple[int, int]] = {}
        # Called once, with the reason, when the connection ends.
        self.on_close: Callable[[KafkaError], None] | None = None
        self._client_id_bytes = None if client_id is None else client_id.encode()
        self._request_timeout_s = request_timeout_s
        self._loop = asyncio.get_running_loop()
        # When the last request was written.
        self.used_at = self._loop.time()
        self._frames = FrameBuffer(max_response_size)
        # Invariant: in the order in which they were written, so the leftmost request is answered next.
        self._in_flight: deque[_InFlight] = deque()
        self._correlation_id = 0
        self._timer: asyncio.TimerHandle | None = None
        self._error: KafkaError | None = None
        self._closed: asyncio.Future[None] = self._loop.create_future()
        self._writable: asyncio.Future[None] | None = None
        # During a login: the frames of other requests; and how many of these, the newest in `_in_flight`, are answered.
        self._held: list[list[bytes | bytearray | memoryview]] | None = None
        self._held_answers = 0
        # The answer to a bare SASL token, which has no correlation id.
        self._token: asyncio.Future[bytes] | None = None
        self._login_timer: asyncio.TimerHandle | None = None
        self._login_task: asyncio.Task[None] | None = None

    @classmethod
    async def open(
        cls,
        host: str,
        port: int,
        *,
        network: Network | None = None,
        client_id: str | None = "ottla",
        request_timeout_s: float = DEFAULT_REQUEST_TIMEOUT_S,
        connect_timeout_s: float = DEFAULT_CONNECT_TIMEOUT_S,
        max_response_size: int = DEFAULT_MAX_RESPONSE_SIZE,
        security: ConnectionSecurity = UNSECURED,
    ) -> "Connection":
        """Connect to `host:port`, and log in if `security` has a login; this also negotiates the API versions.

        Raises BrokerUnreachableError if the connection is not accepted in time, AuthenticationError if TLS or the login
        fails, and what `request` raises if the connection is lost during the login.
        """

        def factory() -> Connection:
            return cls(
                host,
                port,
                client_id=client_id,
                request_timeout_s=request_timeout_s,
                max_response_size=max_response_size,
            )

        try:
            async with asyncio.timeout(connect_timeout_s):
                connection = await _connect(factory, host, port, network or AsyncioNetwork(), security)
        except TimeoutError:
            raise BrokerUnreachableError(host, port, f"no answer within {connect_timeout_s:g} s") from None
        except OSError as error:
            raise unreachable(host, port, error, has_tls=security.tls is not None) from error
        if security.login is not None:
            try:
                await connection.negotiate()
                await security.login.run(connection)
            except BaseException:
                connection.abort()
                raise
        return connection

    async def __aenter__(self) -> "Connection":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @property
    def is_closed(self) -> bool:
        """Whether the connection has ended; then every further request fails at once."""
        return self._error is not None

    @property
    def in_flight(self) -> int:
        """The number of requests that wait for an answer."""
        return len(self._in_flight)

    @property
    def is_given_up(self) -> bool:
        """Whether the caller of the oldest request in flight no longer waits for the answer."""
        return bool(self._in_flight) and self._in_flight[0].future.cancelled()

    @property
    def is_congested(self) -> bool:
        """Whether the transport's buffer is too full: call `drain` before writing more."""
        return self._writable is not None

    # ---- requests

    async def negotiate(self) -> None:
        """Request the API versions that the broker supports, and keep them.

        The request has our newest version. A broker that does not know it answers in version 0 with the versions that
        it knows (KIP-511), and the request is repeated in the newest common version. Raises UnsupportedApiError if
        there is no common version.
        """
        version = ApiVersionsRequest.MAX_VERSION
        for _ in range(2):
            request = ApiVersionsRequest()
            if version >= 3:
                request.client_software_name = SOFTWARE_NAME
                request.client_software_version = SOFTWARE_VERSION
            response = await self.call(request, ApiVersionsResponse, version)
            offered = {int(api.api_key): (int(api.min_version), int(api.max_version)) for api in response.api_keys}
            if response.error_code == ErrorCode.NONE:
                self.api_versions = offered
                return
            if response.error_code != ErrorCode.UNSUPPORTED_VERSION:
                raise error_for(response.error_code, context=f"ApiVersions to {self.host}:{self.port}")
            version = min(version - 1, offered.get(int(ApiKey.API_VERSIONS), (0, 0))[1])
        raise UnsupportedApiError(f"{self.host}:{self.port} and this client have no common version of ApiVersions")

    def common_version(self, message: type[Message], max_version: int | None = None) -> int:
        """The highest version of a request that both sides support, at most `max_version`.

        Raises UnsupportedApiError if there is none (ApiNotServedError if the broker has none), or before `negotiate`.
        """
        name = ApiKey(message.API_KEY).name
        offered = self.api_versions.get(message.API_KEY)
        if offered is None:
            if not self.api_versions:
                raise UnsupportedApiError(f"versions of {self.host}:{self.port} are unknown: call negotiate() first")
            raise ApiNotServedError(f"{self.host}:{self.port}", name)
        highest = min(offered[1], message.MAX_VERSION)
        if max_version is not None:
            highest = min(highest, max_version)
        if highest < max(offered[0], message.MIN_VERSION):
            raise UnsupportedApiError(
                f"{self.host}:{self.port} serves {name} in versions {offered[0]} to {offered[1]}, "
                f"this client needs {message.MIN_VERSION} to {min(message.MAX_VERSION, highest)}"
            )
        return highest

    async def request(
        self,
        message: Message,
        version: int | None = None,
        *,
        timeout_s: float | None = None,
        max_version: int | None = None,
    ) -> Message:
        """Send a request in `version`, or in the highest common version, and wait for its answer.

        `timeout_s` replaces the connection's request timeout. Raises ConnectionLostError,
        RequestTimeoutError, MalformedResponseError, UnsupportedApiError; EncodeError for a field that the
        version cannot carry.
        """
        if version is None:
            version = self.common_version(type(message), max_version)
        return await self.submit(message, response_class(message.API_KEY), version, timeout_s=timeout_s)

    async def call(
        self,
        message: Message,
        response: type[R],
        version: int | None = None,
        *,
        timeout_s: float | None = None,
        max_version: int | None = None,
    ) -> R:
        """The same as `request`, with the type of the answer for type checkers."""
        if version is None:
            version = self.common_version(type(message), max_version)
        return await self.submit(message, response, version, timeout_s=timeout_s)

    def submit(
        self, message: Message, response: type[R], version: int, *, timeout_s: float | None = None
    ) -> "asyncio.Future[R]":
        """Write a request now and return the future of its answer (pipelining without a task)."""
        future: asyncio.Future[Message] = self._loop.create_future()
        if self._error is not None:
            future.set_exception(self._error)
            return cast("asyncio.Future[R]", future)
        correlation_id = self._write(message, version)
        self.used_at = self._loop.time()
        deadline = self.used_at + (self._request_timeout_s if timeout_s is None else timeout_s)
        self._in_flight.append(_InFlight(correlation_id, message.API_KEY, version, response, future, deadline))
        if self._held is not None:
            self._held_answers += 1
        self._check_at(deadline)
        return cast("asyncio.Future[R]", future)

    def send_no_reply(self, message: Message, version: int | None = None) -> None:
        """Send a request without an answer (Produce with acks=0). Raises ConnectionLostError if the connection has
        ended.
        """
        if self._error is not None:
            raise self._error
        self._write(message, self.common_version(type(message)) if version is None else version)
        self.used_at = self._loop.time()

    async def drain(self) -> None:
        """Wait until the transport's buffer has room. Raises ConnectionLostError."""
        if self._writable is not None:
            await asyncio.shield(self._writable)
        if self._error is not None:
            raise self._error

    def _write(self, message: Message, version: int, *, is_login: bool = False) -> int:
        correlation_id = self._correlation_id
        pieces = encode_request(message, version, correlation_id, self._client_id_bytes)
        self._correlation_id = (correlation_id + 1) & 0x7FFFFFFF
        if self._held is None or is_login:
            self._write_pieces(pieces)
        else:
            self._held.append(pieces)
        return correlation_id

    def _write_pieces(self, pieces: list[bytes | bytearray | memoryview]) -> None:
        if sum(map(len, pieces)) <= _JOIN_LIMIT:
            self._transport.write(b"".join(pieces))
        else:
            self._transport.writelines(pieces)

    # ---- logins

    @contextlib.contextmanager
    def only_logins(self) -> Iterator[None]:
        """Hold back all requests but those of `submit_login` and `exchange_token`. If the body raises, close."""
        self._held = []
        try:
            yield
        except BaseException as error:
            self._fail(error if isinstance(error, KafkaError) else self._lost("the login has failed"), abort=True)
            raise
        held, self._held, self._held_answers = self._held, None, 0
        if self._error is None:
            for pieces in held:
                self._write_pieces(pieces)

    def submit_login(self, message: Message, response: type[R], version: int) -> "asyncio.Future[R]":
        """Write a request of a login now, before the requests that are held back, and return the future of its answer.

        A login is no use of the connection: an idle one is still closed.
        """
        future: asyncio.Future[Message] = self._loop.create_future()
        if self._error is not None:
            future.set_exception(self._error)
            return cast("asyncio.Future[R]", future)
        correlation_id = self._write(message, version, is_login=True)
        deadline = self._loop.time() + self._request_timeout_s
        entry = _InFlight(correlation_id, message.API_KEY, version, response, future, deadline)
        self._in_flight.insert(len(self._in_flight) - self._held_answers, entry)
        self._check_at(deadline)
        return cast("asyncio.Future[R]", future)

    def send_token(self, token: bytes) -> None:
        """Send a bare SASL token that has no answer. Raises ConnectionLostError if the connection has ended."""
        if self._error is not None:
            raise self._error
        self._transport.write(len(token).to_bytes(4, "big") + token)

    async def exchange_token(self, token: bytes) -> bytes:
        """Send a bare SASL token and return the broker's; no request may be in flight.

        Raises ConnectionLostError, RequestTimeoutError.
        """
        self.send_token(token)
        self._token = self._loop.create_future()
        try:
            async with asyncio.timeout(self._request_timeout_s):
                return await self._token
        except TimeoutError:
            raise RequestTimeoutError(f"{self.host}:{self.port} did not answer a SASL token in time") from None
        finally:
            self._token = None

    def call_later(self, delay_s: float, again: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run `again` in a task after `delay_s`, unless the connection is closed then. An error closes it."""
        if self._error is None:
            self._login_timer = self._loop.call_later(delay_s, self._start_login, again)

    def _start_login(self, again: Callable[[], Coroutine[Any, Any, None]]) -> None:
        async def run() -> None:
            try:
                await again()
            except KafkaError as error:
                self._fail(error, abort=True)
            except Exception as error:
                self._fail(self._lost(f"the login has failed: {type(error).__name__}"), abort=True)
                raise

        self._login_task = self._loop.create_task(run(), name=f"login to {self.host}:{self.port}")

    # ---- closing

    async def close(self) -> None:
        """Close; requests in flight fail with ConnectionLostError. Safe to call twice."""
        self._fail(self._lost("closed by this side"))
        await self.wait_closed()

    async def wait_closed(self) -> None:
        """Wait until the transport is closed."""
        await asyncio.shield(self._closed)

    def abort(self, reason: str = "aborted by this side") -> None:
        """Close at once; discard bytes that are not written yet."""
        self._fail(self._lost(reason), abort=True)

    def _lost(self, reason: str) -> ConnectionLostError:
        return ConnectionLostError(self.host, self.port, reason)

    def _fail(self, error: KafkaError, *, abort: bool = False) -> None:
        if self._error is not None:
            return
        self._error = error
        for timer in (self._timer, self._login_timer):
            if timer is not None:
                timer.cancel()
        self._timer = self._login_timer = None
        if self._login_task is not None and self._login_task is not asyncio.current_task(self._loop):
            self._login_task.cancel()
        if self._token is not None and not self._token.done():
            self._token.set_exception(error)
        waiting, self._in_flight = self._in_flight, deque()
        for entry in waiting:
            if not entry.future.done():
                entry.future.set_exception(error)
        self._resume()
        if abort:
            self._transport.abort()
        else:
            self._transport.close()
        if self.on_close is not None:
            self.on_close(error)

    def _finish(self) -> None:
        if not self._closed.done():
            self._closed.set_result(None)

    def _check_at(self, deadline: float) -> None:
        """Call `_check_deadlines` at `deadline`, or earlier."""
        timer = self._timer
        if timer is None or deadline < timer.when():
            if timer is not None:
                timer.cancel()
            self._timer = self._loop.call_at(deadline, self._check_deadlines)

    def _check_deadlines(self) -> None:
        self._timer = None
        now = self._loop.time()
        waiting = [entry for entry in self._in_flight if not entry.future.done()]
        for entry in waiting:
            if entry.deadline <= now:
                name = ApiKey(entry.api_key).name
                entry.future.set_exception(
                    RequestTimeoutError(f"{self.host}:{self.port} did not answer {name} in time")
                )
                self._fail(self._lost(f"{name} was not answered in time"), abort=True)
                return
        if waiting:
            self._timer = self._loop.call_at(min(entry.deadline for entry in waiting), self._check_deadlines)

    # ---- asyncio.BufferedProtocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The transport is connected."""
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """The transport is closed."""
        self._fail(lost(self.host, self.port, exc))
        self._finish()

    def eof_received(self) -> None:
        """The broker closed its side: let the transport close."""

    def pause_writing(self) -> None:
        """The transport's buffer is full."""
        if self._writable is None:
            self._writable = self._loop.create_future()

    def resume_writing(self) -> None:
        """The transport's buffer has room again."""
        self._resume()

    def _resume(self) -> None:
        if self._writable is not None:
            self._writable.set_result(None)
            self._writable = None

    def get_buffer(self, sizehint: int) -> memoryview:
        """The buffer that the transport receives into."""
        return self._frames.writable()

    def buffer_updated(self, nbytes: int) -> None:
        """`nbytes` have arrived."""
        if self._error is not None:
            return
        try:
            for frame in self._frames.received(nbytes):
                self._answer(frame)
        except (FrameError, ProtocolError) as error:
            self._fail(MalformedResponseError(self.host, self.port, str(error)), abort=True)

    def _answer(self, frame: bytes | memoryview) -> None:
        if not self._in_flight:
            self._answer_token(frame)
            return
        entry = self._in_flight[0]
        correlation_id = correlation_id_of(frame)
        if entry.correlation_id != correlation_id:
            raise FrameError(f"correlation id {correlation_id}, expected {entry.correlation_id}")
        if not entry.future.done():  # else the request was cancelled
            message = decode_response(frame, entry.api_key, entry.api_version, entry.response)
            entry.future.set_result(message)
        self._in_flight.popleft()

    def _answer_token(self, frame: bytes | memoryview) -> None:
        if self._token is None or self._token.done():
            raise FrameError(f"correlation id {correlation_id_of(frame)}, expected no answer")
        self._token.set_result(bytes(frame))


async def _connect(
    factory: Callable[[], Connection], host: str, port: int, network: Network, security: ConnectionSecurity
) -> Connection:
    if security.tls is None:
        return (await network.connect(factory, host, port))[1]
    return (await network.connect(factory, host, port, tls=security.tls()))[1]
