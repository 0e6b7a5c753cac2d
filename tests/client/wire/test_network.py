"""Real sockets through asyncio: what is cancelled gives its port back."""

import asyncio
import socket

import pytest

from client.wire.network import AsyncioNetwork
from ottla.cluster.ports import HOST, free_ports


async def test_a_listen_that_is_cancelled_at_any_turn_gives_back_the_port():
    network = AsyncioNetwork()
    (port,) = free_ports(1)
    turns = 0
    while True:
        listening = asyncio.create_task(network.listen(asyncio.Protocol, HOST, port))
        for _ in range(turns):
            await asyncio.sleep(0)
        if listening.done():
            break
        listening.cancel()
        with pytest.raises(asyncio.CancelledError):
            await listening
        socket.create_server((HOST, port)).close()
        turns += 1
    server = await listening
    server.close()
    await server.wait_closed()
    assert turns > 1
