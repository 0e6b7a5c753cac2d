"""The storage of a ZooKeeper consumer group's offsets: ZooKeeper, Kafka, or both (`dual.commit.enabled`).

In ZooKeeper an offset is a persistent node (`offset_nodes`). To Kafka it is sent as an OffsetCommit to the group's
coordinator without membership (generation -1, no member), which is accepted while the group has no members of today's
protocol. With both storages, Kafka is written first, then ZooKeeper, and the greater offset is used when they are read.
This way a group moves from one to the other while its consumers run.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import TypeVar

from client.consumer.group_metadata import ConsumerGroupMetadata, OffsetAndMetadata
from client.consumer.group_offsets import commit_offsets, fetch_offsets
from client.errors import KafkaError, error_for
from client.topic_partition import TopicPartition
from client.wire.cluster import Cluster
from client.wire.connection import Connection
from client.wire.coordinator import Coordinator, CoordinatorType
from client.zookeeper.offset_nodes import OffsetNodes

T = TypeVar("T")

ZOOKEEPER = "zookeeper"
KAFKA = "kafka"
STORAGES = (ZOOKEEPER, KAFKA)


class GroupOffsets:
    """The offsets of one group. May raise SessionExpiredError, RegistryClosedError."""

    def __init__(
        self,
        nodes: OffsetNodes,
        cluster: Cluster,
        group_id: str,
        *,
        timeout_s: float,
        storage: str,
        dual_commit: bool,
    ) -> None:
        """`timeout_s`: the limit for lookups of the coordinator and retries."""
        self._nodes = nodes
        self._cluster = cluster
        self._coordinator = Coordinator(cluster, CoordinatorType.GROUP, group_id)
        self._group_id = group_id
        self._timeout_s = timeout_s
        self._in_kafka = storage == KAFKA
        self._in_zookeeper = storage == ZOOKEEPER or dual_commit

    async def fetch(self, names: Mapping[TopicPartition, str]) -> dict[TopicPartition, int]:
        """The committed offsets of these partitions with these names in ZooKeeper; partitions without one are missing.

        Raises the broker's error, ZnodeFormatError.
        """
        wanted = list(names)
        found: dict[TopicPartition, int] = {}
        if not wanted:
            return found
        if self._in_kafka:
            committed = await self._ask(lambda connection: fetch_offsets(connection, self._group_id, wanted))
            found = {partition: one.offset for partition, one in committed.items()}
        if self._in_zookeeper:
            for partition, offset in (await self._nodes.fetch(names)).items():
                found[partition] = max(offset, found.get(partition, 0))
        return found

    async def commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Commit these offsets. Raises the first error of the broker; other offsets may be committed nevertheless."""
        if self._in_kafka:
            await self._ask(lambda connection: self._commit(connection, offsets))
        if self._in_zookeeper:
            await self._nodes.commit(offsets)

    async def close(self) -> None:
        """Close the connection to the coordinator."""
        await self._coordinator.close()

    async def _ask(self, action: Callable[[Connection], Awaitable[T]]) -> T:
        """Send a request to the coordinator, and retry if the coordinator has moved or cannot be reached."""

        async def attempt() -> T:
            try:
                return await action(await self._coordinator.connection())
            except KafkaError as error:
                self._coordinator.forget_if_moved(error)
                raise

        return await self._cluster.retry(attempt, timeout_s=self._timeout_s)

    async def _commit(self, connection: Connection, offsets: Mapping[TopicPartition, int]) -> None:
        wanted = {partition: OffsetAndMetadata(offset) for partition, offset in offsets.items()}
        codes = await commit_offsets(connection, ConsumerGroupMetadata(self._group_id), wanted)
        for partition, code in codes.items():
            if code:
                raise error_for(code, context=f"group {self._group_id}, {partition}")
