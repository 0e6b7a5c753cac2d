"""The connections of the console: at most MAX_CONNECTIONS, each with the user of its client certificate.

They count from the moment they are accepted, so that peers that stall a TLS handshake count, too. One more connection
closes the oldest one: peers that only keep connections open cannot shut out health checks. Connections are closed when
they are idle (aiohttp's keep-alive timeout), and handshakes that are not complete in time. Connections without a first
request are closed here: not every version of aiohttp does it.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, cast

from broker.network.acceptor import HANDSHAKE_TIMEOUT_S
from broker.network.connection import CloseConnectionError
from broker.network.limited_lines import LimitedLines
from broker.network.limits import Holdable
from client.wire.listening import close_servers
from security.principal import ANONYMOUS, Principal

if TYPE_CHECKING:
    from broker.network.listener_tls import ListenerTls
    from broker.network.tls_server import TlsServer

logger = logging.getLogger(__name__)

MAX_CONNECTIONS = 512
REQUEST_TIMEOUT_S = 10.0
"""How long the first request of a connection may take: silent peers must not shut out /healthz. That of a handshake."""


class ConsoleAcceptor:
    """Accepts connections and gives each a protocol of HTTP."""

    name = "console"

    def __init__(
        self,
        new_handler: Callable[[], asyncio.Protocol],
        *,
        handshake_timeout_s: float = HANDSHAKE_TIMEOUT_S,
        request_timeout_s: float = REQUEST_TIMEOUT_S,
        max_connections: int = MAX_CONNECTIONS,
    ) -> None:
        """new_handler: makes the protocol of a connection."""
        loop = asyncio.get_running_loop()
        self.now_s = loop.time
        self.call_soon = loop.call_soon
        self.call_later = loop.call_later
        self.handshake_timeout_s = handshake_timeout_s
        self.request_timeout_s = request_timeout_s
        self._max_connections = max_connections
        self._new_handler = new_handler
        self.count = 0
        """Connections, also those in a handshake."""
        self._connections: dict[ConsoleConnection, None] = {}  # in the order of arrival, without handshakes
        self._plain_servers: list[asyncio.Server] = []
        self._tls_server: TlsServer | None = None
        self.closed_lines = LimitedLines(
            logger, self.now_s, lambda number: f"closed {number} more connections on listener {self.name}"
        )
        """Of the connections that the console closed."""

    async def open(self, sockets: Sequence[socket.socket], tls: ListenerTls | None, backlog: int) -> None:
        """Accept connections on sockets that already listen."""
        if tls is not None:
            from broker.network.tls_server import TlsServer  # ssl costs a plain broker 10 ms

            self._tls_server = TlsServer(self, tls, sockets, backlog)
            return
        loop = asyncio.get_running_loop()
        for one in sockets:
            self._plain_servers.append(await loop.create_server(self._plain_connection, sock=one, backlog=backlog))

    async def close(self) -> None:
        """Stop accepting, and end all handshakes. Connections stay open."""
        await close_servers(self._plain_servers).wait()
        if self._tls_server is not None:
            self._tls_server.close()
            await self._tls_server.wait_closed()

    def _plain_connection(self) -> ConsoleConnection:
        return ConsoleConnection(self, self._new_handler())

    # -- for TlsServer and connections --------------------------------------------------------------------------------

    def tls_connection(self, tls: ListenerTls, on_complete: Callable[[], None]) -> ConsoleConnection:
        """See `TlsAcceptor`."""
        return ConsoleConnection(self, self._new_handler(), tls, on_complete)

    def counted(self, peer: Holdable) -> None:
        """Count a connection; close the oldest one if there are too many."""
        self.count += 1
        if self.count > self._max_connections:
            self._oldest(peer).close(f"it is the oldest of more than {self._max_connections}")

    def connected(self, connection: ConsoleConnection) -> None:
        """Register a connection that can be served. With TLS, its handshake has been counted."""
        if not connection.has_tls:
            self.counted(connection)
        self._connections[connection] = None

    def disconnected(self, connection: ConsoleConnection) -> None:
        """Remove a connection that is closed."""
        self._connections.pop(connection, None)
        self.uncounted(connection)

    def _oldest(self, peer: Holdable) -> Holdable:
        """Return the oldest handshake if they are more than half of all, otherwise the oldest connection."""
        handshakes: Iterable[Holdable] = () if self._tls_server is None else self._tls_server.handshakes
        pool = handshakes if 2 * (self.count - len(self._connections)) > self._max_connections else self._connections
        return next((one for one in pool if not one.closed), peer)

    def uncounted(self, peer: Holdable) -> None:
        """Remove a closed connection or handshake from the count."""
        self.count -= 1


class ConsoleConnection(asyncio.Protocol):
    """One connection: passes its events to a protocol of HTTP."""

    def __init__(
        self,
        acceptor: ConsoleAcceptor,
        handler: asyncio.Protocol,
        tls: ListenerTls | None = None,
        on_complete: Callable[[], None] | None = None,
    ) -> None:
        """on_complete: called when the TLS handshake is complete. Such a connection has been counted already."""
        self.host = ""
        self.closed = False
        self.principal: Principal = ANONYMOUS
        """The user of the client certificate."""
        self._acceptor = acceptor
        self._handler = handler
        self._tls = tls
        self._on_complete = on_complete
        self._transport: asyncio.Transport | None = None
        self._is_served = False
        self._request_timer: asyncio.TimerHandle | None = None

    @property
    def has_tls(self) -> bool:
        """Whether the connection is encrypted."""
        return self._tls is not None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self.host = str(transport.get_extra_info("peername", ("",))[0])
        if self._on_complete is not None:
            self._on_complete()
        self._acceptor.connected(self)
        if self._tls is not None and not self.closed:
            certificate = transport.get_extra_info("ssl_object").getpeercert(True)
            try:
                self.principal = self._tls.login(certificate, self.host, self._acceptor)
            except CloseConnectionError as error:
                self.close(str(error))
        if not self.closed:
            self._is_served = True
            timeout_s = self._acceptor.request_timeout_s
            self._request_timer = self._acceptor.call_later(timeout_s, self.close, f"no request in {timeout_s:g} s")
            self._handler.connection_made(transport)

    def request_arrived(self) -> None:
        """Stop waiting for the first request: aiohttp closes the connection when it is idle after an answer."""
        if self._request_timer is not None:
            self._request_timer.cancel()

    def data_received(self, data: bytes) -> None:
        if self._is_served:
            self._handler.data_received(data)

    def eof_received(self) -> bool | None:
        return self._handler.eof_received() if self._is_served else None

    def pause_writing(self) -> None:
        self._handler.pause_writing()

    def resume_writing(self) -> None:
        self._handler.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed = True
        if self._request_timer is not None:
            self._request_timer.cancel()
        self._acceptor.disconnected(self)
        if self._is_served:
            self._handler.connection_lost(exc)

    # -- for the limit ------------------------------------------------------------------------------------------------

    def hold(self) -> None:
        """Not used: the console has no limit that holds connections."""

    def admit(self) -> None:
        """See `hold`."""

    def close(self, reason: str) -> None:
        """Close the connection and log the reason, if there are not too many lines."""
        text = "closing connection from %s on listener %s: %s"
        self._acceptor.closed_lines.add(text, self.host, self._acceptor.name, reason)
        self.closed = True
        assert self._transport is not None
        self._transport.abort()
