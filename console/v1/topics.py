"""Topics for the pages: the list of all in one request to the cluster, and the partitions of one.

There may be ten thousand: plain answers take a fraction of the time of models.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from client.topic_partition import TopicPartition
from client.wire.metadata import TopicMetadata
from console.rest.call import Call
from console.rest.operation import ApiOperation, Parameter, Right
from console.rest.plain_answer import PlainAnswer
from console.watching.snapshot import Snapshot
from protocol.sentinels import NO_LEADER
from security.acls.types import Operation, ResourceType

DESCRIBE_TOPIC: Final = Right(Operation.DESCRIBE, ResourceType.TOPIC, "topic_name")


@dataclass
class TopicSummary(PlainAnswer):
    """A topic. `replication_factor` is the largest of its partitions."""

    name: str
    is_internal: bool
    partitions: int
    replication_factor: int
    under_replicated: int
    """Partitions with a replica that is not in sync."""
    offline: int
    """Partitions without a leader."""


@dataclass
class TopicSummaries(PlainAnswer):
    """The topics that the user may see, by name."""

    topics: list[TopicSummary]


@dataclass
class TopicStatistics(PlainAnswer):
    """What a topic holds. Only partitions whose leader has answered count; null: none has."""

    name: str
    records: int | None
    """The sum of end offset − start offset: compaction and transaction markers leave gaps, which count."""
    appended: int | None
    """The sum of the end offsets, for rates; null if one is unknown."""
    size_bytes: int | None
    """The logs of the leaders, without other replicas."""


@dataclass
class AllStatistics(PlainAnswer):
    """What the topics that the user may see held at `time_ms` (ms since the epoch)."""

    time_ms: int
    topics: list[TopicStatistics]
    problems: list[str]
    """What could not be found out, a sentence each."""


@dataclass
class PartitionState(PlainAnswer):
    """A partition. `leader` is null while none is elected; the first of the replicas is the preferred leader."""

    partition: int
    leader: int | None
    leader_epoch: int | None
    replicas: list[int]
    isr: list[int]
    offline_replicas: list[int]


@dataclass
class Topic(TopicSummary):
    """A topic with its partitions."""

    topic_id: str | None
    """As hexadecimal digits; null if the brokers are older than 2.8."""
    states: list[PartitionState]


async def list_topics(call: Call) -> TopicSummaries:
    """List all topics with the health of their replicas, from one request to the cluster."""
    return TopicSummaries(topics=[TopicSummary(**_summary(topic)) for topic in (await call.topics()).values()])


async def get_statistics(call: Call) -> AllStatistics:
    """Return records and size of all topics, or of one, a few seconds old. All that look share the requests for it."""
    seen = await call.services.observer.look(call.admin, call.services.inside)
    wanted = call.query.get("topic")
    named = ((name, topic) for name, topic in seen.topics.items() if wanted in (None, name))
    topics = [_statistics(seen, topic) for name, topic in named if call.sees_topic(name)]
    return AllStatistics(time_ms=seen.time_ms, topics=topics, problems=list(seen.problems))


async def get_topic(call: Call) -> Topic:
    """Describe a topic: its partitions, their leaders and replicas."""
    topic = await call.topic()
    return Topic(
        **_summary(topic),
        topic_id=topic.topic_id.hex() if any(topic.topic_id) else None,
        states=[
            PartitionState(
                partition=one.partition,
                leader=None if one.leader == NO_LEADER else one.leader,
                leader_epoch=None if one.leader_epoch < 0 else one.leader_epoch,
                replicas=list(one.replicas),
                isr=list(one.isr),
                offline_replicas=list(one.offline_replicas),
            )
            for one in topic.partitions.values()
        ],
    )


def _statistics(seen: Snapshot, topic: TopicMetadata) -> TopicStatistics:
    partitions = [TopicPartition(topic.name, number) for number in topic.partitions]
    both = [one for one in partitions if one in seen.ends and one in seen.starts]
    ends = [seen.ends[one] for one in partitions if one in seen.ends]
    sizes = [seen.sizes[one] for one in partitions if one in seen.sizes]
    return TopicStatistics(
        name=topic.name,
        records=sum(max(0, seen.ends[one] - seen.starts[one]) for one in both) if both else None,
        appended=sum(ends) if len(ends) == len(partitions) else None,
        size_bytes=sum(sizes) if sizes else None,
    )


def _summary(topic: TopicMetadata) -> dict[str, Any]:
    partitions = topic.partitions.values()
    return {
        "name": topic.name,
        "is_internal": topic.is_internal,
        "partitions": len(partitions),
        "replication_factor": max((len(one.replicas) for one in partitions), default=0),
        "under_replicated": sum(len(one.isr) < len(one.replicas) for one in partitions),
        "offline": sum(one.leader == NO_LEADER for one in partitions),
    }


OPERATIONS: Final = (
    ApiOperation(
        "GET",
        "/topic-statistics",
        get_statistics,
        Right(Operation.DESCRIBE),
        AllStatistics,
        query=(Parameter("topic"),),
    ),
    ApiOperation("GET", "/topics", list_topics, Right(Operation.DESCRIBE), TopicSummaries),
    ApiOperation("GET", "/topics/{topic_name}", get_topic, DESCRIBE_TOPIC, Topic),
)
