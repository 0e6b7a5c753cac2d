"""Repair of a log directory: recovery of the partitions that have errors.

Every log with an error is opened as after a crash, from its first segment (`Log.open`): the log is truncated at the
first invalid batch, and its indexes, producer snapshots and leader epochs are rebuilt. Damaged files that a recovery
would trust (snapshots, leader epochs, checkpoints) are removed before.

The recovery at a start reads only from the recovery point on, so it can lose only records that were never synced. A
repair reads the whole log, so it could also remove records that were synced and acknowledged: such a log is not
repaired unless `accept_loss` is set.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from storage.directories.checkpoints import LEADER_EPOCH_CHECKPOINT, OffsetCheckpoint, TopicPartition
from storage.errors import StorageError
from storage.file_system import FileSystem
from storage.log.config import LogConfig
from storage.log.files import parse_directory_name
from storage.log.log import Log
from storage.log.segment import LOG_SUFFIX
from storage.producers.snapshot import SNAPSHOT_SUFFIX
from storage.verification.log_dir import CHECKPOINTS, checkpointed, read_checkpoints
from storage.verification.partition import LEFTOVERS
from storage.verification.report import PartitionFacts, Problem, Severity, VerificationReport

_NEVER_MS = 1 << 62  # the state of idle producers does not expire during a repair


class RepairRefusedError(StorageError):
    """The repair of a partition would remove records that were synced or committed."""


class Repair:
    """Repairs the problems that a verification of `directory` found. The caller must lock the directory.

    `directory` is a log directory, also if only one of its partitions is repaired. `tell` is called with a line of text
    for each partition and file that was repaired or could not be repaired.
    """

    def __init__(self, fs: FileSystem, directory: str, now_ms: Callable[[], int], tell: Callable[[str], None]) -> None:
        self._fs = fs
        self._directory = directory
        self._now_ms = now_ms
        self._tell = tell
        self._checkpoints = read_checkpoints(fs, directory, None)
        self._ends: dict[TopicPartition, int] = {}

    def run(self, report: VerificationReport, *, accept_loss: bool) -> None:
        """Repair the problems in `report` that can be repaired. Raises OSError, LogDirIOError."""
        by_partition: dict[str, list[Problem]] = {}
        for problem in report.problems:
            name, inside, _ = problem.path.removeprefix(self._directory + "/").partition("/")
            if inside and (problem.severity is Severity.ERROR or problem.path.endswith(LEFTOVERS)):
                by_partition.setdefault(name, []).append(problem)
            elif name in CHECKPOINTS and name not in self._checkpoints:
                self._fs.remove(problem.path)
                self._tell(f"{name}: removed because it cannot be read; the broker writes a new one")
        for path, facts in report.facts.items():
            name = path.rpartition("/")[2]
            if name not in by_partition:
                self._ends[parse_directory_name(name)] = facts.log_end_offset
        for name, problems in sorted(by_partition.items()):
            try:
                self._repair_partition(
                    name, problems, report.facts[f"{self._directory}/{name}"], accept_loss=accept_loss
                )
            except StorageError as error:
                self._tell(f"{name}: not repaired: {error}")
        self._correct_checkpoints()

    def _repair_partition(
        self, name: str, problems: list[Problem], facts: PartitionFacts, *, accept_loss: bool
    ) -> None:
        key = parse_directory_name(name)
        directory = f"{self._directory}/{name}"
        known = checkpointed(self._checkpoints, key)
        promised = max(offset or 0 for offset in (known.recovery_point, known.high_watermark, known.log_start_offset))
        if facts.cut_offset is not None and facts.cut_offset < promised and not accept_loss:
            raise RepairRefusedError(
                f"the log would be truncated to offset {facts.cut_offset}, but records up to offset {promised} were "
                "synced or committed: get them from another replica, or accept their loss"
            )
        for problem in problems:
            if problem.path.endswith((SNAPSHOT_SUFFIX, LEADER_EPOCH_CHECKPOINT)):
                self._fs.remove(problem.path)
        before = self._log_bytes(directory)
        log = Log.open(
            Path(directory),
            LogConfig(),
            fs=self._fs,
            now_ms=self._now_ms,
            log_start_offset=known.log_start_offset or 0,
            producer_id_expiration_ms=_NEVER_MS,
        )
        log.close()
        self._ends[key] = log.log_end_offset
        cut = f"cut {before - log.size_bytes} bytes, " if before != log.size_bytes else ""
        self._tell(f"{name}: recovered, {cut}the log ends at offset {log.log_end_offset}")

    def _log_bytes(self, directory: str) -> int:
        entries = self._fs.list_directory(directory)
        return sum(self._fs.size(entry.path) for entry in entries if entry.name.endswith(LOG_SUFFIX))

    def _correct_checkpoints(self) -> None:
        """Lower the checkpointed offsets that are above the log end offset."""
        for name, offsets in self._checkpoints.items():
            corrected = {key: min(offset, self._ends.get(key, offset)) for key, offset in offsets.items()}
            if corrected != offsets:
                OffsetCheckpoint(self._fs, f"{self._directory}/{name}").write(corrected)
                changed = sum(corrected[key] != offset for key, offset in offsets.items())
                self._tell(f"{name}: {changed} offset{'s' if changed > 1 else ''} above a log end offset lowered to it")
