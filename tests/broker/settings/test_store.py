"""Dynamic settings in the registry: read when there are many, or from a server that lags, and changed by several."""

import asyncio
import contextlib

import pytest

from broker.settings.config import BrokerConfig
from broker.settings.store import ConfigStore
from client.wire.backoff import Backoff
from registry.embedded.store import EmbeddedStore
from registry.errors import NoNodeError
from registry.pipeline import READS_AT_ONCE
from registry.znodes.configs import TopicConfigZnode
from registry.znodes.tree import ensure_persistent_paths
from support.broker import settings
from support.lossy_registry import LossyRegistry
from support.polling import until

TOPICS = 1000


class DistantRegistry:
    """A registry whose every answer takes a round trip; those of requests that are sent meanwhile come with it."""

    def __init__(self, registry):
        self._registry = registry
        self._waiting = []
        self.round_trips = 0

    def __getattr__(self, name):
        return getattr(self._registry, name)

    async def get(self, path):
        if not self._waiting:
            asyncio.get_running_loop().call_later(0.001, self._answer)
        answered = asyncio.get_running_loop().create_future()
        self._waiting.append(answered)
        await answered
        return await self._registry.get(path)

    def _answer(self):
        self.round_trips += 1
        waiting, self._waiting = self._waiting, []
        for one in waiting:
            one.set_result(None)


class LaggingRegistry:
    """A registry whose server knows nothing of what was written since the last `sync`."""

    def __init__(self, registry):
        self._registry = registry
        self._known = {}

    def __getattr__(self, name):
        return getattr(self._registry, name)

    async def sync(self):
        roots = ("/config/topics", "/config/brokers", "/config/users")
        paths = [f"{root}/{name}" for root in roots for name in await self._registry.children(root)]
        self._known = {path: await self._registry.get(path) for path in paths}

    async def get(self, path):
        if path not in self._known:
            raise NoNodeError("not yet", path)
        return self._known[path]


@contextlib.asynccontextmanager
async def opened_registry():
    store = await EmbeddedStore.open()
    registry = store.session()
    await registry.start()
    await ensure_persistent_paths(registry)
    yield registry
    await store.close()


def config_store(tmp_path, registry, broker_id=0):
    config = BrokerConfig.load(None, settings(tmp_path / "data"))
    return ConfigStore(broker_id, config, registry, lambda: 0, Backoff())


@pytest.mark.parametrize("was_there", [False, True])
async def test_the_settings_of_a_new_topic_are_read_although_the_zookeeper_server_lags(tmp_path, was_there):
    """was_there: an earlier topic of the name was deleted, and the server does not know that either."""
    path = TopicConfigZnode.path("t")
    async with opened_registry() as registry:
        configs = config_store(tmp_path, LaggingRegistry(registry))
        if was_there:
            await registry.create(path, TopicConfigZnode(config={"segment.bytes": "1000000"}).encode())
            await configs.load_topics({"t"}, {"t"})
            configs.forget_topic("t")
            await registry.delete(path)
        await registry.create(path, TopicConfigZnode(config={"segment.bytes": "8000"}).encode())
        await configs.load_topics({"t"}, {"t"})
        assert configs.topic_config("t").segment_bytes == 8000


@pytest.mark.parametrize("was_there", [False, True])
@pytest.mark.parametrize("lags", [False, True])
async def test_changes_through_two_brokers_do_not_undo_each_other(tmp_path, was_there, lags):
    def setting(name):
        return lambda current: {**current, name: "1"}

    async with opened_registry() as registry:
        one = config_store(tmp_path, registry)
        other = config_store(tmp_path, LaggingRegistry(registry) if lags else registry, 1)
        names = {"retention.ms", "segment.bytes", "retention.bytes"} if was_there else {"retention.ms", "segment.bytes"}
        if was_there:
            await one.create_topic("t", {"retention.bytes": "1"})
            await one.alter_broker(None, setting("retention.bytes"))
            await one.entities.alter("users/u", setting("retention.bytes"))
        await asyncio.gather(
            one.alter_topic("t", setting("retention.ms")), other.alter_topic("t", setting("segment.bytes"))
        )
        await asyncio.gather(
            one.alter_broker(None, setting("retention.ms")), other.alter_broker(None, setting("segment.bytes"))
        )
        await asyncio.gather(
            one.entities.alter("users/u", setting("retention.ms")),
            other.entities.alter("users/u", setting("segment.bytes")),
        )
        assert (await one.read_topic("t")).keys() == (await one.read_broker(None)).keys() == names
        assert (await one.entities.read("users/u")).keys() == names


@pytest.mark.parametrize("is_applied", [False, True], ids=["not applied", "applied"])
@pytest.mark.parametrize("write", [1, 2])
async def test_other_brokers_see_changes_whose_answers_are_lost(tmp_path, write, is_applied):
    async with opened_registry() as registry:
        lossy = LossyRegistry(registry)
        lossy.is_applied = is_applied
        one, other = config_store(tmp_path, lossy), config_store(tmp_path, registry, 1)
        await other.start()
        following = asyncio.create_task(other.run())

        def known():
            user = other.entities["users/u"].get("retention.ms")
            return other.topic_overrides("t").get("retention.ms"), other.dynamic.config.log_retention_ms, user

        for value in ("7", "8"):  # the znodes are created, and changed
            for alter in (
                lambda change: one.alter_topic("t", change),
                lambda change: one.entities.alter("users/u", change),
            ):
                lossy.writes_left = write
                await alter(lambda _, value=value: {"retention.ms": value})
            lossy.writes_left = write
            await one.alter_broker(None, lambda _, value=value: {"log.retention.ms": value})
            await until(lambda value=value: known() == (value, int(value), value), "the other broker knows them")
        lossy.writes_left = write
        await one.entities.alter("users/u", lambda _: {})
        await until(lambda: known()[2] is None, "the user is gone")
        following.cancel()


async def test_the_settings_of_many_topics_are_read_in_few_round_trips(tmp_path):
    names = [f"t{number}" for number in range(TOPICS)]
    async with opened_registry() as registry:
        for number, name in enumerate(names):
            znode = TopicConfigZnode(config={"retention.ms": str(number)})
            await registry.create(TopicConfigZnode.path(name), znode.encode())
        distant = DistantRegistry(registry)
        configs = config_store(tmp_path, distant)
        at_most = TOPICS // READS_AT_ONCE + 2  # and the settings of this broker, and of all brokers
        for read in (configs.start, configs.reload):
            distant.round_trips = 0
            await read()
            assert distant.round_trips <= at_most
        assert [configs.topic_config(name).retention_ms for name in names] == list(range(TOPICS))
