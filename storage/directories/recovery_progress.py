"""Progress of the recovery of a log directory: a log message every 5 seconds, and the check for a stop request.

Several threads use it at the same time; each recovers one log.
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
    """Counts the recovered logs and bytes of one directory."""

    def __init__(self, path: Path, logs: int, size: int, now_ms: Callable[[], int], stopped: Event) -> None:
        """logs, size: number and bytes of the logs to recover. stopped: set by the caller to stop the recovery."""
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
        """Note that `size` bytes will be read next. Raises LoadingStoppedError if the recovery is to stop."""
        if self._stopped.is_set():
            raise LoadingStoppedError(f"{self._path}: recovery was stopped, the next start repeats it")
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
        """Note that one log is recovered."""
        with self._lock:
            self._logs_done += 1

    def finished(self) -> None:
        """Log the totals."""
        seconds = max(self._now_ms() - self._began_ms, 1) / 1000
        logger.info(
            "%s: recovered %d logs, %s GB in %.1f s (%.0f MB/s)",
            self._path, self._logs_done, gigabytes(self._bytes_read), seconds, self._bytes_read / 1e6 / seconds,
        )  # fmt: skip


def gigabytes(size: int) -> str:
    """Format a size in units of 10^9 bytes."""
    return f"{size / 1e9:.1f}" if size >= 1e8 else f"{size / 1e9:.3f}"
