"""Records of `__transaction_state`: one transactional id's state.

In the log key and value have their version in front (protocol/versioned.py).
"""

from __future__ import annotations

from protocol.fields import array, int8, int16, int32, int64, string
from protocol.message import Message


class TransactionLogKey(Message, versions="0"):
    transactional_id: str = string("0+")


class PartitionsSchema(Message):
    topic: str = string("0+")
    partition_ids: list[int] = array(int32, "0+")


class TransactionLogValue(Message, versions="0-1", flexible="1+"):
    producer_id: int = int64("0+")
    producer_epoch: int = int16("0+")
    transaction_timeout_ms: int = int32("0+")
    transaction_status: int = int8("0+")
    transaction_partitions: list[PartitionsSchema] | None = array(PartitionsSchema, "0+", nullable="0+")
    transaction_last_update_timestamp_ms: int = int64("0+")
    transaction_start_timestamp_ms: int = int64("0+")
