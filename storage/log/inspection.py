"""What is in the files of a log, for people: batches, index entries, and each step of the lookup of an offset.

An inspection is made on the log's thread; its methods may run in another thread, one at a time. They read the files of
one segment, as far as their limits allow. The log changes meanwhile: appends do not matter, as for other reads in
threads (see `lookup`), but after a truncation, retention, compaction or rename the inspection `is_outdated`.
"""

from __future__ import annotations

import contextlib
import struct
from bisect import bisect_right
from collections.abc import Iterator
from itertools import islice
from typing import Final, NamedTuple

from protocol.compression import CompressionType
from protocol.errors import CorruptRecordError
from protocol.record_batch import BATCH_HEADER_SIZE, COMPRESSION_MASK, CONTROL_FLAG, HEADER, TRANSACTIONAL_FLAG
from storage.index.offset_index import IndexProbe
from storage.log.batch_scan import BatchHeader, check_crc, iter_headers
from storage.log.log import Log
from storage.log.segment import SEGMENT_SUFFIXES, LogSegment, file_name
from storage.producers.snapshot import SNAPSHOT_SUFFIX
from storage.producers.transaction_index import AbortedTransaction

MAX_SCANNED: Final = 10_000
"""Batches that the scan of one lookup reads. At the default index.interval.bytes there are at most 70."""
MAX_CHECKED_BYTES: Final = 4 * 1024 * 1024
"""Bytes of batches that one call reads to check their checksums."""


class InspectedFile(NamedTuple):
    """One file of a segment."""

    name: str
    size: int


class InspectedBatch(NamedTuple):
    """A batch as it is in the file: what its header says, and whether its checksum is right (None: not checked).

    `records` and `base_timestamp` are None for the formats before magic 2.
    """

    header: BatchHeader
    records: int | None
    base_timestamp: int | None
    crc: int
    is_crc_valid: bool | None

    @property
    def compression(self) -> str:
        """The codec, with Kafka's name."""
        try:
            return CompressionType(self.header.attributes & COMPRESSION_MASK).config_name
        except ValueError:
            return "unknown"

    @property
    def is_transactional(self) -> bool:
        """Whether the batch belongs to a transaction."""
        return self.header.magic >= 2 and bool(self.header.attributes & TRANSACTIONAL_FLAG)

    @property
    def is_control(self) -> bool:
        """Whether the batch is a transaction marker."""
        return self.header.magic >= 2 and bool(self.header.attributes & CONTROL_FLAG)


class SegmentProbe(NamedTuple):
    """One comparison of the search for the segment, which was one of `low` to `high` - 1 then."""

    number: int
    base_offset: int
    low: int
    high: int


class OffsetSearch(NamedTuple):
    """How a read finds the batch of an offset: the segment, the entry of its sparse index, a scan of batch headers."""

    segment_probes: list[SegmentProbe]
    """Empty if the active segment has the offset: it is asked first."""
    segments: int
    base_offset: int
    """Of the segment."""
    index_entries: int
    index_probes: list[IndexProbe]
    indexed_position: int
    """Where the scan begins."""
    scanned: list[BatchHeader]
    """The last one holds the offset, or the next one that compaction has left, if `is_found`."""
    is_found: bool
    is_cut: bool
    """The scan has ended at `MAX_SCANNED`."""


class LogInspection:
    """The files of one log as it is now."""

    def __init__(self, log: Log) -> None:
        self._segments = log.segments
        self._changes = log.segments.changes
        self._directory = str(log.directory)
        self._fs = log.segments.active.fs.for_one_thread()
        self._all = log.segments.all
        self._base_offsets = log.segments.base_offsets
        self._active = log.segments.active.view(self._fs)

    @property
    def is_outdated(self) -> bool:
        """Whether the log has changed since, so that neither a result nor an exception means anything."""
        return self._segments.changes != self._changes

    @contextlib.contextmanager
    def _segment(self, base_offset: int) -> Iterator[LogSegment]:
        """A copy of a segment. Raises KeyError."""
        number = bisect_right(self._base_offsets, base_offset) - 1
        if number < 0 or self._base_offsets[number] != base_offset:
            raise KeyError(base_offset)
        is_active = number == len(self._all) - 1
        view = self._active if is_active else self._all[number].view(self._fs)
        try:
            yield view
        finally:
            if not is_active:
                view.release()

    def close(self) -> None:
        """Close the files. In the thread of the last call."""
        self._active.release()

    # -- files -----------------------------------------------------------------------------------------------------

    def files(self, base_offset: int) -> list[InspectedFile]:
        """Return the files of a segment. A file that is gone by now is left out."""
        found = []
        for suffix in (*SEGMENT_SUFFIXES, SNAPSHOT_SUFFIX):
            name = file_name(base_offset, suffix)
            with contextlib.suppress(FileNotFoundError):
                found.append(InspectedFile(name, self._fs.size(f"{self._directory}/{name}")))
        return found

    def offset_entries(self, base_offset: int, first: int, limit: int) -> tuple[int, list[tuple[int, int]]]:
        """Return the number of entries, and (absolute offset, position) of some. Raises KeyError, OSError."""
        with self._segment(base_offset) as segment:
            index = segment.offset_index
            return index.entries, index.absolute_entries(first, limit)

    def time_entries(self, base_offset: int, first: int, limit: int) -> tuple[int, list[tuple[int, int]]]:
        """Return the number of entries, and (timestamp, absolute offset) of some. Raises KeyError, OSError."""
        with self._segment(base_offset) as segment:
            index = segment.time_index
            return index.entries, index.absolute_entries(first, limit)

    def aborted(self, base_offset: int, first: int, limit: int) -> tuple[int, list[AbortedTransaction]]:
        """Return the number of aborted transactions in the index, and some. Raises KeyError, OSError."""
        with self._segment(base_offset) as segment:
            entries = segment.txn_index.entries
            return len(entries), entries[first : first + limit]

    # -- batches ---------------------------------------------------------------------------------------------------

    def batches(self, base_offset: int, position: int, limit: int) -> tuple[list[InspectedBatch], int | None]:
        """Return batches of a segment from a position on, where one must begin, and where the next ones begin.

        Raises KeyError, OSError, CorruptRecordError.
        """
        with self._segment(base_offset) as segment:
            found: list[InspectedBatch] = []
            unchecked = MAX_CHECKED_BYTES
            for header in islice(iter_headers(segment.file, position, segment.size), limit):
                unchecked -= header.size
                found.append(_inspected(segment, header, is_checked=unchecked >= 0))
            if not found and position < segment.size:
                raise CorruptRecordError(position, "no batch begins here")
            end = found[-1].header.position + found[-1].header.size if found else segment.size
            return found, end if found and end < segment.size else None

    def search(self, offset: int) -> OffsetSearch:
        """Find the batch of an offset as `LogSegments.find` does, and return each step. Raises as `batches`."""
        probes: list[SegmentProbe] = []
        low, high = 0, len(self._all)

        def base_offset_of(number: int) -> int:
            nonlocal low, high
            value = self._base_offsets[number]
            probes.append(SegmentProbe(number, value, low, high))
            if value <= offset:
                low = number
            else:
                high = number
            return value

        number = len(self._all) - 1
        if self._base_offsets[number] > offset:
            number = max(bisect_right(range(len(self._all)), offset, key=base_offset_of) - 1, 0)
        while True:
            found = self._search_segment(offset, number, probes)
            if found.is_found or found.is_cut or number == len(self._all) - 1:
                return found
            number += 1  # compaction has removed the batch, and all behind it in this segment

    def _search_segment(self, offset: int, number: int, probes: list[SegmentProbe]) -> OffsetSearch:
        base_offset = self._base_offsets[number]
        with self._segment(base_offset) as segment:
            index = segment.offset_index
            position, index_probes = index.probes(offset)
            scanned: list[BatchHeader] = []
            is_found = False
            for header in islice(iter_headers(segment.file, position, segment.size), MAX_SCANNED):
                scanned.append(header)
                if header.last_offset >= offset:
                    is_found = True
                    break
            is_cut = not is_found and len(scanned) == MAX_SCANNED
            count, entries = len(self._all), index.entries
        return OffsetSearch(probes, count, base_offset, entries, index_probes, position, scanned, is_found, is_cut)


def _inspected(segment: LogSegment, header: BatchHeader, *, is_checked: bool) -> InspectedBatch:
    size = header.size if is_checked else min(header.size, BATCH_HEADER_SIZE)
    data = segment.fs.pread(segment.file.open().fd, size, header.position)
    is_valid: bool | None = None
    if is_checked:
        try:
            check_crc(header, memoryview(data))
            is_valid = True
        except CorruptRecordError:
            is_valid = False
    if header.magic < 2:
        return InspectedBatch(header, None, None, struct.unpack_from(">I", data, 12)[0], is_valid)
    fields = HEADER.unpack_from(data)
    return InspectedBatch(header, fields[12], fields[7], fields[4], is_valid)
