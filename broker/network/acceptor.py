"""The accepting side of one listener: an address, its connections, and the check that closes idle ones."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from broker.network.connection import Connection, PendingAnswer
from broker.network.limits import ConnectionCounter, Holdable, MemoryBudget
from broker.network.output import Answer
from client.wire.network import Network, Server, unchanged
from protocol.buffer import Buffer

if TYPE_CHECKING:
    from broker.network.listener_tls import ListenerTls

logger = logging.getLogger(__name__)

HANDSHAKE_TIMEOUT_S = 10.0
"""How long a TLS handshake may take."""
QUIET_S = 5.0
"""A connection without a request for this long frees its large receive buffer."""


class Acceptor:
    """Accepts connections on one address and hands their frames to `handle_frame`."""

    def __init__(
        self,
        name: str,
        *,
        handle_frame: Callable[[memoryview, Connection], Answer | PendingAnswer | None],
        quota: ConnectionCounter,
        budget: MemoryBudget,
        run_later: Callable[[Coroutine[Any, Any, Buffer]], asyncio.Future[Buffer]],
        max_request_bytes: int,
        max_idle_s: float,
        send_buffer_bytes: int = -1,
        receive_buffer_bytes: int = -1,
        backlog: int = 50,
        is_exempt: bool = False,
        begin: Callable[[Connection], None] = lambda connection: None,
        tls: ListenerTls | None = None,
        handshake_timeout_s: float = HANDSHAKE_TIMEOUT_S,
    ) -> None:
        """run_later: runs the reads that must leave the event loop. max_idle_s: negative for no limit.

        begin: called for each new connection, before its first frame: it may set another frame handler.
        is_exempt: this is a separate inter-broker listener, to which `max.connections` does not apply.
        tls: connections are encrypted.
        """
        self.name = name
        self.handle_frame = handle_frame
        self.budget = budget
        self.run_later = run_later
        self.max_request_bytes = max_request_bytes
        self.connections: dict[Connection, None] = {}  # in the order of arrival, so that runs can be repeated
        self.host = ""
        self.port = 0
        loop = asyncio.get_running_loop()
        self.now_s = loop.time
        self.call_later = loop.call_later
        self.call_soon = loop.call_soon
        self._quota = quota
        self._max_idle_s = max_idle_s
        self._send_buffer_bytes = send_buffer_bytes
        self._receive_buffer_bytes = receive_buffer_bytes
        self._backlog = backlog
        self._is_exempt = is_exempt
        self._begin = begin
        self._server: Server | None = None
        self._is_serving = False
        self._is_closed = False
        self.handshake_timeout_s = handshake_timeout_s
        self._tls = tls
        self._around: Callable[[asyncio.BaseProtocol], asyncio.BaseProtocol] = unchanged
        self._early: dict[Holdable, None] = {}  # accepted before `run`: held until the broker can serve them

    async def bind(self, network: Network, host: str, port: int) -> None:
        """Start listening. port: 0 lets the system choose; see `self.port`. Raises OSError for a used address."""
        if self._tls is None:
            self._server = await network.listen(lambda: Connection(self), host, port, backlog=self._backlog)
        else:
            from broker.network.tls_server import TlsServer  # ssl costs a plain broker 10 ms

            self._server = await TlsServer.open(self, self._tls, host, port, self._backlog)
            self._around = network.accepts(self._server.port)
        self.host, self.port = host, self._server.port

    async def run(self) -> None:
        """Serve connections, and close idle ones (`connections.max.idle.ms`), until cancelled."""
        self._is_serving = True
        self._admit_early()
        period_s = QUIET_S if self._max_idle_s < 0 else min(max(self._max_idle_s / 4, 0.02), QUIET_S)
        while True:
            await asyncio.sleep(period_s)
            now_s = self.now_s()
            for connection in list(self.connections):
                self._sweep(connection, now_s - connection.last_active_s)

    def _admit_early(self) -> None:
        early, self._early = self._early, {}
        for peer in early:
            peer.admit()
            self._quota.connected(peer, is_exempt=self._is_exempt)

    def _sweep(self, connection: Connection, idle_s: float) -> None:
        if connection.is_busy:
            return
        if 0 <= self._max_idle_s <= idle_s:
            connection.close(f"idle for {idle_s:.1f} s (connections.max.idle.ms)")
        elif idle_s > QUIET_S:
            connection.release_idle_buffer()

    async def close(self) -> None:
        """Stop listening and close every connection."""
        self._is_closed = True
        if self._server is None:
            return
        self._server.close()
        for connection in list(self.connections):
            connection.abort()
        await self._server.wait_closed()

    def connected(self, connection: Connection) -> None:
        """Register a connection that can be served. With TLS, its handshake has counted in the limits already.

        A connection that was accepted just before `close` is closed.
        """
        self.connections[connection] = None
        self._begin(connection)
        connection.set_socket_buffers(self._send_buffer_bytes, self._receive_buffer_bytes)
        if self._tls is None:
            self.counted(connection)
        if self._is_closed:
            connection.abort()

    def tls_connection(self, tls: ListenerTls, on_complete: Callable[[], None]) -> asyncio.BaseProtocol:
        """Return the protocol of a connection whose handshake runs. on_complete: to be called when it is complete."""
        from broker.network.tls_connection import TlsConnection  # only brokers with TLS need it

        return self._around(TlsConnection(self, tls, on_complete))

    def disconnected(self, connection: Connection) -> None:
        """Remove a connection that is closed."""
        self.connections.pop(connection, None)
        self.uncounted(connection)

    def counted(self, peer: Holdable) -> None:
        """Count a connection that was accepted in the limits, which may hold or close it."""
        if self._is_serving:
            self._quota.connected(peer, is_exempt=self._is_exempt)
        else:
            self._early[peer] = None
            peer.hold()

    def uncounted(self, peer: Holdable) -> None:
        """Remove a closed connection from the limits."""
        if peer in self._early:
            del self._early[peer]
        else:
            self._quota.disconnected(peer)
