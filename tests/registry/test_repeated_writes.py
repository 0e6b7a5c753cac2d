"""Writes that are repeated after the connection was lost: applied once, whatever became of the first attempt."""

from __future__ import annotations

import contextlib

import pytest

from registry.embedded.store import EmbeddedStore
from registry.errors import BadVersionError, NodeExistsError, NoNodeError
from registry.repeated_writes import RepeatedWrites
from support.lossy_registry import LossyRegistry


@contextlib.asynccontextmanager
async def lossy_registry(kind=LossyRegistry):
    store = await EmbeddedStore.open()
    registry = kind(store.session())
    await registry.start()
    for path in ("/mine", "/numbered"):
        await registry.create(path, b"old")
    yield registry, RepeatedWrites(registry)
    await registry.close()
    await store.close()


class MeddlingRegistry(LossyRegistry):
    """Another client writes before a node is looked at."""

    async def get(self, path):
        await self.registry.delete(path)
        await self.registry.create(path, b"theirs")
        return await self.registry.get(path)


@pytest.mark.parametrize("is_applied", [False, True], ids=["not applied", "applied"])
async def test_lost_writes_are_made_once(is_applied):
    async with lossy_registry() as (registry, writes):
        registry.is_applied = is_applied

        async def lost(write):
            registry.writes_left = 1
            await write

        await lost(writes.create("/new", b"a"))
        assert (await registry.get("/new"))[0] == b"a"
        await lost(writes.create("/deep/er", b"b", make_parents=True))
        assert (await registry.get("/deep/er"))[0] == b"b"
        for version, data in ((0, b"c"), (-1, b"d")):
            await lost(writes.set("/mine", data, version))
            assert (await registry.get("/mine"))[0] == data
        await lost(writes.append("/numbered/n-", b"e"))
        assert len(await registry.children("/numbered")) == 1 + is_applied
        await lost(writes.delete("/mine"))
        assert await registry.exists("/mine") is None


async def test_a_first_attempt_that_is_refused_is_not_taken_for_a_repetition():
    async with lossy_registry() as (_, writes):
        with pytest.raises(NodeExistsError):
            await writes.create("/mine", b"old")
        with pytest.raises(BadVersionError):
            await writes.set("/mine", b"old", -2)
        with pytest.raises(NoNodeError):
            await writes.delete("/none")
        with pytest.raises(NoNodeError):
            await writes.set("/none", b"new")


async def test_what_another_client_has_written_meanwhile_is_not_taken_for_ours():
    async with lossy_registry(MeddlingRegistry) as (registry, writes):
        registry.is_applied = True
        registry.writes_left = 1
        with pytest.raises(NodeExistsError):
            await writes.create("/new", b"ours")
        registry.writes_left = 1
        with pytest.raises(BadVersionError):
            await writes.set("/mine", b"theirs", 0)  # the same data, by a new node
