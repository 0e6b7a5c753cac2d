"""Generates the encoder of one (message, version).

The generated function takes a message and returns its encoded pieces:

- `w` is the bytearray to which small fields are appended. It becomes a piece at the end and before records, which are
  pieces of their own.
- One `pack` writes consecutive fields of fixed size and the length after them.
- A compact length below 128 is such a field, of one byte; larger ones are written in a branch.
- An empty list of tagged fields is a pad byte of that format.
- One condition per struct checks that the fields that the version does not have are defaults, unless they are
  ignorable.
- If the code fails, the line number identifies the field (protocol/source.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from protocol import faults
from protocol.fields import Field
from protocol.message import Message
from protocol.source import (
    ARRAYS,
    FIXED,
    FORMATS,
    Part,
    Source,
    default_of,
    default_source,
    struct_of,
)
from protocol.varint import encode_unsigned_varint

if TYPE_CHECKING:
    from protocol.message import Encoder


def compile_encoder(cls: type[Message], version: int) -> Encoder:
    """Generate and compile the encoder; the message must have the version."""
    return _EncoderWriter(cls, version).build()


class _EncoderWriter:
    def __init__(self, cls: type[Message], version: int) -> None:
        self.cls = cls
        self.version = version
        self.flexible = cls.is_flexible(version)
        self.source = Source(f"{cls.NAME} v{version} encoder")
        self.pending: list[tuple[str, str, str]] = []  # expression, format character, path
        self.tag_writers: list[tuple[str, type[Message], str]] = []  # function, struct, path
        self.source.names.update(
            NAME=f"{cls.NAME} v{version}",
            VERSION=version,
            FAULTS=faults.ENCODE_FAULTS,
            explain=faults.explain_encode,
            uvarint=encode_unsigned_varint,
            string_length=faults.string_length,
            refuse_absent=faults.refuse_absent,
            write_tags=faults.write_tags,
            MalformedError=faults.MalformedError,
        )

    def build(self) -> Encoder:
        source = self.source
        with source.block("def encode(o):"):
            source.line("out = []")
            source.line("w = bytearray()")
            with source.block("try:"):
                self.struct(self.cls, "o", "")
                self.flush()
            with source.block("except FAULTS as fault:"):
                source.line("raise explain(fault, SOURCE, NAME) from fault")
            source.line("if w or not out: out.append(w)")
            source.line("return out")
        while self.tag_writers:
            self.tag_writer(*self.tag_writers.pop())
        return source.build("encode")

    def struct(self, cls: type[Message], var: str, path: str) -> None:
        """Generate the code for the struct in `var`; fields of fixed size may stay pending."""
        self.refuse_absent_fields(cls, var, path)
        for field in cls.FIELDS:
            if field.present(self.version) and not self.is_tagged(field):
                self.field(field, f"{var}.{field.name}", _join(path, field.name))
        if self.flexible:
            self.tags(cls, var, path)

    def refuse_absent_fields(self, cls: type[Message], var: str, path: str) -> None:
        absent = [f for f in cls.FIELDS if not f.present(self.version) and not f.ignorable]
        differs = [self.differs(var, field) for field in absent]
        if not self.flexible:
            differs.append(f"{var}.unknown_tags")
        if differs:
            names = tuple(field.name for field in absent)
            defaults = self.source.constant(tuple(map(default_of, absent)), "defaults")
            condition = " or ".join(differs)
            self.source.line(f"if {condition}: raise refuse_absent({var}, VERSION, {names}, {defaults})", Part(path, 0))

    def differs(self, var: str, field: Field) -> str:
        """Return the condition that the value differs from the default."""
        name = f"{var}.{field.name}"
        if field.default is None:
            return f"{name} is not None"
        if field.kind != "struct":
            return f"{name} != {default_source(self.source, field)}"
        default = self.source.constant(default_of(field), "DEFAULT")
        conditions = [f"{name}.unknown_tags", *(self.differs(name, inner) for inner in struct_of(field).FIELDS)]
        if field.nullable:
            conditions.insert(0, f"{name} is None")
        return f"({name} is not {default} and ({' or '.join(conditions)}))"

    def is_tagged(self, field: Field) -> bool:
        return field.tag is not None and self.flexible and field.present(self.version)

    def tags(self, cls: type[Message], var: str, path: str) -> None:
        """Generate the code for the tagged fields; usually there are none, which is a pad byte."""
        source = self.source
        known = [field for field in cls.FIELDS if self.is_tagged(field)]
        conditions = [f"{var}.unknown_tags", *(self.differs(var, field) for field in known)]
        part = Part(_join(path, "tagged fields"), 0)
        writer = "write_tags({}, "
        if known:
            name = source.unique("tags")
            self.tag_writers.append((name, cls, path))
            writer = f"{name}("
        pending = self.pending
        with source.block(f"if {' or '.join(conditions)}:"):
            self.flush()
            source.line(f"w += {writer}{var})", part)
        with source.block("else:"):
            self.pending = [*pending, ("", "x", part.path)]
            self.flush()

    def tag_writer(self, name: str, cls: type[Message], path: str) -> None:
        """Generate the function for the tagged fields of a struct that declares some."""
        source = self.source
        with source.block(f"def {name}(o):"):
            source.line("tags = {}")
            for field in filter(self.is_tagged, cls.FIELDS):
                with source.block(f"if {self.differs('o', field)}:"):
                    source.line("w = bytearray()")
                    self.field(field, f"o.{field.name}", _join(path, field.name))
                    self.flush()
                    source.line(f"tags[{field.tag}] = w")
            source.line("return write_tags(tags, o)", Part(_join(path, "tagged fields"), 0))

    def field(self, field: Field, value: str, path: str) -> None:
        """Generate the code for the field; `value` is the expression for its value."""
        compact = self.flexible and field.flexible
        nullable = field.may_be_null(self.version)
        part = Part(path, 0)
        if field.kind == "uuid":
            self.source.line(f'if len({value}) != 16: raise MalformedError("a UUID has 16 bytes")', part)
            self.fixed(value, "16s", path)
        elif field.kind in FIXED:
            self.fixed(value, FIXED[field.kind][0], path)
        elif field.kind == "struct":
            self.nested(field, value, path)
        elif field.kind == "array":
            self.array(field, value, nullable, compact, path)
        else:
            self.blob(field.kind, value, nullable, compact, path)

    def fixed(self, value: str, char: str, path: str) -> None:
        self.pending.append((value, char, path))

    def flush(self) -> None:
        """Generate one `pack` for all pending fields."""
        if not self.pending:
            return
        values = [value for value, _, _ in self.pending if value]
        form = "".join(char for _, char, _ in self.pending)
        parts = [Part(path, 0) for _, _, path in self.pending]
        self.pending = []
        if form == "x":
            self.source.line("w.append(0)")
            return
        pack = self.source.unique("pack")
        self.source.names[pack] = FORMATS[form].pack
        self.source.line(f"w += {pack}({', '.join(values)})", *parts)

    def length(self, kind: str, compact: bool, path: str) -> None:
        """Generate the code for `n`: the length or count, plus one if compact."""
        source = self.source
        if not compact:
            self.fixed("n", "h" if kind == "string" else "i", path)
            self.flush()
            return
        pending = self.pending
        with source.block("if n < 128:"):
            self.pending = [*pending, ("n", "B", path)]
            self.flush()
        with source.block("else:"):
            self.pending = pending
            self.flush()
            write = "string_length" if kind == "string" else "uvarint"
            source.line(f"w += {write}(n)", Part(path, 0))

    def blob(self, kind: str, value: str, nullable: bool, compact: bool, path: str) -> None:
        """Generate the code for a string, bytes or records."""
        source = self.source
        part = Part(path, 0)
        plus = " + 1" if compact else ""
        encode = ".encode()" if kind == "string" else ""
        if nullable:
            source.line(f"s = {value}")
            source.line(f"if s is None: n = {0 if compact else -1}; s = b''")
            with source.block("else:"):
                if encode:
                    source.line("s = s.encode()", part)
                source.line(f"n = len(s){plus}", part)
        else:
            source.line(f"s = {value}{encode}", part)
            source.line(f"n = len(s){plus}", part)
        self.length(kind, compact, path)
        if kind == "record_set":
            with source.block(f"if n > {1 if compact else 0}:"):
                source.line("out.append(w)")
                source.line("out.append(s)")
                source.line("w = bytearray()")
        else:
            source.line("w += s", part)

    def array(self, field: Field, value: str, nullable: bool, compact: bool, path: str) -> None:
        source = self.source
        part = Part(path, 0)
        items = source.unique("items")
        plus = " + 1" if compact else ""
        source.line(f"{items} = {value}")
        if nullable:
            source.line(f"if {items} is None: n = {0 if compact else -1}; {items} = ()")
            source.line(f"else: n = len({items}){plus}", part)
        else:
            source.line(f"n = len({items}){plus}", part)
        self.length("array", compact, path)
        if isinstance(field.element, type):
            var = source.unique("o")
            with source.block(f"for {var} in {items}:", part):
                self.struct(field.element, var, path)
                self.flush()
        elif field.element in ARRAYS:
            formats = source.constant(ARRAYS[field.element], "formats")
            source.line(f"if {items}: w += {formats}[len({items})].pack(*{items})", part)
        else:
            assert field.element is not None
            with source.block(f"for value in {items}:", part):
                self.field(Field(field.element, None, "0+", "", None, None, False), "value", path)
                self.flush()

    def nested(self, field: Field, value: str, path: str) -> None:
        """Generate the code for a struct. A nullable one has a byte in front: 1, for null -1, in a tagged field 0."""
        source = self.source
        var = source.unique("o")
        source.line(f"{var} = {value}")
        if field.may_be_null(self.version):
            pending = self.pending
            with source.block(f"if {var} is None:"):
                self.pending = [*pending, ("0" if self.is_tagged(field) else "-1", "b", path)]
                self.flush()
            with source.block("else:"):
                self.pending = [*pending, ("1", "b", path)]
                self.struct(struct_of(field), var, path)
                self.flush()
        else:
            self.struct(struct_of(field), var, path)


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
