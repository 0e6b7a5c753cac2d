"""Kafka's UUIDs: 16 bytes on the wire, 22 characters of base64url without padding in text."""

from __future__ import annotations

from binascii import Error as Base64Error
from binascii import a2b_base64, b2a_base64
from typing import Protocol

ZERO_UUID = bytes(16)
METADATA_TOPIC_ID = bytes(15) + b"\x01"
"""Reserved by Kafka; no topic has this id."""


class RandomBits(Protocol):
    """The method of random.Random that `random_uuid` uses."""

    def getrandbits(self, k: int, /) -> int:
        """Return an integer of `k` random bits."""


_TO_URL = bytes.maketrans(b"+/", b"-_")
_FROM_URL = bytes.maketrans(b"-_+/", b"+/!!")


def uuid_to_string(value: bytes) -> str:
    """Return the 22 characters for 16 bytes; raises ValueError for another length."""
    if len(value) != 16:
        raise ValueError(f"a UUID has 16 bytes, not {len(value)}")
    return b2a_base64(value, newline=False).translate(_TO_URL, b"=").decode()


def uuid_from_string(text: str) -> bytes:
    """Return the 16 bytes for 22 characters (trailing padding allowed); raises ValueError otherwise."""
    try:
        raw = text.encode("ascii").rstrip(b"=")
        if len(raw) != 22:
            raise ValueError(f"a UUID has 22 characters, not {len(raw)}: {text!r}")
        return a2b_base64(raw.translate(_FROM_URL) + b"==", strict_mode=True)
    except (Base64Error, UnicodeEncodeError) as error:
        raise ValueError(f"not a UUID in base64url: {text!r}") from error


def random_uuid(rng: RandomBits) -> bytes:
    """Return a random UUID of version 4 that is not reserved and whose text does not start with a dash.

    A leading dash would make the text look like an option to command line tools; Kafka avoids it, too.
    """
    while True:
        bits = rng.getrandbits(128)
        bits = bits & ~(0xF << 76) | 4 << 76  # version 4
        bits = bits & ~(0x3 << 62) | 2 << 62  # variant of RFC 9562
        value = bits.to_bytes(16)
        if value not in (ZERO_UUID, METADATA_TOPIC_ID) and not uuid_to_string(value).startswith("-"):
            return value
