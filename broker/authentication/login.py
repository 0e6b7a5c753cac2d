"""One connection of a SASL listener before its client is authenticated, and while it authenticates again.

    [ApiVersions] SaslHandshake(mechanism) token token ...

After SaslHandshake v1 a token is in a SaslAuthenticate request, and a failure is its answer; after v0 tokens are bare
frames, and a failure has no answer. A connection that begins with a token of GSSAPI has no handshake, and its tokens
are bare: clients of Kafka 0.9 do this. Nothing else is served: between the handshake and the tokens another request
gets an answer of its own kind with ILLEGAL_SASL_STATE. Every failure closes the connection, after the delay of
connection.failed.authentication.delay.ms; meanwhile no further frame of the connection is read.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from broker.authentication.audit import log_failure
from broker.authentication.step_threads import SteppedAnswer
from broker.network.connection import CloseConnectionError, Connection, PendingAnswer
from broker.network.output import Answer
from protocol.api_keys import ApiKey
from protocol.error_codes import ErrorCode
from protocol.errors import ProtocolError
from protocol.headers import RequestHeader, decode_request_header, response_header_version
from protocol.message import Message
from protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from security.sasl.errors import AuthenticationFailedError, SaslError
from security.sasl.gss_context import GSSAPI
from security.sasl.server import Authenticated, SaslServer

if TYPE_CHECKING:
    from broker.authentication.listener import ListenerAuthentication

_unpack_api = struct.Struct(">hh").unpack_from
_pack_size = struct.Struct(">i").pack

MAX_REFUSED_BYTES = 8 * 1024
"""A larger request before the login gets no answer: it would have to be decoded, which takes time."""


_GSSAPI_TOKEN = 0x60
"""The first byte of a token of GSSAPI (RFC 2743, section 3.1); no API of Kafka has a key that begins with it."""


class Established(NamedTuple):
    """What a connection has proved before: it may authenticate again, as the same user and by the same mechanism."""

    mechanism: str
    authenticated: Authenticated


class _RefusedError(Exception):
    """The client is not authenticated: the connection is closed, after the answer if there is one."""

    def __init__(self, reason: str, answer: Answer | None = None) -> None:
        super().__init__(reason)
        self.answer = answer


class _HeldRefusal:
    """The end of a connection whose client has failed to authenticate, which comes later: a `PendingAnswer`."""

    def __init__(self, connection: Connection, delay_s: float, closing: CloseConnectionError) -> None:
        self._connection = connection
        self._delay_s = delay_s
        self._closing = closing
        self._timer: Any = None

    def on_ready(self, callback: Callable[[], None]) -> None:
        """See `PendingAnswer`."""
        self._timer = self._connection.acceptor.call_later(self._delay_s, callback)

    def result(self) -> Answer | None:
        """See `PendingAnswer`."""
        raise self._closing

    def abandon(self) -> None:
        """See `PendingAnswer`."""
        if self._timer is not None:
            self._timer.cancel()


class Login:
    """The frame handler of a connection until its client is authenticated."""

    def __init__(self, listener: ListenerAuthentication, established: Established | None = None) -> None:
        self._listener = listener
        self._established = established
        self._versions_told = False
        self._mechanism = ""
        self._exchange: SaslServer | None = None  # set by SaslHandshake
        self._is_bare = False  # tokens are bare frames: SaslHandshake had version 0

    def handle_frame(self, frame: memoryview, connection: Connection) -> Answer | PendingAnswer | None:
        """Handle one frame. Raises CloseConnectionError."""
        return self._refusing(connection, lambda: self._handle(frame, connection))

    def _refusing(
        self, connection: Connection, handle: Callable[[], Answer | PendingAnswer | None]
    ) -> Answer | PendingAnswer | None:
        """Return what `handle` returns; if it refuses the client, the end of the connection, with the delay."""
        try:
            return handle()
        except _RefusedError as refused:
            closing = CloseConnectionError(f"authentication failed: {refused}", refused.answer)
        except ProtocolError as error:
            closing = CloseConnectionError(f"authentication failed: a request cannot be decoded: {error}")
        reason = str(closing).removeprefix("authentication failed: ")
        log_failure(connection.host, connection.acceptor.name, self._mechanism, reason)
        if self._listener.failure_delay_s <= 0:
            raise closing
        return _HeldRefusal(connection, self._listener.failure_delay_s, closing)

    def _handle(self, frame: memoryview, connection: Connection) -> Answer | PendingAnswer | None:
        if self._exchange is None:
            return self._before_handshake(frame, connection)
        if self._is_bare:
            return self._bare_token(bytes(frame), connection, self._exchange)
        return self._after_handshake(frame, connection, self._exchange)

    def _before_handshake(self, frame: memoryview, connection: Connection) -> Answer | PendingAnswer | None:
        api_key, version = _api(frame)
        if api_key == ApiKey.SASL_HANDSHAKE and SaslHandshakeRequest.MIN_VERSION <= version <= 1:
            return self._handshake(frame, connection)
        if api_key == ApiKey.API_VERSIONS and self._established is None and not self._versions_told:
            dispatcher = self._listener.dispatcher
            self._versions_told = dispatcher.serves(api_key, version)  # else the client may try another version
            return dispatcher.handle_frame(frame, connection)
        is_first = self._established is None and not self._versions_told
        if is_first and frame[0] == _GSSAPI_TOKEN and GSSAPI in self._listener.mechanisms:
            self._begin(GSSAPI, connection, is_bare=True)
            return self._handle(frame, connection)
        raise _RefusedError(f"a request (API key {api_key}, version {version}) came before SaslHandshake")

    def _begin(self, mechanism: str, connection: Connection, *, is_bare: bool) -> None:
        self._mechanism = mechanism
        self._exchange = self._listener.mechanisms[mechanism]()
        self._is_bare = is_bare
        connection.takes_empty_frames = is_bare and mechanism == GSSAPI

    def _handshake(self, frame: memoryview, connection: Connection) -> Answer:
        header, offset = decode_request_header(frame)
        request, _ = SaslHandshakeRequest.decode(frame, header.request_api_version, offset)
        response = SaslHandshakeResponse(mechanisms=list(self._listener.offered))
        if request.mechanism not in self._listener.mechanisms:
            response.error_code = ErrorCode.UNSUPPORTED_SASL_MECHANISM
            raise _RefusedError(f"the mechanism {request.mechanism!r} is not enabled", _answer(response, header))
        self._begin(request.mechanism, connection, is_bare=header.request_api_version == 0)
        return _answer(response, header)

    def _after_handshake(
        self, frame: memoryview, connection: Connection, exchange: SaslServer
    ) -> Answer | PendingAnswer | None:
        api_key, version = _api(frame)
        dispatcher = self._listener.dispatcher
        if not dispatcher.serves(api_key, version):
            raise _RefusedError(f"a request (API key {api_key}, version {version}) is not served")
        if api_key != ApiKey.SASL_AUTHENTICATE:
            if len(frame) > MAX_REFUSED_BYTES:
                raise _RefusedError(f"a large request (API key {api_key}) was sent instead of SaslAuthenticate")
            answer = dispatcher.refusal(frame, connection, ErrorCode.ILLEGAL_SASL_STATE)
            raise _RefusedError(f"a request (API key {api_key}) was sent instead of SaslAuthenticate", answer)
        header, offset = decode_request_header(frame)
        request, _ = SaslAuthenticateRequest.decode(frame, version, offset)

        def conclude(step: Callable[[], bytes | None]) -> Answer:
            try:
                token = self._checked(step, exchange)
            except AuthenticationFailedError as error:
                response = SaslAuthenticateResponse(
                    error_code=ErrorCode.SASL_AUTHENTICATION_FAILED, error_message=str(error)
                )
                raise _RefusedError(error.reason, _answer(response, header)) from None
            response = SaslAuthenticateResponse(error_message="", auth_bytes=token or b"")
            if exchange.authenticated is not None:
                response.session_lifetime_ms = self._succeed(connection, exchange.authenticated)
            return _answer(response, header)

        return self._step(bytes(request.auth_bytes), connection, exchange, conclude)

    def _bare_token(
        self, message: bytes, connection: Connection, exchange: SaslServer
    ) -> Answer | PendingAnswer | None:
        def conclude(step: Callable[[], bytes | None]) -> Answer | None:
            try:
                token = self._checked(step, exchange)
            except AuthenticationFailedError as error:
                raise _RefusedError(error.reason) from None
            if exchange.authenticated is not None:
                self._succeed(connection, exchange.authenticated)
            return None if token is None else [_pack_size(len(token)) + token]

        return self._step(message, connection, exchange, conclude)

    def _step(
        self,
        message: bytes,
        connection: Connection,
        exchange: SaslServer,
        conclude: Callable[[Callable[[], bytes | None]], Answer | None],
    ) -> Answer | PendingAnswer | None:
        """Let the mechanism take a message, in another thread if it takes time. conclude: makes the answer."""
        established = self._established
        if established is not None and established.mechanism != self._mechanism:
            raise _RefusedError(f"the mechanism has changed from {established.mechanism} to {self._mechanism}")
        if not exchange.takes_time(message):
            return conclude(lambda: exchange.step(message))
        return SteppedAnswer(
            self._listener.step_elsewhere(exchange, message),
            lambda step: self._refusing(connection, lambda: conclude(step)),
        )

    def _checked(self, step: Callable[[], bytes | None], exchange: SaslServer) -> bytes | None:
        """Return the message of the mechanism; a client that authenticates again must stay the same user."""
        try:
            token = step()
        except AuthenticationFailedError:
            raise
        except SaslError as error:
            raise _RefusedError(str(error)) from None
        established, proved = self._established, exchange.authenticated
        if established is not None and proved is not None:
            before, now = established.authenticated.principal, proved.principal
            if before != now:
                raise AuthenticationFailedError(
                    "Cannot change principals during re-authentication from "
                    f"{before.type}.{before.name}: {now.type}.{now.name}",
                    f"the user has changed from {str(before)!r} to {str(now)!r}",
                )
        return token

    def _succeed(self, connection: Connection, authenticated: Authenticated) -> int:
        return self._listener.authenticated(connection, Established(self._mechanism, authenticated))


def _api(frame: memoryview) -> tuple[int, int]:
    try:
        api_key, version = _unpack_api(frame)
    except struct.error:
        raise _RefusedError(f"a frame of {len(frame)} bytes is too short for a request") from None
    return api_key, version


def _answer(response: Message, header: RequestHeader) -> Answer:
    version = header.request_api_version
    pieces = response.encode(version)
    tags = b"\0" if response_header_version(header.request_api_key, version) == 1 else b""
    size = 4 + len(tags) + sum(len(piece) for piece in pieces)
    return [_pack_size(size) + _pack_size(header.correlation_id) + tags, *pieces]
