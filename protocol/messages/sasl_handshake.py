"""Choose the SASL mechanism. After version 0 raw tokens follow, after 1 SaslAuthenticate requests."""

from __future__ import annotations

from protocol.fields import array, int16, string
from protocol.message import Message


class SaslHandshakeRequest(Message, api_key=17, versions="0-1"):
    mechanism: str = string("0+")


class SaslHandshakeResponse(Message, api_key=17, versions="0-1"):
    error_code: int = int16("0+")
    mechanisms: list[str] = array(string, "0+")
