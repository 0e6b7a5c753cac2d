"""The server of a simulated session: it lags behind the others, but not behind what its session has seen."""

import random

import pytest

from registry.embedded.store import EmbeddedStore
from registry.errors import NoNodeError
from support.simulation.registry_server import RegistryServer


class AtOnce(random.Random):
    """Every commit is one at which a server begins to lag, for a second."""

    def random(self):
        return 0.0

    def uniform(self, a, b):
        return b


@pytest.fixture
async def store():
    store = await EmbeddedStore.open()
    yield store
    await store.close()


async def committed(store, server, write):
    """Write, and pass on what the store tells sessions."""
    told = []
    session = store.session()
    session.changed = told.extend
    await session.start()
    await write(session)
    server.changed(told)


async def test_a_server_knows_what_was_committed_when_it_has_lagged_long_enough(store):
    now = 1.0
    server = RegistryServer(store, AtOnce(), lambda: now)
    await committed(store, server, lambda session: session.create("/a", b"0"))
    with pytest.raises(NoNodeError):
        server.tree().node("/a")
    assert server.tree().children("/") == []
    now = 2.0
    assert server.tree().node("/a").data == b"0"
    assert server.tree().children("/") == ["a"]
    assert server.tree().node("/").num_children == 1


async def test_a_server_catches_up(store):
    server = RegistryServer(store, AtOnce(), lambda: 1.0)
    await committed(store, server, lambda session: session.create("/a", b"0"))
    await committed(store, server, lambda session: session.set("/a", b"1"))
    assert server.tree().get("/a") is None
    server.catch_up()
    assert server.tree().node("/a").data == b"1"
    await committed(store, server, lambda session: session.delete("/a"))
    assert server.tree().node("/a").data == b"1"
    server.begin()
    assert server.tree().get("/a") is None
    assert server.tree().zxid == store.tree.zxid
