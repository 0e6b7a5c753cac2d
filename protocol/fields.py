"""How a message declares its fields.

    class PartitionProduceData(Message):
        index: int = int32("0+")
        records: Buffer | None = record_set("0+", nullable="0+")

Each specifier takes the range of versions that carry the field ("0+", "3-5", "7"), and by keyword:

- `nullable`: the versions in which null may be sent;
- `default`: the value of a field that is not set or not sent; without it zero, empty, or a struct of
  defaults; - `tag`: the field is sent as this tagged field, and only where it differs from its default; -
  `ignorable`: a value other than the default is dropped, not refused, in versions that lack the field; -
  `flexible=False`: the field keeps the fixed-length form in flexible versions (the client id of the
  header).

A declaration only records these facts: importing a message costs microseconds, and text is parsed when a
version is first compiled.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from protocol.uuid import ZERO_UUID

if TYPE_CHECKING:
    from protocol.message import Message

ALWAYS = 1 << 15
"""Above every version: the end of an open range."""


class VersionRange(NamedTuple):
    """Versions low to high, both inclusive; empty if high is below low."""

    low: int
    high: int

    @classmethod
    def parse(cls, text: str) -> VersionRange:
        """Read "3+", "3-5", "3" or "" (none)."""
        if not text:
            return cls(0, -1)
        if text.endswith("+"):
            return cls(int(text[:-1]), ALWAYS)
        low, _, high = text.partition("-")
        return cls(int(low), int(high or low))

    def __contains__(self, version: object) -> bool:
        return isinstance(version, int) and self.low <= version <= self.high


class Field:
    """One declared field. `kind` names the type; `element` is an array's kind or struct, or the struct."""

    __slots__ = ("default", "element", "flexible", "ignorable", "kind", "name", "nullable", "tag", "versions")

    name: str

    def __init__(
        self,
        kind: str,
        element: str | type[Message] | None,
        versions: str,
        nullable: str,
        default: Any,
        tag: int | None,
        ignorable: bool,
        flexible: bool = True,
    ) -> None:
        """Keep the facts as they were declared; the metaclass adds the name."""
        self.kind = kind
        self.element = element
        self.versions = versions
        self.nullable = nullable
        self.default = default
        self.tag = tag
        self.ignorable = ignorable
        self.flexible = flexible

    def present(self, version: int) -> bool:
        """True if that version carries the field, tagged or not."""
        return version in VersionRange.parse(self.versions)

    def may_be_null(self, version: int) -> bool:
        """True if that version can carry null."""
        return version in VersionRange.parse(self.nullable)

    @property
    def json_name(self) -> str:
        """The name in Kafka's JSON: the same words in camel case."""
        head, *rest = self.name.split("_")
        return head + "".join(map(str.capitalize, rest))


def _number(kind: str, zero: Any) -> Callable[..., Any]:
    def specifier(versions: str, *, default: Any = zero, tag: int | None = None, ignorable: bool = False) -> Any:
        return Field(kind, None, versions, "", default, tag, ignorable)

    specifier.__name__ = kind
    return specifier


int8 = _number("int8", 0)
int16 = _number("int16", 0)
int32 = _number("int32", 0)
int64 = _number("int64", 0)
uint16 = _number("uint16", 0)
float64 = _number("float64", 0.0)
boolean = _number("boolean", False)
uuid = _number("uuid", ZERO_UUID)


def string(
    versions: str,
    *,
    nullable: str = "",
    default: str | None = "",
    tag: int | None = None,
    ignorable: bool = False,
    flexible: bool = True,
) -> Any:
    """Text of at most 32767 bytes of UTF-8."""
    return Field("string", None, versions, nullable, default, tag, ignorable, flexible)


def byte_string(
    versions: str,
    *,
    nullable: str = "",
    default: bytes | None = b"",
    tag: int | None = None,
    ignorable: bool = False,
) -> Any:
    """Opaque bytes, copied out of the buffer."""
    return Field("byte_string", None, versions, nullable, default, tag, ignorable)


def record_set(versions: str, *, nullable: str = "") -> Any:
    """Record batches: a view into the buffer when decoded, passed through uncopied when encoded."""
    return Field("record_set", None, versions, nullable, None if nullable else b"", None, False)


def array(
    element: Callable[..., Any] | type[Message],
    versions: str,
    *,
    nullable: str = "",
    default: tuple[()] | None = (),
    tag: int | None = None,
    ignorable: bool = False,
) -> Any:
    """Make a list of structs, or of `int8` … `string` (give the specifier itself). Defaults to a new list."""
    of = element if isinstance(element, type) else element.__name__
    return Field("array", of, versions, nullable, default, tag, ignorable)


def struct(
    element: type[Message],
    versions: str,
    *,
    nullable: str = "",
    default: Any = (),
    tag: int | None = None,
    ignorable: bool = False,
) -> Any:
    """One nested struct. Its default is a shared one of defaults that refuses changes: replace it."""
    return Field("struct", element, versions, nullable, default, tag, ignorable)
