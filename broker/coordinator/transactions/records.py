"""The records of `__transaction_state`: the last record of a transactional id holds its state.

Key: the transactional id. Value: its state, None for a tombstone. Kafka 3.9 writes version 0 of both, which does not
hold the producer's last epoch: after a change of coordinator a retry of InitProducerId is not recognized, as in Kafka.
"""

from __future__ import annotations

from collections.abc import Iterable

from broker.coordinator.transactions.transaction import Transaction, TransactionState, Transition
from protocol.buffer import Buffer
from protocol.errors import DecodeError
from protocol.messages.transaction_log import PartitionsSchema, TransactionLogKey, TransactionLogValue
from protocol.versioned import decode_versioned, encode_versioned, peek_version

KEY_VERSION = 0
VALUE_VERSION = 0
_STATUS_OFFSET = 16
"""Of the state in a value of either version."""


def encode_key(transactional_id: str) -> bytes:
    """Return the key of a transactional id's records."""
    return encode_versioned(TransactionLogKey(transactional_id=transactional_id), KEY_VERSION)


def encode_value(transition: Transition) -> bytes:
    """Return the value that holds the state after a transition."""
    value = TransactionLogValue(
        producer_id=transition.producer_id,
        producer_epoch=transition.producer_epoch,
        transaction_timeout_ms=transition.timeout_ms,
        transaction_status=transition.state,
        transaction_partitions=(
            None if transition.state is TransactionState.EMPTY else _by_topic(transition.partitions)
        ),
        transaction_last_update_timestamp_ms=transition.update_ms,
        transaction_start_timestamp_ms=transition.start_ms,
    )
    return encode_versioned(value, VALUE_VERSION)


def decode_key(key: Buffer | None) -> str | None:
    """Return the transactional id; None for a key of an unknown version. Raises DecodeError."""
    if key is None:
        raise DecodeError("TransactionLogKey", "key", 0, "a record of a transactional id has a key")
    if peek_version(key) > KEY_VERSION:
        return None
    return decode_versioned(TransactionLogKey, key)[0].transactional_id


def decode_value(transactional_id: str, value: Buffer) -> Transaction:
    """Return the state of a transactional id. Raises DecodeError, UnsupportedVersionError."""
    fields, _ = decode_versioned(TransactionLogValue, value)
    try:
        state = TransactionState(fields.transaction_status)
    except ValueError:
        raise DecodeError(
            "TransactionLogValue", "transaction_status", _STATUS_OFFSET, f"{fields.transaction_status} is no state"
        ) from None
    transaction = Transaction(
        transactional_id,
        fields.producer_id,
        fields.transaction_timeout_ms,
        fields.transaction_last_update_timestamp_ms,
    )
    transaction.state = state
    transaction.producer_epoch = fields.producer_epoch
    transaction.start_ms = fields.transaction_start_timestamp_ms
    for topic in fields.transaction_partitions or ():
        transaction.partitions.update((topic.topic, partition) for partition in topic.partition_ids)
    return transaction


def _by_topic(partitions: Iterable[tuple[str, int]]) -> list[PartitionsSchema]:
    topics: dict[str, list[int]] = {}
    for topic, partition in sorted(partitions):
        topics.setdefault(topic, []).append(partition)
    return [PartitionsSchema(topic=topic, partition_ids=numbers) for topic, numbers in topics.items()]
