"""Reading a log: a range of one segment's file. Nothing of that file is read here."""

from __future__ import annotations

from dataclasses import dataclass

from protocol.record_batch import LOG_OVERHEAD
from storage.log.append import LogReadInfo
from storage.log.file_records import FileRecords
from storage.log.offsets import LogOffsets
from storage.log.segment import LogSegment
from storage.log.segments import LogSegments
from storage.log.warm_up import ColdReadError, WarmUp
from storage.producers.transaction_index import AbortedTransaction


@dataclass(slots=True)
class LogReader:
    """Finds ranges of records. It reads indexes and batch headers only."""

    _segments: LogSegments
    _offsets: LogOffsets

    def read(
        self,
        offset: int,
        max_bytes: int,
        max_offset: int,
        min_one_message: bool,
        include_aborted: bool,
        may_wait: bool,
    ) -> LogReadInfo:
        """Records from an offset between log start and log end on; see `Log.read`. Raises OSError, ColdReadError."""
        segments = self._segments
        if offset >= max_offset:
            if offset == self._offsets.end:
                segments.remember(offset, segments.active, segments.active.size)
            return LogReadInfo(None, False, [] if include_aborted else None)
        hint = segments.hints.get(offset)
        if hint is not None and hint[1] < hint[0].size:
            segment, position = hint
            first_size = -1
        else:
            found = segments.find(offset) if may_wait else self._find_now(offset)
            if found is None:
                return LogReadInfo(None, False, [] if include_aborted else None)
            segment, position, first_size = found
        end = self._end_position(segment, position, max_offset)
        size = end - position
        incomplete = False
        if size > max_bytes:
            if first_size < 0:
                first_size = _batch_size_at(segment, position)
            if first_size > max_bytes:
                incomplete = not min_one_message
                max_bytes = max_bytes if incomplete else first_size
            size = min(size, max_bytes)
        if size <= 0:
            return LogReadInfo(None, incomplete, [] if include_aborted else None)
        file = segment.file
        records = FileRecords(segment.fs, file.handle or file.open(), position, size)
        file.used = True
        aborted = self._aborted_transactions(segment, offset, position + size) if include_aborted else None
        return LogReadInfo(records, incomplete, aborted)

    def _find_now(self, offset: int) -> tuple[LogSegment, int, int] | None:
        """`LogSegments.find` that does not wait for the disk. Raises ColdReadError, OSError."""
        segments = self._segments
        segment = segments[segments.number_of(offset)]
        now_ms = segments.files.now_ms

        def pread_now(fd: int, length: int, position: int) -> bytes | bytearray:
            data = segment.fs.pread_now(fd, length, position)
            if data is None:
                raise ColdReadError(WarmUp(segment, offset, now_ms))
            return data

        if not segment.is_warm(offset, now_ms()):
            raise ColdReadError(WarmUp(segment, offset, now_ms))
        return segments.find(offset, pread_now)

    def _end_position(self, segment: LogSegment, position: int, max_offset: int) -> int:
        """The position in `segment` where the records below `max_offset` end; it is not below `position`."""
        segments = self._segments
        if segment is segments.active:
            if max_offset >= self._offsets.end:
                segments.remember(max_offset, segment, segment.size)
                return segment.size
        elif segments.all[segments.number_of(segment.base_offset) + 1].base_offset <= max_offset:
            return segment.size
        hint = segments.hints.get(max_offset)
        if hint is not None and hint[0] is segment:
            return hint[1]
        found = segment.translate(max_offset, position)
        end = found[0] if found is not None else segment.size
        segments.remember(max_offset, segment, end)
        return end

    def _aborted_transactions(self, segment: LogSegment, offset: int, end: int) -> list[AbortedTransaction]:
        """The aborted transactions that may overlap a range of `segment`, from `offset` to byte `end`.

        The end of the range is known to the precision of the offset index; a reader ignores the other transactions.
        """
        segments = self._segments.all
        number = segments.index(segment)
        upper_bound = segment.offset_index.offset_at_or_after(end)
        if upper_bound is None:
            upper_bound = segments[number + 1].base_offset if number + 1 < len(segments) else self._offsets.end
        aborted: list[AbortedTransaction] = []
        for later in segments[number:]:
            found, complete = later.txn_index.collect(offset, upper_bound)
            aborted += found
            if complete:
                break
        return aborted


def _batch_size_at(segment: LogSegment, position: int) -> int:
    """Size of the batch that begins at `position`, from its header."""
    length = segment.fs.pread(segment.file.open().fd, 4, position + 8)
    return int.from_bytes(length, "big", signed=True) + LOG_OVERHEAD
