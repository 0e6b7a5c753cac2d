"""Future logs: copies of logs in other log directories (KIP-113), and the replacement of a log by its future log.

    a/t-0/                  the log
    b/t-0.<id>-future/      its future log, which is not served

Only `LogCopy` writes to a future log. It is loaded and recovered at the start like other logs, and its offsets are in
the checkpoints of its log directory. When it has all records of the log:

1. `prepare`: the future log is synced, with a `.ottla-moved-from` file in it (see `moved_from`), and the checkpoints
   are written.
2. `swap`: the future log is renamed to b/t-0 and is the log from that turn of the event loop on. If the broker stops
   now, the next start finds a/t-0, too, and removes it.
3. `retire`: the name b/t-0 is synced; then a/t-0 is renamed to a/t-0.<id>-delete, the checkpoints of both directories
   are written, and `.ottla-moved-from` is removed.

Readers of the old log can finish their reads: open files stay readable.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import TYPE_CHECKING

from storage.directories.checkpoints import TopicPartition
from storage.directories.log_directory import LogDirectory
from storage.directories.moved_from import remove_moved_from, write_moved_from
from storage.errors import CorruptFileError, LogClosedError, LogDirIOError
from storage.log.files import FUTURE_DIRECTORY_SUFFIX
from storage.log.log import Log

if TYPE_CHECKING:
    from storage.log_manager import LogManager


class FutureLogs:
    """The future logs of one broker by (topic, partition). Call all methods on the event loop's thread."""

    def __init__(self, manager: LogManager) -> None:
        self.logs: dict[TopicPartition, Log] = {}
        self._manager = manager

    def adopt(self, log: Log) -> None:
        """Add a future log that was loaded or created."""
        log.files.schedule_removal = self._manager.delayed_deletes.add
        log.segments.on_roll = lambda: self._manager.log_rolled(log)
        self.logs[log.topic, log.partition] = log

    async def loaded(self) -> None:
        """After all logs are loaded, remove the future logs whose topic id differs from their log's."""
        for key, future in list(self.logs.items()):
            current = self._manager.logs.get(key)
            if current is None:
                continue  # the log's directory has failed
            current.is_being_moved = True
            if current.topic_id != future.topic_id and None not in (current.topic_id, future.topic_id):
                await self.remove(key)

    async def begin(self, current: Log, directory: LogDirectory) -> Log:
        """Create the future log of a log in another directory.

        Raises LogDirIOError; LogClosedError if the log was closed because its directory has failed.
        """
        manager, key = self._manager, (current.topic, current.partition)
        assert key not in self.logs
        taken = directory.path / f"{current.topic}-{current.partition}"
        if manager.fs.exists(str(taken)):  # a second log of that name; `ReplicaPlaces` has logged and ignored it
            raise LogDirIOError(taken, OSError(errno.EEXIST, os.strerror(errno.EEXIST)))
        await self._forget_origin(current)
        if current.closed:
            raise LogClosedError(f"{current.topic}-{current.partition} is closed")
        path = directory.path / manager.log_removal.unique_name(key, FUTURE_DIRECTORY_SUFFIX)
        future = manager.opener.begin_new(path, current.topic_id, current.config, current.log_start_offset)
        self.adopt(future)
        current.is_being_moved = True
        current.abort_compaction("it is moved to another log directory")
        if _is_named_in(directory, key):  # the entry of an earlier log: it is wrong for this one
            await manager.checkpoints.write_all_of(directory)
            if manager.cleaner is not None:
                await manager.cleaner.write_checkpoint(directory)
        return future

    async def remove(self, key: TopicPartition) -> None:
        """Delete the future log of a partition, if there is one. Raises LogDirIOError."""
        future = self._pop(key)
        if future is not None:
            parent = future.directory.parent
            self._manager.log_removal.put_aside(future)
            await self._manager.log_removal.finish(parent, key)

    def release_in(self, directory: LogDirectory) -> None:
        """Release the future logs in a failed log directory; their files are left unchanged."""
        for key, future in list(self.logs.items()):
            if future.directory.parent == directory.path:
                self._pop(key)
                future.release()

    def _pop(self, key: TopicPartition) -> Log | None:
        future = self.logs.pop(key, None)
        current = self._manager.logs.get(key)
        if current is not None:
            current.is_being_moved = False
        return future

    # -- replacing the log ---------------------------------------------------------------------------------------------

    async def prepare(self, key: TopicPartition) -> None:
        """Sync the future log and its `.ottla-moved-from` file. The caller prevents syncs of the log meanwhile.

        Raises LogDirIOError, LogClosedError.
        """
        manager, current, future = self._manager, self._manager.logs[key], self.logs[key]
        path, origin = str(future.directory), str(current.directory.parent)

        def write() -> None:
            with future.files.failing():
                write_moved_from(manager.fs, path, origin)

        await manager.fs.run_blocking(write)
        future.files.name_changes += 1
        await manager.flush(future)
        directory = manager.dirs.of(path)
        if directory is None or not await manager.checkpoints.write_all_of(directory):
            raise LogDirIOError(path, OSError(errno.ENOSPC, "the checkpoints cannot be written"))
        if manager.cleaner is not None:
            await manager.cleaner.write_checkpoint(directory, coming=key)

    def swap(self, key: TopicPartition) -> Log:
        """Replace the log by its future log, which must have the same records; return the old log.

        Raises LogDirIOError; then nothing has changed.
        """
        manager, current, future = self._manager, self._manager.logs[key], self.logs[key]
        assert future.log_end_offset == current.log_end_offset
        assert future.recovery_point >= current.recovery_point
        before = str(future.directory)
        future.replace(current)
        manager.delayed_deletes.renamed(before, str(future.directory))
        del self.logs[key]
        current.is_being_moved = False
        current.successor = future
        manager.replaced(current, future)
        return current

    async def retire(self, old: Log, new: Log) -> None:
        """Remove the replaced log. Raises LogDirIOError; then the next start removes it."""
        manager, key = self._manager, (old.topic, old.partition)
        source, target = old.directory.parent, new.directory.parent
        await manager.log_removal.sync(target)
        if new.closed:
            return  # the new log's directory has failed: the next start decides
        manager.log_removal.put_aside(old)
        directory = manager.dirs.of(str(target))
        if directory is not None and directory.is_online:
            await manager.checkpoints.write_all_of(directory)
            if manager.cleaner is not None:
                await manager.cleaner.write_checkpoint(directory)
        await manager.log_removal.finish(source, key)
        await self._forget_origin(new)

    async def _forget_origin(self, log: Log) -> None:
        fs, path = self._manager.fs, str(log.directory)
        if not fs.exists(path):
            return  # the log was deleted meanwhile

        def remove() -> None:
            with log.files.failing():
                remove_moved_from(fs, path)

        await fs.run_blocking(remove)


def _is_named_in(directory: LogDirectory, key: TopicPartition) -> bool:
    """Whether a checkpoint of a log directory has an entry for a partition; True if one cannot be read."""
    checkpoints = (
        directory.recovery_points,
        directory.log_start_offsets,
        directory.high_watermarks,
        directory.cleaner_offsets,
    )
    try:
        return any(key in checkpoint.read() for checkpoint in checkpoints)
    except (CorruptFileError, OSError):
        return True


def is_future(path: Path) -> bool:
    """Whether a directory has the name of a future log."""
    return path.name.endswith(FUTURE_DIRECTORY_SUFFIX)
