"""The SASL login of a connection: SaslHandshake names the mechanism, then SaslAuthenticate carries its messages.

A broker before Kafka 1.0 has only version 0 of SaslHandshake; the messages then follow as frames without a header. In a
session of limited time the login is repeated before the session ends (KIP-368). Requests that were sent before are
answered first; requests made during the login are sent after it.
"""

from __future__ import annotations

import asyncio
import random as random_module
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final, NamedTuple

from client.errors import AuthenticationError, ConnectionLostError, KafkaError, error_for
from protocol.error_codes import ErrorCode
from protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from security.sasl.client_exchange import ClientExchange
from security.sasl.errors import SaslError
from security.sasl.scram_client import ScramClient

if TYPE_CHECKING:
    from client.wire.connection import Connection

NewExchange = Callable[[str], Awaitable[ClientExchange]]
"""Makes the exchange of one login at a broker with this host name; it may fetch a token or a ticket first.

Raises KafkaError, SaslError.
"""

_EARLIEST: Final = 0.85
_LATEST: Final = 0.95
"""The part of a session's time after which a login is repeated: a random one between these, as in Kafka's client."""
_NEXT_ATTEMPT: Final = 0.25
"""The part of the remaining time until the next attempt, if no token could be fetched."""


class SaslLogin(NamedTuple):
    """How connections log in. mechanism: its name. random: spreads repeated logins."""

    mechanism: str
    new_exchange: NewExchange
    random: random_module.Random

    async def run(self, connection: Connection) -> None:
        """Log in on a connection whose API versions are known, and again before the session ends.

        Raises AuthenticationError, ConnectionLostError, RequestTimeoutError, and what `new_exchange` raises.
        """
        try:
            exchange = await self.new_exchange(connection.host)
        except SaslError as error:
            raise AuthenticationError(f"{self._where(connection)}: {error}") from error
        await self._authenticate(connection, exchange)

    async def _again(self, connection: Connection, remaining_s: float) -> None:
        """Log in again; without a token try again soon, because the session has not ended yet."""
        try:
            await self.run(connection)
        except KafkaError as error:
            if not error.retriable or isinstance(error, ConnectionLostError) or connection.is_closed:
                raise
            delay_s = remaining_s * _NEXT_ATTEMPT
            left_s = remaining_s - delay_s
            connection.call_later(delay_s, lambda: self._again(connection, left_s))

    async def _authenticate(self, connection: Connection, exchange: ClientExchange) -> None:
        where = self._where(connection)
        try:
            with connection.only_logins():
                if await self._handshake(connection, where) == 0:
                    lifetime_s = await _with_raw_tokens(connection, exchange)
                else:
                    lifetime_s = await _with_requests(connection, exchange, where)
        except SaslError as error:
            raise AuthenticationError(f"{where}: {error}") from error
        if lifetime_s:
            delay_s = lifetime_s * self.random.uniform(_EARLIEST, _LATEST)
            connection.call_later(delay_s, lambda: self._again(connection, lifetime_s - delay_s))

    async def _handshake(self, connection: Connection, where: str) -> int:
        """Agree on the mechanism. Return the version that the broker has."""
        version = connection.common_version(SaslHandshakeRequest)
        request = SaslHandshakeRequest(mechanism=self.mechanism)
        response = await connection.submit_login(request, SaslHandshakeResponse, version)
        if response.error_code:
            reason = None
            if response.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM:
                reason = "the listener has enabled " + (", ".join(response.mechanisms) or "none")
            elif response.error_code == ErrorCode.ILLEGAL_SASL_STATE:
                reason = "the listener has no login: its protocol is PLAINTEXT or SSL"
            raise error_for(response.error_code, reason, context=where)
        return version

    def _where(self, connection: Connection) -> str:
        return f"login to {connection.host}:{connection.port} with {self.mechanism}"


async def _with_requests(connection: Connection, exchange: ClientExchange, where: str) -> float:
    """Exchange the messages. Return the seconds until the session ends; 0 if it does not end."""
    version = connection.common_version(SaslAuthenticateRequest)
    message: bytes | None = exchange.first()
    lifetime_ms = 0
    while message is not None:
        request = SaslAuthenticateRequest(auth_bytes=message)
        response = await connection.submit_login(request, SaslAuthenticateResponse, version)
        if response.error_code:
            raise error_for(response.error_code, response.error_message or None, context=where)
        lifetime_ms = response.session_lifetime_ms
        message = await _answer(exchange, bytes(response.auth_bytes))
    return lifetime_ms / 1000


async def _with_raw_tokens(connection: Connection, exchange: ClientExchange) -> float:
    """Exchange the messages without headers; a broker that refuses one closes the connection."""
    message: bytes | None = exchange.first()
    while message is not None:
        if exchange.is_last:
            connection.send_token(message)
            return 0
        try:
            answer = await connection.exchange_token(message)
        except ConnectionLostError as error:
            raise SaslError(f"the broker has refused it, or the connection was lost ({error.reason})") from error
        message = await _answer(exchange, answer)
    return 0


async def _answer(exchange: ClientExchange, message: bytes) -> bytes | None:
    """Answer the broker's message. The iterations that it asks for do not block the event loop. Raises SaslError."""
    if isinstance(exchange, ScramClient) and exchange.takes_long(message):
        return await asyncio.to_thread(exchange.answer, message)
    return exchange.answer(message)
