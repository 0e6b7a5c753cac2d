"""The base class of a segment's two sparse indexes: fixed-size entries in a file, ascending, big-endian.

Entries are appended with `pwrite` and searched with `pread`. There is no mmap, so neither a full disk nor a truncated
file can raise SIGBUS, and an unused index holds no memory. `IndexFile.entries` is the number of entries in use, not
the size of the file: bytes after these entries are not part of the index. Kafka preallocates an open index with zeros;
such a tail is ignored when the index is loaded and cut off when it is trimmed.
"""

from __future__ import annotations

import copy
import struct
from bisect import bisect_right
from collections.abc import Callable
from typing import ClassVar, Self, TypeAlias

from storage.errors import CorruptFileError
from storage.file_system import CachedFile, FileSystem

_BLOCK = 512  # a binary search reads its last _BLOCK entries at once

Probed: TypeAlias = Callable[[int, tuple[int, ...]], None]
"""Called with the slot and the entry of each comparison of a binary search."""


class IndexFile:
    """An index of `entries` entries of ENTRY.size bytes each, for the segment that begins at `base_offset`."""

    __slots__ = ("base_offset", "entries", "file", "max_entries")

    ENTRY: ClassVar[struct.Struct]

    def __init__(self, fs: FileSystem, path: str, base_offset: int, max_size: int, *, create: bool = False) -> None:
        """Open the index at `path`; with `create`, begin an empty one. `max_size` is segment.index.bytes.

        Raises FileNotFoundError; CorruptFileError if the file's size is not a multiple of the entry size.
        """
        self.file = CachedFile(fs, path, create=create)
        self.base_offset = base_offset
        self.max_entries = max_size // self.ENTRY.size
        self.entries = 0
        if create:
            fs.ftruncate(self.file.open().fd, 0)
        else:
            self.entries = self._count_entries(fs.size(path))

    def view(self, fs: FileSystem) -> Self:
        """Return a copy for reads in another thread: the present entries, with an open file of its own.

        fs: opens the file; no other thread uses it.
        """
        view = copy.copy(self)
        view.file = CachedFile(fs, self.file.path)
        return view

    def _count_entries(self, size: int) -> int:
        """Return the number of entries in a file of `size` bytes, without the zeros that Kafka preallocates."""
        width = self.ENTRY.size
        if size % width:
            raise CorruptFileError(self.file.path, f"{size} bytes are not a multiple of the entry size {width}")
        entries = size // width
        if entries == 0 or any(self._read(entries - 1)):
            return entries
        # The all-zero entries are at the end: find the first of them.
        low, high = 0, entries - 1
        while low < high:
            middle = (low + high) // 2
            if any(self._read(middle)):
                low = middle + 1
            else:
                high = middle
        return low

    def _read(self, slot: int) -> tuple[int, ...]:
        width = self.ENTRY.size
        file = self.file
        return self.ENTRY.unpack(file.fs.pread(file.open().fd, width, slot * width))

    def _floor_slot(self, target: int, column: int) -> int:
        """Return the last slot whose `column` is at most `target`; -1 if there is none."""
        return self._floor(target, column)[0]

    def _floor(self, target: int, column: int, probed: Probed | None = None) -> tuple[int, tuple[int, ...]]:
        """Return the last slot whose `column` is at most `target`, and its entry; -1 and () if there is none."""
        low, high = 0, self.entries
        while high - low > _BLOCK:
            middle = (low + high) // 2
            entry = self._read(middle)
            if probed is not None:
                probed(middle, entry)
            if entry[column] <= target:
                low = middle
            else:
                high = middle
        if low == high:
            return -1, ()
        width = self.ENTRY.size
        block = self.file.fs.pread(self.file.open().fd, (high - low) * width, low * width)
        unpack = self.ENTRY.unpack_from

        def value(slot: int) -> int:
            found = unpack(block, slot * width)
            if probed is not None:
                probed(low + slot, found)
            return int(found[column])

        number = bisect_right(range(high - low), target, key=value) - 1
        return (low + number, unpack(block, number * width)) if number >= 0 else (-1, ())

    def read_entries(self, first: int = 0, count: int | None = None) -> list[tuple[int, ...]]:
        """Return entries from a slot on, by default all, as they are in the file, with relative offsets."""
        available = max(self.entries - first, 0)
        count = available if count is None else min(count, available)
        if count == 0:
            return []
        width = self.ENTRY.size
        data = self.file.fs.pread(self.file.open().fd, count * width, first * width)
        return list(self.ENTRY.iter_unpack(data))

    def _write(self, entry: bytes) -> None:
        file = self.file
        handle = file.handle or file.open()
        file.used = True
        file.fs.write_all(handle.fd, entry, self.entries * len(entry))
        self.entries += 1

    def _write_many(self, entries: list[bytes]) -> None:
        file = self.file
        file.fs.write_all(file.open().fd, b"".join(entries), self.entries * self.ENTRY.size)
        self.entries += len(entries)

    def trim(self) -> None:
        """Truncate the file to the entries in use: cut off preallocated zeros or a partly written entry (full disk)."""
        if self.file.fs.size(self.file.path) != self.entries * self.ENTRY.size:
            self.file.fs.ftruncate(self.file.open().fd, self.entries * self.ENTRY.size)

    def close(self) -> None:
        self.file.release()
