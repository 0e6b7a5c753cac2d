"""The state of one transactional id, and the state changes that are allowed. No I/O, no clock.

A change has two steps, because it takes effect only once it is in `__transaction_state`: a method returns a
`Transition`, which the coordinator writes; then `complete` applies the transition, or `cancel` discards it. Between the
two steps the transaction is *pending*, and every other change is rejected with CONCURRENT_TRANSACTIONS.

    Empty ──add──▶ Ongoing ──end──▶ PrepareCommit ──markers──▶ CompleteCommit ──add──▶ Ongoing …
                      └─end, fence─▶ PrepareAbort ──markers──▶ CompleteAbort  ──init─▶ Empty …

A decision is final once it is written: PrepareCommit is always followed by CompleteCommit. *Fencing* (because of a new
producer with the same transactional id, or a timeout) aborts the transaction with a higher producer epoch, so that
requests of the old producer are rejected. The higher epoch takes effect at once and is kept if the write fails: the
next attempt uses it too, since no producer has been given it.

The errors are those of Kafka 3.9's coordinator (KIP-98, KIP-360, KIP-890 part 1).
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from typing import NamedTuple

from broker.errors import RequestError
from protocol.error_codes import ErrorCode
from protocol.record_batch import NO_PRODUCER_EPOCH, NO_PRODUCER_ID

TopicPartition = tuple[str, int]

NO_TIME = -1
LAST_EPOCH = 32767
"""Never given to a producer, so that a producer with the epoch before it can still be fenced."""


def code_for(error: RequestError, version: int, first_version_with_fenced: int) -> ErrorCode:
    """Return the error code for a producer; old request versions get INVALID_PRODUCER_EPOCH for PRODUCER_FENCED."""
    if error.code is ErrorCode.PRODUCER_FENCED and version < first_version_with_fenced:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return error.code


class TransactionState(IntEnum):
    """The state of a transaction, with its number in `__transaction_state`."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6  # expired: a tombstone is being written
    PREPARE_EPOCH_FENCE = 7  # in Kafka an in-memory state, unused here; clients may name it in a filter

    @property
    def label(self) -> str:
        """The name that clients see, for example PrepareCommit."""
        return self.name.title().replace("_", "")


STATES_BY_LABEL = {state.label: state for state in TransactionState}
_PREPARED = (TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT)
_RESTING = (TransactionState.EMPTY, TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT)


class ProducerIdAndEpoch(NamedTuple):
    """A producer id and its producer epoch."""

    producer_id: int
    producer_epoch: int

    @property
    def is_exhausted(self) -> bool:
        """Whether no epoch is left for the next producer, so that it needs a new producer id."""
        return self.producer_epoch >= LAST_EPOCH - 1


class Transition(NamedTuple):
    """The state of a transaction after a change that is not written yet. Times in ms since 1970, NO_TIME for none."""

    state: TransactionState
    producer_id: int
    producer_epoch: int
    previous_producer_id: int
    last_producer_epoch: int
    timeout_ms: int
    partitions: frozenset[TopicPartition]
    start_ms: int
    update_ms: int


class Transaction:
    """The state of one transactional id."""

    __slots__ = (
        "fence_failed",
        "last_producer_epoch",
        "partitions",
        "pending",
        "previous_producer_id",
        "producer_epoch",
        "producer_id",
        "start_ms",
        "state",
        "timeout_ms",
        "transactional_id",
        "update_ms",
    )

    def __init__(self, transactional_id: str, producer_id: int, timeout_ms: int, update_ms: int) -> None:
        """A new transactional id, without a producer: the first producer gets epoch 0."""
        self.transactional_id = transactional_id
        self.state = TransactionState.EMPTY
        self.pending: TransactionState | None = None
        self.producer_id = producer_id
        self.producer_epoch = NO_PRODUCER_EPOCH
        self.previous_producer_id = NO_PRODUCER_ID
        self.last_producer_epoch = NO_PRODUCER_EPOCH
        """The previous epoch if the same producer had it: a retry of InitProducerId may name this epoch (KIP-360)."""
        self.timeout_ms = timeout_ms
        self.partitions: set[TopicPartition] = set()
        """The partitions of the open transaction; while it ends, those whose marker is not known to be written."""
        self.start_ms = NO_TIME
        self.update_ms = update_ms
        self.fence_failed = False
        """Whether the epoch was raised to fence a producer, and that is not written: `fence` keeps the epoch then."""

    # -- InitProducerId --------------------------------------------------------------------------------------------

    def needs_producer_id(self, expected: ProducerIdAndEpoch | None) -> bool:
        """Whether `init_producer_id` needs a new producer id, because all epochs of the current one are used up."""
        own = ProducerIdAndEpoch(self.producer_id, self.producer_epoch)
        same_epoch = expected is None or expected.producer_epoch == self.producer_epoch
        return self.state in _RESTING and own.is_exhausted and same_epoch

    def init_producer_id(
        self, timeout_ms: int, expected: ProducerIdAndEpoch | None, new_producer_id: int, now_ms: int
    ) -> Transition:
        """Give the next epoch to a producer. If a transaction is open, fence and abort it first.

        expected: the id and epoch of a producer that continues after an error (KIP-360). new_producer_id: used if
        `needs_producer_id`. If the transition is to PREPARE_ABORT, the producer has to send the request again.

        Raises RequestError: CONCURRENT_TRANSACTIONS, PRODUCER_FENCED.
        """
        self._check_not_pending()
        if expected is not None and not self._may_go_on(expected):
            raise self._fenced(expected.producer_epoch)
        if self.state in _PREPARED:
            raise self._concurrent()
        if self.state is TransactionState.ONGOING:
            return self.fence(now_ms)
        if self.needs_producer_id(expected):
            producer_id, epoch = new_producer_id, 0
            last_epoch = NO_PRODUCER_EPOCH if expected is None else self.producer_epoch
        else:
            producer_id = self.producer_id
            epoch, last_epoch = self._next_epoch(expected)
        return self._pending(
            TransactionState.EMPTY,
            producer_id=producer_id,
            producer_epoch=epoch,
            last_producer_epoch=last_epoch,
            previous_producer_id=self.producer_id,
            timeout_ms=timeout_ms,
            partitions=frozenset(),
            start_ms=NO_TIME,
            update_ms=now_ms,
        )

    def _may_go_on(self, expected: ProducerIdAndEpoch) -> bool:
        """Whether a producer with this id may continue. Does not check the epoch of the current producer id.

        The previous id is valid only with its last epoch, in a retry of the request that replaced it by the current id.
        """
        return (
            self.producer_epoch == NO_PRODUCER_EPOCH
            or expected.producer_id == self.producer_id
            or (expected.producer_id == self.previous_producer_id and expected.is_exhausted)
        )

    def _next_epoch(self, expected: ProducerIdAndEpoch | None) -> tuple[int, int]:
        """Return the producer's (epoch, last epoch)."""
        epoch = self.producer_epoch
        if expected is None:
            return epoch + 1, NO_PRODUCER_EPOCH
        if epoch in (NO_PRODUCER_EPOCH, expected.producer_epoch):
            return epoch + 1, epoch
        if expected.producer_epoch == self.last_producer_epoch:
            return epoch, self.last_producer_epoch  # a retry: the producer did not receive the response
        raise self._fenced(expected.producer_epoch)

    def check_producer(self, producer_id: int, producer_epoch: int) -> None:
        """Raise RequestError (INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED) if this is not the current producer."""
        if producer_id != self.producer_id:
            raise RequestError(
                ErrorCode.INVALID_PRODUCER_ID_MAPPING,
                f"{self.transactional_id} has the producer id {self.producer_id}, not {producer_id}",
            )
        if producer_epoch != self.producer_epoch:
            raise self._fenced(producer_epoch)

    # -- partitions ------------------------------------------------------------------------------------------------

    def add_partitions(
        self, producer_id: int, producer_epoch: int, partitions: Iterable[TopicPartition], now_ms: int
    ) -> Transition | None:
        """Add partitions to the transaction. Returns None if all of them are in the transaction already.

        Raises RequestError: INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED, CONCURRENT_TRANSACTIONS.
        """
        self.check_producer(producer_id, producer_epoch)
        self._check_not_pending()
        if self.state in _PREPARED:
            raise self._concurrent()
        added = frozenset(partitions)
        ongoing = self.state is TransactionState.ONGOING
        if ongoing and added <= self.partitions:
            return None
        return self._pending(
            TransactionState.ONGOING,
            partitions=added | self.partitions,
            start_ms=self.start_ms if ongoing else now_ms,
            update_ms=now_ms,
        )

    def verify(
        self, producer_id: int, producer_epoch: int, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, ErrorCode]:
        """Return NONE for each partition that is in the transaction, TRANSACTION_ABORTABLE for each that is not.

        Pending changes are ignored: the partition's leader checks again when it appends. Raises RequestError like
        `add_partitions`.
        """
        self.check_producer(producer_id, producer_epoch)
        if self.state in _PREPARED:
            raise self._concurrent()
        return {
            partition: ErrorCode.NONE if partition in self.partitions else ErrorCode.TRANSACTION_ABORTABLE
            for partition in partitions
        }

    # -- the end ---------------------------------------------------------------------------------------------------

    def end(self, producer_id: int, producer_epoch: int, committed: bool, now_ms: int) -> Transition | None:
        """Commit or abort the transaction. Returns None if it has already ended in this way.

        Raises RequestError: INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED, CONCURRENT_TRANSACTIONS (also while the
        transaction is ending in this way), INVALID_TXN_STATE (no transaction, or it ends in the other way).
        """
        self.check_producer(producer_id, producer_epoch)
        self._check_not_pending()
        prepared = TransactionState.PREPARE_COMMIT if committed else TransactionState.PREPARE_ABORT
        if self.state is TransactionState.ONGOING:
            return self._pending(prepared, update_ms=now_ms)
        if self.state is prepared:
            raise self._concurrent()
        if self.state is (TransactionState.COMPLETE_COMMIT if committed else TransactionState.COMPLETE_ABORT):
            return None
        raise RequestError(
            ErrorCode.INVALID_TXN_STATE,
            f"{self.transactional_id} is in state {self.state.label}: it cannot be "
            f"{'committed' if committed else 'aborted'}",
        )

    def fence(self, now_ms: int) -> Transition:
        """Abort the open transaction and fence its producer. Only while ONGOING and not pending."""
        assert self.state is TransactionState.ONGOING
        if not self.fence_failed:
            assert self.producer_epoch < LAST_EPOCH
            self.producer_epoch += 1
        self.last_producer_epoch = NO_PRODUCER_EPOCH
        self.fence_failed = True  # until `complete`
        return self._pending(TransactionState.PREPARE_ABORT, update_ms=now_ms)

    def finish(self, now_ms: int) -> Transition:
        """Return the transition from PREPARE_COMMIT or PREPARE_ABORT, to be written after all markers are written."""
        assert self.state in _PREPARED
        committed = self.state is TransactionState.PREPARE_COMMIT
        done = TransactionState.COMPLETE_COMMIT if committed else TransactionState.COMPLETE_ABORT
        return self._pending(done, partitions=frozenset(), update_ms=now_ms)

    @property
    def is_decided(self) -> bool:
        """Whether PrepareCommit or PrepareAbort is written, and the end is not."""
        return self.state in _PREPARED

    # -- time ------------------------------------------------------------------------------------------------------

    def has_timed_out(self, now_ms: int) -> bool:
        """Whether the open transaction has exceeded its producer's transaction timeout."""
        is_open = self.state is TransactionState.ONGOING and self.pending is None
        return is_open and self.start_ms + self.timeout_ms < now_ms

    def has_expired(self, now_ms: int, expiration_ms: int) -> bool:
        """Whether the transactional id has not been used for `expiration_ms`."""
        return self.state in _RESTING and self.pending is None and self.update_ms <= now_ms - expiration_ms

    def expire(self) -> None:
        """Make the transactional id pending until its tombstone is written."""
        assert self.pending is None
        assert self.state in _RESTING
        self.pending = TransactionState.DEAD

    # -- completion ------------------------------------------------------------------------------------------------

    def complete(self, transition: Transition) -> None:
        """Apply a transition that has been written."""
        assert self.pending is transition.state, f"{self!r} cannot become {transition}"
        self.pending = None
        self.state = transition.state
        self.producer_id = transition.producer_id
        self.producer_epoch = transition.producer_epoch
        self.previous_producer_id = transition.previous_producer_id
        self.last_producer_epoch = transition.last_producer_epoch
        self.timeout_ms = transition.timeout_ms
        self.partitions = set(transition.partitions)
        self.start_ms = transition.start_ms
        self.update_ms = transition.update_ms
        self.fence_failed = False

    def cancel(self) -> None:
        """Discard the pending change, which could not be written."""
        self.pending = None

    # -- helpers ---------------------------------------------------------------------------------------------------

    def _pending(self, state: TransactionState, **changes: object) -> Transition:
        transition = Transition(
            state,
            self.producer_id,
            self.producer_epoch,
            self.previous_producer_id,
            self.last_producer_epoch,
            self.timeout_ms,
            frozenset(self.partitions),
            self.start_ms,
            self.update_ms,
        )._replace(**changes)  # type: ignore[arg-type]
        self.pending = state
        return transition

    def _check_not_pending(self) -> None:
        if self.pending is not None:
            raise self._concurrent()

    def _concurrent(self) -> RequestError:
        state = self.state if self.pending is None else self.pending
        return RequestError(ErrorCode.CONCURRENT_TRANSACTIONS, f"{self.transactional_id} is in state {state.label}")

    def _fenced(self, producer_epoch: int) -> RequestError:
        return RequestError(
            ErrorCode.PRODUCER_FENCED,
            f"{self.transactional_id} has the epoch {self.producer_epoch}, not {producer_epoch}",
        )

    def __repr__(self) -> str:
        return (
            f"Transaction({self.transactional_id!r}, {self.state.label}, pending={self.pending}, "
            f"producer={self.producer_id}/{self.producer_epoch}, partitions={sorted(self.partitions)})"
        )
