"""The producer state of a partition: sequence numbers for idempotence, transactions for the last stable offset.

The state covers the batches below `end_offset`. A snapshot of the state is written when a segment is rolled (its name
is the new segment's base offset), when the log is closed, and after recovery. A start then replays only the batches
after the newest snapshot.

The last stable offset does not pass a completed transaction until its marker is below the high watermark.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from protocol.control_records import EndTransactionMarker, read_end_marker
from protocol.record_batch import RecordBatch
from storage.errors import CorruptFileError, LogDirIOError, TransactionCoordinatorFencedError
from storage.file_system import FileSystem
from storage.log.segment import DELETED_SUFFIX
from storage.producers.entry import BatchMetadata, ProducerEntry, batch_metadata
from storage.producers.snapshot import SNAPSHOT_SUFFIX, SnapshotEntry, decode_snapshot, encode_snapshot
from storage.producers.transaction_index import AbortedTransaction

DEFAULT_PRODUCER_ID_EXPIRATION_MS = 86_400_000


class CompletedTransaction:
    """A transaction that a marker has ended: the offsets of its first record and of the marker."""

    __slots__ = ("aborted", "first_offset", "marker_offset", "producer_id")

    def __init__(self, producer_id: int, first_offset: int, marker_offset: int, aborted: bool) -> None:
        self.producer_id = producer_id
        self.first_offset = first_offset
        self.marker_offset = marker_offset
        self.aborted = aborted


class ProducerState:
    """The state of all producers of one partition, and its snapshot files."""

    __slots__ = (
        "_fs",
        "_ongoing",
        "directory",
        "end_offset",
        "expiration_ms",
        "first_unstable_offset",
        "last_snapshot_offset",
        "producers",
        "snapshots",
        "unreplicated",
        "unsynced_snapshots",
    )

    def __init__(self, fs: FileSystem, directory: str, expiration_ms: int = DEFAULT_PRODUCER_ID_EXPIRATION_MS) -> None:
        self._fs = fs
        self.directory = directory
        self.expiration_ms = expiration_ms
        self.producers: dict[int, ProducerEntry] = {}
        self._ongoing: dict[int, int] = {}  # first offset → producer id, ascending
        self.unreplicated: dict[int, int] = {}  # completed transactions: first offset → offset of the marker
        self.first_unstable_offset: int | None = None  # lowest first offset in _ongoing and unreplicated
        self.end_offset = 0
        self.last_snapshot_offset = 0
        self.snapshots: list[int] = []  # offsets of the snapshot files, ascending
        self.unsynced_snapshots: list[str] = []

    def move_to(self, directory: str) -> None:
        """Note that the directory was renamed."""
        before = self.directory
        self.unsynced_snapshots = [path.replace(before, directory, 1) for path in self.unsynced_snapshots]
        self.directory = directory

    def snapshot_path(self, offset: int) -> str:
        return f"{self.directory}/{offset:020d}{SNAPSHOT_SUFFIX}"

    def find_snapshots(self, names: list[str]) -> None:
        """Set `snapshots` from the names of the files in the directory."""
        self.snapshots = sorted(
            int(name[:20])
            for name in names
            if name.endswith(SNAPSHOT_SUFFIX) and name[:20].isdigit() and len(name) == 29
        )

    # -- checks and updates of an append -----------------------------------------------------------

    def check_marker(self, producer_id: int, producer_epoch: int, marker: EndTransactionMarker, offset: int) -> None:
        """Raise InvalidProducerEpochError or TransactionCoordinatorFencedError if the marker's epoch is fenced."""
        entry = self.producers.get(producer_id)
        if entry is None:
            return
        entry.check_epoch(producer_epoch, offset)
        if entry.coordinator_epoch > marker.coordinator_epoch:
            raise TransactionCoordinatorFencedError(
                f"coordinator epoch {marker.coordinator_epoch} for producer {producer_id} at offset {offset} "
                f"is below the last one seen, {entry.coordinator_epoch}"
            )

    def add_batch(
        self,
        producer_id: int,
        producer_epoch: int,
        batch: BatchMetadata,
        transactional: bool,
        first_offset: int,
    ) -> None:
        """Apply an appended data batch to the state."""
        entry = self.producers.get(producer_id)
        if entry is None:
            entry = self.producers[producer_id] = ProducerEntry(producer_id)
        entry.add_batch(producer_epoch, batch)
        if transactional and entry.current_txn_first_offset < 0:
            entry.current_txn_first_offset = first_offset
            self._ongoing[first_offset] = producer_id
            self._update_first_unstable()

    def add_marker(
        self, producer_id: int, producer_epoch: int, marker: EndTransactionMarker, offset: int, timestamp: int
    ) -> CompletedTransaction | None:
        """Apply an appended marker; return the transaction that it ends, None if that has no records here."""
        entry = self.producers.get(producer_id)
        if entry is None:
            entry = self.producers[producer_id] = ProducerEntry(producer_id)
        first_offset = entry.current_txn_first_offset
        entry.end_transaction(producer_epoch, marker.coordinator_epoch, timestamp)
        if first_offset < 0:
            return None
        return CompletedTransaction(producer_id, first_offset, offset, not marker.committed)

    def complete(self, transaction: CompletedTransaction) -> AbortedTransaction | None:
        """Complete a transaction; if it was aborted, return its entry for the transaction index."""
        last_stable_offset = next(
            (first for first, producer in self._ongoing.items() if producer != transaction.producer_id),
            transaction.marker_offset + 1,
        )
        self._ongoing.pop(transaction.first_offset, None)
        self.unreplicated[transaction.first_offset] = transaction.marker_offset
        self._update_first_unstable()
        if not transaction.aborted:
            return None
        return AbortedTransaction(
            transaction.producer_id, transaction.first_offset, transaction.marker_offset, last_stable_offset
        )

    def replay(self, batch: RecordBatch) -> AbortedTransaction | None:
        """Apply a batch that is already in the log, without a check of its sequence number and epoch.

        Return the entry for the transaction index if the batch is the marker of an aborted transaction.
        """
        aborted = None
        if batch.has_producer_id:
            if batch.is_control:
                aborted = self._replay_marker(batch)
            else:
                self.add_batch(
                    batch.producer_id,
                    batch.producer_epoch,
                    batch_metadata(batch),
                    batch.is_transactional,
                    batch.base_offset,
                )
        self.end_offset = batch.next_offset
        return aborted

    def _replay_marker(self, batch: RecordBatch) -> AbortedTransaction | None:
        marker = read_end_marker(batch)
        if marker is None:
            return None
        completed = self.add_marker(
            batch.producer_id, batch.producer_epoch, marker, batch.base_offset, batch.max_timestamp
        )
        return self.complete(completed) if completed else None

    # -- transactions and the last stable offset ---------------------------------------------------

    def _update_first_unstable(self) -> None:
        first = min(self.unreplicated, default=None)
        if self._ongoing:
            ongoing = next(iter(self._ongoing))
            if first is None or ongoing < first:
                first = ongoing
        self.first_unstable_offset = first

    def high_watermark_updated(self, high_watermark: int) -> None:
        """Remove the completed transactions whose marker is below the high watermark."""
        if self.unreplicated:
            for first_offset in [first for first, last in self.unreplicated.items() if last < high_watermark]:
                del self.unreplicated[first_offset]
            self._update_first_unstable()

    def has_ongoing_transaction(self, producer_id: int) -> bool:
        entry = self.producers.get(producer_id)
        return entry is not None and entry.current_txn_first_offset >= 0

    def remove_expired(self, now_ms: int) -> None:
        """Remove the producers whose last timestamp is too old, unless a transaction of theirs is open."""
        for entry in [entry for entry in self.producers.values() if self._is_expired(entry, now_ms)]:
            del self.producers[entry.producer_id]

    def _is_expired(self, entry: ProducerEntry, now_ms: int) -> bool:
        return entry.current_txn_first_offset < 0 and now_ms - entry.last_timestamp >= self.expiration_ms

    # -- snapshots ---------------------------------------------------------------------------------

    def take_snapshot(self, *, sync: bool = False) -> None:
        """Write the state to `<end offset>.snapshot`, unless the last snapshot covers it. Raises LogDirIOError."""
        if self.end_offset <= self.last_snapshot_offset:
            return
        self._write_snapshot(self.end_offset, self._encoded(), sync=sync)

    def _encoded(self) -> bytes:
        return encode_snapshot([self.producers[producer_id].to_snapshot() for producer_id in sorted(self.producers)])

    def _write_snapshot(self, offset: int, data: bytes, *, sync: bool = False) -> None:
        path = self.snapshot_path(offset)
        self._fs.replace_file(path, data, sync=sync)
        if not sync:
            self.unsynced_snapshots.append(path)
        if offset not in self.snapshots:
            self.snapshots.append(offset)
            self.snapshots.sort()
        self.last_snapshot_offset = offset

    def take_snapshot_if_room(self) -> None:
        """Write a snapshot that only saves time at the next start: leave it out if the disk is full.

        Raises LogDirIOError for other failures.
        """
        with unless_disk_is_full():
            self.take_snapshot()

    def _load_newest_snapshot(self, log_start_offset: int, now_ms: int) -> None:
        """Load the newest valid snapshot; remove corrupt ones."""
        while self.snapshots:
            offset = self.snapshots[-1]
            path = self.snapshot_path(offset)
            try:
                entries = decode_snapshot(self._fs.read_file(path), path)
            except (CorruptFileError, FileNotFoundError):
                self._remove_snapshot(offset)
                continue
            self.restore(
                [entry for entry in entries if not self._is_expired(ProducerEntry.from_snapshot(entry), now_ms)]
            )
            self.last_snapshot_offset = self.end_offset = offset
            return
        self.last_snapshot_offset = self.end_offset = log_start_offset

    def restore(self, entries: list[SnapshotEntry]) -> None:
        """Replace the state by the entries of a snapshot."""
        self.producers = {entry.producer_id: ProducerEntry.from_snapshot(entry) for entry in entries}
        open_transactions = sorted(
            (state.current_txn_first_offset, state.producer_id)
            for state in self.producers.values()
            if state.current_txn_first_offset >= 0
        )
        self._ongoing = dict(open_transactions)
        self._update_first_unstable()

    def take_over(self, other: ProducerState) -> None:
        """Take over the state of `other`, whose log has the same records.

        `other` may know more: producers whose records have been removed since. It must not be used any more. If there
        are producers, the next `take_snapshot` writes a snapshot.
        """
        self.producers, self._ongoing, self.unreplicated = other.producers, other._ongoing, other.unreplicated
        self.end_offset = other.end_offset
        self._update_first_unstable()
        if self.producers:
            self.last_snapshot_offset = min(self.last_snapshot_offset, self.end_offset - 1)

    def adopt(self, replayed: ReplayedProducers) -> None:
        """Return to the state of a replay of this log up to an offset. Other snapshots are removed, new ones written.

        Raises LogDirIOError.
        """
        for offset in set(self.snapshots).difference(replayed.snapshots):
            self._remove_snapshot(offset)
        self.producers, self._ongoing, self.unreplicated = replayed.producers, replayed._ongoing, replayed.unreplicated
        self.end_offset = replayed.end_offset
        self.last_snapshot_offset = self.snapshots[-1] if self.snapshots else replayed.log_start_offset
        self._update_first_unstable()
        for offset, data in replayed.taken:
            with unless_disk_is_full():
                self._write_snapshot(offset, data)

    def truncate_and_reload(self, log_start_offset: int, log_end_offset: int, now_ms: int) -> None:
        """Return to a state at or before `log_end_offset`; the caller then replays the log from `end_offset`.

        Snapshots outside (log start offset, log end offset] are removed.
        """
        for offset in list(self.snapshots):
            if not log_start_offset < offset <= log_end_offset:
                self._remove_snapshot(offset)
        if log_end_offset != self.end_offset:
            self._clear()
            self._load_newest_snapshot(log_start_offset, now_ms)
        else:
            self.log_start_offset_incremented(log_start_offset)

    def log_start_offset_incremented(self, log_start_offset: int) -> None:
        """Note that the records below `log_start_offset` were removed; the state of their producers is kept."""
        self.high_watermark_updated(log_start_offset)
        self.end_offset = max(self.end_offset, log_start_offset)
        self.last_snapshot_offset = self.snapshots[-1] if self.snapshots else log_start_offset

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Clear the state and remove all snapshots; the log restarts at `offset`."""
        self._clear()
        for snapshot in list(self.snapshots):
            self._remove_snapshot(snapshot)
        self.last_snapshot_offset = 0
        self.end_offset = offset

    def remove_snapshots_above(self, offset: int) -> set[int]:
        """Remove the snapshots above `offset`; return their offsets.

        After a power cut, the log above `offset` may differ from the log that the snapshots describe.
        """
        above = {snapshot for snapshot in self.snapshots if snapshot > offset}
        for snapshot in above:
            self._remove_snapshot(snapshot)
        return above

    def remove_stray_snapshots(self, base_offsets: set[int]) -> None:
        """Remove all snapshots except those of segments and the newest one, which a clean shutdown has written."""
        newest_segment = max(base_offsets, default=0)
        for offset in list(self.snapshots):
            if offset not in base_offsets and (offset < newest_segment or offset != self.snapshots[-1]):
                self._remove_snapshot(offset)

    def remove_snapshot_of(self, base_offset: int) -> str | None:
        """Rename the snapshot of a deleted segment to `.deleted`; return the new path, None if there is no snapshot."""
        if base_offset not in self.snapshots:
            return None
        self.snapshots.remove(base_offset)
        path = self.snapshot_path(base_offset)
        try:
            self._fs.rename(path, path + DELETED_SUFFIX)
        except FileNotFoundError:
            return None
        return path + DELETED_SUFFIX

    def _remove_snapshot(self, offset: int) -> None:
        self.snapshots.remove(offset)
        self._fs.remove(self.snapshot_path(offset))

    def _clear(self) -> None:
        self.producers.clear()
        self._ongoing.clear()
        self.unreplicated.clear()
        self.first_unstable_offset = None


class ReplayedProducers(ProducerState):
    """The state of a log's producers at an offset, replayed in another thread: it changes no file."""

    __slots__ = ("log_start_offset", "taken")

    def __init__(self, current: ProducerState, fs: FileSystem, log_start_offset: int) -> None:
        """current: the state of the log, whose snapshots this one begins with. fs: no other thread uses it."""
        super().__init__(fs, current.directory, current.expiration_ms)
        self.log_start_offset = log_start_offset
        self.snapshots = list(current.snapshots)
        self.taken: list[tuple[int, bytes]] = []
        """The snapshots to write: offset and content."""

    def take_snapshot(self, *, sync: bool = False) -> None:
        """Keep a snapshot for `ProducerState.adopt`."""
        if self.end_offset > self.last_snapshot_offset:
            self.taken.append((self.end_offset, self._encoded()))
            self.last_snapshot_offset = self.end_offset

    def _remove_snapshot(self, offset: int) -> None:
        self.snapshots.remove(offset)


@contextlib.contextmanager
def unless_disk_is_full() -> Iterator[None]:
    """Leave out what only saves time if the disk is full. Raises LogDirIOError for other failures."""
    try:
        yield
    except LogDirIOError as error:
        if not error.is_disk_full:
            raise
