"""A whole cluster in one process and in virtual time: brokers on hosts of their own, a registry, clients."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from pathlib import Path

from broker.broker import Broker
from registry.embedded.store import EmbeddedStore
from registry.errors import NoNodeError
from registry.znodes.controller import ControllerZnode
from registry.znodes.topics import PartitionStateZnode, TopicZnode
from support.simulation.broker_host import START_MS, BrokerHost
from support.simulation.network import ProcessNetwork, SimulatedNetwork
from support.simulation.process import SimulatedProcess
from support.simulation.trace import Trace

SESSION_TIMEOUT_S = 4.0

SETTINGS = {
    "zookeeper.session.timeout.ms": str(int(SESSION_TIMEOUT_S * 1000)),
    "replica.lag.time.max.ms": "3000",
    "replica.fetch.wait.max.ms": "500",
    "replica.high.watermark.checkpoint.interval.ms": "1000",
    "controller.socket.timeout.ms": "3000",
    "replica.socket.timeout.ms": "3000",
    "controlled.shutdown.retry.backoff.ms": "500",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "auto.create.topics.enable": "false",
    "unclean.leader.election.enable": "false",
}
"""Quicker than by default, so that a short run sees everything."""


class NotInTimeError(AssertionError):
    """An expected condition did not become true."""


class SimulatedCluster:
    """`start` makes it; `hosts` by broker id."""

    def __init__(
        self,
        seed: object,
        directory: Path,
        trace: Trace,
        settings: dict[str, str] | None = None,
        *,
        log_dirs: int = 1,
    ) -> None:
        """log_dirs: how many log directories each broker has."""
        self.random = random.Random(repr(seed))
        self.trace = trace
        self.network = SimulatedNetwork(self._fork(), trace)
        self.hosts: dict[int, BrokerHost] = {}
        self.store: EmbeddedStore
        self._directory = directory
        self._settings = SETTINGS | (settings or {})
        self._log_dirs = log_dirs
        self._clients = 0

    def _fork(self) -> random.Random:
        return random.Random(self.random.getrandbits(64))

    async def start(self, brokers: int) -> None:
        """Start a number of brokers, and wait until all are ready."""
        self.store = await EmbeddedStore.open(None, now_ms=self.now_ms, run_blocking=self._commit)
        for broker_id in range(1, brokers + 1):
            host = BrokerHost(
                broker_id,
                self._directory / f"broker-{broker_id}",
                network=self.network,
                store=self.store,
                settings=self._settings,
                rng=self._fork(),
                trace=self.trace,
                log_dirs=self._log_dirs,
            )
            self.hosts[broker_id] = host
            host.start()
        await self.until(lambda: all(knows_everybody(host, brokers) for host in self.hosts.values()), "a cluster")

    async def _commit(self, work: Callable[[], object]) -> object:  # never called: the store keeps nothing on disk
        return work()

    @staticmethod
    def now_ms() -> int:
        """The clock of everything except brokers."""
        return START_MS + int(asyncio.get_running_loop().time() * 1000)

    @property
    def bootstrap_servers(self) -> str:
        """For clients."""
        return ",".join(host.address for host in self.hosts.values())

    def client_network(self) -> tuple[SimulatedProcess, ProcessNetwork, random.Random]:
        """A machine for one client: its process, its network, its random numbers."""
        self._clients += 1
        process = SimulatedProcess(f"client-{self._clients}")
        return process, self.network.of(process), self._fork()

    # -- what there is -------------------------------------------------------------------------------------------------

    def brokers(self) -> list[Broker]:
        """The brokers whose processes run or are paused."""
        return [host.broker for host in self.hosts.values() if host.broker is not None]

    def controller_id(self) -> int | None:
        """The broker that is registered as the controller."""
        node = self.store.tree.get(ControllerZnode.path())
        return None if node is None else ControllerZnode.decode(node.data, ControllerZnode.path()).broker

    def replicas(self, topic: str, partition: int) -> list[int]:
        """The replicas of a partition by the registry; during a reassignment, those of before and of after."""
        path = TopicZnode.path(topic)
        node = self.store.tree.get(path)
        return [] if node is None else TopicZnode.decode(node.data, path).partitions.get(partition, [])

    def is_in_sync(self, topic: str, partition: int) -> bool:
        """Whether a partition has a leader and all its replicas are in sync, those of a reassignment included."""
        state = self.state(topic, partition)
        return state is not None and state.leader >= 0 and set(state.isr) == set(self.replicas(topic, partition))

    def is_moving(self, topic: str, partition: int) -> bool:
        """Whether a reassignment of the partition is in progress."""
        path = TopicZnode.path(topic)
        node = self.store.tree.get(path)
        if node is None:
            return False
        assignment = TopicZnode.decode(node.data, path)
        return partition in assignment.adding_replicas or partition in assignment.removing_replicas

    def state(self, topic: str, partition: int) -> PartitionStateZnode | None:
        """The state of a partition in the registry."""
        path = PartitionStateZnode.path(topic, partition)
        try:
            return PartitionStateZnode.decode(self.store.tree.node(path).data, path)
        except NoNodeError:
            return None

    def is_registered(self, broker_id: int) -> bool:
        """Whether the broker is registered."""
        return self.store.tree.get(f"/brokers/ids/{broker_id}") is not None

    async def until(self, condition: Callable[[], object], what: str, timeout_s: float = 60.0) -> None:
        """Poll until something holds. Raises NotInTimeError (of virtual time)."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_s
        while not condition():
            if loop.time() > deadline:
                raise NotInTimeError(f"not in {timeout_s:.0f} s: {what}")
            await asyncio.sleep(0.05)

    def links_between(self, some: Sequence[str], others: Sequence[str]) -> list[tuple[str, str]]:
        """The links from some hosts to others."""
        return [(one, other) for one in some for other in others if one != other]


def knows_everybody(host: BrokerHost, brokers: int) -> bool:
    """Whether a broker's metadata have so many brokers, and a controller."""
    broker = host.broker
    return (
        broker is not None
        and len(broker.metadata.snapshot.brokers) == brokers
        and broker.metadata.snapshot.controller_id >= 0
    )
