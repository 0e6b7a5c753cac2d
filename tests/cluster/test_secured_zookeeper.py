"""Three brokers on a ZooKeeper with TLS and a login, which protects its znodes; the brokers have mutual TLS as well."""

import pytest

from client.admin.admin import Admin
from client.producer.producer import Producer
from registry.errors import NoAuthError
from registry.zookeeper.address import ZooKeeperAddress
from registry.zookeeper.registry import ZooKeeperRegistry
from support.cluster import broker_cluster
from support.cluster_security import MUTUAL_TLS
from support.polling import until
from support.secured_zookeeper import secured_zookeeper, shared_secured_zookeeper

BROKERS = (0, 1, 2)


@pytest.fixture
async def cluster(tmp_path):
    async with broker_cluster(tmp_path, security=MUTUAL_TLS, zookeeper=shared_secured_zookeeper()) as cluster:
        yield cluster


@pytest.fixture
async def stranger(cluster):
    """A session on the tree of the cluster, through the plain port and without a login."""
    address = secured_zookeeper().address + ZooKeeperAddress.parse(cluster.connect).chroot
    registry = ZooKeeperRegistry(ZooKeeperAddress.parse(address))
    await registry.start()
    yield registry
    await registry.close()


async def test_brokers_die_and_come_back(cluster, stranger):
    controller = await cluster.controller()
    other, third = sorted({*BROKERS} - {controller})
    await cluster.create_topic("t", {0: [controller, other, third]}, {"min.insync.replicas": "2"})

    async def send(value, *brokers):
        async with Producer(**cluster.options(*brokers), acks="all") as producer:
            return (await producer.send("t", value, partition=0)).offset

    assert await send(b"one", *BROKERS) == 0
    await cluster.kill_and_expire(controller)
    await cluster.until_led_by(other, "t")
    assert await send(b"two", other, third) == 1
    await cluster.start(controller)  # after its session has ended; the next one before

    async def all_in_sync():
        return set((await cluster.state("t"))["isr"]) == {*BROKERS}

    await until(all_in_sync, "the broker has caught up")
    await cluster.kill(other)
    await cluster.start(other)
    await until(all_in_sync, "it has caught up, too")
    assert await send(b"three", *BROKERS) == 2
    for path in ("/brokers/topics/t", "/cluster/id", f"/brokers/ids/{other}"):
        with pytest.raises(NoAuthError):
            await stranger.set(path, b"")
    with pytest.raises(NoAuthError):
        await stranger.get("/config/brokers")
    async with Admin(**cluster.options()) as admin:
        await admin.delete_topics(["t"])
