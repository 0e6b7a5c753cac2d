"""The audit log of authentication: every failed login (INFO) and, at level DEBUG, every successful one.

A client certificate is a login by the mechanism TLS, unless the listener has SASL. A handshake that one side refuses is
a failed one, on every listener with TLS. It costs a peer nothing, so the number of these lines is limited.

It is a logger of its own, named after this module. Texts that clients choose are JSON strings in ASCII, so that no
client can begin a new line or a new field. No line contains a password, a proof or a token.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from typing import Final

from broker.network.limited_lines import LimitedLines
from security.principal import Principal

logger = logging.getLogger(__name__)

TLS: Final = "TLS"
"""The mechanism of client certificates."""
_FAILED: Final = "failed: host=%s mechanism=%s reason=%s listener=%s"


def log_success(host: str, listener: str, mechanism: str, principal: Principal, *, by_token: bool) -> None:
    """Write a line for a client that has proved its user, at level DEBUG."""
    if logger.isEnabledFor(logging.DEBUG):
        logger.debug(
            "authenticated: principal=%s host=%s mechanism=%s token=%s listener=%s",
            json.dumps(str(principal)),
            json.dumps(host),
            mechanism,
            "yes" if by_token else "no",
            listener,
        )


def log_failure(host: str, listener: str, mechanism: str, reason: str) -> None:
    """Write a line for a client that has failed. mechanism: "" if it has not chosen one."""
    logger.info(_FAILED, json.dumps(host), mechanism or "none", json.dumps(reason), listener)


class TlsFailures:
    """Writes the lines for the clients of one listener that TLS refuses, or that refuse the broker's certificate."""

    def __init__(self, listener: str, now_s: Callable[[], float]) -> None:
        self._listener = listener
        self._lines = LimitedLines(
            logger, now_s, lambda number: f"failed: {number} more clients mechanism={TLS} listener={listener}"
        )

    def add(self, host: str, reason: str) -> None:
        """Write one line, or count it for a later line."""
        self._lines.add(_FAILED, json.dumps(host), TLS, json.dumps(reason), self._listener)
