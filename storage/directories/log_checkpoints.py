"""Writing the checkpoints of all logs: recovery points, log start offsets and high watermarks, one file per directory.

A checkpoint file is replaced atomically. Writes to a directory are serialized, so the last one has the newest values.
If the disk is full, the old file stays until the next write.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

from storage.directories.checkpoints import OffsetCheckpoint
from storage.directories.log_directories import LogDirectories
from storage.directories.log_directory import LogDirectory
from storage.errors import LogDirIOError
from storage.file_system import FileSystem
from storage.log.log import Log

logger = logging.getLogger(__name__)


class LogCheckpoints:
    """Writes checkpoints off the event loop. Methods for one directory return False if it is full or has failed."""

    def __init__(self, fs: FileSystem, dirs: LogDirectories, logs: Callable[[], Iterable[Log]]) -> None:
        """logs: returns all logs, including future logs. A directory has at most one of each partition."""
        self._fs = fs
        self._dirs = dirs
        self._logs = logs

    async def write_recovery_points(self) -> None:
        """Write the recovery points of all logs."""
        for directory in self._dirs.online:
            await self.write_recovery_points_of(directory)

    async def write_log_start_offsets(self) -> None:
        """Write the log start offsets that are within a segment."""
        for directory in self._dirs.online:
            await self._write_log_start_offsets_of(directory)

    async def write_high_watermarks(self) -> None:
        """Write the high watermarks of all logs."""
        for directory in self._dirs.online:
            await self._write_high_watermarks_of(directory)

    async def write_all_of(self, directory: LogDirectory) -> bool:
        """Write the three checkpoints of a directory."""
        written = [await self.write_recovery_points_of(directory), await self._write_high_watermarks_of(directory)]
        return all(written)

    async def write_recovery_points_of(self, directory: LogDirectory) -> bool:
        """Write the log start offsets, then the recovery points, of a directory.

        An increased log start offset may have moved the recovery point. Records below it may not be synced, so after
        a power cut a start must not find the new recovery point with the old log start offset.
        """
        if not await self._write_log_start_offsets_of(directory):
            return False
        return await self._write(directory, directory.recovery_points, lambda log: log.recovery_point)

    async def _write_log_start_offsets_of(self, directory: LogDirectory) -> bool:
        def within_a_segment(log: Log) -> int | None:
            # Until the directory is synced, removed segments may reappear after a power cut.
            is_within = log.log_start_offset > log.segments[0].base_offset or log.files.are_names_unsynced
            return log.log_start_offset if is_within else None

        return await self._write(directory, directory.log_start_offsets, within_a_segment)

    async def _write_high_watermarks_of(self, directory: LogDirectory) -> bool:
        return await self._write(directory, directory.high_watermarks, lambda log: log.high_watermark)

    async def _write(
        self, directory: LogDirectory, checkpoint: OffsetCheckpoint, offset_of: Callable[[Log], int | None]
    ) -> bool:
        """Replace a checkpoint. A log is left out if `offset_of` returns None."""
        async with directory.checkpointing:
            offsets = {
                (log.topic, log.partition): offset
                for log in self._logs()
                if log.directory.parent == directory.path and (offset := offset_of(log)) is not None
            }
            try:
                await self._fs.run_blocking(lambda: checkpoint.write(offsets))
            except LogDirIOError as error:
                logger.debug("%s is not written: %s", checkpoint.path, error)  # LogDirectories has logged the failure
                return False
            return True
