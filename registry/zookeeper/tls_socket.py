"""A TLS connection as kazoo can use it.

kazoo waits with `select` for a socket. With TLS that is wrong in two ways: what OpenSSL has already decrypted is not
seen by `select`, and bytes on the socket need not be data (session tickets, half a record). So this class has a buffer
of its own, and `fill` tells whether there is data. kazoo's thread uses it; only `shutdown` may be called by others.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable

from security.tls.errors import PEER_LEFT

_READ_BYTES = 65_536


class TlsSocket:
    """A non-blocking socket of kazoo's, over TLS. The handshake is the first call."""

    def __init__(
        self, plain: socket.socket, context: ssl.SSLContext, host: str, on_error: Callable[[OSError], None]
    ) -> None:
        """host: the name that the certificate must have. on_error: called with each error of reading."""
        self._socket = context.wrap_socket(plain, server_hostname=host, do_handshake_on_connect=False)
        self._on_error = on_error
        self._data = b""  # decrypted, not yet read by kazoo
        self._is_over = False
        self._error: OSError | None = None

    def handshake(self, timeout_s: float) -> None:
        """Do the handshake. Raises OSError; ssl.SSLError is one. The socket is closed then."""
        self._socket.settimeout(timeout_s)
        try:
            self._socket.do_handshake()
        except BaseException:
            self._socket.close()
            raise

    def fill(self) -> bool:
        """Decrypt what has arrived; return whether `recv` has something to return or an error to raise."""
        if self._data or self._is_over:
            return True
        try:
            self._data = self._socket.recv(_READ_BYTES)
            self._is_over = not self._data
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return False
        except OSError as error:
            self._is_over, self._error = True, error
            self._on_error(error)
        return True

    def pending(self) -> int:
        """The number of bytes that `recv` returns at once."""
        return len(self._data)

    def recv(self, size: int) -> bytes:
        """Return at most `size` bytes; b"" at the end. Raises SSLWantReadError if there is nothing yet, or OSError."""
        if not self.fill():
            raise ssl.SSLWantReadError(ssl.SSL_ERROR_WANT_READ, "no data yet")
        if self._error is not None:
            raise self._error
        data, self._data = self._data[:size], self._data[size:]
        return data

    def send(self, data: bytes) -> int:
        """Send some of the bytes; return how many. Raises SSLWantWriteError, or OSError."""
        return self._socket.send(data)

    def fileno(self) -> int:
        """The descriptor, for `select`."""
        return self._socket.fileno()

    def setblocking(self, flag: bool) -> None:
        """Switch between blocking and non-blocking."""
        self._socket.setblocking(flag)

    def setsockopt(self, *arguments: int) -> None:
        """Set an option of the socket."""
        self._socket.setsockopt(*arguments)

    def shutdown(self, how: int) -> None:
        """Interrupt the connection, from any thread. SSLSocket.shutdown would continue in plain text."""
        socket.socket.shutdown(self._socket, how)

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()


def reason(error: OSError) -> str:
    """Return why a connection with TLS has failed, for an error message."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the server's certificate is not accepted: {error.verify_message}"
    if isinstance(error, (*PEER_LEFT, ConnectionResetError)):
        return "the server closed the connection during the TLS handshake (is this its port for TLS?)"
    if isinstance(error, ssl.SSLError):
        return _openssl_reason(error)
    if isinstance(error, TimeoutError):
        return "the server does not answer the TLS handshake (is this its port for TLS?)"
    return error.strerror or str(error)


def _openssl_reason(error: ssl.SSLError) -> str:
    text = (error.reason or str(error)).lower().replace("_", " ")
    _, is_alert, alert = text.partition(" alert ")
    if not is_alert:
        return f"TLS failed: {text}"
    hint = " (does it require another client certificate?)" if "certificate" in alert or "unknown ca" in alert else ""
    return f"the server answers with the TLS alert {alert}{hint}"
