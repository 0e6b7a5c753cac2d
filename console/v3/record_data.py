"""Keys, values and headers of records in requests, as bytes.

A type is BINARY (base64), STRING (UTF-8) or JSON. `schema_data` encodes the types with a schema.
"""

from __future__ import annotations

import base64
import binascii
import json
from datetime import datetime
from typing import Annotated, Any, Final, Literal, NamedTuple

from pydantic import Field

from console.rest.errors import RestError
from console.rest.models import OMITTED_IF_NONE, Answer, Asked, Name

UNPROCESSABLE: Final = 422
WITH_SCHEMA: Final = frozenset({"AVRO", "JSONSCHEMA", "PROTOBUF"})


class Data(Asked):
    """A key or a value. Without data it is null: a value of null is a tombstone."""

    type: Literal["BINARY", "STRING", "JSON", "AVRO", "JSONSCHEMA", "PROTOBUF"] | None = None
    subject: str | None = None
    subject_name_strategy: str | None = None
    schema_id: int | None = None
    schema_version: int | None = None
    schema_text: str | None = Field(default=None, alias="schema")
    data: Any = None


class RecordHeader(Asked):
    """A header. The value is base64."""

    name: Name
    value: str | None = None


class Record(Asked):
    """A record to produce. Without a partition, the key chooses it."""

    partition_id: Annotated[int, Field(ge=-(2**31), lt=2**31)] | None = None
    headers: list[RecordHeader] = Field(default_factory=list)
    key: Data | None = None
    value: Data | None = None
    timestamp: datetime | None = None


class Encoded(NamedTuple):
    """A key or value as bytes, with the type as the answer names it."""

    data: bytes | None
    type: str
    subject: str | None = None
    schema_id: int | None = None
    schema_version: int | None = None


class EncodedSize(Answer):
    """The type and the size in bytes of a key or value that was written."""

    size: int
    type: str | None
    subject: str | None = OMITTED_IF_NONE
    schema_id: int | None = OMITTED_IF_NONE
    schema_version: int | None = OMITTED_IF_NONE


def encoded(name: str, part: Data | None) -> Encoded | None:
    """Return a key or value as bytes; None if the record does not have it. Raises RestError."""
    if part is None:
        return None
    kind = part.type
    if kind is None:
        raise RestError(400, f"{name}: the type must be BINARY, STRING or JSON")
    if kind == "JSON":  # also null is a value of JSON, but as in the REST Proxy it stands for no value
        return Encoded(None if part.data is None else _json(part.data), kind)
    if part.data is None:
        return Encoded(None, kind)
    if not isinstance(part.data, str):
        raise RestError(400, f"{name}: data of type {kind} must be a string")
    return Encoded(_base64(name, part.data) if kind == "BINARY" else _utf8(name, part.data), kind)


def encoded_headers(headers: list[RecordHeader]) -> list[tuple[str, bytes | None]]:
    """Return the headers of a record for the producer. Raises RestError."""
    return [(one.name, None if one.value is None else _base64(f"header {one.name}", one.value)) for one in headers]


def size_of(part: Encoded | None) -> EncodedSize | None:
    """Return what the answer says about a key or value."""
    if part is None:
        return None
    return EncodedSize(
        size=len(part.data or b""),
        type=part.type,
        subject=part.subject,
        schema_id=part.schema_id,
        schema_version=part.schema_version,
    )


def _json(data: Any) -> bytes:
    return json.dumps(data, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")


def _utf8(name: str, text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise RestError(400, f"{name}: the text has half of a surrogate pair") from None


def _base64(name: str, text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise RestError(400, f"{name}: is not base64") from None
