"""A range of a segment file as records to send. It is read when the sender asks for it."""

from __future__ import annotations

from protocol.buffer import Buffer
from storage.file_system import FileSystem, OpenFile


class FileRecords:
    """Bytes [position, position + size) of one segment file (satisfies `protocol.buffer.LazyRecords`).

    The object keeps the descriptor open, so a segment that is deleted meanwhile can be read to its end. A truncation
    by a follower may cut the range: then `read` returns fewer bytes than requested.
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
        """`length` bytes from `offset` within the range, or fewer at its end. Raises OSError."""
        if length > self._size - offset:
            length = self._size - offset
        return self._fs.pread(self._file.fd, length, self.position + offset) if length > 0 else b""

    def read_now(self, offset: int, length: int) -> Buffer | None:
        """Like `read`, but None if the read would wait for the disk. Raises OSError."""
        if length > self._size - offset:
            length = self._size - offset
        return self._fs.pread_now(self._file.fd, length, self.position + offset) if length > 0 else b""

    @property
    def can_send(self) -> bool:
        """Whether the operating system can send from such files, as far as is known."""
        return self._fs.can_sendfile

    def send_now(self, socket_fd: int, offset: int, length: int) -> int | None:
        """Send up to `length` bytes from `offset` within the range to a socket; returns how many were sent.

        None if that would wait for the disk. Raises OSError, also if the file is now shorter than the range, and
        BlockingIOError if the socket is full.
        """
        sent = self._fs.sendfile_now(socket_fd, self._file.fd, length, self.position + offset)
        if sent == 0:
            raise OSError(f"the file ends before the range of {self._size} bytes")
        return sent

    async def read_later(self, offset: int, length: int) -> Buffer:
        """Like `read`, in another thread. Raises OSError."""
        return await self._fs.run_blocking(lambda: self.read(offset, length))

    def to_bytes(self) -> bytes:
        """The whole range. Raises OSError."""
        return self.read(0, self._size)
