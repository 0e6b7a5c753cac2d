"""Log compaction: of all records with the same key the last one stays (Kafka's log cleaner, KIP-58, KIP-98, KIP-534).

A job names a log directory, its segments and two offsets. Below the first dirty offset the log has been compacted
before; from there up to the end offset the last offset of every key goes into a map (`OffsetMap`), as far as that has
room. Then every segment up to where the map reaches is read again, from the first one on, and what stays
(`CompactionFilter`) is written to `.cleaned` files. Neighbours that fit into one segment together become one, so that
segments do not shrink for ever. Whoever runs the job swaps each group in when it is there (`CompactionRun`).

Nothing here knows a `Log`, a clock or a thread: it reads and writes files, in the broker's process or in one of its
own. Every batch that is read is checked against its checksum, so that compaction does not put a valid one on damaged
data.
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
    """What to compact and how; plain values, so that it can be sent to another process.

    segments: (base offset, size in bytes) of every segment but the active one, ascending. end_offset: the base offset
    of the first segment that must not be touched. active_aborted: the transaction index of the active segment.
    last_records: producer id, last data offset (-1: none), epoch. now_ms: the delete horizons are measured by it.
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
        """The job as JSON can hold it."""
        return asdict(self)

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> Self:
        """The job that `to_json` described."""
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
    """How a job ended: below `end_offset` the log is compacted now."""

    end_offset: int
    stats: CompactionStats


class Compaction:
    """One job at work. `pace` is called with the bytes of each read and write, and may wait or raise."""

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
        """Do the job; each group is yielded when its files are on disk.

        The files of a group that fails half-way are removed. Raises CorruptRecordError, InvalidRecordError,
        UnsupportedCompressionError, CorruptFileError for a log that cannot be compacted, OSError, and what `pace`
        raises.
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
        """Where the map ends: below it the log is compacted when `run` is through."""
        return self._offsets.latest_offset + 1

    @property
    def result(self) -> CompactionResult:
        return CompactionResult(self.end_offset, self.stats)

    # -- the map -----------------------------------------------------------------------------------

    def _build_map(self) -> None:
        """Note the last offset of every key from the first dirty offset on, until the map is full."""
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
            # Offsets that compaction removed at the end of the segment.
            offsets.latest_offset = following - 1
            segment.release()
        stats.map_utilization = offsets.utilization

    def _note(self, header: BatchHeader, data: memoryview, transactions: CleanedTransactions) -> bool:
        """Put the keys of a batch into the map; False: it was full before the last one."""
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
        """The base offset of the segment behind (the active one is not in the list, but the end of the job is)."""
        segments = self._segments
        following = segments[number + 1].base_offset if number + 1 < len(segments) else self._job.end_offset
        return min(following, self._job.end_offset)

    def _aborted(self, number: int, start: int, end: int) -> list[AbortedTransaction]:
        """The aborted transactions that overlap [start, end), the first of which is in segment `number`."""
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
        """Segments written to before it lose the tombstones of magic 0 and 1: they were compacted long enough ago."""
        clean = [segment for segment in self._segments if segment.base_offset < self._job.first_dirty_offset]
        return self._fs.modified_ms(clean[-1].file.path) - self._job.delete_retention_ms if clean else 0

    def _groups(self, end_offset: int) -> list[tuple[int, int]]:
        """The segments that begin below `end_offset` in runs [first, end) that fit into one segment each."""
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
        """Write what stays of the segments [first, end) into one."""
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
