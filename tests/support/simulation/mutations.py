"""Planted bugs that simulations must find: each replaces one method of production code.

Only for a process that does nothing else afterwards: the methods are not restored.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from broker.cluster.isr_writer import IsrWriter
from broker.controller import partitions
from broker.controller.alter_partition import IsrProposals
from broker.controller.leader_election import elect_after_loss
from broker.controller.partitions import PartitionLeaders
from broker.settings.store import ConfigStore
from registry.interface import ANY_VERSION
from registry.znodes.topics import PartitionStateZnode
from replication import follower_log
from replication.fetch_state import FetchState
from replication.in_sync_replicas import InSyncReplicas
from replication.partition import Partition
from replication.replica_manager import ReplicaManager
from storage.log.follower import FollowerAppends
from storage.log.leader_epoch_cache import LeaderEpochCache
from storage.log.log import Log
from storage.log_manager import LogManager
from storage.producers.entry import ProducerEntry
from storage.producers.state import ProducerState


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


def unclean_election() -> None:
    """A controller elects a replica that is not in sync where none that is can lead."""

    def elect(replicas: Any, isr: Any, live: Any, *, unclean: bool) -> Any:
        return elect_after_loss(replicas, isr, live, unclean=True)

    partitions.elect_after_loss = elect


def early_join() -> None:
    """A follower is proposed for the ISR before it has caught up."""

    def may_join(self: InSyncReplicas, replica: int, *ends: int) -> bool:
        return self.pending is None and replica not in self.isr

    InSyncReplicas.may_join = may_join  # type: ignore[method-assign]


def joining_replica_is_not_waited_for() -> None:
    """Records are committed without a replica that is about to join, and that the controller has accepted already."""

    def high_watermark(self: InSyncReplicas, current: int, leader_end_offset: int, min_insync_replicas: int) -> int:
        if self.is_under_min_isr(min_insync_replicas):
            return current
        ends = [end for replica, end in self.end_offsets.items() if replica in self.isr]
        return max(current, min([leader_end_offset, *ends]))

    InSyncReplicas.high_watermark = high_watermark  # type: ignore[method-assign]


def election_in_the_same_epoch() -> None:
    """A new leader has the leader epoch of the one before."""
    production = PartitionLeaders._elected

    def _elected(self: PartitionLeaders, key: Any, state: PartitionStateZnode, elected: Any) -> PartitionStateZnode:
        return production(self, key, state, elected).replace(leader_epoch=state.leader_epoch)

    PartitionLeaders._elected = _elected  # type: ignore[method-assign]


def high_watermark_goes_back() -> None:
    """A follower adopts the high watermark of a leader that knows less than it did."""

    def take_over(log: Log, high_watermark: int, log_start_offset: int) -> bool:
        log.update_high_watermark(min(high_watermark, log.log_end_offset))
        return True

    follower_log.take_over = take_over


def everything_counts_as_committed() -> None:
    """A log counts as committed up to its end when a broker becomes the leader."""
    production = Partition.make_leader

    def make_leader(self: Partition, log: Log, **state: Any) -> None:
        production(self, log, **state)
        log.update_high_watermark(log.log_end_offset)

    Partition.make_leader = make_leader  # type: ignore[method-assign]


def sent_is_received() -> None:
    """The leader counts the records that it sends to a follower as there."""
    production = InSyncReplicas.fetched

    def fetched(self: InSyncReplicas, replica: int, offset: int, start: int, end: int, broker_epoch: int) -> bool:
        return production(self, replica, end, start, end, broker_epoch)

    InSyncReplicas.fetched = fetched  # type: ignore[method-assign]


def followers_without_epochs() -> None:
    """A follower does not write down where leader epochs begin."""
    production, assign = FollowerAppends.append, LeaderEpochCache.assign

    def append(self: FollowerAppends, records: memoryview) -> Any:
        LeaderEpochCache.assign = lambda self, epoch, start_offset: False  # type: ignore[method-assign]
        try:
            return production(self, records)
        finally:
            LeaderEpochCache.assign = assign  # type: ignore[method-assign]

    FollowerAppends.append = append  # type: ignore[method-assign]


def repeated_batches() -> None:
    """A batch that was appended already is appended again."""
    ProducerEntry.find_duplicate = lambda self, *batch: None  # type: ignore[method-assign]
    ProducerEntry.check_sequence = lambda self, *batch: None  # type: ignore[method-assign]


def producers_forgotten_by_followers() -> None:
    """A follower does not keep what producers have written: as a leader it does not know a repeated batch."""
    production = ProducerState.replay

    def replay(self: ProducerState, batch: Any) -> Any:
        if batch.is_control or batch.is_transactional:
            return production(self, batch)
        self.end_offset = batch.next_offset
        return None

    ProducerState.replay = replay  # type: ignore[method-assign]


def acknowledged_before_it_is_flushed() -> None:
    """flush.messages does not delay anything: a record is acknowledged before it is on the disk."""

    async def flush(self: LogManager, log: Log, offset: int | None = None) -> None:
        return None

    LogManager.flush = LogManager.flush_up_to = flush  # type: ignore[method-assign, assignment]


def settings_of_a_server_that_lags() -> None:
    """The settings of a new topic are read from a ZooKeeper server that may not have them yet."""

    async def see_latest(self: ConfigStore) -> None:
        return None

    ConfigStore.see_latest = see_latest  # type: ignore[method-assign]


MUTATIONS: dict[str, Callable[[], None]] = {
    "hw-too-high": high_watermark_one_too_high,
    "no-epoch-check": no_epoch_check,
    "skipped-truncation": skipped_truncation,
    "stale-isr-write": stale_isr_write,
    "stale-isr-write-to-the-registry": stale_isr_write_to_the_registry,
    "early-acknowledgement": acknowledgement_before_high_watermark,
    "unclean-election": unclean_election,
    "early-join": early_join,
    "joining-replica": joining_replica_is_not_waited_for,
    "same-epoch": election_in_the_same_epoch,
    "hw-goes-back": high_watermark_goes_back,
    "all-committed": everything_counts_as_committed,
    "sent-is-received": sent_is_received,
    "followers-without-epochs": followers_without_epochs,
    "repeated-batches": repeated_batches,
    "forgotten-producers": producers_forgotten_by_followers,
    "acknowledged-before-flush": acknowledged_before_it_is_flushed,
    "settings-without-sync": settings_of_a_server_that_lags,
}
"""By name: for runs about replicas."""
