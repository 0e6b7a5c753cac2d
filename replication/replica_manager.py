"""All partitions of one broker: the operations of clients and followers on them, and those that wait.

`controller_requests` carries out what the controller sends.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence

from protocol.uuid import ZERO_UUID, uuid_to_string
from replication.controller_requests import ControllerRequests
from replication.delayed_delete_records import DelayedDeleteRecords
from replication.delayed_produce import DelayedProduce
from replication.errors import (
    InconsistentTopicIdError,
    NotLeaderOrFollowerError,
    OffsetNotAvailableError,
    ReplicationError,
    UnknownTopicOrPartitionError,
)
from replication.fetch import CONSUMER, DelayedFetch, FetchedPartition, FetchParams, FetchPartition, read_partitions
from replication.fetcher_manager import FetcherManager
from replication.idle_partitions import IdlePartitions, Reader
from replication.in_sync_replicas import LagRules
from replication.isr_changes import IsrChanges
from replication.log_dir_moves import LogDirMoves
from replication.partition import Partition, PartitionEvents
from replication.purgatory import Purgatory
from replication.replication_quota import ReplicationQuota
from replication.transaction_verification import VerificationGuard
from storage.errors import StorageError
from storage.log.append import AppendOrigin, LogAppendInfo
from storage.log.batch_validation import BatchValidation
from storage.log.config import LogConfig
from storage.log.warm_up import WarmUp
from storage.log_manager import LogManager

TopicPartition = tuple[str, int]
LowWatermarks = dict[TopicPartition, int | ReplicationError]
Outcomes = dict[TopicPartition, Exception | None]
"""Of appends: None for a partition where nothing failed."""


class ReplicaManager(PartitionEvents):
    """The partitions that this broker hosts.

    A broker sets `isr_changes`, `fetchers`, `moves` and the quotas; without them, partitions have one fixed replica.
    """

    def __init__(
        self,
        broker_id: int,
        logs: LogManager,
        topic_config: Callable[[str], LogConfig],
        exists: Callable[[str, int], bool],
        rules: LagRules | None = None,
    ) -> None:
        """exists: whether the cluster has a partition. rules: when followers count as lagging behind this broker."""
        self.broker_id = broker_id
        self.logs = logs
        self.partitions: dict[TopicPartition, Partition] = {}
        self.rules = rules or LagRules()
        self.controller_requests = ControllerRequests(self)
        self.isr_changes: IsrChanges | None = None
        self.fetchers: FetcherManager | None = None
        self.moves: LogDirMoves | None = None
        self.leader_quota: ReplicationQuota | None = None
        self._topic_config = topic_config
        self._exists = exists
        self.fetches: Purgatory[list[FetchedPartition]] = Purgatory()
        self.idle = IdlePartitions()
        self.produces: Purgatory[Outcomes] = Purgatory()
        self.deletions: Purgatory[LowWatermarks] = Purgatory()
        self._observers: dict[str, Callable[[int, bool], None]] = {}
        logs.dirs.on_room = self.controller_requests.begin_logs

    def observe(self, topic: str, changed: Callable[[int, bool], None]) -> None:
        """Call `changed(partition, is leader)` whenever this broker's role in a partition of `topic` may have changed.

        The call comes before operations that wait for the partition are completed. One observer per topic.
        """
        self._observers[topic] = changed

    async def run(self) -> None:
        """Run ISR changes, fetchers and moves until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            if self.isr_changes is not None:
                tasks.create_task(self.isr_changes.run(self.partitions.values))
            if self.fetchers is not None:
                tasks.create_task(self.fetchers.run())
            if self.moves is not None:
                tasks.create_task(self.moves.run())

    # -- clients ---------------------------------------------------------------------------------------------------

    def partition(self, topic: str, partition: int, topic_id: bytes = ZERO_UUID) -> Partition:
        """Return a partition. topic_id: of its topic, if the client knows it.

        Raises UnknownTopicOrPartitionError, NotLeaderOrFollowerError (only other brokers have it),
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
        records: memoryview | BatchValidation,
        required_acks: int,
        origin: AppendOrigin = AppendOrigin.CLIENT,
        guard: VerificationGuard | None = None,
    ) -> LogAppendInfo:
        """Append records of a client, or of a coordinator on this broker, and complete fetches that wait for them.

        records, guard: see `Partition.append_as_leader`.

        Raises ReplicationError, StorageError, ProtocolError; LargeBatchError for records of a client.
        """
        key = (topic, partition)
        found = self.partitions.get(key)
        if found is None:
            found = self.partition(topic, partition)  # raises the reason
        info = found.append_as_leader(records, required_acks, origin, guard)
        if key in self.idle or key in self.fetches:
            self.check_fetches(key)
        return info

    def count_by_topic(self, count: Callable[[Partition], int]) -> dict[str, int]:
        """Return the sum of `count` over the partitions of each topic on this broker."""
        sums: dict[str, int] = {}
        for (topic, _), partition in self.partitions.items():
            sums[topic] = sums.get(topic, 0) + count(partition)
        return sums

    def is_committed(self, topic: str, partition: int, offset: int) -> bool:
        """True if the high watermark has passed `offset`."""
        found = self.partitions.get((topic, partition))
        return found is not None and found.log is not None and found.log.high_watermark > offset

    def wait_for_appends(
        self, uncommitted: Mapping[TopicPartition, int], unflushed: Mapping[TopicPartition, int], timeout_s: float
    ) -> asyncio.Future[Outcomes] | None:
        """Wait until appends are committed (acks=all) and on disk (flush.messages), up to the given end offsets.

        Return None if there is nothing to wait for. A flush that fails takes precedence over the outcome of the commit.

        The wait for the commit begins before the flush, so that it sees a change of the leader while the disk works: a
        log that was truncated and continued in a later epoch has other records at the same offsets.
        """
        commit = self.wait_for_commit(uncommitted, timeout_s) if uncommitted else None
        if not unflushed:
            return commit
        return asyncio.get_running_loop().create_task(self._flush_and_wait(unflushed, commit))

    async def _flush_and_wait(
        self, unflushed: Mapping[TopicPartition, int], commit: asyncio.Future[Outcomes] | None
    ) -> Outcomes:
        failures: Outcomes = {}
        for key, end_offset in unflushed.items():
            log = self.logs.get(*key)
            try:
                if log is not None:
                    await self.logs.flush_up_to(log, end_offset)
            except StorageError as error:
                failures[key] = error
            partition = self.partitions.get(key)
            if partition is not None:
                partition.sync_ended(end_offset)
        return failures if commit is None else await commit | failures

    def wait_for_commit(
        self, required: Mapping[TopicPartition, int], timeout_s: float
    ) -> asyncio.Future[Outcomes] | None:
        """Wait until the high watermarks reach the given offsets. Return None if they have already.

        If it is already known that records will not be committed, for example because the leader has changed since the
        append, the returned future is done.
        """
        operation = DelayedProduce(required, self.partition)
        if not operation.is_satisfied():
            return self.produces.wait(operation, required, timeout_s)
        outcomes = operation.complete()
        if not any(outcomes.values()):
            return None
        told: asyncio.Future[Outcomes] = asyncio.get_running_loop().create_future()
        told.set_result(outcomes)
        return told

    def wait_for_deletion(
        self, required: Mapping[TopicPartition, int], timeout_s: float
    ) -> LowWatermarks | asyncio.Future[LowWatermarks]:
        """Wait until no live replica has records before the given offsets. Return the low watermarks, or the errors."""
        for key in required:
            self.check_fetches(key)  # the answers tell followers where the log starts now
        operation = DelayedDeleteRecords(required, self.partition)
        if operation.is_satisfied():
            return operation.complete()
        return self.deletions.wait(operation, required, timeout_s)

    def fetch(
        self, params: FetchParams, requests: Sequence[FetchPartition], reader: Reader | None = None
    ) -> list[FetchedPartition] | asyncio.Future[list[FetchedPartition]]:
        """Read what is available. If that is less than `min_bytes` and nothing failed, wait for more.

        reader: the session of these requests. Its idle partitions can end the wait, too.

        Partitions that do not exist do not end the wait of the others: a client that keeps asking for a deleted topic
        would otherwise be answered as fast as it can ask.
        """
        cold: list[WarmUp] = []
        fetched = read_partitions(params, requests, self.partition, cold=cold)
        if cold:
            return asyncio.ensure_future(self._fetch_cold(params, requests, reader, cold))
        return self._fetched(params, requests, reader, fetched)

    async def _fetch_cold(
        self, params: FetchParams, requests: Sequence[FetchPartition], reader: Reader | None, cold: list[WarmUp]
    ) -> list[FetchedPartition]:
        """`fetch` when what it needs was not in the page cache: read it in another thread, then start again.

        Leaders, logs and offsets may have changed meanwhile. The second attempt may wait for the disk.
        """
        await self.logs.reads.warm_up(cold)
        fetched = self._fetched(params, requests, reader, read_partitions(params, requests, self.partition))
        return fetched if isinstance(fetched, list) else await fetched

    def _fetched(
        self,
        params: FetchParams,
        requests: Sequence[FetchPartition],
        reader: Reader | None,
        fetched: list[FetchedPartition],
    ) -> list[FetchedPartition] | asyncio.Future[list[FetchedPartition]]:
        """Return what was read, or wait for more."""
        has_idle = reader is not None and reader.has_idle
        if params.max_wait_ms <= 0 or not (requests or has_idle):
            return fetched
        size = 0
        keys: list[Hashable] = []
        unknown: set[FetchPartition] = set()
        for one in fetched:
            if one.diverging is not None or one.preferred_replica is not None:
                return fetched
            if one.error is None or isinstance(one.error, OffsetNotAvailableError):
                keys.append((one.request.topic, one.request.partition))
                size += one.size_bytes
            elif isinstance(one.error, UnknownTopicOrPartitionError):
                unknown.add(one.request)
            else:
                return fetched
        if size >= params.min_bytes or not (keys or has_idle):
            return fetched
        if reader is not None:
            keys.append(reader)
        wanted = reader.wanted if reader is not None else lambda: requests
        operation = DelayedFetch(params, wanted, unknown, self.partition)
        return self.fetches.wait(operation, keys, params.max_wait_ms / 1000)

    def mark_idle(self, params: FetchParams, fetched: FetchedPartition, reader: Reader) -> bool:
        """Mark a partition as idle in a session if its client knows the present state; else return False.

        A follower's partition is idle only while the follower is in sync: each fetch of another follower checks whether
        it may join the ISR.
        """
        request = fetched.request
        try:
            partition = self.partition(request.topic, request.partition, request.topic_id)
            epoch = request.current_leader_epoch
            log = partition.leader_log(epoch) if params.only_leader else partition.any_log(epoch)
        except ReplicationError:
            return False
        is_told = (fetched.high_watermark, fetched.log_start_offset) == (log.high_watermark, log.log_start_offset)
        if not is_told or params.isolation.visible_end(log) > request.offset:
            return False
        sync = partition.sync if params.replica_id != CONSUMER else None
        if sync is not None and params.replica_id not in sync.isr:
            return False
        self.idle.add((request.topic, request.partition), reader, sync)
        return True

    def topic_config_changed(self, topic: str) -> None:
        """Apply the topic's settings to its logs on this broker."""
        config = self._topic_config(topic)
        for key, partition in self.partitions.items():
            if key[0] != topic or partition.log is None:
                continue
            partition.log.config = config
            if self.moves is not None:
                self.moves.config_changed(key, partition.log)
            if partition.is_leader:
                partition.maybe_advance_high_watermark()
            self.check(key)

    def topic_config(self, topic: str) -> LogConfig:
        """Return the topic's current settings."""
        return self._topic_config(topic)

    def settings_changed(self) -> None:
        """Apply changed settings of the broker: to every log, and to the number of fetchers."""
        for topic in {topic for topic, _ in self.partitions}:
            self.topic_config_changed(topic)
        if self.fetchers is not None:
            self.fetchers.settings_changed()

    def brokers_died(self, broker_ids: Collection[int]) -> None:
        """The metadata no longer lists these brokers: high watermarks stop waiting for their replicas."""
        for partition in list(self.partitions.values()):
            sync = partition.sync
            if sync is not None and any(broker_id in sync.end_offsets for broker_id in broker_ids):
                partition.maybe_advance_high_watermark()

    # -- partitions --------------------------------------------------------------------------------------------------

    def high_watermark_moved(self, partition: Partition) -> None:
        """See `PartitionEvents`."""
        self.check((partition.topic, partition.partition))

    def non_isr_follower_fetched(self, partition: Partition, replica_id: int) -> None:
        """See `PartitionEvents`."""
        if self.isr_changes is not None:
            self.isr_changes.check_expand(partition, replica_id)

    def follower_start_moved(self, partition: Partition) -> None:
        """See `PartitionEvents`."""
        self.deletions.check((partition.topic, partition.partition))

    def role_changed(self, key: TopicPartition) -> None:
        """Call the observer of the topic, and complete operations that wait for the partition."""
        observer = self._observers.get(key[0])
        if observer is not None:
            partition = self.partitions.get(key)
            observer(key[1], partition is not None and partition.is_leader)
        self.check(key)

    def check(self, key: TopicPartition) -> None:
        """Complete the operations that wait for a partition and are satisfied now."""
        self.check_fetches(key)
        self.produces.check(key)
        self.deletions.check(key)

    def check_fetches(self, key: TopicPartition) -> None:
        """Wake sessions in which the partition is idle, and complete the fetches that are satisfied now."""
        if key in self.idle:
            for reader in self.idle.wake(key):
                self.fetches.check(reader)
        self.fetches.check(key)

    def close(self) -> None:
        """Complete everything that waits: the broker is stopping."""
        self.fetches.complete_all()
        self.produces.complete_all()
        self.deletions.complete_all()
