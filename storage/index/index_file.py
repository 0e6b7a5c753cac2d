"""What the two sparse indexes of a segment share: fixed-size entries in a file, ascending, big-endian.

Entries are appended by `pwrite` and searched by `pread`: no map, so neither a full disk nor a file that was
cut can raise a SIGBUS, and an index that nobody looks into holds no memory. The number of entries in use is
kept here, not taken from the file: what lies behind it is not part of the index. Kafka preallocates an index
with zeros while it is open; such a tail is found and ignored when the index is loaded, and cut off when the
index is trimmed.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from typing import ClassVar

from storage.errors import CorruptFileError
from storage.file_system import CachedFile, FileSystem

_BLOCK = 256  # entries that are read at once when the search has come that near


class IndexFile:
    """`entries` entries of ENTRY.size bytes each, of a segment that begins at `base_offset`."""

    __slots__ = ("base_offset", "entries", "file", "max_entries")

    ENTRY: ClassVar[struct.Struct]

    def __init__(self, fs: FileSystem, path: str, base_offset: int, max_size: int, *, create: bool = False) -> None:
        """Open the index at `path`; a new one is made with `create`. `max_size` is segment.index.bytes.

        Raises FileNotFoundError, CorruptFileError when the size is no multiple of an entry.
        """
        self.file = CachedFile(fs, path, create=create)
        self.base_offset = base_offset
        self.max_entries = max_size // self.ENTRY.size
        self.entries = 0
        if create:
            fs.ftruncate(self.file.open().fd, 0)
        else:
            self.entries = self._count_entries(fs.size(path))

    def _count_entries(self, size: int) -> int:
        """Entries in a file of `size` bytes, without the zeros that Kafka preallocates."""
        width = self.ENTRY.size
        if size % width:
            raise CorruptFileError(self.file.path, f"{size} bytes are no multiple of the entry size {width}")
        entries = size // width
        if entries == 0 or any(self._read(entries - 1)):
            return entries
        # All-zero entries are one run at the end: find where it begins.
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
        """The last slot whose `column` is at most `target`; -1 if there is none."""
        low, high = 0, self.entries
        while high - low > _BLOCK:
            middle = (low + high) // 2
            if self._read(middle)[column] <= target:
                low = middle + 1
            else:
                high = middle
        if low == high:
            return low - 1
        width = self.ENTRY.size
        block = self.file.fs.pread(self.file.open().fd, (high - low) * width, low * width)
        unpack = self.ENTRY.unpack_from
        return low + bisect_right(range(high - low), target, key=lambda slot: unpack(block, slot * width)[column]) - 1

    def read_entries(self) -> list[tuple[int, ...]]:
        """Every entry as it stands in the file: relative offsets, not absolute ones."""
        if self.entries == 0:
            return []
        data = self.file.fs.pread(self.file.open().fd, self.entries * self.ENTRY.size, 0)
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
        """Cut the file to the entries in use (preallocated zeros, an entry half written on a full disk)."""
        if self.file.fs.size(self.file.path) != self.entries * self.ENTRY.size:
            self.file.fs.ftruncate(self.file.open().fd, self.entries * self.ENTRY.size)

    def close(self) -> None:
        self.file.release()
