"""Jute, the encoding of ZooKeeper's protocol: big-endian numbers, and buffers and vectors with a length of 32 bits.

A length of -1 is null. Source: zookeeper.jute and org.apache.jute.BinaryInputArchive of ZooKeeper 3.9.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, TypeVar

from registry.interface import Acl, Stat

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

T = TypeVar("T")

_INT = struct.Struct(">i")
_LONG = struct.Struct(">q")
_STAT = struct.Struct(">qqqqiiiqiiq")


class JuteError(ValueError):
    """The bytes are not the record that they should be."""


class JuteReader:
    """Reads the fields of a record one after the other. Every method raises JuteError at the end of the bytes."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def int32(self) -> int:
        """Read a signed number of 32 bits."""
        number: int = _INT.unpack(self._take(4))[0]
        return number

    def int64(self) -> int:
        """Read a signed number of 64 bits."""
        number: int = _LONG.unpack(self._take(8))[0]
        return number

    def boolean(self) -> bool:
        """Read one byte."""
        return self._take(1) != b"\0"

    def buffer(self) -> bytes | None:
        """Read bytes; None for null."""
        length = self.int32()
        return None if length < 0 else self._take(length)

    def string(self) -> str:
        """Read UTF-8; null is the empty string."""
        try:
            return (self.buffer() or b"").decode()
        except UnicodeDecodeError as error:
            raise JuteError(f"a string is not UTF-8: {error.reason}") from None

    def vector(self, item: Callable[[], T]) -> list[T]:
        """Read a list whose items `item` reads; null is the empty list."""
        count = self.int32()
        if count > len(self._data) - self._at:
            raise JuteError(f"a list of {count} items in {len(self._data) - self._at} bytes")
        return [item() for _ in range(count)]

    def acl(self) -> list[Acl]:
        """Read an access control list."""
        return self.vector(lambda: Acl(self.int32(), self.string(), self.string()))

    @property
    def is_at_end(self) -> bool:
        """Whether all bytes are read."""
        return self._at == len(self._data)

    def _take(self, length: int) -> bytes:
        end = self._at + length
        if end > len(self._data):
            raise JuteError(f"{length} bytes are expected, {len(self._data) - self._at} are left")
        taken = self._data[self._at : end]
        self._at = end
        return taken


def int32(number: int) -> bytes:
    """Encode a signed number of 32 bits."""
    return _INT.pack(number)


def int64(number: int) -> bytes:
    """Encode a signed number of 64 bits."""
    return _LONG.pack(number)


def boolean(value: bool) -> bytes:
    """Encode one byte."""
    return b"\1" if value else b"\0"


def buffer(data: bytes | None) -> bytes:
    """Encode bytes, or null."""
    return _INT.pack(-1) if data is None else _INT.pack(len(data)) + data


def string(text: str) -> bytes:
    """Encode UTF-8."""
    return buffer(text.encode())


def strings(texts: Sequence[str]) -> bytes:
    """Encode a list of strings."""
    return _INT.pack(len(texts)) + b"".join(map(string, texts))


def stat(value: Stat) -> bytes:
    """Encode a node's metadata; the order of the fields is that of `Stat`."""
    return _STAT.pack(*value)


def acl(entries: Sequence[Acl]) -> bytes:
    """Encode an access control list."""
    encoded = (int32(entry.permissions) + string(entry.scheme) + string(entry.id) for entry in entries)
    return _INT.pack(len(entries)) + b"".join(encoded)
