"""LeaderAndIsr, StopReplica, UpdateMetadata over the wire: epochs of controller, broker and leader, in all versions."""

from __future__ import annotations

import asyncio

import pytest

from protocol.error_codes import ErrorCode
from protocol.messages.leader_and_isr import (
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
)
from protocol.messages.metadata import MetadataRequest
from protocol.messages.stop_replica import (
    StopReplicaPartitionState,
    StopReplicaPartitionV0,
    StopReplicaRequest,
    StopReplicaTopicState,
    StopReplicaTopicV1,
)
from protocol.messages.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)
from support.broker import running_broker
from support.polling import until
from support.wire import append, batch, create_topic, wire_client

EPOCH = 50
STALE_CONTROLLER, STALE_BROKER = ErrorCode.STALE_CONTROLLER_EPOCH, ErrorCode.STALE_BROKER_EPOCH


@pytest.fixture
async def broker(tmp_path):
    async with running_broker(tmp_path / "data", auto_create_topics_enable="false") as running:
        yield running


@pytest.fixture
async def client(broker):
    async with wire_client(broker.bootstrap_servers) as opened:
        yield opened


def leader_and_isr(version, topic, topic_id, leader_epoch, controller_epoch=EPOCH, leader=0, **fields):
    state = LeaderAndIsrPartitionState(
        partition_index=0,
        controller_epoch=controller_epoch,
        leader=leader,
        leader_epoch=leader_epoch,
        isr=[leader],
        replicas=[0, 7],
        partition_epoch=1,
    )
    states = {}
    if version <= 1:
        state.topic_name = topic
        states["ungrouped_partition_states"] = [state]
    else:
        grouped = LeaderAndIsrTopicState(topic_name=topic, partition_states=[state])
        if version >= 5:
            grouped.topic_id = topic_id
        states["topic_states"] = [grouped]
    return LeaderAndIsrRequest(controller_id=0, controller_epoch=controller_epoch, **states, **fields)


def codes(answer):
    by_topic = [one.error_code for topic in answer.topics for one in topic.partition_errors]
    return answer.error_code, [one.error_code for one in answer.partition_errors] + by_topic


@pytest.mark.parametrize("version", range(8))
async def test_leader_and_isr(broker, client, version):
    topic_id = await create_topic(client, "t")
    own_epoch = broker.services.broker_epoch
    assert own_epoch > 0
    old = leader_and_isr(version, "t", topic_id, 5, controller_epoch=0)
    assert codes(await client.call(old, version)) == (STALE_CONTROLLER, [STALE_CONTROLLER])
    if version >= 2:
        old = leader_and_isr(version, "t", topic_id, 5, broker_epoch=own_epoch - 1)
        assert codes(await client.call(old, version)) == (STALE_BROKER, [STALE_BROKER])
        fresh = leader_and_isr(version, "t", topic_id, 5, broker_epoch=own_epoch)
    else:
        fresh = leader_and_isr(version, "t", topic_id, 5)
    assert broker.services.replicas.partitions["t", 0].leader_epoch == 0
    assert codes(await client.call(fresh, version)) == (0, [0])
    assert broker.services.replicas.partitions["t", 0].leader_epoch == 5
    for leader_epoch in (4, 5):
        stale = leader_and_isr(version, "t", topic_id, leader_epoch)
        assert codes(await client.call(stale, version)) == (0, [STALE_CONTROLLER])
    if version >= 5:
        other = leader_and_isr(version, "t", b"x" * 16, 6)
        assert codes(await client.call(other, version)) == (0, [ErrorCode.INCONSISTENT_TOPIC_ID])
    assert (await append(client, "t", batch(b"v"), acks=1)).error_code == 0
    away = leader_and_isr(version, "t", topic_id, 7, leader=7)
    assert codes(await client.call(away, version)) == (0, [0])
    assert (await append(client, "t", batch(b"v"))).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    replaced = leader_and_isr(version, "t", topic_id, 9, controller_epoch=EPOCH - 1)
    assert codes(await client.call(replaced, version)) == (STALE_CONTROLLER, [STALE_CONTROLLER])


def stop_replica(version, topic, delete, leader_epoch=-1, controller_epoch=EPOCH, **fields):
    if version == 0:
        states = {"ungrouped_partitions": [StopReplicaPartitionV0(topic_name=topic, partition_index=0)]}
    elif version <= 2:
        states = {"topics": [StopReplicaTopicV1(name=topic, partition_indexes=[0])]}
    else:
        one = StopReplicaPartitionState(partition_index=0, leader_epoch=leader_epoch, delete_partition=delete)
        states = {"topic_states": [StopReplicaTopicState(topic_name=topic, partition_states=[one])]}
    if version <= 2:
        states["delete_partitions"] = delete
    return StopReplicaRequest(controller_id=0, controller_epoch=controller_epoch, **states, **fields)


@pytest.mark.parametrize("version", range(5))
async def test_stop_replica(broker, client, version):
    await create_topic(client, "t")
    await append(client, "t", batch(b"v"))
    directory = broker.services.logs.get("t", 0).directory

    async def sent(request):
        answer = await client.call(request, version)
        return answer.error_code, [(one.topic_name, one.error_code) for one in answer.partition_errors]

    assert await sent(stop_replica(version, "t", True, controller_epoch=0)) == (STALE_CONTROLLER, [])
    if version >= 1:
        own_epoch = broker.services.broker_epoch
        assert await sent(stop_replica(version, "t", True, broker_epoch=own_epoch - 1)) == (STALE_BROKER, [])
    if version >= 3:
        broker.services.replicas.partitions["t", 0].leader_epoch = 4
        fenced = ErrorCode.FENCED_LEADER_EPOCH
        assert await sent(stop_replica(version, "t", True, leader_epoch=3)) == (0, [("t", fenced)])
        broker.services.replicas.partitions["t", 0].leader_epoch = 0
    assert (await append(client, "t", batch(b"v"))).base_offset == 1
    assert await sent(stop_replica(version, "t", False, leader_epoch=0)) == (0, [("t", 0)])
    assert (await append(client, "t", batch(b"v"))).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert directory.exists()
    assert await sent(stop_replica(version, "t", True, leader_epoch=-2)) == (0, [("t", 0)])
    assert not directory.exists()
    assert await sent(stop_replica(version, "nothing", True)) == (0, [("nothing", 0)])


def update_metadata(version, topic, topic_id, leader=0, controller_epoch=EPOCH, live=(0,), **fields):
    state = UpdateMetadataPartitionState(
        partition_index=0,
        controller_epoch=controller_epoch,
        leader=leader,
        leader_epoch=3,
        isr=[0],
        replicas=[0],
        zk_version=1,
        offline_replicas=[],
    )
    if version <= 4:
        state.topic_name = topic
        states = {"ungrouped_partition_states": [state]}
    else:
        grouped = UpdateMetadataTopicState(topic_name=topic, partition_states=[state])
        if version >= 7:
            grouped.topic_id = topic_id
        states = {"topic_states": [grouped]}
    if version == 0:
        alive = [UpdateMetadataBroker(id=one, v0_host="h", v0_port=5) for one in live]
    else:
        listener = "PLAINTEXT" if version >= 3 else ""
        endpoints = [UpdateMetadataEndpoint(host="h", port=5, listener=listener, security_protocol=0)]
        alive = [UpdateMetadataBroker(id=one, rack="r", endpoints=endpoints) for one in live]
    return UpdateMetadataRequest(
        controller_id=0, controller_epoch=controller_epoch, live_brokers=alive, **states, **fields
    )


async def test_requests_on_a_connection_that_the_controller_has_replaced(broker, client):
    """They were on their way while newer ones arrived: the broker would go back to an older state."""
    topic_id = await create_topic(client, "t")
    async with wire_client(broker.bootstrap_servers) as newer:
        assert (await newer.call(update_metadata(8, "t", topic_id), 8)).error_code == 0
    late = update_metadata(8, "t", topic_id, leader=-2)
    assert (await client.call(late, 8)).error_code == STALE_CONTROLLER
    late = leader_and_isr(7, "t", topic_id, leader_epoch=9)
    assert (await client.call(late, 7)).error_code == STALE_CONTROLLER
    late = stop_replica(4, "t", True, leader_epoch=-2)
    assert (await client.call(late, 4)).error_code == STALE_CONTROLLER
    assert broker.metadata.snapshot.topics["t"].partitions[0].leader_epoch == 3
    assert broker.services.replicas.partition("t", 0).leader_epoch == 0
    assert (await client.call(update_metadata(8, "t", topic_id, controller_epoch=EPOCH + 1), 8)).error_code == 0


@pytest.mark.parametrize("version", range(9))
async def test_update_metadata(broker, client, version):
    topic_id = await create_topic(client, "t")
    old = update_metadata(version, "t", topic_id, controller_epoch=0)
    assert (await client.call(old, version)).error_code == STALE_CONTROLLER
    if version >= 5:
        old = update_metadata(version, "t", topic_id, broker_epoch=broker.services.broker_epoch - 1)
        assert (await client.call(old, version)).error_code == STALE_BROKER
    assert broker.metadata.snapshot.topics["t"].partitions[0].leader_epoch == 0
    assert (await client.call(update_metadata(version, "t", topic_id), version)).error_code == 0
    answer = await client.call(MetadataRequest(topics=None))
    assert [(node.node_id, node.host, node.port) for node in answer.brokers] == [(0, "h", 5)]
    assert answer.brokers[0].rack == ("r" if version >= 2 else "")
    (topic,) = answer.topics
    # Versions that carry no topic ids leave those that are known.
    assert (topic.name, topic.topic_id, topic.partitions[0].leader_epoch) == ("t", topic_id, 3)
    new = await client.call(update_metadata(version, "new", b"n" * 16), version)
    assert new.error_code == 0
    names = {topic.name: topic.topic_id for topic in (await client.call(MetadataRequest(topics=None))).topics}
    assert names == {"t": topic_id, "new": b"n" * 16 if version >= 7 else bytes(16)}
    assert (await client.call(update_metadata(version, "new", b"n" * 16, leader=-2), version)).error_code == 0
    names = {topic.name for topic in (await client.call(MetadataRequest(topics=None))).topics}
    assert names == {"t"}
    assert b"n" * 16 not in broker.metadata.snapshot.topic_names


@pytest.mark.parametrize("name", ["x/y", "../y", "", "a b", "n" * 250])
async def test_invalid_topic_names_are_refused(broker, client, name):
    """`x/y` would make the directory `x/y-0`, whose log takes itself for that of `y`."""
    topic_id = await create_topic(client, "y")
    invalid = [ErrorCode.INVALID_TOPIC_EXCEPTION]
    logs = dict(broker.services.logs.logs)
    for version in (1, 7):
        both = leader_and_isr(version, "y", topic_id, 5 + version)
        both.topic_states += (other := leader_and_isr(version, name, b"x" * 16, 5)).topic_states
        both.ungrouped_partition_states += other.ungrouped_partition_states
        error, each = codes(await client.call(both, version))
        assert (error, each) == (0, [0, *invalid])
    for version in (0, 4):
        answer = await client.call(stop_replica(version, name, True), version)
        assert [one.error_code for one in answer.partition_errors] == invalid
    for version in (0, 8):
        both = update_metadata(version, "y", topic_id)
        both.topic_states += (other := update_metadata(version, name, b"x" * 16)).topic_states
        both.ungrouped_partition_states += other.ungrouped_partition_states
        assert (await client.call(both, version)).error_code == 0
    assert broker.metadata.snapshot.topics.keys() == {"y"}
    assert broker.services.logs.logs == logs
    with pytest.raises(ValueError, match="not a valid partition directory name"):
        broker.services.logs.get_or_create("x/y", 0)


async def test_a_record_does_not_wait_for_a_replica_outside_the_isr_whose_broker_dies(broker, client):
    topic_id = await create_topic(client, "t")
    both = update_metadata(8, "t", topic_id, live=(0, 7))
    assert (await client.call(both, 8)).error_code == 0
    assert codes(await client.call(leader_and_isr(7, "t", topic_id, 5), 7)) == (0, [0])
    partition = broker.services.replicas.partitions["t", 0]
    partition.sync.fetched(7, 0, 0, 0, 1)  # at the end, and not asking to join
    async with wire_client(broker.bootstrap_servers) as producer:
        appending = asyncio.create_task(append(producer, "t", batch(b"v")))
        await until(lambda: partition.log.log_end_offset == 1, "the leader has the record")
        assert partition.log.high_watermark == 0
        assert (await client.call(update_metadata(8, "t", topic_id), 8)).error_code == 0
        assert partition.log.high_watermark == 1
        assert (await appending).error_code == 0
