"""Real sockets through asyncio."""

import asyncio
import contextlib
import gc
import socket

import pytest

from client.wire.network import AsyncioNetwork
from ottla.cluster.ports import HOST, free_ports
from support.deadlines import DEADLINE_S
from support.loops import on_both_loops


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


@on_both_loops
async def test_a_connection_accepted_in_the_turn_in_which_the_server_closes_is_made_and_can_be_closed():
    """asyncio accepts in one turn of the loop and makes the transport in the next, which needs an open server."""
    for turns in range(5):
        made = []
        server = await AsyncioNetwork().listen(lambda made=made: Closing(made), HOST, 0)
        client = socket.create_connection((HOST, server.port))
        for _ in range(turns):
            await asyncio.sleep(0)
        server.close()
        await server.wait_closed()
        with client, contextlib.suppress(ConnectionResetError):
            client.settimeout(DEADLINE_S)
            assert await asyncio.to_thread(client.recv, 1) == b""  # reset if it was not accepted, else closed
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection((HOST, server.port)).close()
        gc.collect()  # reports a socket that nobody has closed
    assert made


class Closing(asyncio.Protocol):
    """Closes its connection at once."""

    def __init__(self, made):
        self.made = made

    def connection_made(self, transport):
        self.made.append(transport)
        transport.abort()


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
