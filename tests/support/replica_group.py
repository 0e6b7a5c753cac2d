"""A partition on three brokers without a network: real replica managers, logs and fetchers, and a controller in a page.

Every step is taken by the test: who produces, fetches, hears of the controller's word, crashes or comes back. What was
ever committed is remembered, and held against every leader; what consumers of the newest leader are told never goes
back.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from pathlib import Path

from broker.errors import code_of
from client.errors import ConnectionLostError
from client.wire.backoff import Backoff
from protocol.messages.fetch import EpochEndOffset, PartitionData
from protocol.messages.leader_and_isr import LeaderAndIsrPartitionState
from protocol.messages.offset_for_leader_epoch import EpochEndOffset as EpochAnswer
from protocol.record_batch import iter_batches
from protocol.record_batch_builder import RecordBatchBuilder
from replication.alter_partition import IsrChangeRefusedError
from replication.errors import ReplicationError
from replication.fetch import FetchParams, FetchPartition
from replication.fetch_answers import FetchAnswers
from replication.fetcher import Fetcher
from replication.fetcher_manager import FetcherManager
from replication.in_sync_replicas import NO_LIMIT, LagRules
from replication.isolation import Isolation
from replication.isr_changes import IsrChanges
from replication.partition import ACKS_ALL
from replication.replica_manager import ReplicaManager
from replication.replication_quota import ReplicationQuota
from storage.errors import StorageError
from storage.log.config import LogConfig
from storage.log_manager import LogManager
from support.faulty_disk import FaultyFileSystem

TOPIC_ID = b"1" * 16
KEY = ("t", 0)
NOW_MS = 1_700_000_000_000
LAG_MS = 10_000
FENCED, STALE = 74, 95


class InlineFileSystem(FaultyFileSystem):
    """Blocking work is done at once; disks fail on request of the test."""

    async def run_blocking(self, work):
        return work()


class Settings:
    """Of fetchers."""

    num_replica_fetchers = 1
    replica_fetch_max_bytes = 2_000
    replica_fetch_min_bytes = 1
    replica_fetch_response_max_bytes = 2_000
    replica_fetch_wait_max_ms = 0
    replica_socket_timeout_ms = 1_000


class LocalLeader:
    """Calls the leader in this process, as `LeaderEndpoint` does over the network."""

    def __init__(self, group, replica, leader_id):
        self._group = group
        self._replica = replica
        self._leader_id = leader_id

    def close(self):
        """Nothing to close."""

    def _leader(self):
        leader = self._group.replicas[self._leader_id]
        if leader.manager is None:
            raise ConnectionLostError("leader", 0, "it is dead")
        return leader.manager

    async def fetch(self, wanted, max_wait_ms):
        asked = wanted[KEY]
        params = FetchParams(
            replica_id=self._replica.broker_id,
            broker_epoch=self._replica.life,
            max_wait_ms=0,
            min_bytes=1,
            max_bytes=2_000,
            isolation=Isolation.LOG_END,
            hard_max_bytes=False,
        )
        request = FetchPartition(
            *KEY[:1], asked.topic_id, 0, asked.offset, 2_000, asked.leader_epoch, asked.log_start_offset,
            asked.last_fetched_epoch,
        )  # fmt: skip
        (fetched,) = self._leader().fetch(params, [request])
        if fetched.error is not None:
            return {KEY: PartitionData(error_code=code_of(fetched.error))}
        records = fetched.info.records
        data = PartitionData(
            high_watermark=fetched.high_watermark,
            log_start_offset=fetched.log_start_offset,
            records=b"" if records is None else bytes(records.read(0, len(records))),
        )
        if fetched.diverging is not None:
            data.diverging_epoch = EpochEndOffset(epoch=fetched.diverging[0], end_offset=fetched.diverging[1])
        return {KEY: data}

    async def epoch_ends(self, asked):
        ((_, current, epoch),) = asked
        try:
            log = self._leader().partition(*KEY).leader_log(current)
        except ReplicationError as error:
            return {KEY: EpochAnswer(error_code=code_of(error))}
        found, end_offset = log.end_offset_for_epoch(epoch)
        return {KEY: EpochAnswer(leader_epoch=found, end_offset=end_offset)}

    async def offset(self, key, leader_epoch, timestamp):
        log = self._leader().partition(*KEY).leader_log(leader_epoch)
        return log.log_end_offset if timestamp == -1 else log.log_start_offset


class Replica:
    """One broker: dead while `manager` is None."""

    def __init__(self, group, broker_id, directory):
        self.group = group
        self.broker_id = broker_id
        self.directory = directory
        self.life = 0
        self.manager = None
        self.fetcher = None
        self._checking = None

    async def start(self):
        group, broker_id = self.group, self.broker_id
        self.life += 1
        logs = LogManager(
            [self.directory], lambda topic: group.config, fs=group.fs, now_ms=lambda: NOW_MS, rng=random.Random(1)
        )
        await logs.load()
        rules = LagRules(
            now_ms=lambda: group.now_ms,
            max_lag_ms=LAG_MS,
            max_lag_messages=group.max_lag_messages,
            is_alive=lambda one: one in group.live,
        )
        manager = ReplicaManager(broker_id, logs, lambda topic: group.config, exists=lambda *key: True, rules=rules)
        life = self.life
        manager.isr_changes = IsrChanges(broker_id, rules, group, lambda: life, Backoff(50, 1_000, random.Random(1)))
        quota = ReplicationQuota(
            lambda: 1 << 60, lambda config: (), broker_id, now_s=lambda: 0.0, samples=11, sample_s=1
        )
        answers = FetchAnswers(logs, quota, manager.check)

        def new_fetcher(leader_id, number):
            leader = LocalLeader(group, self, leader_id)
            self.fetcher = Fetcher(
                leader_id, leader, leader, answers, settings=Settings(), quota=quota,
                truncates_on_fetch=group.truncates_on_fetch, now_s=lambda: 0.0, on_failed=lambda key: None,
                backoff=Backoff(20, 20, random.Random(1)),
            )  # fmt: skip
            return self.fetcher

        manager.fetchers = FetcherManager(new_fetcher, Settings())
        self.manager = manager
        self._checking = asyncio.ensure_future(manager.isr_changes.run(manager.partitions.values))
        await asyncio.sleep(0)

    async def crash(self):
        """Die. Written data are kept unless the group loses them."""
        log = self.log
        if self._checking is not None:
            self._checking.cancel()
            await asyncio.gather(self._checking, return_exceptions=True)
        manager, self.manager, self.fetcher = self.manager, None, None
        manager.fetches.complete_all()
        manager.produces.complete_all()
        if log is not None:
            log.release()

    @property
    def partition(self):
        return None if self.manager is None else self.manager.partitions.get(KEY)

    @property
    def log(self):
        return None if self.partition is None else self.partition.log

    async def fetch(self):
        """One round of its fetcher."""
        if self.fetcher is None or self.manager is None:
            return
        states = list(self.fetcher.states.values())
        if states:
            with contextlib.suppress(ConnectionLostError):
                await self.fetcher._introduce(states)


class ReplicaGroup:
    """Three replicas and their controller, which is an `AlterPartition` too."""

    def __init__(self, root: Path, *, min_isr=2, truncates_on_fetch=True, max_lag_messages=NO_LIMIT):
        self.fs = InlineFileSystem()
        self.config = LogConfig({"min.insync.replicas": str(min_isr), "segment.bytes": "2000"})
        self.min_isr = min_isr
        self.truncates_on_fetch = truncates_on_fetch
        self.max_lag_messages = max_lag_messages
        self.now_ms = 0
        self.replicas = [Replica(self, broker_id, root / str(broker_id)) for broker_id in range(3)]
        self.live = {0, 1, 2}
        self.leader, self.leader_epoch, self.isr, self.partition_epoch = 0, 0, (0, 1, 2), 0
        self.committed: list[tuple[int, bytes]] = []
        """(epoch, value) of every offset that was ever below a high watermark."""
        self.shown = 0
        self._shown_epoch = -1
        self._values = 0

    async def start(self):
        for replica in self.replicas:
            replica.directory.mkdir(parents=True, exist_ok=True)
            await replica.start()
            await self.deliver(replica.broker_id)

    async def close(self):
        for replica in self.replicas:
            if replica.manager is not None:
                await replica.crash()

    # -- the controller ----------------------------------------------------------------------------------------------

    async def submit(self, change):
        """See `AlterPartition`: proposals that are out of date or of a dead broker are refused."""
        proposed = change.proposed
        if proposed.leader_epoch != self.leader_epoch:
            raise IsrChangeRefusedError(FENCED)
        if proposed.partition_epoch != self.partition_epoch:
            raise IsrChangeRefusedError(STALE)
        lives = zip(proposed.isr, proposed.broker_epochs, strict=True)
        if any(one not in self.live or life not in (-1, self.replicas[one].life) for one, life in lives):
            raise IsrChangeRefusedError(107)
        self.isr = proposed.isr
        self.partition_epoch += 1
        return proposed._replace(partition_epoch=self.partition_epoch)

    async def run(self):
        """See `AlterPartition`."""
        await asyncio.get_running_loop().create_future()

    def elect(self, leader=None):
        """Elect another leader from the ISR, or none. No broker is notified yet."""
        candidates = [one for one in self.isr if one in self.live]
        self.leader = leader if leader in candidates else (candidates[0] if candidates else -1)
        self.isr = tuple(candidates) or self.isr
        self.leader_epoch += 1
        self.partition_epoch += 1

    async def deliver(self, broker_id):
        """Send the newest state of the controller to a broker."""
        replica = self.replicas[broker_id]
        if replica.manager is None:
            return
        state = LeaderAndIsrPartitionState(
            partition_index=0, controller_epoch=1, leader=self.leader, leader_epoch=self.leader_epoch,
            isr=list(self.isr), partition_epoch=self.partition_epoch, replicas=[0, 1, 2],
        )  # fmt: skip
        await replica.manager.controller_requests.become_leader_or_follower([("t", TOPIC_ID, state)])

    # -- what happens ------------------------------------------------------------------------------------------------

    def produce(self, broker_id, count):
        """A producer believes that this broker leads."""
        builder = RecordBatchBuilder(0)
        for _ in range(count):
            self._values += 1
            builder.append(NOW_MS, None, b"%d" % self._values)
        manager = self.replicas[broker_id].manager
        with contextlib.suppress(ReplicationError, StorageError):
            if manager is not None:
                manager.append("t", 0, memoryview(builder.build()), ACKS_ALL)

    async def crash(self, broker_id, *, lost_records=0):
        """A broker dies; the controller notices. lost_records: how many of its last ones a power cut takes."""
        replica = self.replicas[broker_id]
        if replica.manager is None:
            return
        log = replica.log
        if log is not None and lost_records:
            await replica.manager.logs.truncate_to(log, max(0, log.log_end_offset - lost_records))
        await replica.crash()
        self.live.discard(broker_id)
        if self.leader == broker_id or (broker_id in self.isr and len(self.isr) > 1):
            self.isr = tuple(one for one in self.isr if one != broker_id) or self.isr
            self.elect(self.leader)

    async def restart(self, broker_id):
        """Restart it with the high watermark of its last checkpoint."""
        if self.replicas[broker_id].manager is None:
            await self.replicas[broker_id].start()
            self.live.add(broker_id)
            if self.leader < 0:
                self.elect()
            await self.deliver(broker_id)

    async def checkpoint(self, broker_id):
        manager = self.replicas[broker_id].manager
        if manager is not None:
            await manager.logs.checkpoints.write_high_watermarks()

    async def fetch_all(self, *, but=None):
        """All replicas get what there is, and the leader hears of it; but: one that fetches nothing."""
        for _ in range(3):
            for replica in self.replicas:
                if replica.broker_id != but:
                    await replica.fetch()
            await self.settle()

    async def wait(self, ms):
        """Time passes, and every leader checks its followers."""
        self.now_ms += ms
        for replica in self.replicas:
            if replica.partition is not None:
                replica.manager.isr_changes.check_lag(replica.partition)
        await self.settle()
        self.check_nobody_waits_too_long(ms)

    async def settle(self):
        """Run all pending tasks until none makes progress."""
        for _ in range(6):
            await asyncio.sleep(0)

    # -- what must hold ----------------------------------------------------------------------------------------------

    def check(self):
        """Check that every leader has all records that were committed before."""
        for replica in self.replicas:
            partition = replica.partition
            if partition is None or not partition.is_leader:
                continue
            log = partition.log
            found = values_of(log, log.high_watermark)
            both = min(len(found), len(self.committed))
            assert found[:both] == self.committed[:both], f"broker {replica.broker_id} has committed something else"
            if len(found) > both:
                self.committed = found
            if partition.leader_epoch == self.leader_epoch:
                kept = values_of(log, log.log_end_offset)
                assert kept[: len(self.committed)] == self.committed, "a leader lacks what was committed"
                if not partition.is_high_watermark_behind:
                    assert log.high_watermark >= self.shown, "consumers see the end go back"
                    self.shown = log.high_watermark

    def check_nobody_waits_too_long(self, waited_ms):
        """After `wait(ms)`: the high watermark has reached the smallest end of the in-sync replicas and of the live
        replicas within the lag limits.
        """
        partition = self.replicas[self.leader].partition if self.leader in self.live else None
        sync = partition and partition.sync
        if not sync or partition.partition_epoch != self.partition_epoch or sync.pending is not None:
            return
        if len(sync.isr) < self.min_isr:
            return
        end = partition.log.log_end_offset
        needed = [sync.end_offsets[one] for one in sync.isr if one != self.leader]
        if waited_ms <= LAG_MS:
            farthest = end if self.max_lag_messages == NO_LIMIT else self.max_lag_messages
            others = [one for one in self.live if one not in sync.isr]
            needed += [sync.end_offsets[one] for one in others if end - max(sync.end_offsets[one], 0) <= farthest]
        assert partition.log.high_watermark >= min([end, *needed]), "the leader waits for a replica that lags"

    async def heal(self):
        """Restart, update and fetch on all brokers: the logs must become equal."""
        for replica in self.replicas:
            await self.restart(replica.broker_id)
        if self.leader < 0 or self.leader not in self.live:
            self.elect()
        for _ in range(2):
            for replica in self.replicas:
                await self.deliver(replica.broker_id)
        for _ in range(200):
            for replica in self.replicas:
                await replica.fetch()
            await self.settle()
            self.check()
            leader = self.replicas[self.leader].log
            if sorted(self.isr) == [0, 1, 2] and all(
                (one.log.log_end_offset, one.log.high_watermark) == (leader.log_end_offset, leader.log_end_offset)
                for one in self.replicas
            ):
                break
        else:
            raise AssertionError(
                f"not one log: ISR {self.isr}, ends {[one.log.log_end_offset for one in self.replicas]}"
            )
        logs = [log_bytes(replica.directory) for replica in self.replicas]
        assert logs[0] == logs[1] == logs[2]


def values_of(log, end):
    """(epoch, value) of the records below `end`, from the first segment on."""
    data = b"".join(segment.file.path and Path(segment.file.path).read_bytes() for segment in log.segments)
    return [
        (batch.partition_leader_epoch, bytes(record.value))
        for batch in iter_batches(memoryview(data))
        for record in batch.records()
        if record.offset < end
    ]


def log_bytes(directory):
    """All records in the partition's directory, from all segments."""
    return b"".join(path.read_bytes() for path in sorted((directory / "t-0").glob("*.log")))
