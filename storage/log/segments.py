"""The segments of one log: which there are, when the next one begins, and which one holds an offset."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import overload

from storage.errors import LogClosedError
from storage.log.batch_scan import Pread
from storage.log.config import LogConfig
from storage.log.segment import MAX_RELATIVE_OFFSET, LogSegment
from storage.log.segment_files import SegmentFiles
from storage.producers.transaction_index import AbortedTransaction

_MAX_HINTS = 64


class LogSegments(Sequence[LogSegment]):
    """The segments, ascending, at least one; only the last one, `active`, is written to.

    `all` is a tuple that is replaced, never changed: a reader keeps what it saw. `hints` maps offsets that were
    translated lately to (segment, position): tail readers ask for them next. `on_roll` is called after a roll.
    `changes` counts the changes that may invalidate a read in another thread: records were removed or rewritten, or
    files were renamed. Appends and rolls do not count.
    """

    def __init__(self, files: SegmentFiles, segments: Sequence[LogSegment]) -> None:
        self.files = files
        self.hints: dict[int, tuple[LogSegment, int]] = {}
        self.closed = False
        self.changes = 0
        self.on_roll: Callable[[], None] = lambda: None
        self.configure(files.config)
        self._assign(tuple(segments))

    def configure(self, config: LogConfig) -> None:
        """Use these settings from now on."""
        self.files.config = config
        self.segment_bytes = config.segment_bytes
        self._segment_ms = config.max_segment_ms

    @overload
    def __getitem__(self, number: int) -> LogSegment: ...
    @overload
    def __getitem__(self, number: slice) -> tuple[LogSegment, ...]: ...
    def __getitem__(self, number: int | slice) -> LogSegment | tuple[LogSegment, ...]:
        return self.all[number]

    def __len__(self) -> int:
        return len(self.all)

    @property
    def size_bytes(self) -> int:
        """Bytes of all segments' records."""
        return self._inactive_bytes + self.active.size

    def replace(self, segments: tuple[LogSegment, ...]) -> None:
        """Replace the segments (at least one, ascending) by others; readers keep what they saw."""
        self.changes += 1
        self._assign(segments)

    def _assign(self, segments: tuple[LogSegment, ...]) -> None:
        self.all = segments
        self.active = segments[-1]
        self.base_offsets = tuple(segment.base_offset for segment in segments)
        self._inactive_bytes = sum(segment.size for segment in segments[:-1])
        self.hints.clear()

    # -- append ------------------------------------------------------------------------------------

    def for_append(self, size: int, first_offset: int, last_offset: int, timestamp: int) -> LogSegment:
        """The segment for an append of `size` bytes; a new one if the active segment is full or old.

        timestamp: the largest one of the append. Raises LogClosedError, LogDirIOError.
        """
        if self.closed:
            raise LogClosedError(f"{self.files.log_files.topic}-{self.files.log_files.partition} is closed")
        segment = self.active
        first = segment.rolling_timestamp
        if (
            first is not None
            and first >= 0
            and timestamp - first <= self._segment_ms - segment.roll_jitter_ms
            and segment.size + size <= self.segment_bytes
            and last_offset - segment.base_offset <= MAX_RELATIVE_OFFSET
            and segment.has_index_room
        ):
            return segment
        with self.files.log_files.failing():
            if segment.should_roll(
                size, last_offset, timestamp, self.segment_bytes, self._segment_ms, self.files.now_ms()
            ):
                return self.roll(first_offset)
        return segment

    def roll(self, base_offset: int) -> LogSegment:
        """Begin a new segment at `base_offset`, the log end offset or above. Raises LogDirIOError.

        If the active segment is empty and begins there, it stays. The new segment's producer snapshot is written
        first: if that fails (full disk), the segments stay as they were.
        """
        active = self.active
        if active.size == 0 and active.base_offset == base_offset:
            return active
        assert base_offset > active.base_offset
        with self.files.log_files.failing():
            active.become_inactive()
        producers = self.files.producers
        producers.end_offset = base_offset
        producers.take_snapshot()
        segment = self.files.create(base_offset)
        self._assign((*self.all, segment))
        self.on_roll()
        return segment

    def add_aborted(self, segment: LogSegment, transaction: AbortedTransaction) -> None:
        """Add an entry to a segment's transaction index. The first entry creates the file."""
        if not segment.txn_index.entries:
            self.files.log_files.name_changes += 1
        segment.txn_index.append(transaction)

    # -- lookup ------------------------------------------------------------------------------------

    def find(self, offset: int, pread: Pread | None = None) -> tuple[LogSegment, int, int] | None:
        """(segment, position, size) of the batch with `offset`, or of the next one if compaction removed that.

        pread: reads batch headers, see `find_batch`.
        """
        segments = self.all
        number = len(segments) - 1
        if segments[number].base_offset > offset:
            number = self.number_of(offset)
        while number < len(segments):
            found = segments[number].translate(offset, 0, pread)
            if found is not None:
                return segments[number], *found
            number += 1
        return None

    def number_of(self, offset: int) -> int:
        """The number of the segment that an offset belongs to; 0 for an offset below the first one."""
        return max(bisect_right(self.base_offsets, offset) - 1, 0)

    def remember(self, offset: int, segment: LogSegment, position: int) -> None:
        """Add a hint. If there are too many, all earlier ones are dropped first."""
        hints = self.hints
        if len(hints) >= _MAX_HINTS:
            hints.clear()
        hints[offset] = (segment, position)

    # -- close -------------------------------------------------------------------------------------

    def seal(self) -> None:
        """Write what a clean stop leaves: last time index entries, indexes cut to size. Raises OSError."""
        for segment in self.all:
            segment.seal()
        self.active.trim()

    def release(self) -> None:
        """Drop the descriptors. Appends are refused from now on."""
        self.closed = True
        self.changes += 1
        self.hints.clear()
        for segment in self.all:
            segment.release()

    def move_to(self, directory: str) -> None:
        """Note that the directory was renamed."""
        self.changes += 1
        for segment in self.all:
            segment.move_to(directory)
