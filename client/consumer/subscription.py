"""The messages between members of a classic group: subscriptions to the leader, assignments from the leader.

The broker does not decode them. KIP-429 and KIP-792 define the owned partitions and their generation.
"""

from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from client.topic_partition import TopicPartition
from protocol.errors import ProtocolError
from protocol.messages.consumer_protocol import (
    AssignedTopicPartition,
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)
from protocol.messages.consumer_protocol import TopicPartition as OwnedTopicPartitions
from protocol.versioned import decode_versioned, encode_versioned, peek_version

_SUBSCRIPTION_VERSION: Final = 3
_ASSIGNMENT_VERSION: Final = 3


class Subscription(NamedTuple):
    """The topics that a member subscribes to, and the partitions that it owns.

    `generation_id` is the generation in which it got `owned`, or -1. `user_data` belongs to the assignor.
    """

    topics: tuple[str, ...]
    owned: tuple[TopicPartition, ...] = ()
    generation_id: int = -1
    rack_id: str | None = None
    user_data: bytes | None = None

    def encode(self) -> bytes:
        """Return the bytes for JoinGroup."""
        owned = [OwnedTopicPartitions(topic=topic, partitions=numbers) for topic, numbers in _by_topic(self.owned)]
        message = ConsumerProtocolSubscription(
            topics=sorted(self.topics),
            user_data=self.user_data,
            owned_partitions=owned,
            generation_id=self.generation_id,
            rack_id=self.rack_id,
        )
        return encode_versioned(message, _SUBSCRIPTION_VERSION)

    @classmethod
    def decode(cls, data: bytes) -> "Subscription":
        """Decode the bytes of another member. Raises DecodeError for bytes that are not a subscription."""
        message = _decode(ConsumerProtocolSubscription, data)
        owned = tuple(
            TopicPartition(one.topic, number) for one in message.owned_partitions for number in one.partitions
        )
        return cls(tuple(message.topics), owned, message.generation_id, message.rack_id, message.user_data)


def encode_assignment(partitions: Iterable[TopicPartition]) -> bytes:
    """Return the bytes for SyncGroup."""
    assigned = [AssignedTopicPartition(topic=topic, partitions=numbers) for topic, numbers in _by_topic(partitions)]
    return encode_versioned(ConsumerProtocolAssignment(assigned_partitions=assigned), _ASSIGNMENT_VERSION)


def decode_assignment(data: bytes) -> tuple[TopicPartition, ...]:
    """Return the assigned partitions, sorted; none if `data` is empty. Raises DecodeError."""
    if not data:
        return ()
    return tuple(sorted(_flat(_decode(ConsumerProtocolAssignment, data).assigned_partitions)))


def assigned_partitions(data: bytes) -> tuple[TopicPartition, ...] | None:
    """As `decode_assignment`, but None for bytes that are not an assignment: any program can send any bytes."""
    try:
        return decode_assignment(data)
    except ProtocolError:
        return None


def _decode(message: Any, data: bytes) -> Any:
    """Decode any version; of a version newer than ours, the fields that we know."""
    if peek_version(data, message.NAME) <= message.MAX_VERSION:
        return decode_versioned(message, data)[0]
    return message.decode(data, message.MAX_VERSION, 2)[0]


def _flat(topics: Iterable[OwnedTopicPartitions | AssignedTopicPartition]) -> Iterable[TopicPartition]:
    return (TopicPartition(one.topic, number) for one in topics for number in one.partitions)


def _by_topic(partitions: Iterable[TopicPartition]) -> Iterable[tuple[str, list[int]]]:
    topics: dict[str, list[int]] = {}
    for topic, number in sorted(partitions):
        topics.setdefault(topic, []).append(number)
    return topics.items()
