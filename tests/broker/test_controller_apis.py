"""The APIs that the controller answers, over sockets: AlterPartition, ControlledShutdown, moves, elections, features.

Two brokers on one registry; what they decide has its tests in controller/.
"""

import asyncio
import contextlib

import pytest

from broker.broker import Broker
from broker.settings.config import BrokerConfig
from protocol.error_codes import ErrorCode
from protocol.messages.alter_partition import AlterPartitionRequest, BrokerState, PartitionData, TopicData
from protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from protocol.messages.controlled_shutdown import ControlledShutdownRequest
from protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from protocol.messages.create_topics import CreatableReplicaAssignment, CreatableTopic, CreateTopicsRequest
from protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from registry.embedded.store import EmbeddedStore
from registry.znodes.topics import PartitionStateZnode
from support.broker import settings
from support.deadlines import DEADLINE_MS
from support.polling import until
from support.wire import wire_client


class Pair:
    """Brokers 1, the controller, and 2; t-0 on [1, 2], t-1 on [2, 1]."""

    def __init__(self, brokers, store, client, other):
        self.brokers = brokers
        self.store = store
        self.client = client
        self.other = other

    @property
    def epochs(self):
        return {id_: broker.services.broker_epoch for id_, broker in self.brokers.items()}

    @property
    def topic_id(self):
        return self.brokers[1].metadata.snapshot.topics["t"].topic_id

    def state(self, partition=0):
        path = PartitionStateZnode.path("t", partition)
        return PartitionStateZnode.decode(self.store.tree.get(path).data, path)


@pytest.fixture
async def pair(tmp_path):
    async with contextlib.AsyncExitStack() as stack:
        store = await EmbeddedStore.open()
        stack.push_async_callback(store.close)
        brokers = {}
        for id_ in (1, 2):
            more = {"auto_leader_rebalance_enable": "false", "broker_id": str(id_)}
            config = BrokerConfig.load(None, settings(tmp_path / str(id_), **more))
            brokers[id_] = await stack.enter_async_context(Broker(config, store=store))
        await until(lambda: len(brokers[1].metadata.snapshot.brokers) == 2, "both are there")
        client = await stack.enter_async_context(wire_client(brokers[1].bootstrap_servers))
        other = await stack.enter_async_context(wire_client(brokers[2].bootstrap_servers))
        assignments = [CreatableReplicaAssignment(partition_index=0, broker_ids=[1, 2])]
        assignments.append(CreatableReplicaAssignment(partition_index=1, broker_ids=[2, 1]))
        topic = CreatableTopic(name="t", num_partitions=-1, replication_factor=-1, assignments=assignments)
        answer = await client.call(CreateTopicsRequest(topics=[topic], timeout_ms=DEADLINE_MS))
        assert answer.topics[0].error_code == 0
        yield Pair(brokers, store, client, other)


def proposal(pair, version, isr, **more):
    state = pair.state()
    one = PartitionData(partition_index=0, leader_epoch=state.leader_epoch, partition_epoch=0)
    if version >= 3:
        one.new_isr_with_epochs = [BrokerState(broker_id=id_, broker_epoch=pair.epochs.get(id_, -1)) for id_ in isr]
    else:
        one.new_isr = isr
    topic = TopicData(partitions=[one])
    topic.topic_name, topic.topic_id = ("t", bytes(16)) if version < 2 else ("", pair.topic_id)
    return AlterPartitionRequest(**{"broker_id": 1, "broker_epoch": pair.epochs[1], "topics": [topic], **more})


@pytest.mark.parametrize("version", range(4))
async def test_alter_partition(pair, version):
    request = proposal(pair, version, [1, 2])
    answer = await pair.client.call(request, version)
    [topic] = answer.topics
    [one] = topic.partitions
    assert (topic.topic_name, topic.topic_id) == (("t", bytes(16)) if version < 2 else ("", pair.topic_id))
    assert (one.partition_index, one.error_code, one.leader_id, one.leader_epoch, one.isr, one.partition_epoch) == (
        (0, 0, 1, 0, [1, 2], 0)
    )
    ineligible = await pair.client.call(proposal(pair, version, [1, 2, 9]), version)
    assert ineligible.topics[0].partitions[0].error_code == ErrorCode.INVALID_REQUEST
    assert (await pair.other.call(request, version)).error_code == ErrorCode.NOT_CONTROLLER
    stale = proposal(pair, version, [1], broker_epoch=pair.epochs[1] - 1)
    assert (await pair.client.call(stale, version)).error_code == ErrorCode.STALE_BROKER_EPOCH
    request.topics[0].topic_name, request.topics[0].topic_id = "u", b"u" * 16
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if version < 2 else ErrorCode.UNKNOWN_TOPIC_ID
    if version < 2:
        request.topics[0].topic_id = bytes(16)
    else:
        request.topics[0].topic_name = ""
    assert (await pair.client.call(request, version)).topics[0].partitions[0].error_code == unknown


async def test_alter_partition_is_answered_once_if_the_controller_decides_twice(pair, monkeypatch):
    """It decides again when the connection to the registry was lost before the decision was stored."""
    controller = pair.brokers[1].services.controller
    decide = controller.alter_partitions

    async def decide_twice(broker_id, broker_epoch, proposals):
        proposals()
        return await decide(broker_id, broker_epoch, proposals)

    monkeypatch.setattr(controller, "alter_partitions", decide_twice)
    [topic] = (await pair.client.call(proposal(pair, 3, [1, 2]), 3)).topics
    assert [one.isr for one in topic.partitions] == [[1, 2]]


@pytest.mark.parametrize("version", range(4))
async def test_controlled_shutdown(pair, version):
    request = ControlledShutdownRequest(broker_id=2)
    if version >= 2:
        request.broker_epoch = pair.epochs[2]
    assert (await pair.other.call(request, version)).error_code == ErrorCode.STALE_CONTROLLER_EPOCH
    answer = await pair.client.call(request, version)
    assert (answer.error_code, answer.remaining_partitions) == (0, [])
    assert [(pair.state(one).leader, pair.state(one).isr) for one in (0, 1)] == [(1, [1]), (1, [1])]
    last = await pair.client.call(ControlledShutdownRequest(broker_id=1), version)
    remaining = {(one.topic_name, one.partition_index) for one in last.remaining_partitions}
    assert remaining == {("t", 0), ("t", 1)}
    nobody = await pair.client.call(ControlledShutdownRequest(broker_id=9), version)
    assert nobody.error_code == ErrorCode.BROKER_NOT_AVAILABLE


def to(partition, replicas):
    return ReassignablePartition(partition_index=partition, replicas=replicas)


async def test_moves(pair):
    topics = [ReassignableTopic(name="t", partitions=[to(0, [2]), to(1, None), to(7, [1]), to(1, [9])])]
    request = AlterPartitionReassignmentsRequest(topics=topics)
    assert (await pair.other.call(request, 0)).error_code == ErrorCode.NOT_CONTROLLER
    assert (await pair.other.call(ListPartitionReassignmentsRequest(), 0)).error_code == ErrorCode.NOT_CONTROLLER
    [topic] = (await pair.client.call(request, 0)).responses
    codes = [(one.partition_index, ErrorCode(one.error_code).name) for one in topic.partitions]
    assert codes == [
        (0, "NONE"),
        (1, "NO_REASSIGNMENT_IN_PROGRESS"),
        (7, "UNKNOWN_TOPIC_OR_PARTITION"),
        (1, "INVALID_REPLICA_ASSIGNMENT"),
    ]
    assert "not alive" in topic.partitions[3].error_message
    assert (await pair.client.call(ListPartitionReassignmentsRequest(), 0)).topics == []  # 2 was in sync
    await until(lambda: (pair.state().leader, pair.state().isr) == (2, [2]), "it has moved")


async def test_a_reassignment_is_listed_until_it_is_complete(pair):
    await pair.client.call(ControlledShutdownRequest(broker_id=2), 3)  # so it cannot get into the ISR again
    topics = [ReassignableTopic(name="t", partitions=[to(0, [2])])]
    [topic] = (await pair.client.call(AlterPartitionReassignmentsRequest(topics=topics), 0)).responses
    assert topic.partitions[0].error_code == 0
    for wanted in (None, [0], [0, 1]):
        request = ListPartitionReassignmentsRequest()
        if wanted is not None:
            request.topics = [ListPartitionReassignmentsTopics(name="t", partition_indexes=wanted)]
        [listed] = (await pair.client.call(request, 0)).topics
        [one] = listed.partitions
        assert (one.partition_index, one.replicas, one.adding_replicas, one.removing_replicas) == (0, [2, 1], [], [1])
    others = [ListPartitionReassignmentsTopics(name="t", partition_indexes=[1])]
    assert (await pair.client.call(ListPartitionReassignmentsRequest(topics=others), 0)).topics == []


async def test_partitions_cannot_be_added_during_a_reassignment(pair):
    await pair.client.call(ControlledShutdownRequest(broker_id=2), 3)
    moves = [ReassignableTopic(name="t", partitions=[to(0, [2])])]
    await pair.client.call(AlterPartitionReassignmentsRequest(topics=moves), 0)
    request = CreatePartitionsRequest(
        topics=[CreatePartitionsTopic(name="t", count=3, assignments=None)], timeout_ms=DEADLINE_MS
    )
    [result] = (await pair.client.call(request, 3)).results
    assert result.error_code == ErrorCode.REASSIGNMENT_IN_PROGRESS
    assert len(pair.brokers[1].metadata.snapshot.topics["t"].partitions) == 2


async def test_topics_are_looked_up_after_earlier_controller_events(pair):
    """A controller that has just been elected is asked before it has read the tree."""
    await pair.client.call(ControlledShutdownRequest(broker_id=2), 3)
    topics = [ReassignableTopic(name="t", partitions=[to(0, [2])])]
    await pair.client.call(AlterPartitionReassignmentsRequest(topics=topics), 0)
    controller, is_read = pair.brokers[1].controller, asyncio.Event()
    read, controller.context.topics = controller.context.topics, {}
    async with wire_client(pair.brokers[1].bootstrap_servers) as another, asyncio.TaskGroup() as tasks:
        tasks.create_task(controller.decide("taking office", is_read.wait))
        proposed = tasks.create_task(pair.client.call(proposal(pair, 3, [1]), 3))
        listed = tasks.create_task(another.call(ListPartitionReassignmentsRequest(), 0))
        await until(lambda: len(controller._queue._questions) == 3, "both wait for their turn")
        controller.context.topics = read
        is_read.set()
    assert [topic.name for topic in listed.result().topics] == ["t"]
    assert proposed.result().topics[0].partitions[0].error_code != ErrorCode.UNKNOWN_TOPIC_ID


def results(answer):
    return {
        (topic.topic, one.partition_id): ErrorCode(one.error_code).name
        for topic in answer.replica_election_results
        for one in topic.partition_result
    }


@pytest.mark.parametrize("version", range(3))
async def test_elections(pair, version):
    controller = pair.brokers[1].controller
    leadership = controller.context.leaderships[("t", 1)]

    async def astray():
        await controller._states.set({("t", 1): leadership.state.replace(leader=1, leader_epoch=1)})

    await controller.decide("test", astray)
    named = ElectLeadersRequest(
        topic_partitions=[TopicPartitions(topic="t", partitions=[0, 1, 9])], timeout_ms=DEADLINE_MS
    )
    refused = await pair.other.call(named, version)
    assert set(results(refused).values()) == {"NOT_CONTROLLER"}
    answer = await pair.client.call(named, version)
    assert results(answer) == {
        ("t", 0): "ELECTION_NOT_NEEDED",
        ("t", 1): "NONE",
        ("t", 9): "UNKNOWN_TOPIC_OR_PARTITION",
    }
    assert pair.brokers[1].metadata.snapshot.partition("t", 1).leader == 2
    everything = ElectLeadersRequest(topic_partitions=None, timeout_ms=DEADLINE_MS)
    assert results(await pair.client.call(everything, version)) == {}
    if version >= 1:
        named.election_type = 7
        assert (await pair.client.call(named, version)).error_code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("version", range(2))
async def test_features(pair, version):
    request = UpdateFeaturesRequest(feature_updates=[FeatureUpdateKey(feature="f", max_version_level=1)])
    assert (await pair.other.call(request, version)).error_code == ErrorCode.NOT_CONTROLLER
    answer = await pair.client.call(request, version)
    assert answer.error_code == 0
    [result] = answer.results
    assert (result.feature, result.error_code) == ("f", ErrorCode.INVALID_REQUEST)
    assert "not supported" in result.error_message
