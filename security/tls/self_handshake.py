"""A handshake of a listener with itself, in memory: brokers that share these stores must be able to connect.

As in Kafka, a listener between brokers whose own certificate its own trust store does not accept is refused at the
start; the host name is not compared.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable

from security.tls.contexts import client_context, server_context
from security.tls.errors import TlsConfigError
from security.tls.settings import TlsSettings


def check_self_handshake(settings: TlsSettings, client_auth: str) -> None:
    """Connect a client with these settings to a server with the same. Raises TlsConfigError if that fails."""
    client_side = client_context(settings)
    client_side.check_hostname = False
    to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = client_side.wrap_bio(to_client, to_server)
    server = server_context(settings, client_auth).wrap_bio(to_server, to_client, server_side=True)
    steps: list[Callable[[], None]] = [client.do_handshake, server.do_handshake]
    for _ in range(10):
        for step in list(steps):
            try:
                step()
            except ssl.SSLWantReadError:
                continue
            except ssl.SSLError as error:
                raise TlsConfigError("ssl.truststore.location", _rule(error)) from None
            steps.remove(step)
        if not steps:
            return
    raise TlsConfigError("ssl.keystore.location", "a handshake of the listener with itself does not end")


def _rule(error: ssl.SSLError) -> str:
    """Return what is wrong: the certificate itself, or what one side has for the other."""
    if isinstance(error, ssl.SSLCertVerificationError):
        reason = error.verify_message
    else:
        reason = (error.reason or "unknown reason").lower().replace("_", " ")
    return (
        "brokers connect to each other with these stores, so the trust store must accept the certificate of the key "
        f"store: {reason}"
    )
