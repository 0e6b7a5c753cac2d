"""How often a fault takes effect, and how often it may: in one process, or in several that share a file.

A shared counter is a file to which each use appends one byte. The system orders these writes, and the position after
its own byte tells a process which use this was. So nothing is locked, and a process that is killed or stopped at any
point keeps no other from counting.
"""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Protocol


class Counter(Protocol):
    """Counts the uses of a fault. All threads may use it."""

    @property
    def uses(self) -> int:
        """How often the fault has taken effect."""

    @property
    def left(self) -> int | None:
        """How often it still may; None: no limit."""

    def take(self) -> bool:
        """Count one use. Return False if there is none left."""


class LocalCounter:
    """A counter for one process."""

    def __init__(self, count: int | None) -> None:
        """count: how many uses there are; None: no limit."""
        self.uses = 0
        self._count = count
        self._lock = threading.Lock()

    @property
    def left(self) -> int | None:
        """See `Counter`."""
        return None if self._count is None else self._count - self.uses

    def take(self) -> bool:
        """See `Counter`."""
        with self._lock:
            if self.left == 0:
                return False
            self.uses += 1
        return True


class SharedCounter:
    """A counter for all processes that have its file."""

    def __init__(self, path: Path, count: int | None) -> None:
        """path: a file for this counter alone; the first use creates it. count: how many uses there are."""
        self._path = path
        self._count = count

    @property
    def uses(self) -> int:
        """See `Counter`."""
        try:
            size = self._path.stat().st_size
        except FileNotFoundError:
            return 0
        return size if self._count is None else min(size, self._count)

    @property
    def left(self) -> int | None:
        """See `Counter`."""
        return None if self._count is None else self._count - self.uses

    def take(self) -> bool:
        """See `Counter`."""
        if self.left == 0:
            return False
        fd = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            os.write(fd, b".")
            number = os.lseek(fd, 0, os.SEEK_CUR)
        finally:
            os.close(fd)
        return self._count is None or number <= self._count
