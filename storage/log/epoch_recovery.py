"""Leader epochs that are read from the batches again, if the file is unreadable or lacks the log's first epochs."""

from __future__ import annotations

from storage.log.batch_scan import iter_headers
from storage.log.leader_epoch_cache import UNDEFINED_EPOCH, LeaderEpochCache
from storage.log.offsets import LogOffsets
from storage.log.segments import LogSegments


def complete_leader_epochs(
    epochs: LeaderEpochCache, segments: LogSegments, offsets: LogOffsets, *, file_is_lost: bool
) -> None:
    """Add the epochs of the log's first batches if the known epochs begin after them.

    That happens if records were deleted, the file was written without their epochs, and a power cut has brought the
    records back. file_is_lost: the file was unreadable; the epochs of all batches replace those known.

    All are written in one step: after a power cut, a part of them would look like the whole. Raises OSError,
    CorruptRecordError, LogDirIOError.
    """
    known = [] if file_is_lost else epochs.entries
    first_known = known[0][1] if known else offsets.end
    start = offsets.start
    found: list[tuple[int, int]] = []
    # The segments below the start were given up, and perhaps never synced.
    for segment in segments[segments.number_of(start) :]:
        if segment.base_offset >= first_known:
            break
        position = segment.translate(start) if segment.base_offset < start else (0, 0)
        for header in iter_headers(segment.file, position[0] if position else segment.size, segment.size):
            if header.base_offset >= first_known:
                break
            if header.leader_epoch > (found[-1][0] if found else UNDEFINED_EPOCH):
                found.append((header.leader_epoch, max(header.base_offset, start)))
    if file_is_lost:
        epochs.replace(found)
    else:
        epochs.put_before(found)
