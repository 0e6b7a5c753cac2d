"""Changes the type of a group: upgrade from classic to consumer group, and downgrade from consumer to classic group.

A group is upgraded when its first member of the consumer protocol joins, and downgraded when the last one leaves. The
assignment of a classic group becomes the target and current assignment of the consumer group; the target assignment
of a consumer group becomes the assignment of the classic group. The members of the classic protocol stay members. They
are told to rebalance, unless the last member of the consumer protocol was a static one that JoinGroup replaced.
Pure. Source: KIP-848 (online migration); ConsumerGroup.fromClassicGroup, ClassicGroup.fromConsumerGroup.
"""

from __future__ import annotations

from broker.coordinator.classic.group import CONSUMER, NEWEST_SUBSCRIPTION, Group, GroupState
from broker.coordinator.classic.member import Member
from broker.coordinator.consumer.group import ConsumerGroup
from broker.coordinator.consumer.member import NOTHING, Assignment, ClassicMember, ConsumerMember, assignment_of
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


def upgraded(classic: Group, image: TopicsImage) -> ConsumerGroup:
    """Return the consumer group with the members of a classic group of consumers. Raises ProtocolError."""
    group_id, generation = classic.group_id, classic.generation
    records: list[ConsumerRecord] = [group_record(group_id, generation), target_epoch_record(group_id, generation)]
    for member in classic.members.values():
        # Members that are rejoining may no longer support the protocol of the last generation.
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
    """Return the classic group without the leaving member, which `joining` replaces if it is not None.

    The group is in state Stable. Raises ProtocolError.
    """
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
    """Return the encoded assignment of a member of the classic protocol, in the version of the member's metadata."""
    topics = []
    for topic_id, partitions in assigned.items():
        name = image.name(topic_id)
        if name is not None:
            topics.append(AssignedTopicPartition(topic=name, partitions=sorted(partitions)))
    version = max(min(peek_version(metadata), NEWEST_SUBSCRIPTION), 0)
    return encode_versioned(ConsumerProtocolAssignment(assigned_partitions=topics), version)


def _read_assignment(data: bytes, image: TopicsImage) -> Assignment:
    """Return the assignment of a classic member; NOTHING before the first one. Raises ProtocolError."""
    if not data:
        return NOTHING
    read, _ = ConsumerProtocolAssignment.decode(data, min(peek_version(data), NEWEST_SUBSCRIPTION), 2)
    pairs = ((image.topic_id(one.topic), one.partitions) for one in read.assigned_partitions)
    return assignment_of((topic_id, partitions) for topic_id, partitions in pairs if topic_id is not None)
