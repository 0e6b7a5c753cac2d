"""Groups for the pages: the list, members and lag of all, and one group with its assignment, history and timeline."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, TypeVar

from client.admin.groups import CLASSIC, CONSUMER
from client.admin.types import GroupMember
from client.errors import GroupIdNotFoundError
from client.topic_partition import TopicPartition
from console.groups.history import Estimate, Status, combined
from console.groups.readings import GroupReading, brokers_of, list_groups
from console.groups.watches import GroupWatch
from console.rest.call import Call
from console.rest.errors import RestError
from console.rest.models import Answer
from console.rest.operation import ApiOperation, Right
from security.acls.types import Operation, ResourceType

T = TypeVar("T")
MAX_LISTED: Final = 20_000
MAX_PARTITIONS: Final = 2_000
"""Rows of partitions in one answer: those with the most lag."""
MAX_MEMBERS: Final = 1_000
MAX_CHARTED: Final = 100
"""Partitions whose lag over time is in one answer,"""
MAX_POINTS: Final = 60
"""and points of each."""
DESCRIBE_GROUP: Final = Right(Operation.DESCRIBE, ResourceType.GROUP, "group_id")
_KNOWN_TYPES: Final = ("", CLASSIC, CONSUMER)


class ListedGroup(Answer):
    """A group as its coordinator lists it. Texts are empty if the broker is too old to report them."""

    group_id: str
    state: str
    type: str
    """`classic`, `consumer` (KIP-848), or another one, such as `share`."""
    protocol_type: str
    """`consumer`; `connect` and others for groups of other programs; empty for offsets without a group."""
    coordinator: int


class GroupRows(Answer):
    """The groups that the user may see, by name: at most 20,000 of `total`."""

    groups: list[ListedGroup]
    total: int
    problems: list[str]
    """A sentence about each broker that did not answer."""


class GroupLag(Answer):
    """Members and lag of a group."""

    group_id: str
    state: str
    members: int
    lag: int | None
    """Records; null if no partition has a committed offset."""


class GroupLags(Answer):
    """Members and lag of the groups whose coordinators answered: of the first 5,000."""

    groups: list[GroupLag]
    problems: list[str]


class Assigned(Answer):
    """Partitions of a topic."""

    topic: str
    partitions: list[int]


class MemberData(Answer):
    """A member. `assigned` is null if it is not a consumer's; `target` is what it will have (KIP-848)."""

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    epoch: int | None
    assigned: list[Assigned] | None
    target: list[Assigned] | None


class Progress(Answer):
    """How fast records are written and read, from the last five minutes; null is unknown."""

    status: Status
    consumed_per_s: float | None
    produced_per_s: float | None
    behind_s: float | None
    """How long ago the log ended at the committed offset."""
    caught_up_in_s: float | None


class GroupPartition(Answer):
    """A partition that has a committed offset, or is assigned."""

    topic: str
    partition: int
    committed: int | None
    metadata: str | None
    end: int | None
    lag: int | None
    member_id: str | None
    progress: Progress | None


class CoordinatorData(Answer):
    """The broker that coordinates a group."""

    broker_id: int
    address: str | None


class GroupDetail(Answer):
    """A group. `partitions` are at most 2,000 of `partition_count`, `members` at most 1,000 of `member_count`."""

    group_id: str
    state: str
    type: str
    protocol_type: str
    assignor: str
    epoch: int | None
    assignment_epoch: int | None
    coordinator: CoordinatorData
    members: list[MemberData]
    member_count: int
    partitions: list[GroupPartition]
    partition_count: int
    lag: int | None
    progress: Progress | None
    problems: list[str]


class PartitionLags(Answer):
    """The lag on a partition at the times of the answer; null is unknown."""

    topic: str
    partition: int
    lags: list[int | None]


class LagHistoryData(Answer):
    """The lag of a group during the last half hour, as far as it was watched. The 100 partitions with the most lag."""

    times_ms: list[int]
    total: list[int]
    partitions: list[PartitionLags]


class EventData(Answer):
    """A change in a group."""

    at_ms: int
    kind: str
    text: str


class LaneData(Answer):
    """A member while it was seen. `counts`: from which time on (ms) it had how many partitions."""

    member_id: str
    client_id: str
    host: str
    from_ms: int
    to_ms: int | None
    counts: list[tuple[int, int]]


class StateData(Answer):
    """A state, until the next one."""

    from_ms: int
    state: str


class TimelineData(Answer):
    """What happened in a group since it is watched, oldest first."""

    since_ms: int
    now_ms: int
    states: list[StateData]
    members: list[LaneData]
    events: list[EventData]


async def get_groups(call: Call) -> GroupRows:
    """List all groups, of both protocols and of other types. One request to each broker."""
    found = await list_groups(call.admin)
    seen = [one for one in found.groups if call.rights.sees(Operation.DESCRIBE, ResourceType.GROUP, one.group_id)]
    rows = [
        ListedGroup(
            group_id=one.group_id,
            state=one.state,
            type=one.type.lower(),
            protocol_type=one.protocol_type,
            coordinator=one.coordinator,
        )
        for one in seen[:MAX_LISTED]
    ]
    return GroupRows(groups=rows, total=len(seen), problems=found.problems)


async def get_group_lags(call: Call) -> GroupLags:
    """Return members and lag of all groups, a few seconds old at most."""
    found = await call.services.groups.summaries(call.admin)
    rows = []
    for name, one in found.groups.items():
        if call.rights.sees(Operation.DESCRIBE, ResourceType.GROUP, name):
            lags = [lag for topic, lag in one.lag.items() if call.sees_topic(topic)]
            rows.append(GroupLag(group_id=name, state=one.state, members=one.members, lag=sum(lags) if lags else None))
    return GroupLags(groups=rows, problems=found.problems)


async def get_group(call: Call) -> GroupDetail:
    """Describe a group with members, assignment, lag and progress, and watch it for the next half hour."""
    try:
        watch, reading = await _look(call)
    except GroupIdNotFoundError:
        return await _unknown_group(call)
    group = reading.group
    owners = {partition: member for member in group.members for partition in member.assignment or ()}
    seen = sorted(one for one in owners.keys() | reading.committed.keys() if call.sees_topic(one.topic))
    estimates = {one: watch.history.estimate(one) for one in seen}
    shown = sorted(sorted(seen, key=lambda one: -(reading.lag(one) or 0))[:MAX_PARTITIONS])
    lags = [lag for one in seen if (lag := reading.lag(one)) is not None]
    return GroupDetail(
        group_id=group.group_id,
        state=group.state,
        type=group.type,
        protocol_type=group.protocol_type,
        assignor=group.assignor,
        epoch=_known(group.epoch),
        assignment_epoch=_known(group.assignment_epoch),
        coordinator=await _coordinator(call, group.coordinator),
        members=[_member(call, one) for one in group.members[:MAX_MEMBERS]],
        member_count=len(group.members),
        partitions=[_partition(one, reading, owners.get(one), estimates[one]) for one in shown],
        partition_count=len(seen),
        lag=sum(lags) if lags else None,
        progress=_progress(combined(one for one in estimates.values() if one is not None)),
        problems=reading.problems,
    )


async def get_lag_history(call: Call) -> LagHistoryData:
    """Return the lag of a group during the last half hour, of all partitions together and by partition."""
    watch, reading = await _look(call)
    partitions = [one for one in sorted(reading.committed) if call.sees_topic(one.topic)]
    charted = sorted(partitions, key=lambda one: -(reading.lag(one) or 0))[:MAX_CHARTED]
    history = watch.history
    return LagHistoryData(
        times_ms=_thinned(history.times_ms),
        total=_thinned(history.total_lags(partitions)),
        partitions=[
            PartitionLags(topic=one.topic, partition=one.partition, lags=_thinned(history.lags(one))) for one in charted
        ],
    )


async def get_timeline(call: Call) -> TimelineData:
    """Return what happened in a group since it is watched: states, members, epochs, partitions that moved."""
    watch, _ = await _look(call)
    timeline = watch.timeline
    return TimelineData(
        since_ms=timeline.since_ms or watch.read_at_ms,
        now_ms=watch.read_at_ms,
        states=[StateData(from_ms=one.from_ms, state=one.state) for one in timeline.states],
        members=[LaneData(**one._asdict()) for one in timeline.lanes],
        events=[EventData(at_ms=one.at_ms, kind=one.kind, text=one.text) for one in timeline.events],
    )


async def _look(call: Call) -> tuple[GroupWatch, GroupReading]:
    """Return the group in the path. Raises GroupIdNotFoundError, RestError."""
    try:
        return await call.services.groups.look(call.admin, call.text("group_id"))
    except TimeoutError:
        raise RestError(504, f"the coordinator of group {call.text('group_id')} does not answer") from None


async def _unknown_group(call: Call) -> GroupDetail:
    """Return what the list says about a group that the requests for consumer groups do not describe."""
    group_id = call.text("group_id")
    for one in (await list_groups(call.admin)).groups:
        if one.group_id == group_id and one.type.lower() not in _KNOWN_TYPES:
            return GroupDetail(
                group_id=group_id,
                state=one.state,
                type=one.type.lower(),
                protocol_type=one.protocol_type,
                assignor="",
                epoch=None,
                assignment_epoch=None,
                coordinator=await _coordinator(call, one.coordinator),
                members=[],
                member_count=0,
                partitions=[],
                partition_count=0,
                lag=None,
                progress=None,
                problems=[f"Members and offsets of groups of the type {one.type} cannot be shown here."],
            )
    raise GroupIdNotFoundError(f"group {group_id} does not exist")


async def _coordinator(call: Call, broker_id: int) -> CoordinatorData:
    addresses = {one.node_id: f"{one.host}:{one.port}" for one in await brokers_of(call.admin)}
    return CoordinatorData(broker_id=broker_id, address=addresses.get(broker_id))


def _member(call: Call, member: GroupMember) -> MemberData:
    return MemberData(
        member_id=member.member_id,
        instance_id=member.instance_id,
        client_id=member.client_id,
        host=member.host,
        epoch=_known(member.epoch),
        assigned=_assigned(call, member.assignment),
        target=_assigned(call, member.target),
    )


def _assigned(call: Call, partitions: Iterable[TopicPartition] | None) -> list[Assigned] | None:
    if partitions is None:
        return None
    topics: dict[str, list[int]] = {}
    for topic, number in sorted(partitions):
        if call.sees_topic(topic):
            topics.setdefault(topic, []).append(number)
    return [Assigned(topic=topic, partitions=numbers) for topic, numbers in topics.items()]


def _partition(
    partition: TopicPartition, reading: GroupReading, owner: GroupMember | None, estimate: Estimate | None
) -> GroupPartition:
    committed = reading.committed.get(partition)
    return GroupPartition(
        topic=partition.topic,
        partition=partition.partition,
        committed=None if committed is None else committed.offset,
        metadata=None if committed is None else committed.metadata or None,
        end=reading.ends.get(partition),
        lag=reading.lag(partition),
        member_id=None if owner is None else owner.member_id,
        progress=_progress(estimate),
    )


def _progress(estimate: Estimate | None) -> Progress | None:
    return None if estimate is None else Progress(**estimate._asdict())


def _known(epoch: int) -> int | None:
    return None if epoch < 0 else epoch


def _thinned(values: list[T]) -> list[T]:
    """Return at most `MAX_POINTS` of the values, the last one always."""
    step = -(-len(values) // MAX_POINTS)
    return values if step <= 1 else values[::-1][::step][::-1]


OPERATIONS: Final = (
    ApiOperation("GET", "/groups", get_groups, Right(Operation.DESCRIBE), GroupRows),
    ApiOperation("GET", "/group-lags", get_group_lags, Right(Operation.DESCRIBE), GroupLags),
    ApiOperation("GET", "/groups/{group_id}", get_group, DESCRIBE_GROUP, GroupDetail),
    ApiOperation("GET", "/groups/{group_id}/lag-history", get_lag_history, DESCRIBE_GROUP, LagHistoryData),
    ApiOperation("GET", "/groups/{group_id}/timeline", get_timeline, DESCRIBE_GROUP, TimelineData),
)
