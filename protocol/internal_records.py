"""Decode the keys and values of Kafka's internal topics for display.

`__consumer_offsets` has the records of groups (the version at the start of the key is the type of the record),
`__transaction_state` the state of transactional ids. The subscriptions and assignments in a group's record are
decoded, too, if it is a consumer group.
"""

import base64
from functools import cache
from typing import Any, Final

from protocol.buffer import Buffer
from protocol.errors import ProtocolError
from protocol.json import to_json
from protocol.message import Message
from protocol.messages import consumer_group_metadata as new
from protocol.messages import group_metadata as classic
from protocol.messages.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from protocol.messages.transaction_log import TransactionLogKey, TransactionLogValue
from protocol.versioned import peek_version

OFFSETS_TOPIC: Final = "__consumer_offsets"
TRANSACTIONS_TOPIC: Final = "__transaction_state"
TRANSACTION_STATES: Final = (
    "Empty",
    "Ongoing",
    "PrepareCommit",
    "PrepareAbort",
    "CompleteCommit",
    "CompleteAbort",
    "Dead",
    "PrepareEpochFence",
)

Schema = tuple[type[Message], type[Message]]


@cache
def _schemas(topic: str) -> dict[int, Schema]:
    """Return the classes of key and value by the key's version."""
    if topic == TRANSACTIONS_TOPIC:
        return {0: (TransactionLogKey, TransactionLogValue)}
    return {
        0: (classic.OffsetCommitKey, classic.OffsetCommitValue),
        1: (classic.OffsetCommitKey, classic.OffsetCommitValue),
        2: (classic.GroupMetadataKey, classic.GroupMetadataValue),
        3: (new.ConsumerGroupMetadataKey, new.ConsumerGroupMetadataValue),
        4: (new.ConsumerGroupPartitionMetadataKey, new.ConsumerGroupPartitionMetadataValue),
        5: (new.ConsumerGroupMemberMetadataKey, new.ConsumerGroupMemberMetadataValue),
        6: (new.ConsumerGroupTargetAssignmentMetadataKey, new.ConsumerGroupTargetAssignmentMetadataValue),
        7: (new.ConsumerGroupTargetAssignmentMemberKey, new.ConsumerGroupTargetAssignmentMemberValue),
        8: (new.ConsumerGroupCurrentMemberAssignmentKey, new.ConsumerGroupCurrentMemberAssignmentValue),
        16: (new.ConsumerGroupRegularExpressionKey, new.ConsumerGroupRegularExpressionValue),
    }


def is_internal(topic: str) -> bool:
    """Return whether this module decodes records of this topic."""
    return topic in (OFFSETS_TOPIC, TRANSACTIONS_TOPIC)


def decode_record(topic: str, key: bytes | None, value: bytes | None) -> tuple[Any, Any] | None:
    """Return key and value for JSON, each as {"type": name, "version": number, "data": fields}.

    A null value stays None. Returns None if the key's type is unknown, or if key or value is malformed.
    """
    if key is None:
        return None
    try:
        schema = _schemas(topic).get(peek_version(key))
        if schema is None:
            return None
        key_class, value_class = schema
        return _decode(key_class, key), None if value is None else _decode(value_class, value)
    except ProtocolError:
        return None


def _decode(message: type[Message], data: bytes) -> dict[str, Any]:
    version = peek_version(data)
    fields = to_json(message.decode(data, version, 2)[0], version)
    if message.NAME == "GroupMetadataValue" and fields["protocolType"] == "consumer":
        for member in fields["members"]:
            _decode_member(member)
    if "transactionStatus" in fields and 0 <= fields["transactionStatus"] < len(TRANSACTION_STATES):
        fields["transactionStatus"] = TRANSACTION_STATES[fields["transactionStatus"]]
    return {"type": message.NAME, "version": version, "data": fields}


def _decode_member(member: dict[str, Any]) -> None:
    """Replace a member's subscription and assignment with their decoded fields; keep the base64 if that fails."""
    kinds: tuple[tuple[str, type[Message]], ...] = (
        ("subscription", ConsumerProtocolSubscription),
        ("assignment", ConsumerProtocolAssignment),
    )
    for name, kind in kinds:
        data = base64.b64decode(member[name])
        if not data:
            continue
        try:
            # A newer version begins with the fields of the newest known version.
            version = min(peek_version(data), kind.MAX_VERSION)
            member[name] = to_json(kind.decode(data, version, 2)[0], version)
        except ProtocolError:
            continue


def text_of(value: Buffer | None) -> Any:
    """Convert bytes for JSON: to text if they are printable, else to {"base64": "..."}; None stays None."""
    if value is None:
        return None
    try:
        text = bytes(value).decode()
    except UnicodeDecodeError:
        text = "\0"
    if text and not text.isprintable():
        return {"base64": base64.b64encode(value).decode()}
    return text
