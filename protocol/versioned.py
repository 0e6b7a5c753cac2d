"""Messages that carry their version in front, as an int16.

Such are the keys and values of internal topics, what consumers put into group requests, and the principal
in an Envelope.
"""

from __future__ import annotations

from typing import TypeVar

from protocol.buffer import Buffer
from protocol.errors import DecodeError
from protocol.message import Message

M = TypeVar("M", bound=Message)


def encode_versioned(message: Message, version: int) -> bytes:
    """Return the version and the message's bytes of that version."""
    return version.to_bytes(2, "big", signed=True) + message.to_bytes(version)


def decode_versioned(message: type[M], buffer: Buffer) -> tuple[M, int]:
    """Read a message and its version; raises DecodeError or UnsupportedVersionError."""
    version = peek_version(buffer, message.NAME)
    return message.decode(buffer, version, 2)[0], version


def peek_version(buffer: Buffer, name: str = "version") -> int:
    """Return the version in front, which in the key of an internal topic tells the kind of record."""
    if len(buffer) < 2:
        raise DecodeError(name, "version", 0, f"needs 2 bytes, {len(buffer)} left")
    return int.from_bytes(buffer[:2], "big", signed=True)
