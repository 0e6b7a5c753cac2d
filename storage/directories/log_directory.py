"""One log directory (an entry of log.dirs): lock, meta.properties, checkpoints, clean shutdown file, online state.

After a failure a directory is offline until the broker is restarted. A full disk is not a failure: the directory stays
online, and `has_room` repeats the largest refused write, in a file of its own and at the same position, to find out
whether there is room again. So a few free bytes do not count as room, nor does free space above a file size limit.

    .lock                             held by the process that uses the directory, removed by a clean shutdown
    meta.properties                   ids of the broker and the cluster
    .kafka_cleanshutdown              exists only after a clean shutdown; has the broker's epoch
    *-offset-checkpoint               see `checkpoints`
    <topic>-<partition>/              a log
    <topic>-<partition>.<id>-delete/  a deleted log whose files will be removed
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
from pathlib import Path

from storage.directories.checkpoints import (
    CLEANER_CHECKPOINT,
    HIGH_WATERMARK_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    OffsetCheckpoint,
)
from storage.directories.lock import take_lock
from storage.directories.meta_properties import MetaProperties, read_meta_properties, write_meta_properties
from storage.errors import LogDirIOError, LogDirLockedError
from storage.file_system import FileSystem, OpenFile

CLEAN_SHUTDOWN_FILE = ".kafka_cleanshutdown"
LOCK_FILE = ".lock"

_ROOM_FILE = ".ottla-room"  # Kafka ignores files here, Ottla names that begin with a dot
_LEAST_ROOM = 64 * 1024
_MOST_ROOM = 16 * 1024 * 1024


class LogDirectory:
    """One log directory and the small files in it. Methods raise LogDirIOError if a system call fails."""

    def __init__(self, fs: FileSystem, path: Path) -> None:
        self.fs = fs
        self.path = path
        self.recovery_points = OffsetCheckpoint(fs, f"{path}/{RECOVERY_POINT_CHECKPOINT}")
        self.high_watermarks = OffsetCheckpoint(fs, f"{path}/{HIGH_WATERMARK_CHECKPOINT}")
        self.log_start_offsets = OffsetCheckpoint(fs, f"{path}/{LOG_START_OFFSET_CHECKPOINT}")
        self.checkpointing = asyncio.Lock()  # held while a checkpoint is written
        self.cleaner_offsets = OffsetCheckpoint(fs, f"{path}/{CLEANER_CHECKPOINT}")
        self.clean = False  # whether the last process that used the directory had a clean shutdown
        self.failure: str | None = None
        """Why the directory is offline, with the path that failed; None if it is online."""
        self._refused: tuple[int, int] | None = None  # largest position and size of the refused writes
        self._lock: OpenFile | None = None

    @property
    def is_online(self) -> bool:
        """Whether the directory has not failed, so that its logs are served."""
        return self.failure is None

    @property
    def is_full(self) -> bool:
        """Whether a write was refused for lack of room and `has_room` has not succeeded since."""
        return self._refused is not None

    def write_refused(self, extent: tuple[int, int]) -> bool:
        """Note that a write (position, size) failed for lack of room. True if the directory was not full before."""
        before = self._refused
        position, size = extent
        size = min(max(size, _LEAST_ROOM), _MOST_ROOM)
        self._refused = (position, size) if before is None else (max(before[0], position), max(before[1], size))
        return before is None

    def has_room(self) -> bool:
        """Repeat the refused write. If it succeeds, the directory is no longer full: return True. Blocks."""
        refused = self._refused
        if refused is None:
            return True
        position, size = refused
        path = f"{self.path}/{_ROOM_FILE}"
        try:
            file = self.fs.open(path, create=True)
            try:
                self.fs.write_all(file.fd, bytes(size), position)
            finally:
                file.close()
                self.fs.remove(path)
        except OSError:
            return False
        if self._refused == refused:
            self._refused = None
        return self._refused is None

    def go_offline(self, failure: LogDirIOError) -> None:
        """Mark the directory as failed and unlock it."""
        self.failure = str(failure)  # the exception's traceback would keep references, to descriptors for example
        self._refused = None
        self.unlock()

    def lock(self) -> None:
        """Create the directory if necessary and lock it. Raises LogDirLockedError if the lock is held.

        The holder removes the file at the end, as Kafka does, so the lock is taken again if the locked file is no
        longer the one at the path.
        """
        path = f"{self.path}/{LOCK_FILE}"
        while True:
            try:
                self._make()
                lock = self.fs.open(path, create=True)
            except OSError as error:
                raise LogDirIOError(self.path, error) from error
            try:
                take_lock(lock.fd, fcntl.LOCK_EX)
            except OSError as error:
                raise LogDirLockedError(self.path) from error
            with contextlib.suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(lock.fd), os.stat(path)):  # noqa: PTH116 - paths are strings here
                    self._lock = lock
                    return

    def _make(self) -> None:
        """Create the directory and sync its parents: a lost directory entry would lose all synced files in it."""
        missing = [path for path in (self.path, *self.path.parents) if not self.fs.exists(str(path))]
        self.fs.make_directory(str(self.path))
        for path in missing:
            self.fs.sync_directory(str(path.parent))

    def unlock(self) -> None:
        if self._lock is not None:
            with contextlib.suppress(OSError):  # the disk has failed
                self.fs.remove(f"{self.path}/{LOCK_FILE}")
            self._lock.close()
            self._lock = None

    def read_meta(self) -> MetaProperties | None:
        """Return the content of `meta.properties`; None if there is no file. Raises CorruptFileError."""
        try:
            return read_meta_properties(self.fs, str(self.path))
        except OSError as error:
            raise LogDirIOError(self.path, error) from error

    def write_meta(self, properties: MetaProperties, now_ms: int) -> None:
        write_meta_properties(self.fs, str(self.path), properties, now_ms)

    def take_clean_shutdown(self) -> bool:
        """Set `clean` from the clean shutdown file and remove that file."""
        self.clean = self.fs.remove(f"{self.path}/{CLEAN_SHUTDOWN_FILE}")
        if self.clean:
            # If the file reappeared after a power cut, the next start would recover nothing.
            self.fs.sync_directory(str(self.path))
        return self.clean

    def write_clean_shutdown(self, broker_epoch: int) -> None:
        text = f'{{"version":0,"brokerEpoch":{broker_epoch}}}'
        self.fs.replace_file(f"{self.path}/{CLEAN_SHUTDOWN_FILE}", text.encode(), sync=True)

    def partition_directories(self) -> list[Path]:
        """Return the subdirectories that may be logs, sorted by name."""
        with os.scandir(self.path) as entries:
            return sorted(Path(entry.path) for entry in entries if entry.is_dir() and not entry.name.startswith("."))

    def __repr__(self) -> str:
        return f"LogDirectory({str(self.path)!r})"
