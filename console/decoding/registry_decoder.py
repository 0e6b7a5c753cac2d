"""The decoder `registry`: keys and values in Confluent's wire format, with the schema whose id they contain."""

from __future__ import annotations

from typing import Final

from client.schemas.codec import Limits, MisfitError, SchemaError
from client.schemas.wire_format import unframe
from console.decoding.decoders import AUTO, Decoded, as_json, decode
from console.decoding.errors import DecodingError
from console.decoding.limits import MAX_BYTES, MAX_DEPTH, MAX_ITEMS
from console.decoding.schema_cache import NO_REGISTRY, Failure, Loaded, SchemaCache

REGISTRY: Final = "registry"
_LIMITS: Final = Limits(MAX_ITEMS, MAX_DEPTH)
_KIND_OF_JSON: Final = "JSON"


def schema_id_of(data: bytes) -> int | None:
    """Return the id of the schema that data seems to have; None if it has none, or is too large to be decoded."""
    if data[:1] != b"\0" or not 5 < len(data) <= MAX_BYTES:
        return None
    return unframe(data)[0] or None


def decode_registered(name: str, data: bytes, schemas: SchemaCache) -> Decoded:
    """Decode with a schema that has been loaded. Data without one is shown as by `auto`, with the error.

    For `auto`, an id that the registry does not have is no error: other data may begin with a 0, too.
    """
    number = schema_id_of(data)
    if number is None:
        found = decode(AUTO, data)
        return found if name == AUTO else found._replace(error=_reason(data, schemas))
    state = schemas.get(number)
    if isinstance(state, Failure):
        found = decode(AUTO, data)
        is_silent = name == AUTO and state.is_unknown
        return found if is_silent else found._replace(error=f"has the schema id {number}: {state.reason}")
    try:
        return _decoded(number, unframe(data)[1], state)._replace(schema_type=state.schema.kind)
    except (DecodingError, SchemaError) as error:
        return decode(AUTO, data)._replace(error=str(error), schema_id=number, schema_type=state.schema.kind)


def _decoded(number: int, content: bytes, state: Loaded) -> Decoded:
    """Raises DecodingError, SchemaError."""
    if state.schema.kind == _KIND_OF_JSON:  # it is not validated: an expression of a schema may need any time
        found = decode("json", content)
        if found.error is not None:
            raise DecodingError(found.error)
        return found._replace(decoder=REGISTRY, schema_id=number)
    if state.codec is None:
        raise DecodingError(f"cannot be decoded: {state.error}")
    return as_json(REGISTRY, state.codec.decode(content, is_framed=True, limits=_LIMITS), number)


def _reason(data: bytes, schemas: SchemaCache) -> str:
    if not schemas.is_configured:
        return f"cannot be decoded: {NO_REGISTRY}"
    if len(data) > MAX_BYTES:
        return f"has more than {MAX_BYTES} bytes"
    try:
        return f"has the schema id {unframe(data)[0]}, and nothing after it"
    except MisfitError as error:
        return str(error)
