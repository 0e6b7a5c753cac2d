"""Records of `__consumer_offsets` that groups of the new protocol (KIP-848) write.

In the log each key and value has its version in front (protocol/versioned.py). The key's version tells the
record, 3 to 8 and 16; a null value deletes.
"""

from __future__ import annotations

from protocol.fields import array, byte_string, int8, int32, int64, string, struct, uuid
from protocol.message import Message


class ConsumerGroupMetadataKey(Message, versions="3"):
    group_id: str = string("3+")


class ConsumerGroupMetadataValue(Message, versions="0", flexible="0+"):
    epoch: int = int32("0+")


class ConsumerGroupPartitionMetadataKey(Message, versions="4"):
    group_id: str = string("4+")


class PartitionMetadata(Message):
    partition: int = int32("0+")
    racks: list[str] = array(string, "0+")


class TopicMetadata(Message):
    topic_id: bytes = uuid("0+")
    topic_name: str = string("0+")
    num_partitions: int = int32("0+")
    partition_metadata: list[PartitionMetadata] = array(PartitionMetadata, "0+")


class ConsumerGroupPartitionMetadataValue(Message, versions="0", flexible="0+"):
    topics: list[TopicMetadata] = array(TopicMetadata, "0+")


class ConsumerGroupMemberMetadataKey(Message, versions="5"):
    group_id: str = string("5+")
    member_id: str = string("5+")


class ClassicProtocol(Message):
    name: str = string("0+")
    metadata: bytes = byte_string("0+")


class ClassicMemberMetadata(Message):
    session_timeout_ms: int = int32("0+")
    supported_protocols: list[ClassicProtocol] = array(ClassicProtocol, "0+")


class ConsumerGroupMemberMetadataValue(Message, versions="0", flexible="0+"):
    instance_id: str | None = string("0+", nullable="0+")
    rack_id: str | None = string("0+", nullable="0+")
    client_id: str = string("0+")
    client_host: str = string("0+")
    subscribed_topic_names: list[str] = array(string, "0+")
    subscribed_topic_regex: str | None = string("0+", nullable="0+")
    rebalance_timeout_ms: int = int32("0+", default=-1)
    server_assignor: str | None = string("0+", nullable="0+")
    classic_member_metadata: ClassicMemberMetadata | None = struct(ClassicMemberMetadata, "0+", nullable="0+", tag=0)


class ConsumerGroupTargetAssignmentMetadataKey(Message, versions="6"):
    group_id: str = string("6+")


class ConsumerGroupTargetAssignmentMetadataValue(Message, versions="0", flexible="0+"):
    assignment_epoch: int = int32("0+")


class ConsumerGroupTargetAssignmentMemberKey(Message, versions="7"):
    group_id: str = string("7+")
    member_id: str = string("7+")


class TopicPartition(Message):
    topic_id: bytes = uuid("0+")
    partitions: list[int] = array(int32, "0+")


class ConsumerGroupTargetAssignmentMemberValue(Message, versions="0", flexible="0+"):
    topic_partitions: list[TopicPartition] = array(TopicPartition, "0+")


class ConsumerGroupCurrentMemberAssignmentKey(Message, versions="8"):
    group_id: str = string("8+")
    member_id: str = string("8+")


class TopicPartitions(Message):
    topic_id: bytes = uuid("0+")
    partitions: list[int] = array(int32, "0+")


class ConsumerGroupCurrentMemberAssignmentValue(Message, versions="0", flexible="0+"):
    member_epoch: int = int32("0+")
    previous_member_epoch: int = int32("0+")
    state: int = int8("0+")
    assigned_partitions: list[TopicPartitions] = array(TopicPartitions, "0+")
    partitions_pending_revocation: list[TopicPartitions] = array(TopicPartitions, "0+")


class ConsumerGroupRegularExpressionKey(Message, versions="16"):
    """Of Kafka 4.0."""

    group_id: str = string("16+")
    regular_expression: str = string("16+")


class ConsumerGroupRegularExpressionValue(Message, versions="0", flexible="0+"):
    """The topics that the expression matched at a version of the metadata, and the time of the match (ms)."""

    topics: list[str] = array(string, "0+")
    version: int = int64("0+")
    timestamp: int = int64("0+")
