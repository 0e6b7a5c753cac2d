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
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, TypeVar, cast

from client.errors import (
    BrokerUnreachableError,
    ConnectionLostError,
    KafkaError,
    MalformedResponseError,
    RequestTimeoutError,
)
from client.wire.connection_errors import lost, unreachable
from client.wire.connection_security import UNSECURED, ConnectionSecurity
from client.wire.frame_buffer import FrameBuffer, FrameError
from client.wire.frames import correlation_id_of, encode_request
from client.wire.in_flight import InFlight, RequestsInFlight
from client.wire.network import AsyncioNetwork, Network
from client.wire.versions import ApiVersions, highest_common, request_versions
from protocol.api_keys import ApiKey, response_class
from protocol.errors import ProtocolError
from protocol.message import Message

R = TypeVar("R", bound=Message)

DEFAULT_REQUEST_TIMEOUT_S = 30.0
DEFAULT_CONNECT_TIMEOUT_S = 10.0
DEFAULT_MAX_RESPONSE_SIZE = 256 * 1024 * 1024

# Up to this many bytes a request is joined into one buffer; above, the copy costs more than a vectored write.
_JOIN_LIMIT = 64 * 1024


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
        # The broker's versions, after `negotiate`.
        self.api_versions: ApiVersions = {}
        # Called once, with the reason, when the connection ends.
        self.on_close: Callable[[KafkaError], None] | None = None
        self._client_id_bytes = None if client_id is None else client_id.encode()
        self._request_timeout_s = request_timeout_s
        self._loop = asyncio.get_running_loop()
        # When the last request was written.
        self.used_at = self._loop.time()
        self._frames = FrameBuffer(max_response_size)
        self._in_flight = RequestsInFlight()
        self._correlation_id = 0
        self._timer: asyncio.TimerHandle | None = None
        self._error: KafkaError | None = None
        self._closed: asyncio.Future[None] = self._loop.create_future()
        self._writable: asyncio.Future[None] | None = None
        # During a login: the frames of other requests.
        self._held: list[list[bytes | bytearray | memoryview]] | None = None
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
        return self._in_flight.oldest_is_cancelled

    @property
    def is_congested(self) -> bool:
        """Whether the transport's buffer is too full: call `drain` before writing more."""
        return self._writable is not None

    # ---- requests

    async def negotiate(self) -> None:
        """Ask for the versions of all APIs, and keep them. Raises what `versions.request_versions` raises."""
        self.api_versions = await request_versions(self)

    def common_version(self, message: type[Message], max_version: int | None = None) -> int:
        """The highest version of a request that both sides support, at most `max_version`.

        Raises UnsupportedApiError if there is none (ApiNotServedError if the broker has none), or before `negotiate`.
        """
        return highest_common(self, message, max_version)

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
        request = InFlight(correlation_id, message.API_KEY, version, response, future, deadline)
        self._in_flight.add(request, is_held=self._held is not None)
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
        elif isinstance(self._loop, asyncio.BaseEventLoop):
            # asyncio's writelines copies in Python 3.11, and never pauses in early 3.12 and 3.13 (CVE-2024-12254).
            for piece in pieces:
                if self._transport.is_closing():  # one of them has failed: each further one would be a warning
                    return
                self._transport.write(piece)
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
        held, self._held = self._held, None
        self._in_flight.release()
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
        self._in_flight.add_login(InFlight(correlation_id, message.API_KEY, version, response, future, deadline))
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
        self._in_flight.fail_all(error)
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
        overdue = self._in_flight.overdue(self._loop.time())
        if overdue is not None:
            name = ApiKey(overdue.api_key).name
            overdue.future.set_exception(RequestTimeoutError(f"{self.host}:{self.port} did not answer {name} in time"))
            self._fail(self._lost(f"{name} was not answered in time"), abort=True)
            return
        deadline = self._in_flight.next_deadline_s()
        if deadline is not None:
            self._timer = self._loop.call_at(deadline, self._check_deadlines)

    # ---- asyncio.BufferedProtocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The transport is connected."""
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """The transport is closed."""
        self._fail(lost(self.host, self.port, exc))
        self._frames.close()  # not with the connection: others may refer to it for longer
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
        if self._in_flight:
            self._in_flight.answer(frame)
        elif self._token is None or self._token.done():
            raise FrameError(f"correlation id {correlation_id_of(frame)}, expected no answer")
        else:
            self._token.set_result(bytes(frame))


async def _connect(
    factory: Callable[[], Connection], host: str, port: int, network: Network, security: ConnectionSecurity
) -> Connection:
    if security.tls is None:
        return (await network.connect(factory, host, port))[1]
    return (await network.connect(factory, host, port, tls=security.tls()))[1]
