"""A full disk under the leader of a replicated partition: another in-sync replica leads while it has room."""

from __future__ import annotations

import contextlib

import pytest

from broker.broker import Broker
from broker.full_log_dirs import CHECK_S, REPEAT_S, FullLogDirs
from broker.settings.config import BrokerConfig
from protocol.error_codes import ErrorCode
from protocol.messages.create_topics import CreatableReplicaAssignment, CreatableTopic, CreateTopicsRequest
from registry.embedded.store import EmbeddedStore
from support.broker import settings
from support.deadlines import DEADLINE_MS
from support.faulty_disk import FaultyFileSystem
from support.polling import until
from support.wire import append, batch, wire_client


class Cluster:
    """Brokers 1 to 3 on one registry, each with a disk that can be full."""

    def __init__(self, tmp_path, store):
        self.disks = {number: FaultyFileSystem() for number in (1, 2, 3)}
        self.paths = {number: tmp_path / str(number) for number in self.disks}
        self.brokers = {number: self._broker(number, store) for number in self.disks}

    def _broker(self, number, store):
        values = settings(self.paths[number], broker_id=str(number), auto_create_topics_enable="false")
        return Broker(BrokerConfig.load(None, values), fs=self.disks[number], store=store)

    def set_full(self, number, full=True):
        self.disks[number].full = {self.paths[number]} if full else set()

    def state(self):
        """Leader, ISR and offline replicas, as all brokers know them; None while they disagree."""
        known = [one.metadata.snapshot.partition("t", 0) for one in self.brokers.values()]
        states = [(one.leader, sorted(one.isr), one.offline_replicas) for one in known if one is not None]
        return states[0] if len(states) == 3 and all(one == states[0] for one in states) else None

    async def until_state(self, leader, isr):
        await until(lambda: self.state() == (leader, isr, []), f"led by {leader} with {isr}")

    async def append(self, number):
        async with wire_client(self.brokers[number].bootstrap_servers) as client:
            return (await append(client, "t", batch(b"v"), 0, acks=-1)).error_code


@pytest.fixture
async def cluster(tmp_path):
    store = await EmbeddedStore.open()
    cluster = Cluster(tmp_path, store)
    async with contextlib.AsyncExitStack() as stack:
        for broker in cluster.brokers.values():
            await stack.enter_async_context(broker)
        async with wire_client(cluster.brokers[1].bootstrap_servers) as client:
            placed = CreatableReplicaAssignment(partition_index=0, broker_ids=[1, 2, 3])
            topic = CreatableTopic(name="t", num_partitions=-1, replication_factor=-1, assignments=[placed])
            answer = await client.call(CreateTopicsRequest(topics=[topic], timeout_ms=DEADLINE_MS))
            assert answer.topics[0].error_code == ErrorCode.NONE
        await cluster.until_state(1, [1, 2, 3])
        yield cluster
        for number in cluster.disks:
            cluster.set_full(number, full=False)
    await store.close()


async def test_an_in_sync_replica_leads_instead_of_one_with_a_full_disk(cluster):
    assert await cluster.append(1) == ErrorCode.NONE
    cluster.set_full(1)
    assert await cluster.append(1) == ErrorCode.KAFKA_STORAGE_ERROR
    await cluster.until_state(2, [2, 3])
    assert await cluster.append(2) == ErrorCode.NONE
    cluster.set_full(1, full=False)
    await cluster.until_state(2, [1, 2, 3])  # it has followed the new leader
    assert await cluster.append(2) == ErrorCode.NONE


async def test_the_next_replica_leads_if_the_disk_of_the_new_leader_is_full_too(cluster):
    cluster.set_full(1)
    cluster.set_full(2)
    assert await cluster.append(1) == ErrorCode.KAFKA_STORAGE_ERROR
    await cluster.until_state(3, [3])  # broker 2 could not write the leader epoch
    assert await cluster.append(3) == ErrorCode.NONE


class Asked:
    """What a broker asks of the controller, on a clock that the test sets."""

    def __init__(self):
        self.now_s, self.times, self.checks, self.can_hand_over = 0.0, 0, 0, True
        self.full = FullLogDirs(self._check, self._ask, lambda: self.now_s)

    def _check(self):
        self.checks += 1
        return self.can_hand_over

    def _ask(self):
        self.times += 1


def test_the_controller_is_asked_again_while_writes_are_refused():
    asked = Asked()
    for _ in range(3):
        asked.full.refused()
    assert (asked.times, asked.checks) == (1, 1)
    asked.now_s = REPEAT_S
    asked.full.refused()
    assert asked.times == 2


def test_partitions_are_not_looked_at_for_each_refused_write():
    asked = Asked()
    asked.can_hand_over = False
    asked.full.refused()
    asked.full.refused()
    asked.full.has_room()
    assert (asked.times, asked.checks) == (0, 1)
    asked.now_s, asked.can_hand_over = CHECK_S, True
    asked.full.refused()
    assert asked.times == 1


def test_the_controller_is_asked_once_more_when_there_is_room():
    asked = Asked()
    asked.full.refused()
    asked.full.has_room()
    assert asked.times == 2
    asked.full.has_room()
    assert asked.times == 2
    asked.full.refused()  # full again
    assert asked.times == 3
