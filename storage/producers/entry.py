"""The state of one producer id in a partition, and the checks of a new batch against it.

Rules for batches from a client (KIP-98 and KIP-360, as in Kafka 3.9):

- A batch with the epoch, first and last sequence number of one of the last five batches is a duplicate. The answer has
  the offsets of the first write.
- A snapshot holds only the last batch of a producer. Earlier ones are looked for in the log when a client repeats what
  may be one of them (`may_have_forgotten`, `recall`). Kafka does not look, and reports them as out of order; a client
  that had several batches in flight when the broker stopped then writes them twice, or fails.
- An epoch below the last one seen is fenced.
- A new epoch begins with sequence number 0.
- Within an epoch, a batch begins with the sequence number after the last batch's; after 2^31-1 comes 0.
- An unknown producer id may begin with any sequence number: retention may have deleted its earlier batches. Or they
  were refused: a lower sequence number does not mean that a batch was written.
"""

from __future__ import annotations

from typing import NamedTuple

from protocol.record_batch import NO_PRODUCER_EPOCH, NO_SEQUENCE, RecordBatch
from storage.errors import InvalidProducerEpochError, InvalidTxnStateError, OutOfOrderSequenceError
from storage.producers.snapshot import SnapshotEntry

BATCHES_TO_RETAIN = 5
_SEQUENCE_MASK = 0x7FFFFFFF
_HALF_OF_SEQUENCES = 1 << 30


class BatchMetadata(NamedTuple):
    """One of the last batches of a producer. `offset_delta` is last minus first offset, `timestamp` the largest one."""

    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int

    @property
    def first_sequence(self) -> int:
        return (self.last_sequence - self.offset_delta) & _SEQUENCE_MASK

    @property
    def first_offset(self) -> int:
        return self.last_offset - self.offset_delta


class ProducerEntry:
    """The state of one producer id in one partition."""

    __slots__ = (
        "batches",
        "coordinator_epoch",
        "current_txn_first_offset",
        "has_forgotten",
        "last_timestamp",
        "producer_epoch",
        "producer_id",
    )

    def __init__(self, producer_id: int) -> None:
        self.producer_id = producer_id
        self.producer_epoch = NO_PRODUCER_EPOCH
        self.coordinator_epoch = -1
        self.last_timestamp = -1
        self.current_txn_first_offset = -1  # -1: no transaction is open
        self.batches: list[BatchMetadata] = []  # oldest first, at most BATCHES_TO_RETAIN
        self.has_forgotten = False  # whether earlier batches of this epoch may be missing in `batches`

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    @property
    def last_data_offset(self) -> int:
        return self.batches[-1].last_offset if self.batches else -1

    def find_duplicate(self, producer_epoch: int, first_sequence: int, last_sequence: int) -> BatchMetadata | None:
        """Return the retained batch with exactly this epoch and range of sequence numbers; None if there is none."""
        if producer_epoch == self.producer_epoch:
            for batch in self.batches:
                if batch.last_sequence == last_sequence and batch.first_sequence == first_sequence:
                    return batch
        return None

    def check_epoch(self, producer_epoch: int, offset: int) -> None:
        """Raise InvalidProducerEpochError if the epoch is fenced."""
        if producer_epoch < self.producer_epoch:
            raise InvalidProducerEpochError(
                f"epoch of producer {self.producer_id} at offset {offset} is {producer_epoch}, "
                f"which is below the last one seen, {self.producer_epoch}"
            )

    def check_sequence(self, producer_epoch: int, first_sequence: int, offset: int) -> None:
        """Raise OutOfOrderSequenceError if a client's batch does not follow the last one."""
        known = self.producer_epoch
        if producer_epoch != known:
            if first_sequence != 0 and known != NO_PRODUCER_EPOCH:
                raise OutOfOrderSequenceError(
                    f"sequence number {first_sequence} at offset {offset}, but the new epoch "
                    f"{producer_epoch} of producer {self.producer_id} must begin with 0 (last epoch {known})"
                )
        elif known != NO_PRODUCER_EPOCH:
            batches = self.batches
            last = batches[-1].last_sequence if batches else NO_SEQUENCE
            if first_sequence != last + 1 and not (first_sequence == 0 and last == _SEQUENCE_MASK):
                raise OutOfOrderSequenceError(
                    f"sequence number {first_sequence} of producer {self.producer_id} at offset {offset} "
                    f"does not follow the last sequence number, {last}"
                )

    def may_have_forgotten(self, producer_epoch: int, last_sequence: int) -> bool:
        """Whether a batch that ends with this sequence number may be in the log, before those in `batches`."""
        if not self.has_forgotten or producer_epoch != self.producer_epoch or not self.batches:
            return False
        distance = (self.batches[0].first_sequence - last_sequence) & _SEQUENCE_MASK
        return 0 < distance < _HALF_OF_SEQUENCES

    def recall(self, earlier: list[BatchMetadata]) -> None:
        """Add the batches of this epoch that the log has before those in `batches`, oldest first."""
        room = BATCHES_TO_RETAIN - len(self.batches)
        self.batches[:0] = earlier[max(0, len(earlier) - room) :]
        self.has_forgotten = False

    def check_transactional(self, transactional: bool, offset: int) -> None:
        """Raise InvalidTxnStateError for a non-transactional batch inside an open transaction."""
        if self.current_txn_first_offset >= 0 and not transactional:
            raise InvalidTxnStateError(
                f"expected a transactional write from producer {self.producer_id} at offset {offset}"
            )

    def add_batch(self, producer_epoch: int, batch: BatchMetadata) -> None:
        """Add an appended data batch to the state."""
        batches = self.batches
        if producer_epoch != self.producer_epoch:
            self.producer_epoch = producer_epoch
            self.has_forgotten = False
            batches.clear()
        elif len(batches) == BATCHES_TO_RETAIN:
            self.has_forgotten = False
            del batches[0]
        batches.append(batch)
        self.last_timestamp = batch.timestamp

    def end_transaction(self, producer_epoch: int, coordinator_epoch: int, timestamp: int) -> None:
        """Apply an appended transaction marker to the state."""
        if producer_epoch != self.producer_epoch:
            self.producer_epoch = producer_epoch
            self.batches.clear()
        self.coordinator_epoch = coordinator_epoch
        self.current_txn_first_offset = -1
        self.last_timestamp = timestamp

    def to_snapshot(self) -> SnapshotEntry:
        last = self.batches[-1] if self.batches else None
        return SnapshotEntry(
            self.producer_id,
            self.producer_epoch,
            last.last_sequence if last else NO_SEQUENCE,
            last.last_offset if last else -1,
            last.offset_delta if last else 0,
            self.last_timestamp,
            self.coordinator_epoch,
            self.current_txn_first_offset,
        )

    @classmethod
    def from_snapshot(cls, entry: SnapshotEntry) -> ProducerEntry:
        state = cls(entry.producer_id)
        state.producer_epoch = entry.producer_epoch
        state.coordinator_epoch = entry.coordinator_epoch
        state.last_timestamp = entry.timestamp
        state.current_txn_first_offset = max(entry.current_txn_first_offset, -1)
        if entry.last_offset >= 0:
            state.has_forgotten = True
            state.batches.append(
                BatchMetadata(entry.last_sequence, entry.last_offset, entry.offset_delta, entry.timestamp)
            )
        return state


def batch_metadata(batch: RecordBatch) -> BatchMetadata:
    """Return the metadata that the state keeps of a data batch."""
    return BatchMetadata(batch.last_sequence, batch.last_offset, batch.last_offset_delta, batch.max_timestamp)
