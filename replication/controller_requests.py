"""Carry out the controller's requests: which partitions this broker leads or follows, and which it gives up.

The requests are LeaderAndIsr and StopReplica. A request from a replaced controller (an older controller epoch) is
refused as a whole; of the partition states in a request, only those with an older leader epoch are refused. One request
is carried out at a time. Before a partition changes its role, no task fetches it or truncates its log any more.

A partition in a failed log directory is refused with LogDirOfflineError, also to the controller, which then elects
another leader. If there is no room to create the log of a partition, the controller's state is accepted, and the log is
created as soon as there is room. If a partition that this broker leads is in a full log directory, a state that this
broker has already is refused with LogDirFullError while another in-sync replica could lead. The controller then elects
that replica; this broker leads until it hears of the election.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING

from protocol.messages.leader_and_isr import LeaderAndIsrPartitionState
from protocol.sentinels import NO_EPOCH, NO_LEADER
from protocol.uuid import ZERO_UUID, uuid_to_string
from replication.errors import (
    FencedLeaderEpochError,
    InconsistentTopicIdError,
    LogDirFullError,
    LogDirOfflineError,
    ReplicationError,
    StaleControllerEpochError,
    UnknownTopicOrPartitionError,
)
from replication.partition import Partition
from storage.errors import LogDirIOError, StorageError
from storage.log.log import Log

if TYPE_CHECKING:
    from replication.replica_manager import ReplicaManager

logger = logging.getLogger(__name__)

TopicPartition = tuple[str, int]

EPOCH_OF_DELETION = -2
"""The leader epoch in StopReplica requests for topics that are being deleted: it counts as newer than every other."""


class ControllerRequests:
    """Carries out the controller's requests for the partitions of one broker."""

    def __init__(self, replicas: ReplicaManager) -> None:
        self.controller_epoch = 0
        self._connection = 0
        """The newest connection of the controller."""
        self._replicas = replicas
        self._without_room: dict[TopicPartition, tuple[bytes, LeaderAndIsrPartitionState]] = {}
        self.one_at_a_time = asyncio.Lock()
        """Held while the partitions on this broker change, or their log directories."""

    def check_controller(self, controller_epoch: int, connection: int) -> None:
        """Adopt a new controller's epoch. Raises StaleControllerEpochError for a request that came too late.

        connection: its number; later connections have higher ones. Too late is a request of a replaced controller, and
        one on a connection that the controller has replaced: it may have been on its way while newer ones arrived, and
        UpdateMetadata has no version by which that shows. (Kafka serves it.)
        """
        if controller_epoch < self.controller_epoch:
            raise StaleControllerEpochError(
                f"controller epoch {controller_epoch} is older than {self.controller_epoch}"
            )
        if controller_epoch == self.controller_epoch and connection < self._connection:
            raise StaleControllerEpochError("the controller has a newer connection")
        self.controller_epoch, self._connection = controller_epoch, connection

    async def become_leader_or_follower(
        self, states: Iterable[tuple[str, bytes, LeaderAndIsrPartitionState]]
    ) -> dict[TopicPartition, Exception | None]:
        """Adopt the controller's states: (topic, topic id, state). Return the outcome of each; None on success."""
        states = list(states)
        async with self.one_at_a_time:
            fetchers = self._replicas.fetchers
            if fetchers is not None:
                await fetchers.remove(self._changing(states))
            outcomes = self._take_over(states)
            for key, outcome in outcomes.items():
                if outcome is None:
                    self._follow(key)
                    self._move(key)
            if fetchers is not None:
                fetchers.stop_idle()
            return outcomes

    def _changing(self, states: Iterable[tuple[str, bytes, LeaderAndIsrPartitionState]]) -> list[TopicPartition]:
        """Return the known partitions for which a state has a newer leader epoch."""
        partitions = self._replicas.partitions
        keys = [((topic, state.partition_index), state) for topic, _, state in states]
        return [key for key, state in keys if key in partitions and state.leader_epoch > partitions[key].leader_epoch]

    def _follow(self, key: TopicPartition) -> None:
        """Fetch a partition from now on if this broker follows it, it has a leader, and there is a log for it."""
        partition, fetchers = self._replicas.partitions.get(key), self._replicas.fetchers
        if partition is None or partition.is_leader or fetchers is None:
            return
        if not fetchers.is_fetched(key):
            fetchers.add(partition)

    def _move(self, key: TopicPartition) -> None:
        """Continue the move of a replica to another log directory, for example after a restart."""
        partition, moves = self._replicas.partitions.get(key), self._replicas.moves
        if partition is not None and moves is not None:
            moves.start(partition)

    def _take_over(
        self, states: Iterable[tuple[str, bytes, LeaderAndIsrPartitionState]]
    ) -> dict[TopicPartition, Exception | None]:
        outcomes: dict[TopicPartition, Exception | None] = {}
        for topic, topic_id, state in states:
            key = (topic, state.partition_index)
            try:
                self._apply_state(topic, topic_id, state)
                outcomes[key] = None
            except (ReplicationError, StorageError) as error:
                # A new controller sends its state of every partition, which this broker usually has already.
                is_expected = isinstance(error, StaleControllerEpochError | LogDirFullError)
                level = logging.DEBUG if is_expected else logging.WARNING
                logger.log(level, "%s-%d: LeaderAndIsr refused: %s", topic, state.partition_index, error)
                outcomes[key] = error
            self._replicas.role_changed(key)
        return outcomes

    def _apply_state(self, topic: str, topic_id: bytes, state: LeaderAndIsrPartitionState) -> None:
        key = (topic, state.partition_index)
        partition = self._replicas.partitions.get(key)
        if partition is None:
            partition = Partition(topic, state.partition_index, topic_id, self._replicas.rules, self._replicas)
        elif ZERO_UUID not in (partition.topic_id, topic_id) and partition.topic_id != topic_id:
            raise InconsistentTopicIdError(
                f"{topic} has the id {uuid_to_string(partition.topic_id)}, not {uuid_to_string(topic_id)}"
            )
        if partition.is_offline:
            raise LogDirOfflineError(f"the log directory of {topic}-{state.partition_index} is offline")
        if state.leader_epoch <= partition.leader_epoch:
            if state.leader_epoch == partition.leader_epoch and partition.topic_id == ZERO_UUID != topic_id:
                partition.topic_id = topic_id  # the controller now uses topic ids
                return
            if state.leader_epoch == partition.leader_epoch and self._can_hand_over(partition):
                raise LogDirFullError(f"the log directory of {topic}-{state.partition_index} is full")
            raise StaleControllerEpochError(
                f"leader epoch {state.leader_epoch} is not newer than {partition.leader_epoch}"
            )
        if self._replicas.broker_id not in state.replicas:
            raise UnknownTopicOrPartitionError(
                f"broker {self._replicas.broker_id} is not one of the replicas {state.replicas}"
            )
        if partition.topic_id == ZERO_UUID:
            partition.topic_id = topic_id
        self._replicas.partitions[key] = partition
        self._assume_role(partition, state, self._log_of(partition, state, topic_id))

    def _assume_role(self, partition: Partition, state: LeaderAndIsrPartitionState, log: Log | None) -> None:
        if log is None:
            partition.wait_for_room(
                leader_id=state.leader,
                leader_epoch=state.leader_epoch,
                partition_epoch=state.partition_epoch,
                controller_epoch=state.controller_epoch,
                replicas=state.replicas,
                isr=state.isr,
            )
        elif state.leader == self._replicas.broker_id:
            partition.make_leader(
                log,
                broker_id=self._replicas.broker_id,
                leader_epoch=state.leader_epoch,
                partition_epoch=state.partition_epoch,
                controller_epoch=state.controller_epoch,
                replicas=state.replicas,
                isr=state.isr,
            )
        else:
            partition.make_follower(
                log,
                leader_id=state.leader,
                leader_epoch=state.leader_epoch,
                partition_epoch=state.partition_epoch,
                controller_epoch=state.controller_epoch,
                replicas=state.replicas,
                isr=state.isr,
            )

    def _log_of(self, partition: Partition, state: LeaderAndIsrPartitionState, topic_id: bytes) -> Log | None:
        """Return the partition's log; create it if there is none. None while there is no room to create it.

        If a log directory is offline, create a log only for a new partition: an older one may have its log there.
        Raises LogDirOfflineError, StorageError.
        """
        key = (partition.topic, partition.partition)
        self._without_room.pop(key, None)
        if partition.log is not None:
            return partition.log
        dirs = self._replicas.logs.dirs
        if not state.is_new and self._replicas.logs.get(*key) is None and len(dirs.online) < len(dirs.all):
            partition.go_offline()
            raise LogDirOfflineError(f"{key[0]}-{key[1]} may be in a log directory that is offline")
        known_id = None if partition.topic_id == ZERO_UUID else partition.topic_id
        try:
            return self._replicas.logs.get_or_create(*key, known_id, self._replicas.topic_config(partition.topic))
        except LogDirIOError as error:
            if error.is_fatal:
                partition.go_offline()
            if not error.is_disk_full:
                raise
            self._without_room[key] = (topic_id, state)
            return None

    def can_hand_over(self) -> bool:
        """Whether this broker leads a partition in a full log directory that another in-sync replica could lead."""
        return any(self._can_hand_over(partition) for partition in self._replicas.partitions.values())

    def _can_hand_over(self, partition: Partition) -> bool:
        broker_id, is_alive = self._replicas.broker_id, self._replicas.rules.is_alive
        if partition.leader_id != broker_id or not any(one != broker_id and is_alive(one) for one in partition.isr):
            return False
        if partition.log is None:
            return (partition.topic, partition.partition) in self._without_room
        return self._replicas.logs.dirs.is_full(str(partition.log.directory))

    def begin_logs(self) -> None:
        """Create logs for which there was no room, and adopt the states that the controller has sent for them."""
        for key, (topic_id, state) in list(self._without_room.items()):
            partition = self._replicas.partitions[key]
            try:
                self._assume_role(partition, state, self._log_of(partition, state, topic_id))
            except (ReplicationError, StorageError) as error:
                logger.warning("%s-%d still has no log: %s", *key, error)
            self._follow(key)
            self._replicas.role_changed(key)

    def log_directory_failed(self, keys: Iterable[TopicPartition]) -> None:
        """Stop serving the partitions in a failed log directory; requests that wait for them get an error."""
        for key in keys:
            partition = self._replicas.partitions.get(key)
            if partition is not None:
                if self._replicas.fetchers is not None:
                    self._replicas.fetchers.drop(key)
                if self._replicas.moves is not None:
                    self._replicas.moves.drop(key)
                partition.go_offline()
                self._replicas.role_changed(key)

    async def stop_replica(self, topic: str, partition: int, leader_epoch: int, *, delete: bool) -> None:
        """Stop serving a replica; delete its log if the controller says so.

        Raises FencedLeaderEpochError for a leader epoch older than the partition's, LogDirOfflineError, LogDirIOError.
        """
        async with self.one_at_a_time:
            await self._stop_replica(topic, partition, leader_epoch, delete=delete)

    async def _stop_replica(self, topic: str, partition: int, leader_epoch: int, *, delete: bool) -> None:
        key = (topic, partition)
        found = self._replicas.partitions.get(key)
        if (
            found is not None
            and leader_epoch not in (EPOCH_OF_DELETION, NO_EPOCH)
            and leader_epoch < found.leader_epoch
        ):
            raise FencedLeaderEpochError(f"leader epoch {leader_epoch} is older than {found.leader_epoch}")
        if found is not None and found.is_offline:
            raise LogDirOfflineError(f"the log directory of {topic}-{partition} is offline")
        self._without_room.pop(key, None)
        if self._replicas.fetchers is not None:
            await self._replicas.fetchers.remove([key])
            self._replicas.fetchers.stop_idle()
        if self._replicas.moves is not None:
            await self._replicas.moves.stop(key)
        if found is not None and not delete:
            found.make_follower(
                found.log,
                leader_id=NO_LEADER,
                leader_epoch=found.leader_epoch,
                partition_epoch=found.partition_epoch,
                controller_epoch=found.controller_epoch,
                replicas=found.replicas,
                isr=found.isr,
            )
        if delete:
            self._replicas.partitions.pop(key, None)
        self._replicas.role_changed(key)
        if delete and self._replicas.logs.get(topic, partition) is not None:
            try:
                await self._replicas.logs.delete(topic, partition)
            except LogDirIOError as error:
                if error.is_fatal and found is not None:  # not deleted: the log may be there again at the next start
                    found.go_offline()
                    self._replicas.partitions[key] = found
                raise
