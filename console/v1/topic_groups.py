"""The groups that read a topic, with their lag per partition, in bounded time."""

from __future__ import annotations

import asyncio
from typing import Final

from client.admin.types import GroupDescription
from client.consumer.offsets import LATEST
from client.errors import KafkaError
from client.topic_partition import TopicPartition
from console.groups.readings import ask_coordinators, list_groups
from console.rest.call import Call
from console.rest.models import Answer
from console.rest.operation import ApiOperation
from console.v1.topics import DESCRIBE_TOPIC
from console.watching.patience import Problems
from console.watching.snapshot import offsets
from protocol.sentinels import NO_LEADER
from security.acls.types import Operation, ResourceType

MAX_GROUPS: Final = 500


class TopicGroupPartition(Answer):
    """What a group has of a partition. null: no committed offset, unknown lag, no member."""

    partition: int
    committed: int | None
    lag: int | None
    client_id: str | None
    host: str | None


class TopicGroup(Answer):
    """A group that has committed offsets of a topic, or has members that read it."""

    group_id: str
    state: str
    members: int
    """The members that read this topic."""
    lag: int | None
    """The sum of the known lags; null if none is known."""
    partitions: list[TopicGroupPartition]


class TopicGroups(Answer):
    """The groups that the user may see, by name."""

    groups: list[TopicGroup]
    problems: list[str]
    """What could not be found out, a sentence each."""


async def list_topic_groups(call: Call) -> TopicGroups:
    """List the groups that read a topic, of the first 500 groups of the cluster."""
    topic = await call.topic()
    problems = Problems()
    listed = await list_groups(call.admin)
    for sentence in listed.problems:
        problems.add(sentence)
    seen = [
        one
        for one in listed.groups
        if one.protocol_type in ("consumer", "")
        and call.rights.sees(Operation.DESCRIBE, ResourceType.GROUP, one.group_id)
    ]
    if len(seen) > MAX_GROUPS:
        problems.add(f"There are {len(seen)} groups. Only the first {MAX_GROUPS} were searched.")
        seen = seen[:MAX_GROUPS]
    partitions = {TopicPartition(topic.name, number): one.leader for number, one in topic.partitions.items()}
    led = {one: leader for one, leader in partitions.items() if leader != NO_LEADER}
    ends, described, committed = await asyncio.gather(
        offsets(call.admin, led, LATEST, problems),
        ask_coordinators(seen, call.admin.describe_groups, problems),
        ask_coordinators(seen, call.admin.list_offsets_of_groups, problems),
    )
    groups = []
    for name in (one.group_id for one in seen):
        group, found = described.get(name), committed.get(name)
        if isinstance(found, KafkaError):
            problems.add(str(found))
        of_group = {} if found is None or isinstance(found, KafkaError) else {p: one.offset for p, one in found.items()}
        one = _group(name, group if isinstance(group, GroupDescription) else None, of_group, ends, list(partitions))
        if one.members or any(part.committed is not None for part in one.partitions):
            groups.append(one)
    return TopicGroups(groups=groups, problems=problems.sentences)


def _group(
    name: str,
    group: GroupDescription | None,
    committed: dict[TopicPartition, int],
    ends: dict[TopicPartition, int],
    partitions: list[TopicPartition],
) -> TopicGroup:
    members = () if group is None else group.members
    owners = {partition: member for member in members for partition in member.assignment or ()}
    parts = []
    for one in partitions:
        offset, end, owner = committed.get(one, -1), ends.get(one), owners.get(one)
        if offset < 0 and owner is None:
            continue
        parts.append(
            TopicGroupPartition(
                partition=one.partition,
                committed=None if offset < 0 else offset,
                lag=None if offset < 0 or end is None else max(0, end - offset),
                client_id=None if owner is None else owner.client_id,
                host=None if owner is None else owner.host,
            )
        )
    lags = [part.lag for part in parts if part.lag is not None]
    return TopicGroup(
        group_id=name,
        state="" if group is None else group.state,
        members=len({owners[one].member_id for one in partitions if one in owners}),
        lag=sum(lags) if lags else None,
        partitions=parts,
    )


OPERATIONS: Final = (
    ApiOperation("GET", "/topics/{topic_name}/groups", list_topic_groups, DESCRIBE_TOPIC, TopicGroups),
)
