"""Real sockets through asyncio."""

import asyncio
import contextlib
import socket

import pytest

from client.wire.network import AsyncioNetwork
from ottla.cluster.ports import HOST, free_ports


async def test_a_listen_cancelled_at_any_step_releases_the_port():
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


async def test_every_interface_is_one_port_on_each_of_its_addresses():
    network = AsyncioNetwork()
    for _ in range(5):  # with two ports, chance decided which one was named
        server = await network.listen(asyncio.Protocol, "", 0)
        for address in addresses_of_this_machine():
            socket.create_connection((address, server.port)).close()
        server.close()
        await server.wait_closed()


def addresses_of_this_machine():
    """The loopback addresses that there are."""
    for family, address in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
        with contextlib.suppress(OSError), socket.socket(family) as probe:
            probe.bind((address, 0))
            yield address
