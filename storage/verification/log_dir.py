"""Checks a whole log directory: its partitions, its small files, and that both agree.

A checkpoint entry for a partition that does not exist is harmless: the partition was moved or deleted. An offset above
the log end offset means that synced records (recovery point) or committed records (high watermark) are lost.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from storage.directories.checkpoints import (
    CLEANER_CHECKPOINT,
    HIGH_WATERMARK_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    OffsetCheckpoint,
    TopicPartition,
)
from storage.directories.log_directory import CLEAN_SHUTDOWN_FILE, LOCK_FILE
from storage.directories.meta_properties import META_PROPERTIES, read_meta_properties
from storage.errors import CorruptFileError, InvalidLogDirectoryNameError
from storage.file_system import FileSystem
from storage.log.files import (
    DELETE_DIRECTORY_SUFFIX,
    FUTURE_DIRECTORY_SUFFIX,
    STRAY_DIRECTORY_SUFFIX,
    parse_directory_name,
)
from storage.verification.partition import Checkpointed, PartitionCheck
from storage.verification.report import PartitionFacts, VerificationReport

CHECKPOINTS = (
    RECOVERY_POINT_CHECKPOINT,
    HIGH_WATERMARK_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    CLEANER_CHECKPOINT,
)
_FILES = re.compile(
    "|".join(re.escape(name) for name in (*CHECKPOINTS, META_PROPERTIES, CLEAN_SHUTDOWN_FILE, LOCK_FILE))
    + r"|registry\.sqlite(-wal|-shm|-journal|-reserve)?"  # the embedded registry
    + r"|zookeeper-session"
)


def is_log_directory(fs: FileSystem, directory: str) -> bool:
    """Whether a directory is a log directory: it has one of the small files, or partitions."""
    for entry in fs.list_directory(directory):
        if entry.is_dir():
            try:
                parse_directory_name(entry.name)
            except InvalidLogDirectoryNameError:
                continue
            return True
        if _FILES.fullmatch(entry.name):
            return True
    return False


def read_checkpoints(
    fs: FileSystem, directory: str, report: VerificationReport | None
) -> dict[str, dict[TopicPartition, int]]:
    """Return the offsets of every checkpoint by file name; corrupt files are reported and left out."""
    found = {}
    for name in CHECKPOINTS:
        path = f"{directory}/{name}"
        try:
            found[name] = OffsetCheckpoint(fs, path).read()
        except CorruptFileError as error:
            if report is not None:
                report.error(path, error.rule)
    return found


def checkpointed(checkpoints: Mapping[str, Mapping[TopicPartition, int]], key: TopicPartition) -> Checkpointed:
    """Return the offsets of one partition in the checkpoints."""
    return Checkpointed(*(checkpoints.get(name, {}).get(key) for name in CHECKPOINTS))


class LogDirectoryCheck:
    """The check of one log directory with all its partitions."""

    def __init__(self, fs: FileSystem, directory: str, report: VerificationReport, *, deep: bool, live: bool) -> None:
        self._fs = fs
        self._directory = directory
        self._report = report
        self._deep = deep
        self._live = live
        self.partitions: dict[TopicPartition, PartitionFacts] = {}
        self._futures: set[TopicPartition] = set()  # future logs, whose offsets are in the checkpoints, too

    def run(self) -> None:
        """Run the check. The checkpoints are read first: with a running broker, logs grow meanwhile. Raises OSError."""
        fs, report = self._fs, self._report
        checkpoints = read_checkpoints(fs, self._directory, report)
        self._check_meta()
        clean = fs.exists(f"{self._directory}/{CLEAN_SHUTDOWN_FILE}")
        if not clean and not self._live:
            report.warning(self._directory, "the broker was not stopped cleanly: the next start recovers the logs")
        for key, path in self._partition_directories():
            try:
                check = PartitionCheck(
                    fs, path, key[0], checkpointed(checkpoints, key), report, deep=self._deep, live=self._live
                )
                facts = check.run()
            except FileNotFoundError:
                if not self._live:
                    raise
                continue  # deleted meanwhile
            self.partitions[key] = facts
            self._check_offsets(path, facts, checkpointed(checkpoints, key), clean=clean)
        self._check_topic_ids()
        self._check_names(checkpoints)

    def _partition_directories(self) -> list[tuple[TopicPartition, str]]:
        """Return the partitions to check; report other directories and files."""
        found = []
        for entry in sorted(self._fs.list_directory(self._directory), key=lambda entry: entry.name):
            if not entry.is_dir():
                if not _FILES.fullmatch(entry.name) and not (self._live and entry.name.endswith(".tmp")):
                    self._report.warning(entry.path, "not a file of a log directory")
                continue
            try:
                key = parse_directory_name(entry.name)
            except InvalidLogDirectoryNameError:
                self._report.warning(entry.path, "not a partition directory")
                continue
            if entry.name.endswith(DELETE_DIRECTORY_SUFFIX):
                if not self._live:
                    self._report.warning(entry.path, "a deleted partition whose files have not been removed yet")
            elif entry.name.endswith(FUTURE_DIRECTORY_SUFFIX):
                self._futures.add(key)
                if not self._live:
                    self._report.warning(entry.path, "a future log: the partition was being moved here; not checked")
            elif entry.name.endswith(STRAY_DIRECTORY_SUFFIX):
                self._report.warning(entry.path, "a stray partition; not checked")
            else:
                found.append((key, entry.path))
        return found

    def _check_meta(self) -> None:
        path = f"{self._directory}/{META_PROPERTIES}"
        try:
            properties = read_meta_properties(self._fs, self._directory)
        except CorruptFileError as error:
            self._report.error(path, error.rule)
            return
        if properties is None:
            self._report.warning(path, "the file is missing: the directory belongs to no broker yet")
        elif properties.broker_id is None or properties.cluster_id is None:
            self._report.warning(path, "broker.id or cluster.id is missing")

    def _check_offsets(self, path: str, facts: PartitionFacts, known: Checkpointed, *, clean: bool) -> None:
        if not facts.whole:
            return  # the log end offset is not known; the reason has been reported
        end = facts.log_end_offset
        name = path.rpartition("/")[2]
        for file, offset in zip(CHECKPOINTS, known, strict=True):
            if offset is None or offset <= end:
                continue
            tell = self._report.error
            if file == HIGH_WATERMARK_CHECKPOINT and not clean:
                tell = self._report.warning  # a crash may lose unsynced records; the next start lowers the offset
            tell(f"{self._directory}/{file}", f"{name}: {offset} is above the log end offset {end}", offset=offset)

    def _check_topic_ids(self) -> None:
        ids: dict[str, tuple[bytes, int]] = {}
        for (topic, partition), facts in sorted(self.partitions.items()):
            if facts.topic_id is None:
                continue
            first = ids.setdefault(topic, (facts.topic_id, partition))
            if first[0] != facts.topic_id:
                self._report.error(
                    f"{self._directory}/{topic}-{partition}", f"its topic id differs from that of {topic}-{first[1]}"
                )

    def _check_names(self, checkpoints: Mapping[str, Mapping[TopicPartition, int]]) -> None:
        for file, offsets in checkpoints.items():
            absent = [
                f"{topic}-{partition}"
                for topic, partition in sorted(offsets)
                if (topic, partition) not in self.partitions and (topic, partition) not in self._futures
            ]
            if absent and not self._live:
                shown = ", ".join(absent[:3]) + (f" and {len(absent) - 3} more" if len(absent) > 3 else "")
                self._report.warning(f"{self._directory}/{file}", f"it names partitions that are not here: {shown}")
