"""Opening the logs of one log directory at the start.

Deleted directories are listed, so that their removal continues. Stray directories (renamed by Kafka) are ignored.
Logs are opened off the event loop, several at a time; after a clean shutdown, they are not recovered.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable
from itertools import zip_longest
from pathlib import Path
from threading import Event
from typing import NamedTuple, Protocol

from storage.directories.checkpoints import OffsetCheckpoint, TopicPartition
from storage.directories.log_directory import LogDirectory
from storage.directories.recovery_progress import RecoveryProgress, gigabytes
from storage.errors import CorruptFileError, InvalidLogDirectoryNameError
from storage.file_system import FileSystem
from storage.log.files import (
    DELETE_DIRECTORY_SUFFIX,
    FUTURE_DIRECTORY_SUFFIX,
    STRAY_DIRECTORY_SUFFIX,
    parse_directory_name,
)
from storage.log.log import Log
from storage.log.segment import LOG_SUFFIX

logger = logging.getLogger(__name__)


class LogInDirectory(NamedTuple):
    """A log before it is opened: its path, partition and checkpointed offsets."""

    path: Path
    key: TopicPartition
    recovery_point: int | None
    log_start_offset: int
    clean: bool


class DirectoryContents(NamedTuple):
    """The partition directories and high watermarks of a log directory."""

    logs: list[LogInDirectory]
    futures: list[LogInDirectory]  # future logs: copies of logs in other directories
    deleted: list[LogInDirectory]  # renamed to `-delete`; the files still exist
    high_watermarks: dict[TopicPartition, int]


def list_contents(directory: LogDirectory) -> DirectoryContents:
    """List the contents and set `directory.clean`, which removes the clean shutdown file. Raises OSError."""
    clean = directory.take_clean_shutdown()
    recovery_points = _read(directory.recovery_points)
    log_start_offsets = _read(directory.log_start_offsets) or {}
    contents = DirectoryContents([], [], [], _read(directory.high_watermarks) or {})
    for path in directory.partition_directories():
        try:
            key = parse_directory_name(path.name)
        except InvalidLogDirectoryNameError as error:
            logger.warning("%s", error)
            continue
        recovery_point = None if recovery_points is None else recovery_points.get(key, 0)
        found = LogInDirectory(path, key, recovery_point, log_start_offsets.get(key, 0), clean)
        if path.name.endswith(DELETE_DIRECTORY_SUFFIX):
            contents.deleted.append(found)
        elif path.name.endswith(FUTURE_DIRECTORY_SUFFIX):
            contents.futures.append(found)
        elif path.name.endswith(STRAY_DIRECTORY_SUFFIX):
            logger.warning("%s: a stray log, renamed by Kafka; it is ignored", path)
        else:
            contents.logs.append(found)
    if recovery_points is None and not contents.logs and not contents.futures:
        directory.recovery_points.write({})  # from now on every log has a known recovery point
    return contents


def _read(checkpoint: OffsetCheckpoint) -> dict[TopicPartition, int] | None:
    """Return the offsets of a checkpoint; None if it is damaged, empty or missing: then more is recovered, as in Kafka.

    Raises OSError.
    """
    try:
        return checkpoint.read() if checkpoint.is_written() else None
    except CorruptFileError as error:
        logger.warning("%s: the file is ignored", error)
        return None


class Opener(Protocol):
    """Opens one log. Calls `reading` with a number of bytes before its recovery reads them."""

    def __call__(self, found: LogInDirectory, *, reading: Callable[[int], None]) -> Log: ...


class DirectoryLoader:
    """Opens the logs of one directory."""

    def __init__(
        self,
        directory: LogDirectory,
        open_log: Opener,
        *,
        fs: FileSystem,
        now_ms: Callable[[], int],
        threads: int,
        stopped: Event,
    ) -> None:
        """threads: number of logs that are opened at the same time. stopped: set by the caller to stop loading."""
        self._directory = directory
        self._open_log = open_log
        self._fs = fs
        self._now_ms = now_ms
        self._threads = threads
        self._stopped = stopped
        self._logs: list[Log] = []
        self._failures: list[Exception] = []

    async def run(self, found: list[LogInDirectory]) -> list[Log]:
        """Open all logs. Raises LoadingStoppedError and the opener's exceptions; then all logs are released."""
        try:
            if found:
                await self._open(found)
            if self._failures:
                raise self._failures[0]
        except BaseException:
            _release(self._logs)
            raise
        return self._logs

    async def _open(self, found: list[LogInDirectory]) -> None:
        path, clean = self._directory.path, self._directory.clean
        size = 0
        if not clean:
            size = await self._fs.run_blocking(lambda: sum(bytes_to_recover(self._fs, one) for one in found))
            logger.info("%s was not stopped cleanly: recovering %d logs, %s GB", path, len(found), gigabytes(size))
        progress = RecoveryProgress(path, len(found), size, self._now_ms, self._stopped)
        pending = deque(found)

        def open_pending() -> None:
            while not self._failures:
                try:
                    one = pending.popleft()
                except IndexError:
                    return
                try:
                    progress.reading(0)
                    self._logs.append(self._open_log(one, reading=progress.reading))
                    progress.log_done()
                except Exception as error:
                    self._failures.append(error)

        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(min(self._threads, len(found))):
                    group.create_task(self._fs.run_blocking(open_pending))
        finally:
            pending.clear()  # if this task is cancelled, the threads end with the logs that they are opening
        if not clean and not self._failures:
            progress.finished()


def bytes_to_recover(fs: FileSystem, found: LogInDirectory) -> int:
    """Return the size of the segments that recovery reads: those at and above the recovery point. Raises OSError."""
    sizes = {
        int(entry.name.removesuffix(LOG_SUFFIX)): entry.stat().st_size
        for entry in fs.list_directory(str(found.path))
        if entry.name.endswith(LOG_SUFFIX) and entry.name.removesuffix(LOG_SUFFIX).isdigit()
    }
    bases = sorted(sizes)
    recovery_point = found.recovery_point or 0
    return sum(sizes[base] for base, end in zip_longest(bases, bases[1:]) if end is None or end > recovery_point)


def _release(logs: Iterable[Log]) -> None:
    for log in logs:
        log.release()
