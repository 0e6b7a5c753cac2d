"""All partitions of one broker: what the controller says about them, and what clients do with them.

The controller's word is law and arrives only as LeaderAndIsr and StopReplica requests. A request of a replaced
controller (an older controller epoch) is refused whole; a partition state with an older leader epoch than ours is
refused by itself.

What was in a log directory that has failed is refused with LogDirOfflineError, also to the controller, which then gives
the partition to somebody else. A partition for which there is no room to begin a log is no such case: the controller's
word stands, and is carried out as soon as there is room.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence

from protocol.messages.leader_and_isr import LeaderAndIsrPartitionState
from protocol.uuid import ZERO_UUID, uuid_to_string
from replication.delayed_produce import DelayedProduce
from replication.errors import (
    FencedLeaderEpochError,
    InconsistentTopicIdError,
    LogDirOfflineError,
    NotLeaderOrFollowerError,
    ReplicationError,
    StaleControllerEpochError,
    UnknownTopicOrPartitionError,
)
from replication.fetch import DelayedFetch, FetchedPartition, FetchParams, FetchPartition, read_partitions
from replication.partition import NO_EPOCH, NO_LEADER, Partition
from replication.purgatory import Purgatory
from replication.transaction_verification import VerificationGuard
from storage.errors import LogDirIOError, StorageError
from storage.log import Log
from storage.log_append import AppendOrigin, LogAppendInfo
from storage.log_config import LogConfig
from storage.log_manager import LogManager

logger = logging.getLogger(__name__)

TopicPartition = tuple[str, int]

EPOCH_OF_DELETION = -2
"""The leader epoch in StopReplica requests for topics that are being deleted: newer than every other."""


class ReplicaManager:
    """The partitions that this broker hosts."""

    def __init__(
        self,
        broker_id: int,
        logs: LogManager,
        topic_config: Callable[[str], LogConfig],
        exists: Callable[[str, int], bool],
    ) -> None:
        self.broker_id = broker_id
        self.logs = logs
        self.partitions: dict[TopicPartition, Partition] = {}
        self.controller_epoch = 0
        self._topic_config = topic_config
        self._exists = exists
        self.fetches: Purgatory[list[FetchedPartition]] = Purgatory()
        self.produces: Purgatory[dict[TopicPartition, Exception | None]] = Purgatory()
        self._without_room: dict[TopicPartition, tuple[bytes, LeaderAndIsrPartitionState]] = {}
        self._observers: dict[str, Callable[[int, bool], None]] = {}
        logs.dirs.on_room = self._begin_logs

    def observe(self, topic: str, changed: Callable[[int, bool], None]) -> None:
        """Call `changed(partition, is leader)` whenever this broker's role in a partition of `topic` may have changed.

        Before anything that waits for the partition hears of it. One observer a topic.
        """
        self._observers[topic] = changed

    # -- clients ---------------------------------------------------------------------------------------------------

    def partition(self, topic: str, partition: int, topic_id: bytes = ZERO_UUID) -> Partition:
        """The partition, of which the client may know the topic's id.

        Raises UnknownTopicOrPartitionError, NotLeaderOrFollowerError (it lives on other brokers),
        InconsistentTopicIdError.
        """
        found = self.partitions.get((topic, partition))
        if found is None:
            if self._exists(topic, partition):
                raise NotLeaderOrFollowerError(f"{topic}-{partition} is on other brokers")
            raise UnknownTopicOrPartitionError(f"broker {self.broker_id} does not host {topic}-{partition}")
        if topic_id is not ZERO_UUID and topic_id not in (found.topic_id, ZERO_UUID):
            raise InconsistentTopicIdError(
                f"{topic} has the id {uuid_to_string(found.topic_id)}, not {uuid_to_string(topic_id)}"
            )
        return found

    def append(
        self,
        topic: str,
        partition: int,
        records: memoryview,
        required_acks: int,
        origin: AppendOrigin = AppendOrigin.CLIENT,
        guard: VerificationGuard | None = None,
    ) -> LogAppendInfo:
        """Append records of a client (or of a coordinator here) to one partition, and wake what waits for it.

        guard: see `Partition.append_as_leader`.

        Raises ReplicationError, StorageError, ProtocolError.
        """
        key = (topic, partition)
        found = self.partitions.get(key)
        if found is None:
            found = self.partition(topic, partition)  # says why not
        info = found.append_as_leader(records, required_acks, origin, guard)
        if key in self.fetches:
            self.fetches.check(key)
        return info

    def produced_bytes(self) -> dict[str, int]:
        """Bytes that clients have produced to the partitions that are here, by topic."""
        return self._sums(lambda partition: partition.produced_bytes)

    def produced_records(self) -> dict[str, int]:
        """Records that clients have produced to the partitions that are here, by topic."""
        return self._sums(lambda partition: partition.produced_records)

    def _sums(self, count: Callable[[Partition], int]) -> dict[str, int]:
        sums: dict[str, int] = {}
        for (topic, _), partition in self.partitions.items():
            sums[topic] = sums.get(topic, 0) + count(partition)
        return sums

    def is_committed(self, topic: str, partition: int, offset: int) -> bool:
        """True where the high watermark has passed `offset`."""
        found = self.partitions.get((topic, partition))
        return found is not None and found.log is not None and found.log.high_watermark > offset

    def wait_for_commit(
        self, required: Mapping[TopicPartition, int], timeout_s: float
    ) -> asyncio.Future[dict[TopicPartition, Exception | None]] | None:
        """Wait until the high watermarks reach the given offsets; None where they have already."""
        operation = DelayedProduce(required, self.partition)
        if operation.is_satisfied():
            return None
        return self.produces.wait(operation, required, timeout_s)

    def fetch(
        self, params: FetchParams, requests: Sequence[FetchPartition]
    ) -> list[FetchedPartition] | asyncio.Future[list[FetchedPartition]]:
        """Read now what there is; where that is less than `min_bytes` and nothing failed, wait for more.

        Partitions that nobody knows do not end the wait of the others: a client that keeps asking for a deleted topic
        would otherwise be answered as fast as it can ask.
        """
        fetched = read_partitions(params, requests, self.partition)
        if params.max_wait_ms <= 0 or not requests:
            return fetched
        size = 0
        watched = []
        for one in fetched:
            if one.error is None:
                watched.append(one.request)
                size += one.size_bytes
            elif not isinstance(one.error, UnknownTopicOrPartitionError):
                return fetched
        if size >= params.min_bytes or not watched:
            return fetched
        operation = DelayedFetch(params, requests, watched, self.partition)
        keys = [(request.topic, request.partition) for request in watched]
        return self.fetches.wait(operation, keys, params.max_wait_ms / 1000)

    # -- the controller --------------------------------------------------------------------------------------------

    def check_controller_epoch(self, controller_epoch: int) -> None:
        """Learn a new controller's epoch; refuse a replaced controller with StaleControllerEpochError."""
        if controller_epoch < self.controller_epoch:
            raise StaleControllerEpochError(
                f"controller epoch {controller_epoch} is older than {self.controller_epoch}"
            )
        self.controller_epoch = controller_epoch

    def become_leader_or_follower(
        self, states: Iterable[tuple[str, bytes, LeaderAndIsrPartitionState]]
    ) -> dict[TopicPartition, Exception | None]:
        """Take over the controller's states: (topic, topic id, state). The outcome of each; None where it is done."""
        outcomes: dict[TopicPartition, Exception | None] = {}
        for topic, topic_id, state in states:
            key = (topic, state.partition_index)
            try:
                self._apply_state(topic, topic_id, state)
                outcomes[key] = None
            except (ReplicationError, StorageError) as error:
                # A controller that asks what has become of the replicas sends states that are known.
                level = logging.INFO if isinstance(error, StaleControllerEpochError) else logging.WARNING
                logger.log(level, "%s-%d: LeaderAndIsr refused: %s", topic, state.partition_index, error)
                outcomes[key] = error
            self._role_changed(key)
        return outcomes

    def _apply_state(self, topic: str, topic_id: bytes, state: LeaderAndIsrPartitionState) -> None:
        key = (topic, state.partition_index)
        partition = self.partitions.get(key)
        if partition is None:
            partition = Partition(topic, state.partition_index, topic_id)
        elif ZERO_UUID not in (partition.topic_id, topic_id) and partition.topic_id != topic_id:
            raise InconsistentTopicIdError(
                f"{topic} has the id {uuid_to_string(partition.topic_id)}, not {uuid_to_string(topic_id)}"
            )
        if partition.is_offline:
            raise LogDirOfflineError(f"the log directory of {topic}-{state.partition_index} is offline")
        if state.leader_epoch <= partition.leader_epoch:
            if state.leader_epoch == partition.leader_epoch and partition.topic_id == ZERO_UUID != topic_id:
                partition.topic_id = topic_id  # the controller has learnt to use topic ids
                return
            raise StaleControllerEpochError(
                f"leader epoch {state.leader_epoch} is not newer than {partition.leader_epoch}"
            )
        if self.broker_id not in state.replicas:
            raise UnknownTopicOrPartitionError(f"broker {self.broker_id} is none of the replicas {state.replicas}")
        if partition.topic_id == ZERO_UUID:
            partition.topic_id = topic_id
        self.partitions[key] = partition
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
        elif state.leader == self.broker_id:
            partition.make_leader(
                log,
                broker_id=self.broker_id,
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
        """The partition's log, begun where there is none; None while there is no room for that.

        Where a directory is offline only a new partition gets one: an older one may have its log there. Raises
        LogDirOfflineError, StorageError.
        """
        key = (partition.topic, partition.partition)
        self._without_room.pop(key, None)
        if partition.log is not None:
            return partition.log
        dirs = self.logs.dirs
        if not state.is_new and self.logs.get(*key) is None and len(dirs.online) < len(dirs.all):
            partition.go_offline()
            raise LogDirOfflineError(f"{key[0]}-{key[1]} may be in a log directory that is offline")
        known_id = None if partition.topic_id == ZERO_UUID else partition.topic_id
        try:
            return self.logs.get_or_create(*key, known_id, self._topic_config(partition.topic))
        except LogDirIOError as error:
            if error.is_fatal:
                partition.go_offline()
            if not error.is_disk_full:
                raise
            self._without_room[key] = (topic_id, state)
            return None

    def _begin_logs(self) -> None:
        """There is room again: do what the controller wanted meanwhile."""
        for key, (topic_id, state) in list(self._without_room.items()):
            partition = self.partitions[key]
            try:
                self._assume_role(partition, state, self._log_of(partition, state, topic_id))
            except (ReplicationError, StorageError) as error:
                logger.warning("%s-%d still has no log: %s", *key, error)
            self._role_changed(key)

    def log_directory_failed(self, keys: Iterable[TopicPartition]) -> None:
        """Stop serving partitions whose logs are in a directory that has failed; who waits for them hears of it."""
        for key in keys:
            partition = self.partitions.get(key)
            if partition is not None:
                partition.go_offline()
                self._role_changed(key)

    async def stop_replica(self, topic: str, partition: int, leader_epoch: int, *, delete: bool) -> None:
        """Stop serving a replica, and delete its log where the controller says so.

        Raises FencedLeaderEpochError for a leader epoch older than ours, LogDirOfflineError, LogDirIOError.
        """
        key = (topic, partition)
        found = self.partitions.get(key)
        if (
            found is not None
            and leader_epoch not in (EPOCH_OF_DELETION, NO_EPOCH)
            and leader_epoch < found.leader_epoch
        ):
            raise FencedLeaderEpochError(f"leader epoch {leader_epoch} is older than {found.leader_epoch}")
        if found is not None and found.is_offline:
            raise LogDirOfflineError(f"the log directory of {topic}-{partition} is offline")
        self._without_room.pop(key, None)
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
            self.partitions.pop(key, None)
        self._role_changed(key)
        if delete and self.logs.get(topic, partition) is not None:
            try:
                await self.logs.delete(topic, partition)
            except LogDirIOError as error:
                if error.is_fatal and found is not None:  # it may be there again at the next start: it is not deleted
                    found.go_offline()
                    self.partitions[key] = found
                raise

    def topic_config_changed(self, topic: str) -> None:
        """Apply the topic's settings to the logs that are here."""
        config = self._topic_config(topic)
        for key, partition in self.partitions.items():
            if key[0] != topic or partition.log is None:
                continue
            partition.log.config = config
            if partition.is_leader:
                partition.maybe_advance_high_watermark()
            self._check(key)

    def all_topic_configs_changed(self) -> None:
        """Apply changed defaults to every log."""
        for topic in {topic for topic, _ in self.partitions}:
            self.topic_config_changed(topic)

    def _role_changed(self, key: TopicPartition) -> None:
        """Tell who observes the topic, and everything that waits for the partition."""
        observer = self._observers.get(key[0])
        if observer is not None:
            partition = self.partitions.get(key)
            observer(key[1], partition is not None and partition.is_leader)
        self._check(key)

    def _check(self, key: TopicPartition) -> None:
        self.fetches.check(key)
        self.produces.check(key)

    def close(self) -> None:
        """Answer everything that waits: the broker is stopping."""
        self.fetches.complete_all()
        self.produces.complete_all()
