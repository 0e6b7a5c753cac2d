"""Listening sockets for a host that may have several addresses, all on one port."""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Sequence
from typing import Any

Address = tuple[int, tuple[Any, ...]]
"""The address family, and the address as `socket.bind` takes it."""


async def listening_sockets(host: str, port: int, backlog: int) -> list[socket.socket]:
    """Listen on every address of `host` ("" for all interfaces), on one port; 0 lets the system choose the port.

    `localhost` and "all interfaces" have an IPv4 and an IPv6 address. Addresses that the machine does not have are left
    out: without IPv6, only the IPv4 address is used.

    Raises OSError if the name is unknown, if an address is in use, or if no address can be bound.
    """
    sockets: list[socket.socket] = []
    failed: OSError | None = None
    for family, address in await _addresses(host, port):
        name, its_port, *rest = address
        if port == 0 and sockets:
            its_port = sockets[0].getsockname()[1]
        try:
            sockets.append(_listening_socket(family, (name, its_port, *rest), backlog))
        except OSError as error:
            failed = error
            if error.errno == errno.EADDRINUSE:
                break
    if failed is not None and (not sockets or failed.errno == errno.EADDRINUSE):
        for one in sockets:
            one.close()
        raise failed
    return sockets


async def _addresses(host: str, port: int) -> list[Address]:
    try:  # not in a thread unless a name server may be asked
        found = socket.getaddrinfo(
            host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE | socket.AI_NUMERICHOST
        )
    except socket.gaierror:
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    return list(dict.fromkeys((family, address) for family, _, _, _, address in found))


def _listening_socket(family: int, address: tuple[Any, ...], backlog: int) -> socket.socket:
    one = socket.socket(family, socket.SOCK_STREAM)
    try:
        one.setblocking(False)
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            one.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        one.bind(address)
        one.listen(backlog)
    except OSError:
        one.close()
        raise
    return one


def close_servers(servers: Sequence[asyncio.Server]) -> asyncio.Event:
    """Stop accepting connections now, and close the servers in the next turn of the loop. Connections stay open.

    The event is set when the servers are closed, and the protocols of all connections that they have accepted know
    their transports. asyncio accepts a connection in one turn of the loop and makes its transport in the next one. If
    the server is closed in between, the transport cannot be made, and nobody closes the socket: its client waits.
    """
    loop = asyncio.get_running_loop()
    closed = asyncio.Event()

    def close() -> None:
        for server in servers:
            server.close()
        closed.set()

    for one in (one for server in servers for one in server.sockets):
        loop.remove_reader(one.fileno())
    loop.call_soon(close)  # behind the connections that were accepted
    return closed
