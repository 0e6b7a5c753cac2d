"""Get a producer id and epoch; for a transactional id this also fences older producers and ends what they
left.

Version 3 lets a producer bump its own epoch (KIP-360), 5 is for KIP-890 and changes no field.
"""

from __future__ import annotations

from protocol.fields import int16, int32, int64, string
from protocol.message import Message


class InitProducerIdRequest(Message, api_key=22, versions="0-5", flexible="2+"):
    transactional_id: str | None = string("0+", nullable="0+")
    transaction_timeout_ms: int = int32("0+")
    producer_id: int = int64("3+", default=-1)
    producer_epoch: int = int16("3+", default=-1)


class InitProducerIdResponse(Message, api_key=22, versions="0-5", flexible="2+"):
    throttle_time_ms: int = int32("0+", ignorable=True)
    error_code: int = int16("0+")
    producer_id: int = int64("0+", default=-1)
    producer_epoch: int = int16("0+")
