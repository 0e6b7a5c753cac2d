"""The disk of a simulated host: real files, of which a power cut reverts unsynced changes.

`support.power_cut` knows what a disk may hold then. A process that is killed leaves the page cache behind, so the next
one goes on with the same `HostFileSystem`; after a power cut there is a new one on what the disk came back with.
Blocking work takes some virtual time. A disk may be slow, its directories may fail, and a process may be killed in a
write.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from storage.file_system import DescriptorCache, OpenFile
from support.checked_files import CheckedFileSystem
from support.power_cut import Disk, PowerCutFileSystem
from support.simulation.process import CURRENT, ProcessDiedError

T = TypeVar("T")

QUICK_DISK_S = (0.0, 0.004)


@dataclass
class DiskFaults:
    """What is wrong with a disk."""

    blocking_s: tuple[float, float] = QUICK_DISK_S
    """How long blocking work waits for the disk, before it and after it."""
    broken: set[str] = field(default_factory=set)
    """Directories that answer everything with EIO."""
    writes_until_death: int = 0
    """The process dies in this write from now, counted from 1; 0: in none."""
    die: Callable[[], None] = lambda: None


class HostFileSystem(CheckedFileSystem, PowerCutFileSystem):
    """The file system of one host, over the lives of its processes."""

    def __init__(self, root: Path, rng: random.Random) -> None:
        super().__init__(root)
        self._random = rng
        self.faults = DiskFaults()
        self._life = 0
        self._open: set[int] = set()
        self._paths: dict[int, str] = {}

    def is_broken(self, path: str) -> bool:
        """Whether a path is in a directory that fails."""
        return any(path == one or path.startswith(f"{one}/") for one in self.faults.broken)

    def check(self, path: str) -> None:
        """Raise OSError below a broken directory, and ProcessDiedError for a process that was killed in a write."""
        process = CURRENT.get(None)
        if process is not None and process.is_dead:
            raise ProcessDiedError
        if self.faults.broken and self.is_broken(path):
            raise OSError(errno.EIO, os.strerror(errno.EIO), path)

    # -- descriptors -------------------------------------------------------------------------------------------------

    def pread(self, fd: int, length: int, position: int) -> bytes:  # type: ignore[override]
        self.check(self._paths.get(fd, ""))
        return os.pread(fd, length, position)

    def pwrite(self, fd: int, data: bytes | bytearray | memoryview, position: int) -> int:  # type: ignore[override]
        self.check(self._paths[fd])
        faults = self.faults
        if faults.writes_until_death:
            faults.writes_until_death -= 1
            if not faults.writes_until_death:
                there = self._random.randint(0, len(data))
                super().pwrite(fd, memoryview(data)[:there], position)
                faults.die()
                raise ProcessDiedError
        return super().pwrite(fd, data, position)

    def ftruncate(self, fd: int, size: int) -> None:  # type: ignore[override]
        self.check(self._paths[fd])
        super().ftruncate(fd, size)

    def fsync(self, fd: int) -> None:  # type: ignore[override]
        self.check(self._paths[fd])
        super().fsync(fd)

    # -- names -------------------------------------------------------------------------------------------------------

    def open(self, path: str, *, create: bool = False) -> OpenFile:
        handle = super().open(path, create=create)
        life = self._life
        fd = handle.fd
        self._open.add(fd)
        self._paths[fd] = path

        def close(fd: int) -> None:
            if life == self._life:  # else the number may belong to somebody else by now
                self._open.discard(fd)
                del self._paths[fd]
                os.close(fd)

        return OpenFile(fd, _disowning(handle, close))

    # -- lives -------------------------------------------------------------------------------------------------------

    async def run_blocking(self, work: Callable[[], T]) -> T:
        await asyncio.sleep(self._random.uniform(*self.faults.blocking_s))
        result = work()
        await asyncio.sleep(self._random.uniform(*self.faults.blocking_s))
        return result

    def process_died(self) -> None:
        """Close the files of a dead process and release their locks, as the kernel does."""
        self._life += 1
        for fd in self._open:
            with contextlib.suppress(OSError):
                os.close(fd)
        self._open.clear()
        self._paths.clear()
        self.faults.writes_until_death = 0
        self.descriptors = DescriptorCache(self.descriptors.limit)
        self.on_failure = None

    def after_power_cut(self, seed: object, target: Path) -> HostFileSystem:
        """Write the state of the disk after a power cut to `target`."""
        disk = Disk(self)
        disk.advance(self.position)
        disk.write_out(seed, target)
        return HostFileSystem(target, self._random)


def _disowning(handle: OpenFile, close: Callable[[int], None]) -> Callable[[int], None]:
    """Have the first owner of a descriptor forget it: it would close it once more."""
    handle.fd = -1
    return close
