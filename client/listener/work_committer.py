"""Commits the records that a listener container's handlers have handled, according to its ack mode."""

import asyncio
import logging
from collections.abc import Collection, Mapping

from client.consumer.record_source import RecordSource
from client.errors import CommitFailedError, KafkaError, RebalanceInProgressError
from client.listener.ack_mode import AckMode
from client.listener.options import ContainerOptions
from client.listener.partition_work import PartitionWork
from client.topic_partition import TopicPartition
from client.wire.backoff import Backoff, Retries

logger = logging.getLogger(__name__)

# The first delay before another commit during a rebalance, after which the owners are known.
RETRY_BACKOFF_MS = 50
LAST_COMMIT_S = 15.0


class WorkCommitter:
    """`work` is the container's, by partition; a partition that is no longer in it is not committed."""

    def __init__(
        self, consumer: RecordSource, work: Mapping[TopicPartition, PartitionWork], options: ContainerOptions
    ) -> None:
        self._consumer = consumer
        self._work = work
        self._mode = options.ack_mode
        self._count = options.ack_count
        self._interval_s = options.ack_time_ms / 1000
        self._backoff = Backoff(RETRY_BACKOFF_MS)
        self._committed: dict[TopicPartition, int] = {}
        self._due = asyncio.Event()
        # Records handled since the last commit.
        self._handled = 0
        # One commit at a time: an older offset must not be noted after a newer one.
        self._lock = asyncio.Lock()

    def handled(self, work: PartitionWork, records: int) -> None:
        """Note that `records` more records are handled."""
        self._handled += records
        if self._mode.is_counted:
            if self._handled >= self._count:
                self._due.set()
        elif self._mode is AckMode.BATCH and work.batch_position != work.noted_position:
            work.noted_position = work.batch_position
            self._due.set()

    def polled(self) -> None:
        """Note that the container polls."""
        if self._mode is AckMode.MANUAL:
            self._due.set()

    async def run(self) -> None:
        """Commit whenever it is due, until cancelled. Raises a broker's error that is not retriable."""
        retries = Retries(self._backoff)
        while True:
            try:
                async with asyncio.timeout(self._interval_s if self._mode.is_timed else None):
                    await self._due.wait()
            except TimeoutError:
                pass
            self._due.clear()
            self._handled = 0
            if await self._commit(list(self._work), whole_polls=self._mode is AckMode.BATCH):
                retries.succeeded()
            else:
                await retries.wait()
                self._due.set()

    async def commit(self, partition: TopicPartition, work: PartitionWork, *, must: bool = False) -> None:
        """Commit one partition's handled records. Raises the broker's error; with `must` also CommitFailedError if the
        partition has moved to another member.
        """
        retries = Retries(self._backoff)
        while self._work.get(partition) is work:
            if await self._commit([partition]):
                return
            await retries.wait()
        if must:
            raise CommitFailedError(f"{partition} has moved to another member, which reads its records again")

    async def _commit(self, partitions: Collection[TopicPartition], *, whole_polls: bool = False) -> bool:
        """Commit new positions of these partitions; with `whole_polls` only those after all records of a poll.

        Return False if the group is rebalancing or has removed this member, which the consumer is about to learn.
        """
        async with self._lock:
            offsets: dict[TopicPartition, int] = {}
            for partition in partitions:
                work = self._work.get(partition)
                if work is not None:
                    position = work.batch_position if whole_polls else work.position
                    if position is not None and position != self._committed.get(partition):
                        offsets[partition] = position
            if not offsets:
                return True
            try:
                await self._consumer.commit(offsets)
            except (CommitFailedError, RebalanceInProgressError) as error:
                logger.info("could not commit during a rebalance: %s", error)
                return False
            self._committed.update(offsets)
            return True

    async def commit_the_rest(self) -> None:
        """Commit at the end, after waiting for a rebalance in progress. Errors are only logged."""
        retries = Retries(self._backoff)
        try:
            async with asyncio.timeout(LAST_COMMIT_S):
                while not await self._commit(list(self._work)):
                    await retries.wait()
        except (KafkaError, TimeoutError) as error:
            logger.warning("the last offsets were not committed: %r", error)

    async def try_to_commit(self, partitions: Collection[TopicPartition]) -> None:
        """Commit these partitions for the last time. Errors are only logged: the next owner reads the records again."""
        try:
            await self._commit(partitions)
        except KafkaError as error:
            logger.warning("offsets were not committed: %s", error)

    def forget(self, partition: TopicPartition) -> None:
        """Drop the committed offset of a partition that was taken away: another member may commit it now."""
        self._committed.pop(partition, None)
