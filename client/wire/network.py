"""The abstraction of the network: how this process listens and connects.

Everything that opens a socket takes a `Network`, so that a simulated network can run a whole cluster and its clients in
one process. A protocol is asyncio's own (`asyncio.Protocol` or `asyncio.BufferedProtocol`); the simulated network calls
the same callbacks through a transport in memory.
"""

import asyncio
import ssl
from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from client.wire.listening import close_servers, listening_sockets

P = TypeVar("P", bound=asyncio.BaseProtocol)

LISTEN_BACKLOG = 1024


class Server(Protocol):
    """A listening socket."""

    @property
    def port(self) -> int:
        """The bound port; if port 0 was requested, the port chosen by the system."""
        ...

    def close(self) -> None:
        """Stop accepting connections; existing connections stay open.

        A connection that was accepted just before may still be made: its protocol's `connection_made` is called.
        """
        ...

    async def wait_closed(self) -> None:
        """Wait until the listening socket is closed, and every connection that it has accepted is made."""
        ...


class Network(Protocol):
    """Opens listening sockets and connections."""

    async def listen(
        self,
        protocol_factory: Callable[[], asyncio.BaseProtocol],
        host: str,
        port: int,
        *,
        backlog: int = LISTEN_BACKLOG,
    ) -> Server:
        """Listen on `host:port` ("" means all interfaces, port 0 any free port). Raises OSError."""
        ...

    def accepts(self, port: int) -> Callable[[asyncio.BaseProtocol], asyncio.BaseProtocol]:
        """Take note of a listener that opens its sockets itself, because it does the TLS handshakes.

        Return what is called with the protocol of each of its connections, and returns the protocol to use.
        """
        ...

    async def connect(
        self, protocol_factory: Callable[[], P], host: str, port: int, *, tls: ssl.SSLContext | None = None
    ) -> tuple[asyncio.Transport, P]:
        """Connect to `host:port`, with TLS if there is a context; the certificate is then checked against `host`.

        Raises OSError if the connection is not accepted, also ssl.SSLError.
        """
        ...


class AsyncioServer:
    """The servers of asyncio or uvloop for one address each, on one port."""

    __slots__ = ("_closed", "_port", "_servers")

    def __init__(self, servers: Sequence[asyncio.Server], port: int) -> None:
        self._servers = servers
        self._port = port
        self._closed: asyncio.Event | None = None

    @property
    def port(self) -> int:
        """The bound port."""
        return self._port

    def close(self) -> None:
        """Stop accepting connections; the sockets are closed in the next turn of the loop."""
        if self._closed is None:
            self._closed = close_servers(self._servers)

    async def wait_closed(self) -> None:
        """Wait until the listening sockets are closed, and the connections that they have accepted are made."""
        if self._closed is not None:
            await self._closed.wait()
        for server in self._servers:
            await server.wait_closed()


def unchanged(protocol: asyncio.BaseProtocol) -> asyncio.BaseProtocol:
    """Return the protocol of a connection as it is."""
    return protocol


class AsyncioNetwork:
    """Real TCP, through the running event loop (asyncio's or uvloop's)."""

    __slots__ = ()

    async def listen(
        self,
        protocol_factory: Callable[[], asyncio.BaseProtocol],
        host: str,
        port: int,
        *,
        backlog: int = LISTEN_BACKLOG,
    ) -> AsyncioServer:
        """Listen on `host:port`; see `Network.listen`."""
        loop = asyncio.get_running_loop()
        sockets = await listening_sockets(host, port, backlog)
        servers: list[asyncio.Server] = []
        try:
            for one in sockets:
                new = await loop.create_server(protocol_factory, sock=one, backlog=backlog, start_serving=False)
                servers.append(new)
                await new.start_serving()  # not in create_server: cancelled there, it would go on listening
        except BaseException:
            for new in servers:
                new.close()
            for one in sockets:
                one.close()
            raise
        return AsyncioServer(servers, sockets[0].getsockname()[1])

    def accepts(self, port: int) -> Callable[[asyncio.BaseProtocol], asyncio.BaseProtocol]:
        """See `Network.accepts`."""
        return unchanged

    async def connect(
        self, protocol_factory: Callable[[], P], host: str, port: int, *, tls: ssl.SSLContext | None = None
    ) -> tuple[asyncio.Transport, P]:
        """Connect to `host:port`; see `Network.connect`. TCP_NODELAY is set by the loop."""
        loop = asyncio.get_running_loop()
        if tls is None:
            return await loop.create_connection(protocol_factory, host, port)
        return await loop.create_connection(protocol_factory, host, port, ssl=tls, server_hostname=host)
