"""One segment of a log: `<base offset>.log` with its `.index`, `.timeindex` and `.txnindex`.

`base_offset` is a lower bound of the offsets in the segment and, with 20 digits, the name of its four files. Only the
last segment of a log is written to. `size` is the end of the appended batches; a write that failed may have left
bytes behind it, which do not belong to the segment.

An append adds an index entry if more than `index.interval.bytes` were appended since the last entry. The entry has the
start position of that append and its last offset. Roll and close add an entry for the largest timestamp. Indexes are
opened when they are first needed.
"""

from __future__ import annotations

import contextlib
import copy

from protocol.buffer import Buffer
from protocol.record import NO_TIMESTAMP
from storage.file_system import CachedFile, FileSystem, OpenFile
from storage.index.offset_index import OffsetIndex
from storage.index.time_index import TimeIndex
from storage.log.batch_scan import Pread, find_batch, iter_headers
from storage.producers.transaction_index import TransactionIndex

LOG_SUFFIX = ".log"
INDEX_SUFFIX = ".index"
TIME_INDEX_SUFFIX = ".timeindex"
TXN_INDEX_SUFFIX = ".txnindex"
SEGMENT_SUFFIXES = (LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX)
DELETED_SUFFIX = ".deleted"

MAX_RELATIVE_OFFSET = 0x7FFFFFFF
NEVER = -(1 << 62)
WARM_MS = 60_000


def file_name(base_offset: int, suffix: str) -> str:
    """Kafka's name of a segment's file: 20 digits and the suffix."""
    return f"{base_offset:020d}{suffix}"


class LogSegment:
    """A segment on disk. `append` raises LogDirIOError if the operating system fails, other methods OSError."""

    __slots__ = (
        "_offset_index",
        "_time_index",
        "_txn_index",
        "base_offset",
        "bytes_since_index_entry",
        "created_ms",
        "directory",
        "file",
        "fs",
        "index_interval_bytes",
        "max_index_bytes",
        "max_timestamp",
        "offset_of_max_timestamp",
        "roll_jitter_ms",
        "rolling_timestamp",
        "size",
        "timestamp_known",
        "warm_at_ms",
    )

    def __init__(
        self,
        fs: FileSystem,
        directory: str,
        base_offset: int,
        *,
        index_interval_bytes: int,
        max_index_bytes: int,
        now_ms: int,
        roll_jitter_ms: int = 0,
        create: bool = False,
        suffix: str = "",
    ) -> None:
        """A segment whose files exist. With `create`: an empty segment, whose log and two indexes are created."""
        self.fs = fs
        self.directory = directory
        self.base_offset = base_offset
        self.index_interval_bytes = index_interval_bytes
        self.max_index_bytes = max_index_bytes
        self.created_ms = now_ms
        self.roll_jitter_ms = roll_jitter_ms
        self.bytes_since_index_entry = 0
        # Largest timestamp of the first append, from which segment.ms is measured. None if not known yet.
        self.rolling_timestamp: int | None = None
        # Largest timestamp and the last offset of its batch; `load_max_timestamp` reads them from the time index.
        self.max_timestamp = NO_TIMESTAMP
        self.offset_of_max_timestamp = base_offset
        self.timestamp_known = create
        # When the offset index was last read: then it is in the page cache.
        self.warm_at_ms = now_ms if create else NEVER
        self._offset_index: OffsetIndex | None = None
        self._time_index: TimeIndex | None = None
        self._txn_index: TransactionIndex | None = None
        self.file = CachedFile(fs, self.path(LOG_SUFFIX) + suffix, create=create)
        if create:
            self.size = 0
            try:
                self.file.open()
                self.create_indexes()
            except BaseException:
                self.release()
                raise
        else:
            self.size = fs.size(self.file.path)

    def create_indexes(self) -> None:
        """Create empty indexes, for a new segment or before a recovery."""
        for index in (self._offset_index, self._time_index, self._txn_index):
            if index is not None:
                index.close()
        path, base, size = self.path, self.base_offset, self.max_index_bytes
        self._offset_index = OffsetIndex(self.fs, path(INDEX_SUFFIX), base, size, create=True)
        self._time_index = TimeIndex(self.fs, path(TIME_INDEX_SUFFIX), base, size, create=True)
        self._txn_index = TransactionIndex(self.fs, path(TXN_INDEX_SUFFIX), base)
        self._txn_index.reset()
        self.max_timestamp, self.offset_of_max_timestamp = NO_TIMESTAMP, base
        self.timestamp_known = True

    def path(self, suffix: str) -> str:
        return f"{self.directory}/{self.base_offset:020d}{suffix}"

    @property
    def offset_index(self) -> OffsetIndex:
        index = self._offset_index
        if index is None:
            index = self._offset_index = OffsetIndex(
                self.fs, self.path(INDEX_SUFFIX), self.base_offset, self.max_index_bytes
            )
        return index

    @property
    def time_index(self) -> TimeIndex:
        index = self._time_index
        if index is None:
            index = self._time_index = TimeIndex(
                self.fs, self.path(TIME_INDEX_SUFFIX), self.base_offset, self.max_index_bytes
            )
        return index

    @property
    def txn_index(self) -> TransactionIndex:
        index = self._txn_index
        if index is None:
            index = TransactionIndex(self.fs, self.path(TXN_INDEX_SUFFIX), self.base_offset)
            index.load()
            self._txn_index = index
        return index

    def load_max_timestamp(self) -> None:
        """Read `max_timestamp` and its offset from the last time index entry, unless they are known."""
        if not self.timestamp_known:
            index = self.time_index
            self.max_timestamp, self.offset_of_max_timestamp = index.last_timestamp, index.last_offset
            self.timestamp_known = True

    def adopt_max_timestamp(self, view: LogSegment) -> None:
        """Keep what `load_max_timestamp` has read for a copy of this segment."""
        if not self.timestamp_known:
            self.max_timestamp, self.offset_of_max_timestamp = view.max_timestamp, view.offset_of_max_timestamp
            self.timestamp_known = True

    def is_warm(self, offset: int, now_ms: int) -> bool:
        """Whether a lookup of `offset` finds its index entries in memory, or most likely in the page cache."""
        index = self._offset_index
        if index is None:
            return False
        if not index.is_in_memory(offset):
            if now_ms - self.warm_at_ms > WARM_MS:
                return False
            self.warm_at_ms = now_ms
        return True

    def view(self, fs: FileSystem) -> LogSegment:
        """Return a copy for reads in another thread: the segment as it is now, with open files of its own.

        fs: opens the files; no other thread uses it. Call this on the log's thread; for a segment that is not the
        active one, any thread may call it. `release` closes the files of the copy.
        """
        timestamp_known = self.timestamp_known  # first: it is set after the timestamp
        offsets, times = self._offset_index, self._time_index
        view = copy.copy(self)
        view.fs = fs
        view.file = CachedFile(fs, self.file.path)
        view._offset_index = None if offsets is None else offsets.view(fs)
        view._time_index = None if times is None else times.view(fs)
        view._txn_index = None
        view.timestamp_known = timestamp_known
        return view

    @property
    def largest_timestamp(self) -> int:
        """The largest timestamp of a record, or the file's modification time if records have none."""
        self.load_max_timestamp()
        return self.max_timestamp if self.max_timestamp >= 0 else self.fs.modified_ms(self.file.path)

    @property
    def has_index_room(self) -> bool:
        """Whether everything that an append uses is loaded, and both indexes have room for an entry."""
        offsets, times = self._offset_index, self._time_index
        return (
            self.timestamp_known
            and offsets is not None
            and times is not None
            and offsets.entries < offsets.max_entries
            and times.entries < times.max_entries - 1
        )

    def should_roll(
        self, size: int, last_offset: int, timestamp: int, max_bytes: int, max_ms: int, now_ms: int
    ) -> bool:
        """Whether an append of `size` bytes up to `last_offset` needs a new segment.

        timestamp: the largest one of the append. The segment's age is the time between it and the first append's.
        """
        self.load_max_timestamp()
        if self.size > max(max_bytes - size, 0) or last_offset - self.base_offset > MAX_RELATIVE_OFFSET:
            return True
        if self.size:
            if self.rolling_timestamp is None:
                self._load_rolling_timestamp()
            first = self.rolling_timestamp
            waited = timestamp - first if first is not None and first >= 0 else now_ms - self.created_ms
            if waited > max_ms - self.roll_jitter_ms:
                return True
        return self.offset_index.is_full or self.time_index.is_full

    @property
    def first_batch_timestamp(self) -> int | None:
        """The largest timestamp of the first batch; None in an empty segment."""
        if self.rolling_timestamp is None:
            self._load_rolling_timestamp()
        return self.rolling_timestamp

    def _load_rolling_timestamp(self) -> None:
        for header in iter_headers(self.file, 0, self.size):
            self.rolling_timestamp = header.max_timestamp
            break

    def append(self, records: Buffer, size: int, last_offset: int, timestamp: int, offset_of_timestamp: int) -> None:
        """Append `size` bytes of whole batches up to `last_offset`.

        `timestamp` is the largest one, `offset_of_timestamp` the last offset of its batch. Raises LogDirIOError; the
        segment is unchanged then.
        """
        position = self.size
        file = self.file
        handle: OpenFile | None = None
        try:
            handle = file.handle or file.open()
            file.used = True
            written = self.fs.pwrite(handle.fd, records, position)
            if written != size:
                self.fs.write_all(handle.fd, memoryview(records)[written:], position + written)
        except OSError as error:
            if handle is not None:
                with contextlib.suppress(OSError):
                    self.fs.ftruncate(handle.fd, position)
            raise self.fs.failed(file.path, error, extent=(position, size)) from error
        self.size = position + size
        if position == 0:
            self.rolling_timestamp = timestamp
        if timestamp > self.max_timestamp:
            self.max_timestamp = timestamp
            self.offset_of_max_timestamp = offset_of_timestamp
        if self.bytes_since_index_entry > self.index_interval_bytes:
            try:
                self.offset_index.append(last_offset, position)
                self.time_index.maybe_append(self.max_timestamp, self.offset_of_max_timestamp)
                self.bytes_since_index_entry = size
            except OSError:
                # The index may be sparser than configured. The next append tries again.
                self.bytes_since_index_entry += size
        else:
            self.bytes_since_index_entry += size

    def translate(self, offset: int, start: int = 0, pread: Pread | None = None) -> tuple[int, int] | None:
        """(position, size) of the batch with `offset`, or of the next one; None behind the last.

        start: a position that is not behind that batch. pread: see `find_batch`.
        """
        indexed = self.offset_index.lookup(offset)
        return find_batch(self.file, indexed if indexed > start else start, self.size, offset, pread)

    def next_offset(self) -> int:
        """The offset behind the last batch; the base offset of an empty segment. Reads the end of the file."""
        if self.size == 0:
            return self.base_offset
        last = self.base_offset - 1
        for header in iter_headers(self.file, self.offset_index.lookup(self.offset_index.last_offset), self.size):
            last = header.last_offset
        return last + 1

    def trim(self) -> None:
        """Remove the bytes behind the last batch: preallocated ones, or those of a failed write."""
        with contextlib.suppress(OSError):
            if self.fs.size(self.file.path) > self.size:
                self.fs.ftruncate(self.file.open().fd, self.size)

    def become_inactive(self) -> None:
        """Prepare for a roll: add the entry of the largest timestamp, and cut the files to size.

        Raises OSError: without that entry the segment would look older after the next start.
        """
        self.trim()
        self.load_max_timestamp()
        self.time_index.maybe_append(self.max_timestamp, self.offset_of_max_timestamp)
        if self._txn_index is not None:
            self._txn_index.write_pending()
        self.offset_index.trim()
        self.time_index.trim()

    def truncate_to(self, offset: int) -> int:
        """Remove the batch with `offset` and those behind it; returns the number of bytes removed."""
        found = self.translate(offset)
        self.offset_index.truncate_to(offset)
        self.time_index.truncate_to(offset)
        self.txn_index.truncate_to(offset)
        removed = 0
        if found is not None:
            removed = self.size - found[0]
            self.fs.ftruncate(self.file.open().fd, found[0])
            self.size = found[0]
        if self.size == 0:
            self.rolling_timestamp = None
        self.bytes_since_index_entry = 0
        self.timestamp_known = False
        self.load_max_timestamp()
        self._scan_max_timestamp()
        return removed

    def _scan_max_timestamp(self) -> None:
        """Look for a larger timestamp behind the last time index entry."""
        start = self.offset_index.lookup(self.offset_of_max_timestamp)
        for header in iter_headers(self.file, start, self.size):
            if header.max_timestamp > self.max_timestamp:
                self.max_timestamp = header.max_timestamp
                self.offset_of_max_timestamp = header.last_offset

    def files(self) -> list[str]:
        """Paths of the existing files."""
        paths = [self.path(suffix) for suffix in SEGMENT_SUFFIXES]
        return [path for path in paths if self.fs.exists(path)]

    def files_to_sync(self, *, is_active: bool) -> list[OpenFile]:
        """The files of the segment, opened; an index only if it was used. Raises OSError.

        What a full disk kept from being written is written first: entries of aborted transactions, and if the segment
        is not the active one, that of the largest timestamp, without which it would look older after the next start.
        """
        if not is_active:
            self._add_largest_timestamp()
        files = [self.file.open()]
        if self._offset_index is not None:
            files.append(self._offset_index.file.open())
        if self._time_index is not None:
            files.append(self._time_index.file.open())
        if self._txn_index is not None and self._txn_index.entries:
            self._txn_index.write_pending()
            files.append(self._txn_index.file.open())
        return files

    def seal(self) -> None:
        """Write what a clean stop leaves: the entry of the largest timestamp, indexes cut to size. Raises OSError.

        Segments that were not used since they were loaded have both already.
        """
        try:
            self._add_largest_timestamp()
        finally:
            for index in (self._offset_index, self._time_index):
                if index is not None:
                    index.trim()

    def _add_largest_timestamp(self) -> None:
        if self.timestamp_known and self._time_index is not None:
            self._time_index.maybe_append(self.max_timestamp, self.offset_of_max_timestamp)

    def release(self) -> None:
        """Drop the descriptors and the indexes; nothing is written."""
        self.file.release()
        for index in (self._offset_index, self._time_index, self._txn_index):
            if index is not None:
                index.close()
        self._offset_index = self._time_index = self._txn_index = None

    def move_to(self, directory: str) -> None:
        """Note that the directory was renamed."""
        self.release()
        self.directory = directory
        self.file.path = self.path(LOG_SUFFIX)

    def rename_deleted(self) -> list[str]:
        """Add the suffix `.deleted` to the files; returns the new paths. Open reads are not affected."""
        renamed = []
        self.release()
        for path in self.files():
            self.fs.rename(path, path + DELETED_SUFFIX)
            renamed.append(path + DELETED_SUFFIX)
        self.file.path += DELETED_SUFFIX
        return renamed

    def __repr__(self) -> str:
        return f"LogSegment(base_offset={self.base_offset}, size={self.size}, directory={self.directory!r})"
