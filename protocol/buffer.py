"""The types of bytes that the socket, the codec and the log exchange.

A decoded `records` field is a view into the decoded buffer and valid only as long as the buffer; every other field is a
copy. An encoded message is a list of pieces: small fields are joined to one piece, and each `records` value is a piece
of its own that is not copied. It may be a range of a file, which is read when it is sent.
"""

from __future__ import annotations

from typing import Protocol, TypeAlias, runtime_checkable

Buffer: TypeAlias = bytes | bytearray | memoryview


@runtime_checkable
class LazyRecords(Protocol):
    """Record batches that are not in memory yet: a range of a segment file."""

    def __len__(self) -> int:
        """Size in bytes, known before anything is read; it is encoded before the records."""
        ...

    def read(self, offset: int, length: int) -> bytes:
        """Return `length` bytes (fewer only at the end) from `offset`, counted from the start of the range."""
        ...

    def read_now(self, offset: int, length: int) -> Buffer | None:
        """Like `read`, but return None if the read would wait for the disk."""
        ...

    async def read_later(self, offset: int, length: int) -> Buffer:
        """Like `read`, but read off the event loop."""
        ...

    def to_bytes(self) -> bytes:
        """Return the whole range."""
        ...


Piece: TypeAlias = bytes | bytearray | memoryview | LazyRecords
"""One element of an encoded message."""


def join(pieces: list[Piece]) -> bytes:
    """Join the pieces to one `bytes`; lazy pieces are read."""
    return b"".join(
        piece if isinstance(piece, (bytes, bytearray, memoryview)) else piece.to_bytes() for piece in pieces
    )
