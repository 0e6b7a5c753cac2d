"""Idle partitions of fetch sessions: what wakes them, and what is known of followers."""

from __future__ import annotations

import random

import pytest

from broker.fetch_sessions import LOOK_AGAIN_MS, FetchSessions
from protocol.messages.leader_and_isr import LeaderAndIsrPartitionState
from protocol.record_batch_builder import RecordBatchBuilder
from replication.fetch import CONSUMER, FetchParams, FetchPartition
from replication.in_sync_replicas import LagRules
from replication.isolation import Isolation
from replication.replica_manager import ReplicaManager
from storage.file_system import FileSystem
from storage.log.config import LogConfig
from storage.log_manager import LogManager

NOW_MS = 1_700_000_000_000
MAX_LAG_MS = 1_000
ID = b"1" * 16
KEY = ("t", 0)


def records():
    builder = RecordBatchBuilder(0)
    builder.append(NOW_MS, b"k", b"v")
    return memoryview(builder.build())


class Leader:
    """Broker 0 leads t-0, which brokers 1 and 2 follow, and t-1, which has no followers."""

    def __init__(self, directory):
        self.ms = 0
        config = LogConfig({})
        self.logs = LogManager(
            [directory], lambda topic: config, fs=FileSystem(), now_ms=lambda: NOW_MS, rng=random.Random(1)
        )
        rules = LagRules(now_ms=lambda: self.ms, max_lag_ms=MAX_LAG_MS)
        self.manager = ReplicaManager(0, self.logs, lambda topic: config, lambda *key: False, rules)
        self.sessions = FetchSessions(1, lambda: self.ms, random.Random(1), self.manager.idle)

    async def lead(self, epoch=0, isr=(0, 1, 2)):
        states = [
            ("t", ID, LeaderAndIsrPartitionState(
                partition_index=number, controller_epoch=1, leader=0, leader_epoch=epoch, isr=list(members),
                replicas=list(replicas), partition_epoch=0,
            ))
            for number, members, replicas in ((0, isr, (0, 1, 2)), (1, (0,), (0,)))
        ]  # fmt: skip
        await self.manager.controller_requests.become_leader_or_follower(states)

    @property
    def sync(self):
        return self.manager.partitions[KEY].sync

    def append(self, partition=0):
        self.manager.append("t", partition, records(), 1)


class Session:
    """A session as the Fetch handler uses it."""

    def __init__(self, leader, replica_id):
        self.leader = leader
        self.held = leader.sessions.create(2, is_follower=replica_id >= 0, uses_topic_ids=False)
        self.held.replica_id = replica_id
        self.params = FetchParams(
            replica_id=replica_id, max_wait_ms=0, min_bytes=1, max_bytes=1 << 20,
            isolation=Isolation.READ_UNCOMMITTED, hard_max_bytes=False,
        )  # fmt: skip

    def ask(self, *offsets, wait_ms=0):
        """Ask for partitions from offsets, and for what else the session has."""
        self.held.update(
            [(("t", number), FetchPartition("t", ID, number, offset, 1 << 20)) for number, offset in offsets], ()
        )
        self.held.advance(self.leader.ms)
        self.held.last_fetch_ms = self.leader.ms
        self.params.max_wait_ms = wait_ms
        return self.leader.manager.fetch(self.params, self.held.wanted(), self.held)

    def rest(self, fetched):
        """Mark what was fetched as idle where there is no more."""
        for one in fetched:
            if self.leader.manager.mark_idle(self.params, one, self.held):
                self.held.mark_idle(one.request)

    @property
    def awake(self):
        return [partition for _, partition in self.held.awake]


@pytest.fixture
async def leader(tmp_path):
    made = Leader(tmp_path / "data")
    made.logs.dirs.lock()
    await made.logs.load()
    await made.lead()
    yield made
    made.manager.close()
    made.logs.dirs.unlock()


@pytest.fixture
def consumer(leader):
    """A session in which both partitions are idle."""
    session = Session(leader, CONSUMER)
    session.rest(session.ask((0, 0), (1, 0)))
    assert session.awake == []
    return session


async def test_an_idle_partition_is_not_read_until_it_changes(leader, consumer):
    assert consumer.ask() == []
    leader.append(1)
    assert [one.size_bytes > 0 for one in consumer.ask()] == [True]
    assert consumer.awake == [1]


async def test_a_change_of_an_idle_partition_ends_the_poll(leader, consumer):
    polling = consumer.ask(wait_ms=60_000)
    assert not polling.done()
    leader.append(0)
    assert not polling.done()  # not committed
    leader.append(1)
    assert {one.request.partition: one.size_bytes > 0 for one in await polling} == {0: False, 1: True}


async def test_a_change_of_an_idle_partition_ends_a_poll_with_active_partitions(leader, consumer):
    polling = consumer.ask((0, 0), wait_ms=60_000)
    assert consumer.awake == [0]
    leader.append(1)
    assert [one.size_bytes > 0 for one in await polling] == [False, True]


async def test_a_change_between_read_and_idle_is_not_missed(leader):
    session = Session(leader, CONSUMER)
    fetched = session.ask((0, 0), (1, 0))
    leader.append(1)
    session.rest(fetched)
    assert session.awake == [1]


async def test_a_record_committed_between_read_and_idle(leader):
    session = Session(leader, 1)
    leader.append()
    fetched = session.ask((0, 1))
    leader.manager.partitions[KEY].follower_fetches(2, 1, 0)
    session.rest(fetched)
    assert session.awake == [0]


async def test_a_partition_that_is_not_read_to_the_end_stays_active(leader, consumer):
    leader.append(1)
    consumer.rest(consumer.ask())
    assert consumer.awake == [1]
    consumer.rest(consumer.ask((1, 1)))
    assert consumer.awake == []


async def test_a_role_change_activates_a_partition(leader, consumer):
    await leader.lead(epoch=1)
    assert sorted(consumer.awake) == [0, 1]
    consumer.rest(consumer.ask())
    await leader.manager.controller_requests.stop_replica("t", 1, -2, delete=True)
    assert consumer.awake == [1]


async def test_a_changed_log_start_activates_a_partition(leader, consumer):
    leader.append(1)
    consumer.rest(consumer.ask((1, 1)))
    assert consumer.awake == []
    assert leader.manager.partitions["t", 1].delete_records_before(1) == 1
    leader.manager.wait_for_deletion({("t", 1): 1}, 1.0)
    assert consumer.awake == [1]


async def test_all_partitions_are_checked_periodically(leader, consumer):
    leader.ms += LOOK_AGAIN_MS
    assert consumer.ask() == []
    leader.ms += 1
    assert len(consumer.ask()) == 2
    consumer.rest(consumer.ask())
    leader.ms += LOOK_AGAIN_MS
    assert consumer.ask() == []


async def test_a_forgotten_partition_or_a_closed_session_is_not_idle(leader, consumer):
    assert ("t", 1) in leader.manager.idle
    consumer.held.update((), [("t", 1)])
    assert ("t", 1) not in leader.manager.idle
    leader.sessions.remove(consumer.held.id)
    assert KEY not in leader.manager.idle
    leader.append(0)


# -- followers ---------------------------------------------------------------------------------------------------------


async def test_an_idle_follower_is_caught_up(leader):
    """Its requests name nothing for longer than it may lag: then a record comes."""
    session = Session(leader, 1)
    session.rest(session.ask((0, 0)))
    assert session.awake == []
    leader.ms += 5 * MAX_LAG_MS
    assert session.ask() == []
    leader.ms += 1
    leader.append()
    assert leader.sync.progress[1].last_caught_up_ms == 5 * MAX_LAG_MS
    assert leader.sync.out_of_sync(1) == [2]
    leader.ms += MAX_LAG_MS
    assert leader.sync.out_of_sync(1) == [1, 2]


async def test_an_idle_follower_that_names_the_partition_again_is_caught_up(leader):
    session = Session(leader, 1)
    session.rest(session.ask((0, 0)))
    leader.ms += 5 * MAX_LAG_MS
    session.ask()
    session.held.update([(("t", 0), FetchPartition("t", ID, 0, 0, 1 << 20))], ())
    assert leader.sync.progress[1].last_caught_up_ms == 5 * MAX_LAG_MS


async def test_a_new_leader_epoch_forgets_when_an_idle_follower_was_caught_up(leader):
    session = Session(leader, 1)
    session.rest(session.ask((0, 0)))
    leader.ms += 5 * MAX_LAG_MS
    session.ask()
    before = leader.sync
    leader.ms += 1
    await leader.lead(epoch=1, isr=(0, 2))
    assert before.progress[1].last_caught_up_ms == 5 * MAX_LAG_MS
    assert leader.sync.progress[1].last_caught_up_ms < 0


async def test_an_out_of_sync_follower_is_not_idle(leader):
    await leader.lead(epoch=1, isr=(0, 1))
    outsider = Session(leader, 2)
    outsider.rest(outsider.ask((0, 0)))
    assert outsider.awake == [0]


async def test_a_new_high_watermark_is_sent_to_an_idle_follower(leader):
    """Who has the record waits for the next one; when the other follower has it, too, there is something to be told."""
    session = Session(leader, 1)
    session.rest(session.ask((0, 0)))
    leader.append()
    session.rest(session.ask((0, 1)))
    assert session.awake == []
    leader.manager.partitions[KEY].follower_fetches(2, 1, 0)
    (one,) = session.ask()
    assert (one.size_bytes, one.high_watermark) == (0, 1)
