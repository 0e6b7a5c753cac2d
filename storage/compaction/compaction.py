"""Log compaction: keep the last of all records with the same key (Kafka's log cleaner, KIP-58, KIP-98, KIP-534).

A job names a log's directory, its segments and two offsets. Below the first dirty offset the log was compacted before.
From there to the end offset, the last offset of every key is put into a map (`OffsetMap`), until the map is full. Then
all segments from the first one up to the end of the map are read, and the retained batches (`CompactionFilter`) are
written to `.cleaned` files. Adjacent segments that fit into one segment are merged, so that repeated compaction does
not leave ever smaller segments. The caller swaps in each group when it is finished (`CompactionRun`).

This module only reads and writes files, without a `Log`, a clock or threads, so it also runs in a worker process. The
checksum of every batch is verified, so that compaction does not write a valid checksum for damaged data.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any, Self

from protocol.message_set import read_message
from protocol.record_batch import RecordBatch
from protocol.record_filter import scan_records
from storage.compaction.cleaned_segment import CleanedSegment, remove_cleaned
from storage.compaction.cleaned_transactions import CleanedTransactions
from storage.compaction.filter import CompactionFilter, CompactionStats, LastRecord
from storage.compaction.offset_map import OffsetMap
from storage.file_system import FileSystem
from storage.log.batch_scan import BatchHeader, iter_valid_batches
from storage.log.segment import INDEX_SUFFIX, MAX_RELATIVE_OFFSET, TIME_INDEX_SUFFIX, LogSegment
from storage.producers.transaction_index import AbortedTransaction


@dataclass(slots=True)
class CompactionJob:
    """The parameters of a compaction: plain values, so that they can be sent to another process.

    segments: (base offset, size in bytes) of every segment but the active one, ascending. end_offset: base offset of
    the first segment that must not be compacted. active_aborted: the transaction index of the active segment.
    last_records: (producer id, last data offset, -1 if there is none, epoch). now_ms: the time for delete horizons.
    """

    directory: str
    segments: list[tuple[int, int]]
    first_dirty_offset: int
    end_offset: int
    active_aborted: list[AbortedTransaction]
    last_records: list[tuple[int, int, int]]
    now_ms: int
    delete_retention_ms: int
    segment_bytes: int
    segment_index_bytes: int
    index_interval_bytes: int
    dedupe_buffer_bytes: int
    dedupe_load_factor: float
    io_buffer_bytes: int

    def to_json(self) -> dict[str, Any]:
        """Return the job as values that JSON can represent."""
        return asdict(self)

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> Self:
        """Return the job from the value of `to_json`."""
        job = cls(**fields)
        job.active_aborted = [AbortedTransaction(*entry) for entry in fields["active_aborted"]]
        return job


@dataclass(slots=True)
class CleanedGroup:
    """A finished `.cleaned` segment: its base offset, and the base offsets of the segments that it replaces."""

    base_offset: int
    sources: list[int]


@dataclass(slots=True)
class CompactionResult:
    """The result of a job: the log is now compacted below `end_offset`."""

    end_offset: int
    stats: CompactionStats


class Compaction:
    """Runs one job. `pace` is called with the number of bytes of each read and write; it may wait or raise."""

    def __init__(self, job: CompactionJob, fs: FileSystem, pace: Callable[[int], None] = lambda size: None) -> None:
        self._job = job
        self._fs = fs
        self._pace = pace
        self.stats = CompactionStats()
        self._segments = [self._segment(base, size) for base, size in job.segments]
        self._offsets = OffsetMap(
            job.dedupe_buffer_bytes, job.dedupe_load_factor, max(job.end_offset - job.first_dirty_offset, 0)
        )

    def _segment(self, base_offset: int, size: int) -> LogSegment:
        job = self._job
        segment = LogSegment(
            self._fs,
            job.directory,
            base_offset,
            index_interval_bytes=job.index_interval_bytes,
            max_index_bytes=job.segment_index_bytes,
            now_ms=job.now_ms,
        )
        segment.size = size
        return segment

    def run(self) -> Iterator[CleanedGroup]:
        """Run the job; yield each group when its files are on disk.

        If a group fails, its files are removed. Raises CorruptRecordError, InvalidRecordError,
        UnsupportedCompressionError or CorruptFileError for a log that cannot be compacted, OSError, and the exceptions
        of `pace`.
        """
        job = self._job
        if job.first_dirty_offset >= job.end_offset:
            self._offsets.latest_offset = job.first_dirty_offset - 1
            return
        self._build_map()
        transactions = CleanedTransactions()
        batches = CompactionFilter(
            self._offsets,
            transactions,
            {producer_id: LastRecord(offset, epoch) for producer_id, offset, epoch in job.last_records},
            end_offset=job.end_offset,
            now_ms=job.now_ms,
            delete_retention_ms=job.delete_retention_ms,
            stats=self.stats,
        )
        legacy_horizon_ms = self._legacy_horizon_ms()
        for first, end in self._groups(min(self.end_offset, job.end_offset)):
            yield self._clean(first, end, batches, transactions, legacy_horizon_ms)

    @property
    def end_offset(self) -> int:
        """The end of the map: after `run`, the log is compacted below this offset."""
        return self._offsets.latest_offset + 1

    @property
    def result(self) -> CompactionResult:
        return CompactionResult(self.end_offset, self.stats)

    # -- the map -----------------------------------------------------------------------------------

    def _build_map(self) -> None:
        """Put the last offset of every key into the map, from the first dirty offset, until the map is full."""
        job, offsets, stats = self._job, self._offsets, self.stats
        start = job.first_dirty_offset
        transactions = CleanedTransactions()
        for number, segment in enumerate(self._segments):
            following = self._end_of(number)
            if following <= start or segment.base_offset >= job.end_offset:
                continue
            transactions.add_aborted(self._aborted(number, max(start, segment.base_offset), job.end_offset))
            found = segment.translate(start) if start > segment.base_offset else (0, 0)
            position = segment.size if found is None else found[0]
            for header, data in iter_valid_batches(
                segment.file, segment.size, position, chunk_bytes=job.io_buffer_bytes, on_read=self._pace
            ):
                stats.map_bytes_read += header.size
                if not self._note(header, data, transactions):
                    stats.map_utilization = offsets.utilization
                    segment.release()
                    return
                offsets.latest_offset = max(offsets.latest_offset, header.last_offset)
            # The segment is read completely: also cover offsets that compaction removed at its end.
            offsets.latest_offset = following - 1
            segment.release()
        stats.map_utilization = offsets.utilization

    def _note(self, header: BatchHeader, data: memoryview, transactions: CleanedTransactions) -> bool:
        """Put the keys of a batch into the map; return False if the map was full before the last key."""
        offsets, start = self._offsets, self._job.first_dirty_offset
        if header.magic < 2:
            records = read_message(data).records()
            self.stats.map_records_read += len(records)
            return offsets.put_all([record.key for record in records], [record.offset for record in records], start)
        batch = RecordBatch(data)
        self.stats.map_records_read += batch.record_count
        if batch.is_control:
            transactions.on_control(batch)
            return True
        if transactions.on_data(batch) or not batch.record_count:
            return True
        scanned = scan_records(batch)
        return offsets.put_all(scanned.keys, scanned.offsets, start)

    def _end_of(self, number: int) -> int:
        """Return the end of segment `number`: the next segment's base offset, at most the job's end offset."""
        segments = self._segments
        following = segments[number + 1].base_offset if number + 1 < len(segments) else self._job.end_offset
        return min(following, self._job.end_offset)

    def _aborted(self, number: int, start: int, end: int) -> list[AbortedTransaction]:
        """Return the aborted transactions that overlap [start, end); `start` is in segment `number`."""
        aborted: list[AbortedTransaction] = []
        for segment in self._segments[number:]:
            found, complete = segment.txn_index.collect(start, end)
            aborted += found
            if complete:
                return aborted
        return aborted + [
            entry for entry in self._job.active_aborted if entry.last_offset >= start and entry.first_offset < end
        ]

    # -- the segments ------------------------------------------------------------------------------

    def _legacy_horizon_ms(self) -> int:
        """Return the modification time of the last clean segment minus delete.retention.ms; 0 if there is none.

        Segments that were modified earlier lose their tombstones of magic 0 and 1: these are old enough.
        """
        clean = [segment for segment in self._segments if segment.base_offset < self._job.first_dirty_offset]
        return self._fs.modified_ms(clean[-1].file.path) - self._job.delete_retention_ms if clean else 0

    def _groups(self, end_offset: int) -> list[tuple[int, int]]:
        """Return the segments below `end_offset` in groups [first, end) whose data fits into one segment."""
        job = self._job
        groups: list[tuple[int, int]] = []
        sizes = (0, 0, 0)
        for number, segment in enumerate(self._segments):
            if segment.base_offset >= end_offset:
                break
            own = (segment.size, self._index_size(segment, INDEX_SUFFIX), self._index_size(segment, TIME_INDEX_SUFFIX))
            if groups:
                first, end = groups[-1]
                together = (sizes[0] + own[0], sizes[1] + own[1], sizes[2] + own[2])
                span = self._end_of(number) - 1 - self._segments[first].base_offset
                if (
                    together[0] <= job.segment_bytes
                    and max(together[1:]) <= job.segment_index_bytes
                    and (segment.size == 0 or span <= MAX_RELATIVE_OFFSET)
                ):
                    groups[-1] = first, end + 1
                    sizes = together
                    continue
            groups.append((number, number + 1))
            sizes = own
        return groups

    def _index_size(self, segment: LogSegment, suffix: str) -> int:
        return self._fs.size(segment.path(suffix))

    def _clean(
        self,
        first: int,
        end: int,
        batches: CompactionFilter,
        transactions: CleanedTransactions,
        legacy_horizon_ms: int,
    ) -> CleanedGroup:
        """Write the retained batches of the segments [first, end) to one `.cleaned` segment."""
        job, pace, stats = self._job, self._pace, self.stats
        sources = self._segments[first:end]
        base_offset = sources[0].base_offset
        cleaned = CleanedSegment(
            self._fs,
            job.directory,
            base_offset,
            index_interval_bytes=job.index_interval_bytes,
            max_index_bytes=job.segment_index_bytes,
            buffer_bytes=job.io_buffer_bytes,
        )
        transactions.keep = cleaned.append_aborted
        modified_ms = 0
        try:
            for number, segment in enumerate(sources, first):
                modified_ms = self._fs.modified_ms(segment.file.path)
                batches.keeps_legacy_tombstones = modified_ms > legacy_horizon_ms
                transactions.add_aborted(self._aborted(number, segment.base_offset, self._end_of(number)))
                for header, data in iter_valid_batches(
                    segment.file, segment.size, chunk_bytes=job.io_buffer_bytes, on_read=pace
                ):
                    retained = batches.filter(header, data)
                    if retained is not None:
                        written = cleaned.append(retained)
                        if written:
                            pace(written)
                segment.release()
                stats.segments_read += 1
            pace(cleaned.finish(modified_ms))
        except BaseException:
            cleaned.close()
            remove_cleaned(self._fs, job.directory, base_offset)
            raise
        stats.segments_written += 1
        return CleanedGroup(base_offset, [segment.base_offset for segment in sources])
