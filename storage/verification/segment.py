"""Checks one segment: every batch, and the two indexes against them.

A batch must be whole, of a known format, of the right checksum, with offsets behind those of the batch before
it and within reach of the segment's base offset, and, where `deep`, of records that can be unfolded and agree
with the header. A batch of a wrong checksum is noted and reading goes on behind it; where no next batch can be
found the rest of the segment is lost, and is not looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from protocol.control_records import read_end_marker
from protocol.errors import CorruptRecordError, ProtocolError
from protocol.message_set import read_message
from protocol.record import Record
from protocol.record_batch import BATCH_HEADER_SIZE, LOG_OVERHEAD, RecordBatch
from storage.file_system import CachedFile, FileSystem
from storage.index.time_index import NO_TIMESTAMP
from storage.log.batch_scan import BatchHeader, check_crc, iter_whole_batches
from storage.log.segment import LOG_SUFFIX, MAX_RELATIVE_OFFSET
from storage.verification.indexes import OffsetIndexCheck, TimeIndexCheck
from storage.verification.report import VerificationReport

_DELETE_HORIZON = 0x40
_CHUNK_BYTES = 1 << 20
_PROGRESS_BATCHES = 1024


class SegmentEnd(NamedTuple):
    """What the next segment has to follow: last offset (base offset - 1 if empty), whether everything was read, where
    a recovery would cut, whether compaction has left traces, and the first offsets (from, to) that no batch has.
    """

    last_offset: int
    whole: bool
    cut_offset: int | None
    compacted: bool
    gap: tuple[int, int] | None


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
        self._last_offset = base_offset - 1
        self._cut_offset: int | None = None
        self._gap: tuple[int, int] | None = None
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
        position = 0
        whole = True
        # A segment that is rolled has a batch, and a time with it: only compaction can have taken all of them.
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
        """Whether compaction has been at the batch: records are gone, or their tombstones' time is set."""
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
            rule = f"last offset {header.last_offset} is out of reach of the segment's base offset {self.base_offset}"
        if rule is not None:
            self._error(header.position, rule, cut=True)
        return rule is None

    def _move_to(self, header: BatchHeader) -> None:
        expected = self._last_offset + 1
        # (The offset of a message set of old is its last one.)
        if self._gap is None and header.magic == 2 and expected < header.base_offset:
            self._gap = (expected, header.base_offset - 1)
        self._last_offset = header.last_offset

    def _check_bytes(self, header: BatchHeader, data: memoryview) -> bool:
        """Checksum, marker and, if wanted, records; False where a recovery would not take the batch."""
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
        """No next batch can be found: an error, unless it may be one that is being written just now."""
        zeros = _only_zeros(file, position, size)
        if self._growing:
            head = file.fs.pread(file.open().fd, LOG_OVERHEAD, position)
            length = int.from_bytes(head[8:], "big", signed=True) if len(head) == LOG_OVERHEAD else 0
            if zeros or size - position < BATCH_HEADER_SIZE or length + LOG_OVERHEAD > size - position:
                return
        behind = f"{size - position} bytes of zeros" if zeros else f"{size - position} bytes"
        reason = "no batch" if zeros else error.reason
        self._error(position, f"{reason}; {behind} up to the end are lost", cut=True)

    def _error(self, position: int, message: str, *, cut: bool = False) -> None:
        """Note what is wrong with a batch: its offset is the one that comes next, its own may be part of the damage.

        `cut`: a recovery does not go on behind it.
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
