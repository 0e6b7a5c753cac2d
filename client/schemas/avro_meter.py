"""Measures binary Avro data before it is decoded: how many entries and levels it stands for.

A few bytes can stand for billions of entries: those of an array of nulls have no bytes at all. fastavro has no limit
for them, and its recursion is not Python's, which would be stopped.
"""

from collections.abc import Callable
from typing import Any

from client.schemas.codec import Budget, Limits, MisfitError

_SIZES = {"null": 0, "boolean": 1, "float": 4, "double": 8}
_MAX_VARINT = 10


class AvroMeter:
    """Walks through data once. `resolved` returns the type of a schema and its definition."""

    def __init__(self, data: bytes, limits: Limits, resolved: Callable[[Any], tuple[str, Any]]) -> None:
        self._data = data
        self._position = 0
        self._budget = Budget(limits)
        self._resolved = resolved

    def measure(self, schema: Any) -> None:
        """Raise MisfitError if data of this schema has too many entries or levels, or ends too early."""
        self._value(schema, 0)

    def _value(self, schema: Any, depth: int) -> None:
        kind, schema = self._resolved(schema)
        self._budget.take(1, depth)
        match kind:
            case "record" | "error":
                for field in schema["fields"]:
                    self._value(field["type"], depth + 1)
            case "union":
                index = self._long()
                if not 0 <= index < len(schema):
                    raise MisfitError(f"names the type {index} of a union of {len(schema)} types")
                self._value(schema[index], depth + 1)
            case "array":
                self._blocks(schema["items"], depth, has_names=False)
            case "map":
                self._blocks(schema["values"], depth, has_names=True)
            case "int" | "long" | "enum":
                self._long()
            case "bytes" | "string":
                self._skip(self._long())
            case "fixed":
                self._skip(schema["size"])
            case _:
                self._skip(_SIZES[kind])

    def _blocks(self, items: Any, depth: int, *, has_names: bool) -> None:
        while count := self._long():
            if count < 0:  # the size of the block in bytes follows
                count = -count
                self._long()
            for _ in range(count):
                if has_names:
                    self._skip(self._long())
                self._value(items, depth + 1)

    def _skip(self, size: int) -> None:
        if not 0 <= size <= len(self._data) - self._position:
            raise MisfitError(f"has a length of {size} where {len(self._data) - self._position} bytes are left")
        self._position += size

    def _long(self) -> int:
        number = 0
        for index in range(_MAX_VARINT):
            self._skip(1)
            byte = self._data[self._position - 1]
            number |= (byte & 127) << (7 * index)
            if byte < 128:
                return (number >> 1) ^ -(number & 1)
        raise MisfitError(f"has a number of more than {_MAX_VARINT} bytes")
