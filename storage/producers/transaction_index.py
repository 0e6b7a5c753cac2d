"""`<base offset>.txnindex`: the aborted transactions whose marker is in the segment, in the order of the markers.

Entry, 34 bytes, big-endian: version 0 (int16), producer id, first offset, last offset (the marker's), last stable
offset when the marker was written (int64 each). The file is created with the first entry. A read_committed fetch
returns the entries that overlap the fetched range.
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

    If the disk is full, an entry stays in memory and is written later: its marker is in the log, so readers need the
    entry. Until it is written, the recovery point does not move past the marker.
    """

    __slots__ = ("_written", "base_offset", "entries", "file")

    def __init__(self, fs: FileSystem, path: str, base_offset: int) -> None:
        self.base_offset = base_offset
        self.file = CachedFile(fs, path, create=True)
        self.entries: list[AbortedTransaction] = []
        self._written = 0  # how many of the entries are in the file

    def load(self) -> None:
        """Read the file, if it exists. Raises CorruptFileError if an entry is invalid."""
        try:
            data = self.file.fs.read_file(self.file.path)
        except FileNotFoundError:
            return
        entries = []
        if len(data) % _ENTRY.size:
            raise CorruptFileError(self.file.path, f"{len(data)} bytes are not a multiple of {_ENTRY.size}")
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
        """Add an aborted transaction after its marker was written; a failed write to the file is repeated later."""
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
        """Remove all entries, also those in the file that were not loaded."""
        self.entries = []
        self._written = 0
        if self.file.fs.exists(self.file.path):
            self.file.fs.ftruncate(self.file.open().fd, 0)

    def collect(self, fetch_offset: int, upper_bound: int) -> tuple[list[AbortedTransaction], bool]:
        """Return the entries that overlap [fetch_offset, upper_bound), and whether later segments cannot have more."""
        found = []
        for entry in self.entries:
            if entry.last_offset >= fetch_offset and entry.first_offset < upper_bound:
                found.append(entry)
            if entry.last_stable_offset >= upper_bound:
                return found, True
        return found, False

    def close(self) -> None:
        self.file.release()
