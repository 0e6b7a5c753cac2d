"""Two brokers in this process, a leader and a follower, which share an embedded registry."""

import contextlib

from broker.broker import Broker
from broker.settings.config import BrokerConfig
from client.admin.admin import Admin
from registry.embedded.store import EmbeddedStore
from support.broker import settings
from support.polling import until


@contextlib.asynccontextmanager
async def pair(tmp_path, *, partitions=1, topic=None, own=None, **overrides):
    """Broker 0 leads every partition of `t`, broker 1 follows. own: settings of each, by number."""
    overrides.setdefault("controlled_shutdown_enable", "false")  # the last one would wait for somebody to take over
    store = await EmbeddedStore.open()
    try:
        async with contextlib.AsyncExitStack() as stack:
            brokers = []
            for number in range(2):
                of_one = {"broker_id": str(number), "broker_rack": f"rack-{number}"} | (own or {}).get(number, {})
                config = BrokerConfig.load(None, settings(tmp_path / str(number), **of_one | overrides))
                brokers.append(await stack.enter_async_context(Broker(config, store=store)))
            await until(lambda: len(brokers[0].metadata.snapshot.brokers) == 2, "both are there")
            async with Admin(bootstrap_servers=brokers[0].bootstrap_servers) as admin:
                assignment = {partition: [0, 1] for partition in range(partitions)}
                await admin.create_topic("t", assignment=assignment, configs=topic or {})
            await until(lambda: len(states(brokers[1])) == partitions, "broker 1 follows")
            yield brokers
    finally:
        await store.close()


def states(broker):
    return list(broker.services.replicas.fetchers.states())
