"""Wait until a ZooKeeper, or a server that speaks its protocol, can open a session."""

from __future__ import annotations

import asyncio
import math
from typing import TYPE_CHECKING

from ottla.command_line.failure import CommandError
from registry.errors import ConnectionLossError
from registry.zookeeper.address import ZooKeeperAddress
from registry.zookeeper.session import ZooKeeperSession

if TYPE_CHECKING:
    from ottla.cluster.registry_servers import ServerProcess


async def wait_until_serving(server: ServerProcess, timeout_s: float = math.inf) -> None:
    """Wait until a server can open a session. Raises CommandError if it ends or the timeout expires."""
    address = ZooKeeperAddress.parse(server.address)
    loop = asyncio.get_running_loop()
    deadline = loop.time() + timeout_s
    while True:
        if not server.is_running:
            raise CommandError(f"{server.kind} on {server.address} ended: {server.last_words()}")
        session = ZooKeeperSession(address, 10_000, lambda _session, _state: None)
        try:
            await session.open(500)
        except ConnectionLossError as error:
            if loop.time() > deadline:
                raise CommandError(f"{server.kind} is not ready after {timeout_s:.0f} s: {error}") from None
        else:
            await session.close()
            return
