"""Codecs for the schemas of a schema registry."""

import asyncio
from collections.abc import Mapping

from client.schemas.avro import AvroCodec
from client.schemas.codec import Codec, SchemaError
from client.schemas.json_schema import JsonSchemaCodec, Keyword
from client.schemas.protobuf import ProtobufCodec, compile_text
from client.schemas.registry import RegisteredSchema


async def codec_of_registered(
    schema: RegisteredSchema, message: str | None = None, keywords: Mapping[str, Keyword] | None = None
) -> Codec:
    """Return the codec for a schema of a registry. keywords: as for JsonSchemaCodec. Raises SchemaError."""
    try:
        return await asyncio.to_thread(_registered, schema, message, keywords)
    except RecursionError:
        raise SchemaError(f"the schema with the id {schema.id}: it has too many levels") from None
    except SchemaError as error:
        raise SchemaError(f"the schema with the id {schema.id}: {error}") from None


def _registered(schema: RegisteredSchema, message: str | None, keywords: Mapping[str, Keyword] | None) -> Codec:
    if message is not None and schema.kind != "PROTOBUF":
        raise SchemaError(f"only a Protobuf schema has messages to select with #{message}")
    match schema.kind:
        case "AVRO":
            return AvroCodec(schema.text, schema.references)
        case "JSON":
            return JsonSchemaCodec(schema.text, schema.references, keywords)
        case "PROTOBUF":
            return ProtobufCodec(compile_text(schema.text, schema.references), message)
    raise SchemaError(f"the kind {schema.kind} is neither AVRO nor PROTOBUF nor JSON")
