"""Dynamic settings in the registry: how they are read when there are many."""

import asyncio

from broker.settings.config import BrokerConfig
from broker.settings.store import ConfigStore
from client.wire.backoff import Backoff
from registry.embedded.store import EmbeddedStore
from registry.pipeline import READS_AT_ONCE
from registry.znodes.configs import TopicConfigZnode
from registry.znodes.tree import ensure_persistent_paths
from support.broker import settings

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


async def test_the_settings_of_many_topics_are_read_in_few_round_trips(tmp_path):
    store = await EmbeddedStore.open()
    registry = store.session()
    await registry.start()
    await ensure_persistent_paths(registry)
    names = [f"t{number}" for number in range(TOPICS)]
    for number, name in enumerate(names):
        znode = TopicConfigZnode(config={"retention.ms": str(number)})
        await registry.create(TopicConfigZnode.path(name), znode.encode())
    distant = DistantRegistry(registry)
    config = BrokerConfig.load(None, settings(tmp_path / "data"))
    configs = ConfigStore(0, config, distant, lambda: 0, Backoff())
    at_most = TOPICS // READS_AT_ONCE + 2  # and the settings of this broker, and of all brokers
    for read in (configs.start, configs.reload):
        distant.round_trips = 0
        await read()
        assert distant.round_trips <= at_most
    assert [configs.topic_config(name).retention_ms for name in names] == list(range(TOPICS))
    await store.close()
