"""Lookups by timestamp: the first record from a time on, and the one with the largest timestamp."""

from __future__ import annotations

from protocol.message_set import iter_messages
from protocol.record_batch import RecordBatch
from storage.log.batch_scan import BatchHeader, iter_headers
from storage.log.segment import LogSegment
from storage.log.segments import LogSegments


def offset_by_timestamp(segments: LogSegments, start: int, timestamp: int) -> tuple[int, int, int] | None:
    """(timestamp, offset, leader epoch) of the first record at or above `timestamp`, from the offset `start` on.

    Raises OSError.
    """
    for segment in segments.all:
        if segment.size and segment.largest_timestamp >= timestamp:
            indexed = segment.time_index.lookup(timestamp)[1]
            position = segment.offset_index.lookup(max(indexed, start))
            for header in iter_headers(segment.file, position, segment.size):
                if header.max_timestamp >= timestamp:
                    for record_timestamp, offset in _records(segment, header):
                        if record_timestamp >= timestamp and offset >= start:
                            return record_timestamp, offset, header.leader_epoch
    return None


def offset_of_max_timestamp(segments: LogSegments) -> tuple[int, int, int] | None:
    """(timestamp, offset, leader epoch) of the first record with the largest timestamp; None in an empty log.

    Raises OSError.
    """
    for segment in segments.all:
        segment.load_max_timestamp()
    segment = max(segments.all, key=lambda candidate: candidate.max_timestamp)
    position = segment.offset_index.lookup(segment.offset_of_max_timestamp)
    for header in iter_headers(segment.file, position, segment.size):
        if header.max_timestamp == segment.max_timestamp:
            for timestamp, offset in _records(segment, header):
                if timestamp == segment.max_timestamp:
                    return timestamp, offset, header.leader_epoch
    return _max_timestamp_by_records(segments)


def _max_timestamp_by_records(segments: LogSegments) -> tuple[int, int, int] | None:
    """The same from every batch. A compacted batch without records may still have their timestamp in its header."""
    best: tuple[int, int, int] | None = None
    for segment in segments.all:
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
        return [(record.timestamp, record.offset) for message in iter_messages(data) for record in message.records()]
    return [(record.timestamp, record.offset) for record in RecordBatch(memoryview(data)).records()]
