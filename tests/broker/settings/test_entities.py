"""The configs of users, clients and addresses: who changes them, who sees it, and what is left of them."""

import asyncio
import contextlib

import pytest

from broker.settings.config import BrokerConfig
from broker.settings.entities import is_entity_path
from broker.settings.store import ConfigStore
from client.wire.backoff import Backoff
from registry.embedded.store import EmbeddedStore
from registry.errors import NoNodeError
from registry.znodes.configs import ConfigChangesZnode, ConfigChangeZnode, ConfigZnode
from registry.znodes.tree import ensure_persistent_paths
from support.broker import settings
from support.polling import until


@contextlib.asynccontextmanager
async def stores(tmp_path, count=1, *, hear=True):
    """The stores of some brokers on one registry, and the registry. hear: they see notifications."""
    embedded = await EmbeddedStore.open()
    registry = embedded.session()
    await registry.start()
    await ensure_persistent_paths(registry)
    config = BrokerConfig.load(None, settings(tmp_path / "data"))
    opened = [ConfigStore(number, config, registry, lambda: 0, Backoff()) for number in range(count)]
    async with asyncio.TaskGroup() as tasks:
        for store in opened:
            await store.start()
        running = [tasks.create_task(store.run()) for store in opened if hear]
        yield registry, *opened
        for task in running:
            task.cancel()
    await embedded.close()


def setting(**values):
    """A change that sets these values and keeps the others."""
    return lambda config: {**config, **values}


def without(*names):
    return lambda config: {name: value for name, value in config.items() if name not in names}


async def changes(registry):
    root = ConfigChangesZnode.TEMPLATE
    paths = [f"{root}/{name}" for name in sorted(await registry.children(root))]
    return [ConfigChangeZnode.decode((await registry.get(path))[0], path).entity_path for path in paths]


async def test_every_broker_sees_a_change_and_its_subscribers_are_called_once(tmp_path):
    async with stores(tmp_path, 2) as (_registry, here, there):
        seen = {here: [], there: []}
        for store, calls in seen.items():
            store.entities.subscribe(lambda path, config, calls=calls: calls.append((path, dict(config))))
        await here.entities.alter("users/alice", setting(producer_byte_rate="1"))
        assert seen[here] == [("users/alice", {"producer_byte_rate": "1"})]
        await until(lambda: seen[there] == seen[here], "the other broker has seen the change")
        await there.entities.alter("users/alice", without("producer_byte_rate"))
        await until(lambda: seen[here][1:] == [("users/alice", {})], "the first broker has seen the removal")
        assert here.entities["users/alice"] == there.entities["users/alice"] == {}


async def test_a_subscriber_is_called_for_what_is_known_already(tmp_path):
    async with stores(tmp_path, 2) as (_registry, here, there):
        for path in ("users/alice", "users/<default>/clients/app", "clients/app", "ips/10.0.0.1"):
            await here.entities.alter(path, setting(x=path))
        await there.reload()
        seen = {}
        there.entities.subscribe(seen.__setitem__)
        assert {path: config["x"] for path, config in seen.items()} == {path: path for path in seen}
        assert len(seen) == 4
        assert await there.entities.read_all() == seen


async def test_a_reload_finds_what_has_been_removed_meanwhile(tmp_path):
    async with stores(tmp_path, hear=False) as (registry, store):
        await store.entities.alter("clients/app", setting(x="1"))
        await registry.delete("/config/clients/app")  # without a notification
        seen = []
        store.entities.subscribe(lambda path, config: seen.append((path, dict(config))))
        await store.reload()
        assert seen == [("clients/app", {"x": "1"}), ("clients/app", {})]


async def test_two_parts_keep_their_values_in_one_znode(tmp_path):
    async with stores(tmp_path, 2) as (registry, here, there):
        await here.entities.alter("users/alice", setting(quota="1"))
        raced = []

        def change(config):
            """The first time, another broker changes the config between reading and writing."""
            raced.append(dict(config))
            return {**config, "quota": "2"}

        read = registry.get

        async def reads_and_is_overtaken(path):
            found = await read(path)
            if path == "/config/users/alice" and len(raced) == 0:
                registry.get = read
                await there.entities.alter("users/alice", setting(credential="secret"))
            return found

        registry.get = reads_and_is_overtaken
        await here.entities.alter("users/alice", change)
        assert raced == [{"quota": "1"}, {"quota": "1", "credential": "secret"}]
        assert await here.entities.read("users/alice") == {"quota": "2", "credential": "secret"}


async def test_the_znode_goes_with_the_last_value_but_not_while_a_user_has_clients(tmp_path):
    async with stores(tmp_path) as (registry, store):
        entities = store.entities
        await entities.alter("users/u/clients/a", setting(x="1"))
        await entities.alter("users/u/clients/b", setting(x="1"))
        await entities.alter("users/u", setting(x="1"))
        await entities.alter("users/u", without("x"))
        assert ConfigZnode.decode((await registry.get("/config/users/u"))[0], "/config/users/u").config == {}
        await entities.alter("users/u/clients/a", without("x"))
        assert await registry.children("/config/users/u/clients") == ["b"]
        await entities.alter("users/u/clients/b", without("x"))
        assert await registry.children("/config/users") == []


async def test_the_clients_of_a_user_go_alone_if_the_user_has_values(tmp_path):
    async with stores(tmp_path) as (registry, store):
        await store.entities.alter("users/u", setting(x="1"))
        await store.entities.alter("users/u/clients/a", setting(x="1"))
        await store.entities.alter("users/u/clients/a", without("x"))
        assert await registry.children("/config/users/u") == []
        assert await store.entities.read("users/u") == {"x": "1"}


async def test_a_change_of_nothing_notifies_and_makes_no_znode(tmp_path):
    async with stores(tmp_path) as (registry, store):
        await store.entities.alter("users/never", without("x"))
        with pytest.raises(NoNodeError):
            await registry.get("/config/users/never")
        assert await changes(registry) == ["users/never"]


async def test_an_invalid_config_or_path_is_ignored_without_its_text(tmp_path, caplog):
    async with stores(tmp_path) as (registry, store):
        await registry.create("/config/users/alice", b"planted-secret")
        await store.entities.load("users/alice")
        await store.entities.load("users/../brokers")
        assert store.entities["users/alice"] == {}
        assert "/config/users/alice" in caplog.text
        assert "planted-secret" not in caplog.text


async def test_an_exception_of_a_subscriber_is_logged_without_values_and_the_others_are_called(tmp_path, caplog):
    calls = []

    def fails(path, config):
        raise ValueError(f"{config} is wrong")

    async with stores(tmp_path) as (_registry, store):
        store.entities.subscribe(fails)
        store.entities.subscribe(lambda path, config: calls.append((path, dict(config))))
        await store.entities.alter("users/alice", setting(x="planted-secret"))
        store.entities.subscribe(fails)
        assert calls == [("users/alice", {"x": "planted-secret"})]
        assert len([one for one in caplog.records if "users/alice" in one.getMessage()]) == 2
        assert "ValueError" in caplog.text
        assert "planted-secret" not in caplog.text


async def test_a_change_of_an_impossible_name_is_ignored_and_the_next_one_is_seen(tmp_path, caplog):
    async with stores(tmp_path) as (registry, store):
        await registry.create("/config/users/alice", ConfigZnode(config={"x": "1"}).encode())
        for path in ("topics/", "topics/../x", "users/\0", "users/alice"):
            await registry.create(ConfigChangeZnode.path(), ConfigChangeZnode(entity_path=path).encode(), sequence=True)
        await until(lambda: store.entities["users/alice"] == {"x": "1"}, "the change after them is seen")
        assert caplog.text.count("a change of settings is ignored") == 3


@pytest.mark.parametrize(
    ("path", "is_one"),
    [
        ("users/alice", True),
        ("users/<default>/clients/<default>", True),
        ("ips/10.0.0.1", True),
        ("topics/t", False),
        ("users", False),
        ("users/", False),
        ("users/../x", False),
        ("clients/a/clients/b", False),
        ("users/a/ips/b", False),
    ],
)
def test_paths_of_entities(path, is_one):
    assert is_entity_path(path) is is_one
