"""Protobuf: binary messages and their JSON mapping.

The JSON mapping is Protobuf's own: names in lowerCamelCase, 64-bit integers as strings, bytes in base64. Fields without
a value are shown with their default. Names as in the .proto file are understood, too.

In Confluent's wire format the position of the message in its .proto file precedes the message: the number of indexes,
and the indexes, from the top-level message to the nested one. They are zigzag varints; the first message is a single 0.
"""

import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from client.schemas.codec import Budget, Limits, MisfitError, SchemaError, missing_library
from protocol.record import unzigzag
from protocol.varint import encode_unsigned_varint

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor, FileDescriptor

_MAIN = "schema.proto"
_COMPILER_TIMEOUT_S = 30


class ProtobufCodec:
    """The messages of a .proto file; without framing the one with the name `message`, by default the first one."""

    def __init__(self, descriptor_set: bytes, message: str | None = None) -> None:
        """Take a FileDescriptorSet, whose last file is the schema.

        Raises SchemaError for other bytes, a missing message, or if protobuf is not installed.
        """
        try:
            from google.protobuf import (  # optional
                descriptor_pb2,
                descriptor_pool,
                json_format,
                message_factory,
            )
            from google.protobuf.message import DecodeError, Message
        except ImportError as error:
            raise missing_library(error) from None
        self._json_format, self._decode_error, self._message_type = json_format, DecodeError, Message
        self._class_of = message_factory.GetMessageClass
        self._pool = descriptor_pool.DescriptorPool()
        try:
            files = descriptor_pb2.FileDescriptorSet.FromString(descriptor_set).file
            for file in files:
                self._pool.Add(file)
            self._file: FileDescriptor = self._pool.FindFileByName(files[-1].name)
        except (DecodeError, TypeError, KeyError, IndexError) as error:
            raise SchemaError(f"not a set of Protobuf descriptors: {error}") from None
        self._default = self._message(message)

    def _message(self, name: str | None) -> "Descriptor":
        top = list(self._file.message_types_by_name.values())
        if not top:
            raise SchemaError("the Protobuf schema has no message")
        if name is None:
            return top[0]
        for full_name in (name, f"{self._file.package}.{name}"):
            try:
                return self._pool.FindMessageTypeByName(full_name)
            except KeyError:
                continue
        raise SchemaError(f"the Protobuf schema has no message {name}: it has {', '.join(one.name for one in top)}")

    def decode(self, data: bytes, *, is_framed: bool, limits: Limits | None = None) -> Any:
        """Return the JSON value. Raises MisfitError."""
        descriptor, start = self._default, 0
        if is_framed:
            descriptor, start = self._framed_message(data)
        try:
            message = self._class_of(descriptor).FromString(data[start:])
            if limits is not None:
                self._check(message, Budget(limits))
            return self._json_format.MessageToDict(
                message, always_print_fields_with_no_presence=True, descriptor_pool=self._pool
            )
        except (self._decode_error, self._json_format.Error, ValueError, TypeError, RecursionError) as error:
            raise MisfitError(f"does not fit the Protobuf message {descriptor.full_name}: {error}") from None

    def _check(self, message: Any, budget: Budget, depth: int = 0) -> None:
        """Count what is shown of a message: also fields without a value are. Raises MisfitError."""
        budget.take(len(message.DESCRIPTOR.fields), depth)
        if message.DESCRIPTOR.full_name == "google.protobuf.Any":
            self._check_any(message, budget, depth)
            return
        for field, value in message.ListFields():
            if isinstance(value, self._message_type):
                self._check(value, budget, depth + 1)
            elif hasattr(value, "__len__") and not isinstance(value, (str, bytes)):
                budget.take(len(value), depth)
                is_map = field.message_type is not None and field.message_type.GetOptions().map_entry
                for one in value.values() if is_map else value:
                    if isinstance(one, self._message_type):
                        self._check(one, budget, depth + 1)

    def _check_any(self, message: Any, budget: Budget, depth: int) -> None:
        try:
            found = self._pool.FindMessageTypeByName(message.TypeName())
        except KeyError:
            return  # not shown: `decode` raises
        self._check(self._class_of(found).FromString(message.value), budget, depth + 1)

    def encode(self, value: Any, *, is_framed: bool) -> bytes:
        """Return the bytes for a JSON value. Raises MisfitError."""
        if not isinstance(value, dict) and not self._default.full_name.startswith("google.protobuf."):
            raise MisfitError(f"does not fit the Protobuf message {self._default.full_name}: it must be a JSON object")
        try:
            message = self._json_format.ParseDict(value, self._class_of(self._default)(), descriptor_pool=self._pool)
        except (self._json_format.Error, ValueError, TypeError, AttributeError) as error:
            raise MisfitError(f"does not fit the Protobuf message {self._default.full_name}: {error}") from None
        prefix = encode_indexes(_indexes(self._default)) if is_framed else b""
        return prefix + bytes(message.SerializeToString())

    def _framed_message(self, data: bytes) -> tuple["Descriptor", int]:
        """Return the message that the indexes name, and where its bytes start."""
        indexes, start = decode_indexes(data)
        messages = list(self._file.message_types_by_name.values())
        for index in indexes:
            if not 0 <= index < len(messages):
                raise MisfitError(
                    f"names the message with the indexes {indexes}, which its Protobuf schema does not have"
                )
            found = messages[index]
            messages = list(found.nested_types)
        return found, start


def _indexes(descriptor: "Descriptor") -> list[int]:
    """Return the position of a message in its file, from the top-level message on."""
    parent = descriptor.containing_type
    if parent is None:
        return [list(descriptor.file.message_types_by_name.values()).index(descriptor)]
    return [*_indexes(parent), list(parent.nested_types).index(descriptor)]


def encode_indexes(indexes: Sequence[int]) -> bytes:
    """Return the position of a message as it precedes the message in Confluent's wire format."""
    if list(indexes) == [0]:
        return b"\0"
    return b"".join(encode_unsigned_varint(number << 1) for number in (len(indexes), *indexes))


def decode_indexes(data: bytes) -> tuple[list[int], int]:
    """Return the position of a message in its file, and the number of bytes read. Raises MisfitError."""
    try:
        count, position = _read_varint(data, 0)
        indexes = []
        for _ in range(count):
            index, position = _read_varint(data, position)
            indexes.append(index)
    except IndexError:
        raise MisfitError("ends before the indexes of its Protobuf message") from None
    return indexes or [0], position


def _read_varint(data: bytes, position: int) -> tuple[int, int]:
    """Return a zigzag varint and the position after it. Raises IndexError at the end of the data."""
    number = shift = 0
    while True:
        byte = data[position]
        position += 1
        number |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return unzigzag(number), position


def compile_text(text: str, references: Mapping[str, str]) -> bytes:
    """Compile a .proto text to a FileDescriptorSet. `references` are the texts of its imports.

    Raises SchemaError for errors in the text, or if grpcio-tools is not installed. Blocks while the compiler runs.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for file, content in [*references.items(), (_MAIN, text)]:
            path = (folder / file).resolve()
            if not path.is_relative_to(folder.resolve()):
                raise SchemaError(f"the Protobuf schema refers to {file!r}, which is outside its folder")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content)
        return compile_file(folder / _MAIN)


def compile_file(file: Path) -> bytes:
    """Compile a .proto file; it may import files of its folder. As `compile_text`."""
    try:
        import grpc_tools  # optional  # noqa: F401
    except ImportError as error:
        raise missing_library(error) from None
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "descriptors"
        # In another process: the compiler prints its errors on the standard error of its process.
        command = [sys.executable, "-m", "grpc_tools.protoc", f"-I{file.parent}", "--include_imports"]
        try:
            done = subprocess.run(
                [*command, f"--descriptor_set_out={out}", file.name],
                capture_output=True,
                text=True,
                timeout=_COMPILER_TIMEOUT_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise SchemaError(f"the Protobuf compiler has not ended in {_COMPILER_TIMEOUT_S} s") from None
        if done.returncode:
            raise SchemaError(f"not a Protobuf schema: {_errors(done.stderr, file) or f'protoc: {done.returncode}'}")
        return out.read_bytes()


def _errors(printed: str, file: Path) -> str:
    """Return the errors of the compiler, without its log messages and the folder of the file."""
    lines = [line for line in printed.splitlines() if re.match(r"WARNING: |[IWEF][0-9]{4} ", line) is None]
    return " ".join(lines).replace(f"{file.parent}/", "")
