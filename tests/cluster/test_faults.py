"""Three brokers and three ZooKeepers, or one `ottla registry`, under load, and everything that may befall them.

A producer with acks=all and min.insync.replicas=2 never gives up. Every record that was acknowledged is there once and
in order, what a consumer has read stays what it is, and its offsets never go back.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable

import pytest

from ottla.cluster.local_registry import LocalRegistry
from ottla.cluster.registry_servers import RegistryServers
from ottla.zookeeper.server import ZooKeeperEnsemble
from protocol.error_codes import ErrorCode
from protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from support.acknowledged import Load, Reader, check_kept
from support.cluster_security import MUTUAL_TLS, PLAINTEXT, REGISTRY, SCRAM_OVER_TLS, SECURED_ZOOKEEPER, ZOOKEEPER
from support.counts import FULL, count
from support.linked_cluster import BROKERS, LinkedCluster, linked_cluster
from support.polling import until
from support.secured_zookeeper import SecuredEnsemble
from support.wire import append, batch, fetch

KEPT = ("t", 0)
SOME = 200
"""Records that are acknowledged before the next fault, during it and after it."""
SETTINGS = {"replica_lag_time_max_ms": "1500", "log_initial_task_delay_ms": "100"}
PAUSE_S = 0.05
"""Faults take seconds: at full speed there would be a hundred thousand records to look at."""
IMPATIENT = {"request.timeout.ms": 2_000, "socket.timeout.ms": 3_000}
QUICK = ("leader without zookeeper", "two zookeepers killed")
QUICK_SECURED = ("leader killed",)
QUICK_REGISTRY = ("registry killed",)
NEEDS_ENSEMBLE = ("one zookeeper killed", "two zookeepers killed")
NEEDS_ONE_SERVER = ("registry killed", "registry and leader killed")
SERVERS: dict[str, Callable[[], RegistryServers]] = {
    ZOOKEEPER: lambda: ZooKeeperEnsemble(nodes=3, sync=False),
    SECURED_ZOOKEEPER: lambda: SecuredEnsemble(nodes=3, sync=False),
    REGISTRY: LocalRegistry,
}
MUTUAL = ("leader killed", "leader without zookeeper", "cluster killed")


@pytest.fixture(scope="module")
def servers_of():
    """Start the servers of a kind at their first use."""
    started: dict[str, RegistryServers] = {}

    async def get(kind: str) -> RegistryServers:
        if kind not in started:
            started[kind] = SERVERS[kind]()
            await started[kind].start()
            await started[kind].wait()
        return started[kind]

    yield get
    for servers in started.values():
        servers.close()


class Plot:
    """A cluster with a topic, a producer and a reader, and which fault comes the how manieth time."""

    def __init__(self, cluster: LinkedCluster) -> None:
        self.cluster = cluster
        self._settings = cluster.security.of_librdkafka()
        self.load = Load("load", cluster.bootstrap(), {"t": 1}, 0, pause_s=PAUSE_S, **IMPATIENT, **self._settings)
        self.reader = self.new_reader()
        self.round = 0

    def new_reader(self) -> Reader:
        """Read from the beginning."""
        return Reader(self.cluster.bootstrap(), [KEPT], **self._settings)

    async def leader(self) -> int:
        """The broker that leads, as ZooKeeper says."""
        return int((await self.cluster.state("t"))["leader"])

    def other(self, *not_these: int) -> int:
        """A broker that is none of these."""
        return next(broker for broker in BROKERS if broker not in not_these)

    async def goes_on(self) -> None:
        """Records are acknowledged."""
        wanted = self.load.count + SOME

        async def holds() -> bool:
            assert not self.load.errors, self.load.errors[:3]
            return self.load.count >= wanted

        await until(holds, f"{SOME} more acknowledgements")

    async def is_led_by_another(self, former: int) -> None:
        """Somebody else leads."""

        async def holds() -> bool:
            return await self.leader() not in (former, -1)

        await until(holds, f"broker {former} does not lead any more")

    async def read(self) -> None:
        """Read on, and see that offsets did not go back."""
        await asyncio.to_thread(self.reader.look_at_offsets)
        await asyncio.to_thread(self.reader.read_on, to_ends=True)

    async def heals(self) -> None:
        """All are in sync."""

        async def holds() -> bool:
            return sorted((await self.cluster.state("t"))["isr"]) == list(BROKERS)

        await until(holds, "all are in sync")

    async def check(self) -> None:
        """See the module's text."""
        await asyncio.to_thread(self.load.finish)
        await asyncio.to_thread(self.reader.look_at_offsets)
        await asyncio.to_thread(self.reader.read_on)
        self.reader.close()
        reader = self.new_reader()
        await asyncio.to_thread(reader.look_at_offsets)
        await asyncio.to_thread(reader.read_on)
        reader.close()
        assert reader.found == self.reader.found, "what was read has changed"
        check_kept(reader, [self.load], lambda load, where: load.acknowledged[where])
        assert self.load.implied[KEPT] <= {number for _, number in reader.found[KEPT].values()}


# -- faults: each strikes, and mends what it has done ------------------------------------------------------------------


@contextlib.asynccontextmanager
async def leader_killed(plot: Plot) -> AsyncIterator[None]:
    leader = await plot.leader()
    await plot.cluster.kill(leader)
    await plot.is_led_by_another(leader)
    yield
    await plot.cluster.start(leader)


@contextlib.asynccontextmanager
async def leader_paused(plot: Plot) -> AsyncIterator[None]:
    leader = await plot.leader()
    plot.cluster.pause(leader)
    await plot.is_led_by_another(leader)
    yield
    plot.cluster.resume(leader)


@contextlib.asynccontextmanager
async def leader_without_zookeeper(plot: Plot) -> AsyncIterator[None]:
    leader = await plot.leader()
    plot.cluster.cut_from_zookeeper(leader, silently=plot.round % 2 == 0)
    await plot.is_led_by_another(leader)
    plot.cluster.cut_from_clients(leader)  # they would stay: it does not know that another leads
    yield
    await plot.cluster.heal_clients(leader)
    await plot.cluster.heal_zookeeper(leader)


@contextlib.asynccontextmanager
async def follower_killed(plot: Plot) -> AsyncIterator[None]:
    follower = plot.other(await plot.leader())
    await plot.cluster.kill(follower)
    yield
    await plot.cluster.start(follower)


@contextlib.asynccontextmanager
async def controller_killed(plot: Plot) -> AsyncIterator[None]:
    controller = await plot.cluster.controller()
    await plot.cluster.kill(controller)

    async def is_replaced() -> bool:
        return await plot.cluster.controller() not in (controller, -1)

    await until(is_replaced, "another is the controller")
    yield
    await plot.cluster.start(controller)


@contextlib.asynccontextmanager
async def one_zookeeper_killed(plot: Plot) -> AsyncIterator[None]:
    server = plot.cluster.ensemble.servers[plot.round % 3]
    server.kill()
    yield
    server.start()
    await plot.cluster.ensemble.wait()


@contextlib.asynccontextmanager
async def two_zookeepers_killed(plot: Plot) -> AsyncIterator[None]:
    """Nothing is decided, and everybody goes on."""
    servers = [plot.cluster.ensemble.servers[(plot.round + one) % 3] for one in (0, 1)]
    for server in servers:
        server.kill()
    yield
    for server in servers:
        server.start()
    await plot.cluster.ensemble.wait()


@contextlib.asynccontextmanager
async def registry_killed(plot: Plot) -> AsyncIterator[None]:
    """Sessions survive, and nobody notices more than a lost connection."""
    (server,) = plot.cluster.ensemble.servers
    before = await plot.cluster.sessions()
    server.kill()
    yield
    server.start()
    await plot.cluster.ensemble.wait()
    assert await plot.cluster.sessions() == before


@contextlib.asynccontextmanager
async def registry_paused(plot: Plot) -> AsyncIterator[None]:
    for server in plot.cluster.ensemble.servers:
        server.pause()
    yield
    for server in plot.cluster.ensemble.servers:
        server.resume()


@contextlib.asynccontextmanager
async def registry_and_leader_killed(plot: Plot) -> AsyncIterator[None]:
    """The session of the leader survives the registry, and then expires."""
    leader = await plot.leader()
    (server,) = plot.cluster.ensemble.servers
    server.kill()
    await plot.cluster.kill(leader)
    server.start()
    await plot.cluster.ensemble.wait()
    await plot.is_led_by_another(leader)
    yield
    await plot.cluster.start(leader)


@contextlib.asynccontextmanager
async def two_brokers_killed(plot: Plot) -> AsyncIterator[None]:
    """With min.insync.replicas=1."""
    leader = await plot.leader()
    other = plot.other(leader)
    await asyncio.gather(plot.cluster.kill(leader), plot.cluster.kill(other))
    await plot.is_led_by_another(leader)
    yield
    await plot.cluster.start(leader, other)


@contextlib.asynccontextmanager
async def cluster_killed(plot: Plot) -> AsyncIterator[None]:
    await asyncio.gather(*map(plot.cluster.kill, BROKERS))
    await plot.cluster.start(*BROKERS)
    await asyncio.to_thread(plot.reader.look_at_offsets)  # committed records are never shown as absent
    yield


Fault = Callable[[Plot], contextlib.AbstractAsyncContextManager[None]]
FAULTS: dict[str, Fault] = {
    fault.__name__.replace("_", " "): fault
    for fault in (
        leader_killed,
        leader_paused,
        leader_without_zookeeper,
        follower_killed,
        controller_killed,
        one_zookeeper_killed,
        two_zookeepers_killed,
        registry_killed,
        registry_paused,
        registry_and_leader_killed,
        two_brokers_killed,
        cluster_killed,
    )
}


ON_ZOOKEEPER = [name for name in FAULTS if name not in NEEDS_ONE_SERVER]
ON_REGISTRY = [name for name in FAULTS if name not in NEEDS_ENSEMBLE]
CASES = [
    *((ZOOKEEPER, PLAINTEXT, name) for name in ON_ZOOKEEPER if name in QUICK or FULL),
    *((SECURED_ZOOKEEPER, SCRAM_OVER_TLS, name) for name in ON_ZOOKEEPER if name in QUICK_SECURED or FULL),
    *((ZOOKEEPER, MUTUAL_TLS, name) for name in MUTUAL if FULL),
    *((REGISTRY, PLAINTEXT, name) for name in ON_REGISTRY if name in QUICK_REGISTRY or FULL),
]


def rounds(security: str, kind: str = ZOOKEEPER) -> int:
    """How often a fault strikes: once with security, where only the connections differ."""
    if kind == REGISTRY:
        return count(1, 2)
    return count(1, 5) if security == PLAINTEXT else 1


async def again_and_again(plot: Plot, rounds: int, fault: Fault) -> None:
    """Strike, see that it goes on, mend, see that all are in sync again."""
    for plot.round in range(rounds):
        await plot.goes_on()
        await plot.read()
        async with fault(plot):
            await plot.goes_on()
            await plot.read()
        await plot.heals()


@pytest.mark.counted
@pytest.mark.timeout(600)
@pytest.mark.parametrize(("kind", "security", "name"), CASES)
async def test_nothing_acknowledged_is_lost(kind, name, security, tmp_path, servers_of):
    min_isr = 1 if name == "two brokers killed" else 2
    async with linked_cluster(tmp_path, await servers_of(kind), security=security, **SETTINGS) as cluster:
        await cluster.create_topic("t", {0: BROKERS}, {"min.insync.replicas": str(min_isr), "segment.bytes": "200000"})
        plot = Plot(cluster)
        try:
            await again_and_again(plot, rounds(security, kind), FAULTS[name])
            await plot.check()
        finally:
            plot.load.stop()


@pytest.mark.counted
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("kind", "security"),
    [(ZOOKEEPER, PLAINTEXT), *([(SECURED_ZOOKEEPER, SCRAM_OVER_TLS), (REGISTRY, PLAINTEXT)] if FULL else [])],
)
async def test_a_leader_in_the_minority_commits_nothing(kind, security, tmp_path, servers_of):
    """It is cut off from everybody but one client; in the end its log is that of the others."""
    async with linked_cluster(tmp_path, await servers_of(kind), security=security, **SETTINGS) as cluster:
        await cluster.create_topic("t", {0: BROKERS}, {"min.insync.replicas": "2"})
        plot = Plot(cluster)
        try:
            for plot.round in range(rounds(security, kind)):
                await plot.goes_on()
                leader = await plot.leader()
                cluster.cut_from_clients(leader)
                cluster.cut_from_brokers(leader)
                cluster.cut_from_zookeeper(leader, silently=plot.round % 2 == 1)
                await write_to_the_minority(cluster, leader)
                await plot.is_led_by_another(leader)
                await plot.goes_on()
                await plot.read()
                await cluster.heal_clients(leader)
                cluster.heal_brokers(leader)
                await cluster.heal_zookeeper(leader)
                await plot.heals()
            await plot.check()
        finally:
            plot.load.stop()
    assert {name for name, _ in plot.reader.found[KEPT].values()} == {"load"}
    logs = [(tmp_path / f"broker-{broker_id}" / "t-0" / f"{0:020}.log").read_bytes() for broker_id in BROKERS]
    assert logs[0]
    assert logs[0] == logs[1] == logs[2]


async def write_to_the_minority(cluster: LinkedCluster, leader: int) -> None:
    """Records are taken with acks=1, not with acks=all, and nobody sees one of them."""
    async with cluster.wire(leader) as client:

        async def end() -> int:
            request = ListOffsetsRequest(replica_id=-1, topics=[topic])
            return int((await client.call(request, 7)).topics[0].partitions[0].offset)

        partition = ListOffsetsPartition(partition_index=0, timestamp=-1)
        topic = ListOffsetsTopic(name="t", partitions=[partition])
        before = await end()
        taken = [await append(client, "t", batch(b"minority:%d:" % number), acks=1) for number in range(20)]
        assert [one.error_code for one in taken] == [ErrorCode.NONE] * 20
        assert taken[-1].base_offset >= before + 19
        refused = await append(client, "t", batch(b"minority:20:"), timeout_ms=5_000)
        assert refused.error_code in (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NOT_ENOUGH_REPLICAS)
        assert await end() == before
        found = (await client.call(fetch("t", before), 12)).responses[0].partitions[0]
        assert (found.high_watermark, len(found.records or b"")) == (before, 0)
