"""Leader epochs read from the batches again, where the file of a log's epochs is unreadable or lacks the first ones."""

from __future__ import annotations

from storage.log.batch_scan import iter_headers
from storage.log.leader_epoch_cache import UNDEFINED_EPOCH, LeaderEpochCache
from storage.log.offsets import LogOffsets
from storage.log.segment import LogSegment
from storage.log.segments import LogSegments


def rebuild_leader_epochs(epochs: LeaderEpochCache, segments: LogSegments, start: int) -> None:
    """Replace the epochs with those of the batches in the segments that reach above the offset `start`.

    All are written in one step: after a power cut half of them would look like the whole. Raises OSError,
    CorruptRecordError, LogDirIOError.
    """
    found: list[tuple[int, int]] = []
    for segment in _segments_in_use(segments, start):
        for header in iter_headers(segment.file, 0, segment.size):
            if header.leader_epoch > (found[-1][0] if found else UNDEFINED_EPOCH):
                found.append((header.leader_epoch, header.base_offset))
    epochs.replace(found)


def complete_leader_epochs(epochs: LeaderEpochCache, segments: LogSegments, offsets: LogOffsets) -> None:
    """Add the epochs of the log's first batches if the file begins behind them.

    That happens if records were deleted, the file said so, and a power cut has brought the records back.
    Raises OSError, CorruptRecordError, LogDirIOError.
    """
    known = epochs.entries
    first_known = known[0][1] if known else offsets.end
    start = offsets.start
    found: list[tuple[int, int]] = []
    for segment in _segments_in_use(segments, start):
        if segment.base_offset >= first_known:
            break
        position = segment.translate(start) if segment.base_offset < start else (0, 0)
        for header in iter_headers(segment.file, position[0] if position else segment.size, segment.size):
            if header.base_offset >= first_known:
                break
            if header.leader_epoch > (found[-1][0] if found else UNDEFINED_EPOCH):
                found.append((header.leader_epoch, max(header.base_offset, start)))
    epochs.put_before(found)


def _segments_in_use(segments: LogSegments, start: int) -> tuple[LogSegment, ...]:
    """The segments that reach above the offset `start`. Those below were given up, and perhaps never synced."""
    return segments[segments.number_of(start) :]
