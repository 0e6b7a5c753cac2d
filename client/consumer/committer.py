"""Commits a consumer's offsets and fetches the committed offsets of its group."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import TypeVar

from client.consumer.group_metadata import ConsumerGroupMetadata, OffsetAndMetadata
from client.consumer.group_offsets import commit_offsets, fetch_offsets
from client.consumer.options import ConsumerOptions
from client.errors import CommitFailedError, KafkaError, error_for
from client.topic_partition import TopicPartition
from client.wire.cluster import Cluster
from client.wire.coordinator import Coordinator
from protocol.error_codes import ErrorCode

logger = logging.getLogger(__name__)
T = TypeVar("T")

# The response to the next heartbeat brings the new epoch (KIP-848).
_NEWER_EPOCH_COMES = frozenset((ErrorCode.STALE_MEMBER_EPOCH,))
# The group has removed this member.
_GIVEN_UP = frozenset((ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION, ErrorCode.FENCED_MEMBER_EPOCH))


class Committer:
    """`group()` gives the identity for fetching offsets, `commits_as()` the one for committing.

    Both are called at each attempt, because the member's epoch may have changed. `commits_as` raises CommitFailedError
    if the group has removed the member.
    """

    def __init__(
        self,
        cluster: Cluster,
        coordinator: Coordinator,
        options: ConsumerOptions,
        *,
        group: Callable[[], ConsumerGroupMetadata],
        commits_as: Callable[[], ConsumerGroupMetadata],
    ) -> None:
        self._cluster = cluster
        self._coordinator = coordinator
        self._group = group
        self._commits_as = commits_as
        self._options = options
        # One commit at a time: an older commit must not arrive after a newer one.
        self._lock = asyncio.Lock()

    async def committed(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the committed offsets of these partitions, without partitions that have none.

        Retriable errors are retried for `api_timeout_ms`. Raises the broker's error.
        """

        async def attempt() -> dict[TopicPartition, OffsetAndMetadata]:
            group = self._group()
            connection = await self._coordinator.connection()
            try:
                return await fetch_offsets(
                    connection, group.group_id, partitions, member=group, require_stable=self._options.read_committed
                )
            except KafkaError as error:
                self._coordinator.forget_if_moved(error)
                raise

        return await self._retry(attempt) if partitions else {}

    async def commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Commit offsets for the group.

        Raises CommitFailedError if the group has removed this member, even if `offsets` is empty;
        RebalanceInProgressError during a rebalance: the caller may retry; the broker's error if it is not retriable
        or `api_timeout_ms` has passed.
        """
        self._commits_as()
        if not offsets:
            return
        async with self._lock:
            await self._retry(lambda: self._attempt(offsets))

    async def _retry(self, attempt: Callable[[], Awaitable[T]]) -> T:
        return await self._cluster.retry(
            attempt, timeout_s=self._options.api_timeout_s, also_retriable=_NEWER_EPOCH_COMES
        )

    async def _attempt(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        group = self._commits_as()
        codes = await commit_offsets(await self._coordinator.connection(), group, offsets)
        for partition, code in codes.items():
            if not code:
                continue
            error = error_for(code, context=f"commit of group {group.group_id}, {partition}")
            self._coordinator.forget_if_moved(error)
            if code in _GIVEN_UP:
                raise CommitFailedError(f"{error}: the group has removed this member") from error
            raise error

    async def try_to_commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """As `commit`, but errors are only logged: the next owner of the partitions gets the records again."""
        if not offsets:
            return
        try:
            await self.commit(offsets)
        except KafkaError as error:
            logger.warning("offsets were not committed: %s", error)
