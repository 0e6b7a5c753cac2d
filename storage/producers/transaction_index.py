"""`<base offset>.txnindex`: the aborted transactions whose marker stands in the segment, in the order of
markers.

Entry, 34 bytes, big-endian: version 0 (int16), producer id, first offset, last offset (the marker's), last
stable offset at that moment (int64 each). The file exists only once there is an entry. A reader of committed
data is told of those that overlap what it fetched.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from storage.errors import CorruptFileError, LogDirIOError
from storage.file_system import CachedFile, FileSystem

_ENTRY = struct.Struct(">hqqqq")
_VERSION = 0


class AbortedTransaction(NamedTuple):
    """An aborted transaction of one producer in one partition; offsets are absolute and inclusive."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class TransactionIndex:
    """The aborted transactions of one segment, held in memory (they are few) and appended to the file.

    An entry that finds no room on the disk is kept, since its marker is in the log and readers must hear of it, and
    written later: before that, the recovery point does not move past the marker.
    """

    __slots__ = ("_written", "base_offset", "entries", "file")

    def __init__(self, fs: FileSystem, path: str, base_offset: int) -> None:
        self.base_offset = base_offset
        self.file = CachedFile(fs, path, create=True)
        self.entries: list[AbortedTransaction] = []
        self._written = 0  # how many of them are in the file

    def load(self) -> None:
        """Read the file, if there is one. Raises CorruptFileError on an entry that cannot be."""
        try:
            data = self.file.fs.read_file(self.file.path)
        except FileNotFoundError:
            return
        entries = []
        if len(data) % _ENTRY.size:
            raise CorruptFileError(self.file.path, f"{len(data)} bytes are no multiple of {_ENTRY.size}")
        for version, *fields in _ENTRY.iter_unpack(data):
            if version > _VERSION or version < 0:
                raise CorruptFileError(self.file.path, f"unknown version {version}")
            entry = AbortedTransaction(*fields)
            if entry.last_offset < self.base_offset:
                raise CorruptFileError(
                    self.file.path, f"last offset {entry.last_offset} is below base offset {self.base_offset}"
                )
            entries.append(entry)
        self.entries = entries
        self._written = len(entries)

    def append(self, transaction: AbortedTransaction) -> None:
        """Add an aborted transaction whose marker has just been written; the file follows as soon as it can."""
        self.entries.append(transaction)
        try:
            self.write_pending()
        except OSError as error:
            self.file.fs.failed(self.file.path, error)
        except LogDirIOError:
            pass

    def write_pending(self) -> None:
        """Write the entries that are not in the file yet. Raises OSError, LogDirIOError."""
        file = self.file
        while self._written < len(self.entries):
            entry = _ENTRY.pack(_VERSION, *self.entries[self._written])
            file.fs.write_all(file.open().fd, entry, self._written * _ENTRY.size)
            self._written += 1

    def truncate_to(self, offset: int) -> None:
        """Remove the transactions whose marker is at `offset` or above."""
        keep = 0
        while keep < len(self.entries) and self.entries[keep].last_offset < offset:
            keep += 1
        if keep < len(self.entries):
            del self.entries[keep:]
            self._written = min(self._written, keep)
            self.file.fs.ftruncate(self.file.open().fd, keep * _ENTRY.size)

    def reset(self) -> None:
        """Remove every entry, whatever the file holds."""
        self.entries = []
        self._written = 0
        if self.file.fs.exists(self.file.path):
            self.file.fs.ftruncate(self.file.open().fd, 0)

    def collect(self, fetch_offset: int, upper_bound: int) -> tuple[list[AbortedTransaction], bool]:
        """Those that overlap [fetch_offset, upper_bound), and whether no later segment can hold another."""
        found = []
        for entry in self.entries:
            if entry.last_offset >= fetch_offset and entry.first_offset < upper_bound:
                found.append(entry)
            if entry.last_stable_offset >= upper_bound:
                return found, True
        return found, False

    def close(self) -> None:
        self.file.release()
