"""The part of the admin client for groups: their names, members and committed offsets.

Requests about a group go to its coordinator. A group of the new protocol (KIP-848) answers only ConsumerGroupDescribe,
a classic group only DescribeGroups. The type is known only from the answer, so the newer request is sent first if the
broker supports it.
"""

from collections.abc import Collection, Iterable, Mapping

from client.admin.base import AdminBase
from client.admin.types import GroupDescription, GroupListing, GroupMember
from client.consumer.group_metadata import ConsumerGroupMetadata, OffsetAndMetadata
from client.consumer.group_offsets import commit_offsets, fetch_offsets, fetch_offsets_of_groups
from client.consumer.subscription import assigned_partitions
from client.errors import KafkaError, UnsupportedApiError, error_for
from client.topic_partition import TopicPartition
from client.wire.connection import Connection
from client.wire.coordinator import CoordinatorType
from protocol.api_keys import ApiKey
from protocol.error_codes import ErrorCode
from protocol.messages.consumer_group_describe import (
    Assignment,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from protocol.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)

CLASSIC = "classic"
CONSUMER = "consumer"
_DEAD = "Dead"
_FIRST_LIST_VERSION_WITH_STATES = 4
_FIRST_LIST_VERSION_WITH_TYPES = 5
_NOT_OF_THIS_PROTOCOL = (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION)


class GroupAdmin(AdminBase):
    """ListGroups, DescribeGroups, ConsumerGroupDescribe, DeleteGroups; OffsetFetch, OffsetCommit and OffsetDelete
    without membership of the group.
    """

    async def list_groups(self, *, states: Collection[str] = (), types: Collection[str] = ()) -> list[GroupListing]:
        """The groups of all brokers, sorted; with filters, those with one of these states and one of these types.

        Raises UnsupportedApiError if a broker is too old for a filter (states: 2.6, types: 3.8).
        """
        request = ListGroupsRequest(states_filter=list(states), types_filter=list(types))

        async def ask(node_id: int, connection: Connection) -> list[GroupListing]:
            version = connection.common_version(ListGroupsRequest)
            if states and version < _FIRST_LIST_VERSION_WITH_STATES:
                raise UnsupportedApiError(f"broker {node_id} is too old to report the states of groups")
            if types and version < _FIRST_LIST_VERSION_WITH_TYPES:
                raise UnsupportedApiError(f"broker {node_id} is too old to report the types of groups")
            return await _list_groups(node_id, connection, request)

        found = {listing.group_id: listing for part in await self._ask_brokers(ask) for listing in part}
        return [found[group_id] for group_id in sorted(found)]

    async def list_groups_of(self, broker_id: int) -> list[GroupListing]:
        """The groups whose coordinator is this broker, sorted. Raises the error of this broker."""

        async def ask() -> list[GroupListing]:
            connection = await self._cluster.connection(broker_id)
            return sorted(await _list_groups(broker_id, connection, ListGroupsRequest()))

        return await self._cluster.retry(ask, timeout_s=self._timeout_s)

    async def describe_group(self, group_id: str) -> GroupDescription:
        """Describe one group. Raises GroupIdNotFoundError, InvalidGroupIdError, …"""
        result = (await self.describe_groups([group_id]))[group_id]
        if isinstance(result, KafkaError):
            raise result
        return result

    async def describe_groups(self, group_ids: Iterable[str]) -> dict[str, GroupDescription | KafkaError]:
        """Describe groups with their members. A group that does not exist gives GroupIdNotFoundError, even if its
        coordinator answers the state "Dead".
        """

        async def ask(
            node_id: int, connection: Connection, wanted: list[str]
        ) -> dict[str, GroupDescription | KafkaError]:
            found = {}
            if ApiKey.CONSUMER_GROUP_DESCRIBE in connection.api_versions:
                found = await _describe_new(node_id, connection, wanted)
            rest = [group_id for group_id in wanted if group_id not in found]
            return found | (await _describe_classic(node_id, connection, rest) if rest else {})

        return await self._ask_coordinators(CoordinatorType.GROUP, group_ids, ask)

    async def delete_groups(self, group_ids: Iterable[str]) -> dict[str, KafkaError | None]:
        """Delete empty groups and their offsets. Return None or the error of each (GroupNotEmptyError, …)."""

        async def ask(node_id: int, connection: Connection, wanted: list[str]) -> dict[str, KafkaError | None]:
            response = await connection.call(DeleteGroupsRequest(groups_names=wanted), DeleteGroupsResponse)
            return {
                one.group_id: error_for(one.error_code, context=f"group {one.group_id}") if one.error_code else None
                for one in response.results
            }

        return await self._ask_coordinators(CoordinatorType.GROUP, group_ids, ask)

    # ---- offsets

    async def list_group_offsets(self, group_id: str) -> dict[TopicPartition, OffsetAndMetadata]:
        """All committed offsets of a group, sorted; empty for a group that does not exist."""

        async def ask(connection: Connection) -> dict[TopicPartition, OffsetAndMetadata]:
            return await fetch_offsets(connection, group_id)

        found = await self._ask_coordinator(CoordinatorType.GROUP, group_id, ask)
        return {partition: found[partition] for partition in sorted(found)}

    async def list_offsets_of_groups(
        self, group_ids: Iterable[str]
    ) -> dict[str, dict[TopicPartition, OffsetAndMetadata] | KafkaError]:
        """All committed offsets, or the error, of each group: one request to a coordinator of Kafka 3.0 or later."""

        async def ask(
            node_id: int, connection: Connection, wanted: list[str]
        ) -> dict[str, dict[TopicPartition, OffsetAndMetadata] | KafkaError]:
            return await fetch_offsets_of_groups(connection, wanted)

        return await self._ask_coordinators(CoordinatorType.GROUP, group_ids, ask)

    async def alter_group_offsets(
        self, group_id: str, offsets: Mapping[TopicPartition, OffsetAndMetadata]
    ) -> dict[TopicPartition, KafkaError | None]:
        """Commit offsets for a group, which is created if necessary. Return None or the error for each partition.

        UnknownMemberIdError means that the group has members: then only they may commit.
        """

        async def ask(connection: Connection) -> dict[TopicPartition, KafkaError | None]:
            return _outcomes(group_id, await commit_offsets(connection, ConsumerGroupMetadata(group_id), offsets))

        return await self._ask_coordinator(CoordinatorType.GROUP, group_id, ask) if offsets else {}

    async def delete_group_offsets(
        self, group_id: str, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, KafkaError | None]:
        """Delete a group's committed offsets of these partitions. Return None or the error of each
        (GroupSubscribedToTopicError, …).

        Raises GroupIdNotFoundError; GroupNotEmptyError if the group has members and is not a group of consumers.
        """
        topics: dict[str, OffsetDeleteRequestTopic] = {}
        for topic, number in partitions:
            entry = OffsetDeleteRequestPartition(partition_index=number)
            topics.setdefault(topic, OffsetDeleteRequestTopic(name=topic)).partitions.append(entry)
        request = OffsetDeleteRequest(group_id=group_id, topics=list(topics.values()))

        async def ask(connection: Connection) -> dict[TopicPartition, KafkaError | None]:
            response = await connection.call(request, OffsetDeleteResponse)
            if response.error_code:
                raise error_for(response.error_code, context=f"group {group_id}")
            codes = {
                TopicPartition(topic.name, one.partition_index): one.error_code
                for topic in response.topics
                for one in topic.partitions
            }
            return _outcomes(group_id, codes)

        return await self._ask_coordinator(CoordinatorType.GROUP, group_id, ask) if topics else {}


async def _list_groups(node_id: int, connection: Connection, request: ListGroupsRequest) -> list[GroupListing]:
    response = await connection.call(request, ListGroupsResponse)
    if response.error_code:
        raise error_for(response.error_code, context=f"groups of broker {node_id}")
    return [
        GroupListing(one.group_id, one.protocol_type, one.group_state, one.group_type, node_id)
        for one in response.groups
    ]


def _outcomes(group_id: str, codes: Mapping[TopicPartition, int]) -> dict[TopicPartition, KafkaError | None]:
    """None or the error for each partition. Raises a retriable error, so that the whole request is repeated: these
    requests are idempotent.
    """
    outcomes: dict[TopicPartition, KafkaError | None] = {}
    for partition, code in codes.items():
        error = error_for(code, context=f"group {group_id}, {partition}") if code else None
        if error is not None and error.retriable and error.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise error
        outcomes[partition] = error
    return outcomes


async def _describe_classic(
    node_id: int, connection: Connection, wanted: list[str]
) -> dict[str, GroupDescription | KafkaError]:
    response = await connection.call(DescribeGroupsRequest(groups=wanted), DescribeGroupsResponse)
    found: dict[str, GroupDescription | KafkaError] = {}
    for group in response.groups:
        code = group.error_code
        if not code and group.group_state == _DEAD:
            code = ErrorCode.GROUP_ID_NOT_FOUND
        if code:
            found[group.group_id] = error_for(code, context=f"group {group.group_id}")
            continue
        found[group.group_id] = GroupDescription(
            group.group_id,
            group.group_state,
            CLASSIC,
            group.protocol_type,
            group.protocol_data,
            tuple(
                GroupMember(
                    member.member_id,
                    member.group_instance_id,
                    member.client_id,
                    member.client_host,
                    assigned_partitions(member.member_assignment) if group.protocol_type == CONSUMER else None,
                )
                for member in group.members
            ),
            node_id,
        )
    return found


async def _describe_new(
    node_id: int, connection: Connection, wanted: list[str]
) -> dict[str, GroupDescription | KafkaError]:
    """Describe those of these groups that use the new protocol."""
    response = await connection.call(ConsumerGroupDescribeRequest(group_ids=wanted), ConsumerGroupDescribeResponse)
    found: dict[str, GroupDescription | KafkaError] = {}
    for group in response.groups:
        if group.error_code in _NOT_OF_THIS_PROTOCOL:
            continue
        if group.error_code:
            found[group.group_id] = error_for(group.error_code, group.error_message, context=f"group {group.group_id}")
            continue
        found[group.group_id] = GroupDescription(
            group.group_id,
            group.group_state,
            CONSUMER,
            CONSUMER,
            group.assignor_name,
            tuple(
                GroupMember(
                    member.member_id,
                    member.instance_id,
                    member.client_id,
                    member.client_host,
                    _partitions(member.assignment),
                    member.member_epoch,
                    _partitions(member.target_assignment),
                )
                for member in group.members
            ),
            node_id,
            group.group_epoch,
            group.assignment_epoch,
        )
    return found


def _partitions(assignment: Assignment) -> tuple[TopicPartition, ...]:
    return tuple(
        sorted(
            TopicPartition(topic.topic_name, number)
            for topic in assignment.topic_partitions
            for number in topic.partitions
        )
    )
