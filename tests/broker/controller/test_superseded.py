"""The queue of a broker that does not answer, without what newer requests supersede: the broker ends up the same."""

from __future__ import annotations

import asyncio
import contextlib
import random

import pytest

from broker.cluster.metadata_cache import LEADER_DURING_DELETE, MetadataCache, partition_states
from broker.controller.channel import LONG_QUEUE, ControllerChannel
from broker.controller.superseded import QueuedRequest, without_superseded
from client.wire.backoff import Backoff
from client.wire.network import AsyncioNetwork
from client.wire.node_connection import ConnectionOptions
from protocol.api_keys import ApiKey
from protocol.host_port import HostPort
from protocol.messages.leader_and_isr import (
    LeaderAndIsrLiveLeader,
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
)
from protocol.messages.stop_replica import StopReplicaPartitionState, StopReplicaRequest, StopReplicaTopicState
from protocol.messages.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataResponse,
    UpdateMetadataTopicState,
)
from support.fake_broker import FakeBroker
from support.polling import until

FIRST_ID, SECOND_ID = b"1" * 16, b"2" * 16
LEADER = 7


def leader_and_isr(states, *, topic_id=FIRST_ID, new=(), leaders=(LEADER,)):
    """states: leader epoch by (topic, partition)."""
    topics = {}
    for (name, partition), epoch in states.items():
        topics.setdefault(name, LeaderAndIsrTopicState(topic_name=name, topic_id=topic_id)).partition_states.append(
            LeaderAndIsrPartitionState(
                topic_name=name, partition_index=partition, leader_epoch=epoch, is_new=(name, partition) in new
            )
        )
    live = [LeaderAndIsrLiveLeader(broker_id=one, host_name="h", port=1) for one in leaders]
    return QueuedRequest(LeaderAndIsrRequest(topic_states=list(topics.values()), live_leaders=live), 7, None)


def update_metadata(states, *, topic_id=FIRST_ID, deleting=False, version=0, brokers=(LEADER,)):
    """states: leader epoch by (topic, partition)."""
    topics = {}
    for (name, partition), epoch in states.items():
        topics.setdefault(name, UpdateMetadataTopicState(topic_name=name, topic_id=topic_id)).partition_states.append(
            UpdateMetadataPartitionState(
                topic_name=name,
                partition_index=partition,
                leader=LEADER_DURING_DELETE if deleting else LEADER,
                leader_epoch=epoch,
                zk_version=version,
            )
        )
    live = [UpdateMetadataBroker(id=one) for one in brokers]
    return QueuedRequest(UpdateMetadataRequest(topic_states=list(topics.values()), live_brokers=live), 8, None)


def stop_replica(*keys):
    topics = {}
    for name, partition in keys:
        topics.setdefault(name, StopReplicaTopicState(topic_name=name)).partition_states.append(
            StopReplicaPartitionState(partition_index=partition, delete_partition=True)
        )
    return QueuedRequest(StopReplicaRequest(topic_states=list(topics.values())), 4, None)


def told(queue):
    """(kind, leader epochs by partition) of every request."""
    found = []
    for item in queue:
        states = [] if isinstance(item.request, StopReplicaRequest) else partition_states(item.request)
        epochs = {(topic, state.partition_index): state.leader_epoch for topic, _, state in states}
        found.append((type(item.request).__name__.removesuffix("Request"), epochs))
    return found


# -- cases -----------------------------------------------------------------------------------------------------------


def test_the_states_of_the_newest_request_win():
    queue = [
        update_metadata({("t", 0): 1, ("t", 1): 1}, brokers=(1, 2)),
        update_metadata({("u", 0): 5}, brokers=(1,)),
        update_metadata({("t", 1): 2}, brokers=(1, 3)),
    ]
    kept = without_superseded(queue)
    assert told(kept) == [("UpdateMetadata", {("t", 0): 1, ("t", 1): 2, ("u", 0): 5})]
    assert [broker.id for broker in kept[0].request.live_brokers] == [1, 3]


def test_leader_and_isr_stays_ahead_of_the_metadata_that_advertise_it():
    queue = []
    for epoch in range(5):
        queue += [leader_and_isr({("t", 0): epoch}, leaders=(epoch,)), update_metadata({("t", 0): epoch})]
    kept = without_superseded(queue)
    assert told(kept) == [("LeaderAndIsr", {("t", 0): 4}), ("UpdateMetadata", {("t", 0): 4})]
    assert [leader.broker_id for leader in kept[0].request.live_leaders] == [0, 1, 2, 3, 4]


def test_a_replica_that_was_new_stays_new():
    queue = [leader_and_isr({("t", 0): 0, ("t", 1): 0}, new={("t", 0)}), leader_and_isr({("t", 0): 1, ("t", 1): 1})]
    (kept,) = without_superseded(queue)
    assert [state.is_new for _, _, state in partition_states(kept.request)] == [True, False]


def test_the_last_request_receives_the_answer():
    first, last = print, repr
    queue = [leader_and_isr({("t", 0): epoch})._replace(on_answer=heard) for epoch, heard in enumerate((first, last))]
    assert [item.on_answer for item in without_superseded(queue)] == [last]


def test_no_request_overtakes_a_stop_replica():
    queue = [
        leader_and_isr({("t", 0): 0}),
        update_metadata({("t", 0): 0}),
        stop_replica(("t", 0)),
        leader_and_isr({("t", 0): 1}),
        update_metadata({("t", 0): 1}),
        stop_replica(("t", 0)),
    ]
    assert told(without_superseded(list(queue))) == told(queue)


def test_a_recreated_topic_does_not_overtake_its_deletion():
    """Its brokers forget offsets and settings when they hear of the deletion."""
    queue = [
        update_metadata({("t", 0): 3}),
        update_metadata({("t", 0): 3}, deleting=True),
        leader_and_isr({("u", 0): 0}),
        leader_and_isr({("t", 0): 0}, topic_id=SECOND_ID),
        update_metadata({("t", 0): 0}, topic_id=SECOND_ID),
    ]
    kept = without_superseded(queue)
    assert told(kept) == [
        ("UpdateMetadata", {("t", 0): 3}),
        ("LeaderAndIsr", {("u", 0): 0, ("t", 0): 0}),
        ("UpdateMetadata", {("t", 0): 0}),
    ]
    assert kept[0].request.topic_states[0].partition_states[0].leader == LEADER_DURING_DELETE


def test_a_deletion_is_not_delivered_after_the_recreated_topic():
    queue = [
        update_metadata({("t", 0): 3}, deleting=True),
        leader_and_isr({("t", 0): 0}, topic_id=SECOND_ID),
        update_metadata({}, brokers=(1, 2)),
    ]
    assert told(without_superseded(list(queue))) == told(queue)


# -- against a broker ------------------------------------------------------------------------------------------------


class Controller:
    """A random history of a cluster, as requests to one broker."""

    def __init__(self, rng):
        self.rng = rng
        self.topics = {}
        """By name: topic id, whether our broker has replicas, leader epoch and version by partition."""
        self.ids = 0
        self.brokers = [LEADER]
        self.queue = []

    def step(self):
        action = self.rng.choice(
            [self.create, self.elect, self.elect, self.change_isr, self.meet, self.ask, self.delete]
        )
        action()
        return self.queue

    def tell(self, name, partitions, *, leaders, new=False, deleting=False):
        topic_id, is_here, states = self.topics[name]
        keys = {(name, partition): states[partition][0] for partition in partitions}
        if leaders and is_here:
            self.queue.append(leader_and_isr(keys, topic_id=topic_id, new=keys if new else ()))
        for partition in partitions:
            one = {(name, partition): states[partition][0]}
            self.queue.append(
                update_metadata(
                    one, topic_id=topic_id, deleting=deleting, version=states[partition][1], brokers=self.brokers
                )
            )

    def any_topic(self):
        return self.rng.choice(sorted(self.topics)) if self.topics else None

    def create(self):
        name = self.rng.choice("tuv")
        if name not in self.topics:
            self.ids += 1
            states = {partition: [0, 0] for partition in range(self.rng.randint(1, 3))}
            self.topics[name] = (bytes([self.ids]) * 16, self.rng.random() < 0.7, states)
            self.tell(name, states, leaders=True, new=True)

    def elect(self):
        if name := self.any_topic():
            states = self.topics[name][2]
            partitions = self.rng.sample(sorted(states), self.rng.randint(1, len(states)))
            for partition in partitions:
                states[partition][0] += 1
            self.tell(name, partitions, leaders=True)

    def change_isr(self):
        if name := self.any_topic():
            states = self.topics[name][2]
            partition = self.rng.choice(sorted(states))
            states[partition][1] += 1
            self.tell(name, [partition], leaders=False)

    def meet(self):
        self.brokers = [LEADER, *self.rng.sample(range(5), self.rng.randint(0, 5))]
        self.queue.append(update_metadata({}, brokers=self.brokers))

    def ask(self):
        """After a log directory has failed: everything once more."""
        for name, (topic_id, is_here, states) in self.topics.items():
            if is_here:
                keys = {(name, partition): epoch for partition, (epoch, _) in states.items()}
                self.queue.append(leader_and_isr(keys, topic_id=topic_id))

    def delete(self):
        if name := self.any_topic():
            _, is_here, states = self.topics[name]
            keys = {(name, partition): epoch for partition, (epoch, _) in states.items()}
            self.queue.append(update_metadata(keys, topic_id=self.topics[name][0], deleting=True, brokers=self.brokers))
            if is_here:
                self.queue.append(stop_replica(*keys))
            del self.topics[name]


class FollowingBroker:
    """What a broker makes of requests; it watches their order."""

    def __init__(self):
        self.metadata = MetadataCache()
        self.replicas = {}
        self.deleted = set()

    def carry_out(self, request):
        if isinstance(request, StopReplicaRequest):
            for topic in request.topic_states:
                for state in topic.partition_states:
                    self.replicas.pop((topic.topic_name, state.partition_index))
        elif isinstance(request, LeaderAndIsrRequest):
            for topic, topic_id, state in partition_states(request):
                known_id, epoch, was_new = self.replicas.get(
                    (topic, state.partition_index), (topic_id, -1, state.is_new)
                )
                assert known_id == topic_id, "the topic before was stopped"
                if state.leader_epoch > epoch:
                    self.replicas[topic, state.partition_index] = (topic_id, state.leader_epoch, was_new)
        else:
            self.update(request)

    def update(self, request):
        for topic, topic_id, state in partition_states(request):
            here = self.replicas.get((topic, state.partition_index))
            if state.leader == LEADER_DURING_DELETE:
                assert here is None or here[0] == topic_id, "the next topic of that name comes after the deletion"
                self.deleted.add((topic, state.partition_index))
            elif here is not None:
                assert here[:2] >= (topic_id, state.leader_epoch), "LeaderAndIsr comes before what advertises it"
        self.metadata.update(request)

    def believes(self):
        snapshot = self.metadata.snapshot
        topics = {
            name: (
                topic.topic_id,
                {number: (one.leader, one.leader_epoch, one.zk_version) for number, one in topic.partitions.items()},
            )
            for name, topic in snapshot.topics.items()
        }
        return topics, sorted(snapshot.brokers), self.replicas, self.deleted


def history(seed, length):
    rng = random.Random(seed)
    controller = Controller(rng)
    for _ in range(length):
        controller.step()
    return controller.queue


@pytest.mark.parametrize("length", [5, 20, 100])
def test_a_broker_reaches_the_same_state_without_superseded_requests(length):
    for seed in range(100):
        brokers = []
        for shorten in (list, without_superseded):
            broker = FollowingBroker()
            for item in shorten(history(seed, length)):
                broker.carry_out(item.request)
            brokers.append(broker)
        assert brokers[0].believes() == brokers[1].believes(), seed


def test_a_shortened_queue_can_be_shortened_again():
    for seed in range(100):
        broker, again = FollowingBroker(), FollowingBroker()
        for item in history(seed, 60):
            broker.carry_out(item.request)
        queue = []
        for item in history(seed, 60):
            queue = without_superseded([*queue, item])
        for item in queue:
            again.carry_out(item.request)
        assert broker.believes() == again.believes(), seed


# -- the channel -----------------------------------------------------------------------------------------------------


async def test_the_queue_to_a_hanging_broker_does_not_grow():
    going = asyncio.Event()

    async def answer(request, version):
        await going.wait()
        return UpdateMetadataResponse()

    async with FakeBroker() as broker:
        broker.script[ApiKey.UPDATE_METADATA] = [answer] * (LONG_QUEUE + 2)
        options = ConnectionOptions(AsyncioNetwork(), "controller-1", request_timeout_s=600)
        channel = ControllerChannel(0, HostPort("127.0.0.1", broker.port), options, Backoff())
        running = asyncio.create_task(channel.run())
        channel.send(*update_metadata({("t", 0): 0}))
        await until(lambda: broker.requests, "the broker has a request that it does not answer")
        last = 10 * LONG_QUEUE
        for epoch in range(1, last + 1):
            channel.send(*update_metadata({("t", epoch % 3): epoch}))
            assert len(channel._queue) <= LONG_QUEUE
        going.set()
        cache = MetadataCache()

        def is_up_to_date():
            for request in broker.seen(ApiKey.UPDATE_METADATA):
                cache.update(request)
            topic = cache.snapshot.topics["t"]
            return sorted(one.leader_epoch for one in topic.partitions.values()) == [last - 2, last - 1, last]

        await until(is_up_to_date, "the broker has heard the newest states")
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running
