"""The disk of a simulated host: real files, of which a power cut reverts unsynced changes.

`support.power_cut` knows what a disk may hold then. A process that is killed leaves the page cache behind, so the next
one goes on with the same `HostFileSystem`; after a power cut there is a new one on what the disk came back with.
Blocking work takes some virtual time.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from storage.file_system import DescriptorCache, OpenFile
from support.power_cut import Disk, PowerCutFileSystem

T = TypeVar("T")

_BLOCKING_S = (0.0, 0.004)


class HostFileSystem(PowerCutFileSystem):
    """The file system of one host, over the lives of its processes."""

    def __init__(self, root: Path, rng: random.Random) -> None:
        super().__init__(root)
        self._random = rng
        self._life = 0
        self._open: set[int] = set()

    def open(self, path: str, *, create: bool = False) -> OpenFile:
        handle = super().open(path, create=create)
        life = self._life
        fd = handle.fd
        self._open.add(fd)

        def close(fd: int) -> None:
            if life == self._life:  # else the number may belong to somebody else by now
                self._open.discard(fd)
                os.close(fd)

        return OpenFile(fd, _disowning(handle, close))

    async def run_blocking(self, work: Callable[[], T]) -> T:
        await asyncio.sleep(self._random.uniform(*_BLOCKING_S))
        result = work()
        await asyncio.sleep(self._random.uniform(*_BLOCKING_S))
        return result

    def process_died(self) -> None:
        """Close the files of a dead process and release their locks, as the kernel does."""
        self._life += 1
        for fd in self._open:
            with contextlib.suppress(OSError):
                os.close(fd)
        self._open.clear()
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
