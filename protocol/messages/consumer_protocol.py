"""The opaque bytes of consumers in JoinGroup and SyncGroup of classic groups.

Each has its version in front (protocol/versioned.py). A reader decodes an unknown newer version as the newest one that
it knows: later versions only append fields.
"""

from __future__ import annotations

from protocol.fields import array, byte_string, int32, string
from protocol.message import Message


class TopicPartition(Message):
    topic: str = string("1+")
    partitions: list[int] = array(int32, "1+")


class ConsumerProtocolSubscription(Message, versions="0-3"):
    topics: list[str] = array(string, "0+")
    user_data: bytes | None = byte_string("0+", nullable="0+", default=None)
    owned_partitions: list[TopicPartition] = array(TopicPartition, "1+", ignorable=True)
    generation_id: int = int32("2+", default=-1, ignorable=True)
    rack_id: str | None = string("3+", nullable="3+", default=None, ignorable=True)


class AssignedTopicPartition(Message):
    topic: str = string("0+")
    partitions: list[int] = array(int32, "0+")


class ConsumerProtocolAssignment(Message, versions="0-3"):
    assigned_partitions: list[AssignedTopicPartition] = array(AssignedTopicPartition, "0+")
    user_data: bytes | None = byte_string("0+", nullable="0+", default=None)
