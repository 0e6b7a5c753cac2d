"""What decoders may use: data comes from anybody who may produce to a topic."""

from __future__ import annotations

from typing import Final

from console.decoding.errors import DecodingError

MAX_BYTES: Final = 1024 * 1024
"""Larger keys and values are not decoded, only shown in part."""
MAX_DEPTH: Final = 64
"""Levels of arrays and objects."""
MAX_ITEMS: Final = 100_000
"""Entries of all arrays and objects of one value."""


class Budget:
    """Counts the entries of one value."""

    def __init__(self) -> None:
        self._left = MAX_ITEMS

    def take(self, items: int, depth: int, bytes_left: int) -> None:
        """Take this many entries, of which each has at least one byte. Raises DecodingError."""
        if items > bytes_left:
            raise DecodingError(f"ends inside an array or object of {items} entries")
        self._left -= items
        if self._left < 0:
            raise DecodingError(f"has more than {MAX_ITEMS} entries")
        if depth > MAX_DEPTH:
            raise DecodingError(f"has more than {MAX_DEPTH} levels")
