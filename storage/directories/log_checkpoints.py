"""The checkpoints of all logs: how far each is synced, where it starts, its high watermark; one file each a directory.

A checkpoint is replaced as a whole, one at a time, so the last one written is the newest. On a full disk the old one
stays until the next time.
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
    """Writes them off the event loop; methods of a directory return False where it has no room, or has failed."""

    def __init__(self, fs: FileSystem, dirs: LogDirectories, logs: Callable[[], Iterable[Log]]) -> None:
        """logs: all that there are, also those that are copies of others; a directory has one of a partition."""
        self._fs = fs
        self._dirs = dirs
        self._logs = logs

    async def write_recovery_points(self) -> None:
        """Write how far every log is synced."""
        for directory in self._dirs.online:
            await self.write_recovery_points_of(directory)

    async def write_log_start_offsets(self) -> None:
        """Write where logs start, of those that start within a segment."""
        for directory in self._dirs.online:
            await self._write_log_start_offsets_of(directory)

    async def write_high_watermarks(self) -> None:
        """Write every log's high watermark."""
        for directory in self._dirs.online:
            await self._write_high_watermarks_of(directory)

    async def write_all_of(self, directory: LogDirectory) -> bool:
        """Write all three of a directory."""
        written = [await self.write_recovery_points_of(directory), await self._write_high_watermarks_of(directory)]
        return all(written)

    async def write_recovery_points_of(self, directory: LogDirectory) -> bool:
        """Write how far logs are synced; before it where they start, which may be what moved that.

        What lies below the start of a log was perhaps never synced: no start must find itself below it.
        """
        if not await self._write_log_start_offsets_of(directory):
            return False
        return await self._write(directory, directory.recovery_points, lambda log: log.recovery_point)

    async def _write_log_start_offsets_of(self, directory: LogDirectory) -> bool:
        def within_a_segment(log: Log) -> int | None:
            # Segments that were removed may come back after a power cut until that is synced.
            is_within = log.log_start_offset > log.segments[0].base_offset or log.names_unsynced
            return log.log_start_offset if is_within else None

        return await self._write(directory, directory.log_start_offsets, within_a_segment)

    async def _write_high_watermarks_of(self, directory: LogDirectory) -> bool:
        return await self._write(directory, directory.high_watermarks, lambda log: log.high_watermark)

    async def _write(
        self, directory: LogDirectory, checkpoint: OffsetCheckpoint, offset_of: Callable[[Log], int | None]
    ) -> bool:
        """Replace a checkpoint. `offset_of`: None leaves a log out."""
        async with directory.checkpointing:
            offsets = {
                (log.topic, log.partition): offset
                for log in self._logs()
                if log.directory.parent == directory.path and (offset := offset_of(log)) is not None
            }
            try:
                await self._fs.run_blocking(lambda: checkpoint.write(offsets))
            except LogDirIOError as error:
                logger.debug("%s is not written: %s", checkpoint.path, error)  # who has met it has been told of already
                return False
            return True
