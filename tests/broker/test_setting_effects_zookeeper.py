"""What the settings of the way to ZooKeeper do. The session's timeout is shown on the embedded registry."""

import asyncio
import json
import re

import pytest

from broker.broker import Broker
from broker.settings.config import BrokerConfig
from client.admin.admin import Admin
from registry.errors import ConnectionLossError, NoNodeError
from registry.interface import ConnectionState
from registry.zookeeper.address import ZooKeeperAddress
from registry.zookeeper.registry import ZooKeeperRegistry
from registry.zookeeper.session import end_session
from storage.setting import ConfigError
from support.broker import broker_process, running_broker, settings
from support.effects import shows
from support.polling import until
from support.zookeeper import heard, new_chroot, proxied, shared_zookeeper


@pytest.fixture
def connect():
    """The `zookeeper.connect` of a cluster of its own."""
    return f"{shared_zookeeper().connect}{new_chroot()}"


@shows("zookeeper.connect")
async def test_the_broker_registers_at_the_configured_path(tmp_path, connect):
    async with running_broker(tmp_path / "data", zookeeper_connect=f"{connect}/a/b", broker_id="3"):
        registry = ZooKeeperRegistry(ZooKeeperAddress.parse(connect))
        await registry.start()
        assert await registry.children("/a/b/brokers/ids") == ["3"]
        await registry.close()
    assert not (tmp_path / "data" / "registry.sqlite").exists()


@pytest.mark.parametrize("text", ["a:b", "zk/x/", ",", "zk:2181//", "a/x,b/y"])
def test_an_invalid_zookeeper_connect(tmp_path, text):
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
async def test_requests_in_flight_are_limited(tmp_path, connect, limit):
    async with proxied(connect) as (proxy, through):
        options = {"zookeeper_connect": through, "zookeeper_max_in_flight_requests": str(limit)}
        async with running_broker(tmp_path / "data", **options) as broker:
            registry = broker.services.topics._registry
            proxy.stall()
            calls = [asyncio.create_task(registry.create(f"/x{number}")) for number in range(9)]
            for _ in range(3):
                await asyncio.sleep(0)
            assert len(registry._requests._in_flight) == limit
            async with heard(registry, ConnectionState.CONNECTED):
                proxy.drop()
            results = await asyncio.gather(*calls, return_exceptions=True)
            assert sum(isinstance(result, ConnectionLossError) for result in results) <= limit


@pytest.fixture
async def look(connect):
    """What stands at a path below the chroot, and what lies below it."""
    registry = ZooKeeperRegistry(ZooKeeperAddress.parse(connect))
    await registry.start()

    async def read(path):
        try:
            return (await registry.get(path))[0], sorted(await registry.children(path))
        except NoNodeError:
            return None, []

    yield read
    await registry.close()


@shows("ottla.jmx.port")
@pytest.mark.parametrize(
    ("variable", "overrides", "port"),
    [("", {}, -1), ("9999", {}, 9999), ("9999", {"ottla.jmx.port": "6061"}, 6061)],
)
async def test_the_jmx_port_in_the_registration(tmp_path, connect, look, monkeypatch, variable, overrides, port):
    monkeypatch.setenv("JMX_PORT", variable)
    options = {"broker.id": "7", "zookeeper.connect": connect, **overrides}
    with broker_process(tmp_path / "data", **options):
        data, _ = await look("/brokers/ids/7")
        assert json.loads(data)["jmx_port"] == port


@shows("ottla.zookeeper.legacy07.chroot")
async def test_a_view_of_the_cluster_in_the_layout_of_0_7(tmp_path, connect, look):
    options = {"zookeeper_connect": connect, "ottla_zookeeper_legacy07_chroot": "/old/kafka07", "num_partitions": "3"}

    async def shown(expected):
        async def is_shown():
            return (await look("/old/kafka07/brokers/topics/t/7"))[0] == expected

        await until(is_shown, f"0.7's node has {expected}")

    async with (
        running_broker(tmp_path / "data", broker_id="7", **options) as broker,
        Admin(bootstrap_servers=broker.bootstrap_servers) as admin,
    ):
        await admin.create_topic("t")
        await shown(b"3")
        text = (await look("/old/kafka07/brokers/ids/7"))[0].decode()
        assert re.fullmatch(r"127\.0\.0\.1-\d{13}:" + broker.bootstrap_servers, text)
        await admin.create_partitions("t", 5)
        await shown(b"5")
        own = broker.services.topics._registry
        before = own.session_id
        assert await end_session(ZooKeeperAddress.parse(connect), own.credentials, 10_000)
        await until(lambda: own.session_id not in (0, before), "the broker has a new session")
        await shown(b"5")
        assert (await look("/old/kafka07/brokers/ids/7"))[0].decode() == text
        await admin.delete_topics(["t"])

        async def is_gone():
            return [(await look(f"/old/kafka07/brokers/{name}"))[1] for name in ("topics", "partitions")] == [[], []]

        await until(is_gone, "the topic's node is gone")
    assert await look("/old/kafka07/brokers/ids") == (None, [])


@shows("ottla.zookeeper.legacy07.chroot")
async def test_each_broker_registers_the_partitions_it_leads_in_the_view(tmp_path, connect, look):
    options = {"zookeeper_connect": connect, "ottla_zookeeper_legacy07_chroot": "/old"}

    async def counts(expected, folder="topics"):
        async def are_shown():
            found = {name: await look(f"/old/brokers/{folder}/t/{name}") for name in ("7", "8")}
            return {name: data for name, (data, _) in found.items() if data is not None} == expected

        await until(are_shown, f"the counts are {expected}")

    async with running_broker(tmp_path / "seven", broker_id="7", **options) as seven:
        async with running_broker(tmp_path / "eight", broker_id="8", **options):
            async with Admin(bootstrap_servers=seven.bootstrap_servers) as admin:

                async def are_two():
                    return len((await admin.describe_cluster()).brokers) == 2

                await until(are_two, "both are known")
                await admin.create_topic("t", assignment={0: [7, 8], 1: [8, 7], 2: [8, 7]})
            await counts({"7": b"1", "8": b"2"})
            await counts({"7": b"0", "8": b"1,2"}, "partitions")  # which they are
        await counts({"7": b"3"})  # its partitions go over to who has them; its nodes are gone with it
        await counts({"7": b"0,1,2"}, "partitions")


@pytest.mark.parametrize(
    ("chroot", "overrides", "said"),
    [
        ("old", {}, "must start with a slash"),
        ("/", {}, "outside of the cluster's own tree"),
        ("/brokers/old", {}, "outside of the cluster's own tree"),
        ("/controller", {}, "outside of the cluster's own tree"),
        ("/old", {"zookeeper_connect": ""}, "needs zookeeper.connect"),
        ("/old", {"listeners": "PLAINTEXT://[::1]:0"}, "IPv6"),
    ],
)
def test_an_invalid_chroot_for_0_7(tmp_path, connect, chroot, overrides, said):
    options = {"zookeeper_connect": connect, "ottla_zookeeper_legacy07_chroot": chroot, **overrides}
    with pytest.raises(ConfigError, match=r"ottla\.zookeeper\.legacy07\.chroot.*" + said):
        BrokerConfig.load(None, settings(tmp_path, **options))
