"""Whether a log directory is in use, and keeping it unused while somebody reads it.

A broker holds `.lock` exclusively, Kafka's as ours. A shared lock on the same file excludes it without a change
to the directory. Where the file is missing nobody uses the directory: a clean stop has removed it. There is nothing
to lock then, and nothing keeps a broker from starting.
"""

from __future__ import annotations

import fcntl
import os
from types import TracebackType

from storage.directories.log_directory import LOCK_FILE
from storage.errors import LogDirLockedError


class SharedLock:
    """A context in which no broker starts on the directory. Raises LogDirLockedError where one has it."""

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._fd = -1

    def __enter__(self) -> SharedLock:
        try:
            self._fd = os.open(f"{self._directory}/{LOCK_FILE}", os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return self
        try:
            # As in LogDirectory.lock: of the open file for brokers of ours, of the process for the JVM's.
            fcntl.flock(self._fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
            fcntl.lockf(self._fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
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
