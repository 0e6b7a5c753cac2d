"""Commit or abort a transaction; sent by the producer to the transaction coordinator."""

from __future__ import annotations

from protocol.fields import boolean, int16, int32, int64, string
from protocol.message import Message


class EndTxnRequest(Message, api_key=26, versions="0-4", flexible="3+"):
    transactional_id: str = string("0+")
    producer_id: int = int64("0+")
    producer_epoch: int = int16("0+")
    committed: bool = boolean("0+")


class EndTxnResponse(Message, api_key=26, versions="0-4", flexible="3+"):
    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
