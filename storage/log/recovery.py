"""Recovery of a log that was not stopped cleanly.

Segments from the recovery point on are read whole: every batch's checksum is checked, the indexes are rebuilt,
and the log ends before the first batch that is not whole. Segments below the recovery point were synced and are
not read, unless an index is missing or damaged.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field

from storage.log.leader_epoch_cache import LeaderEpochCache
from storage.log.replay import replay
from storage.log.segment import LogSegment
from storage.log.segment_files import SegmentFiles
from storage.log.segment_recovery import SegmentRecovery
from storage.producers.state import ProducerState

logger = logging.getLogger(__name__)


@dataclass(eq=False)
class Recovery:
    """The recovery of one log. After `run`, `segments` has the segments that remain."""

    _segment_files: SegmentFiles
    _leader_epochs: LeaderEpochCache
    segments: list[LogSegment]
    _blank: set[int]
    """Base offsets of segments without a byte in any file."""
    _damaged: set[int]
    """Base offsets of segments with unusable indexes."""
    _log_start_offset: int
    _reading: Callable[[int], None]
    """Called with the size of each read."""
    _snapshots: set[int] = field(default_factory=set)
    """Offsets of snapshots to write again."""
    _end_offset: int = 0
    """Of the segment that was recovered last."""
    recovered: int = 0
    """How many segments were recovered."""
    _bytes_read: int = 0
    _bytes_cut: int = 0

    def __post_init__(self) -> None:
        self._files = self._segment_files.log_files
        self._producers = self._segment_files.producers
        self._state = self._new_state()  # of the producers, at the end of the segment before

    def run(self, recovery_point: int | None, *, clean_shutdown: bool) -> None:
        """Recover the damaged segments and, unless the stop was clean, those from the recovery point on.

        recovery_point: None if it is not known; then everything is read. Raises OSError.
        """
        first = None if clean_shutdown else self._first_suspect(recovery_point or 0)
        for number in self._damaged_below(first):
            self._recover(number)
            self._sync(number)  # it lies below the recovery point: no flush will sync it
        if first is not None:
            trusted = max(recovery_point or 0, self.segments[0].base_offset)
            self._snapshots = self._producers.remove_snapshots_above(trusted)
            self._recover_from(first, may_have_gaps=recovery_point is None or self._segment_files.config.compacts)
            if self._end_offset <= (recovery_point or 0) and not self._is_blank_from(recovery_point or 0):
                self._sync(len(self.segments) - 1)  # once it is rolled, the next start does not look at it
        if self.recovered:
            self._files.name_changes += 1
            end_offset = self.segments[-1].next_offset() if first is None else self._end_offset
            is_repaired = self._bytes_cut > 0 or bool(self._damaged)
            logger.log(  # thousands of logs are read and found whole: their directory has a line for all of them
                logging.INFO if is_repaired else logging.DEBUG,
                "%s: recovered %d of %d segments (%d bytes), cut %d bytes, log ends at offset %d",
                self._files.directory, self.recovered, len(self.segments), self._bytes_read, self._bytes_cut,
                end_offset,
            )  # fmt: skip

    def _is_blank_from(self, recovery_point: int) -> bool:
        """Whether the last segment is blank and begins at the recovery point: the next start looks at it again."""
        last = self.segments[-1].base_offset
        return last in self._blank and last == recovery_point

    def _first_suspect(self, recovery_point: int) -> int | None:
        """Index of the first segment that may have offsets from the recovery point on; None without segments."""
        for number, following in enumerate(self.segments[1:]):
            if following.base_offset > recovery_point:
                return number
        return len(self.segments) - 1 if self.segments else None

    def _damaged_below(self, first: int | None) -> list[int]:
        below = enumerate(self.segments[:first])
        return [number for number, segment in below if segment.base_offset in self._damaged]

    def _recover_from(self, first: int, *, may_have_gaps: bool) -> None:
        """Recover segment after segment, up to the first one that is cut or that the next one does not follow.

        A next segment that begins below the end is older than a truncation. One that begins above the end shows that
        this segment has lost records, which no replica would notice. Only compaction leaves gaps. Kafka keeps all gaps.
        """
        number = first
        while number < len(self.segments):
            removed = self._recover(number)
            if removed:
                self._drop_behind(number, "the cut")
            elif number + 1 < len(self.segments):
                end, following = self._end_offset, self.segments[number + 1].base_offset
                if following < end:
                    self._drop_behind(number, f"offset {end}, where another one begins at {following},")
                elif following > end and not may_have_gaps:
                    self._drop_behind(number, f"the gap [{end}, {following})")
            self._save_producers(number)
            number += 1

    def _recover(self, number: int) -> int:
        segment = self.segments[number]
        if self._state.end_offset != segment.base_offset:
            self._state = self._state_before(number)
        self.recovered += 1
        if segment.base_offset in self._blank:
            self._end_offset = segment.base_offset
            return 0
        recovery = SegmentRecovery(self._leader_epochs, segment, self._state, self._on_read)
        removed = recovery.run()
        self._end_offset = recovery.end_offset
        self._bytes_cut += removed
        return removed

    def _new_state(self) -> ProducerState:
        state = ProducerState(self._files.fs, str(self._files.directory), self._producers.expiration_ms)
        state.end_offset = -1  # nothing is loaded
        return state

    def _state_before(self, number: int) -> ProducerState:
        """The producers at the base offset of a segment: from a snapshot and the earlier segments' batches."""
        base_offset, start = self.segments[number].base_offset, self._log_start_offset
        state = self._new_state()
        state.snapshots = [offset for offset in self._producers.snapshots if start < offset <= base_offset]
        state.truncate_and_reload(start, base_offset, self._segment_files.now_ms())
        for segment, following in zip(self.segments[:number], self.segments[1:], strict=False):
            if following.base_offset > state.end_offset:
                replay(segment, state, base_offset)
        state.end_offset = max(state.end_offset, base_offset)
        return state

    def _save_producers(self, number: int) -> None:
        """Write snapshots where there were some, at the last two segments, and at the end: a start reads only there."""
        state = self._state
        following = number + 1
        if following < len(self.segments):
            state.end_offset = self.segments[following].base_offset
        if following >= len(self.segments) - 2 or state.end_offset in self._snapshots:
            state.take_snapshot_if_room()
        self._producers.unsynced_snapshots += state.unsynced_snapshots
        state.unsynced_snapshots = []

    def _on_read(self, size: int) -> None:
        self._reading(size)
        self._bytes_read += size

    def _drop_behind(self, number: int, reason: str) -> None:
        """End the log with this segment. Sync that, so that no removed segment comes back behind a new append."""
        rest = self.segments[number + 1 :]
        self.segments = self.segments[: number + 1]
        if rest:
            logger.warning("%s: %d segments behind %s are removed", self._files.directory, len(rest), reason)
            self._segment_files.remove(rest[::-1])
        self._sync(number)
        self._files.fs.sync_directory(str(self._files.directory))

    def _sync(self, number: int) -> None:
        is_active = number + 1 == len(self.segments)
        for file in self.segments[number].files_to_sync(is_active=is_active):
            self._files.fs.fsync(file.fd)
