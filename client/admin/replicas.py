"""The part of the admin client for leader elections (KIP-460) and reassignments (KIP-455).

All requests go to the controller. It answers when a reassignment has begun; `list_partition_reassignments` shows
whether it is complete.
"""

from collections.abc import Iterable, Mapping, Sequence

from client.admin.base import AdminBase
from client.admin.types import ElectionType, Reassignment
from client.errors import KafkaError, UnsupportedApiError, error_for
from client.topic_partition import TopicPartition
from protocol.error_codes import ErrorCode
from protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from protocol.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse, TopicPartitions
from protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    ListPartitionReassignmentsTopics,
)

_FIRST_VERSION_WITH_TYPES = 1


class ReplicaAdmin(AdminBase):
    """ElectLeaders, AlterPartitionReassignments and ListPartitionReassignments."""

    async def elect_leaders(
        self,
        partitions: Iterable[TopicPartition] | None = None,
        election: ElectionType = ElectionType.PREFERRED,
    ) -> dict[TopicPartition, KafkaError | None]:
        """Elect leaders for these partitions, or for all. Return for each None if a leader was elected, or the error.

        With None, the result omits partitions that need no election; for named partitions it contains
        ElectionNotNeededError. Raises UnsupportedApiError for an unclean election if the controller is older than 2.4,
        ClusterAuthorizationFailedError, …
        """
        wanted = None if partitions is None else _by_topic(partitions)

        async def ask() -> dict[TopicPartition, KafkaError | None]:
            connection = await self._cluster.controller()
            version = connection.common_version(ElectLeadersRequest)
            request = ElectLeadersRequest(
                topic_partitions=None
                if wanted is None
                else [TopicPartitions(topic=topic, partitions=numbers) for topic, numbers in wanted.items()],
                timeout_ms=self._request_timeout_ms,
            )
            if version >= _FIRST_VERSION_WITH_TYPES:
                request.election_type = int(election)
            elif election is not ElectionType.PREFERRED:
                raise UnsupportedApiError(f"the controller is too old for {election.name.lower()} elections")
            response = await connection.call(request, ElectLeadersResponse, version)
            if response.error_code:
                raise error_for(response.error_code, context="election")
            found: dict[TopicPartition, KafkaError | None] = {}
            for topic in response.replica_election_results:
                for one in topic.partition_result:
                    partition = TopicPartition(topic.topic, one.partition_id)
                    found[partition] = _error(one.error_code, one.error_message, partition)
            return found

        return await self._cluster.retry(ask, timeout_s=self._timeout_s)

    async def alter_partition_reassignments(
        self, targets: Mapping[TopicPartition, Sequence[int] | None]
    ) -> dict[TopicPartition, KafkaError | None]:
        """Start to move partitions to other replicas, preferred leader first; None cancels a reassignment.

        Return for each partition None or its error: InvalidReplicaAssignmentError, NoReassignmentInProgressError,
        UnknownTopicOrPartitionError, …
        """
        topics: dict[str, ReassignableTopic] = {}
        for (name, number), replicas in targets.items():
            topics.setdefault(name, ReassignableTopic(name=name)).partitions.append(
                ReassignablePartition(partition_index=number, replicas=None if replicas is None else list(replicas))
            )
        request = AlterPartitionReassignmentsRequest(timeout_ms=self._request_timeout_ms, topics=list(topics.values()))

        async def ask() -> dict[TopicPartition, KafkaError | None]:
            connection = await self._cluster.controller()
            response = await connection.call(request, AlterPartitionReassignmentsResponse)
            if response.error_code:
                raise error_for(response.error_code, response.error_message, context="reassignment")
            found: dict[TopicPartition, KafkaError | None] = {}
            for topic in response.responses:
                for one in topic.partitions:
                    partition = TopicPartition(topic.name, one.partition_index)
                    found[partition] = _error(one.error_code, one.error_message, partition)
            return found

        return await self._cluster.retry(ask, timeout_s=self._timeout_s)

    async def list_partition_reassignments(
        self, partitions: Iterable[TopicPartition] | None = None
    ) -> dict[TopicPartition, Reassignment]:
        """The reassignments in progress of these partitions, or of all. Sorted."""
        wanted = None if partitions is None else _by_topic(partitions)
        request = ListPartitionReassignmentsRequest(
            timeout_ms=self._request_timeout_ms,
            topics=None
            if wanted is None
            else [
                ListPartitionReassignmentsTopics(name=topic, partition_indexes=numbers)
                for topic, numbers in wanted.items()
            ],
        )

        async def ask() -> dict[TopicPartition, Reassignment]:
            connection = await self._cluster.controller()
            response = await connection.call(request, ListPartitionReassignmentsResponse)
            if response.error_code:
                raise error_for(response.error_code, response.error_message, context="reassignments")
            return {
                TopicPartition(topic.name, one.partition_index): Reassignment(
                    tuple(one.replicas), tuple(one.adding_replicas), tuple(one.removing_replicas)
                )
                for topic in sorted(response.topics, key=lambda topic: topic.name)
                for one in sorted(topic.partitions, key=lambda one: one.partition_index)
            }

        return await self._cluster.retry(ask, timeout_s=self._timeout_s)


def _by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    topics: dict[str, list[int]] = {}
    for topic, number in partitions:
        topics.setdefault(topic, []).append(number)
    return topics


def _error(code: int, message: str | None, partition: TopicPartition) -> KafkaError | None:
    """The error of one partition, or None. Raises it if the broker is no longer the controller."""
    if not code:
        return None
    error = error_for(code, message, context=str(partition))
    if code == ErrorCode.NOT_CONTROLLER:
        raise error
    return error
