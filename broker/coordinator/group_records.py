"""Encodes and decodes the records of classic groups and of committed offsets in `__consumer_offsets`.

The versions written are those of Kafka 3.9 in ZooKeeper mode: offsets with key version 1 and value version 3 (1 if an
old client set an expire timestamp), groups with key version 2 and value version 3. All versions are read.
"""

from __future__ import annotations

from collections.abc import Mapping

from broker.coordinator.classic.group import Group, GroupState
from broker.coordinator.classic.member import Member
from broker.coordinator.offsets import CommittedOffset, TopicPartition
from protocol.buffer import Buffer
from protocol.messages.group_metadata import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
)
from protocol.record import NO_TIMESTAMP
from protocol.versioned import decode_versioned, encode_versioned

OFFSET_KEY_VERSIONS = (0, 1)
GROUP_KEY_VERSION = 2
_OFFSET_VALUE_VERSION = 3
_OFFSET_VALUE_VERSION_WITH_EXPIRY = 1
_GROUP_VALUE_VERSION = 3

Encoded = tuple[bytes, bytes | None]
"""The key and the value of a record; None is a tombstone."""


def offset_key(group_id: str, partition: TopicPartition) -> bytes:
    """Encode the key of a committed offset."""
    return encode_versioned(OffsetCommitKey(group=group_id, topic=partition[0], partition=partition[1]), 1)


def offset_value(offset: CommittedOffset) -> bytes:
    """Encode the value of a committed offset."""
    has_expiry = offset.expire_timestamp != NO_TIMESTAMP
    value = OffsetCommitValue(
        offset=offset.offset,
        leader_epoch=offset.leader_epoch,
        metadata=offset.metadata,
        commit_timestamp=offset.commit_timestamp,
        expire_timestamp=offset.expire_timestamp,
    )
    return encode_versioned(value, _OFFSET_VALUE_VERSION_WITH_EXPIRY if has_expiry else _OFFSET_VALUE_VERSION)


def read_offset(value: Buffer, log_offset: int) -> CommittedOffset:
    """Decode the value of a committed offset. log_offset: the first offset of its batch. Raises ProtocolError."""
    read, _ = decode_versioned(OffsetCommitValue, value)
    return CommittedOffset(
        read.offset, read.leader_epoch, read.metadata, read.commit_timestamp, read.expire_timestamp, log_offset
    )


def group_key(group_id: str) -> bytes:
    """Encode the key of a group."""
    return encode_versioned(GroupMetadataKey(group=group_id), GROUP_KEY_VERSION)


def group_value(group: Group, assignments: Mapping[str, bytes]) -> bytes:
    """Encode the value of a group: its current generation with these assignments by member id."""
    protocol = group.protocol_name
    members = []
    for member in group.members.values():
        assert protocol is not None
        members.append(
            MemberMetadata(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                rebalance_timeout=member.rebalance_timeout_ms,
                session_timeout=member.session_timeout_ms,
                subscription=member.metadata(protocol),
                assignment=assignments[member.member_id],
            )
        )
    value = GroupMetadataValue(
        protocol_type=group.protocol_type or "",
        generation=group.generation,
        protocol=protocol,
        leader=group.leader_id,
        current_state_timestamp=group.state_timestamp,
        members=members,
    )
    return encode_versioned(value, _GROUP_VALUE_VERSION)


def read_group(group_id: str, value: Buffer, now_ms: int) -> Group:
    """Decode the value of a group. The state is Stable, or Empty without members. Raises ProtocolError."""
    read, version = decode_versioned(GroupMetadataValue, value)
    group = Group(group_id, now_ms)
    group.generation = read.generation
    for member in read.members:
        group.add(
            Member(
                member.member_id,
                group_instance_id=member.group_instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                rebalance_timeout_ms=member.session_timeout if version == 0 else member.rebalance_timeout,
                session_timeout_ms=member.session_timeout,
                protocols=((read.protocol or "", member.subscription),),
                assignment=member.assignment,
            ),
            read.protocol_type,
        )
    group.state = GroupState.STABLE if read.members else GroupState.EMPTY
    group.state_timestamp = read.current_state_timestamp
    group.protocol_type = read.protocol_type or None
    group.protocol_name = read.protocol
    group.leader_id = read.leader
    group.refresh_subscription()
    return group
