"""One broker on a real ZooKeeper and on `ottla registry`: what it writes, its sessions, and what becomes of its id."""

import asyncio
import json

import pytest

from broker.broker import Broker
from broker.cluster.registry_access import SESSION_FILE, SessionToken
from broker.errors import BrokerStartError
from broker.settings.config import BrokerConfig
from protocol.record_batch import iter_batches
from registry.interface import ConnectionState
from registry.znodes.brokers import BrokerZnode, Endpoint
from registry.znodes.configs import TopicConfigZnode
from registry.zookeeper.address import ZooKeeperAddress
from registry.zookeeper.registry import ZooKeeperRegistry
from storage.errors import InconsistentClusterIdError
from support.broker import BrokerProcess, running_broker, settings
from support.broker_sessions import expire_session
from support.deadlines import DEADLINE_S
from support.polling import until
from support.wire import append, batch, create_topic, fetch, until_led, wire_client
from support.znodes import live_order, live_tree, recorded_order, recorded_tree
from support.zookeeper import heard, new_chroot, proxied, shared_registry, shared_zookeeper


@pytest.fixture(params=[shared_zookeeper, shared_registry], ids=["zookeeper", "registry"])
def connect(request):
    """The `zookeeper.connect` of a cluster of its own."""
    return f"{request.param().connect}{new_chroot()}"


@pytest.fixture
async def registry(connect):
    """Our own look at the cluster's tree."""
    registry = ZooKeeperRegistry(ZooKeeperAddress.parse(connect))
    await registry.start()
    yield registry
    await registry.close()


async def records(client, topic="t"):
    """How many records partition 0 has."""
    answer = await client.call(fetch(topic), 12)
    return sum(one.record_count for one in iter_batches(answer.responses[0].partitions[0].records))


# -- the tree ----------------------------------------------------------------------------------------------------------


async def test_the_znodes_are_those_of_kafka(tmp_path, connect, registry):
    async with running_broker(tmp_path / "data", zookeeper_connect=connect, broker_id="0"):
        assert await live_tree(registry) == recorded_tree("01-one-broker-empty.json")
        assert await live_order(registry) == recorded_order("01-one-broker-empty.json")
    left = (await live_tree(registry)).keys()
    assert recorded_tree("01-one-broker-empty.json").keys() - left == {"/brokers/ids/0", "/controller"}


async def test_records_and_topics_survive(tmp_path, connect, registry):
    for life in range(2):
        async with running_broker(tmp_path / "data", zookeeper_connect=connect, broker_id="7") as broker:
            async with wire_client(broker.bootstrap_servers) as client:
                if life == 0:
                    await create_topic(client, "t")
                await until_led(client.call)
                await append(client, "t", batch(b"%d" % life))
                assert await records(client) == life + 1
            stat = await registry.exists("/brokers/ids/7")
            assert broker.services.broker_epoch == stat.czxid
    assert await registry.children("/brokers/topics") == ["t"]
    assert not (tmp_path / "data" / "registry.sqlite").exists()


# -- sessions ----------------------------------------------------------------------------------------------------------


async def test_a_killed_broker_restarts_before_its_session_expires(tmp_path, connect, registry):
    """It ends the session that it left behind, and is a new broker to everybody: another czxid."""
    process = BrokerProcess(tmp_path / "data", {"zookeeper.connect": connect, "broker.id": "1"})
    with process:
        async with wire_client(process.bootstrap) as client:
            await create_topic(client, "t")
            await append(client, "t", batch(b"0"))
        for life in range(1, 3):
            before = await registry.exists("/brokers/ids/1")
            process.kill()
            assert await registry.exists("/brokers/ids/1") == before
            await asyncio.to_thread(process.start)
            after = await registry.exists("/brokers/ids/1")
            assert after.czxid > before.czxid
            assert after.ephemeral_owner != before.ephemeral_owner
            assert (await registry.exists("/controller")).ephemeral_owner == after.ephemeral_owner
            assert process.log_text().count("of an earlier run of this broker") == life
            async with wire_client(process.bootstrap) as client:
                await until_led(client.call)
                await append(client, "t", batch(b"%d" % life))
                assert await records(client) == life + 1
        assert process.stop() == 0
    assert await registry.children("/brokers/ids") == []


async def test_a_broker_whose_id_is_in_use_is_refused(tmp_path, connect, registry):
    """Also one that has a proof of an earlier life, and one on the same host and port."""
    config = {"zookeeper_connect": connect, "broker_id": "1"}
    async with running_broker(tmp_path / "twin", **config):
        pass
    token = (tmp_path / "twin" / SESSION_FILE).read_bytes()
    meta = (tmp_path / "twin" / "meta.properties").read_bytes()
    async with running_broker(tmp_path / "data", **config) as broker:
        before = await registry.exists("/brokers/ids/1")
        same_port = {"listeners": f"PLAINTEXT://{broker.bootstrap_servers}"}
        for folder, more in (("twin", {}), ("twin", same_port), ("new", {})):
            twin = Broker(BrokerConfig.load(None, settings(tmp_path / folder, **config, **more)))
            with pytest.raises(BrokerStartError, match=r"id 1 is registered already.*zookeeper\.session\.timeout\.ms"):
                await twin.run()
        assert await registry.exists("/brokers/ids/1") == before
        assert not (tmp_path / "new" / SESSION_FILE).exists()  # nothing of ours is written under a taken id
        assert not (tmp_path / "new" / "meta.properties").exists()
        assert (tmp_path / "twin" / SESSION_FILE).read_bytes() == token
        assert (tmp_path / "twin" / "meta.properties").read_bytes() == meta


async def test_only_the_owner_may_read_the_session_password(tmp_path, connect):
    token = tmp_path / "data" / SESSION_FILE
    token.parent.mkdir()
    token.with_name(f"{SESSION_FILE}.tmp").touch(0o644)  # of a broker that was killed
    async with running_broker(tmp_path / "data", zookeeper_connect=connect):
        assert token.stat().st_mode & 0o777 == 0o600


async def test_a_registration_without_proof_of_ownership_is_kept(tmp_path, connect, registry):
    await registry.create("/brokers/ids/1", b"{}", ephemeral=True, make_parents=True)
    session_id, password = registry.credentials
    (tmp_path / "data").mkdir()
    token = tmp_path / "data" / SESSION_FILE
    broker = {"zookeeper_connect": connect, "broker_id": "1"}
    for content in (None, b"", b"1\n2", b"0\n5\n00\n", SessionToken(session_id + 1, password).encode(), b"\xff"):
        if content is not None:
            token.write_bytes(content)
        with pytest.raises(BrokerStartError, match="id 1 is registered already"):
            await Broker(BrokerConfig.load(None, settings(tmp_path / "data", **broker))).run()
        assert await registry.exists("/brokers/ids/1") is not None
    token.write_bytes(SessionToken(session_id, password).encode())
    async with running_broker(tmp_path / "data", **broker):
        assert registry.state is not ConnectionState.CONNECTED  # it was proven, and so has ended


async def test_a_broker_restarts_with_the_same_id_and_directory_at_another_address(tmp_path, connect, registry):
    ports = set()
    for _ in range(2):
        async with running_broker(tmp_path / "data", zookeeper_connect=connect, broker_id="1") as broker:
            data, _ = await registry.get("/brokers/ids/1")
            assert json.loads(data)["endpoints"] == [f"PLAINTEXT://{broker.bootstrap_servers}"]
            ports.add(broker.bootstrap_servers)
    assert len(ports) == 2


async def test_a_broker_without_zookeeper_keeps_serving_and_reconnects_with_another_session(
    tmp_path, connect, registry
):
    async with proxied(connect) as (proxy, through):
        overrides = settings(tmp_path / "data", zookeeper_connect=through, broker_id="1")
        async with (
            Broker(BrokerConfig.load(None, overrides)) as broker,
            asyncio.timeout(DEADLINE_S),
            wire_client(broker.bootstrap_servers) as client,
        ):
            await create_topic(client, "t")
            before = await registry.exists("/brokers/ids/1")
            assert await registry.children("/brokers/ids") == ["1"]
            proxy.cut()
            await append(client, "t", batch(b"without"))  # suspended is not expired
            assert await records(client) == 1
            await expire_session(connect, tmp_path / "data")
            assert await registry.children("/brokers/ids") == []
            await registry.set("/config/topics/t", TopicConfigZnode(config={"segment.bytes": "5000"}).encode())
            await proxy.heal()
            await until(lambda: broker.services.broker_epoch > before.czxid, "it is registered again")
            after = await registry.exists("/brokers/ids/1")
            assert after.ephemeral_owner != before.ephemeral_owner
            token = SessionToken.decode((tmp_path / "data" / SESSION_FILE).read_bytes())
            assert token.session_id == after.ephemeral_owner
            await until(lambda: broker.controller.is_active, "it is the controller again")
            assert (await registry.exists("/controller")).ephemeral_owner == after.ephemeral_owner
            await until(
                lambda: broker.services.configs.topic_overrides("t") == {"segment.bytes": "5000"}, "it has read on"
            )
            await append(client, "t", batch(b"again"))
            await create_topic(client, "u")
            assert await records(client) == 2


async def test_a_broker_stops_if_its_id_was_taken_while_it_was_disconnected(tmp_path, connect, registry):
    async with proxied(connect) as (proxy, through):
        overrides = settings(tmp_path / "data", zookeeper_connect=through, broker_id="1")
        broker = Broker(BrokerConfig.load(None, overrides))
        ready = asyncio.Event()
        running = asyncio.create_task(broker.run(lambda broker: ready.set()))
        async with asyncio.timeout(DEADLINE_S):
            await ready.wait()
            assert await registry.children("/brokers/ids") == ["1"]
            proxy.cut()
            await expire_session(connect, tmp_path / "data")
            assert await registry.children("/brokers/ids") == []
            data = BrokerZnode(endpoints=(Endpoint("PLAINTEXT", "PLAINTEXT", "127.0.0.1", 1),), timestamp_ms=0)
            await registry.create("/brokers/ids/1", data.encode(), ephemeral=True)
            await proxy.heal()
            with pytest.raises(ExceptionGroup) as raised:
                await running
            assert raised.group_contains(BrokerStartError, match="id 1 is registered already")


async def test_a_short_disconnect_has_no_effect(tmp_path, connect, registry):
    async with (
        proxied(connect) as (proxy, through),
        running_broker(tmp_path / "data", zookeeper_connect=through, broker_id="1") as broker,
    ):
        before = await registry.exists("/brokers/ids/1")
        async with wire_client(broker.bootstrap_servers) as client:
            for number in range(3):
                async with heard(broker.services.topics._registry, ConnectionState.CONNECTED):
                    proxy.drop()
                await create_topic(client, f"t{number}")
                await append(client, f"t{number}", batch(b"x"))
        assert await registry.exists("/brokers/ids/1") == before
        assert (await registry.exists("/controller_epoch")).version == 1
        assert sorted(await registry.children("/brokers/topics")) == ["t0", "t1", "t2"]


# -- it does not start -------------------------------------------------------------------------------------------------


async def test_a_directory_of_another_cluster_is_refused(tmp_path, connect):
    async with running_broker(tmp_path / "data", zookeeper_connect=connect):
        pass
    other = f"{connect}-other"
    async with running_broker(tmp_path / "other", zookeeper_connect=other):
        pass
    with pytest.raises(InconsistentClusterIdError, match=r"check that zookeeper\.connect or the registry"):
        await Broker(BrokerConfig.load(None, settings(tmp_path / "data", zookeeper_connect=other))).run()
