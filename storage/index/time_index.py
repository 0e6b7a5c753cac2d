"""`<base offset>.timeindex`: maps timestamps to offsets; written with an entry of the offset index, if the largest
timestamp has increased.

Entry, 12 bytes: timestamp in ms (int64), offset relative to the segment's base offset (int32). They are the largest
timestamp in the segment so far and the last offset of the batch that has it. Both ascend. The last slot is reserved
for the entry that is added when the segment is closed or rolled.
"""

from __future__ import annotations

import struct

from protocol.record import NO_TIMESTAMP
from storage.file_system import FileSystem
from storage.index.index_file import IndexFile


class TimeIndex(IndexFile):
    """The time index of one segment. `last_timestamp` and `last_offset` (absolute) are those of the last entry."""

    __slots__ = ("last_offset", "last_timestamp")

    ENTRY = struct.Struct(">qi")

    def __init__(self, fs: FileSystem, path: str, base_offset: int, max_size: int, *, create: bool = False) -> None:
        super().__init__(fs, path, base_offset, max_size, create=create)
        self._load_last()

    def _count_entries(self, size: int) -> int:
        # A single entry may be all zeros in a trimmed file: timestamp 0 at the base offset.
        return 1 if size == self.ENTRY.size else super()._count_entries(size)

    def _load_last(self) -> None:
        self.last_timestamp, self.last_offset = NO_TIMESTAMP, self.base_offset
        if self.entries:
            timestamp, relative = self._read(self.entries - 1)
            self.last_timestamp, self.last_offset = timestamp, self.base_offset + relative

    @property
    def is_full(self) -> bool:
        return self.entries >= self.max_entries - 1

    def maybe_append(self, timestamp: int, offset: int) -> None:
        """Add an entry if `timestamp` is above `last_timestamp`. Raises OSError."""
        if timestamp > self.last_timestamp and offset >= self.last_offset:
            self._write(self.ENTRY.pack(timestamp, offset - self.base_offset))
            self.last_timestamp = timestamp
            self.last_offset = offset

    def extend(self, entries: list[tuple[int, int]]) -> None:
        """Add (timestamp, offset) entries, ascending in both, in one write. Raises OSError."""
        if entries:
            self._write_many([self.ENTRY.pack(timestamp, offset - self.base_offset) for timestamp, offset in entries])
            self._load_last()

    def lookup(self, timestamp: int) -> tuple[int, int]:
        """Return (timestamp, absolute offset) of the last entry that is not above `timestamp`.

        Return (-1, base offset) if there is none.
        """
        slot, entry = self._floor(timestamp, 0)
        return (entry[0], self.base_offset + entry[1]) if slot >= 0 else (NO_TIMESTAMP, self.base_offset)

    def truncate_to(self, offset: int) -> None:
        """Remove the entries of `offset` and above."""
        self._truncate_entries(self._floor_slot(offset - self.base_offset - 1, 1) + 1)

    def _truncate_entries(self, entries: int) -> None:
        self.entries = entries
        self.file.fs.ftruncate(self.file.open().fd, entries * self.ENTRY.size)
        self._load_last()

    def absolute_entries(self, first: int = 0, count: int | None = None) -> list[tuple[int, int]]:
        """Return (timestamp, absolute offset) of the entries from a slot on, by default of all."""
        return [(timestamp, self.base_offset + relative) for timestamp, relative in self.read_entries(first, count)]
