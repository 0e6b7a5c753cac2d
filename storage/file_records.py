"""A range of a segment file as records to send: nothing is read before somebody asks."""

from __future__ import annotations

from protocol.buffer import Buffer
from storage.file_system import FileSystem, OpenFile


class FileRecords:
    """Bytes [position, position + size) of one segment file (satisfies `protocol.buffer.LazyRecords`).

    Holds the descriptor open until it is dropped, so a segment that is deleted meanwhile is read to its end.
    A truncation by a follower may cut the range: `read` then returns fewer bytes than asked for.
    """

    __slots__ = ("_file", "_fs", "_size", "position")

    def __init__(self, fs: FileSystem, file: OpenFile, position: int, size: int) -> None:
        self._file = file
        self._fs = fs
        self.position = position
        self._size = size

    def __len__(self) -> int:
        return self._size

    def fileno(self) -> int:
        """The descriptor, for sendfile from `position` on. Valid while this object lives."""
        return self._file.fd

    def read(self, offset: int, length: int) -> bytes:
        """`length` bytes from `offset` within the range, fewer at its end. Raises OSError."""
        if length > self._size - offset:
            length = self._size - offset
        return self._fs.pread(self._file.fd, length, self.position + offset) if length > 0 else b""

    def read_now(self, offset: int, length: int) -> Buffer | None:
        """What `read` returns, or None where that would wait for the disk. Raises OSError."""
        if length > self._size - offset:
            length = self._size - offset
        return self._fs.pread_now(self._file.fd, length, self.position + offset) if length > 0 else b""

    async def read_later(self, offset: int, length: int) -> Buffer:
        """What `read` returns, read off the event loop. Raises OSError."""
        return await self._fs.run_blocking(lambda: self.read(offset, length))

    def to_bytes(self) -> bytes:
        """All of it. Raises OSError."""
        return self.read(0, self._size)
