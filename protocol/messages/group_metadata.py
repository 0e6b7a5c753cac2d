"""Records of `__consumer_offsets` that classic groups and all offset commits write.

In the log each key and value has its version in front (protocol/versioned.py). The key's version tells the
record: 0 and 1 are offset commits, 2 is group metadata; a null value deletes.
"""

from __future__ import annotations

from protocol.fields import array, byte_string, int32, int64, string
from protocol.message import Message


class OffsetCommitKey(Message, versions="0-1"):
    group: str = string("0+")
    topic: str = string("0+")
    partition: int = int32("0+")


class OffsetCommitValue(Message, versions="0-4", flexible="4+"):
    offset: int = int64("0+")
    leader_epoch: int = int32("3+", default=-1, ignorable=True)
    metadata: str = string("0+")
    commit_timestamp: int = int64("0+")
    expire_timestamp: int = int64("1", default=-1, ignorable=True)


class GroupMetadataKey(Message, versions="2"):
    group: str = string("2+")


class MemberMetadata(Message):
    member_id: str = string("0+")
    group_instance_id: str | None = string("3+", nullable="3+", default=None, ignorable=True)
    client_id: str = string("0+")
    client_host: str = string("0+")
    rebalance_timeout: int = int32("1+", default=-1, ignorable=True)
    session_timeout: int = int32("0+")
    subscription: bytes = byte_string("0+")
    assignment: bytes = byte_string("0+")


class GroupMetadataValue(Message, versions="0-4", flexible="4+"):
    protocol_type: str = string("0+")
    generation: int = int32("0+")
    protocol: str | None = string("0+", nullable="0+")
    leader: str | None = string("0+", nullable="0+")
    current_state_timestamp: int = int64("2+", default=-1, ignorable=True)
    members: list[MemberMetadata] = array(MemberMetadata, "0+")
