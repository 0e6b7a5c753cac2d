"""A broker forwards a client's request to the controller, with the client's principal and address."""

from __future__ import annotations

from protocol.fields import byte_string, int16
from protocol.message import Message


class EnvelopeRequest(Message, api_key=58, versions="0", flexible="0+"):
    request_data: bytes = byte_string("0+")
    request_principal: bytes | None = byte_string("0+", nullable="0+")
    client_host_address: bytes = byte_string("0+")


class EnvelopeResponse(Message, api_key=58, versions="0", flexible="0+"):
    response_data: bytes | None = byte_string("0+", nullable="0+", default=None)
    error_code: int = int16("0+")
