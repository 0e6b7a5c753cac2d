"""Writing a compacted segment: the four files of a segment, each with the suffix `.cleaned`.

The files do not belong to the log until they are swapped in; a start removes them. When `finish` returns, the files
and their directory entries are on disk. The log file then has the modification time of the newest source segment,
which is the segment's age if its records have no timestamps.
"""

from __future__ import annotations

from protocol.record import NO_TIMESTAMP
from storage.compaction.filter import RetainedBatch
from storage.file_system import CachedFile, FileSystem
from storage.index.offset_index import OffsetIndex
from storage.index.time_index import TimeIndex
from storage.log.segment import (
    INDEX_SUFFIX,
    LOG_SUFFIX,
    SEGMENT_SUFFIXES,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
    file_name,
)
from storage.producers.transaction_index import AbortedTransaction, TransactionIndex

CLEANED_SUFFIX = ".cleaned"
_MAX_POSITION = 0x7FFFFFFF


class CleanedSegment:
    """A compacted segment that is being written. `size` is in bytes.

    Index entries are added as in `LogSegment.append`, with each batch as an append.
    """

    def __init__(
        self,
        fs: FileSystem,
        directory: str,
        base_offset: int,
        *,
        index_interval_bytes: int,
        max_index_bytes: int,
        buffer_bytes: int,
    ) -> None:
        """Create empty files; remove those of an earlier attempt. Raises OSError."""
        self._fs = fs
        self._directory = directory
        self.base_offset = base_offset
        self._index_interval_bytes = index_interval_bytes
        self._buffer_bytes = buffer_bytes
        self._buffer = bytearray()
        self._written = 0
        self._since_entry = 0
        self._max_timestamp, self._offset_of_max_timestamp = NO_TIMESTAMP, base_offset
        remove_cleaned(fs, directory, base_offset)
        self._file = CachedFile(fs, self._path(LOG_SUFFIX), create=True)
        self._file.open()
        self._offset_index = OffsetIndex(fs, self._path(INDEX_SUFFIX), base_offset, max_index_bytes, create=True)
        self._time_index = TimeIndex(fs, self._path(TIME_INDEX_SUFFIX), base_offset, max_index_bytes, create=True)
        self._txn_index = TransactionIndex(fs, self._path(TXN_INDEX_SUFFIX), base_offset)

    def _path(self, suffix: str) -> str:
        return f"{self._directory}/{file_name(self.base_offset, suffix)}{CLEANED_SUFFIX}"

    @property
    def size(self) -> int:
        return self._written + len(self._buffer)

    def append(self, batch: RetainedBatch) -> int:
        """Add a batch; return the number of bytes written to the file. Raises OSError."""
        if batch.max_timestamp > self._max_timestamp:
            self._max_timestamp, self._offset_of_max_timestamp = batch.max_timestamp, batch.last_offset
        if self._since_entry > self._index_interval_bytes and self.size <= _MAX_POSITION:
            if not self._offset_index.is_full:
                self._offset_index.append(batch.last_offset, self.size)
            if not self._time_index.is_full:
                self._time_index.maybe_append(self._max_timestamp, self._offset_of_max_timestamp)
            self._since_entry = 0
        self._since_entry += len(batch.data)
        self._buffer += batch.data
        return self._flush() if len(self._buffer) >= self._buffer_bytes else 0

    def append_aborted(self, transaction: AbortedTransaction) -> None:
        """Add an entry to the transaction index. Raises OSError."""
        self._txn_index.append(transaction)

    def _flush(self) -> int:
        size = len(self._buffer)
        if size:
            self._fs.write_all(self._file.open().fd, self._buffer, self._written)
            self._written += size
            self._buffer = bytearray()
        return size

    def finish(self, modified_ms: int) -> int:
        """Write the rest and sync all files; return the number of bytes written to the log file. Raises OSError."""
        written = self._flush()
        self._time_index.maybe_append(self._max_timestamp, self._offset_of_max_timestamp)
        files = [self._file, self._offset_index.file, self._time_index.file]
        if self._txn_index.entries:
            files.append(self._txn_index.file)
        self._fs.set_modified_ms(self._file.path, modified_ms)
        for file in files:
            self._fs.fsync(file.open().fd)
        self.close()
        self._fs.sync_directory(self._directory)
        return written

    def close(self) -> None:
        """Release the descriptors."""
        self._file.release()
        for index in (self._offset_index, self._time_index, self._txn_index):
            index.close()


def remove_cleaned(fs: FileSystem, directory: str, base_offset: int) -> None:
    """Remove the `.cleaned` files of one segment. Raises OSError."""
    for suffix in SEGMENT_SUFFIXES:
        fs.remove(f"{directory}/{file_name(base_offset, suffix)}{CLEANED_SUFFIX}")


def remove_all_cleaned(fs: FileSystem, directory: str) -> None:
    """Remove all `.cleaned` files in a log's directory, which need not exist. Raises OSError."""
    try:
        for entry in fs.list_directory(directory):
            if entry.name.endswith(CLEANED_SUFFIX):
                fs.remove(entry.path)
    except FileNotFoundError:
        pass
