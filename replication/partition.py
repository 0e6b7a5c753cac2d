"""One partition on this broker: its log, whether this broker leads it, and how far it is committed.

`Partition` decides; `Log` stores. Every request names the leader epoch that its client knows. An epoch older than the
partition's is fenced; a newer one means that this broker does not know the new leader yet (KIP-320).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from protocol.record_batch import BATCH_HEADER_SIZE, HEADER, MAGIC_V2, NO_PRODUCER_ID, NO_SEQUENCE
from protocol.sentinels import NO_EPOCH, NO_LEADER, UNKNOWN_BROKER_EPOCH
from protocol.uuid import ZERO_UUID
from replication.alter_partition import LeaderAndIsr
from replication.errors import (
    FencedLeaderEpochError,
    LogDirOfflineError,
    NotEnoughReplicasError,
    NotLeaderOrFollowerError,
    UnknownLeaderEpochError,
)
from replication.in_sync_replicas import InSyncReplicas, LagRules
from replication.isolation import Isolation
from replication.transaction_verification import UNVERIFIED, TransactionVerification, VerificationGuard
from storage.errors import OffsetOutOfRangeError
from storage.log.append import AppendOrigin, LogAppendInfo, LogReadInfo
from storage.log.batch_validation import BatchValidation
from storage.log.log import Log

ACKS_ALL = -1
HIGH_WATERMARK = -1
"""The offset in DeleteRecords that stands for the high watermark."""


class PartitionEvents:
    """Callbacks of partitions. These do nothing."""

    def high_watermark_moved(self, partition: Partition) -> None:
        """The high watermark has moved. Not called for an append to a partition with one replica."""

    def non_isr_follower_fetched(self, partition: Partition, replica_id: int) -> None:
        """A follower outside the ISR has fetched."""

    def follower_start_moved(self, partition: Partition) -> None:
        """The log start offset of a follower has changed."""


class PartitionWatcher(Protocol):
    """Observes the records of a partition, while the console traces a record."""

    def appended(self, info: LogAppendInfo) -> None:
        """The leader has appended a batch. The high watermark has not moved yet."""

    def follower_fetched(self, replica_id: int, offset: int) -> None:
        """A follower has requested records from `offset` on: it has all earlier ones."""

    def high_watermark_moved(self, offset: int) -> None:
        """The high watermark is `offset` now. Not called for a partition with one replica."""


class Partition:
    """The state of one partition on one broker, as the controller last sent it."""

    __slots__ = (
        "controller_epoch",
        "events",
        "fetched_bytes",
        "is_offline",
        "isr",
        "leader_epoch",
        "leader_epoch_start_offset",
        "leader_id",
        "log",
        "partition",
        "partition_epoch",
        "produced_bytes",
        "produced_records",
        "replicas",
        "replicated_bytes_in",
        "replicated_bytes_out",
        "rules",
        "sync",
        "sync_due",
        "topic",
        "topic_id",
        "verification",
        "watcher",
    )

    def __init__(
        self,
        topic: str,
        partition: int,
        topic_id: bytes = ZERO_UUID,
        rules: LagRules | None = None,
        events: PartitionEvents | None = None,
    ) -> None:
        self.topic = topic
        self.partition = partition
        self.topic_id = topic_id
        self.log: Log | None = None
        """None while there is no log to serve: its directory is offline, or there is no room to create one."""
        self.is_offline = False
        """True from the failure of its log directory until the next start."""
        self.leader_id = NO_LEADER
        self.leader_epoch = NO_EPOCH
        self.partition_epoch = NO_EPOCH
        self.controller_epoch = NO_EPOCH
        self.replicas: tuple[int, ...] = ()
        self.isr: tuple[int, ...] = ()
        self.sync: InSyncReplicas | None = None
        """Set while this broker leads the partition, else None."""
        self.leader_epoch_start_offset = 0
        self.sync_due = 0
        """Appends have asked for a sync up to this offset (flush.messages), which has not ended yet.

        Until then the high watermark does not pass the recovery point: nobody reads what a power cut could take away.
        """
        self.rules = rules or LagRules()
        self.events = events or PartitionEvents()
        self.verification = TransactionVerification()
        self.watcher: PartitionWatcher | None = None
        # Counted since this broker hosts the partition; the counts of a topic disappear with its partitions.
        self.produced_bytes = 0  # by clients
        self.produced_records = 0
        self.fetched_bytes = 0  # by consumers
        self.replicated_bytes_in = 0
        self.replicated_bytes_out = 0

    @property
    def is_leader(self) -> bool:
        """True while this broker leads the partition."""
        return self.sync is not None

    @property
    def is_under_replicated(self) -> bool:
        """True on the leader while a replica is out of sync."""
        return self.sync is not None and len(self.isr) < len(self.replicas)

    @property
    def is_under_min_isr(self) -> bool:
        """True on the leader while acks=all is refused."""
        return self.sync is not None and self.log is not None and self._is_under_min_isr(self.log, self.sync)

    @staticmethod
    def _is_under_min_isr(log: Log, sync: InSyncReplicas) -> bool:
        return sync.is_under_min_isr(log.config.min_insync_replicas)

    def make_leader(
        self,
        log: Log,
        *,
        broker_id: int,
        leader_epoch: int,
        partition_epoch: int,
        controller_epoch: int,
        replicas: Iterable[int],
        isr: Iterable[int],
    ) -> None:
        """Lead the partition from now on, in a new leader epoch: the log records the first offset of the epoch.

        The log end offset of a follower is unknown until it fetches, even if it followed this broker before.
        """
        self._assume(broker_id, leader_epoch, partition_epoch, controller_epoch, replicas, isr)
        self.log = log
        self.leader_epoch_start_offset = log.log_end_offset
        log.leader_epochs.assign(leader_epoch, log.log_end_offset)
        self.sync = InSyncReplicas(broker_id, self.replicas, self.isr, self.rules)
        self.maybe_advance_high_watermark()

    def make_follower(
        self,
        log: Log | None,
        *,
        leader_id: int,
        leader_epoch: int,
        partition_epoch: int,
        controller_epoch: int,
        replicas: Iterable[int],
        isr: Iterable[int],
    ) -> None:
        """Follow `leader_id` from now on; NO_LEADER: no broker."""
        self._assume(leader_id, leader_epoch, partition_epoch, controller_epoch, replicas, isr)
        self.log = log
        self.sync = None
        self.verification = TransactionVerification()

    def wait_for_room(
        self,
        *,
        leader_id: int,
        leader_epoch: int,
        partition_epoch: int,
        controller_epoch: int,
        replicas: Iterable[int],
        isr: Iterable[int],
    ) -> None:
        """Adopt the controller's state without a log: every request is refused."""
        self._assume(leader_id, leader_epoch, partition_epoch, controller_epoch, replicas, isr)

    def go_offline(self) -> None:
        """Refuse every request from now on: the log directory has failed."""
        self.log = None
        self.sync = None
        self.is_offline = True

    def _assume(
        self,
        leader_id: int,
        leader_epoch: int,
        partition_epoch: int,
        controller_epoch: int,
        replicas: Iterable[int],
        isr: Iterable[int],
    ) -> None:
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch
        self.partition_epoch = partition_epoch
        self.controller_epoch = controller_epoch
        self.replicas = tuple(replicas)
        self.isr = tuple(isr)

    # -- requests --------------------------------------------------------------------------------------------------

    def leader_log(self, current_leader_epoch: int = NO_EPOCH) -> Log:
        """Return the log if this broker leads the partition in the client's leader epoch. NO_EPOCH: in any epoch.

        Raises NotLeaderOrFollowerError, FencedLeaderEpochError, UnknownLeaderEpochError, LogDirOfflineError.
        """
        self.check_leader_epoch(current_leader_epoch)
        log = self.log
        if log is None:
            state = "is offline" if self.is_offline else "has no room for it"
            raise LogDirOfflineError(f"the log directory of {self.topic}-{self.partition} {state}")
        if self.sync is None:
            raise NotLeaderOrFollowerError(f"broker {self.leader_id} leads {self.topic}-{self.partition}")
        return log

    def any_log(self, current_leader_epoch: int = NO_EPOCH) -> Log:
        """Return the log of a leader or a follower: for consumers that read from a follower (KIP-392).

        Raises what `leader_log` raises, but NotLeaderOrFollowerError only if the partition has no leader.
        """
        if self.sync is not None or self.log is None or self.leader_id == NO_LEADER:
            return self.leader_log(current_leader_epoch)
        self.check_leader_epoch(current_leader_epoch)
        return self.log

    @property
    def is_high_watermark_behind(self) -> bool:
        """True on a new leader that does not know yet that all records before its epoch are committed (KIP-207).

        Its high watermark may be lower than one that consumers have seen.
        """
        log = self.log
        return self.sync is not None and log is not None and log.high_watermark < self.leader_epoch_start_offset

    def check_leader_epoch(self, current_leader_epoch: int) -> None:
        """Compare the client's leader epoch with the partition's. NO_EPOCH: the client knows none."""
        if current_leader_epoch in (NO_EPOCH, self.leader_epoch):
            return
        if current_leader_epoch < self.leader_epoch:
            raise FencedLeaderEpochError(f"leader epoch {current_leader_epoch} is older than {self.leader_epoch}")
        raise UnknownLeaderEpochError(f"leader epoch {current_leader_epoch} is newer than {self.leader_epoch}")

    def start_verification(
        self, producer_id: int, producer_epoch: int, sequence: int, now_ms: int
    ) -> VerificationGuard | None:
        """Return the guard for the first batch of a transaction, to append it once the coordinator has confirmed.

        None if the log has the transaction open already. Raises what `leader_log` raises.
        """
        producers = self.leader_log().producers
        if producers.has_ongoing_transaction(producer_id):
            return None
        return self.verification.start(producer_id, producer_epoch, sequence, now_ms, producers.expiration_ms)

    def check_verified(self, producer_id: int, guard: VerificationGuard | None) -> None:
        """Check that a transaction is still open, or verified, before a coordinator on this broker appends to it.

        guard: the result of `start_verification`. Raises what `leader_log` raises, and InvalidTxnStateError.
        """
        is_open = self.leader_log().producers.has_ongoing_transaction(producer_id)
        self.verification.check(guard or UNVERIFIED, producer_id, NO_SEQUENCE, is_open=is_open)

    def append_as_leader(
        self,
        records: memoryview | BatchValidation,
        required_acks: int,
        origin: AppendOrigin = AppendOrigin.CLIENT,
        guard: VerificationGuard | None = None,
    ) -> LogAppendInfo:
        """Append records (patched in place), and advance the high watermark if no other replica must have them.

        The caller of an append that returns `flush_required` syncs the log, and calls `sync_ended` then.

        records: after LargeBatchError, their validation. guard: of a batch of a transaction, if they are verified.

        Raises what `Log.append_as_leader`, `leader_log` and `TransactionVerification.check` raise, and
        NotEnoughReplicasError for acks=all.
        """
        log, sync = self.log, self.sync
        if log is None or sync is None:
            log = self.leader_log()  # raises the reason
            assert sync is not None
        if required_acks == ACKS_ALL and sync.end_offsets and self._is_under_min_isr(log, sync):
            raise NotEnoughReplicasError(
                f"{self.topic}-{self.partition} has {len(self.isr)} replicas in sync, "
                f"min.insync.replicas is {log.config.min_insync_replicas}"
            )
        verification = self.verification
        if guard is not None:
            producer_id, sequence = producer_and_sequence(records)
            verification.check(guard, producer_id, sequence, is_open=log.producers.has_ongoing_transaction(producer_id))
        info = log.append_as_leader(records, self.leader_epoch, origin=origin)
        if self.watcher is not None:
            self.watcher.appended(info)
        if verification.guards:
            verification.appended(producer_and_sequence(records)[0])
        if not info.duplicate:
            self.produced_bytes += info.size_bytes
            self.produced_records += info.last_offset - info.first_offset + 1
        if info.flush_required:
            self.sync_due = info.last_offset + 1
        if sync.end_offsets or info.flush_required:
            self.maybe_advance_high_watermark()
        else:
            log.commit_all()
        return info

    def sync_ended(self, offset: int) -> None:
        """A sync up to `offset` that an append asked for has ended. Its failure is told to those who wait for it."""
        if offset >= self.sync_due:
            self.sync_due = 0
        if self.sync is not None:
            self.maybe_advance_high_watermark()

    def read(
        self,
        offset: int,
        max_bytes: int,
        *,
        isolation: Isolation,
        min_one_message: bool,
        current_leader_epoch: int = NO_EPOCH,
    ) -> LogReadInfo:
        """Return records of the leader from `offset` on, as far as `isolation` lets the reader see.

        Raises what `leader_log` raises, and OffsetOutOfRangeError.
        """
        log = self.leader_log(current_leader_epoch)
        return self.read_log(log, offset, max_bytes, isolation=isolation, min_one_message=min_one_message)

    def read_log(
        self,
        log: Log,
        offset: int,
        max_bytes: int,
        *,
        isolation: Isolation,
        min_one_message: bool,
        may_wait: bool = True,
    ) -> LogReadInfo:
        """`read` from a log that `leader_log` or `any_log` has returned. may_wait: see `Log.read`."""
        return log.read(
            offset,
            max_bytes,
            max_offset=isolation.visible_end(log),
            min_one_message=min_one_message,
            include_aborted=isolation == Isolation.READ_COMMITTED,
            may_wait=may_wait,
        )

    def delete_records_before(self, offset: int) -> int:
        """Move the log start offset up to `offset` (-1: the high watermark) and return it.

        Raises OffsetOutOfRangeError if `offset` is above the high watermark, or negative but not -1.
        """
        log = self.leader_log()
        target = log.high_watermark if offset == HIGH_WATERMARK else offset
        if target < 0:
            raise OffsetOutOfRangeError(offset, log.log_start_offset, log.high_watermark)
        log.increment_log_start_offset(target)
        return log.log_start_offset

    # -- followers ---------------------------------------------------------------------------------------------------

    def check_follower(self, replica_id: int, current_leader_epoch: int) -> None:
        """Refuse the fetch of a broker that is not a replica in the state that this broker knows.

        Raises UnknownLeaderEpochError (the follower may know a newer state, and should retry); for a request without a
        leader epoch, NotLeaderOrFollowerError.
        """
        sync = self.sync
        assert sync is not None
        if replica_id not in sync.end_offsets:
            text = f"broker {replica_id} is not a follower of {self.topic}-{self.partition}"
            raise NotLeaderOrFollowerError(text) if current_leader_epoch == NO_EPOCH else UnknownLeaderEpochError(text)

    def follower_fetches(
        self, replica_id: int, offset: int, log_start_offset: int, broker_epoch: int = UNKNOWN_BROKER_EPOCH
    ) -> None:
        """Record that a follower requests records from `offset` on: it has all before.

        May advance the high watermark. Raises what `check_follower` and `FollowerProgress.fetched` raise.
        """
        log, sync = self.log, self.sync
        assert log is not None
        assert sync is not None
        self.check_follower(replica_id, NO_EPOCH)
        start_before = sync.progress[replica_id].log_start_offset
        moved = sync.fetched(replica_id, offset, log_start_offset, log.log_end_offset, broker_epoch)
        if self.watcher is not None:
            self.watcher.follower_fetched(replica_id, offset)
        if replica_id not in sync.isr:
            # This comes first: the high watermark waits for a replica that joins.
            self.events.non_isr_follower_fetched(self, replica_id)
        if moved:
            self.maybe_advance_high_watermark()
        if log_start_offset != start_before:
            self.events.follower_start_moved(self)

    def isr_changed(self, decided: LeaderAndIsr) -> bool:
        """Adopt a decided ISR. Return False if this broker knows a newer state."""
        sync = self.sync
        is_stale = decided.leader_epoch != self.leader_epoch or decided.partition_epoch < self.partition_epoch
        if sync is None or is_stale:
            return False
        self.isr = sync.isr = decided.isr
        self.partition_epoch = decided.partition_epoch
        sync.pending = None
        self.maybe_advance_high_watermark()  # the ISR may have shrunk to the leader
        return True

    def low_watermark(self) -> int:
        """Return the smallest log start offset of the live replicas: DeleteRecords waits for it."""
        log, sync = self.leader_log(), self.sync
        assert sync is not None
        lowest = log.log_start_offset
        for replica, progress in sync.progress.items():
            if progress.log_start_offset < lowest and self.rules.is_alive(replica):
                lowest = progress.log_start_offset
        return lowest

    def maybe_advance_high_watermark(self) -> bool:
        """Recompute the high watermark and complete the requests that wait for it. Return True if it moved.

        Called after an append, its sync, a follower's fetch, a change of the ISR, of the live brokers or of
        min.insync.replicas, and at intervals, since the high watermark does not wait for a follower that lags too long.
        """
        log, sync = self.log, self.sync
        assert log is not None
        assert sync is not None
        current = log.high_watermark
        advanced = sync.high_watermark(current, log.log_end_offset, log.config.min_insync_replicas)
        if self.sync_due > log.recovery_point:
            advanced = max(current, min(advanced, log.recovery_point))
        if advanced == current:
            return False
        log.update_high_watermark(advanced)
        if self.watcher is not None:
            self.watcher.high_watermark_moved(advanced)
        self.events.high_watermark_moved(self)
        return True


def producer_and_sequence(records: memoryview | BatchValidation) -> tuple[int, int]:
    """Return (producer id, base sequence) of a batch; NO_PRODUCER_ID if it is too short or its format too old."""
    if isinstance(records, BatchValidation):
        records = records.records
    if len(records) < BATCH_HEADER_SIZE or records[16] != MAGIC_V2:
        return NO_PRODUCER_ID, NO_SEQUENCE
    header = HEADER.unpack_from(records)
    return header[9], header[11]
