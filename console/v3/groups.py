"""Consumer groups, their members, and the partitions assigned to them."""

from __future__ import annotations

import re
from typing import Final, Literal

from client.admin.groups import CONSUMER
from client.admin.types import GroupDescription, GroupMember
from client.errors import GroupIdNotFoundError
from client.topic_partition import TopicPartition
from console.rest.call import Call
from console.rest.errors import not_found
from console.rest.every_broker import ask_every_broker
from console.rest.models import Answer, Listing, Metadata, Related
from console.rest.place import broker_place, consumer_place, group_place, lag_place, partition_place
from security.acls.types import Operation, ResourceType

_WORD_START: Final = re.compile(r"(?<=[a-z])(?=[A-Z])")


class GroupData(Answer):
    """A consumer group. A simple one has offsets and no protocol: its consumers assign partitions themselves."""

    kind: Literal["KafkaConsumerGroup"] = "KafkaConsumerGroup"
    metadata: Metadata
    cluster_id: str
    consumer_group_id: str
    is_simple: bool
    partition_assignor: str
    state: str
    type: str
    is_mixed_consumer_group: bool
    coordinator: Related
    consumers: Related
    lag_summary: Related


class GroupList(Listing[GroupData]):
    """Consumer groups."""

    kind: Literal["KafkaConsumerGroupList"] = "KafkaConsumerGroupList"


class ConsumerData(Answer):
    """A member of a consumer group."""

    kind: Literal["KafkaConsumer"] = "KafkaConsumer"
    metadata: Metadata
    cluster_id: str
    consumer_group_id: str
    consumer_id: str
    instance_id: str | None
    client_id: str
    assignments: Related


class ConsumerList(Listing[ConsumerData]):
    """Members of a consumer group."""

    kind: Literal["KafkaConsumerList"] = "KafkaConsumerList"


class AssignmentData(Answer):
    """A partition that is assigned to a member."""

    kind: Literal["KafkaConsumerAssignment"] = "KafkaConsumerAssignment"
    metadata: Metadata
    cluster_id: str
    consumer_group_id: str
    consumer_id: str
    topic_name: str
    partition_id: int
    partition: Related
    lag: Related


class AssignmentList(Listing[AssignmentData]):
    """Partitions that are assigned to a member."""

    kind: Literal["KafkaConsumerAssignmentList"] = "KafkaConsumerAssignmentList"


async def list_groups(call: Call) -> GroupList:
    """List the consumer groups, of both protocols and without members too. Groups of others, such as Connect, are not
    listed.
    """
    listed = (await ask_every_broker(call, call.admin.list_groups_of)).values()
    names = sorted({one.group_id for part in listed for one in part if one.protocol_type in ("", CONSUMER)})
    names = [name for name in names if call.rights.sees(Operation.DESCRIBE, ResourceType.GROUP, name)]
    data = []
    for group in (await call.admin.describe_groups(names)).values():
        if isinstance(group, GroupDescription):
            data.append(_data(call, group))
        elif not isinstance(group, GroupIdNotFoundError):  # else removed in between
            raise group
    return GroupList(metadata=call.place.listed("consumer-groups"), data=data)


async def get_group(call: Call) -> GroupData:
    """Describe a consumer group."""
    return _data(call, await described_group(call))


async def list_consumers(call: Call) -> ConsumerList:
    """List the members of a consumer group."""
    group = await described_group(call)
    data = [_consumer(call, group, member) for member in group.members]
    return ConsumerList(metadata=group_place(call.place, group.group_id).listed("consumers"), data=data)


async def get_consumer(call: Call) -> ConsumerData:
    """Describe a member of a consumer group."""
    group = await described_group(call)
    return _consumer(call, group, _member(call, group))


async def list_assignments(call: Call) -> AssignmentList:
    """List the partitions that are assigned to a member of a consumer group."""
    group = await described_group(call)
    member = _member(call, group)
    data = [_assignment(call, group, member, partition) for partition in _assigned(call, member)]
    place = consumer_place(call.place, group.group_id, member.member_id)
    return AssignmentList(metadata=place.listed("assignments"), data=data)


async def get_assignment(call: Call) -> AssignmentData:
    """Describe the assignment of a partition to a member of a consumer group."""
    group = await described_group(call)
    member = _member(call, group)
    partition = TopicPartition(call.topic_name, call.number("partition_id"))
    if partition not in _assigned(call, member):
        raise not_found(f"{partition} is not assigned to {member.member_id} of group {group.group_id}")
    return _assignment(call, group, member, partition)


async def described_group(call: Call) -> GroupDescription:
    """Return the group in the path, with its members. Raises GroupIdNotFoundError."""
    return await call.admin.describe_group(call.text("consumer_group_id"))


def _member(call: Call, group: GroupDescription) -> GroupMember:
    wanted = call.text("consumer_id")
    for member in group.members:
        if member.member_id == wanted:
            return member
    raise not_found(f"group {group.group_id} has no member {wanted}")


def _assigned(call: Call, member: GroupMember) -> list[TopicPartition]:
    return [one for one in member.assignment or () if call.sees_topic(one.topic)]


def _data(call: Call, group: GroupDescription) -> GroupData:
    place = group_place(call.place, group.group_id)
    return GroupData(
        metadata=place.metadata,
        cluster_id=call.cluster_id,
        consumer_group_id=group.group_id,
        is_simple=not group.protocol_type,
        partition_assignor=group.assignor,
        state=_WORD_START.sub("_", group.state).upper() or "UNKNOWN",
        type=group.type.upper(),
        is_mixed_consumer_group=False,  # a group has one protocol at a time
        coordinator=broker_place(call.place, group.coordinator).link(),
        consumers=place.link("consumers"),
        lag_summary=place.link("lag-summary"),
    )


def _consumer(call: Call, group: GroupDescription, member: GroupMember) -> ConsumerData:
    place = consumer_place(call.place, group.group_id, member.member_id)
    return ConsumerData(
        metadata=place.metadata,
        cluster_id=call.cluster_id,
        consumer_group_id=group.group_id,
        consumer_id=member.member_id,
        instance_id=member.instance_id,
        client_id=member.client_id,
        assignments=place.link("assignments"),
    )


def _assignment(call: Call, group: GroupDescription, member: GroupMember, partition: TopicPartition) -> AssignmentData:
    place = consumer_place(call.place, group.group_id, member.member_id)
    own = place.part("assignments", partition.topic, "assignment").part("partitions", partition.partition, "partition")
    return AssignmentData(
        metadata=own.metadata,
        cluster_id=call.cluster_id,
        consumer_group_id=group.group_id,
        consumer_id=member.member_id,
        topic_name=partition.topic,
        partition_id=partition.partition,
        partition=partition_place(call.place, *partition).link(),
        lag=lag_place(call.place, group.group_id, *partition).link(),
    )
