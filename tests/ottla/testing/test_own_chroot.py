"""Test clusters on a ZooKeeper: each has a chroot of its own, which is deleted when it is reset or stopped."""

import asyncio
import contextlib

import pytest
from confluent_kafka import Producer

from ottla import testing
from ottla.cluster.ports import free_ports
from ottla.testing import assertions as kafka
from registry.errors import ConnectionLossError
from registry.zookeeper.address import ZooKeeperAddress
from registry.zookeeper.registry import ZooKeeperRegistry
from support.deadlines import DEADLINE_S
from support.zookeeper import new_chroot, shared_zookeeper


@pytest.fixture
def connect():
    return f"{shared_zookeeper().connect}{new_chroot()}"


def children(connect):
    """What is below a chroot."""

    async def read():
        async with contextlib.AsyncExitStack() as stack:
            registry = ZooKeeperRegistry(ZooKeeperAddress.parse(connect))
            stack.push_async_callback(registry.close)
            await registry.start()
            return await registry.children("/")

    return asyncio.run(read())


def test_clusters_are_apart_reset_and_leave_nothing(connect):
    settings = {"zookeeper.connect": connect}
    with testing.cluster(2, settings) as cluster, testing.broker(settings) as broker:
        assert len(children(connect)) == 2
        sessions = {member.broker.config.zookeeper_session_timeout_ms for member in cluster.brokers.values()}
        assert sessions == {6000}  # one of 1 s ends on a busy machine
        broker.create_topic("of-the-broker")
        cluster.create_topic("orders", partitions=1, replication_factor=2)
        cluster.kill_broker(2)
        servers = cluster.bootstrap_servers
        cluster.reset()
        assert cluster.bootstrap_servers == servers
        assert all(not member.broker.metadata.snapshot.topics for member in cluster.brokers.values())
        cluster.create_topic("orders", partitions=1, replication_factor=2)
        producer = Producer({"bootstrap.servers": servers})
        producer.produce("orders", b"one")
        assert producer.flush(DEADLINE_S) == 0
        assert [one.value for one in kafka.read_topic(servers, "orders", timeout_s=DEADLINE_S)] == [b"one"]
        assert "of-the-broker" in broker.member.broker.metadata.snapshot.topics
    assert children(connect) == []


def test_a_zookeeper_that_does_not_answer_is_asked_once(caplog):
    (port,) = free_ports(1)
    settings = {"zookeeper.connect": f"127.0.0.1:{port}/tests", "zookeeper.connection.timeout.ms": "300"}
    with pytest.raises(ConnectionLossError, match="no session on ZooKeeper"):
        testing.broker(settings).start()
    assert "is not deleted" not in caplog.text


def test_a_cluster_with_a_directory_has_the_chroot_that_is_named(connect, tmp_path):
    with testing.broker({"zookeeper.connect": connect}, directory=tmp_path / "data") as broker:
        broker.create_topic("orders")
        with pytest.raises(RuntimeError, match="which may have data of others"):
            broker.reset()
        assert "orders" in broker.member.broker.metadata.snapshot.topics
    assert "brokers" in children(connect)
