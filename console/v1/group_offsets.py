"""Changes of a group's committed offsets: a plan that shows old and new ones, the change itself, and deletions.

A plan changes nothing. What is then applied are the offsets of the plan, so that exactly what was shown happens; if a
committed offset is no longer the one that was shown, nothing is changed.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Annotated, Final, Literal

from pydantic import Field

from client.admin.admin import Admin
from client.consumer.group_metadata import OffsetAndMetadata
from client.consumer.offsets import EARLIEST, LATEST
from client.errors import GroupIdNotFoundError, GroupNotEmptyError, KafkaError, UnknownMemberIdError
from client.topic_partition import TopicPartition
from console.groups.readings import existing_topics
from console.rest.call import Call
from console.rest.errors import NOT_AUTHORIZED, RestError
from console.rest.models import Answer, Asked, Name
from console.rest.operation import ApiOperation, Right
from security.acls.types import Operation, ResourceType

MAX_PARTITIONS: Final = 10_000
_NOT_EMPTY: Final = 409
_EMPTY: Final = "Empty"
Offset = Annotated[int, Field(ge=0, le=2**63 - 1)]


class AskedOffset(Asked):
    """A new offset of a partition."""

    topic: Name
    partition: Annotated[int, Field(ge=0)]
    offset: Offset


class AskedPlan(Asked):
    """Where to reset the offsets to, and of which partitions: of a topic, some of its partitions, or all with offsets.

    value: ms since the epoch for `time`, records for `shift` (negative: back), ms for `duration` (back from now), and
    the offset for `offset`. offsets: for `explicit`.
    """

    to: Literal["earliest", "latest", "time", "duration", "shift", "offset", "explicit"]
    value: Annotated[int | None, Field(ge=-(2**63), le=2**63 - 1)] = None
    topic: Name | None = None
    partitions: Annotated[list[Annotated[int, Field(ge=0)]] | None, Field(max_length=MAX_PARTITIONS)] = None
    offsets: Annotated[list[AskedOffset], Field(default_factory=list, max_length=MAX_PARTITIONS)]


class PlannedOffset(Answer):
    """A partition: its committed offset (null: none), the new one, and why it is not the one that was asked for.

    leader_epoch, metadata: committed with the current offset.
    """

    topic: str
    partition: int
    current: int | None
    leader_epoch: int
    metadata: str
    new: int
    start: int
    end: int
    note: str | None


class OffsetPlan(Answer):
    """What a reset would change. Nothing has been changed."""

    group_id: str
    offsets: list[PlannedOffset]
    problems: list[str]


class OffsetChange(AskedOffset):
    """A new offset, and the committed one (null: none) that the plan has shown.

    leader_epoch, metadata: to commit with the offset; those of the earlier offset restore it.
    """

    current: Offset | None
    leader_epoch: Annotated[int, Field(ge=-1, le=2**31 - 1)] = -1
    metadata: str = ""


class AskedChange(Asked):
    """The offsets of a plan."""

    offsets: Annotated[list[OffsetChange], Field(min_length=1, max_length=MAX_PARTITIONS)]


class ChangedOffsets(Answer):
    """How many committed offsets were changed."""

    changed: int


class DeletedOffset(Answer):
    """A committed offset that is gone."""

    topic: str
    partition: int
    offset: int
    leader_epoch: int
    metadata: str


class DeletedOffsets(Answer):
    """The committed offsets that were deleted."""

    changed: int
    offsets: list[DeletedOffset]


async def plan_offsets(call: Call) -> OffsetPlan:
    """Show what a reset of offsets would do, and change nothing. 409 while the group has members."""
    asked: AskedPlan = call.asked
    group_id = call.text("group_id")
    await _require_empty(call.admin, group_id)
    committed = await call.admin.list_group_offsets(group_id)
    current = {partition: one.offset for partition, one in committed.items()}
    none = OffsetAndMetadata(-1)
    problems: list[str] = []
    partitions = await _chosen(call, asked, current, problems)
    starts = await _listed(call.admin, partitions, EARLIEST)
    ends = await _listed(call.admin, partitions, LATEST)
    wanted, notes = await _wanted(call.admin, asked, partitions, current, starts, ends)
    planned = []
    for partition in partitions:
        if partition not in wanted:
            problems.append(f"{partition} has no committed offset to shift.")
            continue
        new = min(max(wanted[partition], starts[partition]), ends[partition])
        if new != wanted[partition]:
            edge = "before the first record" if wanted[partition] < new else "after the end"
            notes[partition] = f"{wanted[partition]} is {edge}"
        planned.append(
            PlannedOffset(
                topic=partition.topic,
                partition=partition.partition,
                current=current.get(partition),
                leader_epoch=committed.get(partition, none).leader_epoch,
                metadata=committed.get(partition, none).metadata,
                new=new,
                start=starts[partition],
                end=ends[partition],
                note=notes.get(partition),
            )
        )
    return OffsetPlan(group_id=group_id, offsets=planned, problems=problems)


async def apply_offsets(call: Call) -> ChangedOffsets:
    """Commit the offsets of a plan. 409 while the group has members, or if an offset has changed since the plan.

    A group without members and offsets may be gone: this creates it again, to restore offsets that were deleted.
    """
    asked: AskedChange = call.asked
    group_id = call.text("group_id")
    _require_topics(call, {one.topic for one in asked.offsets})
    await _require_empty(call.admin, group_id, may_be_gone=True)
    committed = await call.admin.list_group_offsets(group_id)
    for one in asked.offsets:
        partition = TopicPartition(one.topic, one.partition)
        now = committed.get(partition)
        if (None if now is None else now.offset) != one.current:
            raise RestError(
                _NOT_EMPTY, f"the committed offset of {partition} has changed since the plan: make the plan again"
            )
    new = {
        TopicPartition(one.topic, one.partition): OffsetAndMetadata(one.offset, one.leader_epoch, one.metadata)
        for one in asked.offsets
    }
    _raise_first(group_id, (await call.admin.alter_group_offsets(group_id, new)).values())
    return ChangedOffsets(changed=len(new))


async def delete_offsets(call: Call) -> DeletedOffsets:
    """Delete the committed offsets of a topic. 409 while a member of the group is subscribed to it."""
    group_id, topic = call.text("group_id"), call.topic_name
    _require_topics(call, [topic])
    committed = await call.admin.list_group_offsets(group_id)
    offsets = [
        DeletedOffset(topic=topic, partition=partition.partition, **one._asdict())
        for partition, one in sorted(committed.items())
        if partition.topic == topic
    ]
    if not offsets:
        raise RestError(404, f"group {group_id} has no committed offsets of topic {topic}")
    partitions = [TopicPartition(topic, one.partition) for one in offsets]
    _raise_first(group_id, (await call.admin.delete_group_offsets(group_id, partitions)).values())
    return DeletedOffsets(changed=len(offsets), offsets=offsets)


async def delete_group(call: Call) -> None:
    """Delete a group with its committed offsets. 409 while it has members."""
    group_id = call.text("group_id")
    _raise_first(group_id, (await call.admin.delete_groups([group_id])).values())


async def _require_empty(admin: Admin, group_id: str, *, may_be_gone: bool = False) -> None:
    found = (await admin.describe_groups([group_id]))[group_id]
    if isinstance(found, GroupIdNotFoundError):
        if may_be_gone:
            return
        raise RestError(404, f"there is no group {group_id}")
    if isinstance(found, KafkaError):
        raise found
    if found.state != _EMPTY:
        members = f"{len(found.members)} member{'' if len(found.members) == 1 else 's'}"
        raise RestError(
            _NOT_EMPTY,
            f"group {group_id} is {found.state} with {members}: its offsets can be changed only while it has none. "
            "Stop its consumers first.",
        )


async def _chosen(
    call: Call, asked: AskedPlan, current: dict[TopicPartition, int], problems: list[str]
) -> list[TopicPartition]:
    """Return the partitions that are asked for and exist. Raises RestError."""
    if asked.to == "explicit":
        chosen = {TopicPartition(one.topic, one.partition) for one in asked.offsets}
    elif asked.topic is None:
        chosen = {one for one in current if call.sees_topic(one.topic)}
    else:
        known = await existing_topics(call.admin, [asked.topic])
        if asked.topic not in known:
            raise RestError(404, f"there is no topic {asked.topic}")
        numbers = known[asked.topic].partitions if asked.partitions is None else asked.partitions
        chosen = {TopicPartition(asked.topic, number) for number in numbers}
    _require_topics(call, {one.topic for one in chosen})
    topics = await existing_topics(call.admin, {one.topic for one in chosen})
    found = sorted(one for one in chosen if one.topic in topics and one.partition in topics[one.topic].partitions)
    problems += [f"{one} does not exist." for one in sorted(chosen - set(found))[:10]]
    if len(found) > MAX_PARTITIONS:
        raise RestError(400, f"{len(found)} partitions are too many for one reset: choose a topic")
    return found


async def _wanted(
    admin: Admin,
    asked: AskedPlan,
    partitions: list[TopicPartition],
    current: dict[TopicPartition, int],
    starts: dict[TopicPartition, int],
    ends: dict[TopicPartition, int],
) -> tuple[dict[TopicPartition, int], dict[TopicPartition, str]]:
    """Return the offset of each partition that is asked for, and notes. Raises RestError."""
    if asked.to == "earliest":
        return starts, {}
    if asked.to == "latest":
        return ends, {}
    if asked.to == "explicit":
        return {TopicPartition(one.topic, one.partition): one.offset for one in asked.offsets}, {}
    if asked.value is None or (asked.value < 0 and asked.to != "shift"):
        raise RestError(
            400, f"value: a reset to {asked.to} needs a number{'' if asked.to == 'shift' else ' from 0 on'}"
        )
    if asked.to == "shift":
        return {one: current[one] + asked.value for one in partitions if one in current}, {}
    if asked.to == "offset":
        return dict.fromkeys(partitions, asked.value), {}
    at = asked.value if asked.to == "time" else max(time.time_ns() // 1_000_000 - asked.value, 0)
    found = await _listed(admin, partitions, at)
    late = [one for one, offset in found.items() if offset < 0]
    return found | {one: ends[one] for one in late}, dict.fromkeys(late, "no record since this time: the end")


async def _listed(admin: Admin, partitions: list[TopicPartition], at: int) -> dict[TopicPartition, int]:
    if not partitions:
        return {}
    return {one: found.offset for one, found in (await admin.list_offsets(dict.fromkeys(partitions, at))).items()}


def _require_topics(call: Call, topics: Iterable[str]) -> None:
    """Raise RestError without the right to read a topic, which a commit of its offsets needs."""
    for topic in sorted(topics):
        if not call.rights.may(Operation.READ, ResourceType.TOPIC, topic):
            raise RestError(403, f"Read on Topic {topic} is not allowed", NOT_AUTHORIZED)


def _raise_first(group_id: str, errors: Iterable[KafkaError | None]) -> None:
    for error in errors:
        if isinstance(error, UnknownMemberIdError | GroupNotEmptyError):
            raise RestError(_NOT_EMPTY, f"group {group_id} has members now. Stop its consumers first.")
        if error is not None and error.code is not None and error.code.name == "GROUP_SUBSCRIBED_TO_TOPIC":
            raise RestError(_NOT_EMPTY, f"a member of group {group_id} is subscribed to the topic: stop it first")
        if error is not None:
            raise error


_READ_GROUP: Final = Right(Operation.READ, ResourceType.GROUP, "group_id")
_DELETE_GROUP: Final = Right(Operation.DELETE, ResourceType.GROUP, "group_id")
_GROUP: Final = "/groups/{group_id}"
OPERATIONS: Final = (
    ApiOperation("POST", f"{_GROUP}/offsets:plan", plan_offsets, _READ_GROUP, OffsetPlan, takes=AskedPlan),
    ApiOperation("POST", f"{_GROUP}/offsets:apply", apply_offsets, _READ_GROUP, ChangedOffsets, takes=AskedChange),
    ApiOperation("DELETE", f"{_GROUP}/offsets/{{topic_name}}", delete_offsets, _DELETE_GROUP, DeletedOffsets),
    ApiOperation("DELETE", _GROUP, delete_group, _DELETE_GROUP, status=204),
)
