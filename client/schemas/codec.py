"""What every kind of schema does: from the bytes of a key or value to JSON, and back."""

from typing import Any, Protocol


class SchemaError(Exception):
    """A schema cannot be used, or a schema registry does not answer as expected."""


class MisfitError(SchemaError):
    """A key or value does not fit its schema. The message is a predicate: it follows the name of the record."""


class Codec(Protocol):
    """A schema.

    `is_framed`: the bytes are what follows the schema id in Confluent's wire format. It makes a difference only for
    Protobuf, where the position of the message in its file comes first.
    """

    def decode(self, data: bytes, *, is_framed: bool) -> Any:
        """Return the JSON value. Raises MisfitError."""

    def encode(self, value: Any, *, is_framed: bool) -> bytes:
        """Return the bytes for a JSON value. Raises MisfitError."""


def missing_library(error: ImportError) -> SchemaError:
    """Return the error for a library that is not installed."""
    return SchemaError(f"schemas need {error.name or error}: pip install 'ottla[schemas]'")
