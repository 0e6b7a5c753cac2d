"""Checks one segment: every batch, and the two indexes against them.

A batch must be whole, of a known format, of the right checksum, with offsets behind those of the batch before
it and within reach of the segment's base offset, and, where `deep`, of records that can be unfolded and agree
with the header. A batch of a wrong checksum is noted and reading goes on behind it; where no next batch can be
found the rest of the segment is lost, and is not looked at.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from protocol.control_records import read_end_marker
from protocol.errors import CorruptRecordError, ProtocolError
from protocol.message_set import read_message
from protocol.record_batch import BATCH_HEADER_SIZE, LOG_OVERHEAD, RecordBatch
from storage.batch_scan import BatchHeader, check_crc, iter_whole_batches
from storage.file_system import CachedFile, FileSystem
from storage.log_segment import LOG_SUFFIX, MAX_RELATIVE_OFFSET
from storage.verification_indexes import OffsetIndexCheck, TimeIndexCheck
from storage.verification_report import VerificationReport

_CONTROL = 0x20
_DELETE_HORIZON = 0x40
_CHUNK_BYTES = 1 << 20
_PROGRESS_BATCHES = 1024


class SegmentEnd(NamedTuple):
    """What the next segment has to follow: last offset (base offset - 1 if empty), whether everything was read,
    whether compaction has left traces.
    """

    last_offset: int
    whole: bool
    compacted: bool


class SegmentCheck:
    """The check of one segment. `visit` is given every batch whose checksum is right, and its bytes."""

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
        """`stem` is the path without suffix; `live`: a broker may be writing; `active`: and if so, to this one."""
        self.path = stem + LOG_SUFFIX
        self.base_offset = base_offset
        self._fs = fs
        self._report = report
        self._deep = deep
        self._growing = live and active
        self._active = active
        # The indexes before the size of the log: of a segment that grows they name no batch behind that.
        self._offsets = OffsetIndexCheck(fs, stem, base_offset, report, live=live)
        self._times = TimeIndexCheck(fs, stem, base_offset, report, live=live)
        for index in (self._offsets, self._times):
            if index.missing:
                report.error(index.path, "the file is missing")

    def run(self, visit: Callable[[BatchHeader, memoryview], None]) -> SegmentEnd:
        """Read the segment once."""
        report = self._report
        file = CachedFile(self._fs, self.path)
        size = self._fs.size(self.path)
        previous = self.base_offset - 1
        position = 0
        whole = True
        compacted = False
        report.segments += 1
        try:
            for header, data in iter_whole_batches(file, size):
                position = header.position + header.size
                report.batches += 1
                report.bytes += header.size
                if report.batches % _PROGRESS_BATCHES == 0:
                    report.progress()
                partial = self._is_partial(header, data)
                if self._check_offsets(header, previous):
                    previous = header.last_offset
                if self._check_bytes(header, data):
                    compacted |= partial
                    visit(header, data)
                self._offsets.batch(header, compacted=partial)
                self._times.batch(header)
        except CorruptRecordError as error:
            whole = False
            self._broken_end(file, position, size, error)
        finally:
            file.release()
        if whole:
            self._offsets.end(size)
            self._times.end(previous, active=self._active)
        report.progress()
        return SegmentEnd(previous, whole, compacted)

    def _is_partial(self, header: BatchHeader, data: memoryview) -> bool:
        """Whether compaction has been at the batch: records are gone, or their tombstones' time is set."""
        if header.magic < 2:
            return False
        count = int.from_bytes(data[57:61], "big", signed=True)
        return count <= header.last_offset_delta or header.attributes & _DELETE_HORIZON != 0

    def _check_offsets(self, header: BatchHeader, previous: int) -> bool:
        rule = None
        if header.last_offset_delta < 0:
            rule = f"last offset delta {header.last_offset_delta} is negative"
        elif header.base_offset < self.base_offset:
            rule = f"base offset {header.base_offset} is below the segment's, {self.base_offset}"
        elif header.base_offset <= previous:
            rule = f"base offset {header.base_offset} does not ascend, it follows {previous}"
        elif header.last_offset - self.base_offset > MAX_RELATIVE_OFFSET:
            rule = f"last offset {header.last_offset} is out of reach of the segment's base offset {self.base_offset}"
        if rule is not None:
            self._error(header, rule)
        return rule is None

    def _check_bytes(self, header: BatchHeader, data: memoryview) -> bool:
        """Checksum and, if wanted, records; whether the batch can be taken for what it says."""
        try:
            check_crc(header, data)
            if header.magic < 2:
                if self._deep:
                    self._report.records += sum(1 for _ in read_message(data).records())
                return True
            batch = RecordBatch(data)
            if batch.record_count < 0 or batch.record_count > header.last_offset_delta + 1:
                self._error(header, f"{batch.record_count} records for {header.last_offset_delta + 1} offsets")
                return False
            if header.attributes & _CONTROL and batch.record_count:
                read_end_marker(batch)
            if self._deep:
                self._check_records(header, batch)
        except ProtocolError as error:
            self._error(header, str(getattr(error, "reason", error)))
            return False
        return True

    def _check_records(self, header: BatchHeader, batch: RecordBatch) -> None:
        last = batch.base_offset - 1
        largest = -1
        for record in batch.records():
            if not last < record.offset <= batch.last_offset:
                self._error(
                    header, f"record offset {record.offset} follows {last}, the batch ends at {batch.last_offset}"
                )
                return
            last = record.offset
            largest = max(largest, record.timestamp)
            self._report.records += 1
        if batch.record_count and largest != header.max_timestamp:
            self._report.warning(
                self.path,
                f"max timestamp {header.max_timestamp} in the header, {largest} among the records",
                position=header.position,
                offset=header.base_offset,
            )

    def _broken_end(self, file: CachedFile, position: int, size: int, error: CorruptRecordError) -> None:
        """No next batch can be found: an error, unless it may be one that is being written just now."""
        zeros = _only_zeros(file, position, size)
        if self._growing:
            head = file.fs.pread(file.open().fd, LOG_OVERHEAD, position)
            length = int.from_bytes(head[8:], "big", signed=True) if len(head) == LOG_OVERHEAD else 0
            if zeros or size - position < BATCH_HEADER_SIZE or length + LOG_OVERHEAD > size - position:
                return
        behind = f"{size - position} bytes of zeros" if zeros else f"{size - position} bytes"
        reason = "no batch" if zeros else error.reason
        self._report.error(self.path, f"{reason}; {behind} up to the end are lost", position=position)

    def _error(self, header: BatchHeader, message: str) -> None:
        self._report.error(self.path, message, position=header.position, offset=header.base_offset)


def _only_zeros(file: CachedFile, position: int, size: int) -> bool:
    while position < size:
        chunk = file.fs.pread(file.open().fd, min(_CHUNK_BYTES, size - position), position)
        if not chunk or chunk.count(0) != len(chunk):
            return False
        position += len(chunk)
    return True
