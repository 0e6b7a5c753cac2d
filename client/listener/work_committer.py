"""Commits what a listener container's handlers are done with, when its ack mode says so."""

import asyncio
import logging
from collections.abc import Collection, Mapping

from client.consumer.record_source import RecordSource
from client.errors import CommitFailedError, KafkaError, RebalanceInProgressError
from client.listener.ack_mode import AckMode
from client.listener.partition_work import PartitionWork
from client.topic_partition import TopicPartition

logger = logging.getLogger(__name__)

# While the group rebalances; it soon says who owns what.
AGAIN_S = 0.05
LAST_COMMIT_S = 15.0


class WorkCommitter:
    """`work` is the container's, by partition; what is not in it any more is not committed."""

    def __init__(
        self,
        consumer: RecordSource,
        work: Mapping[TopicPartition, PartitionWork],
        mode: AckMode,
        *,
        count: int,
        interval_s: float,
    ) -> None:
        self._consumer = consumer
        self._work = work
        self._mode = mode
        self._count = count
        self._interval_s = interval_s
        self._committed: dict[TopicPartition, int] = {}
        self._due = asyncio.Event()
        # Records handled since the last commit.
        self._handled = 0
        # One after the other: an older offset must not be noted behind a newer one.
        self._lock = asyncio.Lock()

    def handled(self, work: PartitionWork, records: int) -> None:
        """So many more records are done with."""
        self._handled += records
        if self._mode.is_counted:
            if self._handled >= self._count:
                self._due.set()
        elif self._mode is AckMode.BATCH and work.batch_position != work.noted_position:
            work.noted_position = work.batch_position
            self._due.set()

    def polled(self) -> None:
        """The container has come for more records."""
        if self._mode is AckMode.MANUAL:
            self._due.set()

    async def run(self) -> None:
        """Commit whenever it is due, until cancelled. Raises the broker's error where one does not go away."""
        while True:
            try:
                async with asyncio.timeout(self._interval_s if self._mode.is_timed else None):
                    await self._due.wait()
            except TimeoutError:
                pass
            self._due.clear()
            self._handled = 0
            if not await self._commit(list(self._work), whole_polls=self._mode is AckMode.BATCH):
                await asyncio.sleep(AGAIN_S)
                self._due.set()

    async def commit(self, partition: TopicPartition, work: PartitionWork, *, must: bool = False) -> None:
        """Commit what is done of one partition. Raises the broker's error; with `must` also CommitFailedError where
        the partition has gone to others since.
        """
        while self._work.get(partition) is work:
            if await self._commit([partition]):
                return
            await asyncio.sleep(AGAIN_S)
        if must:
            raise CommitFailedError(f"{partition} has gone to another member: its records come again there")

    async def _commit(self, partitions: Collection[TopicPartition], *, whole_polls: bool = False) -> bool:
        """Commit for these what is new; with `whole_polls` only behind all records of a poll.

        False: the group is rebalancing, or has gone on without us, which the consumer is about to learn.
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
                logger.info("not committed, for now: %s", error)
                return False
            self._committed.update(offsets)
            return True

    async def commit_the_rest(self) -> None:
        """At the end: a rebalance that is under way is waited for. What goes wrong is only logged."""
        try:
            async with asyncio.timeout(LAST_COMMIT_S):
                while not await self._commit(list(self._work)):  # noqa: ASYNC110 - it does not tell when it is over
                    await asyncio.sleep(AGAIN_S)
        except (KafkaError, TimeoutError) as error:
            logger.warning("the last offsets were not committed: %r", error)

    async def try_to_commit(self, partitions: Collection[TopicPartition]) -> None:
        """The last commit for these. What goes wrong is only logged: their records come again to whoever comes next."""
        try:
            await self._commit(partitions)
        except KafkaError as error:
            logger.warning("offsets were not committed: %s", error)

    def forget(self, partition: TopicPartition) -> None:
        """It is another's now: what that one commits is not known here."""
        self._committed.pop(partition, None)
