"""Planted bugs that simulations must find: each replaces one method of production code.

Only for a process that does nothing else afterwards: the methods are not restored.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from broker.cluster.isr_writer import IsrWriter
from broker.controller.alter_partition import IsrProposals
from broker.coordinator.coordinator_log import CoordinatorLog, settled
from broker.coordinator.group_store import GroupStore
from broker.coordinator.transactions.coordinator import TransactionCoordinator
from broker.coordinator.transactions.markers import TransactionMarkers
from broker.coordinator.transactions.transaction import Transaction
from protocol.error_codes import ErrorCode
from registry.interface import ANY_VERSION
from replication.fetch_state import FetchState
from replication.in_sync_replicas import InSyncReplicas
from replication.partition import Partition
from replication.replica_manager import ReplicaManager


def high_watermark_one_too_high() -> None:
    """The leader counts a record as committed that some in-sync replica does not have yet."""
    production = InSyncReplicas.high_watermark

    def high_watermark(self: InSyncReplicas, current: int, leader_end_offset: int, min_insync_replicas: int) -> int:
        found = production(self, current, leader_end_offset, min_insync_replicas)
        return min(found + 1, leader_end_offset) if found > current else found

    InSyncReplicas.high_watermark = high_watermark  # type: ignore[method-assign]


def no_epoch_check() -> None:
    """Requests with any leader epoch are served."""
    Partition.check_leader_epoch = lambda self, current_leader_epoch: None  # type: ignore[method-assign]


def skipped_truncation() -> None:
    """A follower does not compare its log with a new leader's, and keeps diverging records."""
    production = FetchState.wanted
    FetchState.wanted = lambda self, *, compare: production(self, compare=False)  # type: ignore[method-assign]


def stale_isr_write() -> None:
    """The controller accepts an ISR without comparing versions, and applies it to the current state."""

    def judge(self: Any, broker_id: int, key: tuple[str, int], proposal: Any) -> Any:
        leadership = self._context.leaderships[key]
        return leadership.state.replace(isr=list(proposal.isr), controller_epoch=self._context.epoch)

    IsrProposals._judge = judge  # type: ignore[method-assign]


def stale_isr_write_to_the_registry() -> None:
    """The same before inter.broker.protocol.version 2.7: the write does not name the version that it is based on."""
    production = IsrWriter.submit

    async def submit(self: IsrWriter, change: Any) -> Any:
        return await production(self, change._replace(proposed=change.proposed._replace(partition_epoch=ANY_VERSION)))

    IsrWriter.submit = submit  # type: ignore[method-assign]


def acknowledgement_before_high_watermark() -> None:
    """acks=all is answered as soon as the leader has the record."""
    ReplicaManager.wait_for_commit = lambda self, required, timeout_s: None  # type: ignore[method-assign]


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


MUTATIONS: dict[str, Callable[[], None]] = {
    "hw-too-high": high_watermark_one_too_high,
    "no-epoch-check": no_epoch_check,
    "skipped-truncation": skipped_truncation,
    "stale-isr-write": stale_isr_write,
    "stale-isr-write-to-the-registry": stale_isr_write_to_the_registry,
    "early-acknowledgement": acknowledgement_before_high_watermark,
}
"""By name: for runs about replicas."""

COORDINATOR_MUTATIONS: dict[str, Callable[[], None]] = {
    "early-coordinator": answer_before_it_is_committed,
    "forgotten-prepare": forgotten_prepare,
    "half-of-the-markers": half_of_the_markers,
    "generation-not-stored": generation_that_is_not_stored,
}
"""By name: for runs about coordinators."""
