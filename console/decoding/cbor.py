"""CBOR (RFC 8949), as values of JSON.

Bytes are {"base64": …}, big numbers numbers, simple values {"simple": n}, undefined null. Other tags are
{"tag": n, "value": …}; they are never acted on.
"""

from __future__ import annotations

import base64
from typing import Any, Final

from console.decoding.byte_source import ByteSource, key_text
from console.decoding.errors import DecodingError
from console.decoding.limits import Budget

_INDEFINITE: Final = 31
_BREAK: Final = object()
_SELF_DESCRIBED: Final = 55799
_BIG_NUMBERS: Final = (2, 3)
_MAX_BIG_NUMBER: Final = 64
"""Bytes of a big number that is shown as a number."""


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
        found = self._item(depth)
        if found is _BREAK:
            raise DecodingError("has a break that ends nothing")
        return found

    def _item(self, depth: int) -> Any:
        first = self._source.unsigned(1)
        kind, info = first >> 5, first & 31
        if kind == 7:
            return self._simple(info)
        if info == _INDEFINITE:
            return self._indefinite(kind, depth)
        number = self._number(info)
        match kind:
            case 0:
                return number
            case 1:
                return -1 - number
            case 2:
                return _bytes(self._source.take(number))
            case 3:
                return self._source.text(number)
            case 4:
                self._budget.take(number, depth + 1, self._source.left)
                return [self.value(depth + 1) for _ in range(number)]
            case 5:
                self._budget.take(2 * number, depth + 1, self._source.left)
                return dict(self._entry(self.value(depth + 1), depth) for _ in range(number))
        return self._tagged(number, depth)

    def _entry(self, key: Any, depth: int) -> tuple[str, Any]:
        return key_text(key), self.value(depth + 1)

    def _number(self, info: int) -> int:
        if info < 24:
            return info
        if info > 27:
            raise DecodingError(f"has the reserved length {info}")
        return self._source.unsigned(1 << (info - 24))

    def _simple(self, info: int) -> Any:
        match info:
            case 20 | 21:
                return info == 21
            case 22 | 23:
                return None
            case 24:
                return {"simple": self._source.unsigned(1)}
            case 25 | 26 | 27:
                return self._source.real(2 << (info - 25))
            case 31:
                return _BREAK
        if info > 27:
            raise DecodingError(f"has the reserved simple value {info}")
        return {"simple": info}

    def _indefinite(self, kind: int, depth: int) -> Any:
        match kind:
            case 2 | 3:
                pieces = self._pieces(kind)
                return _bytes(b"".join(pieces)) if kind == 2 else _text(b"".join(pieces))
            case 4:
                return list(self._until_break(depth))
            case 5:
                return dict(self._entry(key, depth) for key in self._until_break(depth))
        raise DecodingError("has a number or a tag of indefinite length")

    def _until_break(self, depth: int) -> Any:
        while True:
            self._budget.take(1, depth + 1, self._source.left)
            found = self._item(depth + 1)
            if found is _BREAK:
                return
            yield found

    def _pieces(self, kind: int) -> list[bytes]:
        pieces = []
        while (first := self._source.unsigned(1)) != 0xFF:
            if first >> 5 != kind or first & 31 == _INDEFINITE:
                raise DecodingError("has a text or bytes in pieces of another type")
            self._budget.take(1, 0, self._source.left + 1)
            pieces.append(self._source.take(self._number(first & 31)))
        return pieces

    def _tagged(self, tag: int, depth: int) -> Any:
        self._budget.take(1, depth + 1, self._source.left)
        value = self.value(depth + 1)
        if tag == _SELF_DESCRIBED:
            return value
        if tag in _BIG_NUMBERS and isinstance(value, dict) and set(value) == {"base64"}:
            data = base64.b64decode(value["base64"])
            if len(data) <= _MAX_BIG_NUMBER:
                number = int.from_bytes(data, "big")
                return number if tag == 2 else -1 - number
        return {"tag": tag, "value": value}


def _text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise DecodingError("has a text that is not UTF-8") from None


def _bytes(data: bytes) -> dict[str, str]:
    return {"base64": base64.b64encode(data).decode()}
