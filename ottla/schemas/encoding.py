"""Encodes keys and values for `ottla produce`: JSON text becomes what a schema describes."""

import contextlib
from collections.abc import AsyncIterator

from client.schemas.codec import Codec, MisfitError
from client.schemas.json_text import load
from client.schemas.registered import codec_of_registered
from client.schemas.registry import SchemaRegistry
from client.schemas.wire_format import frame
from ottla.records.outgoing import Encode, LineError
from ottla.schemas.loading import codec_of_file, find_registered, needs_registry
from ottla.schemas.options import REGISTRY_OPTION, EncodingOptions


async def load_encoders(options: EncodingOptions) -> tuple[Encode | None, Encode | None]:
    """Return the functions that encode keys and values; None without a schema. Raises CommandError."""
    async with _opened(options.registry) as registry:
        return (
            await _encoder(options.key_schema, "key", registry),
            await _encoder(options.value_schema, "value", registry),
        )


@contextlib.asynccontextmanager
async def _opened(url: str | None) -> AsyncIterator[SchemaRegistry | None]:
    if url is None:
        yield None
        return
    async with SchemaRegistry(url, REGISTRY_OPTION) as registry:
        yield registry


async def _encoder(schema: str | None, name: str, registry: SchemaRegistry | None) -> Encode | None:
    if schema is None:
        return None
    codec = await codec_of_file(schema)
    if codec is not None:
        return _encode_with(codec, name, None)
    if registry is None:
        raise needs_registry(schema, f"--{name}-schema")
    registered, message = await find_registered(registry, schema)
    return _encode_with(await codec_of_registered(registered, message), name, registered.id)


def _encode_with(codec: Codec, name: str, schema_id: int | None) -> Encode:
    """Return a function that encodes JSON text; with the id of a registered schema in Confluent's wire format."""

    def encode(text: bytes) -> bytes:
        try:
            value = load(text)
        except ValueError as error:
            raise LineError(f"has a {name} that is not JSON: {error}") from None
        try:
            data = codec.encode(value, is_framed=schema_id is not None)
        except MisfitError as error:
            raise LineError(f"has a {name} that {error}") from None
        return data if schema_id is None else frame(schema_id, data)

    return encode
