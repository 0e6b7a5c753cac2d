"""The exceptions of protocol/."""

from __future__ import annotations


class ProtocolError(Exception):
    """Base class of the exceptions of this package."""


class DecodeError(ProtocolError):
    """The bytes are not a valid message. The text names message, field, offset in the buffer and rule."""

    def __init__(self, message: str, field: str, offset: int, rule: str) -> None:
        """message, field: may be dotted paths. offset: in bytes. rule: the broken rule."""
        super().__init__(message, field, offset, rule)
        self.message = message
        self.field = field
        self.offset = offset
        self.rule = rule

    def __str__(self) -> str:
        where = f"{self.message}.{self.field}" if self.field else self.message
        return f"{where} at offset {self.offset}: {self.rule}"


class EncodeError(ProtocolError):
    """A field cannot have the value, or cannot have it in this version."""

    def __init__(self, message: str, field: str, rule: str) -> None:
        """message, field: may be dotted paths. rule: the broken rule."""
        super().__init__(message, field, rule)
        self.message = message
        self.field = field
        self.rule = rule

    def __str__(self) -> str:
        where = f"{self.message}.{self.field}" if self.field else self.message
        return f"{where}: {self.rule}"


class UnsupportedVersionError(ProtocolError):
    """The message does not have the version, or the API key is unknown."""


class CorruptRecordError(ProtocolError):
    """The bytes of a record batch are corrupt: wrong length, checksum, magic or content."""

    def __init__(self, position: int, reason: str) -> None:
        """position: of the batch in its buffer, in bytes."""
        super().__init__(position, reason)
        self.position = position
        self.reason = reason

    def __str__(self) -> str:
        return f"record batch at {self.position}: {self.reason}"


class DecompressedTooLargeError(CorruptRecordError):
    """The records decompress to more bytes than the reader allows."""


class InvalidRecordError(ProtocolError):
    """Records are malformed or break a rule (offsets, timestamps, keys)."""


class UnsupportedCompressionError(ProtocolError):
    """The compression type is unknown or not allowed."""
