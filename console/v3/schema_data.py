"""Keys and values with a schema of a schema registry, as bytes in Confluent's wire format.

As in the REST Proxy, the schema is named by `schema_id`, by `schema_version`, as text (`type` and `schema`), or it is
the latest one of the subject. The subject is `subject`, or that of the strategy TOPIC_NAME.
"""

from __future__ import annotations

import asyncio
from typing import Final

from client.schemas.codec import MisfitError, SchemaError
from client.schemas.wire_format import frame
from console.decoding.schema_cache import MAX_BYTES, Failure, SchemaCache
from console.decoding.subject_cache import SubjectCache, SubjectVersion
from console.rest.errors import RestError
from console.v3.record_data import UNPROCESSABLE, WITH_SCHEMA, Data, Encoded

_CONVERSION: Final = 42203
_INVALID_SCHEMA: Final = 42205
_TOPIC_NAME: Final = "TOPIC_NAME"
_MAX_ID: Final = 2**31 - 1
_KINDS: Final = {"AVRO": "AVRO", "JSONSCHEMA": "JSON", "PROTOBUF": "PROTOBUF"}
_TYPES: Final = {kind: name for name, kind in _KINDS.items()}


def needs_schema(part: Data, *, has_registry: bool) -> bool:
    """Return whether a key or value is to be encoded with a schema. Without a type, it is that of the subject."""
    return part.type in WITH_SCHEMA or bool(_given(part)) or (part.type is None and has_registry)


def _given(part: Data) -> list[str]:
    named = {
        "subject": part.subject,
        "subject_name_strategy": part.subject_name_strategy,
        "schema_id": part.schema_id,
        "schema_version": part.schema_version,
        "schema": part.schema_text,
    }
    return [name for name, value in named.items() if value is not None]


class SchemaEncoder:
    """Encodes the keys and values of a topic."""

    def __init__(self, topic: str, schemas: SchemaCache, subjects: SubjectCache) -> None:
        self._topic = topic
        self._schemas = schemas
        self._subjects = subjects

    async def encoded(self, name: str, part: Data) -> Encoded:
        """Return a key or value (`name`) as bytes. Raises RestError."""
        if not self._schemas.is_configured:
            raise RestError(UNPROCESSABLE, f"{name}: schemas need a schema registry, and none is configured here")
        _check(name, part)
        subject = part.subject or f"{self._topic}-{name}"
        try:
            found = await self._find(part, subject)
            await self._schemas.load([found.schema_id])
            return await self._with_schema(name, part, subject, found)
        except SchemaError as error:
            code = _CONVERSION if isinstance(error, MisfitError) else UNPROCESSABLE
            raise RestError(UNPROCESSABLE, f"{name}: {error}", code) from None

    async def _find(self, part: Data, subject: str) -> SubjectVersion:
        if part.schema_id is not None:
            return await self._subjects.of_id(self._schemas, subject, part.schema_id)
        if part.schema_text is not None:
            assert part.type is not None
            return await self._subjects.of_text(self._schemas, subject, _KINDS[part.type], part.schema_text)
        version = "latest" if part.schema_version is None else part.schema_version
        return await self._subjects.of_version(self._schemas, subject, version)

    async def _with_schema(self, name: str, part: Data, subject: str, found: SubjectVersion) -> Encoded:
        loaded = self._schemas.get(found.schema_id)
        if isinstance(loaded, Failure):
            raise SchemaError(loaded.reason)
        kind = _TYPES.get(loaded.schema.kind, loaded.schema.kind)
        if loaded.codec is None:
            raise RestError(UNPROCESSABLE, f"{name}: {loaded.error}", _INVALID_SCHEMA)
        data = None
        if part.data is not None:  # in a thread: a large value may take long
            content = await asyncio.to_thread(loaded.codec.encode, part.data, is_framed=True)
            data = frame(found.schema_id, content)
        return Encoded(data, kind, subject, found.schema_id, found.version)


def _check(name: str, part: Data) -> None:
    """Raise RestError for fields that exclude each other."""
    by = [one for one in _given(part) if one.startswith("schema")]
    if len(by) > 1:
        raise RestError(400, f"{name}: {by[0]} and {by[1]} exclude each other")
    if part.subject is not None and part.subject_name_strategy is not None:
        raise RestError(400, f"{name}: subject and subject_name_strategy exclude each other")
    if part.subject_name_strategy not in (None, _TOPIC_NAME):
        raise RestError(400, f"{name}: subject_name_strategy must be {_TOPIC_NAME}: name another subject in `subject`")
    if part.type is not None and part.type not in WITH_SCHEMA:
        raise RestError(400, f"{name}: data of type {part.type} has no schema, so {_given(part)[0]} is wrong")
    if part.type is not None and part.schema_text is None:
        raise RestError(400, f"{name}: the type {part.type} needs `schema`; without it, the schema has the type")
    if part.schema_text is not None and part.type is None:
        raise RestError(400, f"{name}: schema needs a type: {', '.join(sorted(WITH_SCHEMA))}")
    if part.schema_text is not None and len(part.schema_text) > MAX_BYTES:
        raise RestError(400, f"{name}: schema has more than {MAX_BYTES} characters")
    for field, number in (("schema_id", part.schema_id), ("schema_version", part.schema_version)):
        if number is not None and not 0 < number <= _MAX_ID:
            raise RestError(400, f"{name}: {field} must be a number from 1 to {_MAX_ID}, not {number}")
