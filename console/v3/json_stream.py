"""A stream of JSON objects without anything between them but white space, which arrives in pieces of any size.

Only the ends of the objects are found here: braces outside of strings. Whether an object is valid JSON is not checked.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

_OUTSIDE: Final = re.compile(rb'[{}"]')
_INSIDE: Final = re.compile(rb'["\\]')
_SPACE: Final = b" \t\r\n"
_NO_SPACE: Final = re.compile(rb"[^ \t\r\n]")


class JsonStreamError(Exception):
    """The stream is not a sequence of objects; nothing after this can be read."""


class ObjectTooLargeError(JsonStreamError):
    """An object is larger than the limit."""


class JsonStream:
    """Splits a stream into objects."""

    def __init__(self, max_size: int) -> None:
        """max_size: bytes of one object."""
        self._max_size = max_size
        self._data = bytearray()
        self._position = 0
        """Where to continue to look in `_data`, which begins with the first incomplete object."""
        self._depth = 0
        self._is_in_string = False

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yield the objects that are complete with these bytes. Raises JsonStreamError."""
        self._data += data
        while (end := self._end()) is not None:
            found = bytes(self._data[:end])
            del self._data[:end]
            self._position = 0
            yield found
        if len(self._data) > self._max_size:
            raise ObjectTooLargeError(f"a record has more than {self._max_size} bytes")

    def close(self) -> None:
        """Check that the stream does not end within an object. Raises JsonStreamError."""
        if self._data.strip(_SPACE):
            raise JsonStreamError("the body ends within a record")

    def _end(self) -> int | None:
        """Return the end of the first object; None if it is not complete."""
        data = self._data
        if not self._depth and not self._begin():
            return None
        while True:
            found = (_INSIDE if self._is_in_string else _OUTSIDE).search(data, self._position)
            if found is None:
                self._position = len(data)
                return None
            mark, self._position = data[found.start()], found.end()
            if mark == ord("\\"):
                if self._position == len(data):  # what it escapes has not arrived
                    self._position -= 1
                    return None
                self._position += 1
            elif mark == ord('"'):
                self._is_in_string = not self._is_in_string
            else:
                self._depth += 1 if mark == ord("{") else -1
                if not self._depth:
                    return self._position

    def _begin(self) -> bool:
        """Remove white space, and return whether an object begins. Raises JsonStreamError."""
        data = self._data
        found = _NO_SPACE.search(data)  # no copy of the rest: a piece may contain ten thousands of objects
        start = len(data) if found is None else found.start()
        del found  # it would keep the bytes from being moved
        if start:
            del data[:start]
        self._position = 0
        if not data:
            return False
        if data[0] != ord("{"):
            raise JsonStreamError(f"a record must be a JSON object, not {bytes(data[:20])!r}")
        return True
