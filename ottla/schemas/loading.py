"""Codecs for schemas in files and in a schema registry, and the options that name them."""

import asyncio
from pathlib import Path

from ottla.command_line.failure import CommandError
from ottla.schemas.avro import AvroCodec
from ottla.schemas.codec import Codec, SchemaError
from ottla.schemas.json_schema import JsonSchemaCodec
from ottla.schemas.protobuf import ProtobufCodec, compile_file, compile_text
from ottla.schemas.registry import RegisteredSchema, SchemaRegistry

_DESCRIPTOR_SETS = (".desc", ".protoset", ".binpb", ".pb")


async def codec_of_file(text: str) -> Codec | None:
    """Return the codec for "FILE", or for a Protobuf message "FILE#MESSAGE"; None if there is no such file.

    The suffix names the kind: .avsc, .json (JSON Schema), .proto, or a compiled descriptor set. Raises SchemaError.
    """
    return await asyncio.to_thread(_codec_of_file, text)


def _codec_of_file(text: str) -> Codec | None:
    path, message = Path(text), None
    if not path.is_file():
        name, _, message = text.rpartition("#")
        path = Path(name)
        if not path.is_file():
            return None
    try:
        return _load(path, message)
    except SchemaError as error:
        raise SchemaError(f"{path}: {error}") from None
    except UnicodeDecodeError:
        raise SchemaError(f"{path}: not a schema: it is not text") from None


def _load(path: Path, message: str | None) -> Codec:
    suffix = path.suffix.lower()
    if message is not None and suffix not in (".proto", *_DESCRIPTOR_SETS):
        raise SchemaError(f"only a Protobuf schema has messages to select with #{message}")
    if suffix == ".avsc":
        return AvroCodec(path.read_text())
    if suffix == ".json":
        return JsonSchemaCodec(path.read_text())
    if suffix == ".proto":
        return ProtobufCodec(compile_file(path), message)
    if suffix in _DESCRIPTOR_SETS:
        return ProtobufCodec(path.read_bytes(), message)
    raise SchemaError(
        f"the name of a schema file must end with .avsc, .json, .proto or {' or '.join(_DESCRIPTOR_SETS)}"
    )


async def codec_of_registered(schema: RegisteredSchema, message: str | None = None) -> Codec:
    """Return the codec for a schema of a registry. Raises SchemaError."""
    try:
        return await asyncio.to_thread(_registered, schema, message)
    except SchemaError as error:
        raise SchemaError(f"the schema with the id {schema.id}: {error}") from None


def _registered(schema: RegisteredSchema, message: str | None) -> Codec:
    if message is not None and schema.kind != "PROTOBUF":
        raise SchemaError(f"only a Protobuf schema has messages to select with #{message}")
    match schema.kind:
        case "AVRO":
            return AvroCodec(schema.text, schema.references)
        case "JSON":
            return JsonSchemaCodec(schema.text, schema.references)
        case "PROTOBUF":
            return ProtobufCodec(compile_text(schema.text, schema.references), message)
    raise SchemaError(f"the kind {schema.kind} is neither AVRO nor PROTOBUF nor JSON")


async def find_registered(registry: SchemaRegistry, text: str) -> tuple[RegisteredSchema, str | None]:
    """Return the schema for "ID" or "SUBJECT", and the message of "ID#MESSAGE". Raises SchemaError."""
    name, hash_sign, message = text.partition("#")
    if name.isascii() and name.isdigit():
        return await registry.by_id(int(name)), message if hash_sign else None
    return await registry.latest(name), message if hash_sign else None


def needs_registry(text: str, option: str) -> CommandError:
    """Return the error for a schema that is not a file, without a registry."""
    return CommandError(
        f"{option} {text!r}: there is no such file; the ids and subjects of schemas need --schema-registry"
    )
