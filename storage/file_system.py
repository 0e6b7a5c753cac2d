"""The file operations of storage/: all access to the disk goes through `FileSystem`.

Tests subclass it to simulate power cuts, full disks and slow fsyncs. The frequent calls are the functions of `os`,
bound as static attributes, so that they cost nothing extra; a subclass replaces them with methods.

`OpenFile` objects own the descriptors; a descriptor is closed when the last reference is dropped. Therefore a reader
can finish reading a range of a file that was deleted or evicted from the cache, and an fsync in another thread never
uses a descriptor number that has been reused.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
import errno
import os
import resource
import shutil
from collections import deque
from collections.abc import Callable, Iterator
from threading import Lock
from typing import TypeVar

from storage.errors import LogDirIOError

T = TypeVar("T")

# The log may use 1/_CACHE_SHARE of the process's file descriptors; the rest is for sockets.
_CACHE_SHARE = 2
_MIN_CACHE = 32
_ONE_CALL_BYTES = 64 * 1024
_SMALL_FILE_BYTES = 64 * 1024


class OpenFile:
    """One file descriptor, closed by `close()` or when the last reference is dropped."""

    __slots__ = ("_close", "fd")

    def __init__(self, fd: int, close: Callable[[int], None] = os.close) -> None:
        self.fd = fd
        self._close = close

    def close(self) -> None:
        fd, self.fd = self.fd, -1
        if fd >= 0:
            self._close(fd)

    def __del__(self) -> None:
        self.close()


class FileSystem:
    """POSIX operations on real files. One instance per broker: it also limits the number of open descriptors."""

    pread = staticmethod(os.pread)
    pwrite = staticmethod(os.pwrite)
    ftruncate = staticmethod(os.ftruncate)
    fsync = staticmethod(os.fsync)
    sendfile = staticmethod(os.sendfile)

    def __init__(self, max_open_files: int | None = None) -> None:
        if max_open_files is None:
            soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
            max_open_files = max(_MIN_CACHE, soft // _CACHE_SHARE) if soft > 0 else 1 << 16
        self.descriptors = DescriptorCache(max_open_files)
        self.on_failure: Callable[[LogDirIOError], None] | None = None  # may be called in any thread
        self._can_tell_cached = hasattr(os, "preadv") and hasattr(os, "RWF_NOWAIT")
        self.can_sendfile = True

    def pread_now(self, fd: int, length: int, position: int) -> bytes | bytearray | None:
        """Read from the page cache; return None if the read would wait for the disk. Raises OSError.

        Up to 64 KiB are read with one preadv. For longer reads its buffer, which has to be zeroed first, costs too
        much: only the first and the last byte are tried with preadv. If both are cached, the bytes between them nearly
        always are, too, and pread reads all of them.
        """
        if not self._can_tell_cached:
            return self.pread(fd, length, position)
        try:
            if length <= _ONE_CALL_BYTES:
                buffer = bytearray(length)
                got = os.preadv(fd, [buffer], position, os.RWF_NOWAIT)
                return buffer if got == length else self._short_read(fd, length, position, got)
            self._probe(fd, length, position)
        except BlockingIOError:
            return None
        except OSError as error:
            if error.errno != errno.EOPNOTSUPP:
                raise
            self._can_tell_cached = False  # e.g. tmpfs, which is in memory anyway
        return self.pread(fd, length, position)

    def _probe(self, fd: int, length: int, position: int) -> None:
        """Raise BlockingIOError unless the first and the last byte of a range are cached."""
        probe = bytearray(1)
        os.preadv(fd, [probe], position, os.RWF_NOWAIT)
        os.preadv(fd, [probe], position + length - 1, os.RWF_NOWAIT)

    def sendfile_now(self, socket_fd: int, fd: int, length: int, position: int) -> int | None:
        """Send a range of a file to a socket from the page cache; return the number of bytes sent, 0 at the file's end.

        Return None if the call would wait for the disk, or if the operating system does not support sendfile for this
        file (`can_sendfile` is then set to False). Raises OSError; BlockingIOError if the socket's buffer is full.
        """
        if self._can_tell_cached:
            try:
                self._probe(fd, length, position)
            except BlockingIOError:
                return None
            except OSError as error:
                if error.errno != errno.EOPNOTSUPP:
                    raise
                self._can_tell_cached = False
        try:
            return self.sendfile(socket_fd, fd, position, length)
        except OSError as error:
            if error.errno not in (errno.EINVAL, errno.ENOSYS, errno.ENOTSUP):
                raise
            self.can_sendfile = False
            return None

    def _short_read(self, fd: int, length: int, position: int, got: int) -> bytes | None:
        """Handle a preadv of `got` bytes: return the data if the file ends there, None if the rest is not cached."""
        at_end = os.fstat(fd).st_size <= position + got
        return self.pread(fd, length, position) if at_end else None

    def failed(
        self,
        path: str | os.PathLike[str],
        error: OSError,
        *,
        lost_writes: bool = False,
        extent: tuple[int, int] = (0, 0),
    ) -> LogDirIOError:
        """Return the LogDirIOError to raise for a failed operation at `path`, and pass it to `on_failure`."""
        failure = LogDirIOError(path, error, lost_writes=lost_writes, extent=extent)
        if self.on_failure is not None:
            self.on_failure(failure)
        return failure

    async def run_blocking(self, work: Callable[[], T]) -> T:
        """Run `work` off the event loop. A simulation replaces this with a plain call."""
        return await asyncio.to_thread(work)

    def for_one_thread(self) -> FileSystem:
        """Return a copy with its own open files.

        The event loop's thread closes files that were not used lately, also while another thread reads them. Work in
        another thread that opens files through `CachedFile` therefore uses such a copy.
        """
        own = copy.copy(self)
        own.descriptors = DescriptorCache(self.descriptors.limit)
        return own

    def open(self, path: str, *, create: bool = False) -> OpenFile:
        """Open a file for reading and writing. Raises FileNotFoundError if it is missing and `create` is not set."""
        flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0)
        return OpenFile(os.open(path, flags, 0o644))

    def write_all(self, fd: int, data: bytes | bytearray | memoryview, position: int) -> None:
        """Write all bytes; repeat pwrite after a short write. Raises OSError."""
        written = self.pwrite(fd, data, position)
        size = len(data)
        if written != size:
            view = memoryview(data)
            while written < size:
                written += self.pwrite(fd, view[written:], position + written)

    def read_file(self, path: str) -> bytes:
        """Return the content of a small file. Raises FileNotFoundError."""
        handle = OpenFile(os.open(path, os.O_RDONLY | os.O_CLOEXEC))
        parts = []
        position = 0
        while part := self.pread(handle.fd, _SMALL_FILE_BYTES, position):
            parts.append(part)
            position += len(part)
        return b"".join(parts)

    def write_file(self, path: str, data: bytes, *, sync: bool) -> None:
        """Create or replace a file in place (not atomic: for files whose own checksum guards them)."""
        handle = self.open(path, create=True)
        self.ftruncate(handle.fd, 0)
        self.write_all(handle.fd, data, 0)
        if sync:
            self.fsync(handle.fd)

    def create_private(self, path: str) -> None:
        """Create a file with mode 0600; set the mode if the file exists. Raises OSError."""
        os.close(os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_CREAT, 0o600))
        os.chmod(path, 0o600)  # noqa: PTH101 - paths are strings here

    def replace_file(self, path: str, data: bytes, *, sync: bool, private: bool = False) -> None:
        """Replace a file atomically: write a `.tmp` file beside it and rename that, as Kafka does.

        With `sync`, the content and the rename are on disk on return. A `private` file has mode 0600. Raises
        LogDirIOError.
        """
        temporary = path + ".tmp"
        try:
            if private:
                self.create_private(temporary)
            self.write_file(temporary, data, sync=sync)
            self.rename(temporary, path)
            if sync:
                self.sync_directory(os.path.dirname(path))  # noqa: PTH120 - paths are strings here
        except OSError as error:
            with contextlib.suppress(OSError):
                self.remove(temporary)  # gives back its space on a full disk
            raise self.failed(path, error) from error

    def sync_path(self, path: str) -> None:
        """Fsync a file by name; do nothing if the file does not exist."""
        try:
            handle = OpenFile(os.open(path, os.O_RDONLY | os.O_CLOEXEC))
        except FileNotFoundError:
            return
        self.fsync(handle.fd)

    def sync_directory(self, path: str) -> None:
        """Make creations, renames and deletions in a directory durable."""
        self.sync_path(path)

    def rename(self, source: str, target: str) -> None:
        os.replace(source, target)  # noqa: PTH105

    def remove(self, path: str) -> bool:
        """Delete a file; return False if it did not exist."""
        try:
            os.unlink(path)  # noqa: PTH108
        except FileNotFoundError:
            return False
        return True

    def remove_tree(self, path: str) -> None:
        """Delete a directory and its content. Raises OSError."""
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(path)

    def make_directory(self, path: str) -> bool:
        """Create a directory and its parents; return False if it exists."""
        if os.path.isdir(path):  # noqa: PTH112
            return False
        os.makedirs(path, exist_ok=True)  # noqa: PTH103
        return True

    def list_directory(self, path: str) -> Iterator[os.DirEntry[str]]:
        with os.scandir(path) as entries:
            yield from list(entries)

    def exists(self, path: str) -> bool:
        return os.path.exists(path)  # noqa: PTH110

    def size(self, path: str) -> int:
        return os.stat(path).st_size  # noqa: PTH116

    def modified_ms(self, path: str) -> int:
        return os.stat(path).st_mtime_ns // 1_000_000  # noqa: PTH116

    def set_modified_ms(self, path: str, modified_ms: int) -> None:
        """Set the file's access and modification time."""
        os.utime(path, ns=(modified_ms * 1_000_000, modified_ms * 1_000_000))


class CachedFile:
    """A file of the log that is opened on use; the descriptor cache may close it at any time.

    Callers take `handle` if it is not None, else `open()`, set `used`, and keep a reference to the handle while they
    use it.
    """

    __slots__ = ("create", "fs", "handle", "path", "used")

    def __init__(self, fs: FileSystem, path: str, *, create: bool = False) -> None:
        self.fs = fs
        self.path = path
        self.create = create  # only for a new file: a lost file must not be recreated empty
        self.handle: OpenFile | None = None
        self.used = False

    def open(self) -> OpenFile:
        """Return the open file. Raises LogDirIOError, FileNotFoundError."""
        handle = self.handle
        if handle is None:
            try:
                handle = self.fs.open(self.path, create=self.create)
            except FileNotFoundError:
                raise
            except OSError as error:
                raise self.fs.failed(self.path, error) from error
            self.create = False
            self.handle = handle
            self.fs.descriptors.add(self)
        self.used = True
        return handle

    def release(self) -> None:
        """Drop this reference; the file stays open while readers hold the handle."""
        if self.handle is not None:
            self.handle = None
            self.fs.descriptors.forget()


class DescriptorCache:
    """Limit the number of the log's open files: first in, first out, with a second chance for files used since."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.open_files = 0
        self._lock = Lock()  # recovery uses several threads
        self._queue: deque[CachedFile] = deque()

    def add(self, file: CachedFile) -> None:
        with self._lock:
            self._queue.append(file)
            self.open_files += 1
            released = self._choose(file)
        for oldest in released:
            oldest.release()

    def _choose(self, file: CachedFile) -> list[CachedFile]:
        released: list[CachedFile] = []
        while self.open_files - len(released) > self.limit and len(self._queue) > 1:
            oldest = self._queue.popleft()
            if oldest is file:
                self._queue.append(oldest)
            elif oldest.handle is None:
                continue  # its owner has released it
            elif oldest.used:
                oldest.used = False
                self._queue.append(oldest)
            else:
                released.append(oldest)
        return released

    def forget(self) -> None:
        """Note that a file in the queue was released."""
        with self._lock:
            self.open_files -= 1
            if len(self._queue) > 64 and len(self._queue) > 4 * self.open_files:
                self._queue = deque(file for file in self._queue if file.handle is not None)
