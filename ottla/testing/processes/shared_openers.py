"""The connections of brokers that are processes: a directory says which address is whose.

directory/from-<host>:<port>  a link whose target is the id of the broker that has opened a connection from this address
directory/port-<port>         a link whose target is the id of the broker that listens on this port

A broker chooses the local port of a connection before it connects. So the accepting broker finds the link from the
first moment on. The broker removes it after the connection has ended; the cluster removes those of a broker that was
killed.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar

from client.wire.network import AsyncioNetwork

P = TypeVar("P", bound=asyncio.BaseProtocol)

PRUNE_S: Final = 0.5
"""How often the links of connections that have ended are removed."""


class SharedOpeners:
    """See `Openers`. The directory is the same for all brokers of a cluster."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._open: dict[tuple[str, int], asyncio.BaseTransport] = {}

    def opened(self, broker_id: int, transport: asyncio.BaseTransport) -> None:
        """See `Openers`. `note` was called before."""
        address = transport.get_extra_info("sockname")
        if address is not None:
            self._open[str(address[0]), int(address[1])] = transport

    def note(self, broker_id: int, host: str, port: int) -> None:
        """Say that a connection from this address is one of this broker."""
        self._link(f"from-{host}:{port}", broker_id)

    def forget(self, host: str, port: int) -> None:
        """Say that a connection has ended."""
        self._path(host, port).unlink(missing_ok=True)

    def find(self, host: str, port: int, to_port: int) -> int | None:
        """See `Openers`. A local port that was chosen before the connection has no other connection."""
        return _target(self._path(host, port))

    def listens(self, broker_id: int, port: int) -> None:
        """See `Openers`."""
        self._link(f"port-{port}", broker_id)

    def acceptor(self, port: int) -> int | None:
        """See `Openers`."""
        return _target(self._directory / f"port-{port}")

    async def prune(self) -> None:
        """Remove the links of connections that have ended, until cancelled."""
        while True:
            await asyncio.sleep(PRUNE_S)
            for address, transport in list(self._open.items()):
                if transport.is_closing():
                    del self._open[address]
                    self.forget(*address)

    def _path(self, host: str, port: int) -> Path:
        return self._directory / f"from-{host}:{port}"

    def _link(self, name: str, broker_id: int) -> None:
        path = self._directory / name
        path.unlink(missing_ok=True)
        path.symlink_to(str(broker_id))


def remove_links(directory: Path, broker_id: int) -> None:
    """Remove the links of the connections of a broker that has ended."""
    for path in directory.glob("from-*"):
        if _target(path) == broker_id:
            path.unlink(missing_ok=True)


def _target(path: Path) -> int | None:
    try:
        return int(str(path.readlink()))
    except FileNotFoundError:
        return None


class NotedNetwork(AsyncioNetwork):
    """Real TCP, of a broker whose connections are noted before they are opened."""

    __slots__ = ("_broker_id", "_openers")

    def __init__(self, broker_id: int, openers: SharedOpeners) -> None:
        self._broker_id = broker_id
        self._openers = openers

    async def connect(
        self, protocol_factory: Callable[[], P], host: str, port: int, *, tls: ssl.SSLContext | None = None
    ) -> tuple[asyncio.Transport, P]:
        """See `Network.connect`."""
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        family, kind, protocol, _, address = found[0]
        raw = socket.socket(family, kind, protocol)
        try:
            raw.setblocking(False)
            raw.bind((_own_address(family, address), 0))
            local = raw.getsockname()
            self._openers.note(self._broker_id, local[0], local[1])
            try:
                await loop.sock_connect(raw, address)
                if tls is None:
                    return await loop.create_connection(protocol_factory, sock=raw)
                return await loop.create_connection(protocol_factory, sock=raw, ssl=tls, server_hostname=host)
            except BaseException:
                self._openers.forget(local[0], local[1])
                raise
        except BaseException:
            with contextlib.suppress(OSError):
                raw.close()
            raise


def _own_address(family: socket.AddressFamily, address: tuple[Any, ...]) -> str:
    """The address from which the system would connect. Raises OSError."""
    with socket.socket(family, socket.SOCK_DGRAM) as asking:
        asking.connect(address)  # sends nothing
        return str(asking.getsockname()[0])
