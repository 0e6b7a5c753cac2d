"""Opening the logs of one log directory at the start.

Directories that are being deleted go on being deleted; what was being moved, or put aside by Kafka, is left alone.
After a clean stop logs are opened here and now; recovery runs off the event loop, some logs at a time.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Container, Iterable
from functools import partial
from pathlib import Path
from typing import NamedTuple

from storage.checkpoints import OffsetCheckpoint, TopicPartition
from storage.errors import CorruptFileError, InvalidLogDirectoryNameError, StorageError
from storage.file_system import FileSystem
from storage.log import Log
from storage.log_directory import LogDirectory
from storage.log_loader import (
    DELETE_DIRECTORY_SUFFIX,
    FUTURE_DIRECTORY_SUFFIX,
    STRAY_DIRECTORY_SUFFIX,
    parse_directory_name,
)

logger = logging.getLogger(__name__)


class LogInDirectory(NamedTuple):
    """What is known of a log before it is opened."""

    path: Path
    key: TopicPartition
    recovery_point: int | None
    log_start_offset: int
    clean: bool


class DirectoryContents(NamedTuple):
    """What a log directory holds."""

    logs: list[LogInDirectory]
    deleted: list[LogInDirectory]  # renamed, their files not gone yet
    high_watermarks: dict[TopicPartition, int]


def list_contents(directory: LogDirectory, elsewhere: Container[TopicPartition]) -> DirectoryContents:
    """Look what there is, and note how the directory was left. Raises OSError.

    elsewhere: the logs that another directory has; a second copy is ignored.
    """
    clean = directory.take_clean_shutdown()
    recovery_points = _read(directory.recovery_points)
    log_start_offsets = _read(directory.log_start_offsets) or {}
    contents = DirectoryContents([], [], _read(directory.high_watermarks) or {})
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
        elif path.name.endswith((FUTURE_DIRECTORY_SUFFIX, STRAY_DIRECTORY_SUFFIX)):
            logger.warning("%s: a log that was being moved, or that Kafka put aside; it is ignored", path)
        elif key in elsewhere:
            logger.error("%s is in two log directories: %s is ignored", path.name, path)
        else:
            contents.logs.append(found)
    if recovery_points is None and not contents.logs:
        directory.recovery_points.write({})  # from now on it is known of every log
    return contents


def _read(checkpoint: OffsetCheckpoint) -> dict[TopicPartition, int] | None:
    """What a checkpoint says; None where it is damaged, empty or missing: then more is recovered, as in Kafka.

    Raises OSError.
    """
    try:
        return checkpoint.read() if checkpoint.is_written() else None
    except CorruptFileError as error:
        logger.warning("%s: nothing in it is believed", error)
        return None


async def open_logs(
    directory: LogDirectory,
    found: Iterable[LogInDirectory],
    open_log: Callable[[LogInDirectory], Log],
    fs: FileSystem,
    recovery_threads: int,
) -> list[Log]:
    """Open the logs of a directory, at most `recovery_threads` at a time where they need recovery.

    Raises what `open_log` raises.
    """
    pending = list(found)
    logs: list[Log] = []
    if directory.clean:
        try:
            for one in pending:
                logs.append(open_log(one))  # noqa: PERF401 - those that were opened are released where one fails
        except BaseException:
            _release(logs)
            raise
        return logs
    if pending:
        logger.info("%s was not stopped cleanly: recovering %d logs", directory.path, len(pending))
    workers = min(recovery_threads, len(pending))
    pending.reverse()
    failures: list[StorageError] = []

    async def work() -> None:
        while pending and not failures:
            one = pending.pop()
            try:
                logs.append(await fs.run_blocking(partial(open_log, one)))
            except StorageError as error:
                failures.append(error)

    async with asyncio.TaskGroup() as group:
        for _ in range(workers):
            group.create_task(work())
    if failures:
        _release(logs)
        raise failures[0]
    return logs


def _release(logs: Iterable[Log]) -> None:
    for log in logs:
        log.release()
