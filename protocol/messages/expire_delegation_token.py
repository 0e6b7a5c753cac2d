"""Change the expiry time of a delegation token, or expire it now."""

from __future__ import annotations

from protocol.fields import byte_string, int16, int32, int64
from protocol.message import Message


class ExpireDelegationTokenRequest(Message, api_key=40, versions="0-2", flexible="2+"):
    hmac: bytes = byte_string("0+")
    expiry_time_period_ms: int = int64("0+")


class ExpireDelegationTokenResponse(Message, api_key=40, versions="0-2", flexible="2+"):
    error_code: int = int16("0+")
    expiry_timestamp_ms: int = int64("0+")
    throttle_time_ms: int = int32("0+")
