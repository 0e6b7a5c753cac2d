"""Stand-ins for what a closed connection refers to.

A connection, its output and its transport refer to each other, and the event loop's TLS keeps methods of its protocol.
With these cycles, what a closed connection has (a receive buffer of the size of its largest request, the state of TLS)
would be freed by the garbage collector only, which rarely looks at what has lived for long.
"""

from __future__ import annotations

import asyncio


class ClosedTransport(asyncio.Transport):
    """Takes the place of a transport."""

    def is_closing(self) -> bool:
        """See `asyncio.BaseTransport`."""
        return True

    def abort(self) -> None:
        """See `asyncio.WriteTransport`."""


class ClosedConnection:
    """Takes the place of a connection in its output."""

    closed = True


CLOSED_TRANSPORT = ClosedTransport()
CLOSED_CONNECTION = ClosedConnection()
