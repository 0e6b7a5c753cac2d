"""`<base offset>.index`: maps offsets to positions in the segment file, one entry every `index.interval.bytes`.

Entry, 8 bytes: offset relative to the segment's base offset (int32), position of the batch in the file (int32). The
offset is the *last* one of the append that begins at the position. Both ascend.

Most reads are near the end of the log, so the newest entries that this process has written are also kept in memory,
where a lookup is one bisection in C. Older entries, and those of closed segments, are read from the file.
"""

from __future__ import annotations

import struct
from array import array
from bisect import bisect_right
from typing import NamedTuple, Self

from storage.file_system import FileSystem
from storage.index.index_file import IndexFile

_KEEP = 1024  # entries kept in memory: 4 MiB of log at the default interval


class IndexProbe(NamedTuple):
    """One comparison of a lookup: the entry of `slot`, when the result was one of the slots from `low` to `high` - 1.

    The offset is absolute.
    """

    slot: int
    offset: int
    position: int
    low: int
    high: int


class OffsetIndex(IndexFile):
    """The offset index of one segment. `last_offset` is the absolute offset of the last entry."""

    __slots__ = ("_recent_offsets", "_recent_positions", "_recent_start", "last_offset")

    ENTRY = struct.Struct(">ii")

    def __init__(self, fs: FileSystem, path: str, base_offset: int, max_size: int, *, create: bool = False) -> None:
        super().__init__(fs, path, base_offset, max_size, create=create)
        self._forget_recent()

    def view(self, fs: FileSystem) -> Self:
        """See `IndexFile.view`. The copy reads all entries from the file: appends change those in memory."""
        view = super().view(fs)
        view._recent_start = view.entries
        view._recent_offsets, view._recent_positions = array("I"), array("I")
        return view

    def _forget_recent(self) -> None:
        # Slots from _recent_start on are in memory.
        self._recent_start = self.entries
        self._recent_offsets = array("I")
        self._recent_positions = array("I")
        self.last_offset = self.base_offset
        if self.entries:
            self.last_offset += self._read(self.entries - 1)[0]

    @property
    def is_full(self) -> bool:
        return self.entries >= self.max_entries

    def append(self, offset: int, position: int) -> None:
        """Add an entry. The index must not be full, and `offset` must be above `last_offset`. Raises OSError."""
        relative = offset - self.base_offset
        self._write(self.ENTRY.pack(relative, position))
        self.last_offset = offset
        recent = self._recent_offsets
        recent.append(relative)
        self._recent_positions.append(position)
        if len(recent) > 2 * _KEEP:
            del recent[:_KEEP]
            del self._recent_positions[:_KEEP]
            self._recent_start += _KEEP

    def extend(self, entries: list[tuple[int, int]]) -> None:
        """Add ascending (offset, position) entries in one write. Raises OSError."""
        if entries:
            self._write_many([self.ENTRY.pack(offset - self.base_offset, position) for offset, position in entries])
            self._forget_recent()

    def is_in_memory(self, offset: int) -> bool:
        """Whether `lookup` needs no read."""
        recent = self._recent_offsets
        return self._recent_start == 0 or (len(recent) > 0 and offset - self.base_offset >= recent[0])

    def lookup(self, offset: int) -> int:
        """Return the position of the last entry that is not above `offset`; 0 if there is none.

        The batch that holds `offset` begins at or after this position.
        """
        relative = offset - self.base_offset
        recent = self._recent_offsets
        if recent and relative >= recent[0]:
            return self._recent_positions[bisect_right(recent, relative) - 1]
        if self._recent_start == 0 or relative < 0:
            return 0
        slot, entry = self._floor(relative, 0)
        return entry[1] if slot >= 0 else 0

    def probes(self, offset: int) -> tuple[int, list[IndexProbe]]:
        """Return what `lookup` returns for an index that is not in memory, and its comparisons, in order."""
        relative = offset - self.base_offset
        low, high = 0, self.entries
        probes: list[IndexProbe] = []

        def probed(slot: int, entry: tuple[int, ...]) -> None:
            nonlocal low, high
            probes.append(IndexProbe(slot, self.base_offset + entry[0], entry[1], low, high))
            if entry[0] <= relative:
                low = slot
            else:
                high = slot

        slot, entry = self._floor(relative, 0, probed)
        return entry[1] if slot >= 0 else 0, probes

    def position_before(self, offset: int, entries: int) -> int:
        """Return the position of the entry that is `entries` before that of `offset`; 0 if there are fewer."""
        slot = self._floor_slot(offset - self.base_offset, 0) - entries
        return self._read(slot)[1] if slot >= 0 else 0

    def offset_at_or_after(self, position: int) -> int | None:
        """Return the absolute offset of the first entry at or after `position`; None if there is none."""
        slot = self._floor_slot(position - 1, 1) + 1
        return self.base_offset + self._read(slot)[0] if slot < self.entries else None

    def truncate_to(self, offset: int) -> None:
        """Remove the entries of `offset` and above."""
        self._truncate_entries(self._floor_slot(offset - self.base_offset - 1, 0) + 1)

    def _truncate_entries(self, entries: int) -> None:
        self.entries = entries
        self.file.fs.ftruncate(self.file.open().fd, entries * self.ENTRY.size)
        self._forget_recent()

    def absolute_entries(self, first: int = 0, count: int | None = None) -> list[tuple[int, int]]:
        """Return (absolute offset, position) of the entries from a slot on, by default of all."""
        return [(self.base_offset + relative, position) for relative, position in self.read_entries(first, count)]
