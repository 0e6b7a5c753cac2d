"""The common base of both kinds of group members.

A membership is one task. It sends heartbeats while the application works, and changes the application's partitions
through `GroupPartitions`. If the application does not ask for records for `max_poll_interval_ms`, it counts as stuck:
the member leaves the group, so that other members get its partitions. It joins again when the application asks for
records.
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
        self._interval_s = self._options.heartbeat_interval_ms / 1000
        self._progress: object = None
        self._progressed_at = 0.0
        # The group has removed this member. It has not joined again, or the application has not yet asked for records.
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
        """Be a member until cancelled or until a fatal error, which the application gets."""
        retries = self._cluster.retries()
        while True:
            try:
                await self._take_part()
                retries.succeeded()
            except KafkaError as error:
                self._coordinator.forget_if_moved(error)
                if not error.retriable:
                    logger.error("left group %s: %s", self._group_id, error)
                    self._is_given_up = True
                    await self._partitions.lose_all()
                    self._partitions.failed(error)
                    return
                logger.info("group %s: %s; trying again", self._group_id, error)
                await retries.wait()

    @abstractmethod
    async def _take_part(self) -> None:
        """Join the group, and return when the member has to join again."""

    @abstractmethod
    def metadata_changed(self) -> None:
        """React to new metadata: topics or their numbers of partitions may have changed."""

    def _look_for_topics(self) -> None:
        """Refresh the metadata if a subscribed topic does not exist yet. Called periodically."""
        if not self._cluster.metadata.topics.keys() >= set(self._topics()):
            self._cluster.request_refresh()

    @abstractmethod
    async def _heartbeat(self) -> object:
        """Send a heartbeat. Raises KafkaError."""

    async def keep_alive(self) -> None:
        """Send heartbeats, and nothing else, until cancelled: the member gives up its partitions before it leaves."""
        while self._generation_id > 0:
            await asyncio.sleep(self._interval_s)
            try:
                await self._heartbeat()
            except KafkaError as error:
                self._coordinator.forget_if_moved(error)

    def _heartbeat_failed(self, error: KafkaError) -> None:
        """Raise an error that is not retriable; log any other, for the next heartbeat may succeed."""
        self._coordinator.forget_if_moved(error)
        if not error.retriable:
            raise error
        logger.info("heartbeat of group %s: %s", self._group_id, error)

    @abstractmethod
    async def leave(self) -> None:
        """Leave the group. A static member stays in the group until its session times out (KIP-345)."""

    async def try_to_leave(self) -> None:
        """As `leave`, but errors are only logged: the session then times out."""
        try:
            await self.leave()
        except KafkaError as error:
            logger.info("the request to leave group %s failed: %s", self._group_id, error)

    # ---- is the application stuck?

    def _is_stuck(self) -> bool:
        """Whether the application has handled records for longer than `max_poll_interval_ms`. Called periodically."""
        now = asyncio.get_running_loop().time()
        progress = self._partitions.progress()
        if self._partitions.lock.is_idle or progress != self._progress:
            self._progress = progress
            self._progressed_at = now
            return False
        return now - self._progressed_at > self._options.max_poll_interval_s

    async def _leave_stuck(self) -> None:
        """Leave the group without a commit, and wait until the application asks for records."""
        logger.warning(
            "the application has not asked for records for max_poll_interval_ms=%d; leaving group %s until it does",
            self._options.max_poll_interval_ms,
            self._group_id,
        )
        self._is_given_up = True
        await self.try_to_leave()
        self._forget()
        await self._partitions.lose_all()
        await self._partitions.lock.acquire()
        self._partitions.lock.release()

    def _forget(self) -> None:
        """Forget the identity: the group does not know this member any more."""
        self._is_given_up = True
        self._member_id = ""
        self._generation_id = -1

    def _has_joined(self) -> None:
        """The member has joined again: commits are allowed once the application asks for records."""
        if self._is_given_up:
            self._partitions.lock.between_records(self._application_is_back)

    def _application_is_back(self) -> None:
        self._is_given_up = self._generation_id <= 0  # still removed if it is no member now


async def first_of(*coroutines: Coroutine[Any, Any, T]) -> T:
    """Return or raise the result of the first coroutine to end; cancel the others."""
    tasks = [asyncio.create_task(coroutine) for coroutine in coroutines]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        return next(task for task in tasks if task in done).result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
