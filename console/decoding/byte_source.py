"""Reads numbers and pieces from bytes, one after the other, and refuses to read past the end."""

from __future__ import annotations

import math
import struct
from typing import Any, Final

from console.decoding.errors import DecodingError

_FLOATS: Final = {2: ">e", 4: ">f", 8: ">d"}


class ByteSource:
    """A position in bytes. All methods raise DecodingError at the end."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 0

    @property
    def left(self) -> int:
        """The number of bytes after the position."""
        return len(self._data) - self._position

    def take(self, size: int) -> bytes:
        """Return the next bytes."""
        if size > self.left:
            raise DecodingError(f"ends {size - self.left} bytes too early")
        start = self._position
        self._position += size
        return self._data[start : self._position]

    def unsigned(self, size: int) -> int:
        """Return an unsigned number of this many bytes, the first one the highest."""
        return int.from_bytes(self.take(size), "big")

    def signed(self, size: int) -> int:
        """Return a signed number."""
        return int.from_bytes(self.take(size), "big", signed=True)

    def real(self, size: int) -> Any:
        """Return a floating-point number of 2, 4 or 8 bytes; text for NaN and infinity, which JSON does not have."""
        number: float = struct.unpack(_FLOATS[size], self.take(size))[0]
        return number if math.isfinite(number) else str(number)

    def text(self, size: int) -> str:
        """Return text in UTF-8."""
        try:
            return self.take(size).decode()
        except UnicodeDecodeError:
            raise DecodingError("has a text that is not UTF-8") from None

    def end(self) -> None:
        """Raise DecodingError if bytes are left."""
        if self.left:
            raise DecodingError(f"has {self.left} bytes after its end")


def key_text(key: Any) -> str:
    """Return the key of a map as the name of a field in JSON."""
    if isinstance(key, str):
        return key
    if key is None or isinstance(key, bool):
        return {None: "null", True: "true", False: "false"}[key]
    if isinstance(key, int | float):
        return str(key)
    raise DecodingError("has a map whose key is an array or an object")
