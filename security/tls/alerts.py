"""The alert of a failed handshake reaches the client.

When a handshake fails, OpenSSL has written an alert, which tells the client why; event loops close the connection
without sending it. A client could then not report that its certificate is refused. The context here sends the alert
itself, with the function that the task of the handshake has set.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

send_alert: ContextVar[Callable[[bytes], None] | None] = ContextVar("send_alert", default=None)
"""Writes the last bytes of a handshake to its socket. Callbacks of the event loop run in the context of the task that
has started the handshake."""


class _Handshake(ssl.SSLObject):
    outgoing: ssl.MemoryBIO
    send: Callable[[bytes], None] | None

    def do_handshake(self) -> None:
        try:
            super().do_handshake()
        except (ssl.SSLWantReadError, ssl.SSLSyscallError):
            raise
        except ssl.SSLError:
            if self.send is not None and (alert := self.outgoing.read()):
                self.send(alert)
            raise


class AlertingContext(ssl.SSLContext):
    """A context whose handshakes send their alerts."""

    sslobject_class = _Handshake

    def wrap_bio(self, incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO, *args: Any, **others: Any) -> ssl.SSLObject:
        handshake = super().wrap_bio(incoming, outgoing, *args, **others)
        assert isinstance(handshake, _Handshake)
        handshake.outgoing, handshake.send = outgoing, send_alert.get()
        return handshake
