"""Topics for the pages: the list of all in one request to the cluster, and the partitions of one."""

from __future__ import annotations

from typing import Any, Final

from client.wire.metadata import TopicMetadata
from console.rest.call import Call
from console.rest.models import Answer
from console.rest.operation import ApiOperation, Right
from protocol.sentinels import NO_LEADER
from security.acls.types import Operation, ResourceType

DESCRIBE_TOPIC: Final = Right(Operation.DESCRIBE, ResourceType.TOPIC, "topic_name")


class TopicSummary(Answer):
    """A topic. `replication_factor` is the largest of its partitions."""

    name: str
    is_internal: bool
    partitions: int
    replication_factor: int
    under_replicated: int
    """Partitions with a replica that is not in sync."""
    offline: int
    """Partitions without a leader."""


class TopicSummaries(Answer):
    """The topics that the user may see, by name."""

    topics: list[TopicSummary]


class PartitionState(Answer):
    """A partition. `leader` is null while none is elected; the first of the replicas is the preferred leader."""

    partition: int
    leader: int | None
    leader_epoch: int | None
    replicas: list[int]
    isr: list[int]
    offline_replicas: list[int]


class Topic(TopicSummary):
    """A topic with its partitions."""

    topic_id: str | None
    """As hexadecimal digits; null if the brokers are older than 2.8."""
    states: list[PartitionState]


async def list_topics(call: Call) -> TopicSummaries:
    """List all topics with the health of their replicas, from one request to the cluster."""
    return TopicSummaries(topics=[TopicSummary(**_summary(topic)) for topic in (await call.topics()).values()])


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
    ApiOperation("GET", "/topics", list_topics, Right(Operation.DESCRIBE), TopicSummaries),
    ApiOperation("GET", "/topics/{topic_name}", get_topic, DESCRIBE_TOPIC, Topic),
)
