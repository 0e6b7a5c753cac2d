"""Planted bugs in groups and transactions that simulations must find: see `mutations.py`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from broker.coordinator.coordinator_log import CoordinatorLog, settled
from broker.coordinator.group_partitions import GroupsPartition
from broker.coordinator.group_store import GroupStore
from broker.coordinator.offsets import GroupOffsets
from broker.coordinator.transactions.coordinator import TransactionCoordinator
from broker.coordinator.transactions.markers import TransactionMarkers
from broker.coordinator.transactions.transaction import Transaction, TransactionState
from protocol.error_codes import ErrorCode
from replication.isolation import Isolation
from replication.transaction_verification import TransactionVerification
from storage.log.log import Log


def answer_before_it_is_committed() -> None:
    """A coordinator answers (OffsetCommit, SyncGroup, EndTxn) as soon as its own log has the records."""
    production = CoordinatorLog.write

    def write(self: CoordinatorLog, *change: Any, **options: Any) -> Any:
        return production(self, *change, **options | {"required_acks": 1})

    CoordinatorLog.write = write  # type: ignore[method-assign]


def forgotten_prepare() -> None:
    """A coordinator that loads a decided transaction treats it as complete."""
    production = TransactionCoordinator._read

    async def _read(self: TransactionCoordinator, batches: Any) -> dict[str, Transaction]:
        transactions = await production(self, batches)
        for transaction in transactions.values():
            if transaction.is_decided:
                transaction.complete(transaction.finish(self._now_ms()))
        return transactions

    TransactionCoordinator._read = _read  # type: ignore[method-assign]


def half_of_the_markers() -> None:
    """A transaction has ended as soon as one of the brokers has written its markers."""
    production = TransactionMarkers._answered

    def _answered(self: TransactionMarkers, ending: Any, codes: dict[Any, int]) -> None:
        production(self, ending, codes | dict.fromkeys(ending.missing, 0))

    TransactionMarkers._answered = _answered  # type: ignore[method-assign]


def generation_that_is_not_stored() -> None:
    """SyncGroup is answered without anything being written."""

    def store_group(self: GroupStore, group_id: str, record: bytes, *, in_log: Any, finish: Any) -> Any:
        if in_log is not None:
            in_log()
        return settled(finish(ErrorCode.NONE))

    GroupStore.store_group = store_group  # type: ignore[method-assign]


def forgotten_end() -> None:
    """A transaction that ends while the offsets are loaded does not end for them."""

    def end_transaction(self: GroupsPartition, producer_id: int, marker_offset: int, *, committed: bool) -> None:
        for group_id in self.open_groups.pop(producer_id, ()):
            self.groups[group_id].offsets.end_transaction(producer_id, marker_offset, committed=committed)

    GroupsPartition.end_transaction = end_transaction  # type: ignore[method-assign]


def offsets_before_the_end() -> None:
    """The offsets of a transaction count as soon as they are written."""

    def begin_transactional(self: GroupOffsets, producer_id: int, offsets: Any) -> None:
        for partition, offset in offsets.items():
            self._commit(partition, offset)

    GroupOffsets.begin_transactional = begin_transactional  # type: ignore[method-assign]


def offsets_before_the_log() -> None:
    """Offsets of a transaction are noted before they are in the log, which may refuse them: then both are gone."""
    production = GroupStore.store_offsets

    def store_offsets(self: GroupStore, group_id: str, offsets: Any, in_log: Any, finish: Any, *producer: int) -> Any:
        in_log(-1)
        return production(self, group_id, offsets, lambda _: None, finish, *producer)

    GroupStore.store_offsets = store_offsets  # type: ignore[method-assign]


def unfenced_producer() -> None:
    """A producer goes on although a later one with its transactional id has its producer id."""
    Transaction.check_producer = lambda self, producer_id, producer_epoch: None  # type: ignore[method-assign]


def fence_without_epoch() -> None:
    """A transaction that is aborted because of its time, or for the next producer, leaves its producer the epoch."""

    def fence(self: Transaction, now_ms: int) -> Any:
        return self._pending(TransactionState.PREPARE_ABORT, update_ms=now_ms)

    Transaction.fence = fence  # type: ignore[method-assign]


def open_transactions_are_read() -> None:
    """Readers of committed data get all that is replicated."""

    def visible_end(self: Isolation, log: Log) -> int:
        return log.log_end_offset if self is Isolation.LOG_END else log.high_watermark

    Isolation.visible_end = visible_end  # type: ignore[method-assign]


def unverified_batches() -> None:
    """A batch may open a transaction that its coordinator does not know (before KIP-890)."""

    def check(self: Any, *arguments: Any, is_open: bool) -> None:
        return None

    TransactionVerification.check = check  # type: ignore[method-assign]


COORDINATOR_MUTATIONS: dict[str, Callable[[], None]] = {
    "early-coordinator": answer_before_it_is_committed,
    "forgotten-prepare": forgotten_prepare,
    "half-of-the-markers": half_of_the_markers,
    "generation-not-stored": generation_that_is_not_stored,
    "forgotten-end": forgotten_end,
    "offsets-before-the-end": offsets_before_the_end,
    "offsets-before-the-log": offsets_before_the_log,
    "unfenced-producer": unfenced_producer,
    "fence-without-epoch": fence_without_epoch,
    "open-transactions-are-read": open_transactions_are_read,
    "unverified-batches": unverified_batches,
}
"""By name: for runs about coordinators."""
