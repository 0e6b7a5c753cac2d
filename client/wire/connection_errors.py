"""The errors of connections that cannot be opened or have ended, in words: of the system, and of TLS."""

import os
import ssl

from client.errors import BrokerUnreachableError, ConnectionLostError, KafkaError, SslAuthenticationError
from security.tls.errors import PEER_LEFT


def unreachable(host: str, port: int, error: OSError, *, has_tls: bool) -> KafkaError:
    """Return the error for a connection that could not be opened: SslAuthenticationError or BrokerUnreachableError."""
    if isinstance(error, ssl.SSLError) and not isinstance(error, PEER_LEFT):
        return _ssl_error(host, port, error)
    reason = _reason_of(error)
    if has_tls and isinstance(error, (ConnectionResetError, ConnectionAbortedError, *PEER_LEFT)):
        reason = f"closed during the TLS handshake ({reason}); the listener may have no TLS"
    return BrokerUnreachableError(host, port, reason)


def lost(host: str, port: int, error: Exception | None) -> KafkaError:
    """Return the error for a connection that has ended; `error` is None if the broker has closed it.

    With TLS 1.3, a client learns only now that the broker refuses its certificate: SslAuthenticationError, not
    ConnectionLostError.
    """
    if isinstance(error, ssl.SSLError) and _names_a_certificate(error):
        return _ssl_error(host, port, error)
    return ConnectionLostError(host, port, "closed by the broker" if error is None else _reason_of(error))


def _ssl_error(host: str, port: int, error: ssl.SSLError) -> SslAuthenticationError:
    if isinstance(error, ssl.SSLCertVerificationError):
        reason = f"the certificate of the broker is refused: {error.verify_message}"
    elif error.reason == "WRONG_VERSION_NUMBER":
        reason = "the answer is not TLS; the listener may have no TLS"
    elif _names_a_certificate(error):
        reason = f"the broker refuses the certificate of this client: {_words(error)}"
    else:
        reason = f"the handshake failed: {_words(error)}"
    return SslAuthenticationError(f"TLS to {host}:{port}: {reason}")


def _names_a_certificate(error: ssl.SSLError) -> bool:
    """Return whether a TLS alert of the broker is about the certificate of this client."""
    reason = error.reason or ""
    return "ALERT" in reason and ("CERTIFICATE" in reason or "UNKNOWN_CA" in reason or "ACCESS_DENIED" in reason)


def _words(error: ssl.SSLError) -> str:
    return (error.reason or str(error)).lower().replace("_", " ")


def _reason_of(error: BaseException) -> str:
    """Return an error as one short clause."""
    if isinstance(error, PEER_LEFT):
        return "unexpected end of the stream"
    if isinstance(error, ssl.SSLError):  # its errno is OpenSSL's, not the system's
        return _words(error)
    if isinstance(error, OSError) and error.errno is not None and error.errno > 0:
        # asyncio's strerror repeats the address, and its wording differs from uvloop's.
        return os.strerror(error.errno)
    return str(error) or type(error).__name__
