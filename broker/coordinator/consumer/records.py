"""Encodes and decodes the records of `__consumer_offsets` that consumer groups write (KIP-848).

Keys have the versions 3 to 8, and 16 for resolved regular expressions (Kafka 4.0); values have version 0. The value of
a tombstone is None. The records of one step of a group are written in one batch, so that the log contains all of them
or none.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from broker.coordinator.consumer.member import Assignment, ClassicMember, ConsumerMember, MemberState, assignment_of
from broker.coordinator.consumer.topics import ResolvedRegex, SubscribedTopic, Topics
from protocol.buffer import Buffer
from protocol.message import Message
from protocol.messages.consumer_group_metadata import (
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupPartitionMetadataValue,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
    PartitionMetadata,
    TopicMetadata,
    TopicPartition,
    TopicPartitions,
)
from protocol.versioned import decode_versioned, encode_versioned, peek_version

VALUE_VERSION = 0

_KINDS: dict[int, tuple[type[Message], type[Message]]] = {
    3: (ConsumerGroupMetadataKey, ConsumerGroupMetadataValue),
    4: (ConsumerGroupPartitionMetadataKey, ConsumerGroupPartitionMetadataValue),
    5: (ConsumerGroupMemberMetadataKey, ConsumerGroupMemberMetadataValue),
    6: (ConsumerGroupTargetAssignmentMetadataKey, ConsumerGroupTargetAssignmentMetadataValue),
    7: (ConsumerGroupTargetAssignmentMemberKey, ConsumerGroupTargetAssignmentMemberValue),
    8: (ConsumerGroupCurrentMemberAssignmentKey, ConsumerGroupCurrentMemberAssignmentValue),
    16: (ConsumerGroupRegularExpressionKey, ConsumerGroupRegularExpressionValue),
}
_KEY_VERSIONS = {key: version for version, (key, _) in _KINDS.items()}
KEY_VERSIONS = frozenset(_KINDS)


class ConsumerRecord(NamedTuple):
    """One record; a tombstone if the value is None."""

    key: Message
    value: Message | None

    def encoded(self) -> tuple[bytes, bytes | None]:
        """Return the (key, value) bytes of the record in the log."""
        key = encode_versioned(self.key, _KEY_VERSIONS[type(self.key)])
        return key, None if self.value is None else encode_versioned(self.value, VALUE_VERSION)


def read_record(key: Buffer, value: Buffer | None) -> ConsumerRecord:
    """Decode a record whose key has one of KEY_VERSIONS. Raises ProtocolError."""
    key_class, value_class = _KINDS[peek_version(key)]
    read_key, _ = decode_versioned(key_class, key)
    return ConsumerRecord(read_key, None if value is None else decode_versioned(value_class, value)[0])


# -- the group -------------------------------------------------------------------------------------------------------


def group_record(group_id: str, epoch: int) -> ConsumerRecord:
    """Return the record of the group epoch."""
    return ConsumerRecord(ConsumerGroupMetadataKey(group_id=group_id), ConsumerGroupMetadataValue(epoch=epoch))


def topics_record(group_id: str, topics: Topics) -> ConsumerRecord:
    """Return the record of the partitions of the topics that the group is subscribed to."""
    value = ConsumerGroupPartitionMetadataValue(
        topics=[
            TopicMetadata(
                topic_id=topic.topic_id,
                topic_name=name,
                num_partitions=topic.partitions,
                partition_metadata=[
                    PartitionMetadata(partition=number, racks=list(racks)) for number, racks in topic.racks.items()
                ],
            )
            for name, topic in sorted(topics.items())
        ]
    )
    return ConsumerRecord(ConsumerGroupPartitionMetadataKey(group_id=group_id), value)


def read_topics(value: ConsumerGroupPartitionMetadataValue) -> dict[str, SubscribedTopic]:
    """Return the topics in the value of a `topics_record`, by name."""
    return {
        topic.topic_name: SubscribedTopic(
            topic.topic_id,
            topic.num_partitions,
            {one.partition: tuple(one.racks) for one in topic.partition_metadata},
        )
        for topic in value.topics
    }


def regex_record(group_id: str, pattern: str, resolved: ResolvedRegex | None) -> ConsumerRecord:
    """Return the record of a regular expression; a tombstone if `resolved` is None, when no member uses the pattern."""
    key = ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=pattern)
    if resolved is None:
        return ConsumerRecord(key, None)
    topics = sorted(resolved.topics)
    return ConsumerRecord(
        key, ConsumerGroupRegularExpressionValue(topics=topics, version=0, timestamp=resolved.timestamp)
    )


def read_regex(value: ConsumerGroupRegularExpressionValue) -> ResolvedRegex:
    """Return the resolved regular expression in the value of a `regex_record`."""
    return ResolvedRegex(frozenset(value.topics), value.timestamp)


def target_epoch_record(group_id: str, epoch: int) -> ConsumerRecord:
    """Return the record of the target assignment epoch."""
    return ConsumerRecord(
        ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id),
        ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=epoch),
    )


# -- its members -----------------------------------------------------------------------------------------------------


def member_record(group_id: str, member: ConsumerMember) -> ConsumerRecord:
    """Return the record of a member's metadata: the fields that it sends in its requests."""
    classic = member.classic
    value = ConsumerGroupMemberMetadataValue(
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=list(member.topics),
        subscribed_topic_regex=member.regex,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        server_assignor=member.assignor,
        classic_member_metadata=None
        if classic is None
        else ClassicMemberMetadata(
            session_timeout_ms=classic.session_timeout_ms,
            supported_protocols=[ClassicProtocol(name=name, metadata=metadata) for name, metadata in classic.protocols],
        ),
    )
    return ConsumerRecord(ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member.member_id), value)


def read_member(member: ConsumerMember, value: ConsumerGroupMemberMetadataValue) -> ConsumerMember:
    """Return the member with the metadata in the value of a `member_record`; epochs and assignment are kept."""
    classic = value.classic_member_metadata
    return member._replace(
        instance_id=value.instance_id,
        rack_id=value.rack_id,
        client_id=value.client_id,
        client_host=value.client_host,
        topics=tuple(sorted(set(value.subscribed_topic_names))),
        regex=value.subscribed_topic_regex or None,
        rebalance_timeout_ms=value.rebalance_timeout_ms,
        assignor=value.server_assignor,
        classic=None
        if classic is None
        else ClassicMember(
            classic.session_timeout_ms, tuple((one.name, bytes(one.metadata)) for one in classic.supported_protocols)
        ),
    )


def target_record(group_id: str, member_id: str, target: Assignment) -> ConsumerRecord:
    """Return the record of a member's target assignment."""
    value = ConsumerGroupTargetAssignmentMemberValue(
        topic_partitions=[
            TopicPartition(topic_id=topic_id, partitions=sorted(partitions)) for topic_id, partitions in target.items()
        ]
    )
    return ConsumerRecord(ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id), value)


def read_target(value: ConsumerGroupTargetAssignmentMemberValue) -> dict[bytes, frozenset[int]]:
    """Return the target assignment in the value of a `target_record`."""
    return assignment_of((one.topic_id, one.partitions) for one in value.topic_partitions)


def current_record(group_id: str, member: ConsumerMember) -> ConsumerRecord:
    """Return the record of a member's epochs, state and current assignment."""
    value = ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=member.epoch,
        previous_member_epoch=member.previous_epoch,
        state=member.state,
        assigned_partitions=_topic_partitions(member.assigned),
        partitions_pending_revocation=_topic_partitions(member.revoking),
    )
    return ConsumerRecord(ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member.member_id), value)


def read_current(member: ConsumerMember, value: ConsumerGroupCurrentMemberAssignmentValue) -> ConsumerMember:
    """Return the member with the epochs, the state and the assignment in the value of a `current_record`."""
    known = value.state in MemberState.__members__.values()
    return member._replace(
        epoch=value.member_epoch,
        previous_epoch=value.previous_member_epoch,
        state=MemberState(value.state) if known else MemberState.UNKNOWN,
        assigned=assignment_of((one.topic_id, one.partitions) for one in value.assigned_partitions),
        revoking=assignment_of((one.topic_id, one.partitions) for one in value.partitions_pending_revocation),
    )


def _topic_partitions(assignment: Assignment) -> list[TopicPartitions]:
    return [
        TopicPartitions(topic_id=topic_id, partitions=sorted(partitions)) for topic_id, partitions in assignment.items()
    ]


# -- deletion --------------------------------------------------------------------------------------------------------


def member_tombstones(group_id: str, member_id: str) -> list[ConsumerRecord]:
    """Return the tombstones of a member: its assignments first, its metadata last.

    So a reader of the log never sees an assignment of a member without metadata.
    """
    keys = (
        ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id),
        ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id),
        ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member_id),
    )
    return [ConsumerRecord(key, None) for key in keys]


def group_tombstones(group_id: str, member_ids: Iterable[str], patterns: Iterable[str]) -> list[ConsumerRecord]:
    """Return the tombstones of a group with these members and patterns, in the order that loading in Kafka requires."""
    member_ids = list(member_ids)
    keys: list[Message] = []
    keys += [ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=one) for one in member_ids]
    keys += [ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=one) for one in member_ids]
    keys.append(ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id))
    keys += [ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=one) for one in member_ids]
    keys += [ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=one) for one in patterns]
    keys.append(ConsumerGroupPartitionMetadataKey(group_id=group_id))
    keys.append(ConsumerGroupMetadataKey(group_id=group_id))
    return [ConsumerRecord(key, None) for key in keys]
