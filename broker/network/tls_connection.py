"""A connection over TLS: a `Connection` with the user of the client's certificate."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from broker.authentication.audit import TLS, log_success
from broker.network.connection import CloseConnectionError, Connection
from security.principal import ANONYMOUS

if TYPE_CHECKING:
    from broker.network.acceptor import Acceptor
    from broker.network.listener_tls import ListenerTls


class TlsConnection(Connection):
    """The server's side of a connection whose handshake is complete."""

    def __init__(self, acceptor: Acceptor, tls: ListenerTls, on_complete: Callable[[], None]) -> None:
        """on_complete: called when the handshake is complete."""
        super().__init__(acceptor)
        self._tls = tls
        self._on_complete = on_complete

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._on_complete()
        super().connection_made(transport)
        certificate = transport.get_extra_info("ssl_object").getpeercert(True)
        try:
            self.principal = self._tls.login(certificate, self.host, self.acceptor)
        except CloseConnectionError as error:
            self.close(str(error))
            return
        if self.principal != ANONYMOUS:
            log_success(self.host, self.acceptor.name, TLS, self.principal, by_token=False)

    def eof_received(self) -> bool:
        """Close: TLS has no half-open connections in asyncio, so answers that are not sent yet are lost."""
        super().eof_received()
        return False
