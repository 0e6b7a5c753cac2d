"""Reassignments in the middle of a run: partitions move to other brokers while everything else goes wrong."""

from __future__ import annotations

import random
from collections.abc import Sequence

from client.admin.admin import Admin
from client.errors import KafkaError
from client.topic_partition import TopicPartition
from support.simulation.cluster import SimulatedCluster


class Reassignments:
    """Moves partitions at random. Only their target is chosen here: whether it is reached is the brokers' matter."""

    def __init__(self, cluster: SimulatedCluster, partitions: Sequence[TopicPartition], replicas: int) -> None:
        """replicas: of each partition."""
        self._cluster = cluster
        self._partitions = partitions
        self._replicas = replicas
        self._random = random.Random(cluster.random.getrandbits(64))

    async def start(self) -> None:
        """Ask for other replicas of a partition, or for the end of a move."""
        partition = self._random.choice(self._partitions)
        target = self._random.sample(sorted(self._cluster.hosts), self._replicas)
        is_cancel = self._random.random() < 0.2
        _, network, rng = self._cluster.client_network()
        try:
            async with Admin(
                bootstrap_servers=self._cluster.bootstrap_servers,
                network=network,
                random=rng,
                retry_backoff_ms=50,
                request_timeout_ms=2_000,
                default_api_timeout_ms=4_000,
            ) as admin:
                answers = await admin.alter_partition_reassignments({partition: None if is_cancel else target})
            answer: KafkaError | None = answers[partition]
        except KafkaError as error:
            answer = error
        outcome = "accepted" if answer is None else type(answer).__name__
        self._cluster.trace.tell("reassign", partition, "back" if is_cancel else target, outcome)
