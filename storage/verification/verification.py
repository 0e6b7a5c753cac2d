"""Verification of log files: whether a log directory, or the directory of one partition, is valid.

The files are opened for reading only. The directory must not be in use, unless `live` is set. With `live`, the effects
of a running broker are valid: a partly written batch, files that are created and removed, and the zeros that Kafka
preallocates in its indexes.

    log_dir      checkpoints, meta.properties, directories
    partition    the sequence of segments, leader epochs, topic id, leftovers
    segment      batches              indexes    .index, .timeindex
    producers    .snapshot, .txnindex
    report       the problems         repair     repairs them
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from storage.errors import InvalidLogDirectoryNameError, StorageError
from storage.file_system import FileSystem, OpenFile
from storage.log.files import parse_directory_name
from storage.verification.log_dir import LogDirectoryCheck, checkpointed, is_log_directory, read_checkpoints
from storage.verification.partition import PartitionCheck
from storage.verification.report import Problem, VerificationReport


class NotALogDirectoryError(StorageError):
    """The path is neither a log directory nor the directory of a partition."""

    def __init__(self, path: str) -> None:
        super().__init__(f"{path} is neither a log directory (an entry of log.dirs) nor the directory of a partition")


class ReadOnlyFileSystem(FileSystem):
    """A file system that opens files for reading only."""

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
    """Return the problems of a log directory, or of the directory of one partition; an empty list if it is valid.

    deep: also decompress and decode the records. live: a broker may be using the directory. Raises
    NotALogDirectoryError, OSError.
    """
    report = VerificationReport(on_progress)
    verify(path, report, fs=fs, deep=deep, live=live)
    return report.problems


def verify(
    path: str | Path, report: VerificationReport, *, fs: FileSystem | None = None, deep: bool, live: bool
) -> None:
    """Like `verify_directory`, but fill `report`, which also counts what was read."""
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
    """Whether a directory is the directory of a partition, by its name and its files.

    A log directory may have such a name, too (`kafka-0`), but it has subdirectories or `meta.properties`.
    """
    try:
        parse_directory_name(Path(directory).absolute().name)
    except InvalidLogDirectoryNameError:
        return False
    with os.scandir(directory) as entries:
        names = [entry.name for entry in entries]
    return not any(os.path.isdir(f"{directory}/{name}") for name in names) and "meta.properties" not in names  # noqa: PTH112
