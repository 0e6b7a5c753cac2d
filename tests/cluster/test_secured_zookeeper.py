"""Three brokers on a ZooKeeper with TLS and a login, which protects its znodes; the brokers have mutual TLS as well."""

import pytest

from client.admin.admin import Admin
from client.producer.producer import Producer
from registry.errors import NoAuthError
from registry.zookeeper.settings import NETTY_SOCKET
from security.jaas import ZOOKEEPER_MODULE
from support.cluster import BrokerCluster
from support.cluster_security import MUTUAL_TLS
from support.polling import until
from support.secured_zookeeper import secured_zookeeper

BROKERS = (0, 1, 2)


class SecuredCluster(BrokerCluster):
    """Brokers that connect to the port for TLS. The cluster's own look is that of a stranger on the plain port."""

    def settings_of(self, broker_id):
        server = secured_zookeeper()
        return {
            "zookeeper.connect": self.connect.replace(server.address, server.tls_address),
            "zookeeper.ssl.client.enable": "true",
            "zookeeper.clientCnxnSocket": NETTY_SOCKET,
            "zookeeper.ssl.truststore.location": str(server.folder / "ca.pem"),
            "zookeeper.set.acl": "true",
            "ottla.zookeeper.sasl.jaas.config": (
                f'{ZOOKEEPER_MODULE} required username="kafka" password="kafka-secret";'
            ),
        }


@pytest.fixture
async def cluster(tmp_path):
    cluster = SecuredCluster(tmp_path, {}, secured_zookeeper().address, MUTUAL_TLS)
    try:
        await cluster.open(*BROKERS)
        yield cluster
    finally:
        await cluster.close()


async def test_brokers_die_and_come_back(cluster):
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
            await cluster.registry.set(path, b"")
    with pytest.raises(NoAuthError):
        await cluster.registry.get("/config/brokers")
    async with Admin(**cluster.options()) as admin:
        await admin.delete_topics(["t"])
