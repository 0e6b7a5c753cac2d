"""A driver that is killed while it commits a batch: before or after it sends its n-th request."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Sequence
from typing import Any

from client.producer.prepared_transaction import PreparedTransaction
from client.wire.connection import Connection
from spark_connector.batch_commit import commit_batch
from support.fork_server import ForkedProcess

JOIN_S = 60.0


def _commit(requests: int, prefix: str, bootstrap: str, arguments: Sequence[Any]) -> None:
    written = Connection._write
    left = requests

    def write(self: Connection, message: Any, version: int) -> int:
        nonlocal left
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        left -= 1
        return written(self, message, version)

    Connection._write = write  # type: ignore[method-assign]
    query, batch, names = arguments
    transactions = [PreparedTransaction(*name) for name in names]
    asyncio.run(commit_batch({"bootstrap_servers": bootstrap}, prefix, query, batch, transactions))


def commit_and_die(
    requests: int, bootstrap: str, prefix: str, query: str, batch: int, transactions: Sequence[PreparedTransaction]
) -> bool:
    """Commit in a process that is killed after a number of requests. Return whether the commit completed."""
    arguments = (query, batch, [tuple(one) for one in transactions])
    code = ForkedProcess(_commit, requests, prefix, bootstrap, arguments).wait(JOIN_S)
    assert code in (0, -signal.SIGKILL), f"the driver ended with {code}"
    return code == 0
