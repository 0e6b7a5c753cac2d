"""How a connection is secured: TLS below it, and a SASL login before its first request."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    import ssl

    from client.wire.sasl_login import SaslLogin


class ConnectionSecurity(NamedTuple):
    """tls: returns the context for a new connection; None for no TLS. login: None for no login."""

    tls: Callable[[], ssl.SSLContext] | None = None
    login: SaslLogin | None = None


UNSECURED: Final = ConnectionSecurity()
