"""Checks one segment: every batch, and the two indexes against the batches.

A batch must be complete and have a known format and the right checksum. Its offsets must be above those of the
previous batch and within the range of the segment's relative offsets. With `deep`, its records must be readable and
agree with the header. After a batch with a wrong checksum the check continues with the next batch. If the next batch
cannot be found, the rest of the segment is lost and not checked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from protocol.control_records import read_end_marker
from protocol.errors import CorruptRecordError, ProtocolError
from protocol.message_set import read_message
from protocol.record import NO_TIMESTAMP, Record
from protocol.record_batch import BATCH_HEADER_SIZE, LOG_OVERHEAD, RecordBatch
from storage.file_system import CachedFile, FileSystem
from storage.log.batch_scan import BatchHeader, check_crc, iter_whole_batches
from storage.log.segment import LOG_SUFFIX, MAX_RELATIVE_OFFSET
from storage.verification.indexes import OffsetIndexCheck, TimeIndexCheck
from storage.verification.report import VerificationReport

_DELETE_HORIZON = 0x40
_CHUNK_BYTES = 1 << 20
_PROGRESS_BATCHES = 1024


class SegmentEnd(NamedTuple):
    """The result of a segment's check.

    last_offset: base offset - 1 if the segment is empty. whole: the segment was read to its end. cut_offset: where a
    recovery would truncate; None if it would not. compacted: compaction has removed records. gap: the first gap (from,
    to, inclusive) between batches.
    """

    last_offset: int
    whole: bool
    cut_offset: int | None
    compacted: bool
    gap: tuple[int, int] | None


class SegmentCheck:
    """The check of one segment."""

    def __init__(
        self,
        fs: FileSystem,
        stem: str,
        base_offset: int,
        report: VerificationReport,
        *,
        deep: bool,
        live: bool,
        active: bool,
    ) -> None:
        """stem: the path without suffix. live: a broker may be running. active: this is the log's active segment."""
        self.path = stem + LOG_SUFFIX
        self.base_offset = base_offset
        self._fs = fs
        self._report = report
        self._deep = deep
        self._last_offset = base_offset - 1
        self._cut_offset: int | None = None
        self._gap: tuple[int, int] | None = None
        self._growing = live and active
        self._active = active
        # Read the indexes before the log's size: then entries of a growing segment cannot be above that size.
        self._offsets = OffsetIndexCheck(fs, stem, base_offset, report, live=live)
        self._times = TimeIndexCheck(fs, stem, base_offset, report, live=live)
        for index in (self._offsets, self._times):
            if index.missing:
                report.error(index.path, "the file is missing")

    def run(self, visit: Callable[[BatchHeader, memoryview], None]) -> SegmentEnd:
        """Read the segment once; call `visit` with every valid batch and its bytes."""
        report = self._report
        file = CachedFile(self._fs, self.path)
        size = self._fs.size(self.path)
        position = 0
        whole = True
        # A rolled segment has batches and a time index entry: only compaction can have removed all of them.
        compacted = not size and not self._active and self._times.is_empty
        report.segments += 1
        try:
            for header, data in iter_whole_batches(file, size):
                position = header.position + header.size
                report.batches += 1
                report.bytes += header.size
                if report.batches % _PROGRESS_BATCHES == 0:
                    report.progress()
                partial = self._is_partial(header, data)
                in_order = self._check_offsets(header)
                if self._check_bytes(header, data) and in_order:
                    compacted |= partial
                    visit(header, data)
                if in_order:
                    self._move_to(header)
                self._offsets.batch(header, compacted=partial)
                self._times.batch(header)
        except CorruptRecordError as error:
            whole = False
            self._broken_end(file, position, size, error)
        finally:
            file.release()
        if whole:
            self._offsets.end(size)
            self._times.end(self._last_offset, active=self._active)
        report.progress()
        return SegmentEnd(self._last_offset, whole, self._cut_offset, compacted, self._gap)

    def _is_partial(self, header: BatchHeader, data: memoryview) -> bool:
        """Whether compaction has changed the batch: it has removed records or set the delete horizon."""
        if header.magic < 2:
            return False
        count = int.from_bytes(data[57:61], "big", signed=True)
        return count <= header.last_offset_delta or header.attributes & _DELETE_HORIZON != 0

    def _check_offsets(self, header: BatchHeader) -> bool:
        rule = None
        previous = self._last_offset
        if header.last_offset_delta < 0:
            rule = f"last offset delta {header.last_offset_delta} is negative"
        elif header.base_offset < self.base_offset:
            rule = f"base offset {header.base_offset} is below the segment's, {self.base_offset}"
        elif header.base_offset <= previous:
            rule = f"base offset {header.base_offset} does not ascend, it follows {previous}"
        elif header.last_offset - self.base_offset > MAX_RELATIVE_OFFSET:
            rule = f"last offset {header.last_offset} is too far from the segment's base offset {self.base_offset}"
        if rule is not None:
            self._error(header.position, rule, cut=True)
        return rule is None

    def _move_to(self, header: BatchHeader) -> None:
        expected = self._last_offset + 1
        # (The offset of a message of magic 0 or 1 is its last one.)
        if self._gap is None and header.magic == 2 and expected < header.base_offset:
            self._gap = (expected, header.base_offset - 1)
        self._last_offset = header.last_offset

    def _check_bytes(self, header: BatchHeader, data: memoryview) -> bool:
        """Check the checksum, the marker and, with `deep`, the records. False if a recovery would reject the batch."""
        try:
            check_crc(header, data)
            batch = RecordBatch(data) if header.magic == 2 else None
            if batch is not None and batch.is_control and batch.record_count:
                read_end_marker(batch)
        except ProtocolError as error:
            self._error(header.position, str(getattr(error, "reason", error)), cut=True)
            return False
        if batch is not None and not 0 <= batch.record_count <= header.last_offset_delta + 1:
            self._error(header.position, f"{batch.record_count} records for {header.last_offset_delta + 1} offsets")
        elif self._deep:
            try:
                self._check_records(header, read_message(data).records() if batch is None else batch.records())
            except ProtocolError as error:
                self._error(header.position, str(getattr(error, "reason", error)))
        return True

    def _check_records(self, header: BatchHeader, records: Iterable[Record]) -> None:
        last = header.base_offset - 1 if header.magic == 2 else self._last_offset
        largest = NO_TIMESTAMP
        for record in records:
            if not last < record.offset <= header.last_offset:
                rule = f"record offset {record.offset} follows {last} in a batch that ends with {header.last_offset}"
                self._error(header.position, rule)
                return
            last = record.offset
            largest = max(largest, record.timestamp)
            self._report.records += 1
        if largest not in (NO_TIMESTAMP, header.max_timestamp):
            self._report.warning(
                self.path,
                f"max timestamp {header.max_timestamp} in the header, {largest} among the records",
                position=header.position,
                offset=header.base_offset,
            )

    def _broken_end(self, file: CachedFile, position: int, size: int, error: CorruptRecordError) -> None:
        """Report that the next batch cannot be found, unless a broker may be writing it at the moment."""
        zeros = _only_zeros(file, position, size)
        if self._growing:
            head = file.fs.pread(file.open().fd, LOG_OVERHEAD, position)
            length = int.from_bytes(head[8:], "big", signed=True) if len(head) == LOG_OVERHEAD else 0
            if zeros or size - position < BATCH_HEADER_SIZE or length + LOG_OVERHEAD > size - position:
                return
        behind = f"{size - position} bytes of zeros" if zeros else f"{size - position} bytes"
        reason = "not a batch" if zeros else error.reason
        self._error(position, f"{reason}; {behind} up to the end are lost", cut=True)

    def _error(self, position: int, message: str, *, cut: bool = False) -> None:
        """Report an error of a batch with the next expected offset, as the batch's own offset may be damaged.

        cut: a recovery truncates the log here.
        """
        offset = self._last_offset + 1
        self._report.error(self.path, message, position=position, offset=offset)
        if cut and self._cut_offset is None:
            self._cut_offset = offset


def _only_zeros(file: CachedFile, position: int, size: int) -> bool:
    while position < size:
        chunk = file.fs.pread(file.open().fd, min(_CHUNK_BYTES, size - position), position)
        if not chunk or chunk.count(0) != len(chunk):
            return False
        position += len(chunk)
    return True
