"""Applies the assignments of a group to a consumer.

Both kinds of membership (classic and KIP-848) use it. The order of the steps loses no records and repeats few:

- Revoked partitions: wait until the application handles no record, commit, call the listener, stop reading.
- Assigned partitions: fetch the committed offsets, call the listener, start reading.
- Lost partitions, after the group has removed this member: stop reading at once, call the listener, do not commit.
"""

import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import NamedTuple

from client.consumer.committer import Committer
from client.consumer.group_metadata import OffsetAndMetadata
from client.consumer.options import ConsumerOptions
from client.consumer.reader_state import PartitionState
from client.consumer.rebalance_listener import PartitionsCallback, RebalanceListener, call
from client.consumer.rebalance_lock import RebalanceLock
from client.errors import NoOffsetError
from client.topic_partition import TopicPartition
from protocol.sentinels import NO_EPOCH

logger = logging.getLogger(__name__)


class Reading(NamedTuple):
    """The parts of a reader that its group uses."""

    lock: RebalanceLock
    states: Mapping[TopicPartition, PartitionState]
    """The partitions that are read. Only `add` and `drop` change it."""
    add: Callable[[Mapping[TopicPartition, PartitionState]], None]
    drop: Callable[[Collection[TopicPartition]], None]
    failed: Callable[[BaseException], None]
    """Raise an error to the application when it next asks for records."""
    progress: Callable[[], object]
    """Returns a value that changes whenever the application has asked for more records."""


class GroupPartitions:
    """See the module."""

    def __init__(self, reading: Reading, committer: Committer, options: ConsumerOptions) -> None:
        self.listener: RebalanceListener = RebalanceListener()
        self.lock = reading.lock
        self.failed = reading.failed
        self.progress = reading.progress
        self._states = reading.states
        self._add = reading.add
        self._drop = reading.drop
        self._committer = committer
        self._options = options

    @property
    def owned(self) -> list[TopicPartition]:
        """The partitions that this member owns."""
        return list(self._states)

    def positions(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """The offsets to commit now: in each partition, the offset after the last returned record."""
        return self.with_epochs(
            {name: state.position for name, state in self._states.items() if state.position is not None}
        )

    def with_epochs(
        self, offsets: Mapping[TopicPartition, int | OffsetAndMetadata]
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """Add the leader epoch of the record before it to each plain offset; -1 if the record was not read here."""
        full = {}
        for partition, offset in offsets.items():
            if isinstance(offset, OffsetAndMetadata):
                full[partition] = offset
            else:
                state = self._states.get(partition)
                epoch = NO_EPOCH if state is None else state.epochs.before(offset)
                full[partition] = OffsetAndMetadata(offset, epoch)
        return full

    async def states_for(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, PartitionState]:
        """Return the states in which reading starts, from the committed offsets.

        A partition without a committed offset is reported and left out if `auto_offset_reset` is "none". Raises the
        broker's error.
        """
        committed = await self._committer.committed(partitions)
        states = {}
        for partition in partitions:
            found = committed.get(partition)
            position = self._options.beginning if found is None else found.offset
            epoch = NO_EPOCH if found is None else found.leader_epoch
            if position is None:
                self.failed(
                    NoOffsetError(f"{partition}: the group has committed no offset, and auto_offset_reset is none")
                )
            else:
                states[partition] = PartitionState(partition, position, epoch)
        return states

    async def give(self, partitions: Iterable[TopicPartition]) -> None:
        """Start reading these partitions. Raises the broker's error if the committed offsets cannot be fetched."""
        wanted = sorted(set(partitions) - set(self._states))
        if not wanted:
            return
        states = await self.states_for(wanted)
        await self.lock.acquire()
        try:
            self._add(states)
            await self._tell(self.listener.on_partitions_assigned, wanted)
        finally:
            self.lock.release()

    async def take_away(self, partitions: Iterable[TopicPartition]) -> None:
        """Stop reading these partitions, after the application has handled its records and they are committed."""
        going = sorted(set(partitions) & set(self._states))
        if not going:
            return
        await self.lock.acquire()
        try:
            if self._options.enable_auto_commit:
                positions = self.positions()
                await self._committer.try_to_commit({name: positions[name] for name in going if name in positions})
            await self._tell(self.listener.on_partitions_revoked, going)
            self._drop([name for name in going if name in self._states])
        finally:
            self.lock.release()

    async def lose_all(self) -> None:
        """Stop reading all partitions: other members may have them already."""
        lost = sorted(self._states)
        if lost:
            logger.warning("the group has removed this member; partitions lost: %s", ", ".join(map(str, lost)))
            self._drop(lost)
            await self._tell(self.listener.on_partitions_lost, lost)

    async def _tell(self, callback: PartitionsCallback, partitions: list[TopicPartition]) -> None:
        try:
            await call(callback, partitions)
        except Exception as error:  # an error of the callback: raised when the application next asks for records
            self.failed(error)
