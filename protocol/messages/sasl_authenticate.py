"""Carry one SASL token each way."""

from __future__ import annotations

from protocol.fields import byte_string, int16, int64, string
from protocol.message import Message


class SaslAuthenticateRequest(Message, api_key=36, versions="0-2", flexible="2+"):
    auth_bytes: bytes = byte_string("0+")


class SaslAuthenticateResponse(Message, api_key=36, versions="0-2", flexible="2+"):
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+")
    auth_bytes: bytes = byte_string("0+")
    session_lifetime_ms: int = int64("1+", ignorable=True)
