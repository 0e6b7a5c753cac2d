r"""The base of the znode classes: fields from annotations, and Kafka's JSON.

A znode class describes the content of one path of Kafka's tree. Its annotated attributes are the fields of the content;
`TEMPLATE` is the path with names in braces for the variable elements; `path(...)` builds the path; `encode()` returns
Kafka's exact bytes; `decode(data, path)` reads every version that Kafka reads. Unknown JSON keys are ignored, as in
Kafka.

JSON is compact UTF-8 as written by Jackson: slashes and non-ASCII letters are not escaped, short escapes are used if
JSON has them, \u00XX has upper-case hexadecimal digits, and characters beyond the basic multilingual plane are escaped
surrogate pairs.
"""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from typing import Any, NoReturn, TypeVar, dataclass_transform

from registry.errors import ZnodeFormatError

_Self = TypeVar("_Self", bound="Znode")


@dataclass_transform(kw_only_default=True, frozen_default=True)
class Znode(ABC):
    """The content of one znode: immutable, compared by value. The annotations of a subclass are its fields."""

    TEMPLATE = ""
    _fields: tuple[str, ...] = ()
    _defaults: dict[str, Any] = {}  # noqa: RUF012 - replaced, never changed

    def __init_subclass__(cls) -> None:
        own = tuple(name for name in cls.__annotations__ if name not in cls._fields)
        cls._fields = cls._fields + own
        cls._defaults = cls._defaults | {name: cls.__dict__[name] for name in own if name in cls.__dict__}

    def __init__(self, **values: Any) -> None:
        defaults = {name: v.copy() if isinstance(v, dict) else v for name, v in self._defaults.items()}
        fields = defaults | values
        if fields.keys() != set(self._fields):
            wrong = sorted(fields.keys() ^ set(self._fields))
            raise TypeError(f"{type(self).__name__}: missing or unknown fields: {', '.join(wrong)}")
        self.__dict__.update(fields)

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"{type(self).__name__} is immutable: cannot set {name}")

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return NotImplemented
        return self.__dict__ == other.__dict__

    __hash__ = None  # type: ignore[assignment]  # content holds lists and dictionaries

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={self.__dict__[name]!r}" for name in self._fields)
        return f"{type(self).__name__}({fields})"

    def replace(self: _Self, **changes: Any) -> _Self:
        """Return a copy with some fields changed."""
        return type(self)(**{**self.__dict__, **changes})

    @abstractmethod
    def encode(self) -> bytes | None:
        """Return the bytes that Kafka writes for this content."""

    @classmethod
    @abstractmethod
    def decode(cls: type[_Self], data: bytes | None, path: str) -> _Self:
        """Read the content of the znode at `path`. Raises ZnodeFormatError."""


class EmptyZnode(Znode):
    """A znode without data: only its path or its children have a meaning."""

    def encode(self) -> None:
        """Return null, not empty data."""

    @classmethod
    def decode(cls: type[_Self], data: bytes | None, path: str) -> _Self:
        """Accept null, and empty data, which other tools write."""
        if data:
            raise ZnodeFormatError(path, f"must have no content, but has {len(data)} bytes")
        return cls()


def to_json(value: object) -> bytes:
    """Return the bytes of Kafka's JSON writer for dictionaries, lists, strings, numbers and null."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    if "\\u" in text:  # (an escaped backslash before a u is not changed)
        text = re.sub(r"\\\\|\\u[0-9a-f]{4}", lambda m: m[0] if m[0] == "\\\\" else _upper(m[0]), text)
    if not text.isascii():
        text = re.sub("[\U00010000-\U0010ffff]", lambda m: _surrogates(m[0]), text)
    return text.encode("utf-8", "surrogatepass")


def _upper(escape: str) -> str:
    return "\\u" + escape[2:].upper()


def _surrogates(character: str) -> str:
    units = character.encode("utf-16-be")
    return f"\\u{units[:2].hex().upper()}\\u{units[2:].hex().upper()}"


class Content:
    """A JSON object in a znode. Its getters raise ZnodeFormatError, which names the path and the broken rule."""

    def __init__(self, path: str, fields: dict[str, Any], where: str = "") -> None:
        self.path = path
        self._fields = fields
        self._where = where  # "" or "partitions.0." inside another object

    @classmethod
    def parse(cls, data: bytes | None, path: str) -> Content:
        """Parse the bytes. Raises ZnodeFormatError unless they are a JSON object."""
        if data is None:
            raise ZnodeFormatError(path, "must be a JSON object, but has no content")
        try:
            value = json.loads(data.decode())
        except (ValueError, RecursionError) as error:
            raise ZnodeFormatError(path, f"must be JSON in UTF-8: {error}") from error
        if not isinstance(value, dict):
            raise ZnodeFormatError(path, "must be a JSON object")
        return cls(path, value)

    def fail(self, name: str, rule: str) -> NoReturn:
        """Raise ZnodeFormatError for a field."""
        raise ZnodeFormatError(self.path, f"{self._where}{name} {rule}")

    def has(self, name: str) -> bool:
        """Whether the field exists and is not null."""
        return self._fields.get(name) is not None

    def names(self) -> list[str]:
        """Names of all fields, in order."""
        return list(self._fields)

    def integer(self, name: str, low: int = -(1 << 31), high: int = (1 << 31) - 1) -> int:
        """Read an integer in a range, by default Java's int."""
        value = self._field(name)
        if type(value) is not int or not low <= value <= high:
            self.fail(name, f"must be an integer from {low} to {high}")
        return value

    def long(self, name: str) -> int:
        """Read Java's long."""
        return self.integer(name, -(1 << 63), (1 << 63) - 1)

    def long_text(self, name: str) -> int:
        """Read a long that is written as a string, as Kafka writes timestamps, or as a number."""
        text = self._field(name)
        if isinstance(text, str):
            return parse_integer(text, self.path, f"{self._where}{name}")
        return self.long(name)

    def string(self, name: str) -> str:
        """Read a string."""
        value = self._field(name)
        if not isinstance(value, str):
            self.fail(name, "must be a string")
        return value

    def strings(self, name: str) -> list[str]:
        """Read a list of strings."""
        value = self._field(name)
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            self.fail(name, "must be a list of strings")
        return value

    def integers(self, name: str) -> list[int]:
        """Read a list of Java ints."""
        value = self._field(name)
        if not isinstance(value, list) or not all(type(i) is int and -(1 << 31) <= i < 1 << 31 for i in value):
            self.fail(name, "must be a list of integers")
        return value

    def object(self, name: str) -> Content:
        """Read a nested object."""
        value = self._field(name)
        if not isinstance(value, dict):
            self.fail(name, "must be an object")
        return Content(self.path, value, f"{self._where}{name}.")

    def objects(self, name: str) -> list[Content]:
        """Read a list of objects."""
        value = self._field(name)
        if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
            self.fail(name, "must be a list of objects")
        return [Content(self.path, item, f"{self._where}{name}.{i}.") for i, item in enumerate(value)]

    def string_map(self, name: str) -> dict[str, str]:
        """Read an object of strings, in order."""
        nested = self.object(name)
        return {key: nested.string(key) for key in nested.names()}

    def version(self, lowest: int, highest: int) -> int:
        """Read the version, which must be in the range that Kafka reads."""
        return self.integer("version", lowest, highest)

    def _field(self, name: str) -> Any:
        if name not in self._fields:
            self.fail(name, "is missing")
        return self._fields[name]


def parse_integer(text: str, path: str, what: str, bits: int = 64) -> int:
    """Parse a decimal integer as Java's parseInt and parseLong do. Raises ZnodeFormatError."""
    digits = text[1:] if text[:1] in ("-", "+") else text
    limit = 1 << bits - 1
    # The length is checked first: Python refuses to convert thousands of digits.
    if not (digits.isascii() and digits.isdigit()) or len(digits) > 99 or not -limit <= int(text) < limit:
        raise ZnodeFormatError(path, f"{what} must be a decimal integer of {bits} bits")
    return int(text)


def parse_text(data: bytes | None, path: str) -> str:
    """Decode a znode that is plain text. Raises ZnodeFormatError."""
    try:
        if data is not None:
            return data.decode()
    except UnicodeDecodeError as error:
        raise ZnodeFormatError(path, f"must be UTF-8: {error}") from error
    raise ZnodeFormatError(path, "must be text, but has no content")
