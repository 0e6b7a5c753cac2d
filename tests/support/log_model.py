"""A simple model of a log: a list of batches with their contents, and the offsets that follow from them.

`batches` are those that must stand on disk, byte by byte; `history` all that were ever appended and not truncated,
for a log may know of producers whose records are gone. Everything that can be worked out from them is worked out
from them, from the beginning, each time: producers, transactions, what a reader may see.

Where a start or a truncation may forget (it may, below the log start offset), the model is told what the log still
knows, refuses what no such forgetting explains, and forgets the same (`adopt`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from protocol.control_records import EndTransactionMarker
from storage.errors import (
    InvalidProducerEpochError,
    InvalidTxnStateError,
    OutOfOrderSequenceError,
    TransactionCoordinatorFencedError,
)
from storage.producers.transaction_index import AbortedTransaction

SEQUENCE_LIMIT = 1 << 31


@dataclass(slots=True)
class Batch:
    """A batch as it is on disk; records as (offset, timestamp, key, value)."""

    data: bytes
    base: int
    last: int
    epoch: int
    records: list[tuple[int, int, bytes | None, bytes | None]]
    producer: int = -1
    producer_epoch: int = -1
    sequence: int = -1
    transactional: bool = False
    marker: EndTransactionMarker | None = None
    max_timestamp: int = -1

    @property
    def last_sequence(self) -> int:
        return (self.sequence + self.last - self.base) % SEQUENCE_LIMIT


@dataclass(slots=True)
class Producer:
    """The state of a producer id: the last five batches of its newest epoch, oldest first."""

    epoch: int = -1
    coordinator_epoch: int = -1
    open_from: int = -1
    timestamp: int = -1
    batches: list[Batch] = field(default_factory=list)

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else -1

    def same_as(self, entry: Any, *, compacted: bool = False) -> bool:
        """Whether a ProducerEntry of the log says the same; of the last five batches it may know fewer.

        compacted: the newest record of the last batch may be gone, and with it the timestamp.
        """
        known = [(each.first_sequence, each.last_sequence, each.first_offset) for each in entry.batches]
        mine = iter([(each.sequence, each.last_sequence, each.base) for each in self.batches])
        return (
            (entry.producer_epoch, entry.coordinator_epoch, entry.current_txn_first_offset)
            == (self.epoch, self.coordinator_epoch, self.open_from)
            and (entry.last_timestamp == self.timestamp or (compacted and entry.last_timestamp < self.timestamp))
            and entry.last_sequence == self.last_sequence
            and all(each in mine for each in known)
        )


class Model:
    """The expected state of a log. Every method applies one operation."""

    def __init__(self) -> None:
        self.batches: list[Batch] = []
        self.history: list[Batch] = []
        self.start = self.end = self.high_watermark = self.recovery_point = 0
        self.highest_start = 0  # of all times: a crash may take the log start offset back
        self.epochs: list[tuple[int, int]] = []
        self.forgotten: set[int] = set()  # base offsets of batches that the producers' state knows nothing of
        self.hidden: set[int] = set()  # of those that are no longer known as possible duplicates
        self.unreplicated: dict[int, int] = {}  # first offset → marker of transactions that ended above the HW
        self.aborted: list[AbortedTransaction] = []  # as the indexes of this log tell it

    # -- what follows from the batches -------------------------------------------------------------

    @property
    def epoch(self) -> int:
        """The newest one. Who leads later never writes a lower one behind it."""
        return max(self.epochs[-1][0] if self.epochs else 0, self.batches[-1].epoch if self.batches else 0)

    def producers(self, *, with_hidden: bool = False) -> dict[int, Producer]:
        """with_hidden: with batches that the log did not know when it was loaded, and may have looked for since."""
        found: dict[int, Producer] = {}
        hidden = set() if with_hidden else self.hidden
        for each in self.history:
            if each.producer >= 0 and each.base not in self.forgotten:
                self._note(found, each, hidden)
        return found

    def _note(self, found: dict[int, Producer], each: Batch, hidden: set[int]) -> None:
        producer = found.setdefault(each.producer, Producer())
        if each.producer_epoch != producer.epoch:
            producer.epoch = each.producer_epoch
            producer.batches = []
        producer.timestamp = each.max_timestamp
        if each.marker is not None:
            producer.coordinator_epoch = each.marker.coordinator_epoch
            producer.open_from = -1
            return
        if each.base not in hidden:
            producer.batches = [*producer.batches, each][-5:]
        if each.transactional and producer.open_from < 0:
            producer.open_from = each.base

    @property
    def last_stable_offset(self) -> int:
        unstable = [each.open_from for each in self.producers().values() if each.open_from >= 0]
        first = min([*unstable, *self.unreplicated], default=self.high_watermark)
        return min(self.high_watermark, max(first, self.start))

    def verdict(self, batch: Batch, *, client: bool = True) -> Batch | type[Exception] | None:
        """What a leader makes of a producer's batch: the one that it repeats, the error, or None: append it."""
        known = self.producers().get(batch.producer)
        if known is None:
            return None
        if batch.marker is not None:
            if batch.producer_epoch < known.epoch:
                return InvalidProducerEpochError
            fenced = known.coordinator_epoch > batch.marker.coordinator_epoch
            return TransactionCoordinatorFencedError if fenced else None
        if client and batch.producer_epoch == known.epoch:
            for each in known.batches:
                if (each.sequence, each.last_sequence) == (batch.sequence, batch.last_sequence):
                    return each
        if batch.producer_epoch < known.epoch:
            return InvalidProducerEpochError
        expected = (known.last_sequence + 1) % SEQUENCE_LIMIT if batch.producer_epoch == known.epoch else 0
        if client and batch.sequence != expected:
            return self._hidden(batch) or OutOfOrderSequenceError
        return InvalidTxnStateError if known.open_from >= 0 and not batch.transactional else None

    def _hidden(self, batch: Batch) -> Batch | None:
        """The hidden batch that it repeats: a log may find it, or not if retention or compaction has removed it."""
        names = ("producer", "producer_epoch", "sequence", "last_sequence")
        return next(
            (
                each
                for each in reversed(self.history)
                if each.base in self.hidden and all(getattr(each, name) == getattr(batch, name) for name in names)
            ),
            None,
        )

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """OffsetForLeaderEpoch: (largest known epoch not above, where it ended)."""
        if not self.epochs or epoch > self.epochs[-1][0] or epoch < 0:
            return -1, -1
        if epoch == self.epochs[-1][0]:
            return epoch, self.end
        below = [known for known, _ in self.epochs if known <= epoch]
        return (below[-1] if below else epoch), next(start for known, start in self.epochs if known > epoch)

    def at_timestamp(self, wanted: int) -> tuple[int, int, int] | None:
        """The first record not older than `wanted`: (timestamp, offset, leader epoch)."""
        for each in self.batches:
            for offset, timestamp, _, _ in each.records:
                if timestamp >= wanted and offset >= self.start:
                    return timestamp, offset, each.epoch
        return None

    def of_max_timestamp(self) -> tuple[int, int, int] | None:
        """The first record of the largest timestamp, which one that compaction removed may have had."""
        best = max([each.max_timestamp for each in self.batches], default=-1)
        for each in self.batches:
            for offset, timestamp, _, _ in each.records:
                if timestamp == best >= 0:
                    return timestamp, offset, each.epoch
        return None

    # -- operations --------------------------------------------------------------------------------

    def append(self, batch: Batch) -> None:
        self.assign_epoch(batch.epoch, batch.base)
        if batch.marker is not None:
            producers = self.producers()
            first = producers[batch.producer].open_from if batch.producer in producers else -1
            if first >= 0:
                self.unreplicated[first] = batch.base
                if not batch.marker.committed:
                    others = [each.open_from for key, each in producers.items() if key != batch.producer]
                    stable = min([each for each in others if each >= 0], default=batch.base + 1)
                    self.aborted.append(AbortedTransaction(batch.producer, first, batch.base, stable))
        self.batches.append(batch)
        self.history.append(batch)
        self.end = batch.last + 1

    def assign_epoch(self, epoch: int, offset: int) -> None:
        if not self.epochs or epoch > self.epochs[-1][0]:
            self.epochs = [entry for entry in self.epochs if entry[1] < offset] + [(epoch, offset)]

    def move_high_watermark(self, offset: int) -> None:
        self.high_watermark = min(max(offset, self.start), self.end)
        self.unreplicated = {k: last for k, last in self.unreplicated.items() if last >= self.high_watermark}

    def move_start(self, offset: int) -> None:
        if offset > self.start:
            self.start = offset
            self.highest_start = max(self.highest_start, offset)
            self.recovery_point = max(self.recovery_point, offset)
            self.forget_epochs_below(offset)

    def forget_epochs_below(self, offset: int) -> None:
        below = [entry for entry in self.epochs if entry[1] <= offset]
        if below:
            self.epochs = [(below[-1][0], offset), *self.epochs[len(below) :]]

    def forget_epochs_from(self, offset: int) -> None:
        self.epochs = [entry for entry in self.epochs if entry[1] < offset]

    def delete_below(self, offset: int) -> None:
        """Segments below `offset` were deleted."""
        self.batches = [each for each in self.batches if each.last >= offset]

    def truncate(self, offset: int) -> None:
        """Offsets from `offset` on are gone, and with them the batch that has `offset` in its middle."""
        self.batches = [each for each in self.batches if each.last < offset]
        self.history = [each for each in self.history if each.last < offset]
        self.aborted = [each for each in self.aborted if each.last_offset < offset]
        self.forgotten = {base for base in self.forgotten if base < offset}
        self.hidden = {base for base in self.hidden if base < offset}
        self.forget_epochs_from(offset)
        self.end = offset
        self.start = min(self.start, offset)
        self.highest_start = min(self.highest_start, offset)
        self.recovery_point = min(self.recovery_point, offset)
        self.high_watermark = min(self.high_watermark, offset)

    def start_anew(self, offset: int) -> None:
        """The log is empty; the next record gets `offset`."""
        self.truncate(0)
        self.epochs, self.forgotten, self.hidden, self.unreplicated = [], set(), set(), {}
        self.start = self.highest_start = self.end = self.high_watermark = offset

    # -- what a start or a truncation may forget ---------------------------------------------------

    def adopt(self, log: Any, *, gaps: bool = False) -> None:
        """Compare with what the log knows after it was loaded or truncated, and forget what it forgot.

        gaps: compaction has removed batches, so that those known of a producer need not be its last ones in a row.
        """
        self.hidden = set()
        entries = dict(log.producers.producers)
        for producer_id in {each.producer for each in self.history if each.producer >= 0}:
            entry = entries.pop(producer_id, None)
            explained = self._forget(producer_id, entry, gaps)
            assert explained, f"producer {producer_id}: {self.producers()}, in the log {entry}"
            if entry is not None:
                known = {each.first_offset for each in entry.batches}
                mine = [each.base for each in self.history if each.producer == producer_id and each.marker is None]
                assert gaps or not known or {each for each in mine if each >= min(known)} == known
                self.hidden |= set(mine) - known
        assert not entries, f"producers in the log that never wrote: {entries}"
        ended = {each.base for each in self.history if each.marker is not None and each.base >= self.high_watermark}
        assert set(log.producers.unreplicated.values()) <= ended
        self.unreplicated = dict(log.producers.unreplicated)
        self.adopt_aborted(log)

    def _forget(self, producer_id: int, entry: Any, gaps: bool) -> bool:
        """Forget as little as explains what the log knows of the producer; False if nothing explains it.

        It may have forgotten what lay below the log start offset, and what a compaction has removed behind a snapshot.
        What was forgotten may be known again: a crash takes the log start offset back to its checkpoint. Or it stays
        forgotten, by a snapshot that was written in between.
        """
        mine = [each for each in self.history if each.producer == producer_id]
        others = self.forgotten - {each.base for each in mine}
        there = {each.base for each in self.batches if each.records or each.marker is None}
        removed = [each.base for each in mine if each.base not in there] if gaps else []
        for floor in [0, *(each.last + 1 for each in mine if each.last < self.highest_start)]:
            for first in [self.end, *reversed(removed)]:
                below = {each.base for each in mine if each.base < floor}
                self.forgotten = others | below | {base for base in removed if base >= first}
                known = self.producers().get(producer_id)
                if known is entry is None or (
                    known is not None and entry is not None and known.same_as(entry, compacted=gaps)
                ):
                    return True
        return False

    def adopt_aborted(self, log: Any) -> None:
        """Check that the indexes list exactly the aborted transactions of which a reader finds records."""
        found = [entry for segment in log.segments for entry in segment.txn_index.entries]
        by_marker = {each.last_offset: each for each in found}
        assert len(by_marker) == len(found)
        inside = {each.base for each in self.batches}
        visible_batches = [each for each in self.history if each.base in inside and each.last >= self.start]
        with_records = {each.base for each in self.batches if each.records}
        for marker in self.history:
            if marker.marker is None or marker.marker.committed or marker.base not in inside:
                continue
            entry = by_marker.pop(marker.base, None)
            own = self._transaction(marker)
            visible = [each.base for each in own if each.base in with_records and each.last >= self.start]
            if entry is None:
                assert not visible, f"the transaction that ends at {marker.base} is in no index"
                continue
            assert (entry.producer_id, entry.first_offset <= min(visible, default=marker.base)) == (
                marker.producer,
                True,
            )
            assert entry.first_offset in [each.base for each in own]
            at_least, at_most = self._open_at(marker, self.history), self._open_at(marker, visible_batches)
            assert at_least <= entry.last_stable_offset <= at_most, f"{entry}: {at_least}..{at_most}"
        assert not by_marker, f"in the transaction index, and never aborted: {by_marker}"
        self.aborted = found

    def _transaction(self, marker: Batch) -> list[Batch]:
        """The batches of the transaction that is ended by a marker."""
        found: list[Batch] = []
        for each in self.history:
            if each is marker:
                break
            if each.producer == marker.producer:
                found = [] if each.marker is not None else [*found, each] if each.transactional else found
        return found

    def _open_at(self, marker: Batch, batches: list[Batch]) -> int:
        """Where the first other transaction that is open at a marker begins, as far as these batches tell."""
        began: dict[int, int] = {}
        for each in batches:
            if each.base >= marker.base:
                break
            if each.marker is not None:
                began.pop(each.producer, None)
            elif each.transactional:
                began.setdefault(each.producer, each.base)
        began.pop(marker.producer, None)
        return min(began.values(), default=marker.base + 1)

    def shows(self, transaction: AbortedTransaction) -> bool:
        """Whether a reader finds records of an aborted transaction."""
        return any(
            each.producer == transaction.producer_id
            and each.marker is None
            and each.records
            and each.last >= self.start
            and transaction.first_offset <= each.base < transaction.last_offset
            for each in self.batches
        )
