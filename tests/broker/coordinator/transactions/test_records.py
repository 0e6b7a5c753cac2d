"""Records of `__transaction_state`: those that Kafka wrote are read, and written again as they were."""

from __future__ import annotations

from base64 import b64decode

import pytest

from broker.coordinator.transactions.records import decode_key, decode_value, encode_key, encode_value
from broker.coordinator.transactions.transaction import Transaction, TransactionState, Transition
from protocol.errors import DecodeError, UnsupportedVersionError
from support.log_dirs import expected

RECORDED = {
    "__transaction_state-47": ("txn-one", TransactionState.COMPLETE_ABORT, 4, 0),
    "__transaction_state-3": ("txn-two", TransactionState.COMPLETE_COMMIT, 5, 0),
    "__transaction_state-25": ("txn-three", TransactionState.COMPLETE_COMMIT, 6, 2),
    "__transaction_state-48": ("txn-ongoing", TransactionState.ONGOING, 7, 0),
}


def transition_of(transaction: Transaction) -> Transition:
    """What was written to make it what it is."""
    return Transition(
        transaction.state,
        transaction.producer_id,
        transaction.producer_epoch,
        transaction.previous_producer_id,
        transaction.last_producer_epoch,
        transaction.timeout_ms,
        frozenset(transaction.partitions),
        transaction.start_ms,
        transaction.update_ms,
    )


@pytest.mark.parametrize("name", RECORDED)
def test_recorded_records_are_written_byte_for_byte(name):
    count = 0
    for segment in expected(name)["segments"]:
        for batch in segment["batches"]:
            for record in batch["records"]:
                key, value = b64decode(record["key"]["b64"]), b64decode(record["value"]["b64"])
                transactional_id = decode_key(key)
                assert encode_key(transactional_id) == key
                transaction = decode_value(transactional_id, value)
                decoded = record["decodedValue"]["data"]
                encoded = encode_value(transition_of(transaction))
                if len(decoded["transactionPartitions"] or ()) < 2:
                    assert encoded == value
                else:  # Kafka's topics are in the order of a hash map, ours by name
                    assert len(encoded) == len(value)
                    assert transition_of(decode_value(transactional_id, encoded)) == transition_of(transaction)
                named = {
                    (topic["topic"], partition)
                    for topic in decoded["transactionPartitions"] or ()
                    for partition in topic["partitionIds"]
                }
                assert transaction.partitions == named
                assert transaction.producer_id == decoded["producerId"]
                assert transaction.state == decoded["transactionStatus"]
                assert transaction.timeout_ms == decoded["transactionTimeoutMs"]
                assert transaction.start_ms == decoded["transactionStartTimestampMs"]
                count += 1
    transactional_id, state, producer_id, epoch = RECORDED[name]
    assert (transaction.transactional_id, transaction.state) == (transactional_id, state)
    assert (transaction.producer_id, transaction.producer_epoch) == (producer_id, epoch)
    assert count == {"47": 45, "3": 25, "25": 8, "48": 2}[name.rpartition("-")[2]]


def test_invalid_records_are_refused():
    key = encode_key("t")
    assert decode_key(b"\0\x01" + key[2:]) is None  # a kind of record that is not known yet
    with pytest.raises(DecodeError):
        decode_key(None)
    with pytest.raises(DecodeError):
        decode_key(key[:-1])
    value = encode_value(transition_of(Transaction("t", 1, 1000, 5)))
    with pytest.raises(UnsupportedVersionError):
        decode_value("t", b"\0\x07" + value[2:])
    with pytest.raises(DecodeError, match="9 is no state") as refused:
        decode_value("t", value[:16] + b"\x09" + value[17:])
    assert refused.value.offset == 16
    with pytest.raises(DecodeError):
        decode_value("t", value[:10])
