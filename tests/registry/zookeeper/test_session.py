"""Why a session does not open. Sessions themselves: test_registry.py."""

from __future__ import annotations

import asyncio
import socket

from registry.zookeeper.session import LoopHandler


async def test_an_attempt_in_progress_does_not_replace_the_cause_of_the_last_one() -> None:
    handler = LoopHandler(asyncio.get_running_loop(), 1)
    silent = "accepts connections but opens no session"
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = server.getsockname()
        with handler.create_connection(address):
            assert silent in handler.why
            handler.failed("the KDC is away")
        with handler.create_connection(address):
            assert handler.why == "the KDC is away"
        with handler.create_connection(address):
            assert silent in handler.why
