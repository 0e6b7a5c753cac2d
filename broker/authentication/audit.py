"""The audit log of authentication: every failed login (INFO) and, at level DEBUG, every successful one.

It is a logger of its own, named after this module. Texts that clients choose are JSON strings in ASCII, so that no
client can begin a new line or a new field. No line contains a password, a proof or a token.
"""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING

from security.principal import Principal

if TYPE_CHECKING:
    from broker.network.connection import Connection

logger = logging.getLogger(__name__)


def log_success(connection: Connection, mechanism: str, principal: Principal, *, by_token: bool) -> None:
    """Write a line for a client that has proved its user, at level DEBUG."""
    if logger.isEnabledFor(logging.DEBUG):
        logger.debug(
            "authenticated: principal=%s host=%s mechanism=%s token=%s listener=%s",
            json.dumps(str(principal)),
            json.dumps(connection.host),
            mechanism,
            "yes" if by_token else "no",
            connection.acceptor.name,
        )


def log_failure(connection: Connection, mechanism: str, reason: str) -> None:
    """Write a line for a client that has failed. mechanism: "" if it has not chosen one."""
    logger.info(
        "failed: host=%s mechanism=%s reason=%s listener=%s",
        json.dumps(connection.host),
        mechanism or "none",
        json.dumps(reason),
        connection.acceptor.name,
    )
