"""The connections of brokers that are processes: links in a directory, and the network that notes them."""

from __future__ import annotations

import asyncio

import pytest

from client.wire.network import AsyncioNetwork
from ottla.testing.processes.shared_openers import NotedNetwork, SharedOpeners, remove_links
from support.polling import until


def test_links(tmp_path):
    one, two = SharedOpeners(tmp_path), SharedOpeners(tmp_path)
    one.note(1, "127.0.0.1", 4000)
    two.note(2, "127.0.0.1", 4001)
    one.listens(1, 9092)
    assert [two.find("127.0.0.1", port, 9092) for port in (4000, 4001, 4002)] == [1, 2, None]
    assert (two.acceptor(9092), two.acceptor(9093)) == (1, None)
    two.note(2, "127.0.0.1", 4000)  # the port has another owner now
    assert one.find("127.0.0.1", 4000, 9092) == 2
    remove_links(tmp_path, 2)
    assert one.find("127.0.0.1", 4001, 9092) is None
    assert one.acceptor(9092) == 1


async def test_the_accepting_end_knows_a_connection_from_the_first_moment_on(tmp_path):
    openers = SharedOpeners(tmp_path)
    network = NotedNetwork(3, openers)
    seen = []

    class Accepted(asyncio.Protocol):
        def connection_made(self, transport):
            host, port = transport.get_extra_info("peername")
            seen.append((openers.find(host, port, server.port), port))

    server = await AsyncioNetwork().listen(Accepted, "127.0.0.1", 0)
    transport, _ = await network.connect(asyncio.Protocol, "127.0.0.1", server.port)
    openers.opened(3, transport)
    await until(lambda: seen, "the connection is accepted")
    assert [found for found, _ in seen] == [3]
    pruning = asyncio.create_task(openers.prune())
    transport.close()
    await until(lambda: openers.find("127.0.0.1", seen[0][1], server.port) is None, "the link is removed")
    pruning.cancel()
    server.close()
    await server.wait_closed()
    with pytest.raises(ConnectionRefusedError):
        await network.connect(asyncio.Protocol, "127.0.0.1", server.port)
    assert list(tmp_path.iterdir()) == []
