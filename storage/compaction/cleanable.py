"""Which part of a log can be compacted, and how much of it is dirty.

    clean (compacted before) | dirty, cleanable | not cleanable yet
    log start                first dirty          end

Not cleanable are the active segment, offsets above the last stable offset (so all transactions that a compaction reads
are complete and replicated), and the segments from the first one with a record younger than min.compaction.lag.ms.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from storage.log.log import Log
    from storage.log.segment import LogSegment


@dataclass(slots=True)
class CleanableRange:
    """Offsets and bytes of the clean and the cleanable part. `end_offset` is the base offset of a segment."""

    first_dirty_offset: int
    end_offset: int
    clean_bytes: int
    cleanable_bytes: int
    overdue_ms: int
    """By how many ms the oldest dirty record exceeds max.compaction.lag.ms; 0 if none does."""
    is_reset: bool
    """Whether the checkpoint was outside the log, so that the whole log counts as dirty."""

    @property
    def total_bytes(self) -> int:
        return self.clean_bytes + self.cleanable_bytes

    @property
    def dirty_ratio(self) -> float:
        """Cleanable bytes divided by clean and cleanable bytes, 0 to 1."""
        return self.cleanable_bytes / self.total_bytes if self.total_bytes else 0.0


def cleanable_range(log: Log, checkpoint: int | None = None, now_ms: int | None = None) -> CleanableRange:
    """Return the range that can be compacted now.

    checkpoint: offset up to which the log was compacted before (None: never). May read the end of an index and the
    beginning of a segment. Raises OSError.
    """
    now_ms = log.now_ms() if now_ms is None else now_ms
    first_dirty = log.log_start_offset if checkpoint is None else checkpoint
    is_reset = not log.log_start_offset <= first_dirty <= log.log_end_offset
    if is_reset:
        first_dirty = log.log_start_offset
    dirty = _inactive_from(log, first_dirty)
    uncleanable = min(log.last_stable_offset, log.segments.active.base_offset)
    lag_ms = log.config.min_compaction_lag_ms
    if lag_ms > 0:
        for segment in dirty:
            if segment.largest_timestamp > now_ms - lag_ms:
                uncleanable = min(uncleanable, segment.base_offset)
                break
    uncleanable = max(uncleanable, first_dirty)
    untouched = _inactive_from(log, uncleanable)
    end_offset = untouched[0].base_offset if untouched else log.segments.active.base_offset
    return CleanableRange(
        first_dirty,
        max(end_offset, first_dirty),
        sum(segment.size for segment in log.segments if segment.base_offset < first_dirty),
        sum(segment.size for segment in dirty if segment.base_offset < end_offset),
        _overdue_ms(log, dirty, now_ms),
        is_reset,
    )


def _inactive_from(log: Log, offset: int) -> list[LogSegment]:
    """Return the segments from the one that holds `offset`, without the active segment."""
    if offset >= log.segments.active.base_offset:
        return []
    first = 0
    for number, segment in enumerate(log.segments[:-1]):
        if segment.base_offset <= offset:
            first = number
    return list(log.segments[first:-1])


def _overdue_ms(log: Log, dirty: list[LogSegment], now_ms: int) -> int:
    limit = now_ms - log.config.max_compaction_lag_ms
    if limit <= 0:
        return 0
    timestamps = [segment.first_batch_timestamp for segment in dirty]
    earliest = min((timestamp for timestamp in timestamps if timestamp is not None and timestamp > 0), default=limit)
    return max(limit - earliest, 0)
