"""Changes of the ISRs of the partitions that this broker leads: find replicas that join or leave, and propose them.

A follower joins as soon as one of its fetches shows that it has all committed records. A check at half of
replica.lag.time.max.ms finds replicas that must leave. The check also recomputes the high watermark, because a replica
outside the ISR may have lagged too long to be waited for. Each change is proposed (see `alter_partition`), and is
pending until it is decided. A refusal that says that this broker is out of date leaves the change pending: the
controller is about to send the new state.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable

from client.wire.backoff import Backoff, Retries
from protocol.error_codes import ErrorCode
from protocol.sentinels import UNKNOWN_BROKER_EPOCH
from replication.alter_partition import AlterPartition, IsrChange, IsrChangeRefusedError, LeaderAndIsr
from replication.in_sync_replicas import InSyncReplicas, LagRules, PendingIsr
from replication.partition import Partition

logger = logging.getLogger(__name__)

RETRY_BACKOFF_MS = 50
"""The first delay before a change is proposed again, as in Kafka: a pending change may delay commits."""

NOT_APPLIED = frozenset({ErrorCode.OPERATION_NOT_ATTEMPTED, ErrorCode.INELIGIBLE_REPLICA})
"""The controller has the same partition state as this broker, and did not make the change."""

OUT_OF_DATE = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.INVALID_UPDATE_VERSION,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.NEW_LEADER_ELECTED,
    }
)
"""The controller has another partition state than this broker, and is about to send it."""


class IsrChanges:
    """Proposes changes and adopts decisions. `expanded`, `shrunk`, `failed`: the number of changes."""

    def __init__(
        self,
        broker_id: int,
        rules: LagRules,
        alter_partition: AlterPartition,
        broker_epoch: Callable[[], int],
        backoff: Backoff,
    ) -> None:
        self.rules = rules
        self.expanded = 0
        self.shrunk = 0
        self.failed = 0
        self._broker_id = broker_id
        self._broker_epoch = broker_epoch
        self._alter_partition = alter_partition
        self._backoff = backoff
        self._tasks: asyncio.TaskGroup | None = None

    async def run(self, partitions: Callable[[], Iterable[Partition]]) -> None:
        """Find replicas that are out of sync, and propose changes, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            self._tasks = tasks
            tasks.create_task(self._alter_partition.run())
            try:
                while True:
                    await asyncio.sleep(self.rules.max_lag_ms / 2000)
                    for partition in list(partitions()):
                        self.check_lag(partition)
            finally:
                self._tasks = None

    def check_expand(self, partition: Partition, replica: int) -> None:
        """Propose that a follower joins if it may. Called after a fetch of the follower."""
        log, sync = partition.log, partition.sync
        if log is None or sync is None or self._tasks is None or replica in sync.isr:
            return
        if sync.may_join(replica, log.high_watermark, partition.leader_epoch_start_offset, log.log_end_offset):
            self._propose(partition, sync, sync.propose(joining=replica))

    def check_lag(self, partition: Partition) -> None:
        """Propose that out-of-sync followers leave, and recompute the high watermark. Called at intervals."""
        log, sync = partition.log, partition.sync
        if log is None or sync is None or self._tasks is None:
            return
        partition.maybe_advance_high_watermark()
        leaving = sync.out_of_sync(log.log_end_offset)
        if leaving:
            logger.info(
                "%s-%d: replicas %s are out of sync (log end offsets %s, leader's %d, high watermark %d)",
                partition.topic,
                partition.partition,
                leaving,
                [sync.end_offsets.get(replica) for replica in leaving],
                log.log_end_offset,
                log.high_watermark,
            )
            self._propose(partition, sync, sync.propose(leaving=leaving))

    def _propose(self, partition: Partition, sync: InSyncReplicas, pending: PendingIsr) -> None:
        assert self._tasks is not None
        self._tasks.create_task(self._have_decided(partition, sync, pending))

    async def _have_decided(self, partition: Partition, sync: InSyncReplicas, pending: PendingIsr) -> None:
        change = IsrChange(
            partition.topic,
            partition.topic_id,
            partition.partition,
            LeaderAndIsr(
                self._broker_id,
                partition.leader_epoch,
                pending.isr,
                partition.partition_epoch,
                tuple(self._epoch_of(sync, replica) for replica in pending.isr),
            ),
            partition.controller_epoch,
        )
        retries = Retries(self._backoff)
        while partition.sync is sync and sync.pending is pending:
            try:
                decided = await self._alter_partition.submit(change)
            except IsrChangeRefusedError as error:
                self.failed += 1
                if partition.sync is not sync or sync.pending is not pending:
                    return
                if error.code == ErrorCode.INELIGIBLE_REPLICA and pending.joining is not None:
                    epochs = dict(zip(pending.isr, change.proposed.broker_epochs, strict=True))
                    sync.note_refusal(pending.joining, epochs[pending.joining])
                if error.code in NOT_APPLIED:
                    sync.pending = None
                    # The high watermark waited for the joining replica: nothing else advances it now.
                    partition.maybe_advance_high_watermark()
                if error.code in NOT_APPLIED or error.code in OUT_OF_DATE:
                    # Usual while a broker stops: it still fetches. The controller logs the reason.
                    level = logging.DEBUG if error.code == ErrorCode.INELIGIBLE_REPLICA else logging.INFO
                    logger.log(level, "%s-%d: ISR %s refused: %s", change.topic, change.partition, pending.isr, error)
                    return
                logger.warning("%s-%d: retrying ISR %s: %s", change.topic, change.partition, pending.isr, error)
                await retries.wait()
                continue
            if partition.sync is sync and sync.pending is pending:
                self._decided(partition, pending, decided)
            return

    def _decided(self, partition: Partition, pending: PendingIsr, decided: LeaderAndIsr) -> None:
        if not partition.isr_changed(decided):
            self.failed += 1
            return
        if pending.joining is None:
            self.shrunk += 1
        else:
            self.expanded += 1
        logger.info(
            "%s-%d: the ISR is now %s (partition epoch %d)",
            partition.topic,
            partition.partition,
            decided.isr,
            decided.partition_epoch,
        )

    def _epoch_of(self, sync: InSyncReplicas, replica: int) -> int:
        """Return the broker epoch that the replica's fetches report; unknown before its first fetch in this epoch."""
        if replica == self._broker_id:
            return self._broker_epoch()
        progress = sync.progress.get(replica)
        return UNKNOWN_BROKER_EPOCH if progress is None else progress.broker_epoch
