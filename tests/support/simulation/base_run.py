"""The common part of both kinds of runs: a cluster, its continuous checks, and its topic."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

from client.admin.admin import Admin
from client.topic_partition import TopicPartition
from registry.znodes.topics import PartitionStateZnode
from support.simulation.cluster import SimulatedCluster
from support.simulation.faults import Faults
from support.simulation.inspection import Inspection
from support.simulation.ledger import BrokenPromiseError, Ledger
from support.simulation.reassignments import Reassignments
from support.simulation.suspicion import Suspicion

TOPIC = "t"
REPLICAS = 3
"""Of every partition."""
HEALED_WITHIN_S = 60.0


class BaseRun(ABC):
    """One run of a seed: a kind says what is done, in `go`."""

    faults: Faults
    workload: Any
    """Counts what was `acknowledged`, what `failed` and what was `consumed`, where it has that."""

    def __init__(self, cluster: SimulatedCluster, partitions: Sequence[TopicPartition], brokers: int) -> None:
        """partitions: those whose leaders, replicas and logs are looked at. brokers: at least as many as replicas."""
        self.cluster = cluster
        self.brokers = brokers
        self.partitions = partitions
        self.ledger = Ledger()
        self.suspicion = Suspicion(partitions, cluster.state, cluster.replicas)
        self.reassignments = Reassignments(cluster, partitions, REPLICAS)
        self.inspection = Inspection(cluster, self.ledger, partitions, self.suspicion.has_lost_some)

    @abstractmethod
    async def go(self) -> None:
        """Run everything. Raises the first failure."""

    async def create_topic(self, partitions: int, configs: Mapping[str, str] | None = None) -> None:
        """Create the topic."""
        _, network, rng = self.cluster.client_network()
        async with Admin(
            bootstrap_servers=self.cluster.bootstrap_servers, network=network, random=rng, retry_backoff_ms=50
        ) as admin:
            await admin.create_topic(TOPIC, partitions, REPLICAS, configs=configs)

    async def watch_states(self) -> None:
        """Check every change of a partition's state."""
        session = self.cluster.store.session()
        await session.start()
        for partition in self.partitions:
            session.watch_data(PartitionStateZnode.path(*partition), self.suspicion.look)

    async def inspect(self) -> None:
        """Check the replicas until cancelled."""
        while True:
            self.inspection.look()
            self.suspicion.look()
            await asyncio.sleep(0.2)

    def is_in_sync(self) -> bool:
        """Whether every partition has a leader and all its replicas in sync."""
        return all(self.cluster.is_in_sync(*partition) for partition in self.partitions)

    def check_hosts(self) -> None:
        """Check that no broker has ended by itself."""
        for host in self.cluster.hosts.values():
            if host.failures:
                raise BrokenPromiseError(f"{host.name} has ended by itself: {host.failures[0]!r}")
