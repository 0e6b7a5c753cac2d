"""Reading a log: a range of one segment's file, of which nothing is read here.

The positions of the last ends that were given out are remembered (`Log.hints`): readers at the tail ask for those next.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from storage.log import lookup as log_lookup
from storage.log.append import LogReadInfo
from storage.log.file_records import FileRecords

if TYPE_CHECKING:
    from storage.log.log import Log
    from storage.producers.transaction_index import AbortedTransaction


def read(
    log: Log, offset: int, max_bytes: int, max_offset: int, min_one_message: bool, include_aborted: bool
) -> LogReadInfo:
    """Records from an offset between log start and log end on. Raises OSError."""
    if offset >= max_offset:
        if offset == log.log_end_offset:
            active = log.segments[-1]
            log.remember(offset, active, active.size)
        return LogReadInfo(None, False, [] if include_aborted else None)
    segments = log.segments
    hint = log.hints.get(offset)
    if hint is not None and hint[1] < hint[0].size:
        segment, position = hint
        first_size = -1
    else:
        found = log_lookup.find(log, offset, segments)
        if found is None:
            return LogReadInfo(None, False, [] if include_aborted else None)
        segment, position, first_size = found
    end = log_lookup.end_position(log, segment, position, max_offset, segments)
    size = end - position
    incomplete = False
    if size > max_bytes:
        if first_size < 0:
            first_size = log_lookup.batch_size_at(segment, position)
        if first_size > max_bytes:
            incomplete = not min_one_message
            max_bytes = max_bytes if incomplete else first_size
        size = min(size, max_bytes)
    if size <= 0:
        return LogReadInfo(None, incomplete, [] if include_aborted else None)
    file = segment.file
    records = FileRecords(log.fs, file.handle or file.open(), position, size)
    file.used = True
    aborted: list[AbortedTransaction] | None = None
    if include_aborted:
        aborted = log_lookup.aborted_transactions(log, segments, segment, offset, position + size)
    return LogReadInfo(records, incomplete, aborted)
