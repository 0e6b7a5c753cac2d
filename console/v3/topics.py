"""Topics: list, create, describe, add partitions, delete."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from aiohttp import web
from pydantic import Field

from client.admin.types import USE_BROKER_DEFAULT, CreatedTopic, NewTopic
from client.errors import KafkaError
from client.wire.metadata import TopicMetadata
from console.rest.answering import json_response
from console.rest.call import Call
from console.rest.models import OMITTED_IF_NONE, Answer, Asked, Listing, Metadata, Name, Related
from console.rest.place import topic_place

_MAX_COUNT: Final = 2**31 - 1
Count = Annotated[int, Field(ge=1, le=_MAX_COUNT)]


class TopicData(Answer):
    """A topic. `replication_factor` is that of its first partition."""

    kind: Literal["KafkaTopic"] = "KafkaTopic"
    metadata: Metadata
    cluster_id: str
    topic_name: str
    is_internal: bool
    replication_factor: int
    partitions_count: int
    partitions: Related
    configs: Related
    partition_reassignments: Related
    authorized_operations: list[str] | None = OMITTED_IF_NONE


class TopicList(Listing[TopicData]):
    """Topics."""

    kind: Literal["KafkaTopicList"] = "KafkaTopicList"


class NewConfig(Asked):
    """A setting of a new topic."""

    name: Name
    value: str | None = None


class CreateTopic(Asked):
    """A topic to create. `replicas_assignments` has the broker ids of each partition, in place of the two counts."""

    topic_name: Name
    partitions_count: Count | None = None
    replication_factor: Annotated[int, Field(ge=1, le=2**15 - 1)] | None = None
    replicas_assignments: dict[int, list[int]] | None = None
    configs: list[NewConfig] = Field(default_factory=list)
    validate_only: bool = False


class UpdatePartitionCount(Asked):
    """The number of partitions that a topic is to have."""

    partitions_count: Count


async def list_topics(call: Call) -> TopicList:
    """List the topics, with the internal ones."""
    data = [_data(call, topic) for topic in (await call.topics()).values()]
    return TopicList(metadata=call.place.listed("topics"), data=data)


async def get_topic(call: Call) -> TopicData:
    """Describe a topic."""
    return _data(call, await call.topic())


async def create_topic(call: Call) -> web.Response:
    """Create a topic; with `validate_only`, only check the request (status 200)."""
    asked: CreateTopic = call.asked
    assignment = asked.replicas_assignments or None
    topic = NewTopic(
        asked.topic_name,
        asked.partitions_count or USE_BROKER_DEFAULT,
        asked.replication_factor or USE_BROKER_DEFAULT,
        assignment,
        {one.name: one.value for one in asked.configs},
    )
    created = (await call.admin.create_topics([topic], validate_only=asked.validate_only))[asked.topic_name]
    if isinstance(created, KafkaError):
        raise created
    data = _made(call, _with_counts(created, assignment))
    response = json_response(data, 200 if asked.validate_only else 201)
    response.headers["Location"] = data.metadata.url
    return response


async def update_partition_count(call: Call) -> TopicData:
    """Increase the number of partitions of a topic."""
    asked: UpdatePartitionCount = call.asked
    topic = await call.topic()
    await call.admin.create_partitions(topic.name, asked.partitions_count)
    data = _data(call, topic)  # brokers learn of the partitions a moment later
    return data.model_copy(update={"partitions_count": asked.partitions_count})


async def delete_topic(call: Call) -> None:
    """Delete a topic with all its records."""
    await call.admin.delete_topic(call.topic_name)


def _with_counts(created: CreatedTopic, assignment: dict[int, list[int]] | None) -> CreatedTopic:
    """Return the created topic with the counts of its assignment: brokers before 2.4 do not report them."""
    if assignment is None or created.partitions > 0:
        return created
    return created._replace(partitions=len(assignment), replication_factor=len(next(iter(assignment.values()))))


def _made(call: Call, created: CreatedTopic) -> TopicData:
    factor, count = max(created.replication_factor, 0), max(created.partitions, 0)
    return _described(call, created.name, is_internal=False, factor=factor, count=count)


def _data(call: Call, topic: TopicMetadata) -> TopicData:
    first = topic.partitions.get(0)
    factor = 0 if first is None else len(first.replicas)
    return _described(call, topic.name, is_internal=topic.is_internal, factor=factor, count=len(topic.partitions))


def _described(call: Call, name: str, *, is_internal: bool, factor: int, count: int) -> TopicData:
    place = topic_place(call.place, name)
    return TopicData(
        metadata=place.metadata,
        cluster_id=call.cluster_id,
        topic_name=name,
        is_internal=is_internal,
        replication_factor=factor,
        partitions_count=count,
        partitions=place.link("partitions"),
        configs=place.link("configs"),
        partition_reassignments=place.link("partitions", "-", "reassignment"),
    )
