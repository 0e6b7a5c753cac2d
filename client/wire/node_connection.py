"""The connection to one broker: opened for the first request, and again after it was lost or the broker has moved.

A connection whose negotiation fails or is cancelled is closed and never returned.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import NamedTuple, TypeVar

from client.errors import BrokerUnknownError, BrokerUnreachableError, ConnectionLostError
from client.wire.connection import DEFAULT_CONNECT_TIMEOUT_S, Connection
from client.wire.connection_security import UNSECURED, ConnectionSecurity
from client.wire.network import Network
from client.wire.setup_timeouts import SetupTimeouts
from protocol.host_port import HostPort
from protocol.message import Message

R = TypeVar("R", bound=Message)


class ConnectionOptions(NamedTuple):
    """How a connection is opened.

    client_id: sent with every request. request_timeout_s: for an answer.
    negotiates: ask the broker for its API versions (KIP-511), so that requests may leave their version open.
    security: TLS and the login. setup: how long connecting may take; None: DEFAULT_CONNECT_TIMEOUT_S.
    """

    network: Network
    client_id: str
    request_timeout_s: float
    negotiates: bool = False
    security: ConnectionSecurity = UNSECURED
    setup: SetupTimeouts | None = None

    async def open(self, address: HostPort) -> Connection:
        """Connect, log in, and negotiate if asked for.

        Raises BrokerUnreachableError, ConnectionLostError, AuthenticationError, UnsupportedApiError.
        """
        connection = await self._connect(address)
        if self.negotiates and self.security.login is None:  # a login has negotiated
            try:
                await connection.negotiate()
            except BaseException:
                connection.abort()
                raise
        return connection

    async def _connect(self, address: HostPort) -> Connection:
        setup = self.setup
        try:
            connection = await Connection.open(
                *address,
                network=self.network,
                client_id=self.client_id,
                request_timeout_s=self.request_timeout_s,
                connect_timeout_s=DEFAULT_CONNECT_TIMEOUT_S if setup is None else setup.next_s(address),
                security=self.security,
            )
        except BrokerUnreachableError:
            if setup is not None:
                setup.failed(address)
            raise
        if setup is not None:
            setup.succeeded(address)
        return connection


class NodeConnection:
    """At most one connection to one broker. Concurrent callers share it, and the attempt to open it."""

    def __init__(
        self,
        name: str,
        address: Callable[[], HostPort | None],
        open_connection: Callable[[HostPort], Awaitable[Connection]],
    ) -> None:
        """name: of the broker, for messages. address: where the broker is now; None if that is not known."""
        self._name = name
        self._address = address
        self._open_connection = open_connection
        self._opening = asyncio.Lock()
        self._connection: Connection | None = None
        self._times_closed = 0

    @property
    def current(self) -> Connection | None:
        """The connection if it is open."""
        connection = self._connection
        return None if connection is None or connection.is_closed else connection

    @property
    def is_lost(self) -> bool:
        """Whether a connection ended and no new one is open yet."""
        return self._connection is not None and self._connection.is_closed

    async def open(self) -> Connection:
        """The connection, opened if necessary.

        Raises BrokerUnknownError if the broker has no address now, ConnectionLostError if it does not accept the
        connection or `close` was called meanwhile, and what the negotiation raises.
        """
        async with self._opening:
            address = self._address()
            if address is None:
                raise BrokerUnknownError(self._name)
            connection = self.current
            if connection is not None:
                if (connection.host, connection.port) == address:
                    return connection
                connection.abort("the broker has another address now")
            times_closed = self._times_closed
            opened = await self._open_connection(address)
            if self._times_closed > times_closed:
                opened.abort()
                raise ConnectionLostError(*address, "closed by this side")
            adopted = self.current
            if adopted is not None:
                opened.abort("another connection to this broker is open")
                return adopted
            self._connection = opened
            return opened

    async def call(self, request: Message, response: type[R], version: int) -> R:
        """Send a request and wait for its answer. Raises KafkaError: the broker may then have carried it out or not."""
        return await (await self.open()).call(request, response, version)

    def adopt(self, connection: Connection) -> None:
        """Use a connection that was opened to this broker's address before the broker's id was known."""
        self._connection = connection

    def forget_lost(self) -> None:
        """Drop a connection that has ended."""
        if self.is_lost:
            self._connection = None

    def close(self, reason: str = "closed by this side") -> None:
        """Close the connection, also one that is being opened; requests under way fail.

        A later `open` opens a new connection.
        """
        self._times_closed += 1
        if self._connection is not None:
            self._connection.abort(reason)
            self._connection = None
