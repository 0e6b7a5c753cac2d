"""Request and response headers, and which version of them an API version has.

A request's header is version 2 (tagged fields) if its body is flexible, else 1; ControlledShutdown 0
alone has version 0, without client id. The client id keeps the old string form in version 2, so that a
broker reads it before it knows anything. A response's header is version 1 if its body is flexible, else
0; that of ApiVersions is always 0, since the client does not know yet which versions the broker has.
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
    """In front of every request; `api_version` is the body's version, not the header's."""

    request_api_key: int = int16("0+")
    request_api_version: int = int16("0+")
    correlation_id: int = int32("0+")
    client_id: str | None = string("1+", nullable="1+", ignorable=True, flexible=False)


class ResponseHeader(Message, versions="0-1", flexible="1+"):
    """In front of every response: the correlation id of its request."""

    correlation_id: int = int32("0+")


def request_header_version(api_key: int, api_version: int) -> int:
    """Return the header version of that request; raises UnsupportedVersionError for an unknown key."""
    try:
        if api_version >= FLEXIBLE_FROM[api_key]:
            return 2
    except KeyError:
        raise UnsupportedVersionError(f"unknown API key {api_key}") from None
    return 0 if api_version == 0 and api_key == ApiKey.CONTROLLED_SHUTDOWN else 1


def response_header_version(api_key: int, api_version: int) -> int:
    """Return the header version of that response; raises UnsupportedVersionError for an unknown key."""
    try:
        return 1 if api_version >= FLEXIBLE_FROM[api_key] and api_key != ApiKey.API_VERSIONS else 0
    except KeyError:
        raise UnsupportedVersionError(f"unknown API key {api_key}") from None


def decode_request_header(buffer: Buffer, offset: int = 0) -> tuple[RequestHeader, int]:
    """Read the header of a request frame (without its 4-byte size): it and the offset of the body.

    Any version of a known API is read, also one that no message exists for: whether to answer is the
    broker's decision. Raises UnsupportedVersionError for an unknown key, DecodeError for a malformed
    header.
    """
    try:
        api_key, api_version = _KEY_AND_VERSION.unpack_from(buffer, offset)
    except struct.error:
        rule = "the frame ends inside the header"
        raise DecodeError("RequestHeader", "request_api_key", offset, rule) from None
    if api_version < 0:
        raise DecodeError("RequestHeader", "request_api_version", offset + 2, f"{api_version} is negative")
    return RequestHeader.decode(buffer, request_header_version(api_key, api_version), offset)
