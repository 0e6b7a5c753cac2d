"""Checks the directory of one partition: its files, the sequence of its segments, leader epochs and topic id.

Segments must not overlap. A gap between two segments is valid only if the log was compacted: the partition is in
`cleaner-offset-checkpoint`, batches have lost records, or there are gaps between batches, too. (Gaps between batches
are the only sign in a copy of a compacted log; a lost file does not cause them.) Each batch's leader epoch must be the
one in `leader-epoch-checkpoint` for its offset.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from storage.directories.checkpoints import LEADER_EPOCH_CHECKPOINT
from storage.directories.moved_from import MOVED_FROM
from storage.errors import CorruptFileError
from storage.file_system import FileSystem
from storage.log import partition_metadata
from storage.log.batch_scan import BatchHeader
from storage.log.leader_epoch_cache import LeaderEpochCache
from storage.log.leftovers import CLEANED_SUFFIX, SWAP_SUFFIX
from storage.log.partition_metadata import PARTITION_METADATA
from storage.log.segment import DELETED_SUFFIX, LOG_SUFFIX, SEGMENT_SUFFIXES
from storage.producers.snapshot import SNAPSHOT_SUFFIX
from storage.verification.producers import ProducerCheck
from storage.verification.report import PartitionFacts, VerificationReport
from storage.verification.segment import SegmentCheck

_SEGMENT_FILE = re.compile(r"(\d{20})(\.\w+)")
LEFTOVERS = (DELETED_SUFFIX, CLEANED_SUFFIX, SWAP_SUFFIX, ".tmp")
_COMPACTED_TOPICS = ("__consumer_offsets", "__transaction_state")


class Checkpointed(NamedTuple):
    """The offsets of a partition in the log directory's checkpoints; None if a checkpoint has no entry for it."""

    recovery_point: int | None = None
    high_watermark: int | None = None
    log_start_offset: int | None = None
    cleaned: int | None = None


class PartitionCheck:
    """The check of one partition's directory."""

    def __init__(
        self,
        fs: FileSystem,
        directory: str,
        topic: str,
        known: Checkpointed,
        report: VerificationReport,
        *,
        deep: bool,
        live: bool,
    ) -> None:
        self._fs = fs
        self._directory = directory
        self._topic = topic
        self._known = known
        self._report = report
        self._deep = deep
        self._live = live
        self._epochs = _EpochCheck(fs, directory, known.log_start_offset, report)

    def run(self) -> PartitionFacts:
        """Run the check, reading each file once. Raises OSError."""
        facts = self._report.facts[self._directory] = self._run()
        return facts

    def _run(self) -> PartitionFacts:
        report = self._report
        topic_id = self._topic_id()
        bases, snapshots = self._list_files()
        if not bases:
            if not self._live:
                report.error(self._directory, "the partition has no segment")
            return PartitionFacts(0, 0, False, None, topic_id)
        producers = ProducerCheck(self._fs, self._directory, bases[0], snapshots, report)
        last_offset = bases[0] - 1
        complete = True
        cut_offset: int | None = None
        compacted = producers.compacted = self._known.cleaned is not None or self._topic in _COMPACTED_TOPICS
        holes: list[tuple[int, int]] = []
        gap: tuple[str, tuple[int, int]] | None = None
        for number, base in enumerate(bases):
            if base <= last_offset:
                report.error(self._path(base), f"it overlaps the previous segment, which ends with {last_offset}")
            elif base > last_offset + 1 and complete:
                holes.append((last_offset + 1, base))
            segment = self._segment(base, active=number == len(bases) - 1)

            def visit(header: BatchHeader, data: memoryview) -> None:
                self._epochs.batch(header)
                producers.batch(header, data)

            try:
                end = segment.run(visit)
            except FileNotFoundError:
                if not self._live:
                    raise
                last_offset = max(last_offset, *(following - 1 for following in bases[number + 1 : number + 2]))
                continue  # retention has removed the segment meanwhile: not a gap
            compacted |= end.compacted
            if gap is None and end.gap is not None:
                gap = (segment.path, end.gap)
            producers.compacted = compacted or gap is not None
            producers.segment_end(self._path(base).removesuffix(LOG_SUFFIX), whole=end.whole)
            complete &= end.whole
            cut_offset = end.cut_offset if cut_offset is None else cut_offset
            last_offset = max(last_offset, end.last_offset)
        if not compacted:
            self._tell_holes(holes, gap)
        end_offset = max(last_offset + 1, bases[-1])
        if complete:
            producers.end(end_offset)
            self._epochs.end(end_offset)
            self._check_snapshot_names(snapshots, end_offset)
        return PartitionFacts(bases[0], end_offset, complete, cut_offset, topic_id)

    def _tell_holes(self, holes: list[tuple[int, int]], gap: tuple[str, tuple[int, int]] | None) -> None:
        if gap is not None:
            path, (first, last) = gap
            self._report.warning(
                path,
                f"offsets {first} to {last} are in no batch: the log was probably compacted",
                offset=first,
            )
            return
        for first, behind in holes:
            message = f"offsets {first} to {behind - 1} are in no segment: a segment is missing"
            self._report.error(self._path(behind), message, offset=first)

    def _path(self, base: int) -> str:
        return f"{self._directory}/{base:020d}{LOG_SUFFIX}"

    def _segment(self, base: int, *, active: bool) -> SegmentCheck:
        stem = self._path(base).removesuffix(LOG_SUFFIX)
        return SegmentCheck(self._fs, stem, base, self._report, deep=self._deep, live=self._live, active=active)

    def _topic_id(self) -> bytes | None:
        try:
            topic_id = partition_metadata.read_topic_id(self._fs, self._directory)
        except CorruptFileError as error:
            self._report.error(error.path, error.rule)
            return None
        if topic_id is None:
            self._report.warning(f"{self._directory}/{PARTITION_METADATA}", "the topic id is missing")
        return topic_id

    def _list_files(self) -> tuple[list[int], list[int]]:
        """Return the base offsets of the segments and the offsets of the snapshots; report other files."""
        report = self._report
        suffixes: dict[int, set[str]] = {}
        snapshots = []
        for entry in sorted(self._fs.list_directory(self._directory), key=lambda entry: entry.name):
            name = entry.name
            match = _SEGMENT_FILE.fullmatch(name)
            if match is not None and match[2] in SEGMENT_SUFFIXES:
                suffixes.setdefault(int(match[1]), set()).add(match[2])
            elif match is not None and match[2] == SNAPSHOT_SUFFIX:
                snapshots.append(int(match[1]))
            elif name.endswith(LEFTOVERS):
                if not self._live:
                    report.warning(entry.path, "a leftover of unfinished work: the next start handles it")
            elif name not in (LEADER_EPOCH_CHECKPOINT, PARTITION_METADATA, MOVED_FROM):
                report.warning(entry.path, "not a file of a log")
        for base, found in suffixes.items():
            if LOG_SUFFIX not in found and not self._live:
                report.error(self._path(base), "the segment's log file is missing, only its indexes exist")
        return sorted(base for base, found in suffixes.items() if LOG_SUFFIX in found), sorted(snapshots)

    def _check_snapshot_names(self, snapshots: list[int], end_offset: int) -> None:
        # A snapshot without a segment is valid: a clean shutdown writes one, and truncation may leave one.
        for offset in snapshots:
            if offset > end_offset:
                path = f"{self._directory}/{offset:020d}{SNAPSHOT_SUFFIX}"
                self._report.error(path, f"the snapshot is above the log end offset {end_offset}", offset=offset)


class _EpochCheck:
    """Checks `leader-epoch-checkpoint` against the leader epochs in the batches."""

    def __init__(
        self, fs: FileSystem, directory: str, log_start_offset: int | None, report: VerificationReport
    ) -> None:
        cache = LeaderEpochCache(fs, directory)
        self._path = cache.path
        self._report = report
        self._missing = not fs.exists(cache.path)
        self._unreadable = False
        self._log_start_offset = log_start_offset or 0
        try:
            cache.load()
        except CorruptFileError as error:
            report.error(cache.path, error.rule)
            self._unreadable = True
        self._cache = cache
        self._latest = -1
        self._told: set[int] = set()
        self._check_order()

    def _check_order(self) -> None:
        previous = (-1, -1)
        for epoch, start in self._cache.entries:
            if epoch <= previous[0] or start <= previous[1]:
                self._report.error(
                    self._path,
                    f"epoch {epoch} from {start} follows epoch {previous[0]} from {previous[1]}: not ascending",
                )
            previous = (epoch, start)

    def batch(self, header: BatchHeader) -> None:
        epoch = header.leader_epoch
        if epoch < 0 or (epoch == self._latest and epoch in self._told):
            return
        if epoch < self._latest:
            self._tell(header, f"leader epoch {epoch} follows {self._latest} in the log")
            return
        self._latest = epoch
        if self._missing or self._unreadable:
            return
        cache = self._cache
        at_first, at_last = cache.epoch_for_offset(header.base_offset), cache.epoch_for_offset(header.last_offset)
        if at_first is None:
            earliest = cache.earliest
            if earliest is None:
                self._tell(header, f"epoch {epoch} of offset {header.base_offset} is missing")
            elif header.last_offset >= self._log_start_offset < earliest[1] and epoch not in self._told:
                # Valid if records were deleted and the checkpoint of the log start offset was not written yet.
                self._told.add(epoch)
                message = f"offset {header.base_offset} is below the first entry's, {earliest[1]}: probably deleted"
                self._report.warning(self._path, message, offset=header.base_offset)
        elif at_first != epoch or at_last != epoch:
            self._tell(header, f"offset {header.base_offset} has epoch {epoch} in the log, {at_first} here")

    def _tell(self, header: BatchHeader, message: str) -> None:
        """Report an error once per epoch: the same error would follow for its other batches."""
        if header.leader_epoch not in self._told:
            self._told.add(header.leader_epoch)
            self._report.error(self._path, message, offset=header.base_offset)

    def end(self, log_end_offset: int) -> None:
        if self._missing and self._latest >= 0:
            self._report.error(self._path, "the file is missing")
        for epoch, start in self._cache.entries:
            if start > log_end_offset:
                self._report.error(
                    self._path,
                    f"epoch {epoch} begins with {start}, above the log end offset {log_end_offset}",
                    offset=start,
                )
