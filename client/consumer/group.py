"""A consumer's side of its group: coordinator, membership, committed offsets, commits from time to time."""

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial

from client.consumer.assignors import Assignor
from client.consumer.classic_member import ClassicMember
from client.consumer.committer import Committer
from client.consumer.consumer_member import ConsumerMember
from client.consumer.group_metadata import ConsumerGroupMetadata, OffsetAndMetadata
from client.consumer.group_partitions import GroupPartitions, Reading
from client.consumer.member import GroupMember, MemberOptions, MemberParts
from client.topic_partition import TopicPartition
from client.wire.cluster import Cluster
from client.wire.coordinator import Coordinator, CoordinatorType


class ConsumerGroup:
    """`join` begins a membership, `quit` ends it. Without one, offsets can be committed all the same.

    `auto_commit_s`: seconds between commits, None for none. `protocol`: "classic" or "consumer" (KIP-848).
    """

    def __init__(
        self,
        cluster: Cluster,
        reading: Reading,
        options: MemberOptions,
        *,
        protocol: str,
        assignors: Sequence[Assignor],
        remote_assignor: str | None,
        auto_commit_s: float | None,
        auto_offset_reset: str,
        require_stable: bool,
        timeout_s: float,
    ) -> None:
        self._cluster = cluster
        self._reading = reading
        self._options = options
        self._protocol = protocol
        self._assignors = assignors
        self._remote_assignor = remote_assignor
        self._auto_commit_s = auto_commit_s
        self._coordinator = Coordinator(cluster, CoordinatorType.GROUP, options.group_id)
        self.committer = Committer(
            cluster,
            self._coordinator,
            group=lambda: self.metadata,
            commits_as=self.commits_as,
            timeout_s=timeout_s,
            require_stable=require_stable,
        )
        self.partitions = GroupPartitions(
            reading, self.committer, auto_commit=auto_commit_s is not None, auto_offset_reset=auto_offset_reset
        )
        self._member: GroupMember | None = None
        self._membership: asyncio.Task[None] | None = None

    @property
    def metadata(self) -> ConsumerGroupMetadata:
        """The member, or the group alone while there is no membership."""
        return ConsumerGroupMetadata(self._options.group_id) if self._member is None else self._member.metadata

    def commits_as(self) -> ConsumerGroupMetadata:
        """As `metadata`. Raises CommitFailedError where the group has gone on without the member."""
        return self.metadata if self._member is None else self._member.commits_as()

    def start(self) -> None:
        """Commit from now on, now and then."""
        if self._auto_commit_s is not None:
            self._cluster.background.spawn(self._commit_now_and_then(self._auto_commit_s), "auto commit")

    # ---- membership

    def join(self, topics: Callable[[], Collection[str]]) -> None:
        """Become a member that wants the topics that `topics` gives at the time."""
        parts = MemberParts(self._cluster, self._coordinator, self.partitions, self._options, topics)
        if self._protocol == "consumer":
            self._member = ConsumerMember(parts, self._remote_assignor)
        else:
            self._member = ClassicMember(parts, self._assignors)
        self._membership = asyncio.create_task(self._member.run(), name=f"member of {self._options.group_id}")
        self._membership.add_done_callback(self._ended)

    def _ended(self, membership: "asyncio.Task[None]") -> None:
        if not membership.cancelled() and (error := membership.exception()) is not None:
            self._reading.failed(error)

    async def quit(self) -> None:
        """Give up the partitions, as at a rebalance, and the membership."""
        member, membership = self._member, self._membership
        if member is None or membership is None:
            return
        membership.cancel()
        await asyncio.wait([membership])
        self._membership = None
        await self.partitions.take_away(self.partitions.owned)
        await member.try_to_leave()
        self._member = None

    @property
    def is_member(self) -> bool:
        """Whether partitions come from the group."""
        return self._member is not None

    def metadata_changed(self) -> None:
        """Topics may have come, gone or grown."""
        if self._member is not None:
            self._member.metadata_changed()

    # ---- commits

    async def _commit_now_and_then(self, interval_s: float) -> None:
        loop = asyncio.get_running_loop()
        committed: Mapping[TopicPartition, OffsetAndMetadata] = {}
        while True:
            await asyncio.sleep(interval_s)
            handled: asyncio.Future[Mapping[TopicPartition, OffsetAndMetadata]] = loop.create_future()
            self._reading.turn.between_records(partial(self._note_positions, handled))
            positions = await handled
            if positions != committed:
                await self.committer.try_to_commit(positions)
                committed = positions

    def _note_positions(self, handled: "asyncio.Future[Mapping[TopicPartition, OffsetAndMetadata]]") -> None:
        if not handled.done():
            handled.set_result(self.partitions.positions())

    async def close(self) -> None:
        """Leave the group, with auto commit after a last commit."""
        if self.is_member:
            await self.quit()
        elif self._auto_commit_s is not None:
            await self.committer.try_to_commit(self.partitions.positions())
        await self._coordinator.close()
