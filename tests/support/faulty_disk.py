"""A FileSystem over real files that simulates failing and full disks."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from storage.file_system import OpenFile
from support.checked_files import CheckedFileSystem


class FaultyFileSystem(CheckedFileSystem):
    """Real files, of which some directories fail, and which hold `capacity` bytes below `root` at most.

    `broken`: directory → errno of everything that is done there. `fsync_error`: directory → errno of its fsyncs alone.
    `full`: directories that accept no more bytes.
    A write beyond the capacity is cut, as the kernel does it, and the next write is refused; nothing can be
    created then either. fsync itself is left out.
    """

    def __init__(self, root: Path | None = None, capacity: int | None = None) -> None:
        super().__init__()
        self.root = root
        self.capacity = capacity
        self.full_errno = errno.ENOSPC
        self.broken: dict[Path, int] = {}
        self.fsync_error: dict[Path, int] = {}
        self.full: set[Path] = set()
        self.refused = 0

    # -- rules -----------------------------------------------------------------------------------------------------

    def used(self) -> int:
        """Bytes in files below the root."""
        assert self.root is not None
        total = 0
        for directory, _, names in os.walk(self.root):
            for name in names:
                try:
                    total += Path(directory, name).stat().st_size
                except FileNotFoundError:
                    continue
        return total

    def _room(self, path: str) -> int | None:
        if any(path.startswith(f"{directory}/") for directory in self.full):
            return 0
        if self.capacity is None or self.root is None or not path.startswith(f"{self.root}/"):
            return None
        return max(self.capacity - self.used(), 0)

    def _no_room(self) -> OSError:
        self.refused += 1
        return OSError(self.full_errno, os.strerror(self.full_errno))

    def check(self, path: str) -> None:
        self._raise(self.broken, path)

    @staticmethod
    def _raise(errors: dict[Path, int], path: str) -> None:
        for directory, number in errors.items():
            if path == str(directory) or path.startswith(f"{directory}/"):
                raise OSError(number, os.strerror(number), path)

    @staticmethod
    def _path(fd: int) -> str:
        return str(Path(f"/proc/self/fd/{fd}").readlink())

    # -- descriptors -----------------------------------------------------------------------------------------------

    def pread(self, fd: int, length: int, position: int) -> bytes:  # type: ignore[override]
        self.check(self._path(fd))
        return os.pread(fd, length, position)

    def pwrite(self, fd: int, data: bytes, position: int) -> int:  # type: ignore[override]
        path = self._path(fd)
        self.check(path)
        room = self._room(path)
        if room is not None:
            growth = position + len(data) - max(os.fstat(fd).st_size, position)
            if growth > room:
                data = memoryview(data)[: len(data) - (growth - room)]
                if not len(data):
                    raise self._no_room()
        return os.pwrite(fd, data, position)

    def ftruncate(self, fd: int, size: int) -> None:  # type: ignore[override]
        self.check(self._path(fd))
        os.ftruncate(fd, size)

    def fsync(self, fd: int) -> None:  # type: ignore[override]
        self.check(self._path(fd))
        self._raise(self.fsync_error, self._path(fd))

    # -- names -----------------------------------------------------------------------------------------------------

    def open(self, path: str, *, create: bool = False) -> OpenFile:
        self.check(path)
        if create and not Path(path).exists() and self._room(path) == 0:
            raise self._no_room()
        return super().open(path, create=create)

    def sync_path(self, path: str) -> None:
        self.check(path)
        self._raise(self.fsync_error, path)

    def make_directory(self, path: str) -> bool:
        self.check(path)
        if not Path(path).is_dir() and self._room(path) == 0:
            raise self._no_room()
        return super().make_directory(path)
