"""Codecs for schemas in files and in a schema registry, and the options that name them."""

import asyncio
from pathlib import Path

from client.schemas.avro import AvroCodec
from client.schemas.codec import Codec, SchemaError
from client.schemas.json_schema import JsonSchemaCodec
from client.schemas.protobuf import ProtobufCodec, compile_file
from client.schemas.registry import RegisteredSchema, SchemaRegistry, UnknownSubjectError
from ottla.command_line.failure import CommandError, suggest

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


async def find_registered(registry: SchemaRegistry, text: str) -> tuple[RegisteredSchema, str | None]:
    """Return the schema for "ID" or "SUBJECT", and the message of "ID#MESSAGE". Raises SchemaError."""
    name, hash_sign, message = text.partition("#")
    if name.isascii() and name.isdigit():
        return await registry.by_id(int(name)), message if hash_sign else None
    try:
        return await registry.latest(name), message if hash_sign else None
    except UnknownSubjectError as error:
        raise SchemaError(f"{error}{suggest(name, await registry.subjects())}") from None


def needs_registry(text: str, option: str) -> CommandError:
    """Return the error for a schema that is not a file, without a registry."""
    return CommandError(
        f"{option} {text!r}: there is no such file; the ids and subjects of schemas need --schema-registry"
    )
