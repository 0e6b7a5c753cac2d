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

    @property
    def can_send(self) -> bool:
        """Whether the operating system can send from such files (as far as is known)."""
        return self._fs.can_sendfile

    def send_now(self, socket_fd: int, offset: int, length: int) -> int | None:
        """Send `length` bytes from `offset` within the range to a socket, as many as that takes.

        None where that would wait for the disk. Raises OSError, also where the file is now shorter than the range;
        BlockingIOError where the socket is full.
        """
        sent = self._fs.sendfile_now(socket_fd, self._file.fd, length, self.position + offset)
        if sent == 0:
            raise OSError(f"{self._size} bytes were promised, the file ends before them")
        return sent

    async def read_later(self, offset: int, length: int) -> Buffer:
        """What `read` returns, read off the event loop. Raises OSError."""
        return await self._fs.run_blocking(lambda: self.read(offset, length))

    def to_bytes(self) -> bytes:
        """All of it. Raises OSError."""
        return self.read(0, self._size)
