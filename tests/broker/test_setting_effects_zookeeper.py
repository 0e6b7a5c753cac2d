"""What the settings of the way to ZooKeeper do. The session's timeout is shown on the embedded registry."""

import asyncio

import pytest

from broker.broker import Broker
from broker.config import BrokerConfig
from registry.errors import ConnectionLossError
from registry.interface import ConnectionState
from registry.zookeeper import ZooKeeperRegistry
from registry.zookeeper_address import ZooKeeperAddress
from storage.setting import ConfigError
from support.broker import running_broker, settings
from support.effects import shows
from support.zookeeper import heard, new_chroot, proxied, shared_zookeeper


@pytest.fixture
def connect():
    """The `zookeeper.connect` of a cluster of its own."""
    return f"{shared_zookeeper().connect}{new_chroot()}"


@shows("zookeeper.connect")
async def test_the_broker_is_registered_where_it_says(tmp_path, connect):
    async with running_broker(tmp_path / "data", zookeeper_connect=f"{connect}/a/b", broker_id="3"):
        registry = ZooKeeperRegistry(ZooKeeperAddress.parse(connect))
        await registry.start()
        assert await registry.children("/a/b/brokers/ids") == ["3"]
        await registry.close()
    assert not (tmp_path / "data" / "registry.sqlite").exists()


@pytest.mark.parametrize("text", ["a:b", "zk/x/", ",", "zk:2181//", "a/x,b/y"])
def test_a_connect_that_is_none(tmp_path, text):
    with pytest.raises(ConfigError, match=r"zookeeper\.connect"):
        BrokerConfig.load(None, settings(tmp_path, zookeeper_connect=text))


@shows("zookeeper.connection.timeout.ms")
async def test_no_zookeeper(tmp_path):
    overrides = settings(
        tmp_path / "data", zookeeper_connect="127.0.0.1:1,localhost:1/kafka", zookeeper_connection_timeout_ms="150"
    )
    with pytest.raises(ConnectionLossError) as raised:
        await Broker(BrokerConfig.load(None, overrides)).run()
    assert "127.0.0.1:1,localhost:1/kafka within 150 ms" in str(raised.value)
    assert "refused" in str(raised.value)


@shows("zookeeper.max.in.flight.requests")
@pytest.mark.parametrize("limit", [1, 5])
async def test_no_more_requests_under_way_than_allowed(tmp_path, connect, limit):
    async with proxied(connect) as (proxy, through):
        options = {"zookeeper_connect": through, "zookeeper_max_in_flight_requests": str(limit)}
        async with running_broker(tmp_path / "data", **options) as broker:
            registry = broker.services.topics._registry
            proxy.stall()
            calls = [asyncio.create_task(registry.create(f"/x{number}")) for number in range(9)]
            for _ in range(3):
                await asyncio.sleep(0)
            assert len(registry._in_flight) == limit
            async with heard(registry, ConnectionState.CONNECTED):
                proxy.drop()
            results = await asyncio.gather(*calls, return_exceptions=True)
            assert sum(isinstance(result, ConnectionLossError) for result in results) <= limit
