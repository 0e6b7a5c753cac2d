"""Removing logs from a log directory, because they were deleted or moved to another one.

The log's directory is renamed at once to `<topic>-<partition>.<id>-delete`; its files are removed later, because
readers may still use them. The checkpoints are written without the log, because a partition of the same name may be
created later.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from storage.directories.checkpoints import TopicPartition
from storage.directories.loader import LogInDirectory
from storage.log.files import DELETE_DIRECTORY_SUFFIX
from storage.log.log import Log

if TYPE_CHECKING:
    from storage.log_manager import LogManager

MAX_NAME = 255
"""The largest length of a directory name, in characters."""


class LogRemoval:
    """Removes logs from log directories. Call all methods on the event loop's thread."""

    def __init__(self, manager: LogManager) -> None:
        self._manager = manager

    def put_aside(self, log: Log) -> None:
        """Close a log, rename its directory, and schedule the removal of its files. Raises LogDirIOError."""
        self._manager.forget_rolled(log)
        log.move_to(log.directory.parent / self.unique_name((log.topic, log.partition), DELETE_DIRECTORY_SUFFIX))
        log.release()
        self._manager.delayed_deletes.add([str(log.directory)], log.config.file_delete_delay_ms)

    def put_aside_found(self, found: LogInDirectory) -> LogInDirectory:
        """Rename the directory of a log that was not opened. Its removal is not scheduled. Raises OSError."""
        path = found.path.parent / self.unique_name(found.key, DELETE_DIRECTORY_SUFFIX)
        self._manager.fs.rename(str(found.path), str(path))
        return found._replace(path=path)

    async def finish(self, path: Path, key: TopicPartition) -> None:
        """Make the removal of a log from the log directory `path` durable, and remove it from the checkpoints.

        Raises LogDirIOError.
        """
        directory = self._manager.dirs.of(str(path))
        if directory is not None and directory.is_online:
            await self.sync(path)
            await self._manager.checkpoints.write_all_of(directory)
            if self._manager.cleaner is not None:
                await self._manager.cleaner.gone_from(directory, key)

    async def sync(self, path: Path) -> None:
        """Sync the entries of a directory off the event loop. Raises LogDirIOError."""
        fs = self._manager.fs

        def sync() -> None:
            try:
                fs.sync_directory(str(path))
            except OSError as error:
                raise fs.failed(path, error, lost_writes=True) from error

        await fs.run_blocking(sync)

    def unique_name(self, key: TopicPartition, suffix: str) -> str:
        """Return a unique name for a deleted log or a future log."""
        topic, partition = key
        end = f"-{partition}.{self._manager.rng.getrandbits(128):032x}{suffix}"
        return f"{topic[: MAX_NAME - len(end)]}{end}"
