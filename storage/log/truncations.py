"""Truncations that survive a power cut: removed records neither come back nor mix with later ones.

The recovery point is lowered on disk first, so that the next start recovers the truncated part. The log is synced
afterwards.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator

from storage.directories.log_checkpoints import LogCheckpoints
from storage.directories.log_directories import LogDirectories
from storage.errors import LogDirIOError
from storage.log.log import Log
from storage.log_flusher import LogFlusher


class LogTruncations:
    """Truncates logs. Call all methods in the event loop's thread."""

    def __init__(self, dirs: LogDirectories, checkpoints: LogCheckpoints, flusher: LogFlusher) -> None:
        self._dirs = dirs
        self._checkpoints = checkpoints
        self._flusher = flusher
        self._coming: set[Log] = set()

    def is_coming(self, log: Log) -> bool:
        """Whether a truncation of the log has begun and not ended."""
        return log in self._coming

    async def truncate_to(self, log: Log, offset: int) -> bool:
        """Remove a log's records from `offset` on. False if there are none. Raises LogDirIOError, LogClosedError."""
        if offset >= log.log_end_offset:
            return log.truncate_to(offset)
        with self._noted(log):
            await self._lower_recovery_point(log, offset)
            changed = log.truncate_to(offset)
        await self._flusher.flush(log)
        return changed

    async def truncate_fully_and_start_at(self, log: Log, offset: int) -> None:
        """Remove every record; the next one gets `offset`. Raises LogDirIOError, LogClosedError."""
        with self._noted(log):
            await self._lower_recovery_point(log, log.segments[0].base_offset)
            log.truncate_fully_and_start_at(offset)
        await self._flusher.flush(log)

    @contextlib.contextmanager
    def _noted(self, log: Log) -> Iterator[None]:
        self._coming.add(log)
        try:
            yield
        finally:
            self._coming.discard(log)

    async def _lower_recovery_point(self, log: Log, offset: int) -> None:
        directory = self._dirs.of(str(log.directory.parent))
        while log.recovery_point > offset:  # a sync in progress may raise it again
            log.durability.recovery_point = offset
            if directory is not None and not await self._checkpoints.write_recovery_points_of(directory):
                raise LogDirIOError(directory.recovery_points.path, OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))
