"""Retention: which of a log's oldest segments may be removed, by start offset, size and age."""

from __future__ import annotations

from collections.abc import Callable

from storage.log.offsets import LogOffsets
from storage.log.segment import LogSegment
from storage.log.segments import LogSegments

Condition = Callable[[LogSegment, int | None], bool]
"""Whether a segment may go, given the base offset of the next one (None: it is the last one)."""


def below(offset: int) -> Condition:
    """Segments that have no offset from `offset` on."""
    return lambda segment, following: following is not None and following <= offset


def older_than(timestamp: int) -> Condition:
    """Segments whose largest timestamp is below `timestamp`."""
    return lambda segment, following: segment.largest_timestamp < timestamp


def beyond_size(excess: int) -> Condition:
    """Whole segments of at most `excess` bytes in total."""

    def too_much(segment: LogSegment, following: int | None) -> bool:
        nonlocal excess
        if segment.size > excess:
            return False
        excess -= segment.size
        return True

    return too_much


def count_oldest(segments: LogSegments, offsets: LogOffsets, condition: Condition) -> int:
    """How many of the oldest segments meet `condition`.

    Nothing at or above the high watermark counts, nor an empty active segment. Raises OSError.
    """
    following = (*segments.base_offsets[1:], None)
    for number, (segment, next_offset) in enumerate(zip(segments.all, following, strict=True)):
        if next_offset is None and segment.size == 0:
            return number
        end_offset = offsets.end if next_offset is None else next_offset
        if offsets.high_watermark < end_offset or not condition(segment, next_offset):
            return number
    return len(segments)
