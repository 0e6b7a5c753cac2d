"""Log lines of failed TLS handshakes, with a limit on their number.

Anyone who reaches the port can cause failures, so the log lines must not fill the disk.
"""

from __future__ import annotations

import logging
import ssl
from collections.abc import Callable

logger = logging.getLogger(__name__)

WINDOW_S = 10.0
LINES_IN_A_WINDOW = 10


class NotTlsError(Exception):
    """The client does not speak TLS."""


class HandshakeFailures:
    """Logs the failed handshakes of one listener."""

    def __init__(self, listener: str, now_s: Callable[[], float]) -> None:
        self.count = 0
        """All failures since the start."""
        self._listener = listener
        self._now_s = now_s
        self._window_began_s = now_s()
        self._lines = 0
        self._silent = 0

    def add(self, host: str, port: int, error: BaseException) -> None:
        """Log one failure, or count it for a later line."""
        self.count += 1
        now_s = self._now_s()
        if now_s - self._window_began_s >= WINDOW_S:
            self._window_began_s, self._lines = now_s, 0
            if self._silent:
                logger.info("%d more TLS handshakes failed on listener %s", self._silent, self._listener)
                self._silent = 0
        if self._lines >= LINES_IN_A_WINDOW:
            self._silent += 1
            return
        self._lines += 1
        logger.info("TLS handshake with %s:%d failed on listener %s: %s", host, port, self._listener, reason_of(error))


def reason_of(error: BaseException) -> str:
    """Return the reason of a failed handshake in one line."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the client certificate is refused: {error.verify_message}"
    if isinstance(error, ssl.SSLError) and error.reason:
        return error.reason.replace("_", " ").lower()
    if isinstance(error, NotTlsError):
        return "the client does not speak TLS"
    if isinstance(error, TimeoutError) or "is taking longer" in str(error):
        return "the client did not complete it in time"
    return "the client closed the connection"
