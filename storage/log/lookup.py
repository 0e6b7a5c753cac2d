"""Lookups by timestamp: the first record from a time on, and the one with the largest timestamp.

A lookup may open the indexes of every segment, and reads and decompresses a batch, so it runs in another thread. The
log changes meanwhile: an append adds to the active segment, of which the lookup has a copy from its beginning. A
truncation, retention, compaction or rename makes the lookup outdated, whatever it has found, and it is repeated.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

from protocol.message_set import iter_messages
from protocol.record_batch import RecordBatch
from storage.log.batch_scan import BatchHeader, iter_headers
from storage.log.segment import LogSegment
from storage.log.segments import LogSegments

Found: TypeAlias = tuple[int, int, int]
"""(timestamp, offset, leader epoch) of a record."""


class TimestampLookup:
    """One lookup in the log as it is now. Only `run` may be called in another thread."""

    def __init__(self, segments: LogSegments, start: int, timestamp: int | None) -> None:
        """timestamp: find the first record at or above it, from the offset `start` on; None: the largest timestamp."""
        self._segments = segments
        self._changes = segments.changes
        self._closed = segments.all[:-1]
        self._fs = segments.active.fs.for_one_thread()
        self._active = segments.active.view(self._fs)
        self._start = start
        self._timestamp = timestamp
        self._loaded: list[tuple[LogSegment, LogSegment]] = []

    def run(self) -> Found | None:
        """Return the record; None if there is none. Raises OSError, CorruptFileError, CorruptRecordError."""
        try:
            return self._of_max_timestamp() if self._timestamp is None else self._by_timestamp(self._timestamp)
        finally:
            self._active.release()

    @property
    def is_outdated(self) -> bool:
        """Whether the log has changed since, so that neither the result nor an exception means anything."""
        return self._segments.changes != self._changes

    def done(self) -> None:
        """Keep the largest timestamps of the segments, which the lookup has read, for the next one."""
        for segment, view in self._loaded:
            segment.adopt_max_timestamp(view)

    def _views(self) -> Iterator[LogSegment]:
        """Copies of the segments, whose files are open until the next one."""
        for segment in self._closed:
            view = segment.view(self._fs)
            view.load_max_timestamp()
            if not segment.timestamp_known:
                self._loaded.append((segment, view))
            try:
                yield view
            finally:
                view.release()
        self._active.load_max_timestamp()
        yield self._active  # it keeps its indexes: what a full disk left behind their entries must not be read

    def _by_timestamp(self, timestamp: int) -> Found | None:
        for segment in self._views():
            if segment.size and segment.largest_timestamp >= timestamp:
                indexed = segment.time_index.lookup(timestamp)[1]
                position = segment.offset_index.lookup(max(indexed, self._start))
                for header in iter_headers(segment.file, position, segment.size):
                    if header.max_timestamp >= timestamp:
                        for record_timestamp, offset in _records(segment, header):
                            if record_timestamp >= timestamp and offset >= self._start:
                                return record_timestamp, offset, header.leader_epoch
        return None

    def _of_max_timestamp(self) -> Found | None:
        segment = max(self._views(), key=lambda candidate: candidate.max_timestamp)
        try:
            position = segment.offset_index.lookup(segment.offset_of_max_timestamp)
            for header in iter_headers(segment.file, position, segment.size):
                if header.max_timestamp == segment.max_timestamp:
                    for timestamp, offset in _records(segment, header):
                        if timestamp == segment.max_timestamp:
                            return timestamp, offset, header.leader_epoch
        finally:
            segment.release()
        return self._max_timestamp_by_records()

    def _max_timestamp_by_records(self) -> Found | None:
        """The same from every batch. A compacted batch without records may still have their timestamp in its header."""
        best: Found | None = None
        for segment in self._views():
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
