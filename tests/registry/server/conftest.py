"""A server of the embedded registry in this process, and connections to it."""

import asyncio

import pytest

from registry.embedded.store import EmbeddedStore
from registry.server.server import RegistryServer
from support.registry_client import ManualClock, RawClient


@pytest.fixture
def clock():
    return ManualClock()


@pytest.fixture
async def server(clock):
    server = RegistryServer(await EmbeddedStore.open(), min_session_timeout_ms=2_000, clock=clock)
    await server.start()
    yield server
    await server.close()
    assert server.store._failure is None
    await server.store.close()


@pytest.fixture
async def dial(server):
    """Open connections without a session."""
    clients = []

    async def dial():
        clients.append(RawClient(*await asyncio.open_connection("127.0.0.1", server.port)))
        return clients[-1]

    yield dial
    for client in clients:
        await client.close()


@pytest.fixture
async def client(dial):
    return await (await dial()).connect()


@pytest.fixture
async def other(dial):
    return await (await dial()).connect()
