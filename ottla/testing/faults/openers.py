"""Which connections brokers have opened, and on which ports they listen: what the accepting broker has to know.

A connection of a broker looks like that of a client. It is known by the address from which it comes, and by the port to
which it goes: the system may give one local port to several connections that go to different ports.
"""

from __future__ import annotations

import asyncio
from typing import Protocol


class Openers(Protocol):
    """The addresses of brokers."""

    def opened(self, broker_id: int, transport: asyncio.BaseTransport) -> None:
        """Take note of a connection that a broker of this process has opened."""

    def find(self, host: str, port: int, to_port: int) -> int | None:
        """Return the broker that opened the connection from this address to this port; None for a client."""

    def listens(self, broker_id: int, port: int) -> None:
        """Take note of a port of a broker of this process."""

    def acceptor(self, port: int) -> int | None:
        """Return the broker that listens on a port; None if it is none's."""


class LocalOpeners:
    """The addresses of brokers that are all in this process."""

    def __init__(self) -> None:
        self._ports: dict[int, int] = {}
        # By host and port of the opener's end, and the port of the other one.
        self._opened: dict[tuple[str, int, int], tuple[int, asyncio.BaseTransport]] = {}

    def opened(self, broker_id: int, transport: asyncio.BaseTransport) -> None:
        """See `Openers`."""
        self._opened = {ends: one for ends, one in self._opened.items() if not one[1].is_closing()}
        near, far = transport.get_extra_info("sockname"), transport.get_extra_info("peername")
        if near is not None and far is not None:
            self._opened[str(near[0]), int(near[1]), int(far[1])] = (broker_id, transport)

    def find(self, host: str, port: int, to_port: int) -> int | None:
        """See `Openers`."""
        found = self._opened.get((host, port, to_port))
        return None if found is None or found[1].is_closing() else found[0]

    def listens(self, broker_id: int, port: int) -> None:
        """See `Openers`."""
        self._ports[port] = broker_id

    def acceptor(self, port: int) -> int | None:
        """See `Openers`."""
        return self._ports.get(port)
