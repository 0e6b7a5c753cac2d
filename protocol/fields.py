"""The declaration of a message's fields.

    class PartitionProduceData(Message):
        index: int = int32("0+")
        records: Buffer | None = record_set("0+", nullable="0+")

Each specifier takes the range of versions that have the field ("0+", "3-5", "7"), and these keywords:

- `nullable`: the versions in which the field may be null;
- `default`: the value of a field that is not set or not sent; if not given, zero, empty, or a struct of defaults;
- `tag`: the field is a tagged field with this tag, sent only if it differs from its default;
- `ignorable`: in versions without the field, a value other than the default is dropped instead of refused;
- `flexible=False`: the field keeps the fixed-length format in flexible versions (the client id of the header).

A declaration only stores these values: importing a message takes microseconds, and the version ranges are parsed when a
version is first compiled.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from protocol.uuid import ZERO_UUID

if TYPE_CHECKING:
    from protocol.message import Message

ALWAYS = 1 << 15
"""The end of an open range, above every version."""


class VersionRange(NamedTuple):
    """The versions from low to high, both inclusive; empty if high is below low."""

    low: int
    high: int

    @classmethod
    def parse(cls, text: str) -> VersionRange:
        """Parse "3+", "3-5", "3" or "" (no version)."""
        if not text:
            return cls(0, -1)
        if text.endswith("+"):
            return cls(int(text[:-1]), ALWAYS)
        low, _, high = text.partition("-")
        return cls(int(low), int(high or low))

    def __contains__(self, version: object) -> bool:
        return isinstance(version, int) and self.low <= version <= self.high


class Field:
    """One declared field. `kind` is the type; `element` is the struct, or the kind or struct of an array's elements."""

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
        """Store the declaration; the metaclass sets the name."""
        self.kind = kind
        self.element = element
        self.versions = versions
        self.nullable = nullable
        self.default = default
        self.tag = tag
        self.ignorable = ignorable
        self.flexible = flexible

    def present(self, version: int) -> bool:
        """Whether the version has the field, tagged or not."""
        return version in VersionRange.parse(self.versions)

    def may_be_null(self, version: int) -> bool:
        """Whether the field may be null in the version."""
        return version in VersionRange.parse(self.nullable)

    @property
    def json_name(self) -> str:
        """The name in Kafka's JSON, in camel case."""
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
    """Declare a string of at most 32767 bytes of UTF-8."""
    return Field("string", None, versions, nullable, default, tag, ignorable, flexible)


def byte_string(
    versions: str,
    *,
    nullable: str = "",
    default: bytes | None = b"",
    tag: int | None = None,
    ignorable: bool = False,
) -> Any:
    """Declare opaque bytes; decoding copies them."""
    return Field("byte_string", None, versions, nullable, default, tag, ignorable)


def record_set(versions: str, *, nullable: str = "") -> Any:
    """Declare record batches: a view into the buffer when decoded, a piece of its own, not copied, when encoded."""
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
    """Declare a list of structs, or of `int8` … `string` (the element is the specifier). The default is a new list."""
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
    """Declare a nested struct. Its default is shared and immutable: assign a new struct instead of changing it."""
    return Field("struct", element, versions, nullable, default, tag, ignorable)
