"""Messages with their version in front, as an int16.

These are the keys and values of internal topics, the consumers' bytes in group requests, and the principal in an
Envelope.
"""

from __future__ import annotations

from typing import TypeVar

from protocol.buffer import Buffer
from protocol.errors import DecodeError
from protocol.message import Message

M = TypeVar("M", bound=Message)


def encode_versioned(message: Message, version: int) -> bytes:
    """Encode a message with its version in front."""
    return version.to_bytes(2, "big", signed=True) + message.to_bytes(version)


def decode_versioned(message: type[M], buffer: Buffer) -> tuple[M, int]:
    """Return a message and its version; raises DecodeError or UnsupportedVersionError."""
    version = peek_version(buffer, message.NAME)
    return message.decode(buffer, version, 2)[0], version


def peek_version(buffer: Buffer, name: str = "version") -> int:
    """Return the version in front; in the key of an internal topic it is the type of the record."""
    if len(buffer) < 2:
        raise DecodeError(name, "version", 0, f"needs 2 bytes, {len(buffer)} left")
    return int.from_bytes(buffer[:2], "big", signed=True)
