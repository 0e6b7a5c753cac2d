"""Request and response headers, and the header version for each API version.

A request's header has version 2 (tagged fields) if its body is flexible, else 1. Only ControlledShutdown version 0 has
header version 0, without client id. In header version 2 the client id keeps the old string format, so that a broker can
read it in every version. A response's header has version 1 if its body is flexible, else 0; that of ApiVersions is
always 0, since the client does not know the broker's versions yet.
"""

from __future__ import annotations

import struct

from protocol.api_keys import FLEXIBLE_FROM, ApiKey
from protocol.buffer import Buffer
from protocol.errors import DecodeError, UnsupportedVersionError
from protocol.fields import int16, int32, string
from protocol.message import Message

_KEY_AND_VERSION = struct.Struct(">hh")


class RequestHeader(Message, versions="0-2", flexible="2+"):
    """The header of every request; `request_api_version` is the version of the body, not of the header."""

    request_api_key: int = int16("0+")
    request_api_version: int = int16("0+")
    correlation_id: int = int32("0+")
    client_id: str | None = string("1+", nullable="1+", ignorable=True, flexible=False)


class ResponseHeader(Message, versions="0-1", flexible="1+"):
    """The header of every response: the correlation id of its request."""

    correlation_id: int = int32("0+")


def request_header_version(api_key: int, api_version: int) -> int:
    """Return the header version of a request; raises UnsupportedVersionError for an unknown key."""
    try:
        if api_version >= FLEXIBLE_FROM[api_key]:
            return 2
    except KeyError:
        raise UnsupportedVersionError(f"unknown API key {api_key}") from None
    return 0 if api_version == 0 and api_key == ApiKey.CONTROLLED_SHUTDOWN else 1


def response_header_version(api_key: int, api_version: int) -> int:
    """Return the header version of a response; raises UnsupportedVersionError for an unknown key."""
    try:
        return 1 if api_version >= FLEXIBLE_FROM[api_key] and api_key != ApiKey.API_VERSIONS else 0
    except KeyError:
        raise UnsupportedVersionError(f"unknown API key {api_key}") from None


def decode_request_header(buffer: Buffer, offset: int = 0) -> tuple[RequestHeader, int]:
    """Decode the header of a request frame (without its 4-byte size); return the header and the offset of the body.

    Every version of a known API is accepted, also those without a message: the broker decides whether to answer. Raises
    UnsupportedVersionError for an unknown key, DecodeError for a malformed header.
    """
    try:
        api_key, api_version = _KEY_AND_VERSION.unpack_from(buffer, offset)
    except struct.error:
        rule = "the frame ends inside the header"
        raise DecodeError("RequestHeader", "request_api_key", offset, rule) from None
    if api_version < 0:
        raise DecodeError("RequestHeader", "request_api_version", offset + 2, f"{api_version} is negative")
    return RequestHeader.decode(buffer, request_header_version(api_key, api_version), offset)
