"""What passes as bytes between the socket, the codec and the log.

A decoded `records` field is a view into the buffer that it was read from and lives only as long as that
buffer; every other field is copied. An encoded message is a list of pieces: runs of small fields joined, and
each `records` value by itself and uncopied, which may be a range of a file that is read when it is sent.
"""

from __future__ import annotations

from typing import Protocol, TypeAlias, runtime_checkable

Buffer: TypeAlias = bytes | bytearray | memoryview


@runtime_checkable
class LazyRecords(Protocol):
    """Record batches that are not in memory yet: a range of a segment file."""

    def __len__(self) -> int:
        """Size in bytes, known before anything is read; it is written in front of the records."""
        ...

    def read(self, offset: int, length: int) -> bytes:
        """Return `length` bytes (fewer only at the end) from `offset` on, counted from the range's start."""
        ...

    def read_now(self, offset: int, length: int) -> Buffer | None:
        """What `read` returns, or None where that would wait for the disk."""
        ...

    async def read_later(self, offset: int, length: int) -> Buffer:
        """What `read` returns, read off the event loop."""
        ...

    def to_bytes(self) -> bytes:
        """The whole range."""
        ...


Piece: TypeAlias = bytes | bytearray | memoryview | LazyRecords
"""One element of an encoded message."""


def join(pieces: list[Piece]) -> bytes:
    """The pieces as one `bytes`; reads lazy ones."""
    return b"".join(
        piece if isinstance(piece, (bytes, bytearray, memoryview)) else piece.to_bytes() for piece in pieces
    )
