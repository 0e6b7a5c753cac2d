"""How far the recovery of a log directory is: a line in the broker's log every few seconds, and the word to stop.

Used by several threads at a time, one a log that is being recovered.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from threading import Event, Lock

from storage.errors import LoadingStoppedError

logger = logging.getLogger(__name__)

_LINE_EVERY_MS = 5000


class RecoveryProgress:
    """Counts logs and bytes of one directory."""

    def __init__(self, path: Path, logs: int, size: int, now_ms: Callable[[], int], stopped: Event) -> None:
        """logs, size: how many are to be recovered, and their bytes. stopped: set by whoever wants no more of it."""
        self._path = path
        self._logs = logs
        self._size = size
        self._now_ms = now_ms
        self._stopped = stopped
        self._lock = Lock()
        self._logs_done = 0
        self._bytes_read = 0
        self._began_ms = self._told_ms = now_ms()

    def reading(self, size: int) -> None:
        """So many bytes are about to be read. Raises LoadingStoppedError when that is not wanted any more."""
        if self._stopped.is_set():
            raise LoadingStoppedError(f"{self._path}: recovery was stopped, the next start does it anew")
        now_ms = self._now_ms()
        with self._lock:
            self._bytes_read += size
            if now_ms - self._told_ms < _LINE_EVERY_MS:
                return
            self._told_ms = now_ms
            done = self._logs_done
            read = self._bytes_read
        logger.info(
            "%s: recovered %d of %d logs, %s of %s GB",
            self._path, done, self._logs, gigabytes(read), gigabytes(self._size),
        )  # fmt: skip

    def log_done(self) -> None:
        """A log has been opened."""
        with self._lock:
            self._logs_done += 1

    def finished(self) -> None:
        """Say what it came to."""
        seconds = max(self._now_ms() - self._began_ms, 1) / 1000
        logger.info(
            "%s: recovered %d logs, %s GB in %.1f s (%.0f MB/s)",
            self._path, self._logs_done, gigabytes(self._bytes_read), seconds, self._bytes_read / 1e6 / seconds,
        )  # fmt: skip


def gigabytes(size: int) -> str:
    """A size for people: in units of 10^9 bytes."""
    return f"{size / 1e9:.1f}" if size >= 1e8 else f"{size / 1e9:.3f}"
