"""What the controller says, as messages."""

import pytest

from broker.controller.context import ControllerContext, Leadership, LiveBroker
from broker.controller.requests import RequestBuilder
from protocol.messages.leader_and_isr import LeaderAndIsrRequest
from protocol.messages.stop_replica import StopReplicaRequest
from protocol.messages.update_metadata import UpdateMetadataRequest
from protocol.uuid import ZERO_UUID
from registry.znodes.brokers import BrokerZnode, Endpoint
from registry.znodes.topics import PartitionStateZnode, TopicZnode
from replication.inter_broker_protocol import InterBrokerProtocol

VERSIONS = InterBrokerProtocol("3.9")
ID = bytes(range(16))


@pytest.fixture
def context():
    context = ControllerContext()
    context.epoch = 5
    for broker in (1, 2):
        endpoints = (
            Endpoint("PLAINTEXT", "PLAINTEXT", f"host{broker}", 9092),
            Endpoint("INTERNAL", "PLAINTEXT", f"inner{broker}", 9093),
        )
        context.brokers[broker] = LiveBroker(
            broker, 100 + broker, BrokerZnode(endpoints=endpoints, timestamp_ms=0, rack="r")
        )
    context.take_topic("t", TopicZnode(partitions={0: [1, 2], 1: [2, 3], 2: [3, 1]}, topic_id=ID))
    for partition, leader, isr in ((0, 1, [1, 2]), (1, 2, [2]), (2, -1, [3])):
        state = PartitionStateZnode(leader=leader, leader_epoch=7, isr=isr, controller_epoch=4)
        context.leaderships["t", partition] = Leadership(state, 9)
    return context


def everything(context):
    return list(context.all_partitions())


def over_the_wire(request, version):
    data = b"".join(bytes(piece) for piece in request.encode(version))
    decoded, end = type(request).decode(data, version)
    assert end == len(data)
    return decoded


def test_leader_and_isr(context):
    builder = RequestBuilder(1, context, "INTERNAL")
    request = over_the_wire(
        builder.leader_and_isr(1, everything(context), new={("t", 2)}), VERSIONS.leader_and_isr_version
    )
    assert isinstance(request, LeaderAndIsrRequest)
    assert (request.controller_id, request.controller_epoch, request.broker_epoch, request.type) == (1, 5, 101, 0)
    [topic] = request.topic_states
    assert (topic.topic_name, topic.topic_id) == ("t", ID)
    assert [
        (one.partition_index, one.leader, one.leader_epoch, one.isr, one.partition_epoch, one.replicas, one.is_new)
        for one in topic.partition_states
    ] == [(0, 1, 7, [1, 2], 9, [1, 2], False), (2, -1, 7, [3], 9, [3, 1], True)]
    assert [(one.broker_id, one.host_name, one.port) for one in request.live_leaders] == [(1, "inner1", 9093)]


@pytest.mark.parametrize("release", ["0.10.0", "2.2", "2.4", "2.6", "2.7", "2.8", "3.0", "3.2", "3.4", "3.9"])
def test_every_version_for_brokers_of_older_clusters(context, release):
    versions = InterBrokerProtocol(release)
    builder = RequestBuilder(1, context, "INTERNAL")
    leads = over_the_wire(builder.leader_and_isr(1, everything(context), new=()), versions.leader_and_isr_version)
    assert [one.partition_index for topic in leads.topic_states for one in topic.partition_states] == [0, 2]
    known = over_the_wire(builder.update_metadata(1, everything(context)), versions.update_metadata_version)
    assert [one.leader for topic in known.topic_states for one in topic.partition_states] == [1, 2, -1]
    stopped = over_the_wire(builder.stop_replicas(1, [("t", 0)], delete=False), versions.stop_replica_version)
    assert [one.partition_index for topic in stopped.topic_states for one in topic.partition_states] == [0]


def test_an_added_replica_is_new_only_for_its_broker_and_a_stopped_replica_is_sent_nothing(context):
    znode = context.topics["t"]
    context.take_topic("t", znode.replace(partitions={0: [1, 2]}, adding_replicas={0: [2]}))
    builder = RequestBuilder(1, context, "INTERNAL")
    told = {id_: builder.leader_and_isr(id_, [("t", 0)], new=()).topic_states[0].partition_states[0] for id_ in (1, 2)}
    assert {id_: state.is_new for id_, state in told.items()} == {1: False, 2: True}
    assert told[1].adding_replicas == [2]
    context.stopped[2] = {("t", 0)}
    assert builder.leader_and_isr(2, [("t", 0)], new=()).topic_states == []


def test_a_topic_that_is_being_deleted_has_no_leader(context):
    context.deleting.add("t")
    request = RequestBuilder(1, context, "INTERNAL").leader_and_isr(1, everything(context), new=set())
    assert request.topic_states == []


def test_partitions_without_a_state_are_left_out(context):
    del context.leaderships["t", 0]
    builder = RequestBuilder(1, context, "INTERNAL")
    [topic] = builder.leader_and_isr(1, everything(context), new=set()).topic_states
    assert [one.partition_index for one in topic.partition_states] == [2]
    [topic] = builder.update_metadata(1, everything(context)).topic_states
    assert [one.partition_index for one in topic.partition_states] == [1, 2]


def test_update_metadata(context):
    request = over_the_wire(
        RequestBuilder(1, context, "INTERNAL").update_metadata(2, everything(context)),
        VERSIONS.update_metadata_version,
    )
    assert isinstance(request, UpdateMetadataRequest)
    assert (request.controller_id, request.controller_epoch, request.broker_epoch) == (1, 5, 102)
    [topic] = request.topic_states
    assert [(one.partition_index, one.leader, one.offline_replicas) for one in topic.partition_states] == [
        (0, 1, []),
        (1, 2, [3]),
        (2, -1, [3]),
    ]
    assert [
        (broker.id, broker.rack, [(one.listener, one.host, one.port) for one in broker.endpoints])
        for broker in request.live_brokers
    ] == [
        (1, "r", [("PLAINTEXT", "host1", 9092), ("INTERNAL", "inner1", 9093)]),
        (2, "r", [("PLAINTEXT", "host2", 9092), ("INTERNAL", "inner2", 9093)]),
    ]


def test_a_topic_that_is_being_deleted_is_hidden(context):
    context.deleting.add("t")
    request = RequestBuilder(1, context, "INTERNAL").update_metadata(2, everything(context))
    assert {one.leader for one in request.topic_states[0].partition_states} == {-2}


def test_stop_replica(context):
    builder = RequestBuilder(1, context, "INTERNAL")
    epochs = [context.leaderships[("t", partition)].state.leader_epoch for partition in (0, 2)]
    for delete, expected in ((False, epochs), (True, epochs), (True, [-2, -2])):
        if expected != epochs:
            context.deleting.add("t")  # no epoch holds against that
        request = over_the_wire(
            builder.stop_replicas(1, [("t", 0), ("t", 2)], delete=delete), VERSIONS.stop_replica_version
        )
        assert isinstance(request, StopReplicaRequest)
        [topic] = request.topic_states
        assert [(one.partition_index, one.leader_epoch, one.delete_partition) for one in topic.partition_states] == [
            (0, expected[0], delete),
            (2, expected[1], delete),
        ]


def test_a_broker_without_the_inter_broker_listener_has_no_address(context):
    assert RequestBuilder(1, context, "OTHER").address(1) is None
    assert RequestBuilder(1, context, "INTERNAL").address(9) is None


# -- the context itself ----------------------------------------------------------------------------------------------


def test_removed_partitions_of_a_topic_are_forgotten(context):
    context.unreadable.add(("t", 2))
    context.take_topic("t", TopicZnode(partitions={0: [1, 2]}, topic_id=ID))
    assert list(context.leaderships) == [("t", 0)]
    assert context.unreadable == set()


def test_a_topic_with_another_id_is_another_topic(context):
    context.take_topic("t", TopicZnode(partitions={0: [1, 2]}, topic_id=bytes(15) + b"\1"))
    assert context.leaderships == {}
    assert context.without_state() == [("t", 0)]


def test_a_topic_that_receives_its_id_later_is_the_same_topic(context):
    context.topics["t"] = context.topics["t"].replace(topic_id=None)
    context.take_topic("t", TopicZnode(partitions={0: [1, 2], 1: [2, 3], 2: [3, 1]}, topic_id=ID))
    assert len(context.leaderships) == 3


def test_partitions_that_need_a_leader(context):
    assert context.with_losses() == [("t", 2)]
    del context.brokers[1]
    assert context.with_losses() == [("t", 0), ("t", 2)]
    context.unreadable.add(("t", 0))
    assert context.with_losses() == [("t", 2)]
    context.deleting.add("t")
    assert context.with_losses() == []
    context.forget("t")
    assert everything(context) == []
    assert context.leaderships == {}


def test_a_topic_without_an_id(context):
    context.take_topic("old", TopicZnode(partitions={0: [1]}))
    assert [context.topic_id(topic) for topic in ("t", "old", "unknown")] == [ID, ZERO_UUID, ZERO_UUID]


def test_nothing_is_remembered_of_a_deleted_topic(context):
    context.take_topic("u", TopicZnode(partitions={0: [1]}))
    context.stopped[1] = {("t", 0), ("u", 0)}
    context.offline_dirs[2] = {("t", 1), ("u", 0)}
    context.unreadable = {("t", 2), ("u", 0)}
    context.forget("t")
    assert (context.stopped[1], context.offline_dirs[2], context.unreadable) == ({("u", 0)}, {("u", 0)}, {("u", 0)})
    assert context.leaderships == {}
