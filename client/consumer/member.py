"""What both kinds of group membership share: who we are, what we want, and how it ends.

A membership is one task. It keeps the coordinator informed whatever the application does, and gives partitions to the
application and takes them away through `GroupPartitions`. The application that does not ask for records for longer than
`max_poll_interval_ms` is taken for stuck: the member leaves, others get its partitions, and it comes back when the
application does.
"""

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Coroutine
from typing import Any, NamedTuple, TypeVar

from client.consumer.group_metadata import ConsumerGroupMetadata
from client.consumer.group_partitions import GroupPartitions
from client.consumer.options import ConsumerOptions
from client.errors import CommitFailedError, KafkaError
from client.wire.cluster import Cluster
from client.wire.coordinator import Coordinator

T = TypeVar("T")

logger = logging.getLogger(__name__)


class MemberParts(NamedTuple):
    """The objects that a member works with."""

    cluster: Cluster
    coordinator: Coordinator
    partitions: GroupPartitions
    group_id: str
    options: ConsumerOptions
    topics: Callable[[], Collection[str]]
    """Returns the topics of the subscription."""


class GroupMember(ABC):
    """The base of `ClassicMember` and `ConsumerMember`."""

    def __init__(self, parts: MemberParts) -> None:
        self._cluster, self._coordinator, self._partitions, self._group_id, self._options, self._topics = parts
        self._member_id = ""
        self._generation_id = -1
        self._progress: object = None
        self._progressed_at = 0.0
        # The group has gone on without us: we have not joined again, or the application does not know yet.
        self._is_given_up = False

    @property
    def metadata(self) -> ConsumerGroupMetadata:
        """The member's identity in the group."""
        return ConsumerGroupMetadata(
            self._group_id, self._generation_id, self._member_id, self._options.group_instance_id
        )

    def commits_as(self) -> ConsumerGroupMetadata:
        """The identity to commit with.

        Raises CommitFailedError after the group has removed this member, until it has joined again and the application
        has asked for records: an empty group accepts any offset from a client without a generation.
        """
        if self._is_given_up:
            raise CommitFailedError(
                f"group {self._group_id} has removed this member; its partitions go to other members"
            )
        return self.metadata

    async def run(self) -> None:
        """Be a member until cancelled, or until an error that does not go away; the application hears of that."""
        attempt = 0
        while True:
            try:
                await self._take_part()
                attempt = 0
            except KafkaError as error:
                self._coordinator.heed(error)
                if not error.retriable:
                    logger.error("left group %s: %s", self._group_id, error)
                    self._is_given_up = True
                    await self._partitions.lose_all()
                    self._partitions.failed(error)
                    return
                logger.info("group %s: %s; trying again", self._group_id, error)
                await asyncio.sleep(self._cluster.backoff.delay_s(attempt))
                attempt += 1

    @abstractmethod
    async def _take_part(self) -> None:
        """Join, and be a member as long as that lasts."""

    @abstractmethod
    def metadata_changed(self) -> None:
        """The topics may have changed, or how many partitions they have."""

    def _look_for_topics(self) -> None:
        """Ask again for topics that do not exist yet. To be called now and then."""
        if not self._cluster.metadata.topics.keys() >= set(self._topics()):
            self._cluster.request_refresh()

    def _heartbeat_failed(self, error: KafkaError) -> None:
        """Raise what does not go away; anything else the next heartbeat may do better."""
        self._coordinator.heed(error)
        if not error.retriable:
            raise error
        logger.info("heartbeat of group %s: %s", self._group_id, error)

    @abstractmethod
    async def leave(self) -> None:
        """Tell the group that we go; a static member stays one until its session times out (KIP-345)."""

    async def try_to_leave(self) -> None:
        """As `leave`; what goes wrong is only logged: the session times out then."""
        try:
            await self.leave()
        except KafkaError as error:
            logger.info("group %s was not told that we leave: %s", self._group_id, error)

    # ---- is the application stuck?

    def _is_stuck(self) -> bool:
        """Whether the application has had records in hand for too long. To be asked now and then."""
        now = asyncio.get_running_loop().time()
        progress = self._partitions.progress()
        if self._partitions.turn.is_idle or progress != self._progress:
            self._progress = progress
            self._progressed_at = now
            return False
        return now - self._progressed_at > self._options.max_poll_interval_s

    async def _leave_stuck(self) -> None:
        """Leave as if the process had died, and wait for the application to come back."""
        logger.warning(
            "the application has not asked for records for max_poll_interval_ms=%d; leaving group %s until it does",
            self._options.max_poll_interval_ms,
            self._group_id,
        )
        self._is_given_up = True
        await self.try_to_leave()
        self._forget()
        await self._partitions.lose_all()
        await self._partitions.turn.take()
        self._partitions.turn.give_back()

    def _forget(self) -> None:
        """The group does not know us any more."""
        self._is_given_up = True
        self._member_id = ""
        self._generation_id = -1

    def _has_joined(self) -> None:
        """The member has joined again: commits are allowed once the application asks for records."""
        if self._is_given_up:
            self._partitions.turn.between_records(self._application_is_back)

    def _application_is_back(self) -> None:
        self._is_given_up = self._generation_id <= 0  # given up again, if we are no member now


async def first_of(*coroutines: Coroutine[Any, Any, T]) -> T:
    """What the first of them to end returns or raises; the others are cancelled."""
    tasks = [asyncio.create_task(coroutine) for coroutine in coroutines]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        return next(task for task in tasks if task in done).result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
