"""Log lines of failed TLS handshakes, with a limit on their number: see `limited_lines`.

Those that one side has refused are in the audit log as well; not those that a client has left, as scanners of ports do.
"""

from __future__ import annotations

import logging
import ssl
from collections.abc import Callable

from broker.authentication.audit import TlsFailures
from broker.network.limited_lines import LimitedLines
from security.tls.errors import PEER_LEFT

logger = logging.getLogger(__name__)


class NotTlsError(Exception):
    """The client does not speak TLS."""


class HandshakeFailures:
    """Logs the failed handshakes of one listener."""

    def __init__(self, listener: str, now_s: Callable[[], float]) -> None:
        self.count = 0
        """All failures since the start."""
        self._listener = listener
        self._lines = LimitedLines(
            logger, now_s, lambda number: f"{number} more TLS handshakes failed on listener {listener}"
        )
        self._refused = TlsFailures(listener, now_s)

    def add(self, host: str, port: int, error: BaseException) -> None:
        """Log one failure, or count it for a later line."""
        self.count += 1
        text = "TLS handshake with %s:%d failed on listener %s: %s"
        reason = reason_of(error)
        self._lines.add(text, host, port, self._listener, reason)
        if isinstance(error, ssl.SSLError) and not isinstance(error, PEER_LEFT):
            self._refused.add(host, reason)


def reason_of(error: BaseException) -> str:
    """Return the reason of a failed handshake in one line."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the client certificate is refused: {error.verify_message}"
    if isinstance(error, ssl.SSLError) and not isinstance(error, PEER_LEFT) and error.reason:
        return error.reason.replace("_", " ").lower()
    if isinstance(error, NotTlsError):
        return "the client does not speak TLS"
    if isinstance(error, TimeoutError) or "is taking longer" in str(error):
        return "the client did not complete it in time"
    return "the client closed the connection"
