"""`Message`: the base class of requests, responses, headers and internal records, and of the structs in them.

A class declares its fields (protocol/fields.py). The source code of the constructor, and of one encoder and one decoder
for each (class, version), is generated from the declaration at the first use (protocol/constructor.py, encoder.py and
decoder.py). So imports are cheap, and unused versions cost nothing.

    request, position = ProduceRequest.decode(buffer, version=9)
    pieces = response.encode(version=9)

Structs have no versions of their own: the message that contains them encodes and decodes them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self, dataclass_transform

from protocol.buffer import Buffer, Piece, join
from protocol.errors import UnsupportedVersionError
from protocol.fields import ALWAYS, Field, VersionRange

NEVER = ALWAYS
"""FLEXIBLE_FROM of a message without flexible versions."""

Decoder = Callable[[Buffer, int], tuple[Any, int]]
Encoder = Callable[[Any], list[Piece]]


class _NoTags(dict[int, bytes]):
    """The empty mapping shared by all messages without unknown tags."""

    def __setitem__(self, tag: int, value: bytes) -> None:
        raise TypeError("shared by every message: assign a new dict to unknown_tags")

    def __reduce__(self) -> tuple[Any, ...]:
        return _no_tags, ()


NO_TAGS: dict[int, bytes] = _NoTags()


def _no_tags() -> dict[int, bytes]:
    return NO_TAGS


@dataclass_transform(kw_only_default=True)
class MessageMeta(type):
    """Removes the field declarations from the class body and creates slots for them."""

    def __new__(
        mcs,
        name: str,
        bases: tuple[type, ...],
        namespace: dict[str, Any],
        *,
        api_key: int = -1,
        versions: str = "",
        flexible: str = "",
    ) -> MessageMeta:
        """Build the class. api_key, versions, flexible (the flexible versions): for top-level messages only."""
        fields = []
        for key, value in list(namespace.items()):
            if isinstance(value, Field):
                value.name = key
                fields.append(value)
                del namespace[key]
        namespace.setdefault("__slots__", tuple(field.name for field in fields))
        if fields or versions:
            low, high = VersionRange.parse(versions)
            namespace["NAME"] = name
            namespace["API_KEY"] = api_key
            namespace["MIN_VERSION"] = low
            namespace["MAX_VERSION"] = high
            namespace["FLEXIBLE_FROM"] = VersionRange.parse(flexible).low if flexible else NEVER
            namespace["FIELDS"] = tuple(fields)
            namespace["DECODERS"] = {}
            namespace["ENCODERS"] = {}
            namespace["DEFAULT"] = None
        return super().__new__(mcs, name, bases, namespace)


class Message(metaclass=MessageMeta):
    """A struct of the wire protocol; see the module. Two are equal if class, fields and unknown tags are equal."""

    __slots__ = ("unknown_tags",)

    if TYPE_CHECKING:  # a class with slots cannot have defaults as well
        unknown_tags: dict[int, bytes] = {}
        """Tagged fields that the version does not know, by tag; they are encoded again."""

    NAME: ClassVar[str] = "Message"
    API_KEY: ClassVar[int] = -1
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = -1
    FLEXIBLE_FROM: ClassVar[int] = NEVER
    FIELDS: ClassVar[tuple[Field, ...]] = ()
    DECODERS: ClassVar[dict[int, Decoder]] = {}
    ENCODERS: ClassVar[dict[int, Encoder]] = {}
    DEFAULT: ClassVar[Any] = None

    def __init__(self, **values: Any) -> None:
        """Set fields by keyword; other fields get their defaults. The first call compiles the constructor."""
        from protocol.constructor import compile_constructor  # imports this module

        compile_constructor(type(self))
        self.__init__(**values)  # type: ignore[misc]  # the compiled constructor

    @classmethod
    def decode(cls, buffer: Buffer, version: int, offset: int = 0) -> tuple[Self, int]:
        """Decode one message from `offset`; return the message and the offset after it.

        Raises DecodeError for malformed bytes, UnsupportedVersionError if the message does not have the version. Bytes
        after the message are left to the caller.
        """
        try:
            decoder = cls.DECODERS[version]
        except KeyError:
            from protocol.decoder import compile_decoder  # imports this module

            cls.check_version(version)
            decoder = cls.DECODERS[version] = compile_decoder(cls, version)
        return decoder(buffer, offset)

    def encode(self, version: int) -> list[Piece]:
        """Return the encoded pieces. Each non-empty `records` value is a piece of its own and is not copied.

        Raises EncodeError for a value that is not possible in the version, UnsupportedVersionError if the message does
        not have the version.
        """
        try:
            encoder = self.ENCODERS[version]
        except KeyError:
            from protocol.encoder import compile_encoder  # imports this module

            self.check_version(version)
            encoder = self.ENCODERS[version] = compile_encoder(type(self), version)
        return encoder(self)

    def to_bytes(self, version: int) -> bytes:
        """Return the joined pieces of `encode`; lazy records are read."""
        return join(self.encode(version))

    @classmethod
    def check_version(cls, version: int) -> None:
        """Raise UnsupportedVersionError unless MIN_VERSION <= version <= MAX_VERSION."""
        if not cls.MIN_VERSION <= version <= cls.MAX_VERSION:
            has = f"{cls.MIN_VERSION} to {cls.MAX_VERSION}" if cls.MAX_VERSION >= 0 else "none of its own"
            raise UnsupportedVersionError(f"{cls.NAME} has no version {version} (versions: {has})")

    @classmethod
    def is_flexible(cls, version: int) -> bool:
        """Whether the version has compact lengths and tagged fields."""
        return version >= cls.FLEXIBLE_FROM

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Message) or self.FIELDS is not other.FIELDS:
            return NotImplemented
        return self.unknown_tags == other.unknown_tags and all(
            getattr(self, field.name) == getattr(other, field.name) for field in self.FIELDS
        )

    __hash__: ClassVar[None]  # type: ignore[assignment]  # mutable

    def __repr__(self) -> str:
        values = {field.name: getattr(self, field.name) for field in self.FIELDS}
        if self.NAME in _CONFIGS and values["value"] and _SENSITIVE_CONFIG.search(values["name"]):
            values["value"] = _HIDDEN
        parts = [f"{field.name}={_show(field, values[field.name])}" for field in self.FIELDS]
        if self.unknown_tags:
            parts.append(f"unknown_tags={self.unknown_tags}")
        return f"{self.NAME}({', '.join(parts)})"


_HIDDEN: Final = "<hidden>"
_CONFIGS: Final = frozenset({"AlterableConfig"})
"""Structs of a setting's name and value, which clients send."""
_SENSITIVE_CONFIG: Final = re.compile(r"password|secret|jaas|credential|user\.info|(^|\.)key$|^scram-", re.IGNORECASE)
"""Names of settings whose values `repr` does not show."""
_HIDDEN_FIELDS: Final = frozenset({"auth_bytes", "hmac", "salt", "salted_password"})
"""Fields of any message whose value `repr` does not show: tokens of logins, HMACs of delegation tokens, SCRAM keys."""


def _show(field: Field, value: Any) -> str:
    if field.kind == "record_set" and value is not None:
        return f"<{len(value)} bytes>"
    if value is _HIDDEN or (field.name in _HIDDEN_FIELDS and value):
        return _HIDDEN
    return repr(value)
