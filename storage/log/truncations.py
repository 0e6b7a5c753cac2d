"""Truncations that survive a power cut: removed records neither come back nor mix with later ones.

The recovery point is lowered on disk first, so that the next start recovers the truncated part. The log is synced
afterwards. The state of the producers at the new end is replayed in another thread before the log changes.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
from collections.abc import Iterator

from protocol.errors import ProtocolError
from storage.directories.log_checkpoints import LogCheckpoints
from storage.directories.log_directories import LogDirectories
from storage.errors import LogDirIOError, StorageError
from storage.log.log import Log
from storage.log.replay import ProducerReplay
from storage.log_flusher import LogFlusher
from storage.log_reads import LogReads

logger = logging.getLogger(__name__)


class LogTruncations:
    """Truncates logs. Call all methods in the event loop's thread."""

    def __init__(self, dirs: LogDirectories, checkpoints: LogCheckpoints, flusher: LogFlusher, reads: LogReads) -> None:
        self._dirs = dirs
        self._checkpoints = checkpoints
        self._flusher = flusher
        self._reads = reads
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
            changed = log.truncate_to(offset, await self._replay(log, offset))
        await self._flusher.flush(log)
        return changed

    async def truncate_fully_and_start_at(self, log: Log, offset: int) -> None:
        """Remove every record; the next one gets `offset`. Raises LogDirIOError, LogClosedError."""
        with self._noted(log):
            await self._lower_recovery_point(log, log.segments[0].base_offset)
            log.truncate_fully_and_start_at(offset)
        await self._flusher.flush(log)

    async def _replay(self, log: Log, offset: int) -> ProducerReplay | None:
        """Replay the producers up to `offset` in another thread. None if this failed: the truncation does it again."""
        replay = log.prepare_truncation(offset)
        if replay is None:
            return None
        try:
            await self._reads.run(replay.run)
        except (OSError, ProtocolError, StorageError) as error:
            logger.warning("%s: the producers at offset %d are replayed again: %s", log.directory.name, offset, error)
            return None
        return replay

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
