"""What every kind of schema does: from the bytes of a key or value to JSON, and back."""

from typing import Any, NamedTuple, Protocol


class SchemaError(Exception):
    """A schema cannot be used, or a schema registry does not answer as expected."""


class MisfitError(SchemaError):
    """A key or value does not fit its schema. The message is a predicate: it follows the name of the record."""


class Limits(NamedTuple):
    """What one key or value may contain: data from anybody can stand for more than there is memory."""

    items: int
    """Entries of all arrays and objects."""
    depth: int
    """Levels of arrays and objects."""


class Budget:
    """Counts the entries of one key or value."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._left = limits.items

    def take(self, items: int, depth: int) -> None:
        """Take entries at a depth. Raises MisfitError."""
        self._left -= items
        if self._left < 0:
            raise MisfitError(f"has more than {self._limits.items} entries")
        if depth > self._limits.depth:
            raise MisfitError(f"has more than {self._limits.depth} levels")


class Codec(Protocol):
    """A schema.

    `is_framed`: the bytes are what follows the schema id in Confluent's wire format. It makes a difference only for
    Protobuf, where the position of the message in its file comes first. `limits`: None for data that is trusted.
    """

    def decode(self, data: bytes, *, is_framed: bool, limits: Limits | None = None) -> Any:
        """Return the JSON value. Raises MisfitError."""

    def encode(self, value: Any, *, is_framed: bool) -> bytes:
        """Return the bytes for a JSON value. Raises MisfitError."""


def missing_library(error: ImportError) -> SchemaError:
    """Return the error for a library that is not installed."""
    return SchemaError(f"schemas need {error.name or error}: pip install 'ottla[schemas]'")
