"""Generates the decoder of one (message, version).

The generated function takes (buffer, offset) and returns (message, offset after it):

- `b` is a memoryview of the whole buffer, `end` its length, `p` the position, `n` a length or count.
- One `unpack_from` reads consecutive fields of fixed size and the length after them directly into the object's slots.
- Structs are created without their constructor; nested structs are decoded inline, not by calls.
- A count is compared with the bytes left before objects are created.
- If the code fails, the line number identifies the field (protocol/source.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from protocol import faults
from protocol.fields import Field
from protocol.message import NO_TAGS, Message
from protocol.source import (
    ARRAYS,
    FIXED,
    FORMATS,
    Part,
    Source,
    default_source,
    element_min_size,
    is_shared,
    struct_of,
)

if TYPE_CHECKING:
    from protocol.message import Decoder

_SIZES = {"B": 1, **dict(FIXED.values())}


def compile_decoder(cls: type[Message], version: int) -> Decoder:
    """Generate and compile the decoder; the message must have the version."""
    return _DecoderWriter(cls, version).build()


class _DecoderWriter:
    def __init__(self, cls: type[Message], version: int) -> None:
        self.cls = cls
        self.version = version
        self.flexible = cls.is_flexible(version)
        self.source = Source(f"{cls.NAME} v{version} decoder")
        self.pending: list[tuple[str, str, str]] = []  # target, format character, path
        self.tag_readers: list[tuple[str, type[Message], str]] = []  # function, struct, path
        self.source.names.update(
            new=object.__new__,
            NO_TAGS=NO_TAGS,
            NAME=f"{cls.NAME} v{version}",
            FAULTS=faults.DECODE_FAULTS,
            explain=faults.explain_decode,
            uvarint=faults.read_uvarint,
            string_length=faults.read_string_length,
            beyond=faults.beyond,
            too_many=faults.too_many,
            null=faults.null,
            MalformedError=faults.MalformedError,
            unknown_tag=faults.read_unknown_tag,
            unknown_tags=faults.read_unknown_tags,
        )

    def build(self) -> Decoder:
        source = self.source
        with source.block("def decode(b, p):"):
            source.line("if type(b) is not memoryview: b = memoryview(b)")
            source.line("if b.format != 'B': b = b.cast('B')")
            source.line("end = len(b)")
            with source.block("try:"):
                self.struct(self.cls, "o", "")
                self.flush()
                source.line("return o, p")
            with source.block("except FAULTS as fault:"):
                source.line("raise explain(fault, SOURCE, NAME, b) from None")
        while self.tag_readers:
            self.tag_reader(*self.tag_readers.pop())
        return source.build("decode")

    def struct(self, cls: type[Message], var: str, path: str) -> None:
        """Generate the code that creates a struct in `var`; fields of fixed size may stay pending."""
        source = self.source
        source.line(f"{var} = new({source.constant(cls, cls.NAME)})")
        self.defaults(cls, var)
        for field in cls.FIELDS:
            if field.present(self.version) and not (field.tag is not None and self.flexible):
                self.field(field, f"{var}.{field.name}", _join(path, field.name))
        if self.flexible:
            part = Part(_join(path, "tagged fields"), 1)
            self.fixed("n", "B", part.path)
            self.flush()
            if any(self.is_tagged(field) for field in cls.FIELDS):
                reader = source.unique("tags")
                self.tag_readers.append((reader, cls, path))
            else:
                reader = "unknown_tags"
            source.line(f"if n: p = {reader}(b, p, end, n, {var})", part)

    def defaults(self, cls: type[Message], var: str) -> None:
        """Generate the defaults for fields that the version does not have, or has as tagged fields only."""
        groups: dict[str, list[str]] = {"NO_TAGS": [f"{var}.unknown_tags"]}
        for field in cls.FIELDS:
            if not field.present(self.version) or self.is_tagged(field):
                value = default_source(self.source, field)
                if is_shared(field):
                    groups.setdefault(value, []).append(f"{var}.{field.name}")
                else:
                    self.source.line(f"{var}.{field.name} = {value}")
        for value, targets in groups.items():
            self.source.line(f"{' = '.join(targets)} = {value}")

    def is_tagged(self, field: Field) -> bool:
        return field.tag is not None and self.flexible and field.present(self.version)

    def tag_reader(self, name: str, cls: type[Message], path: str) -> None:
        """Generate the function for the tagged fields of a struct that declares some."""
        source = self.source
        part = Part(_join(path, "tagged fields"), 1)
        with source.block(f"def {name}(b, p, end, t, o):"):
            source.line("if t > 127: t, p = uvarint(b, p - 1)", part)
            with source.block("while t:"):
                source.line("t -= 1")
                source.line("tag, p = uvarint(b, p)", part)
                source.line("n, p = uvarint(b, p)", part)
                source.line("stop = p + n")
                source.line("if stop > end: raise beyond(n, p, end)", part)
                branch = "if"
                for field in filter(self.is_tagged, cls.FIELDS):
                    at = _join(path, field.name)
                    with source.block(f"{branch} tag == {field.tag}:"):
                        self.field(field, f"o.{field.name}", at)
                        self.flush()
                        with source.block("if p != stop:"):
                            text = "the content is {p - stop:+} bytes off the tagged field's size"
                            source.line(f'raise MalformedError(f"{text}")', Part(at, 0))
                    branch = "elif"
                with source.block("else:"):
                    source.line("unknown_tag(b, p, stop, tag, o)")
                    source.line("p = stop")
            source.line("return p")

    def field(self, field: Field, target: str, path: str) -> None:
        """Generate the code that reads one field into `target`."""
        if field.kind in FIXED:
            self.fixed(target, FIXED[field.kind][0], path)
        elif field.kind == "struct":
            self.nested(field, target, path)
        else:
            compact = self.flexible and field.flexible
            nullable = field.may_be_null(self.version)
            self.length(field.kind, compact, path)
            if field.kind == "array":
                self.array(field, target, nullable, compact, path)
            else:
                self.blob(field.kind, target, nullable, compact, path)

    def fixed(self, target: str, char: str, path: str) -> None:
        self.pending.append((target, char, path))

    def flush(self) -> None:
        """Generate one `unpack_from` for all pending fields."""
        if not self.pending:
            return
        targets, chars, paths = zip(*self.pending, strict=True)
        self.pending = []
        parts = [Part(path, _SIZES[char]) for path, char in zip(paths, chars, strict=True)]
        size = sum(part.size for part in parts)
        if chars == ("B",):
            self.source.line(f"{targets[0]} = b[p]", *parts)
        else:
            unpack = self.source.unique("unpack")
            self.source.names[unpack] = FORMATS["".join(chars)].unpack_from
            self.source.line(f"{', '.join(targets)}, = {unpack}(b, p)", *parts)
        self.source.line(f"p += {size}")

    def length(self, kind: str, compact: bool, path: str) -> None:
        """Generate the code that reads a length or count into `n`; a compact one is still plus one, 0 for null."""
        if compact:
            self.fixed("n", "B", path)
            self.flush()
            read = "string_length" if kind == "string" else "uvarint"
            part = Part(path, 5)
            if kind == "record_set":  # usually two bytes, and on the hottest path
                with self.source.block("if n > 127:"):
                    self.source.line("m = b[p]", part)
                    self.source.line("if m < 128: n = n & 127 | m << 7; p += 1", part)
                    self.source.line("else: n, p = uvarint(b, p - 1)", part)
            else:
                self.source.line(f"if n > 127: n, p = {read}(b, p - 1)", part)
        else:
            self.fixed("n", "h" if kind == "string" else "i", path)
            self.flush()

    def blob(self, kind: str, target: str, nullable: bool, compact: bool, path: str) -> None:
        """Generate the code for a string, bytes or records of length `n`."""
        source = self.source
        part = Part(path, 0)
        value = {
            "string": 'str(b[p:q], "utf-8")',
            "byte_string": "b[p:q].tobytes()",
            "record_set": "b[p:q]",
        }[kind]
        with source.block("if n:" if compact else "if n >= 0:"):
            source.line("q = p + n - 1" if compact else "q = p + n")
            source.line(f"if q > end: raise beyond(n{' - 1' if compact else ''}, p, end)", part)
            source.line(f"{target} = {value}", part)
            source.line("p = q")
        self.null_branch(target, nullable, compact, "beyond", part)

    def null_branch(self, target: str, nullable: bool, compact: bool, refuse: str, part: Part) -> None:
        source = self.source
        if not compact:
            source.line(f"elif n < -1: raise {refuse}(n, p, end)", part)
        with source.block("else:"):
            source.line(f"{target} = None" if nullable else "raise null()", part)

    def array(self, field: Field, target: str, nullable: bool, compact: bool, path: str) -> None:
        """Generate the code for an array of count `n`."""
        source = self.source
        part = Part(path, 0)
        with source.block("if n:" if compact else "if n >= 0:"):
            if compact:
                source.line("n -= 1")
            least = element_min_size(field, self.version, self.flexible)
            source.line(f"if n * {least} > end - p: raise too_many(n, p, end)", part)
            if isinstance(field.element, type):
                self.structs(field.element, target, path)
            elif field.element in ARRAYS:
                formats = source.constant(ARRAYS[field.element], "formats")
                source.line(f"{target} = list({formats}[n].unpack_from(b, p))", part)
                source.line(f"p += n * {least}")
            else:
                self.values(field, target, path)
        self.null_branch(target, nullable, compact, "too_many", part)

    def structs(self, element: type[Message], target: str, path: str) -> None:
        source = self.source
        items, var = source.unique("items"), source.unique("o")
        source.line(f"{target} = {items} = []")
        with source.block("if n:"):
            source.line(f"{items} = {items}.append")
            with source.block("for _ in range(n):"):
                self.struct(element, var, path)
                self.flush()
                source.line(f"{items}({var})")

    def values(self, field: Field, target: str, path: str) -> None:
        """Generate the code for an array of strings, bytes, UUIDs or booleans, element by element."""
        assert isinstance(field.element, str)
        source = self.source
        items = source.unique("items")
        source.line(f"{target} = {items} = []")
        with source.block("for _ in range(n):"):
            self.field(Field(field.element, None, "0+", "", None, None, False), "value", path)
            self.flush()
            source.line(f"{items}.append(value)")

    def nested(self, field: Field, target: str, path: str) -> None:
        """Generate the code for a struct. A nullable one has a byte in front: 1, for null -1, in a tagged field 0."""
        source = self.source
        var = source.unique("o")
        if field.may_be_null(self.version):
            self.fixed("n", "b", path)
            self.flush()
            source.line(f"if n {'<=' if self.is_tagged(field) else '<'} 0: {target} = None")
            with source.block("else:"):
                self.struct(struct_of(field), var, path)
                self.flush()
                source.line(f"{target} = {var}")
        else:
            self.struct(struct_of(field), var, path)
            source.line(f"{target} = {var}")


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
