"""A group changes its type: from classic to consumer with its first member of the new protocol, and back with its last.

Nobody loses what it owns: the assignment of the one is where the members of the other stand. The classic members of a
group that is upgraded stay members, and hear of a rebalance; so do those of one that is downgraded.
Pure. Source: KIP-848 (online migration); ConsumerGroup.fromClassicGroup, ClassicGroup.fromConsumerGroup.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from broker.coordinator.classic.group import CONSUMER, NEWEST_SUBSCRIPTION, Group, GroupState
from broker.coordinator.classic.member import Member
from broker.coordinator.consumer.group import ConsumerGroup
from broker.coordinator.consumer.member import NOTHING, Assignment, ClassicMember, ConsumerMember, assignment_of
from broker.coordinator.consumer.membership import Committed, ConsumerHost
from broker.coordinator.consumer.records import (
    ConsumerRecord,
    current_record,
    group_record,
    member_record,
    target_epoch_record,
    target_record,
)
from broker.coordinator.consumer.topics import TopicsImage
from protocol.messages.consumer_protocol import (
    AssignedTopicPartition,
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)
from protocol.versioned import encode_versioned, peek_version


class ClassicHost(ConsumerHost, Protocol):
    """What surrounds consumer groups with members of the classic protocol."""

    def downgrade_replaced(
        self,
        group: ConsumerGroup,
        old: ConsumerMember,
        new: ConsumerMember,
        records: Sequence[ConsumerRecord],
    ) -> Committed | None:
        """Make a classic group of it if `new`, which takes the place of `old`, leaves no consumer in it.

        records: those of the new member, which go first. None where it stays what it is. Raises GroupError.
        """
        ...


def upgraded(classic: Group, image: TopicsImage) -> ConsumerGroup:
    """The consumer group with the members of a classic group of consumers. Raises ProtocolError."""
    group_id, generation = classic.group_id, classic.generation
    records: list[ConsumerRecord] = [group_record(group_id, generation), target_epoch_record(group_id, generation)]
    for member in classic.members.values():
        # Members that are joining again may not know the protocol of the last generation.
        metadata = dict(member.protocols).get(classic.protocol_name or "", member.protocols[0][1])
        version = min(peek_version(metadata), NEWEST_SUBSCRIPTION)
        subscription, _ = ConsumerProtocolSubscription.decode(metadata, version, 2)
        assigned = _read_assignment(member.assignment, image)
        consumer = ConsumerMember(
            member.member_id,
            instance_id=member.group_instance_id,
            rack_id=subscription.rack_id,
            client_id=member.client_id,
            client_host=member.client_host,
            topics=tuple(sorted(set(subscription.topics))),
            rebalance_timeout_ms=member.rebalance_timeout_ms,
            classic=ClassicMember(member.session_timeout_ms, member.protocols),
            epoch=generation,
            previous_epoch=generation,
            assigned=assigned,
        )
        records.append(member_record(group_id, consumer))
        records.append(target_record(group_id, consumer.member_id, assigned))
        records.append(current_record(group_id, consumer))
    group = ConsumerGroup(group_id, classic.offsets)
    for record in records:
        group.apply(record)
    return group


def downgraded(
    group: ConsumerGroup, leaving: ConsumerMember, joining: ConsumerMember | None, image: TopicsImage, now_ms: int
) -> Group:
    """The classic group of all members but the leaving one, and with the joining one in its place. It is stable."""
    classic = Group(group.group_id, now_ms)
    classic.offsets = group.offsets
    classic.generation = group.epoch
    members = [member for member in group.members.values() if member.member_id != leaving.member_id]
    if joining is not None:
        members.append(joining)
    for member in members:
        assert member.classic is not None
        classic.add(
            Member(
                member.member_id,
                group_instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                rebalance_timeout_ms=member.rebalance_timeout_ms,
                session_timeout_ms=member.classic.session_timeout_ms,
                protocols=member.classic.protocols,
            ),
            CONSUMER,
        )
    classic.protocol_name = classic.select_protocol()
    classic.state = GroupState.STABLE
    classic.refresh_subscription()
    for one in classic.members.values():
        place = leaving.member_id if joining is not None and one.member_id == joining.member_id else one.member_id
        target = group.targets.get(place, NOTHING)
        one.assignment = serialized_assignment(target, one.metadata(classic.protocol_name), image)
    return classic


def serialized_assignment(assigned: Assignment, metadata: bytes, image: TopicsImage) -> bytes:
    """An assignment for a member of the classic protocol, in the version of what it said itself."""
    topics = []
    for topic_id, partitions in assigned.items():
        name = image.name(topic_id)
        if name is not None:
            topics.append(AssignedTopicPartition(topic=name, partitions=sorted(partitions)))
    version = max(min(peek_version(metadata), NEWEST_SUBSCRIPTION), 0)
    return encode_versioned(ConsumerProtocolAssignment(assigned_partitions=topics), version)


def _read_assignment(data: bytes, image: TopicsImage) -> Assignment:
    """What a classic member owns; nothing before its first assignment. Raises ProtocolError."""
    if not data:
        return NOTHING
    read, _ = ConsumerProtocolAssignment.decode(data, min(peek_version(data), NEWEST_SUBSCRIPTION), 2)
    pairs = ((image.topic_id(one.topic), one.partitions) for one in read.assigned_partitions)
    return assignment_of((topic_id, partitions) for topic_id, partitions in pairs if topic_id is not None)
