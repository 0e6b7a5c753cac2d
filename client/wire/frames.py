"""Encodes requests and decodes answers: headers and body of one frame.

A request frame is size, api key, api version, correlation id, client id (request header 1), in flexible versions a byte
of empty tagged fields (header 2), and the body. An answer is a correlation id, in flexible versions tagged fields, and
the body. ApiVersions is the exception: its answer never has tagged fields, and it has version 0 if the broker does not
know the version of the request (KIP-511).
"""

import struct
from typing import Final, TypeVar, cast

from client.wire.frame_buffer import FrameError
from protocol.api_keys import ApiKey
from protocol.errors import DecodeError
from protocol.headers import ResponseHeader, request_header_version, response_header_version
from protocol.message import Message

R = TypeVar("R", bound=Message)

_PREFIX: Final = struct.Struct(">ihhih")  # size, api key, api version, correlation id, length of client id
_PREFIX_V0: Final = struct.Struct(">ihhi")  # the same without client id: ControlledShutdown v0
_INT32: Final = struct.Struct(">i")
_UNSUPPORTED_VERSION: Final = b"\x00\x23"


def encode_request(
    message: Message, version: int, correlation_id: int, client_id: bytes | None
) -> list[bytes | bytearray | memoryview]:
    """The frame of a request in pieces, including the size prefix. Raises EncodeError, UnsupportedVersionError."""
    # Only an answer contains file ranges; every piece of a request is a buffer.
    body = cast("list[bytes | bytearray | memoryview]", message.encode(version))
    size = sum(map(len, body))
    header_version = request_header_version(message.API_KEY, version)
    if header_version == 0:
        head = _PREFIX_V0.pack(8 + size, message.API_KEY, version, correlation_id)
    else:
        text = client_id or b""
        tags = b"\0" if header_version == 2 else b""
        length = -1 if client_id is None else len(text)
        size += 10 + len(text) + len(tags)
        head = _PREFIX.pack(size, message.API_KEY, version, correlation_id, length) + text + tags
    return [head, *body]


def correlation_id_of(frame: bytes | memoryview) -> int:
    """The correlation id at the start of an answer. Raises FrameError."""
    if len(frame) < 4:
        raise FrameError(f"an answer of {len(frame)} bytes has no correlation id")
    return int(_INT32.unpack_from(frame)[0])


def decode_response(frame: bytes | memoryview, api_key: int, version: int, response: type[R]) -> R:
    """Decode a frame (without size prefix), the answer to a request of `version`. Raises DecodeError, FrameError."""
    offset = 4
    if api_key == ApiKey.API_VERSIONS:
        if frame[4:6] == _UNSUPPORTED_VERSION:
            return _refused_api_versions(frame, response)
    elif response_header_version(api_key, version) == 1:
        if frame[offset : offset + 1] == b"\0":
            offset += 1
        else:
            offset = ResponseHeader.decode(frame, 1, 0)[1]
    # Bytes after the message are ignored, as in Kafka's own client: librdkafka's mock cluster sends some.
    return response.decode(memoryview(frame), version, offset)[0]


def _refused_api_versions(frame: bytes | memoryview, response: type[R]) -> R:
    """The answer to ApiVersions in a version that the broker does not know: version 0, with the versions it knows.

    Some servers answer in another format (librdkafka's mock cluster does); their answer is replaced by an empty list.
    """
    try:
        message, end = response.decode(frame, 0, 4)
    except DecodeError:
        end = -1
    if end != len(frame):
        message, _ = response.decode(_UNSUPPORTED_VERSION + bytes(4), 0)
    return message
