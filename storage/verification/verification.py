"""Verification of log files: whether everything in a log directory, or in one partition's, is as it must be.

Nothing is changed: the files are opened for reading only. The directory must not be in use; one that is can be
looked at with `live`, where whatever may be under way (a batch half written, files that come and go, the zeros
that Kafka allocates for its indexes) counts as sound.

    verification_log_dir     checkpoints, meta.properties, directories
    verification_partition   the chain of segments, leader epochs, topic id, leftovers
    verification_segment     batches          verification_indexes    .index, .timeindex
    verification_producers   .snapshot, .txnindex
    verification_report      the problems     verification_repair     what puts them right
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from storage.errors import InvalidLogDirectoryNameError, StorageError
from storage.file_system import FileSystem, OpenFile
from storage.log.loader import parse_directory_name
from storage.verification.log_dir import LogDirectoryCheck, checkpointed, is_log_directory, read_checkpoints
from storage.verification.partition import PartitionCheck
from storage.verification.report import Problem, VerificationReport


class NotALogDirectoryError(StorageError):
    """Neither a log directory nor the directory of a partition."""

    def __init__(self, path: str) -> None:
        super().__init__(f"{path} is neither a log directory (an entry of log.dirs) nor the directory of a partition")


class ReadOnlyFileSystem(FileSystem):
    """Opens files for reading, so that nothing can be changed through it."""

    def open(self, path: str, *, create: bool = False) -> OpenFile:
        return OpenFile(os.open(path, os.O_RDONLY | os.O_CLOEXEC))


def verify_directory(
    path: str | Path,
    *,
    fs: FileSystem | None = None,
    deep: bool = True,
    live: bool = False,
    on_progress: Callable[[VerificationReport], None] | None = None,
) -> list[Problem]:
    """The problems of a log directory, or of one partition's. Empty: it is sound.

    deep: also unfold and decode the records. live: a broker may be using it. Raises NotALogDirectoryError, OSError.
    """
    report = VerificationReport(on_progress)
    verify(path, report, fs=fs, deep=deep, live=live)
    return report.problems


def verify(
    path: str | Path, report: VerificationReport, *, fs: FileSystem | None = None, deep: bool, live: bool
) -> None:
    """The same into a report, which also counts what was read."""
    directory = str(path).rstrip("/") or "/"
    fs = fs or ReadOnlyFileSystem()
    if is_partition(directory):
        parent, _, name = str(Path(directory).absolute()).rpartition("/")
        key = parse_directory_name(name)
        known = checkpointed(read_checkpoints(fs, parent, None), key)
        PartitionCheck(fs, directory, key[0], known, report, deep=deep, live=live).run()
    elif is_log_directory(fs, directory):
        LogDirectoryCheck(fs, directory, report, deep=deep, live=live).run()
    else:
        raise NotALogDirectoryError(directory)


def is_partition(directory: str) -> bool:
    """Whether a directory is a partition's: by its name and by its files.

    A log directory may be named as a partition is (`kafka-0`); it holds directories, a partition does not.
    """
    try:
        parse_directory_name(Path(directory).absolute().name)
    except InvalidLogDirectoryNameError:
        return False
    with os.scandir(directory) as entries:
        names = [entry.name for entry in entries]
    return not any(os.path.isdir(f"{directory}/{name}") for name in names) and "meta.properties" not in names  # noqa: PTH112
