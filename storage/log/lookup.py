"""Lookups in a log: where an offset stands, by timestamp, and of aborted transactions."""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

from protocol.record_batch import LOG_OVERHEAD, RecordBatch
from storage.log.batch_scan import BatchHeader, iter_headers
from storage.log.segment import LogSegment
from storage.producers.transaction_index import AbortedTransaction

if TYPE_CHECKING:
    from storage.log.log import Log


def find(log: Log, offset: int, segments: tuple[LogSegment, ...]) -> tuple[LogSegment, int, int] | None:
    """(segment, position, size) of the batch with `offset`, or of the next one if compaction removed that."""
    number = len(segments) - 1
    if segments[number].base_offset > offset:
        number = max(bisect_right(log.base_offsets, offset) - 1, 0)
    while number < len(segments):
        found = segments[number].translate(offset)
        if found is not None:
            return segments[number], *found
        number += 1
    return None


def end_position(
    log: Log, segment: LogSegment, position: int, max_offset: int, segments: tuple[LogSegment, ...]
) -> int:
    """Where in `segment` the records below `max_offset` end; the first one stands at `position` or behind."""
    if segment is segments[-1]:
        if max_offset >= log.log_end_offset:
            log.remember(max_offset, segment, segment.size)
            return segment.size
    elif segments[bisect_right(log.base_offsets, segment.base_offset)].base_offset <= max_offset:
        return segment.size
    hint = log.hints.get(max_offset)
    if hint is not None and hint[0] is segment:
        return hint[1]
    found = segment.translate(max_offset, position)
    end = found[0] if found is not None else segment.size
    log.remember(max_offset, segment, end)
    return end


def batch_size_at(segment: LogSegment, position: int) -> int:
    """Size of the batch that begins at `position`, from its header."""
    length = segment.fs.pread(segment.file.open().fd, 4, position + 8)
    return int.from_bytes(length, "big", signed=True) + LOG_OVERHEAD


def aborted_transactions(
    log: Log, segments: tuple[LogSegment, ...], segment: LogSegment, offset: int, end: int
) -> list[AbortedTransaction]:
    """The aborted transactions that overlap a range of `segment` from `offset` to byte `end`, or may do so.

    Where the range ends is known to the precision of the offset index; a reader ignores what does not concern
    it.
    """
    number = segments.index(segment)
    upper_bound = segment.offset_index.offset_at_or_after(end)
    if upper_bound is None:
        upper_bound = segments[number + 1].base_offset if number + 1 < len(segments) else log.log_end_offset
    aborted: list[AbortedTransaction] = []
    for later in segments[number:]:
        found, complete = later.txn_index.collect(offset, upper_bound)
        aborted += found
        if complete:
            break
    return aborted


def offset_by_timestamp(log: Log, timestamp: int) -> tuple[int, int, int] | None:
    """(timestamp, offset, leader epoch) of the first record at or above `timestamp` from the log start offset
    on.
    """
    start = log.log_start_offset
    for segment in log.segments:
        if segment.size and segment.largest_timestamp >= timestamp:
            indexed = segment.time_index.lookup(timestamp)[1]
            position = segment.offset_index.lookup(max(indexed, start))
            for header in iter_headers(segment.file, position, segment.size):
                if header.max_timestamp >= timestamp:
                    for record_timestamp, offset in _records(segment, header):
                        if record_timestamp >= timestamp and offset >= start:
                            return record_timestamp, offset, header.leader_epoch
    return None


def offset_of_max_timestamp(log: Log) -> tuple[int, int, int] | None:
    """(timestamp, offset, leader epoch) of the first record that has the largest timestamp; None in an empty
    log.
    """
    for segment in log.segments:
        segment.load_max_timestamp()
    segment = max(log.segments, key=lambda candidate: candidate.max_timestamp)
    position = segment.offset_index.lookup(segment.offset_of_max_timestamp)
    for header in iter_headers(segment.file, position, segment.size):
        if header.max_timestamp == segment.max_timestamp:
            for timestamp, offset in _records(segment, header):
                if timestamp == segment.max_timestamp:
                    return timestamp, offset, header.leader_epoch
    return _max_timestamp_by_records(log)


def _max_timestamp_by_records(log: Log) -> tuple[int, int, int] | None:
    """The same from every batch: compaction may leave a batch without records that still names their timestamp."""
    best: tuple[int, int, int] | None = None
    for segment in log.segments:
        for header in iter_headers(segment.file, 0, segment.size):
            if best is None or header.max_timestamp > best[0]:
                for timestamp, offset in _records(segment, header):
                    if best is None or timestamp > best[0]:
                        best = timestamp, offset, header.leader_epoch
    return best


def _records(segment: LogSegment, header: BatchHeader) -> list[tuple[int, int]]:
    """(timestamp, offset) of the records of one batch."""
    data = segment.fs.pread(segment.file.open().fd, header.size, header.position)
    if header.magic < 2:
        from protocol.message_set import iter_messages

        return [(record.timestamp, record.offset) for message in iter_messages(data) for record in message.records()]
    return [(record.timestamp, record.offset) for record in RecordBatch(memoryview(data)).records()]
