"""The partitions of a topic with offsets and sizes, elections of their leaders, and reassignments of their replicas."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Annotated, Final

from pydantic import Field

from client.consumer.offsets import EARLIEST, LATEST
from client.topic_partition import TopicPartition
from client.wire.metadata import PartitionMetadata, TopicMetadata
from console.rest.call import Call
from console.rest.errors import RestError
from console.rest.models import Answer, Asked
from console.rest.operation import ApiOperation, Parameter, Right
from console.v1.topics import DESCRIBE_TOPIC
from console.watching.patience import Problems
from console.watching.snapshot import log_dirs, offsets
from protocol.sentinels import NO_LEADER
from security.acls.types import Operation, ResourceType

MAX_PARTITIONS: Final = 10_000
"""Partitions of one request."""
_DELETE_TOPIC: Final = Right(Operation.DELETE, ResourceType.TOPIC, "topic_name")


class ReplicaLog(Answer):
    """The log of a replica on one broker. `lag` is in records behind the high watermark; null: not known."""

    broker_id: int
    size_bytes: int
    lag: int | None


class PartitionLog(Answer):
    """The offsets of a partition and the logs of its replicas. null: its leader did not answer."""

    partition: int
    start: int | None
    end: int | None
    """The high watermark."""
    logs: list[ReplicaLog]


class PartitionLogs(Answer):
    """The partitions of a topic."""

    partitions: list[PartitionLog]
    problems: list[str]
    """What could not be found out, a sentence each."""


class PartitionOffset(Answer):
    """An offset of a partition; null if all records are older, or if the leader did not answer."""

    partition: int
    offset: int | None


class OffsetsAt(Answer):
    """The first offset at or after a time, for each partition."""

    partitions: list[PartitionOffset]
    problems: list[str]


class DeleteRecords(Asked):
    """Where the records of each partition are to begin: all before this offset are deleted."""

    before: Annotated[dict[int, Annotated[int, Field(ge=0)]], Field(min_length=1, max_length=MAX_PARTITIONS)]


class DeletedRecords(Answer):
    """The new start of each partition."""

    partitions: list[PartitionOffset]


# -- offsets and sizes ------------------------------------------------------------------------------------------------


async def list_partitions(call: Call) -> PartitionLogs:
    """Return the offsets of a topic's partitions and the sizes of their replicas' logs."""
    topic = await call.topic()
    problems = Problems()
    leaders = _leaders(topic)
    replicas = {TopicPartition(topic.name, one.partition): one for one in topic.partitions.values()}
    starts, ends, logs = await asyncio.gather(
        offsets(call.admin, leaders, EARLIEST, problems),
        offsets(call.admin, leaders, LATEST, problems),
        _logs(call, replicas, problems),
    )
    return PartitionLogs(
        partitions=[
            PartitionLog(
                partition=number,
                start=starts.get(one := TopicPartition(topic.name, number)),
                end=ends.get(one),
                logs=logs.get(one, []),
            )
            for number in topic.partitions
        ],
        problems=problems.sentences,
    )


async def get_offsets_at(call: Call) -> OffsetsAt:
    """Return the first offset at or after a time (`timestamp`, ms since the epoch), for each partition of a topic."""
    text = call.query["timestamp"]
    if not (text.isascii() and text.isdigit()) or len(text) > 15:
        raise RestError(400, f"timestamp must be a number of milliseconds since 1970, not {text!r}")
    topic = await call.topic()
    problems = Problems()
    found = await offsets(call.admin, _leaders(topic), int(text), problems)
    return OffsetsAt(partitions=_offsets(topic.name, topic.partitions, found), problems=problems.sentences)


async def delete_records(call: Call) -> DeletedRecords:
    """Delete the records of partitions before an offset."""
    asked: DeleteRecords = call.asked
    before = {TopicPartition(call.topic_name, number): offset for number, offset in sorted(asked.before.items())}
    found = await call.admin.delete_records(before)
    return DeletedRecords(partitions=_offsets(call.topic_name, sorted(asked.before), found))


def _offsets(
    topic: str, partitions: Mapping[int, object] | list[int], found: Mapping[TopicPartition, int]
) -> list[PartitionOffset]:
    wanted = [(number, found.get(TopicPartition(topic, number))) for number in partitions]
    return [PartitionOffset(partition=number, offset=None if offset == -1 else offset) for number, offset in wanted]


def _leaders(topic: TopicMetadata) -> dict[TopicPartition, int]:
    states = topic.partitions.values()
    return {TopicPartition(topic.name, one.partition): one.leader for one in states if one.leader != NO_LEADER}


async def _logs(
    call: Call, partitions: Mapping[TopicPartition, PartitionMetadata], problems: Problems
) -> dict[TopicPartition, list[ReplicaLog]]:
    brokers = {broker_id for one in partitions.values() for broker_id in one.replicas}
    alive = {broker.node_id for broker in (await call.admin.describe_cluster()).brokers}
    for broker_id in sorted(brokers - alive):
        problems.add(f"Broker {broker_id} is not running.")
    found: dict[TopicPartition, list[ReplicaLog]] = {}
    for broker_id, dirs in (await log_dirs(call.admin, sorted(brokers & alive), problems, partitions)).items():
        for one in (replica for each in dirs for replica in each.replicas if not replica.is_future):
            log = ReplicaLog(
                broker_id=broker_id, size_bytes=one.size_bytes, lag=None if one.offset_lag < 0 else one.offset_lag
            )
            found.setdefault(TopicPartition(one.topic, one.partition), []).append(log)
    return found


OPERATIONS: Final = (
    ApiOperation("GET", "/topics/{topic_name}/partitions", list_partitions, DESCRIBE_TOPIC, PartitionLogs),
    ApiOperation(
        "GET",
        "/topics/{topic_name}/offsets",
        get_offsets_at,
        DESCRIBE_TOPIC,
        OffsetsAt,
        query=(Parameter("timestamp", is_required=True),),
    ),
    ApiOperation(
        "POST",
        "/topics/{topic_name}/records:delete",
        delete_records,
        _DELETE_TOPIC,
        DeletedRecords,
        takes=DeleteRecords,
    ),
)
