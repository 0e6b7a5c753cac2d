"""The admin client: topics, partitions, records and the cluster.

Other modules contain its other parts: ACLs in `acls`, API versions in `api_versions`, settings in `configs`, features
in `features`, groups in `groups`, log directories in `log_dirs`, quotas in `quotas`, batches of partitions in
`records`, elections and reassignments in `replicas`, delegation tokens in `tokens`, transactions in `transactions`,
SCRAM users in `users`.

    async with Admin(bootstrap_servers="127.0.0.1:9092") as admin:
        await admin.create_topic("orders", partitions=8)

A method for one object raises the broker's error. A method for many objects (`create_topics`, `delete_groups`) returns
the result or the error of each, as some may succeed and others fail.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Self, Unpack

from client.admin.acls import AclAdmin
from client.admin.api_versions import ApiVersionAdmin
from client.admin.configs import ConfigAdmin
from client.admin.features import FeatureAdmin
from client.admin.groups import GroupAdmin
from client.admin.log_dirs import LogDirAdmin
from client.admin.options import AdminKeywords, AdminOptions
from client.admin.quotas import QuotaAdmin
from client.admin.records import RecordAdmin
from client.admin.replicas import ReplicaAdmin
from client.admin.tokens import TokenAdmin
from client.admin.transactions import TransactionAdmin
from client.admin.types import (
    USE_BROKER_DEFAULT,
    ClusterDescription,
    CreatedTopic,
    NewTopic,
)
from client.admin.users import UserAdmin
from client.consumer.offsets import OffsetAndTimestamp, list_offsets
from client.errors import KafkaError, error_for
from client.options import refuse_unknown, shows
from client.topic_partition import TopicPartition
from client.wire.metadata import Metadata, TopicMetadata
from protocol.error_codes import ErrorCode
from protocol.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState


class Admin(
    AclAdmin,
    ApiVersionAdmin,
    ConfigAdmin,
    FeatureAdmin,
    GroupAdmin,
    LogDirAdmin,
    QuotaAdmin,
    RecordAdmin,
    ReplicaAdmin,
    TokenAdmin,
    TransactionAdmin,
    UserAdmin,
):
    """An asyncio admin client; an asynchronous context manager. Times are in ms.

    `request_timeout_ms` bounds one request, `default_api_timeout_ms` a call with its retries (leader and
    controller changes, lost connections). The other options are as in `Producer`. Raises InvalidOptionError for a value
    that breaks a rule.
    """

    @shows(AdminOptions)
    def __init__(self, **keywords: Unpack[AdminKeywords]) -> None:
        refuse_unknown(keywords, Admin)
        super().__init__(AdminOptions(**keywords))

    # ---- start and close

    async def start(self) -> None:
        """Connect to the cluster. Raises NoBrokersAvailableError. Not needed inside `async with`."""
        await self._cluster.start()

    async def __aenter__(self) -> Self:
        try:
            await self.start()
        except BaseException:
            await self._cluster.close()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections."""
        await self._cluster.close()

    # ---- topics

    async def list_topics(self, *, include_internal: bool = False) -> list[str]:
        """The names of the cluster's topics, sorted."""
        topics = await self.describe_topics()
        return [name for name, topic in topics.items() if include_internal or not topic.is_internal]

    async def describe_topics(self, names: Iterable[str] | None = None) -> dict[str, TopicMetadata]:
        """Partitions, leaders and replicas of these topics, or of all topics; sorted by name.

        Raises UnknownTopicOrPartitionError for a topic that does not exist.
        """

        async def ask() -> dict[str, TopicMetadata]:
            response = await self._cluster.refresh(None if names is None else list(names), allow_auto_create=False)
            for topic in response.topics:
                if topic.error_code and names is not None:
                    raise error_for(topic.error_code, context=f"topic {topic.name}")
            answered = self._cluster.metadata.topics if names is None else Metadata().updated(response).topics
            return {name: answered[name] for name in sorted(answered)}

        return await self._cluster.retry(ask, timeout_s=self._timeout_s)

    async def create_topic(
        self,
        name: str,
        partitions: int = USE_BROKER_DEFAULT,
        replication_factor: int = USE_BROKER_DEFAULT,
        *,
        assignment: Mapping[int, Sequence[int]] | None = None,
        configs: Mapping[str, str | None] | None = None,
        validate_only: bool = False,
    ) -> CreatedTopic:
        """Create one topic; see NewTopic. Raises TopicExistsError, InvalidPartitionsError, …"""
        topic = NewTopic(name, partitions, replication_factor, assignment, configs or {})
        result = (await self.create_topics([topic], validate_only=validate_only))[name]
        if isinstance(result, KafkaError):
            raise result
        return result

    async def create_topics(
        self, topics: Iterable[NewTopic], *, validate_only: bool = False
    ) -> dict[str, CreatedTopic | KafkaError]:
        """Create topics; with `validate_only`, only check the request and return the expected result."""
        request = CreateTopicsRequest(
            topics=[
                CreatableTopic(
                    name=topic.name,
                    num_partitions=USE_BROKER_DEFAULT if topic.assignment else topic.partitions,
                    replication_factor=USE_BROKER_DEFAULT if topic.assignment else topic.replication_factor,
                    assignments=[
                        CreatableReplicaAssignment(partition_index=partition, broker_ids=list(replicas))
                        for partition, replicas in (topic.assignment or {}).items()
                    ],
                    configs=[CreatableTopicConfig(name=key, value=value) for key, value in topic.configs.items()],
                )
                for topic in topics
            ],
            timeout_ms=self._request_timeout_ms,
            validate_only=validate_only,
        )

        async def ask() -> dict[str, CreatedTopic | KafkaError]:
            connection = await self._cluster.controller()
            response = await connection.call(request, CreateTopicsResponse)
            _raise_not_controller(topic.error_code for topic in response.topics)
            return {
                topic.name: error_for(topic.error_code, topic.error_message, context=f"topic {topic.name}")
                if topic.error_code
                else CreatedTopic(topic.name, topic.topic_id, topic.num_partitions, topic.replication_factor)
                for topic in response.topics
            }

        return await self._cluster.retry(ask, timeout_s=self._timeout_s)

    async def delete_topic(self, name: str) -> None:
        """Delete one topic. Raises UnknownTopicOrPartitionError, TopicDeletionDisabledError."""
        error = (await self.delete_topics([name]))[name]
        if error is not None:
            raise error

    async def delete_topics(self, names: Iterable[str]) -> dict[str, KafkaError | None]:
        """Delete topics. Return None or the error for each name."""
        wanted = list(names)

        async def ask() -> dict[str, KafkaError | None]:
            connection = await self._cluster.controller()
            version = connection.common_version(DeleteTopicsRequest)
            request = DeleteTopicsRequest(timeout_ms=self._request_timeout_ms)
            if version >= 6:
                request.topics = [DeleteTopicState(name=name) for name in wanted]
            else:
                request.topic_names = wanted
            response = await connection.call(request, DeleteTopicsResponse, version)
            _raise_not_controller(topic.error_code for topic in response.responses)
            return {
                topic.name or "": error_for(topic.error_code, topic.error_message, context=f"topic {topic.name}")
                if topic.error_code
                else None
                for topic in response.responses
            }

        return await self._cluster.retry(ask, timeout_s=self._timeout_s)

    async def create_partitions(
        self,
        topic: str,
        total: int,
        *,
        assignment: Sequence[Sequence[int]] | None = None,
        validate_only: bool = False,
    ) -> None:
        """Increase a topic's partitions to `total`; `assignment` contains the replicas of the new partitions.

        Raises InvalidPartitionsError, InvalidReplicaAssignmentError, UnknownTopicOrPartitionError.
        """
        assignments = (
            None
            if assignment is None
            else [CreatePartitionsAssignment(broker_ids=list(replicas)) for replicas in assignment]
        )
        request = CreatePartitionsRequest(
            topics=[CreatePartitionsTopic(name=topic, count=total, assignments=assignments)],
            timeout_ms=self._request_timeout_ms,
            validate_only=validate_only,
        )

        async def ask() -> None:
            connection = await self._cluster.controller()
            response = await connection.call(request, CreatePartitionsResponse)
            for result in response.results:
                if result.error_code:
                    raise error_for(result.error_code, result.error_message, context=f"topic {topic}")

        await self._cluster.retry(ask, timeout_s=self._timeout_s)

    # ---- partitions

    async def delete_records(self, before: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Delete every record before an offset (-1: the high watermark). Return the new log start offsets.

        Raises OffsetOutOfRangeError for an offset past the high watermark.
        """
        done: dict[TopicPartition, int] = {}

        async def ask() -> None:
            todo = {partition: offset for partition, offset in before.items() if partition not in done}
            for leader, partitions in (await self._by_leader(todo)).items():
                connection = await self._cluster.connection(leader)
                topics: dict[str, list[DeleteRecordsPartition]] = {}
                for partition in partitions:
                    entry = DeleteRecordsPartition(partition_index=partition.partition, offset=before[partition])
                    topics.setdefault(partition.topic, []).append(entry)
                request = DeleteRecordsRequest(
                    topics=[DeleteRecordsTopic(name=name, partitions=entries) for name, entries in topics.items()],
                    timeout_ms=self._request_timeout_ms,
                )
                response = await connection.call(request, DeleteRecordsResponse)
                for topic in response.topics:
                    for result in topic.partitions:
                        name = TopicPartition(topic.name, result.partition_index)
                        if result.error_code:
                            raise error_for(result.error_code, context=str(name))
                        done[name] = result.low_watermark

        await self._cluster.retry(ask, timeout_s=self._timeout_s)
        return done

    async def list_offsets(
        self, wanted: Mapping[TopicPartition, int], *, read_committed: bool = False
    ) -> dict[TopicPartition, OffsetAndTimestamp]:
        """Offsets by timestamp: LATEST, EARLIEST, MAX_TIMESTAMP (`client.consumer.offsets`) or ms since the epoch."""
        return await list_offsets(self._cluster, wanted, read_committed=read_committed, timeout_s=self._timeout_s)

    # ---- cluster

    async def describe_cluster(self) -> ClusterDescription:
        """The brokers, the controller and the cluster id."""
        await self._cluster.retry(lambda: self._cluster.refresh([]), timeout_s=self._timeout_s)
        metadata = self._cluster.metadata
        brokers = tuple(metadata.brokers[node_id] for node_id in sorted(metadata.brokers))
        return ClusterDescription(metadata.cluster_id, metadata.controller_id, brokers)


def _raise_not_controller(codes: Iterable[int]) -> None:
    if ErrorCode.NOT_CONTROLLER in codes:
        raise error_for(ErrorCode.NOT_CONTROLLER)
