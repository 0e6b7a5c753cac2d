"""Committed offsets: commit, fetch, delete and expire.

A commit to a group with members is accepted only from members of the current generation. It is answered when its
records are committed. Offsets expire `offsets.retention.minutes` after the group became empty (KIP-211). If the group
never had members, or has members of which none is subscribed to the topic any longer, they expire that time after the
commit. A group without members and offsets is deleted. Source: GroupMetadataManager of 3.9.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from typing import NamedTuple, TypeVar

from broker.coordinator.classic.group import CONSUMER, Group, GroupState
from broker.coordinator.classic.groups import ClassicGroups
from broker.coordinator.consumer.group import AnyGroup, ConsumerGroup
from broker.coordinator.coordinator_log import Appended, answer_of
from broker.coordinator.group_partitions import GroupPartitions, GroupsPartition
from broker.coordinator.group_store import GroupStore, offset_error
from broker.coordinator.offsets import CommittedOffset, Offsets, TopicPartition
from broker.settings.config import BrokerConfig
from protocol.error_codes import ErrorCode

logger = logging.getLogger(__name__)

MS_PER_MINUTE = 60_000
NO_GENERATION = -1

R = TypeVar("R")
Codes = Mapping[TopicPartition, ErrorCode]


class Committer(NamedTuple):
    """The sender of a commit or fetch, as its request says: generation -1 and member id "" if it is not a member.

    The generation of a member of a consumer group is its member epoch.
    """

    generation: int = NO_GENERATION
    member_id: str = ""
    group_instance_id: str | None = None
    knows_epochs: bool = True
    """False for versions of OffsetCommit that members of the consumer protocol must not use."""


NOT_A_MEMBER = Committer()


class OffsetManager:
    """The offsets of all groups of this broker. They expire only while `run` runs."""

    def __init__(
        self,
        partitions: GroupPartitions,
        store: GroupStore,
        classic: ClassicGroups,
        config: BrokerConfig,
        now_ms: Callable[[], int],
    ) -> None:
        self._partitions = partitions
        self._store = store
        self._classic = classic
        self._config = config
        self._now_ms = now_ms

    # -- commit ------------------------------------------------------------------------------------------------------

    def commit(
        self, group_id: str, committer: Committer, offsets: Offsets, respond: Callable[[Codes], R]
    ) -> R | asyncio.Future[R]:
        """Handle an OffsetCommit. Return the response, or its future if the commit must wait for replicas.

        respond: builds the response from the code of each partition.
        """
        partition = self._partitions.find(group_id, may_be_empty=True)
        if isinstance(partition, ErrorCode):
            return respond(dict.fromkeys(offsets, partition))
        group = partition.groups.get(group_id)
        if group is None:
            if committer.generation >= 0:
                return respond(dict.fromkeys(offsets, ErrorCode.ILLEGAL_GENERATION))
            group = partition.groups[group_id] = Group(group_id, self._now_ms())
        error = check_committer(group, committer, is_transactional=False)
        if error is None and group.state is GroupState.COMPLETING_REBALANCE:
            error = ErrorCode.REBALANCE_IN_PROGRESS
        if error is not None:
            return respond(dict.fromkeys(offsets, error))
        if isinstance(group, Group) and not group.is_empty:
            with self._classic.step(group) as step:
                step.restart_session(committer.member_id)
        accepted = self._accepted(offsets)
        if not accepted:
            return respond(dict.fromkeys(offsets, ErrorCode.OFFSET_METADATA_TOO_LARGE))

        def finish(appended: Appended) -> R:
            if appended.error:
                group.offsets.fail(accepted)
            else:
                group.offsets.finish(accepted, appended.base_offset)
            return respond(_codes(offsets, accepted, appended.error))

        return answer_of(self._store.store_offsets(group_id, accepted, lambda _: group.offsets.begin(accepted), finish))

    async def commit_in_transaction(
        self, group_id: str, committer: Committer, offsets: Offsets, producer_id: int, producer_epoch: int
    ) -> Codes:
        """Handle a TxnOffsetCommit, which the caller has verified. The offsets count after `end_transaction`."""
        partition = self._partitions.find(group_id)
        if isinstance(partition, ErrorCode):
            return dict.fromkeys(offsets, partition)
        group = partition.groups.get(group_id)
        if group is None:
            group = partition.groups[group_id] = Group(group_id, self._now_ms())
        error = check_committer(group, committer, is_transactional=True)
        if error is not None:
            return dict.fromkeys(offsets, error)
        accepted = self._accepted(offsets)
        if not accepted:
            return dict.fromkeys(offsets, ErrorCode.OFFSET_METADATA_TOO_LARGE)

        def in_log(log_offset: int) -> None:
            # Not before: what the log refuses of a fenced producer must not replace its successor's offsets.
            written = {key: offset._replace(log_offset=log_offset) for key, offset in accepted.items()}
            partition.open_groups.setdefault(producer_id, set()).add(group_id)
            group.offsets.begin_transactional(producer_id, written)

        def finish(appended: Appended) -> Codes:
            return _codes(offsets, accepted, appended.error)

        return await self._store.store_offsets(group_id, accepted, in_log, finish, producer_id, producer_epoch)

    def end_transaction(self, producer_id: int, markers: Mapping[int, int], *, committed: bool) -> None:
        """End a producer's transaction. markers: by partition of `__consumer_offsets`, the offset of its marker."""
        for number, marker_offset in markers.items():
            partition = self._partitions.by_number(number)
            if partition is not None:
                partition.end_transaction(producer_id, marker_offset, committed=committed)

    def _accepted(self, offsets: Offsets) -> dict[TopicPartition, CommittedOffset]:
        """Return the offsets whose metadata is not too long. Like Kafka, count UTF-16 units in spite of the name."""
        limit = self._config.offset_metadata_max_bytes
        return {
            key: offset for key, offset in offsets.items() if len(offset.metadata.encode("utf-16-le")) // 2 <= limit
        }

    # -- fetch -------------------------------------------------------------------------------------------------------

    def fetch(
        self,
        group_id: str,
        partitions: Collection[TopicPartition] | None,
        *,
        require_stable: bool,
        fetcher: Committer = NOT_A_MEMBER,
    ) -> ErrorCode | dict[TopicPartition, CommittedOffset | ErrorCode | None]:
        """Handle an OffsetFetch. Return the offsets of these partitions (None: of all), or the error of the group.

        The value of a partition is its offset, None if there is none, or UNSTABLE_OFFSET_COMMIT.
        """
        partition = self._partitions.find(group_id, may_be_empty=True)
        if isinstance(partition, ErrorCode):
            return partition
        group = partition.groups.get(group_id)
        if group is None or group.is_dead:
            return dict.fromkeys(partitions or ())
        if isinstance(group, ConsumerGroup) and (fetcher.member_id or fetcher.generation >= 0):
            error = check_epoch(group, fetcher)
            if error is not None:
                return error
        offsets = group.offsets
        found: dict[TopicPartition, CommittedOffset | ErrorCode | None] = {}
        for key in list(offsets.committed) if partitions is None else partitions:
            is_unstable = require_stable and offsets.is_unstable(key)
            found[key] = ErrorCode.UNSTABLE_OFFSET_COMMIT if is_unstable else offsets.committed.get(key)
        return found

    # -- delete ------------------------------------------------------------------------------------------------------

    async def delete_group(self, group_id: str) -> ErrorCode:
        """Delete an empty group and its offsets."""
        partition = self._partitions.find(group_id, may_be_empty=True)
        if isinstance(partition, ErrorCode):
            return partition
        group = partition.groups.get(group_id)
        if group is None or group.is_dead:
            return ErrorCode.GROUP_ID_NOT_FOUND
        if not group.is_empty:
            return ErrorCode.NON_EMPTY_GROUP
        forget = partial(self._forget, partition, group)
        return await self._store.store_deletion(group, list(group.offsets.committed), whole_group=True, in_log=forget)

    async def delete_offsets(self, group_id: str, partitions: Collection[TopicPartition]) -> ErrorCode | Codes:
        """Delete a group's offsets of those partitions whose topic no member is subscribed to."""
        partition = self._partitions.find(group_id)
        if isinstance(partition, ErrorCode):
            return partition
        group = partition.groups.get(group_id)
        if group is None or group.is_dead:
            return ErrorCode.GROUP_ID_NOT_FOUND
        codes = dict.fromkeys(partitions, ErrorCode.NONE)
        if not group.is_empty:
            if isinstance(group, Group) and group.protocol_type != CONSUMER:
                return ErrorCode.NON_EMPTY_GROUP
            for key in partitions:
                if group.is_subscribed_to(key[0]):
                    codes[key] = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
        to_delete = [key for key, code in codes.items() if not code]
        error = await self._remove(partition, group, to_delete)
        return dict(codes) if not error else {key: code or error for key, code in codes.items()}

    def partitions_deleted(self, partitions: Collection[TopicPartition]) -> None:
        """Delete the offsets of these partitions, whose topics were deleted, in every group."""
        for partition, group in self._partitions.all_groups():
            to_delete = [key for key in partitions if key in group.offsets.committed or group.offsets.is_unstable(key)]
            if to_delete:
                self._remove(partition, group, to_delete)

    def _remove(
        self, partition: GroupsPartition, group: AnyGroup, to_delete: Iterable[TopicPartition]
    ) -> asyncio.Future[ErrorCode]:
        """Delete offsets of a group, and the group if nothing is left of it. Delete nothing if the write fails."""
        to_delete = list(to_delete)
        committed = [key for key in to_delete if key in group.offsets.committed]
        nothing_left = group.is_empty and len(committed) == len(group.offsets.committed)

        def in_log() -> None:
            group.offsets.remove(to_delete)
            if nothing_left and group.offsets.is_empty:
                forget = partial(self._forget, partition, group)
                self._store.store_deletion(group, (), whole_group=True, in_log=forget)

        code = self._store.store_deletion(group, committed, whole_group=False, in_log=in_log)
        if code.done() and code.result():
            logger.warning("group %s: offsets could not be deleted: %s", group.group_id, code.result().name)
        return code

    def _forget(self, partition: GroupsPartition, group: AnyGroup) -> None:
        self._partitions.unload(group)
        if partition.groups.get(group.group_id) is group:
            del partition.groups[group.group_id]
        for groups in partition.open_groups.values():
            groups.discard(group.group_id)

    # -- expiry ------------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Delete expired offsets and groups every offsets.retention.check.interval.ms."""
        while True:
            await asyncio.sleep(self._config.offsets_retention_check_interval_ms / 1000)
            await self.expire()

    async def expire(self) -> int:
        """Delete expired offsets and groups, one group at a time. Return the number of offsets."""
        now_ms = self._now_ms()
        count = 0
        for partition, group in list(self._partitions.all_groups()):
            if partition.groups.get(group.group_id) is not group:
                continue
            expired = self._expired(group, now_ms)
            if expired or (group.is_empty and group.offsets.is_empty):
                self._remove(partition, group, expired)
                count += len(expired)
            await asyncio.sleep(0)
        if count:
            logger.info("%d committed offsets have expired", count)
        return count

    def _expired(self, group: AnyGroup, now_ms: int) -> list[TopicPartition]:
        retention_ms = self._config.offsets_retention_minutes * MS_PER_MINUTE
        if isinstance(group, ConsumerGroup):
            return group.offsets.expired(now_ms, retention_ms, in_use=group.subscribed_topics)
        if group.protocol_type is None:
            return group.offsets.expired(now_ms, retention_ms)
        if group.state is GroupState.EMPTY:
            since_ms = group.state_timestamp if group.state_timestamp >= 0 else None
            return group.offsets.expired(now_ms, retention_ms, since_ms)
        if group.state is GroupState.STABLE and group.protocol_type == CONSUMER and group.subscribed_topics is not None:
            return group.offsets.expired(now_ms, retention_ms, in_use=group.subscribed_topics)
        return []


def check_committer(group: AnyGroup, committer: Committer, *, is_transactional: bool) -> ErrorCode | None:
    """Return the error of a commit; None if the committer may commit."""
    if group.is_dead:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    generation, member_id, instance_id, knows_epochs = committer
    if isinstance(group, ConsumerGroup):
        if generation < 0 and group.is_empty:
            return None
        member = group.members.get(member_id)
        if member is not None and member.classic is None and not (is_transactional or knows_epochs):
            return ErrorCode.UNSUPPORTED_VERSION
        error = check_epoch(group, committer)
        is_stale = error is ErrorCode.STALE_MEMBER_EPOCH  # not an error of TxnOffsetCommit
        return ErrorCode.ILLEGAL_GENERATION if is_stale and is_transactional else error
    if generation < 0 and group.state is GroupState.EMPTY:  # consumers with manual assignment, administrators
        return None
    if generation >= 0 or member_id or instance_id is not None:
        return group.check_generation(member_id, instance_id, generation)
    # Transactional commits of old producers do not name the member.
    return None if is_transactional or group.state is GroupState.EMPTY else ErrorCode.UNKNOWN_MEMBER_ID


def check_epoch(group: ConsumerGroup, claimed: Committer) -> ErrorCode | None:
    """Return the error if the claimed member is not in the consumer group, or has another epoch; None otherwise."""
    member = group.members.get(claimed.member_id)
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if claimed.generation == member.epoch:
        return None
    return ErrorCode.STALE_MEMBER_EPOCH if member.classic is None else ErrorCode.ILLEGAL_GENERATION


def _codes(offsets: Offsets, accepted: Offsets, error: ErrorCode) -> Codes:
    code = offset_error(error)
    return {key: code if key in accepted else ErrorCode.OFFSET_METADATA_TOO_LARGE for key in offsets}
