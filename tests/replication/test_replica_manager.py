"""ReplicaManager and Partition with real logs: the controller's word, epochs, leadership, waiting producers."""

from __future__ import annotations

import asyncio
import errno
import random

import pytest

from protocol.messages.leader_and_isr import LeaderAndIsrPartitionState
from protocol.record_batch_builder import RecordBatchBuilder
from replication.controller_requests import EPOCH_OF_DELETION
from replication.errors import (
    CommitTimedOutError,
    DeletionTimedOutError,
    FencedLeaderEpochError,
    InconsistentTopicIdError,
    LogDirOfflineError,
    NotEnoughReplicasAfterAppendError,
    NotEnoughReplicasError,
    NotLeaderOrFollowerError,
    StaleControllerEpochError,
    UnknownLeaderEpochError,
    UnknownTopicOrPartitionError,
)
from replication.fetch import CONSUMER, FetchParams, FetchPartition
from replication.isolation import Isolation
from replication.partition import ACKS_ALL
from replication.replica_manager import ReplicaManager
from storage.errors import LogDirIOError, OffsetOutOfRangeError
from storage.file_system import FileSystem
from storage.log.config import LogConfig
from storage.log_manager import LogManager
from support.faulty_disk import FaultyFileSystem

NOW_MS = 1_700_000_000_000
ID, OTHER_ID, NO_ID = b"1" * 16, b"2" * 16, bytes(16)


def records(count=1):
    builder = RecordBatchBuilder(0)
    for i in range(count):
        builder.append(NOW_MS + i, b"k", b"v")
    return memoryview(builder.build())


def state(leader=0, epoch=0, isr=(0,), replicas=(0,), partition=0, partition_epoch=0):
    return LeaderAndIsrPartitionState(
        partition_index=partition,
        controller_epoch=1,
        leader=leader,
        leader_epoch=epoch,
        isr=list(isr),
        partition_epoch=partition_epoch,
        replicas=list(replicas),
    )


class HeldDisk(FileSystem):
    """A disk whose blocking work can be held."""

    def __init__(self):
        super().__init__()
        self.is_asked = asyncio.Event()
        self._goes_on = asyncio.Event()
        self._goes_on.set()

    def hold(self):
        self._goes_on.clear()

    def let_go(self):
        self._goes_on.set()

    async def run_blocking(self, work):
        self.is_asked.set()
        await self._goes_on.wait()
        return await super().run_blocking(work)


class Fixture:
    def __init__(self, directory, fs=None):
        self.config = LogConfig({})
        self.elsewhere = set()
        self.logs = LogManager(
            [directory], lambda topic: self.config, fs=fs or FileSystem(), now_ms=lambda: NOW_MS, rng=random.Random(1)
        )
        self.manager = ReplicaManager(
            0, self.logs, lambda topic: self.config, exists=lambda *key: key in self.elsewhere
        )

    async def become(self, *args, topic="t", topic_id=ID, **fields):
        key = (topic, fields.get("partition", 0))
        outcomes = await self.manager.controller_requests.become_leader_or_follower(
            [(topic, topic_id, state(*args, **fields))]
        )
        return outcomes[key]

    def append(self, acks=1, count=1):
        return self.manager.append("t", 0, records(count), acks)

    @property
    def partition(self):
        return self.manager.partitions["t", 0]

    def fetch(
        self, offset, replica_id=CONSUMER, isolation=Isolation.READ_UNCOMMITTED, wait_ms=0, epoch=-1, min_bytes=1
    ):
        params = FetchParams(
            replica_id=replica_id,
            max_wait_ms=wait_ms,
            min_bytes=min_bytes,
            max_bytes=1 << 20,
            isolation=isolation,
            hard_max_bytes=False,
        )
        return self.manager.fetch(params, [FetchPartition("t", ID, 0, offset, 1 << 20, epoch)])


@pytest.fixture
async def at(tmp_path):
    made = Fixture(tmp_path / "data")
    made.logs.dirs.lock()
    await made.logs.load()
    yield made
    made.manager.close()
    made.logs.dirs.unlock()


async def test_unknown_partitions_and_partitions_on_other_brokers(at):
    with pytest.raises(UnknownTopicOrPartitionError):
        at.manager.partition("t", 0)
    at.elsewhere.add(("t", 0))
    with pytest.raises(NotLeaderOrFollowerError):
        at.manager.partition("t", 0)
    assert await at.become() is None
    assert at.manager.partition("t", 0, ID) is at.partition
    assert at.manager.partition("t", 0, NO_ID) is at.partition
    with pytest.raises(InconsistentTopicIdError):
        at.manager.partition("t", 0, OTHER_ID)


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"epoch": 4}, StaleControllerEpochError),
        ({"epoch": 5}, StaleControllerEpochError),
        ({"epoch": 5, "partition_epoch": 9}, StaleControllerEpochError),
        ({"epoch": 6}, None),
        ({"epoch": 6, "topic_id": OTHER_ID}, InconsistentTopicIdError),
        ({"epoch": 6, "topic_id": NO_ID}, None),
        ({"epoch": 6, "replicas": [1, 2], "isr": [1], "leader": 1}, UnknownTopicOrPartitionError),
    ],
)
async def test_states_of_the_controller(at, fields, error):
    assert await at.become(epoch=5) is None
    outcome = await at.become(**fields)
    assert outcome is None if error is None else isinstance(outcome, error)
    assert at.partition.leader_epoch == (6 if error is None else 5)
    assert at.partition.topic_id == ID


async def test_states_that_a_new_controller_repeats_are_not_logged(at, caplog):
    """A new controller sends its state of every partition to every broker."""
    caplog.set_level("INFO", "replication.controller_requests")
    await at.become(epoch=5)
    assert isinstance(await at.become(epoch=5), StaleControllerEpochError)
    assert "refused" not in caplog.text
    assert isinstance(await at.become(epoch=6, topic_id=OTHER_ID), InconsistentTopicIdError)
    assert "t-0: LeaderAndIsr refused" in caplog.text


async def test_a_topic_id_may_come_later(at):
    assert await at.become(topic_id=NO_ID) is None
    assert at.partition.topic_id == NO_ID
    assert await at.become(topic_id=ID) is None
    assert at.partition.topic_id == ID
    assert isinstance(await at.become(topic_id=ID), StaleControllerEpochError)


async def test_a_partition_that_was_refused_is_not_hosted(at):
    assert isinstance(await at.become(leader=1, replicas=[1], isr=[1]), UnknownTopicOrPartitionError)
    assert not at.manager.partitions


async def test_controller_epochs(at):
    requests = at.manager.controller_requests
    for connection in (7, 7, 9):
        requests.check_controller(5, connection)
    with pytest.raises(StaleControllerEpochError, match="the controller has a newer connection"):
        requests.check_controller(5, 7)
    with pytest.raises(StaleControllerEpochError, match="4 is older than 5"):
        requests.check_controller(4, 10)
    requests.check_controller(6, 8)
    requests.check_controller(6, 8)
    assert requests.controller_epoch == 6


async def test_leader_epochs_fence_and_are_stored_in_the_log(at):
    await at.become(epoch=3)
    at.append()
    at.append()
    assert isinstance(at.fetch(0, epoch=2)[0].error, FencedLeaderEpochError)
    assert isinstance(at.fetch(0, epoch=4)[0].error, UnknownLeaderEpochError)
    assert at.fetch(0, epoch=3)[0].error is None
    await at.become(epoch=5)
    at.append()
    log = at.partition.log
    assert [log.end_offset_for_epoch(epoch) for epoch in (3, 4, 5)] == [(3, 2), (3, 2), (5, 3)]
    assert at.partition.leader_epoch_start_offset == 2


async def test_followers_refuse_requests_of_clients(at):
    await at.become()
    at.append()
    assert await at.become(leader=1, epoch=1, replicas=[0, 1], isr=[0, 1]) is None
    for refused in (at.append, lambda: at.append(ACKS_ALL), lambda: at.partition.delete_records_before(1)):
        with pytest.raises(NotLeaderOrFollowerError):
            refused()
    assert isinstance(at.fetch(0)[0].error, NotLeaderOrFollowerError)
    assert await at.become(epoch=2, replicas=[0, 1], isr=[0, 1]) is None
    assert at.append().first_offset == 1


async def test_a_log_is_created_when_a_full_disk_has_space_again(tmp_path):
    fs = FaultyFileSystem(tmp_path)
    at = Fixture(tmp_path / "data", fs)
    at.logs.dirs.lock()
    await at.logs.load()
    fs.capacity = 0
    for partition in (0, 1):
        assert await at.become(partition=partition) is None
        assert at.manager.partitions["t", partition].log is None
    fs.capacity = None
    fs.broken[tmp_path / "data" / "t-0"] = errno.EIO
    at.manager.controller_requests.begin_logs()
    assert at.partition.is_offline
    assert at.manager.partitions["t", 1].is_leader
    assert at.manager.partitions["t", 1].log is not None
    at.manager.close()
    at.logs.dirs.unlock()


async def test_offline_log_directory(at):
    await at.become()
    at.partition.log = None
    with pytest.raises(LogDirOfflineError):
        at.append()
    assert isinstance(at.fetch(0)[0].error, LogDirOfflineError)


async def test_min_insync_replicas(at):
    at.config = LogConfig({"min.insync.replicas": "2"})
    await at.become(replicas=[0, 1], isr=[0])
    with pytest.raises(NotEnoughReplicasError):
        at.append(ACKS_ALL)
    assert at.append(1).first_offset == 0
    assert at.partition.log.high_watermark == 0
    await at.become(epoch=1, replicas=[0, 1], isr=[0, 1])
    assert at.append(ACKS_ALL).first_offset == 1


async def test_min_insync_replicas_are_ignored_for_one_replica(at):
    at.config = LogConfig({"min.insync.replicas": "3"})
    await at.become()
    assert at.append(ACKS_ALL).first_offset == 0
    assert at.partition.log.high_watermark == 1


async def test_waiting_for_commit(at):
    await at.become()
    info = at.append(ACKS_ALL)
    assert at.manager.wait_for_commit({("t", 0): info.last_offset + 1}, 60) is None
    await at.become(epoch=1, replicas=[0, 1], isr=[0, 1])
    info = at.append(ACKS_ALL)
    required = {("t", 0): info.last_offset + 1}
    outcome = await at.manager.wait_for_commit(required, 0.01)
    assert isinstance(outcome["t", 0], CommitTimedOutError)
    waiting = at.manager.wait_for_commit(required, 60)
    at.partition.sync.end_offsets[1] = 2
    at.partition.maybe_advance_high_watermark()
    at.manager.produces.check(("t", 0))
    assert (await waiting)["t", 0] is None


async def test_waiting_for_appends(at):
    """The commit, the disk, or both; with nothing to wait for there is no future."""
    await at.become(replicas=[0, 1], isr=[0, 1])
    end_offset = {("t", 0): at.append(ACKS_ALL).last_offset + 1}
    assert at.manager.wait_for_appends({}, {}, 60) is None
    assert await at.manager.wait_for_appends({}, end_offset, 60) == {}
    assert at.partition.log.recovery_point == 1
    outcomes = await at.manager.wait_for_appends(end_offset, {}, 0.01)
    assert isinstance(outcomes["t", 0], CommitTimedOutError)
    end_offset = {("t", 0): at.append(ACKS_ALL).last_offset + 1}
    waiting = at.manager.wait_for_appends(end_offset, end_offset, 60)
    await at.become(leader=1, epoch=1, replicas=[0, 1], isr=[1])  # while the disk works
    assert isinstance((await waiting)["t", 0], NotLeaderOrFollowerError)


@pytest.mark.parametrize("replicas", [[0], [0, 1]])
async def test_the_high_watermark_waits_for_the_sync_that_flush_messages_asks_for(tmp_path, replicas):
    """What consumers have read must be there after a power cut of the leader, too."""
    disk = HeldDisk()
    at = Fixture(tmp_path / "data", disk)
    at.logs.dirs.lock()
    await at.logs.load()
    at.config = LogConfig({"flush.messages": "2"})
    await at.become(replicas=replicas, isr=replicas)

    def followers_have(offset):
        for replica in replicas[1:]:
            at.partition.follower_fetches(replica, offset, 0)

    def appended():
        info = at.append(ACKS_ALL)
        end_offset = {("t", 0): info.last_offset + 1}
        waiting = at.manager.wait_for_appends(end_offset, end_offset if info.flush_required else {}, 60)
        followers_have(info.last_offset + 1)
        return waiting

    appended()
    assert at.partition.log.high_watermark == 1  # only the second record is one too many
    disk.hold()
    waiting = [appended()]
    await disk.is_asked.wait()
    waiting.append(appended())
    polling = at.fetch(1, wait_ms=60_000)
    assert at.partition.log.log_end_offset == 3
    assert at.partition.log.high_watermark == 1
    disk.let_go()
    assert [await one for one in waiting] == [{("t", 0): None}] * 2
    assert at.partition.log.high_watermark == at.partition.log.recovery_point == 3
    assert (await polling)[0].size_bytes > 0
    at.manager.close()
    at.logs.dirs.unlock()


async def test_an_append_that_cannot_be_flushed_fails(tmp_path):
    fs = FaultyFileSystem()
    at = Fixture(tmp_path / "data", fs)
    at.logs.dirs.lock()
    await at.logs.load()
    await at.become()
    end_offset = {("t", 0): at.append(ACKS_ALL).last_offset + 1}
    fs.broken[tmp_path / "data" / "t-0"] = errno.EIO
    outcomes = await at.manager.wait_for_appends(end_offset, end_offset, 60)
    assert isinstance(outcomes["t", 0], LogDirIOError)
    at.manager.close()
    at.logs.dirs.unlock()


@pytest.mark.parametrize("way", ["follower", "stopped", "deleted", "closed"])
async def test_waiting_ends_when_leadership_ends(at, way):
    await at.become(replicas=[0, 1], isr=[0, 1])
    info = at.append(ACKS_ALL)
    waiting = at.manager.wait_for_commit({("t", 0): info.last_offset + 1}, 60)
    polling = at.fetch(0, wait_ms=60_000)
    if way == "follower":
        await at.become(leader=1, epoch=1, replicas=[0, 1], isr=[1])
    elif way == "closed":
        at.manager.close()
    else:
        await at.manager.controller_requests.stop_replica("t", 0, 1, delete=way == "deleted")
    error = (await waiting)["t", 0]
    fetched = (await polling)[0].error
    expected = {
        "follower": NotLeaderOrFollowerError,
        "stopped": NotLeaderOrFollowerError,
        "deleted": UnknownTopicOrPartitionError,
        "closed": CommitTimedOutError,
    }[way]
    assert isinstance(error, expected)
    assert fetched is None if way == "closed" else isinstance(fetched, expected)


async def test_records_that_cannot_be_committed_fail_at_once(at):
    await at.become(replicas=[0, 1], isr=[0, 1])
    info = at.append(ACKS_ALL)
    await at.become(leader=1, epoch=1, replicas=[0, 1], isr=[1])
    waiting = at.manager.wait_for_commit({("t", 0): info.last_offset + 1}, 60)
    assert waiting is not None  # the log was synced meanwhile, say
    assert isinstance((await waiting)["t", 0], NotLeaderOrFollowerError)


async def test_committed_but_on_too_few_replicas(at):
    at.config = LogConfig({"min.insync.replicas": "2"})
    await at.become(replicas=[0, 1], isr=[0, 1])
    info = at.append(ACKS_ALL)
    waiting = at.manager.wait_for_commit({("t", 0): info.last_offset + 1}, 60)
    at.partition.log.update_high_watermark(1)
    await at.become(epoch=1, replicas=[0, 1], isr=[0])
    assert isinstance((await waiting)["t", 0], NotEnoughReplicasAfterAppendError)


@pytest.mark.parametrize(
    ("epoch", "refused"), [(2, True), (3, False), (4, False), (-1, False), (EPOCH_OF_DELETION, False), (-3, True)]
)
async def test_stop_replica_and_its_epoch(at, epoch, refused):
    await at.become(epoch=3)
    directory = at.partition.log.directory
    if refused:
        with pytest.raises(FencedLeaderEpochError):
            await at.manager.controller_requests.stop_replica("t", 0, epoch, delete=True)
        assert at.append().first_offset == 0
    else:
        await at.manager.controller_requests.stop_replica("t", 0, epoch, delete=True)
        assert ("t", 0) not in at.manager.partitions
        assert not directory.exists()
        await at.manager.controller_requests.stop_replica("t", 0, epoch, delete=True)  # again: nothing to do


async def test_consumers_read_committed_records_and_followers_read_all(at):
    await at.become(replicas=[0, 1], isr=[0, 1])
    at.append(1, 3)
    (consumer,) = at.fetch(0)
    assert (consumer.size_bytes, consumer.high_watermark) == (0, 0)
    (follower,) = at.fetch(0, replica_id=1)
    assert follower.size_bytes > 0
    assert at.partition.sync.end_offsets == {1: 0}
    (caught_up,) = at.fetch(3, replica_id=1)
    assert caught_up.size_bytes == 0
    assert at.partition.sync.end_offsets == {1: 3}
    at.partition.maybe_advance_high_watermark()
    assert at.fetch(0)[0].high_watermark == 3
    assert isinstance(at.fetch(0, replica_id=5)[0].error, NotLeaderOrFollowerError)


async def test_a_poll_waits_for_the_high_watermark_and_not_for_the_append(at):
    await at.become(replicas=[0, 1], isr=[0, 1])
    polling = at.fetch(0, wait_ms=60_000)
    following = at.fetch(0, replica_id=1, wait_ms=60_000)
    at.append()
    await asyncio.sleep(0)
    assert not polling.done()
    assert (await following)[0].size_bytes > 0
    at.partition.sync.end_offsets[1] = 1
    at.partition.maybe_advance_high_watermark()
    at.manager.fetches.check(("t", 0))
    assert (await polling)[0].size_bytes > 0


async def test_a_batch_larger_than_the_limit_of_its_partition_counts_whole_for_min_bytes(at):
    await at.become()
    params = FetchParams(
        replica_id=CONSUMER,
        max_wait_ms=60_000,
        min_bytes=100,
        max_bytes=1 << 20,
        isolation=Isolation.READ_UNCOMMITTED,
        hard_max_bytes=False,
    )
    polling = at.manager.fetch(params, [FetchPartition("t", ID, 0, 0, max_bytes=1)])
    at.append(count=10)
    await asyncio.sleep(0)
    assert polling.done()
    assert polling.result()[0].size_bytes == len(records(10))


async def test_delete_records(at):
    await at.become()
    at.append(1, 10)
    for bad in (11, -2, -(2**63)):
        with pytest.raises(OffsetOutOfRangeError):
            at.partition.delete_records_before(bad)
    assert at.partition.delete_records_before(4) == 4
    assert at.partition.delete_records_before(2) == 4
    assert at.partition.delete_records_before(-1) == 10


async def test_changed_settings_apply_to_logs(at):
    await at.become()
    at.config = LogConfig({"retention.ms": "5"})
    at.manager.topic_config_changed("other")
    assert at.partition.log.config.retention_ms != 5
    at.manager.topic_config_changed("t")
    assert at.partition.log.config.retention_ms == 5
    at.config = LogConfig({"retention.ms": "6"})
    at.manager.settings_changed()
    assert at.partition.log.config.retention_ms == 6


# -- deleted records -------------------------------------------------------------------------------------------------


@pytest.fixture
async def replicated(at):
    """The leader of three replicas with four records that all have."""
    await at.become(replicas=(0, 1, 2), isr=(0, 1, 2))
    at.append(count=4)
    for replica in (1, 2):
        at.partition.follower_fetches(replica, 4, 0)
    return at


KEY = ("t", 0)


async def test_deletion_waits_for_the_last_live_replica(replicated):
    assert replicated.partition.delete_records_before(3) == 3
    waiting = replicated.manager.wait_for_deletion({KEY: 3}, 30)
    replicated.partition.follower_fetches(1, 4, 3)
    await asyncio.sleep(0)
    assert not waiting.done()
    replicated.partition.follower_fetches(2, 4, 3)
    assert await waiting == {KEY: 3}
    assert replicated.manager.wait_for_deletion({KEY: 3}, 30) == {KEY: 3}  # at once


async def test_deletion_times_out_without_a_replica(replicated):
    replicated.partition.delete_records_before(3)
    outcome = await replicated.manager.wait_for_deletion({KEY: 3}, 0.01)
    assert isinstance(outcome[KEY], DeletionTimedOutError)


async def test_deletion_does_not_wait_for_offline_replicas(replicated):
    replicated.partition.rules.is_alive = lambda replica: replica != 2
    replicated.partition.delete_records_before(3)
    replicated.partition.follower_fetches(1, 4, 3)
    assert replicated.manager.wait_for_deletion({KEY: 3}, 30) == {KEY: 3}


async def test_deletion_by_a_leader_that_is_replaced(replicated):
    replicated.partition.delete_records_before(3)
    waiting = replicated.manager.wait_for_deletion({KEY: 3}, 30)
    await replicated.become(leader=1, epoch=1, replicas=(0, 1, 2), isr=(0, 1, 2))
    assert isinstance((await waiting)[KEY], NotLeaderOrFollowerError)
