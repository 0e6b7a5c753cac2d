"""The audit log of authentication: every failed login (INFO) and, at level DEBUG, every successful one.

It is a logger of its own, named after this module. Texts that clients choose are JSON strings in ASCII, so that no
client can begin a new line or a new field. No line contains a password, a proof or a token.
"""

from __future__ import annotations

import json
import logging

from security.principal import Principal

logger = logging.getLogger(__name__)


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
    logger.info(
        "failed: host=%s mechanism=%s reason=%s listener=%s",
        json.dumps(host),
        mechanism or "none",
        json.dumps(reason),
        listener,
    )
