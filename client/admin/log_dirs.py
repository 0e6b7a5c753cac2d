"""The part of the admin client for log directories: their content, and moving replicas between them (KIP-113).

Each broker answers for its own directories. It answers when a move has begun; until the move ends, `describe_log_dirs`
lists the replica twice, once as a future replica.
"""

from collections.abc import Iterable, Mapping
from functools import partial

from client.admin.base import AdminBase
from client.admin.types import LogDirDescription, Replica, ReplicaSize
from client.errors import KafkaError, error_for
from client.topic_partition import TopicPartition
from protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopic,
)
from protocol.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest, DescribeLogDirsResponse


class LogDirAdmin(AdminBase):
    """AlterReplicaLogDirs and DescribeLogDirs."""

    async def alter_replica_log_dirs(self, targets: Mapping[Replica, str]) -> dict[Replica, KafkaError | None]:
        """Start to move replicas to other log directories of their brokers, given by absolute path.

        The current directory of a replica cancels its move. Return for each replica None or its error:
        LogDirNotFoundError, KafkaStorageError, ReplicaNotAvailableError (the replica does not exist yet; if it is
        created, it is created in that directory), UnknownTopicOrPartitionError, or the error that prevented the request
        to its broker.
        """
        by_broker: dict[int, dict[Replica, str]] = {}
        for replica, path in targets.items():
            by_broker.setdefault(replica.broker_id, {})[replica] = path
        outcomes: dict[Replica, KafkaError | None] = {}
        for broker_id, of_broker in by_broker.items():
            ask = partial(self._alter_replica_log_dirs_of, broker_id, of_broker)
            try:
                outcomes |= await self._cluster.retry(ask, timeout_s=self._timeout_s)
            except KafkaError as error:
                outcomes |= dict.fromkeys(of_broker, error)
        return {replica: outcomes[replica] for replica in targets}

    async def _alter_replica_log_dirs_of(
        self, broker_id: int, targets: Mapping[Replica, str]
    ) -> dict[Replica, KafkaError | None]:
        dirs: dict[str, AlterReplicaLogDir] = {}
        for (name, number, _), path in targets.items():
            topics = dirs.setdefault(path, AlterReplicaLogDir(path=path)).topics
            if not topics or topics[-1].name != name:
                topics.append(AlterReplicaLogDirTopic(name=name))
            topics[-1].partitions.append(number)
        connection = await self._cluster.connection(broker_id)
        request = AlterReplicaLogDirsRequest(dirs=list(dirs.values()))
        response = await connection.call(request, AlterReplicaLogDirsResponse)
        found: dict[Replica, KafkaError | None] = {}
        for topic in response.results:
            for one in topic.partitions:
                replica = Replica(topic.topic_name, one.partition_index, broker_id)
                found[replica] = error_for(one.error_code, context=str(replica)) if one.error_code else None
        return found

    async def describe_log_dirs(
        self, brokers: Iterable[int] | None = None, partitions: Iterable[TopicPartition] | None = None
    ) -> list[LogDirDescription]:
        """The log directories of these brokers, or of all brokers, with the sizes of the replicas in them: of all, or
        of these partitions.
        """
        wanted = None if brokers is None else list(brokers)
        await self._need_brokers(wanted)
        topics = None if partitions is None else _by_topic(partitions)
        found = []
        for broker_id in sorted(self._cluster.metadata.brokers) if wanted is None else wanted:
            connection = await self._cluster.connection(broker_id)
            response = await connection.call(DescribeLogDirsRequest(topics=topics), DescribeLogDirsResponse)
            if response.error_code:
                raise error_for(response.error_code, context=f"log directories of broker {broker_id}")
            for result in response.results:
                replicas = tuple(
                    ReplicaSize(
                        topic.name,
                        partition.partition_index,
                        partition.partition_size,
                        partition.offset_lag,
                        partition.is_future_key,
                    )
                    for topic in result.topics
                    for partition in topic.partitions
                )
                found.append(
                    LogDirDescription(
                        broker_id,
                        result.log_dir,
                        result.error_code,
                        replicas,
                        result.total_bytes,
                        result.usable_bytes,
                    )
                )
        return found


def _by_topic(partitions: Iterable[TopicPartition]) -> list[DescribableLogDirTopic]:
    topics: dict[str, DescribableLogDirTopic] = {}
    for name, number in partitions:
        topics.setdefault(name, DescribableLogDirTopic(topic=name)).partitions.append(number)
    return list(topics.values())
