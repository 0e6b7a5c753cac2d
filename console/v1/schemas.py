"""The schemas of the schema registry, as records name them."""

from __future__ import annotations

from typing import Final

from client.schemas.codec import SchemaError
from console.decoding.schema_cache import NO_REGISTRY, Failure
from console.rest.call import Call
from console.rest.errors import RestError, not_found
from console.rest.models import Answer
from console.rest.operation import ApiOperation, Right
from security.acls.types import Operation

_MAX_ID: Final = 2**31 - 1


class SchemaVersion(Answer):
    """A version of a subject."""

    subject: str
    version: int


class SchemaReference(Answer):
    """A schema that another one refers to."""

    name: str
    text: str


class SchemaAnswer(Answer):
    """A schema."""

    id: int
    type: str
    """AVRO, PROTOBUF or JSON."""
    text: str
    references: list[SchemaReference]
    subjects: list[SchemaVersion]
    """Empty if the registry does not tell."""


async def get_schema(call: Call) -> SchemaAnswer:
    """Return a schema of the schema registry, with the schemas that it refers to."""
    number = call.number("schema_id")
    if not 0 < number <= _MAX_ID:
        raise not_found(f"schema_id must be a number from 1 to {_MAX_ID}, not {number}")
    schemas = call.services.schemas
    if not schemas.is_configured:
        raise not_found(NO_REGISTRY)
    await schemas.load([number])
    found = schemas.get(number)
    if isinstance(found, Failure):
        raise not_found(found.reason) if found.is_unknown else RestError(502, found.reason)
    try:
        subjects = await schemas.subjects(number)
    except SchemaError:  # registries older than Confluent's 5.5 do not know this path
        subjects = []
    schema = found.schema
    return SchemaAnswer(
        id=schema.id,
        type=schema.kind,
        text=schema.text,
        references=[SchemaReference(name=name, text=text) for name, text in schema.references.items()],
        subjects=[SchemaVersion(subject=subject, version=version) for subject, version in subjects],
    )


OPERATIONS: Final = (ApiOperation("GET", "/schemas/{schema_id}", get_schema, Right(Operation.DESCRIBE), SchemaAnswer),)
