"""Checks a partition's producer snapshots and transaction indexes against a replay of its log.

The replay is that of recovery (`ProducerState.replay`). It is complete if the log begins at offset 0, or if the
snapshot of its first segment is readable; otherwise the earlier batches are unknown and are not checked. A producer
that is in the log but not in a snapshot has expired, unless its transaction is open. If compaction has removed batches
and markers, the replay is not complete: then only entries that are invalid for every log are errors.
"""

from __future__ import annotations

from protocol.errors import InvalidRecordError
from protocol.record_batch import RecordBatch
from storage.errors import CorruptFileError
from storage.file_system import FileSystem
from storage.log.batch_scan import BatchHeader
from storage.log.segment import TXN_INDEX_SUFFIX
from storage.producers.snapshot import SNAPSHOT_SUFFIX, SnapshotEntry, decode_snapshot
from storage.producers.state import ProducerState
from storage.producers.transaction_index import AbortedTransaction, TransactionIndex
from storage.verification.report import VerificationReport

_CONTROL = 0x20


class ProducerCheck:
    """Checks the batches of a partition, segment by segment."""

    def __init__(
        self, fs: FileSystem, directory: str, first_offset: int, snapshots: list[int], report: VerificationReport
    ) -> None:
        """first_offset: base offset of the first segment. snapshots: offsets of the snapshot files, ascending."""
        self._fs = fs
        self._directory = directory
        self._first_offset = first_offset
        self._report = report
        self._state = ProducerState(fs, directory)
        self._snapshots: dict[int, list[SnapshotEntry]] = {}
        for offset in snapshots:
            entries = self._read_snapshot(offset)
            if entries is not None:
                self._snapshots[offset] = entries
        known = self._snapshots.get(first_offset)
        self._complete = first_offset == 0 or known is not None
        if known is not None:
            self._state.restore(known)
        self._pending = [offset for offset in self._snapshots if offset > first_offset]
        self._aborted: list[AbortedTransaction] = []
        self.compacted = False

    def _path(self, offset: int) -> str:
        return f"{self._directory}/{offset:020d}{SNAPSHOT_SUFFIX}"

    def _read_snapshot(self, offset: int) -> list[SnapshotEntry] | None:
        path = self._path(offset)
        try:
            return decode_snapshot(self._fs.read_file(path), path)
        except FileNotFoundError:
            return None  # removed meanwhile
        except CorruptFileError as error:
            self._report.error(path, error.rule)
            return None

    def batch(self, header: BatchHeader, data: memoryview) -> None:
        """Process the next batch of the log."""
        while self._pending and self._pending[0] <= header.base_offset:
            self._compare(self._pending.pop(0))
        if header.producer_id < 0:
            return
        batch = RecordBatch(data)
        try:
            aborted = self._state.replay(batch)
        except InvalidRecordError:
            return  # SegmentCheck has reported it
        if header.attributes & _CONTROL:
            self._state.high_watermark_updated(batch.next_offset)  # no need to keep completed transactions
        if aborted is not None:
            self._aborted.append(aborted)

    def segment_end(self, stem: str, *, whole: bool) -> None:
        """Check the transaction index after all batches of a segment. stem: the segment's path without suffix."""
        path = stem + TXN_INDEX_SUFFIX
        expected, self._aborted = self._aborted, []
        index = TransactionIndex(self._fs, path, int(stem[-20:]))
        try:
            index.load()
        except CorruptFileError as error:
            self._report.error(path, error.rule)
            return
        if whole:
            self._compare_aborted(path, index.entries, expected)

    def _compare_aborted(
        self, path: str, entries: list[AbortedTransaction], expected: list[AbortedTransaction]
    ) -> None:
        found = {entry.last_offset: entry for entry in entries}
        wanted = {entry.last_offset: entry for entry in expected}
        if [entry.last_offset for entry in entries] != sorted(found):
            self._report.error(path, "the entries are not in the order of their markers, or one is repeated")
        for marker, entry in found.items():
            if entry.first_offset > marker:
                self._report.error(path, f"{entry}: the first offset is above the last offset", offset=marker)
            elif marker not in wanted:
                # The marker or its data may be below the known part of the log, or removed by compaction.
                if self._complete and not self.compacted:
                    self._report.error(path, f"{entry} has no marker in the segment", offset=marker)
            elif entry != wanted[marker] and self._complete and not self.compacted:
                self._report.error(path, f"{entry}, but the log says {wanted[marker]}", offset=marker)
        for marker, entry in wanted.items():
            if marker not in found and not self.compacted:
                self._report.error(path, f"the aborted transaction {entry} is missing", offset=marker)

    def end(self, log_end_offset: int) -> None:
        """Compare the snapshots above the last batch, after the log was read to its end."""
        for offset in self._pending:
            if offset <= log_end_offset:
                self._compare(offset)

    def _compare(self, offset: int) -> None:
        path = self._path(offset)
        snapshot = {entry.producer_id: entry for entry in self._snapshots[offset]}
        for producer_id, entry in snapshot.items():
            if entry.last_offset >= offset or entry.current_txn_first_offset >= offset:
                self._report.error(path, f"producer {producer_id} has offsets at or above {offset}: {entry}")
                continue
            known = self._state.producers.get(producer_id)
            if self.compacted:
                continue
            if known is None:
                if self._complete or entry.last_offset >= self._first_offset:
                    self._report.error(path, f"producer {producer_id} is not in the log: {entry}")
            elif not _agree(entry, known.to_snapshot(), complete=self._complete, first_offset=self._first_offset):
                self._report.error(path, f"producer {producer_id} is {entry}, but the log says {known.to_snapshot()}")
        for producer_id, known in self._state.producers.items():
            if producer_id in snapshot:
                continue
            if known.current_txn_first_offset >= 0:
                self._report.error(path, f"producer {producer_id} with an open transaction is missing")


def _agree(stored: SnapshotEntry, replayed: SnapshotEntry, *, complete: bool, first_offset: int) -> bool:
    """Whether a snapshot's entry agrees with the replay. If a producer's state was removed (it expired, or was idle for
    longer than the retention) before the producer wrote again, fields that depend on the removed state are -1.
    """
    if stored == replayed:
        return True
    if stored.producer_epoch != replayed.producer_epoch or stored.timestamp != replayed.timestamp:
        return False
    unknown = stored.last_offset < 0 or (not complete and stored.last_offset < first_offset)
    if not unknown and stored[2:5] != replayed[2:5]:
        return False
    if stored.coordinator_epoch not in (-1, replayed.coordinator_epoch) and complete:
        return False
    before = not complete and 0 <= stored.current_txn_first_offset < first_offset
    return before or stored.current_txn_first_offset == replayed.current_txn_first_offset
