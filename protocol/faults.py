"""Functions that generated code calls in rare cases, and the conversion of its failures to protocol errors."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

from protocol.errors import DecodeError, EncodeError
from protocol.message import NO_TAGS, Message
from protocol.varint import encode_unsigned_varint

if TYPE_CHECKING:
    from protocol.source import Source

MAX_STRING = 32767
"""The largest length of a string in bytes of UTF-8, also in the compact format, whose length field is larger."""


class MalformedError(Exception):
    """A broken rule; the source line that raises it identifies the field."""


DECODE_FAULTS = (struct.error, IndexError, UnicodeDecodeError, MalformedError)
ENCODE_FAULTS = (struct.error, UnicodeEncodeError, AttributeError, TypeError, MalformedError)


def read_uvarint(b: memoryview, p: int) -> tuple[int, int]:
    """Read an unsigned varint of at most 5 bytes and 32 bits."""
    value = b[p]
    if value < 128:
        return value, p + 1
    value &= 127
    for i in range(1, 5):
        byte = b[p + i]
        value |= (byte & 127) << (7 * i)
        if byte < 128:
            if value >> 32:
                break
            return value, p + i + 1
    raise MalformedError("varint longer than 5 bytes or 32 bits")


def read_string_length(b: memoryview, p: int) -> tuple[int, int]:
    """Read the length plus one of a compact string whose length needs more than one byte."""
    n, after = read_uvarint(b, p)
    if n > MAX_STRING + 1:
        raise MalformedError(f"string of {n - 1} bytes, at most {MAX_STRING} are allowed")
    return n, after


def beyond(n: int, p: int, end: int) -> MalformedError:
    """Return the error for a length that is negative or beyond the buffer."""
    if n < 0:
        return MalformedError(f"negative length {n}")
    return MalformedError(f"length {n}, {end - p} bytes left")


def too_many(n: int, p: int, end: int) -> MalformedError:
    """Return the error for a count that is negative or too large for the bytes left."""
    if n < 0:
        return MalformedError(f"negative count {n}")
    return MalformedError(f"{n} elements, {end - p} bytes left")


def null() -> MalformedError:
    """Return the error for null in a version that does not allow it."""
    return MalformedError("null is not allowed")


def read_unknown_tag(b: memoryview, p: int, stop: int, tag: int, o: Message) -> None:
    """Store a tagged field that the version does not know."""
    if o.unknown_tags is NO_TAGS:
        o.unknown_tags = {}
    o.unknown_tags[tag] = b[p:stop].tobytes()


def read_unknown_tags(b: memoryview, p: int, end: int, count: int, o: Message) -> int:
    """Read the tagged fields of a struct that declares none."""
    if count > 127:
        count, p = read_uvarint(b, p - 1)
    for _ in range(count):
        tag, p = read_uvarint(b, p)
        n, p = read_uvarint(b, p)
        stop = p + n
        if stop > end:
            raise beyond(n, p, end)
        read_unknown_tag(b, p, stop, tag, o)
        p = stop
    return p


def write_tags(known: dict[int, bytes | bytearray], o: Message) -> bytes:
    """Encode the count and the tagged fields, with the unknown ones, in the order of their tags."""
    if o.unknown_tags:
        both = known.keys() & o.unknown_tags.keys()
        if both:
            raise MalformedError(f"tag {min(both)} is a field of this version, but is also in unknown_tags")
        known = {**known, **o.unknown_tags}
    out = bytearray(encode_unsigned_varint(len(known)))
    for tag in sorted(known):
        out += encode_unsigned_varint(tag)
        out += encode_unsigned_varint(len(known[tag]))
        out += known[tag]
    return bytes(out)


def string_length(n: int) -> bytes:
    """Encode the length plus one of a compact string of more than 126 bytes as a varint."""
    if n > MAX_STRING + 1:
        raise MalformedError(f"string of {n - 1} bytes, at most {MAX_STRING} are allowed")
    return encode_unsigned_varint(n)


def explain_decode(fault: Exception, source: Source, message: str, b: memoryview) -> DecodeError:
    """Return the error of a failed decode, with field, offset and rule."""
    parts, offset = source.failed_at(fault.__traceback__)
    field = parts[0].path if parts else ""
    if isinstance(fault, struct.error | IndexError):
        rule = "the buffer ends inside the field"
        for part in parts:
            field = part.path
            left = max(0, len(b) - offset)
            if part.size > left:
                rule = f"needs {part.size} bytes, {left} left"
                break
            offset += part.size
    elif isinstance(fault, UnicodeDecodeError):
        rule = f"not valid UTF-8 at byte {fault.start}: {fault.reason}"
    else:
        rule = str(fault)
    return DecodeError(message, field, offset, rule)


def explain_encode(fault: Exception, source: Source, message: str) -> EncodeError:
    """Return the error of a failed encode, with the field, or the fields that are packed together, and the rule."""
    parts, _ = source.failed_at(fault.__traceback__)
    fields = list(dict.fromkeys(part.path for part in parts))
    if isinstance(fault, AttributeError | TypeError) and "None" in str(fault):
        rule = "null is not allowed"
    else:
        rule = str(fault)
    return EncodeError(message, " or ".join(fields), rule)


def refuse_absent(o: Message, version: int, names: tuple[str, ...], defaults: tuple[Any, ...]) -> MalformedError:
    """Return the error for a value of a field that the version does not have and that is not ignorable."""
    for name, default in zip(names, defaults, strict=True):
        if getattr(o, name) != default:
            return MalformedError(f"version {version} has no {name}, which is {getattr(o, name)!r}")
    return MalformedError(f"version {version} has no tagged fields")
