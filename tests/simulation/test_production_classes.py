"""A simulation simulates hosts, not Ottla: brokers, replicas, controllers, logs and clients are the production classes,
and what goes between brokers are frames that the protocol's codec reads."""

import ast
import asyncio
import inspect
from pathlib import Path

import pytest

import support.simulation.broker_host
import support.simulation.workload
from broker.broker import Broker
from broker.controller.controller import Controller
from broker.network.connection import Connection as BrokerConnection
from client.consumer.reader import Reader
from client.producer.producer import Producer
from client.wire.connection import Connection
from protocol.api_keys import ApiKey
from protocol.headers import decode_request_header
from registry.embedded.session import EmbeddedRegistry
from replication.partition import Partition
from replication.replica_manager import ReplicaManager
from storage.log.log import Log
from storage.log_manager import LogManager
from support.simulation.cluster import SimulatedCluster
from support.simulation.network import SimulatedNetwork
from support.simulation.trace import Trace
from support.simulation.transport import SimulatedTransport
from support.simulation.virtual_loop import VirtualTimeLoop

SUPPORT = Path(inspect.getfile(support.simulation.broker_host)).parent
PRODUCTION = ("broker", "replication", "controller", "storage", "client", "registry", "protocol")


def in_a_cluster(directory, test, brokers=3):
    """Run a test in a cluster that has just been started, and stop that cleanly."""
    loop = VirtualTimeLoop()

    async def main():
        cluster = SimulatedCluster("test", directory, Trace(loop.time))
        await cluster.start(brokers)
        try:
            return await test(cluster)
        finally:
            for host in cluster.hosts.values():
                await host.stop()

    try:
        return loop.run_until_complete(main())
    finally:
        loop.close()


def test_what_runs_are_the_production_classes(tmp_path):
    async def look(cluster):
        for host in cluster.hosts.values():
            broker = host.broker
            services = broker.services
            assert type(broker) is Broker
            assert type(broker.controller) is Controller
            assert type(services.replicas) is ReplicaManager
            assert type(services.logs) is LogManager
            assert type(host.session.inner) is EmbeddedRegistry
            for acceptor in broker.acceptors.values():
                assert acceptor.connections
                assert {type(connection) for connection in acceptor.connections} == {BrokerConnection}
        assert sum(host.broker.controller.is_active for host in cluster.hosts.values()) == 1

    in_a_cluster(tmp_path, look)
    assert (support.simulation.workload.Producer, support.simulation.workload.Reader) == (Producer, Reader)


@pytest.mark.parametrize(
    "production", [Broker, Controller, ReplicaManager, Partition, LogManager, Log, Producer, Reader]
)
def test_nothing_is_derived_from_production_classes(production):
    """Only the seams are replaced: file system, network, registry session, loop."""
    for module in SUPPORT.glob("*.py"):
        for node in ast.walk(ast.parse(module.read_text())):
            if isinstance(node, ast.ClassDef):
                assert production.__name__ not in {ast.unparse(base) for base in node.bases}, module
    assert production.__module__.partition(".")[0] in PRODUCTION


def test_brokers_exchange_encoded_frames(tmp_path, monkeypatch):
    requests: dict[tuple[str, str], set[str]] = {}
    buffers: dict[SimulatedTransport, bytes] = {}
    production = SimulatedNetwork._arrived

    def arrived(self, name, source, target, item):
        if isinstance(item, bytes) and isinstance(source._protocol, Connection):
            data = buffers.get(source, b"") + item
            while len(data) >= 4 and len(data) >= 4 + int.from_bytes(data[:4], "big"):
                size = int.from_bytes(data[:4], "big")
                header, _ = decode_request_header(memoryview(data)[4 : 4 + size])
                ends = (source.process.host, target.process.host)
                requests.setdefault(ends, set()).add(ApiKey(header.request_api_key).name)
                data = data[4 + size :]
            buffers[source] = data
        production(self, name, source, target, item)

    monkeypatch.setattr(SimulatedNetwork, "_arrived", arrived)

    async def replicate(cluster):
        from client.admin.admin import Admin

        _, network, rng = cluster.client_network()
        async with Admin(bootstrap_servers=cluster.bootstrap_servers, network=network, random=rng) as admin:
            await admin.create_topic("t", 3, 3)
        await asyncio.sleep(2.0)

    in_a_cluster(tmp_path, replicate)
    between = {ends: names for ends, names in requests.items() if all(end.startswith("broker-") for end in ends)}
    assert set().union(*between.values()) >= {"LEADER_AND_ISR", "UPDATE_METADATA", "FETCH"}
    assert {ends for ends, names in between.items() if "FETCH" in names} == {
        (f"broker-{one}", f"broker-{other}") for one in (1, 2, 3) for other in (1, 2, 3) if one != other
    }
