"""The partitions that a group gives to a consumer and takes away from it.

What a membership (classic or KIP-848) decides becomes effective here, in an order that loses and repeats as little as
can be. Taken away: wait until no record is handled, commit what has been handled, tell the application, stop reading.
Given: find the committed offsets, tell the application, hand records out. Lost, as the group has given this member up:
stop reading at once, tell the application, commit nothing.
"""

import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import NamedTuple

from client.consumer.committer import Committer
from client.consumer.group_metadata import OffsetAndMetadata
from client.consumer.options import ConsumerOptions
from client.consumer.read_epochs import UNKNOWN_EPOCH
from client.consumer.reader_state import PartitionState
from client.consumer.rebalance_listener import PartitionsCallback, RebalanceListener, call
from client.consumer.turn import Turn
from client.errors import NoOffsetError
from client.topic_partition import TopicPartition

logger = logging.getLogger(__name__)


class Reading(NamedTuple):
    """The reader, as far as its group has to do with it."""

    turn: Turn
    states: Mapping[TopicPartition, PartitionState]
    """What is read; only `add` and `drop` change it."""
    add: Callable[[Mapping[TopicPartition, PartitionState]], None]
    drop: Callable[[Collection[TopicPartition]], None]
    failed: Callable[[BaseException], None]
    """Have the application hear of an error when it next asks for records."""
    progress: Callable[[], object]
    """Something that changes whenever the application has asked for more."""


class GroupPartitions:
    """See the module."""

    def __init__(self, reading: Reading, committer: Committer, options: ConsumerOptions) -> None:
        self.listener: RebalanceListener = RebalanceListener()
        self.turn = reading.turn
        self.failed = reading.failed
        self.progress = reading.progress
        self._states = reading.states
        self._add = reading.add
        self._drop = reading.drop
        self._committer = committer
        self._options = options

    @property
    def owned(self) -> list[TopicPartition]:
        """What is ours now."""
        return list(self._states)

    def positions(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """What would be committed now: the offset behind the last record handed out, where there is one."""
        return self.with_epochs(
            {name: state.position for name, state in self._states.items() if state.position is not None}
        )

    def with_epochs(
        self, offsets: Mapping[TopicPartition, int | OffsetAndMetadata]
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """Mere offsets with the leader epochs of the records before them, where those were read here."""
        full = {}
        for partition, offset in offsets.items():
            if isinstance(offset, OffsetAndMetadata):
                full[partition] = offset
            else:
                state = self._states.get(partition)
                epoch = UNKNOWN_EPOCH if state is None else state.epochs.before(offset)
                full[partition] = OffsetAndMetadata(offset, epoch)
        return full

    async def states_for(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, PartitionState]:
        """Where to begin in these partitions; one for which that is not known (`auto_offset_reset="none"`) is reported
        and left out. Raises the broker's error.
        """
        committed = await self._committer.committed(partitions)
        states = {}
        for partition in partitions:
            found = committed.get(partition)
            position = self._options.beginning if found is None else found.offset
            epoch = UNKNOWN_EPOCH if found is None else found.leader_epoch
            if position is None:
                self.failed(
                    NoOffsetError(f"{partition}: the group has committed no offset, and auto_offset_reset is none")
                )
            else:
                states[partition] = PartitionState(partition, position, epoch)
        return states

    async def give(self, partitions: Iterable[TopicPartition]) -> None:
        """These are ours from now on. Raises the broker's error where the committed offsets are not to be had."""
        wanted = sorted(set(partitions) - set(self._states))
        if not wanted:
            return
        states = await self.states_for(wanted)
        await self.turn.take()
        try:
            self._add(states)
            await self._tell(self.listener.on_partitions_assigned, wanted)
        finally:
            self.turn.give_back()

    async def take_away(self, partitions: Iterable[TopicPartition]) -> None:
        """These go to others, once no record is handled any more and what was handled is committed."""
        going = sorted(set(partitions) & set(self._states))
        if not going:
            return
        await self.turn.take()
        try:
            if self._options.enable_auto_commit:
                positions = self.positions()
                await self._committer.try_to_commit({name: positions[name] for name in going if name in positions})
            await self._tell(self.listener.on_partitions_revoked, going)
            self._drop([name for name in going if name in self._states])
        finally:
            self.turn.give_back()

    async def lose_all(self) -> None:
        """All are others' already."""
        lost = sorted(self._states)
        if lost:
            logger.warning("the group has given up this member; partitions lost: %s", ", ".join(map(str, lost)))
            self._drop(lost)
            await self._tell(self.listener.on_partitions_lost, lost)

    async def _tell(self, callback: PartitionsCallback, partitions: list[TopicPartition]) -> None:
        try:
            await call(callback, partitions)
        except Exception as error:  # the application's own: it hears of it when it next asks for records
            self.failed(error)
