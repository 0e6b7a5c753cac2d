"""MessagePack (https://github.com/msgpack/msgpack/blob/master/spec.md), as values of JSON.

Bytes are {"base64": …}, timestamps text, other extensions {"extension": type, "base64": …}.

This and `cbor` are written here because the libraries make objects that a value from anybody should not be able to ask
for (numbers of any size, dates, references to itself), and have no limit of entries.
"""

from __future__ import annotations

import base64
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from console.decoding.byte_source import ByteSource, key_text
from console.decoding.errors import DecodingError
from console.decoding.limits import Budget

_TIMESTAMP: Final = 0xFF
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_CONSTANTS: Final = {0xC0: None, 0xC2: False, 0xC3: True}
_FIXED_EXTENSIONS: Final = {0xD4: 1, 0xD5: 2, 0xD6: 4, 0xD7: 8, 0xD8: 16}


def decode(data: bytes) -> Any:
    """Return the value. Raises DecodingError."""
    source = ByteSource(data)
    value = _Reader(source).value(0)
    source.end()
    return value


class _Reader:
    def __init__(self, source: ByteSource) -> None:
        self._source = source
        self._budget = Budget()

    def value(self, depth: int) -> Any:
        source, first = self._source, self._source.unsigned(1)
        if first < 0x80:
            return first
        if first < 0x90:
            return self._map(first & 0x0F, depth)
        if first < 0xA0:
            return self._array(first & 0x0F, depth)
        if first < 0xC0:
            return source.text(first & 0x1F)
        if first >= 0xE0:
            return first - 0x100
        if first in _CONSTANTS:
            return _CONSTANTS[first]
        return self._sized(first, depth)

    def _sized(self, first: int, depth: int) -> Any:
        source = self._source
        match first:
            case 0xC4 | 0xC5 | 0xC6:
                return _bytes(source.take(source.unsigned(1 << (first - 0xC4))))
            case 0xC7 | 0xC8 | 0xC9:
                return self._extension(source.unsigned(1 << (first - 0xC7)))
            case 0xCA | 0xCB:
                return source.real(4 << (first - 0xCA))
            case 0xCC | 0xCD | 0xCE | 0xCF:
                return source.unsigned(1 << (first - 0xCC))
            case 0xD0 | 0xD1 | 0xD2 | 0xD3:
                return source.signed(1 << (first - 0xD0))
            case 0xD4 | 0xD5 | 0xD6 | 0xD7 | 0xD8:
                return self._extension(_FIXED_EXTENSIONS[first])
            case 0xD9 | 0xDA | 0xDB:
                return source.text(source.unsigned(1 << (first - 0xD9)))
            case 0xDC | 0xDD:
                return self._array(source.unsigned(2 << (first - 0xDC)), depth)
            case 0xDE | 0xDF:
                return self._map(source.unsigned(2 << (first - 0xDE)), depth)
        raise DecodingError(f"has the byte {first:#04x}, which MessagePack does not use")

    def _array(self, size: int, depth: int) -> list[Any]:
        self._budget.take(size, depth + 1, self._source.left)
        return [self.value(depth + 1) for _ in range(size)]

    def _map(self, size: int, depth: int) -> dict[str, Any]:
        self._budget.take(2 * size, depth + 1, self._source.left)
        found = {}
        for _ in range(size):
            key = key_text(self.value(depth + 1))
            found[key] = self.value(depth + 1)
        return found

    def _extension(self, size: int) -> Any:
        kind = self._source.unsigned(1)
        data = self._source.take(size)
        if kind == _TIMESTAMP and (found := _time(data)) is not None:
            return found
        return {"extension": kind - 0x100 if kind > 0x7F else kind, **_bytes(data)}


def _time(data: bytes) -> str | None:
    """Return a timestamp as text; None if it is not one, or not a time between the years 1 and 9999."""
    number = int.from_bytes(data, "big")
    match len(data):
        case 4:
            seconds, nanoseconds = number, 0
        case 8:
            seconds, nanoseconds = number & 0x3FFFFFFFF, number >> 34
        case 12:
            nanoseconds, seconds = number >> 64, int.from_bytes(data[4:], "big", signed=True)
        case _:
            return None
    try:
        time = _EPOCH + timedelta(seconds=seconds, microseconds=nanoseconds // 1000)
    except OverflowError:
        return None
    return time.isoformat().replace("+00:00", "Z")


def _bytes(data: bytes) -> dict[str, str]:
    return {"base64": base64.b64encode(data).decode()}
