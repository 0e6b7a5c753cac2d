"""Generated source code: the common parts of encoder.py, decoder.py and constructor.py.

Generated code has no checks that only serve an error message. Instead, `Source` keeps the fields of every line; when
the code fails, the line number in the traceback identifies the field.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from struct import Struct
from types import TracebackType
from typing import Any, NamedTuple

from protocol.fields import Field
from protocol.message import Message, MessageMeta

FIXED = {
    "int8": ("b", 1),
    "int16": ("h", 2),
    "int32": ("i", 4),
    "int64": ("q", 8),
    "uint16": ("H", 2),
    "float64": ("d", 8),
    "boolean": ("?", 1),
    "uuid": ("16s", 16),
}
"""The kinds of fixed size: format character of `struct` and size in bytes."""


class Part(NamedTuple):
    """A field that a line of source reads or writes, and its number of bytes."""

    path: str
    size: int


class Source:
    """The lines of one generated module, the names that they use, and their fields."""

    def __init__(self, title: str) -> None:
        """title: the file name in tracebacks."""
        self.file_name = f"<{title}>"
        self.names: dict[str, Any] = {"SOURCE": self}
        self._lines: list[str] = []
        self._parts: dict[int, tuple[Part, ...]] = {}
        self._indent = ""
        self._unique = 0

    def line(self, text: str, *parts: Part) -> None:
        """Add a line with the current indentation."""
        self._lines.append(self._indent + text)
        if parts:
            self._parts[len(self._lines)] = parts

    @contextmanager
    def block(self, head: str, *parts: Part) -> Iterator[None]:
        """Add a line that opens a block; lines added in the `with` block are indented."""
        self.line(head, *parts)
        self._indent += "  "
        yield
        self._indent = self._indent[:-2]

    def unique(self, stem: str) -> str:
        """Return a name that is unique in this source."""
        self._unique += 1
        return f"{stem}{self._unique}"

    def constant(self, value: Any, stem: str = "C") -> str:
        """Return the name of a global variable with the value."""
        for name, known in self.names.items():
            if known is value:
                return name
        name = self.unique(stem)
        self.names[name] = value
        return name

    def build(self, entry: str) -> Callable[..., Any]:
        """Compile the source and return the function `entry`."""
        exec(compile("\n".join(self._lines), self.file_name, "exec"), self.names)
        function: Callable[..., Any] = self.names[entry]
        return function

    def failed_at(self, traceback: TracebackType | None) -> tuple[tuple[Part, ...], int]:
        """Return the fields of the failing line, and the position in the buffer (of a decoder).

        The position is the variable `p` of the innermost function that has one: a generated function, or one of
        faults.py that it called.
        """
        parts: tuple[Part, ...] = ()
        position = 0
        while traceback is not None:
            frame = traceback.tb_frame
            if frame.f_code.co_filename == self.file_name:
                parts = self._parts.get(traceback.tb_lineno, ())
            position = frame.f_locals.get("p", position)
            traceback = traceback.tb_next
        return parts, position

    def __str__(self) -> str:
        return "\n".join(self._lines)


class FormatCache(dict[str, Struct]):
    """Compiled formats, shared by all messages."""

    def __missing__(self, form: str) -> Struct:
        made = self[form] = Struct(">" + form)
        return made


FORMATS = FormatCache()


class ArrayFormats(dict[int, Struct]):
    """Formats of n numbers of one kind, by n. Those above 64 are not kept, as a peer chooses n."""

    def __init__(self, char: str) -> None:
        """char: the format character of the elements."""
        self._char = char

    def __missing__(self, count: int) -> Struct:
        made = Struct(f">{count}{self._char}")
        if count <= 64:
            self[count] = made
        return made


ARRAYS = {kind: ArrayFormats(char) for kind, (char, _) in FIXED.items() if kind not in ("boolean", "uuid")}


def default_of(field: Field) -> Any:
    """Return a field's default value. Use it for comparison only, as it may be shared."""
    if field.kind == "array" and field.default is not None:
        return []
    if field.kind == "struct" and field.default is not None:
        return default_struct(struct_of(field))
    return field.default


def is_shared(field: Field) -> bool:
    """Whether all messages may share the default object: it is neither a list nor a struct with a list."""
    if field.default is None:
        return True
    if field.kind == "struct":
        return all(map(is_shared, struct_of(field).FIELDS))
    return field.kind != "array"


def default_source(source: Source, field: Field) -> str:
    """Return the expression for a field's default; it creates a new object unless `is_shared`."""
    if field.kind == "struct" and not is_shared(field):
        return source.constant(struct_of(field), "Struct") + "()"
    value = default_of(field)
    if isinstance(value, Message):
        return source.constant(value, "DEFAULT")
    return repr(value)


def default_struct(cls: type[Message]) -> Message:
    """Return the shared, immutable instance with all defaults."""
    if cls.DEFAULT is None:
        instance = cls()
        namespace = {"__setattr__": _refuse, "__reduce__": _reduce_shared_default, "SHARED_DEFAULT_OF": cls}
        frozen: Any = MessageMeta(cls.__name__, (cls,), namespace)
        instance.__class__ = frozen  # Python allows it because the slots are the same
        cls.DEFAULT = instance
    assert isinstance(cls.DEFAULT, cls)
    return cls.DEFAULT


def struct_of(field: Field) -> type[Message]:
    """Return the class of a struct, or of the structs in an array."""
    assert isinstance(field.element, type)
    return field.element


def min_size(cls: type[Message], version: int, flexible: bool) -> int:
    """Return the smallest size of a struct in bytes, at least 1. Counts of elements are checked against it."""
    size = 1 if flexible else 0
    for field in cls.FIELDS:
        if field.present(version) and field.tag is None:
            size += _min_field_size(field, version, flexible)
    return max(1, size)


def element_min_size(field: Field, version: int, flexible: bool) -> int:
    """Return the smallest size of an array's element in bytes."""
    if isinstance(field.element, type):
        return min_size(field.element, version, flexible)
    assert field.element is not None
    if field.element in FIXED:
        return FIXED[field.element][1]
    if flexible:
        return 1
    return 2 if field.element == "string" else 4


def _min_field_size(field: Field, version: int, flexible: bool) -> int:
    if field.kind in FIXED:
        return FIXED[field.kind][1]
    if field.kind == "struct":
        if field.may_be_null(version):
            return 1
        return min_size(struct_of(field), version, flexible)
    if flexible and field.flexible:
        return 1
    return 2 if field.kind == "string" else 4


def _refuse(self: Message, name: str, value: Any) -> None:
    raise AttributeError(f"the default {self.NAME} is shared: assign a new one instead of changing it")


def _reduce_shared_default(self: Message) -> tuple[Any, ...]:
    return self.SHARED_DEFAULT_OF, ()  # type: ignore[attr-defined]
