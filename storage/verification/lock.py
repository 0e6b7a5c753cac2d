"""A shared lock on a log directory, which prevents a broker from starting on it.

Kafka's and Ottla's brokers lock `.lock` exclusively. A shared lock on the same file excludes them without a change to
the directory. If the file is missing, no broker uses the directory: a clean shutdown has removed the file. Then there
is nothing to lock, and nothing prevents a broker from starting.
"""

from __future__ import annotations

import fcntl
import os
from types import TracebackType

from storage.directories.lock import take_lock
from storage.directories.log_directory import LOCK_FILE
from storage.errors import LogDirLockedError


class SharedLock:
    """A context manager that holds the shared lock. Raises LogDirLockedError if a broker holds the lock."""

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._fd = -1

    def __enter__(self) -> SharedLock:
        try:
            self._fd = os.open(f"{self._directory}/{LOCK_FILE}", os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return self
        try:
            take_lock(self._fd, fcntl.LOCK_SH)
        except OSError as error:
            self._close()
            raise LogDirLockedError(self._directory) from error
        return self

    def __exit__(
        self, error_type: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._close()

    def _close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
