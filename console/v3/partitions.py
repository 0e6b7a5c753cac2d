"""Partitions: their leaders, replicas, offsets and reassignments."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from client.admin.types import Reassignment
from client.consumer.offsets import EARLIEST, LATEST
from client.topic_partition import TopicPartition
from client.wire.metadata import PartitionMetadata
from console.rest.call import Call
from console.rest.errors import not_found
from console.rest.models import OMITTED_IF_NONE, Answer, Listing, Metadata, Related
from console.rest.place import broker_place, partition_place, topic_place
from console.v3.brokers import live_broker


class PartitionData(Answer):
    """A partition. It has no `leader` while none is elected."""

    kind: Literal["KafkaPartition"] = "KafkaPartition"
    metadata: Metadata
    cluster_id: str
    topic_name: str
    partition_id: int
    leader: Related | None = OMITTED_IF_NONE
    replicas: Related
    reassignment: Related


class PartitionList(Listing[PartitionData]):
    """Partitions."""

    kind: Literal["KafkaPartitionList"] = "KafkaPartitionList"


class PartitionOffsets(Answer):
    """The log start offset and the high watermark of a partition."""

    kind: Literal["KafkaPartitionWithOffsets"] = "KafkaPartitionWithOffsets"
    metadata: Metadata
    cluster_id: str
    topic_name: str
    partition_id: int
    earliest_offset: int
    latest_offset: int


class ReplicaData(Answer):
    """The replica of a partition on one broker."""

    kind: Literal["KafkaReplica"] = "KafkaReplica"
    metadata: Metadata
    cluster_id: str
    topic_name: str
    partition_id: int
    broker_id: int
    is_leader: bool
    is_in_sync: bool
    broker: Related


class ReplicaList(Listing[ReplicaData]):
    """Replicas."""

    kind: Literal["KafkaReplicaList"] = "KafkaReplicaList"


class ReassignmentData(Answer):
    """A partition that is being moved: the replicas that are added and removed."""

    kind: Literal["KafkaReassignment"] = "KafkaReassignment"
    metadata: Metadata
    cluster_id: str
    topic_name: str
    partition_id: int
    adding_replicas: list[int]
    removing_replicas: list[int]
    replicas: Related


class ReassignmentList(Listing[ReassignmentData]):
    """Reassignments in progress."""

    kind: Literal["KafkaReassignmentList"] = "KafkaReassignmentList"


async def list_partitions(call: Call) -> PartitionList:
    """List the partitions of a topic."""
    topic = await call.topic()
    data = [_data(call, topic.partitions[number]) for number in sorted(topic.partitions)]
    return PartitionList(metadata=topic_place(call.place, topic.name).listed("partitions"), data=data)


async def get_partition(call: Call) -> PartitionData:
    """Describe a partition."""
    return _data(call, await call.partition())


async def get_partition_offsets(call: Call) -> PartitionOffsets:
    """Return the log start offset and the high watermark of a partition."""
    partition = TopicPartition(call.topic_name, (await call.partition()).partition)
    earliest = (await call.admin.list_offsets({partition: EARLIEST}))[partition].offset
    latest = (await call.admin.list_offsets({partition: LATEST}))[partition].offset
    place = partition_place(call.place, *partition)
    return PartitionOffsets(
        metadata=place.only("offset").metadata,
        cluster_id=call.cluster_id,
        topic_name=partition.topic,
        partition_id=partition.partition,
        earliest_offset=earliest,
        latest_offset=latest,
    )


# -- replicas ---------------------------------------------------------------------------------------------------------


async def list_replicas(call: Call) -> ReplicaList:
    """List the replicas of a partition, the preferred leader first."""
    partition = await call.partition()
    place = partition_place(call.place, call.topic_name, partition.partition)
    data = [_replica(call, call.topic_name, partition, broker_id) for broker_id in partition.replicas]
    return ReplicaList(metadata=place.listed("replicas"), data=data)


async def get_replica(call: Call) -> ReplicaData:
    """Describe the replica of a partition on one broker."""
    partition, broker_id = await call.partition(), call.number("broker_id")
    if broker_id not in partition.replicas:
        raise not_found(f"{call.topic_name}-{partition.partition} has no replica on broker {broker_id}")
    return _replica(call, call.topic_name, partition, broker_id)


async def list_broker_replicas(call: Call) -> ReplicaList:
    """List the replicas on a broker."""
    broker = await live_broker(call)
    data = [
        _replica(call, name, partition, broker.node_id)
        for name, topic in (await call.topics()).items()
        for partition in topic.partitions.values()
        if broker.node_id in partition.replicas
    ]
    return ReplicaList(metadata=broker_place(call.place, broker.node_id).listed("partition-replicas"), data=data)


# -- reassignments ----------------------------------------------------------------------------------------------------


async def list_all_reassignments(call: Call) -> ReassignmentList:
    """List the reassignments in progress."""
    found = await call.admin.list_partition_reassignments()
    return _reassignments(call, "-", found.items())


async def list_topic_reassignments(call: Call) -> ReassignmentList:
    """List the reassignments in progress of a topic."""
    topic = await call.topic()
    wanted = [TopicPartition(topic.name, number) for number in topic.partitions]
    found = await call.admin.list_partition_reassignments(wanted)
    return _reassignments(call, topic.name, found.items())


async def get_reassignment(call: Call) -> ReassignmentData:
    """Describe the reassignment of a partition that is in progress."""
    partition = TopicPartition(call.topic_name, (await call.partition()).partition)
    found = await call.admin.list_partition_reassignments([partition])
    if partition not in found:
        raise not_found(f"{partition} is not being reassigned")
    return _reassignment(call, partition, found[partition])


def _reassignments(call: Call, topic: str, found: Iterable[tuple[TopicPartition, Reassignment]]) -> ReassignmentList:
    return ReassignmentList(
        metadata=call.place.listed("topics", topic, "partitions", "-", "reassignment"),
        data=[_reassignment(call, partition, one) for partition, one in found if call.sees_topic(partition.topic)],
    )


def _reassignment(call: Call, partition: TopicPartition, found: Reassignment) -> ReassignmentData:
    place = partition_place(call.place, *partition)
    return ReassignmentData(
        metadata=place.only("reassignment").metadata,
        cluster_id=call.cluster_id,
        topic_name=partition.topic,
        partition_id=partition.partition,
        adding_replicas=list(found.adding),
        removing_replicas=list(found.removing),
        replicas=place.link("replicas"),
    )


def _data(call: Call, partition: PartitionMetadata) -> PartitionData:
    place = partition_place(call.place, call.topic_name, partition.partition)
    return PartitionData(
        metadata=place.metadata,
        cluster_id=call.cluster_id,
        topic_name=call.topic_name,
        partition_id=partition.partition,
        leader=None if partition.leader < 0 else place.link("replicas", str(partition.leader)),
        replicas=place.link("replicas"),
        reassignment=place.link("reassignment"),
    )


def _replica(call: Call, topic: str, partition: PartitionMetadata, broker_id: int) -> ReplicaData:
    place = partition_place(call.place, topic, partition.partition).part("replicas", broker_id, "replica")
    return ReplicaData(
        metadata=place.metadata,
        cluster_id=call.cluster_id,
        topic_name=topic,
        partition_id=partition.partition,
        broker_id=broker_id,
        is_leader=broker_id == partition.leader,
        is_in_sync=broker_id in partition.isr,
        broker=broker_place(call.place, broker_id).link(),
    )
