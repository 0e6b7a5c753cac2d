"""Which connections brokers have opened, and on which ports they listen: what the accepting broker has to know.

A connection of a broker looks like that of a client. It is known by the address from which it comes.
"""

from __future__ import annotations

import asyncio
from typing import Any, Protocol


class Openers(Protocol):
    """The addresses of brokers."""

    def opened(self, broker_id: int, transport: asyncio.BaseTransport) -> None:
        """Take note of a connection that a broker of this process has opened."""

    def find(self, host: str, port: int) -> int | None:
        """Return the broker that opened a connection from this address; None for a client."""

    def listens(self, broker_id: int, port: int) -> None:
        """Take note of a port of a broker of this process."""

    def acceptor(self, port: int) -> int | None:
        """Return the broker that listens on a port; None if it is none's."""


class LocalOpeners:
    """The addresses of brokers that are all in this process."""

    def __init__(self) -> None:
        self._ports: dict[int, int] = {}
        self._opened: dict[Any, tuple[int, asyncio.BaseTransport]] = {}  # by local address

    def opened(self, broker_id: int, transport: asyncio.BaseTransport) -> None:
        """See `Openers`."""
        self._opened = {address: one for address, one in self._opened.items() if not one[1].is_closing()}
        address = transport.get_extra_info("sockname")
        if address is not None:
            self._opened[str(address[0]), int(address[1])] = (broker_id, transport)

    def find(self, host: str, port: int) -> int | None:
        """See `Openers`."""
        found = self._opened.get((host, port))
        return None if found is None or found[1].is_closing() else found[0]

    def listens(self, broker_id: int, port: int) -> None:
        """See `Openers`."""
        self._ports[port] = broker_id

    def acceptor(self, port: int) -> int | None:
        """See `Openers`."""
        return self._ports.get(port)
