"""What compaction retains of a batch: the whole batch, a batch with fewer records, an empty batch, or nothing.

- A record is retained if it has a key and the map has no later offset for that key.
- A tombstone (a record without value) is removed when the delete horizon of its batch has passed. The first compaction
  that reads the tombstone sets the horizon to delete.retention.ms after its own time (KIP-534).
- A record without a key is invalid on a compacted topic and is removed.
- Records above the end of the map are retained.
- Data of aborted transactions is removed.
- A transaction marker gets a delete horizon when its transaction has no data left, and is removed after it.

A batch without retained records is kept as an empty batch if it is the last batch of a producer whose state is still
known (its sequence number must survive), or the last batch of the compacted range (so that a consumer's position moves
past it).
"""

from __future__ import annotations

from dataclasses import dataclass

from protocol.buffer import Buffer
from protocol.message_set import MessageSetBuilder, read_message
from protocol.record_batch import RecordBatch
from protocol.record_batch_builder import empty_batch
from protocol.record_filter import ScannedRecords, retain_records, scan_records
from storage.compaction.cleaned_transactions import CleanedTransactions
from storage.compaction.offset_map import OffsetMap
from storage.log.batch_scan import BatchHeader


@dataclass(slots=True)
class CompactionStats:
    """The counts of a compaction so far. Bytes are those of the stored (possibly compressed) batches."""

    segments_read: int = 0
    segments_written: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    records_read: int = 0
    records_written: int = 0
    invalid_records: int = 0  # records without a key
    map_bytes_read: int = 0
    map_records_read: int = 0
    map_utilization: float = 0.0


@dataclass(slots=True)
class LastRecord:
    """The last data offset (-1: only a marker is known) and the epoch of a known producer."""

    last_data_offset: int
    producer_epoch: int


class RetainedBatch:
    """A batch to be written, with the values for the indexes."""

    __slots__ = ("data", "last_offset", "max_timestamp")

    def __init__(self, data: Buffer, last_offset: int, max_timestamp: int) -> None:
        self.data = data
        self.last_offset = last_offset
        self.max_timestamp = max_timestamp


class CompactionFilter:
    """Applies the rules above to the batches of a log, in the order of the log."""

    def __init__(
        self,
        offsets: OffsetMap,
        transactions: CleanedTransactions,
        last_records: dict[int, LastRecord],
        *,
        end_offset: int,
        now_ms: int,
        delete_retention_ms: int,
        stats: CompactionStats,
    ) -> None:
        """end_offset: end of the range that may be compacted (exclusive). last_records: by producer id."""
        self._offsets = offsets
        self._transactions = transactions
        self._last_records = last_records
        self._end_offset = end_offset
        self._now_ms = now_ms
        self._delete_retention_ms = delete_retention_ms
        self._stats = stats
        self.keeps_legacy_tombstones = True
        """Whether to retain tombstones of magic 0 and 1. They have no delete horizon; the segment's age decides."""

    def filter(self, header: BatchHeader, data: memoryview) -> RetainedBatch | None:
        """Return what is retained of a batch; None if nothing is.

        Raises InvalidRecordError, CorruptRecordError or UnsupportedCompressionError if the records cannot be read.
        """
        self._stats.bytes_read += header.size
        retained = self._filter_messages(header, data) if header.magic < 2 else self._filter_batch(RecordBatch(data))
        if retained is not None:
            self._stats.bytes_written += len(retained.data)
        return retained

    def _filter_batch(self, batch: RecordBatch) -> RetainedBatch | None:
        stats = self._stats
        stats.records_read += batch.record_count
        horizon = batch.delete_horizon_ms
        is_over = horizon is not None and horizon <= self._now_ms
        if batch.is_control:
            useless = self._transactions.on_control(batch)
            emptied = useless and is_over
            gets_horizon = useless and horizon is None
        else:
            emptied = self._transactions.on_data(batch)
            gets_horizon = False
        records: ScannedRecords | None = None
        keep: list[int] = []
        if not emptied and batch.record_count:
            if batch.is_control:
                keep = list(range(batch.record_count))
                records = scan_records(batch) if gets_horizon else None
            else:
                records = scan_records(batch)
                keep = self._retained(records, tombstones_go=is_over)
                if records.tombstones and horizon is None and keep:
                    gets_horizon = not set(keep).isdisjoint(records.tombstones)
        if not keep:
            if not self._is_needed_empty(batch):
                return None
            return RetainedBatch(_without_records(batch), batch.last_offset, batch.max_timestamp)
        stats.records_written += len(keep)
        if records is None or (len(keep) == batch.record_count and not gets_horizon):
            return RetainedBatch(batch.buffer, batch.last_offset, batch.max_timestamp)
        if gets_horizon:
            horizon = self._now_ms + self._delete_retention_ms
        smaller = retain_records(batch, records, keep, horizon)
        return RetainedBatch(smaller, batch.last_offset, RecordBatch(memoryview(smaller)).max_timestamp)

    def _retained(self, records: ScannedRecords, *, tombstones_go: bool) -> list[int]:
        """Return the indexes of the retained records."""
        found = self._offsets.find_all(records.keys)
        offsets = records.offsets
        # The map returns -1 for a missing key. Offsets above the map's end are above all offsets in the map.
        keep = [index for index, last in enumerate(found) if offsets[index] >= last]
        latest = self._offsets.latest_offset
        if None in records.keys:
            keyless = {index for index, key in enumerate(records.keys) if key is None and offsets[index] <= latest}
            self._stats.invalid_records += len(keyless)
            keep = [index for index in keep if index not in keyless]
        if tombstones_go and records.tombstones:
            gone = {index for index in records.tombstones if offsets[index] <= latest}
            keep = [index for index in keep if index not in gone]
        return keep

    def _is_needed_empty(self, batch: RecordBatch) -> bool:
        if batch.next_offset == self._end_offset:
            return True
        last = self._last_records.get(batch.producer_id) if batch.has_producer_id else None
        if last is None:
            return False
        if last.last_data_offset >= 0:
            return batch.last_offset == last.last_data_offset
        return batch.is_control and batch.producer_epoch == last.producer_epoch

    def _filter_messages(self, header: BatchHeader, data: memoryview) -> RetainedBatch | None:
        """Filter a message of magic 0 or 1, which may be a wrapper around compressed messages."""
        message = read_message(data)
        records = message.records()
        found = self._offsets.find_all(record.key for record in records)
        latest = self._offsets.latest_offset
        kept = []
        for record, last in zip(records, found, strict=True):
            if record.offset > latest:
                kept.append(record)
            elif record.key is None:
                self._stats.invalid_records += 1
            elif record.offset >= last and (record.value is not None or self.keeps_legacy_tombstones):
                kept.append(record)
        self._stats.records_read += len(records)
        self._stats.records_written += len(kept)
        if not kept:
            return None
        if len(kept) == len(records):
            return RetainedBatch(data, header.last_offset, header.max_timestamp)
        timestamp_type = message.timestamp_type
        builder = MessageSetBuilder(header.magic, message.compression, timestamp_type, message.max_timestamp)
        for record in kept:
            builder.append(record.offset, record.timestamp, record.key, record.value)
        timestamp = max(record.timestamp for record in kept)
        return RetainedBatch(builder.build(), kept[-1].offset, timestamp)


def _without_records(batch: RecordBatch) -> Buffer:
    if batch.record_count == 0:
        return batch.buffer
    return empty_batch(
        batch.base_offset,
        batch.last_offset,
        max_timestamp=batch.max_timestamp,
        attributes=batch.attributes,
        producer_id=batch.producer_id,
        producer_epoch=batch.producer_epoch,
        base_sequence=batch.base_sequence,
        partition_leader_epoch=batch.partition_leader_epoch,
    )
