"""One partition on this broker: its log, whether we lead it, and how far it is committed.

`Partition` decides; `Log` stores. Every request names the leader epoch it believes in, and is refused where that is
not ours: an older one is fenced, a newer one means that we have not heard yet (KIP-320).
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum

from protocol.buffer import Buffer
from protocol.record_batch import BATCH_HEADER_SIZE, HEADER, MAGIC_V2, NO_PRODUCER_ID, NO_SEQUENCE
from protocol.uuid import ZERO_UUID
from replication.errors import (
    FencedLeaderEpochError,
    LogDirOfflineError,
    NotEnoughReplicasError,
    NotLeaderOrFollowerError,
    UnknownLeaderEpochError,
)
from replication.in_sync_replicas import InSyncReplicas
from replication.transaction_verification import UNVERIFIED, TransactionVerification, VerificationGuard
from storage.errors import OffsetOutOfRangeError
from storage.log import Log
from storage.log_append import AppendOrigin, LogAppendInfo, LogReadInfo

NO_EPOCH = -1
NO_LEADER = -1
ACKS_ALL = -1
HIGH_WATERMARK = -1
"""In DeleteRecords: whatever the high watermark is."""


class Isolation(IntEnum):
    """How far a reader may see."""

    READ_UNCOMMITTED = 0  # to the high watermark
    READ_COMMITTED = 1  # to the last stable offset
    LOG_END = 2  # followers


class Partition:
    """The state of one partition on one broker, as the controller last told it."""

    __slots__ = (
        "controller_epoch",
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
        "sync",
        "topic",
        "topic_id",
        "verification",
    )

    def __init__(self, topic: str, partition: int, topic_id: bytes = ZERO_UUID) -> None:
        self.topic = topic
        self.partition = partition
        self.topic_id = topic_id
        self.log: Log | None = None
        """None while there is none to serve: its directory is offline, or there is no room to begin one."""
        self.is_offline = False
        """True once the log directory that holds it has failed: until the next start."""
        self.leader_id = NO_LEADER
        self.leader_epoch = NO_EPOCH
        self.partition_epoch = NO_EPOCH
        self.controller_epoch = NO_EPOCH
        self.replicas: tuple[int, ...] = ()
        self.isr: tuple[int, ...] = ()
        self.sync: InSyncReplicas | None = None
        """Set while this broker leads the partition, else None."""
        self.leader_epoch_start_offset = 0
        self.verification = TransactionVerification()
        self.produced_bytes = 0  # by clients, since this broker hosts the partition
        self.produced_records = 0

    @property
    def is_leader(self) -> bool:
        """True while this broker leads the partition."""
        return self.sync is not None

    @property
    def is_under_replicated(self) -> bool:
        """True on the leader while a replica is out of sync."""
        return self.sync is not None and len(self.isr) < len(self.replicas)

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
        """Lead the partition from now on. In a new epoch, the epoch's first offset is noted in the log."""
        new_epoch = leader_epoch > self.leader_epoch or self.sync is None
        self._assume(broker_id, leader_epoch, partition_epoch, controller_epoch, replicas, isr)
        self.log = log
        if new_epoch:
            self.leader_epoch_start_offset = log.log_end_offset
            log.leader_epochs.assign(leader_epoch, log.log_end_offset)
        self.sync = InSyncReplicas(broker_id, self.replicas, self.isr, partition_epoch)
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
        """Follow `leader_id` (NO_LEADER: nobody) from now on."""
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
        """Know what the controller wants, without a log to do it with: every request is refused."""
        self._assume(leader_id, leader_epoch, partition_epoch, controller_epoch, replicas, isr)

    def go_offline(self) -> None:
        """The log directory has failed: every request is refused from now on."""
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

    # -- what requests ask -----------------------------------------------------------------------------------------

    def leader_log(self, current_leader_epoch: int = NO_EPOCH) -> Log:
        """The log, where this broker leads it in the epoch that the client believes in.

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

    def check_leader_epoch(self, current_leader_epoch: int) -> None:
        """Compare the client's idea of the leader epoch with ours; NO_EPOCH means that it has none."""
        if current_leader_epoch in (NO_EPOCH, self.leader_epoch):
            return
        if current_leader_epoch < self.leader_epoch:
            raise FencedLeaderEpochError(f"leader epoch {current_leader_epoch} is older than {self.leader_epoch}")
        raise UnknownLeaderEpochError(f"leader epoch {current_leader_epoch} is newer than {self.leader_epoch}")

    def start_verification(
        self, producer_id: int, producer_epoch: int, sequence: int, now_ms: int
    ) -> VerificationGuard | None:
        """What a batch of a transaction needs to be appended, with the coordinator's word; None where that is open.

        Raises what `leader_log` raises.
        """
        producers = self.leader_log().producers
        if producers.has_ongoing_transaction(producer_id):
            return None
        return self.verification.start(producer_id, producer_epoch, sequence, now_ms, producers.expiration_ms)

    def check_verified(self, producer_id: int, guard: VerificationGuard | None) -> None:
        """Refuse what a coordinator here is going to append to a transaction that has ended since it was verified.

        guard: what `start_verification` gave. Raises what `leader_log` raises, and InvalidTxnStateError.
        """
        is_open = self.leader_log().producers.has_ongoing_transaction(producer_id)
        self.verification.check(guard or UNVERIFIED, producer_id, NO_SEQUENCE, is_open=is_open)

    def append_as_leader(
        self,
        records: memoryview,
        required_acks: int,
        origin: AppendOrigin = AppendOrigin.CLIENT,
        guard: VerificationGuard | None = None,
    ) -> LogAppendInfo:
        """Append records (patched in place) and advance the high watermark where nobody else must have them.

        guard: of a batch of a transaction, where those are verified. Raises what `Log.append_as_leader`, `leader_log`
        and `TransactionVerification.check` raise, and NotEnoughReplicasError for acks=all.
        """
        log, sync = self.log, self.sync
        if log is None or sync is None:
            log = self.leader_log()  # says why not
            assert sync is not None
        if required_acks == ACKS_ALL and sync.end_offsets and sync.is_under_min_isr(log.config.min_insync_replicas):
            raise NotEnoughReplicasError(
                f"{self.topic}-{self.partition} has {len(self.isr)} replicas in sync, "
                f"min.insync.replicas is {log.config.min_insync_replicas}"
            )
        verification = self.verification
        if guard is not None:
            producer_id, sequence = producer_and_sequence(records)
            verification.check(guard, producer_id, sequence, is_open=log.producers.has_ongoing_transaction(producer_id))
        info = log.append_as_leader(records, self.leader_epoch, origin=origin)
        if verification.guards:
            verification.appended(producer_and_sequence(records)[0])
        if not info.duplicate:
            self.produced_bytes += info.size_bytes
            self.produced_records += info.last_offset - info.first_offset + 1
        if sync.end_offsets:
            self.maybe_advance_high_watermark()
        else:
            log.commit_all()
        return info

    def read(
        self,
        offset: int,
        max_bytes: int,
        *,
        isolation: Isolation,
        min_one_message: bool,
        current_leader_epoch: int = NO_EPOCH,
    ) -> LogReadInfo:
        """Records from `offset` on, as far as `isolation` lets the reader see.

        Raises what `leader_log` raises, and OffsetOutOfRangeError.
        """
        log = self.leader_log(current_leader_epoch)
        return log.read(
            offset,
            max_bytes,
            max_offset=self.visible_end(log, isolation),
            min_one_message=min_one_message,
            include_aborted=isolation == Isolation.READ_COMMITTED,
        )

    def visible_end(self, log: Log, isolation: Isolation) -> int:
        """The first offset that a reader may not see."""
        if isolation == Isolation.READ_UNCOMMITTED:
            return log.high_watermark
        if isolation == Isolation.READ_COMMITTED:
            return log.last_stable_offset
        return log.log_end_offset

    def delete_records_before(self, offset: int) -> int:
        """Move the log start offset up to `offset` (-1: the high watermark) and return it.

        Raises OffsetOutOfRangeError beyond the high watermark and for other negative offsets.
        """
        log = self.leader_log()
        target = log.high_watermark if offset == HIGH_WATERMARK else offset
        if target < 0:
            raise OffsetOutOfRangeError(offset, log.log_start_offset, log.high_watermark)
        log.increment_log_start_offset(target)
        return log.log_start_offset

    def follower_fetches(self, replica_id: int, offset: int) -> None:
        """A follower asks for records from `offset` on: it has everything before it.

        Raises NotLeaderOrFollowerError where the broker is no replica of this partition.
        """
        sync = self.sync
        assert sync is not None
        if replica_id not in sync.end_offsets:
            raise NotLeaderOrFollowerError(f"broker {replica_id} is no follower of {self.topic}-{self.partition}")
        sync.end_offsets[replica_id] = offset

    def append_as_follower(self, records: Buffer) -> LogAppendInfo:
        """Append what the leader sent, byte for byte."""
        assert self.log is not None
        return self.log.append_as_follower(records)

    def maybe_advance_high_watermark(self) -> bool:
        """Recompute the high watermark after an append, a follower's fetch or an ISR change. True when it moved."""
        log, sync = self.log, self.sync
        assert log is not None
        assert sync is not None
        current = log.high_watermark
        advanced = sync.high_watermark(current, log.log_end_offset, log.config.min_insync_replicas)
        if advanced == current:
            return False
        log.update_high_watermark(advanced)
        return True


def producer_and_sequence(records: memoryview) -> tuple[int, int]:
    """(producer id, base sequence) of a batch; NO_PRODUCER_ID for what is too short or too old to have one."""
    if len(records) < BATCH_HEADER_SIZE or records[16] != MAGIC_V2:
        return NO_PRODUCER_ID, NO_SEQUENCE
    header = HEADER.unpack_from(records)
    return header[9], header[11]
