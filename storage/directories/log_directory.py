"""One log directory (an entry of log.dirs): its lock, to whom it belongs, its checkpoints, how it was left, and
whether it can be used.

A directory is offline from a failure on until the broker is started again. A full disk is no failure: the directory
stays online, and `has_room` finds out when there is room again by trying the largest write that was refused, in a
file of its own. So neither a few free bytes, nor a limit on the size of files, count as room.

    .lock                             held by the process that uses the directory, removed by a clean stop
    meta.properties                   broker and cluster that it belongs to
    .kafka_cleanshutdown              there only after a clean stop; with the broker's epoch
    *-offset-checkpoint               see `checkpoints`
    <topic>-<partition>/              the logs
    <topic>-<partition>.<id>-delete/  a deleted one whose files are about to go
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
from storage.directories.meta_properties import MetaProperties, read_meta_properties, write_meta_properties
from storage.errors import LogDirIOError, LogDirLockedError
from storage.file_system import FileSystem, OpenFile

CLEAN_SHUTDOWN_FILE = ".kafka_cleanshutdown"
LOCK_FILE = ".lock"
UNKNOWN_BROKER_EPOCH = -1

_ROOM_FILE = ".ottla-room"  # hidden: Kafka looks at directories only, and we at those without a dot
_LEAST_ROOM = 64 * 1024
_MOST_ROOM = 16 * 1024 * 1024


class LogDirectory:
    """One log directory and the small files in it. Raises LogDirIOError where the operating system fails."""

    def __init__(self, fs: FileSystem, path: Path) -> None:
        self.fs = fs
        self.path = path
        self.recovery_points = OffsetCheckpoint(fs, f"{path}/{RECOVERY_POINT_CHECKPOINT}")
        self.high_watermarks = OffsetCheckpoint(fs, f"{path}/{HIGH_WATERMARK_CHECKPOINT}")
        self.log_start_offsets = OffsetCheckpoint(fs, f"{path}/{LOG_START_OFFSET_CHECKPOINT}")
        self.checkpointing = asyncio.Lock()  # held by whoever writes one of them
        self.cleaner_offsets = OffsetCheckpoint(fs, f"{path}/{CLEANER_CHECKPOINT}")
        self.clean = False  # how the last process that used it had stopped
        self.failure: str | None = None
        """Why it is offline, with the path that failed; None while it is online."""
        self._refused: tuple[int, int] | None = None  # position and size of a write that found no room
        self._lock: OpenFile | None = None

    @property
    def is_online(self) -> bool:
        """Whether its logs are served."""
        return self.failure is None

    @property
    def is_full(self) -> bool:
        """Whether a write has found no room since there was some last."""
        return self._refused is not None

    def write_refused(self, extent: tuple[int, int]) -> bool:
        """Note that a write (position, size) found no room. True if the directory was not full before."""
        before = self._refused
        position, size = extent
        size = min(max(size, _LEAST_ROOM), _MOST_ROOM)
        self._refused = (position, size) if before is None else (max(before[0], position), max(before[1], size))
        return before is None

    def has_room(self) -> bool:
        """Try what was refused. True if that works now, and then the directory is full no more. Blocks."""
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
        """The directory has failed: let go of it."""
        self.failure = str(failure)  # the error itself would keep what its traceback holds, descriptors for one
        self._refused = None
        self.unlock()

    def lock(self) -> None:
        """Make the directory if need be and take its lock. Raises LogDirLockedError if somebody else has it.

        The lock is taken twice: as the JVM does (of the process), and on the open file, so that two brokers
        in one process exclude each other as well. Whoever had it removes the file, as Kafka does: a lock on one
        that is gone is worth nothing.
        """
        path = f"{self.path}/{LOCK_FILE}"
        while True:
            try:
                self._make()
                lock = self.fs.open(path, create=True)
            except OSError as error:
                raise LogDirIOError(self.path, error) from error
            try:
                fcntl.flock(lock.fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                fcntl.lockf(lock.fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                raise LogDirLockedError(self.path) from error
            with contextlib.suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(lock.fd), os.stat(path)):  # noqa: PTH116 - paths are strings here
                    self._lock = lock
                    return

    def _make(self) -> None:
        """Make the directory, durably: what is synced in it would be lost with it."""
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
        """Whom the directory belongs to; None if nobody yet. Raises CorruptFileError."""
        try:
            return read_meta_properties(self.fs, str(self.path))
        except OSError as error:
            raise LogDirIOError(self.path, error) from error

    def write_meta(self, properties: MetaProperties, now_ms: int) -> None:
        write_meta_properties(self.fs, str(self.path), properties, now_ms)

    def take_clean_shutdown(self) -> bool:
        """Note whether the last stop was clean, and remove the file that says so: from now on it is not."""
        self.clean = self.fs.remove(f"{self.path}/{CLEAN_SHUTDOWN_FILE}")
        if self.clean:
            # Should the file come back after a power cut, nothing would be recovered.
            self.fs.sync_directory(str(self.path))
        return self.clean

    def write_clean_shutdown(self, broker_epoch: int) -> None:
        text = f'{{"version":0,"brokerEpoch":{broker_epoch}}}'
        self.fs.replace_file(f"{self.path}/{CLEAN_SHUTDOWN_FILE}", text.encode(), sync=True)

    def partition_directories(self) -> list[Path]:
        """The directories in it that may be logs, sorted by name."""
        with os.scandir(self.path) as entries:
            return sorted(Path(entry.path) for entry in entries if entry.is_dir() and not entry.name.startswith("."))

    def __repr__(self) -> str:
        return f"LogDirectory({str(self.path)!r})"
