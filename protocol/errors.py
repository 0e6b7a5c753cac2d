"""What can go wrong between bytes and messages."""

from __future__ import annotations


class ProtocolError(Exception):
    """Any failure of this package."""


class DecodeError(ProtocolError):
    """Bytes that are no valid message: names message, field, offset in the buffer and rule."""

    def __init__(self, message: str, field: str, offset: int, rule: str) -> None:
        """Take the broken `rule` and where: `message` and `field` may be dotted paths, `offset` in bytes."""
        super().__init__(message, field, offset, rule)
        self.message = message
        self.field = field
        self.offset = offset
        self.rule = rule

    def __str__(self) -> str:
        where = f"{self.message}.{self.field}" if self.field else self.message
        return f"{where} at offset {self.offset}: {self.rule}"


class EncodeError(ProtocolError):
    """A value that the field, or the field's version range, cannot carry."""

    def __init__(self, message: str, field: str, rule: str) -> None:
        """Take the broken `rule` and the `message` and `field` that it is about."""
        super().__init__(message, field, rule)
        self.message = message
        self.field = field
        self.rule = rule

    def __str__(self) -> str:
        where = f"{self.message}.{self.field}" if self.field else self.message
        return f"{where}: {self.rule}"


class UnsupportedVersionError(ProtocolError):
    """A version that the message does not have, or an API key that is unknown."""


class CorruptRecordError(ProtocolError):
    """A record batch whose bytes contradict themselves: bad length, checksum, magic or content."""

    def __init__(self, position: int, reason: str) -> None:
        """Take the batch's `position` in its buffer, in bytes, and the `reason`."""
        super().__init__(position, reason)
        self.position = position
        self.reason = reason

    def __str__(self) -> str:
        return f"record batch at {self.position}: {self.reason}"


class InvalidRecordError(ProtocolError):
    """Records that are readable but break a rule (offsets, timestamps, keys)."""


class UnsupportedCompressionError(ProtocolError):
    """A compression type that is unknown or not allowed here."""
