"""The group of a consumer: coordinator, membership, committed offsets, periodic commits."""

import asyncio
from collections.abc import Callable, Collection, Mapping
from functools import partial

from client.consumer.classic_member import ClassicMember
from client.consumer.committer import Committer
from client.consumer.consumer_member import ConsumerMember
from client.consumer.group_metadata import ConsumerGroupMetadata, OffsetAndMetadata
from client.consumer.group_partitions import GroupPartitions, Reading
from client.consumer.member import GroupMember, MemberParts
from client.consumer.options import ConsumerOptions
from client.topic_partition import TopicPartition
from client.wire.cluster import Cluster
from client.wire.coordinator import Coordinator, CoordinatorType


class ConsumerGroup:
    """`join` starts a membership, `quit` ends it. Commits work without a membership, too."""

    def __init__(self, cluster: Cluster, reading: Reading, group_id: str, options: ConsumerOptions) -> None:
        self._cluster = cluster
        self._reading = reading
        self._group_id = group_id
        self._options = options
        self._coordinator = Coordinator(cluster, CoordinatorType.GROUP, group_id)
        self.committer = Committer(
            cluster, self._coordinator, options, group=lambda: self.metadata, commits_as=self.commits_as
        )
        self.partitions = GroupPartitions(reading, self.committer, options)
        self._member: GroupMember | None = None
        self._membership: asyncio.Task[None] | None = None

    @property
    def metadata(self) -> ConsumerGroupMetadata:
        """The identity of the member; without a membership, that of the group alone."""
        return ConsumerGroupMetadata(self._group_id) if self._member is None else self._member.metadata

    def commits_as(self) -> ConsumerGroupMetadata:
        """As `metadata`. Raises CommitFailedError if the group has removed this member."""
        return self.metadata if self._member is None else self._member.commits_as()

    def start(self) -> None:
        """Start the periodic commits of `enable_auto_commit`."""
        if self._options.enable_auto_commit:
            interval_s = self._options.auto_commit_interval_ms / 1000
            self._cluster.background.spawn(self._commit_now_and_then(interval_s), "auto commit")

    # ---- membership

    def join(self, topics: Callable[[], Collection[str]]) -> None:
        """Start a membership. `topics` returns the subscribed topics at the time of the call."""
        parts = MemberParts(self._cluster, self._coordinator, self.partitions, self._group_id, self._options, topics)
        kind = ConsumerMember if self._options.group_protocol == "consumer" else ClassicMember
        self._member = kind(parts)
        self._membership = asyncio.create_task(self._member.run(), name=f"member of {self._group_id}")
        self._membership.add_done_callback(self._ended)

    def _ended(self, membership: "asyncio.Task[None]") -> None:
        if not membership.cancelled() and (error := membership.exception()) is not None:
            self._reading.failed(error)

    async def quit(self) -> None:
        """Give up the partitions as in a rebalance, then leave the group."""
        member, membership = self._member, self._membership
        if member is None or membership is None:
            return
        membership.cancel()
        await asyncio.wait([membership])
        self._membership = None
        keeping_alive = asyncio.create_task(member.keep_alive())  # the listener may take longer than the session
        try:
            await self.partitions.take_away(self.partitions.owned)
        finally:
            keeping_alive.cancel()
            await asyncio.wait([keeping_alive])
        await member.try_to_leave()
        self._member = None

    @property
    def is_member(self) -> bool:
        """Whether there is a membership."""
        return self._member is not None

    def metadata_changed(self) -> None:
        """Tell the member that topics or their numbers of partitions may have changed."""
        if self._member is not None:
            self._member.metadata_changed()

    # ---- commits

    async def _commit_now_and_then(self, interval_s: float) -> None:
        loop = asyncio.get_running_loop()
        committed: Mapping[TopicPartition, OffsetAndMetadata] = {}
        while True:
            await asyncio.sleep(interval_s)
            handled: asyncio.Future[Mapping[TopicPartition, OffsetAndMetadata]] = loop.create_future()
            self._reading.lock.between_records(partial(self._note_positions, handled))
            positions = await handled
            if positions != committed:
                await self.committer.try_to_commit(positions)
                committed = positions

    def _note_positions(self, handled: "asyncio.Future[Mapping[TopicPartition, OffsetAndMetadata]]") -> None:
        if not handled.done():
            handled.set_result(self.partitions.positions())

    async def close(self) -> None:
        """Leave the group; with `enable_auto_commit`, commit the handled offsets first."""
        if self.is_member:
            await self.quit()
        elif self._options.enable_auto_commit:
            await self.committer.try_to_commit(self.partitions.positions())
        await self._coordinator.close()
