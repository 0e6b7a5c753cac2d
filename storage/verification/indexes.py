"""Checks the offset index and the time index of a segment against its batches, in one pass.

An entry of `.index` has the position of an append and the append's last offset. A batch must begin at that position,
and the offset must be the last one of a batch between that position and the next entry's. (In a compacted batch it may
be any offset of the batch: compaction writes the offset of the last retained record.)

An entry of `.timeindex` has a timestamp and the last offset of a batch. The timestamp must be that batch's largest one,
and no earlier batch may have a larger one. Lookups rely on these rules.
"""

from __future__ import annotations

from typing import ClassVar

from protocol.record import NO_TIMESTAMP
from storage.errors import CorruptFileError
from storage.file_system import FileSystem
from storage.index.offset_index import OffsetIndex
from storage.index.time_index import TimeIndex
from storage.log.batch_scan import BatchHeader
from storage.log.segment import INDEX_SUFFIX, TIME_INDEX_SUFFIX
from storage.verification.report import VerificationReport

_ANY_SIZE = 1 << 31


class _IndexCheck:
    """Base class of the two checks: the entries with absolute offsets, ascending, and the next one to check."""

    KIND: ClassVar[type[OffsetIndex] | type[TimeIndex]]
    SUFFIX: ClassVar[str]
    OFFSET: ClassVar[int]  # which of an entry's two numbers is the offset

    def __init__(self, fs: FileSystem, stem: str, base_offset: int, report: VerificationReport, *, live: bool) -> None:
        """stem: the path without suffix. live: zeros after the entries are valid (a running Kafka preallocates)."""
        self.path = stem + self.SUFFIX
        self.missing = False
        self._report = report
        self._entries = self._load(fs, base_offset, live=live)
        self._next = 0
        self._keep_ascending()

    def _load(self, fs: FileSystem, base_offset: int, *, live: bool) -> list[tuple[int, int]]:
        try:
            index = self.KIND(fs, self.path, base_offset, _ANY_SIZE)
            entries = index.absolute_entries()
            index.close()
            used = len(entries) * self.KIND.ENTRY.size
            behind = fs.size(self.path) - used
        except FileNotFoundError:
            self.missing = True
            return []
        except CorruptFileError as error:
            self._report.error(self.path, error.rule)
            return []
        if behind and not live:
            self._report.warning(self.path, f"{behind} bytes of zeros after the last entry", position=used)
        return entries

    @property
    def is_empty(self) -> bool:
        """Whether the file exists and has no entries."""
        return not self.missing and not self._entries

    def _keep_ascending(self) -> None:
        """Report the first entry that does not ascend; drop it and the entries after it, which may be garbage."""
        for slot in range(1, len(self._entries)):
            before, entry = self._entries[slot - 1], self._entries[slot]
            if not (before[0] < entry[0] and before[1] <= entry[1]):
                self._error(slot, f"follows {before}: entries must ascend")
                del self._entries[slot:]
                return

    def _error(self, slot: int, what: str) -> None:
        entry = self._entries[slot]
        position = slot * self.KIND.ENTRY.size
        self._report.error(self.path, f"entry {entry} {what}", position=position, offset=entry[self.OFFSET])


class OffsetIndexCheck(_IndexCheck):
    """Checks the entries of an `.index` file, (offset, position), against the batches of its segment."""

    KIND = OffsetIndex
    SUFFIX = INDEX_SUFFIX
    OFFSET = 0

    def __init__(self, fs: FileSystem, stem: str, base_offset: int, report: VerificationReport, *, live: bool) -> None:
        super().__init__(fs, stem, base_offset, report, live=live)
        self._awaited: int | None = None  # the slot whose append has begun, until its last batch was read

    def batch(self, header: BatchHeader, *, compacted: bool) -> None:
        """Check the next batch of the segment. compacted: compaction has removed records of the batch."""
        entries = self._entries
        while self._next < len(entries) and entries[self._next][1] <= header.position:
            self._missed()
            offset, position = entries[self._next]
            if position != header.position:
                self._error(self._next, f"points to byte {position}, where no batch begins")
            elif offset < header.base_offset:
                self._error(self._next, f"points to a batch that begins with offset {header.base_offset}")
            else:
                self._awaited = self._next
            self._next += 1
        if self._awaited is not None and entries[self._awaited][0] <= header.last_offset:
            if entries[self._awaited][0] != header.last_offset and not compacted:
                self._error(self._awaited, f"does not name the last offset of its batch, {header.last_offset}")
            self._awaited = None

    def _missed(self) -> None:
        if self._awaited is not None:
            self._error(self._awaited, "names an offset that is in no batch of its append")
            self._awaited = None

    def end(self, size: int) -> None:
        """Check the remaining entries after the segment was read to its end, byte `size`."""
        self._missed()
        for slot in range(self._next, len(self._entries)):
            self._error(slot, f"points after the end of the segment, byte {size}")


class TimeIndexCheck(_IndexCheck):
    """Checks the entries of a `.timeindex` file, (timestamp, offset), against the batches of its segment."""

    KIND = TimeIndex
    SUFFIX = TIME_INDEX_SUFFIX
    OFFSET = 1

    def __init__(self, fs: FileSystem, stem: str, base_offset: int, report: VerificationReport, *, live: bool) -> None:
        super().__init__(fs, stem, base_offset, report, live=live)
        self._largest = NO_TIMESTAMP

    def batch(self, header: BatchHeader) -> None:
        """Check the next batch of the segment."""
        self._largest = max(self._largest, header.max_timestamp)
        while self._next < len(self._entries) and self._entries[self._next][1] <= header.last_offset:
            timestamp, offset = self._entries[self._next]
            if offset < header.base_offset:
                self._error(self._next, "names an offset that is in no batch")
            elif timestamp != header.max_timestamp:
                self._error(self._next, f"names a batch whose largest timestamp is {header.max_timestamp}")
            elif timestamp < self._largest:
                self._error(self._next, f"is below the largest timestamp up to there, {self._largest}")
            self._next += 1

    def end(self, last_offset: int, *, active: bool) -> None:
        """Check the remaining entries after the segment was read to `last_offset`, its last offset.

        active: the last entry may not be written yet.
        """
        for slot in range(self._next, len(self._entries)):
            self._error(slot, f"names an offset above the segment's last offset, {last_offset}")
        last = self._entries[-1][0] if self._entries else NO_TIMESTAMP
        if not active and not self.missing and last < self._largest:
            self._report.warning(
                self.path, f"the segment's largest timestamp, {self._largest}, has no entry (the last one is {last})"
            )
