"""Several brokers on one registry in this process: the one path, without replication."""

from __future__ import annotations

import contextlib

import pytest

from broker.broker import Broker
from broker.settings.config import BrokerConfig
from protocol.error_codes import ErrorCode
from protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from protocol.messages.metadata import MetadataRequest
from registry.embedded.store import EmbeddedStore
from registry.znodes.topics import TopicZnode
from support.broker import settings
from support.deadlines import DEADLINE_MS
from support.polling import until
from support.wire import append, batch, fetch, wire_client

PARTITIONS = 7


@pytest.fixture
async def store():
    store = await EmbeddedStore.open()
    yield store
    await store.close()


def broker(tmp_path, store, broker_id):
    config = BrokerConfig.load(
        None, settings(tmp_path / str(broker_id), broker_id=str(broker_id), auto_create_topics_enable="false")
    )
    return Broker(config, store=store)


def leaders(broker, topic="t"):
    """(leader, leader epoch) by partition, as one broker knows them."""
    known = broker.metadata.snapshot.topics.get(topic)
    if known is None:
        return {}
    return {number: (state.leader, state.leader_epoch) for number, state in known.partitions.items()}


def view(broker):
    snapshot = broker.metadata.snapshot
    topics = {name: (topic.topic_id, leaders(broker, name)) for name, topic in snapshot.topics.items()}
    return snapshot.controller_id, sorted(snapshot.brokers), topics


async def create(broker, topic="t", partitions=PARTITIONS):
    async with wire_client(broker.bootstrap_servers) as client:
        wanted = CreatableTopic(name=topic, num_partitions=partitions, replication_factor=1)
        answer = await client.call(CreateTopicsRequest(topics=[wanted], timeout_ms=DEADLINE_MS))
    assert answer.topics[0].error_code == 0
    return answer.topics[0].topic_id


async def test_three_brokers_share_the_partitions_and_agree(tmp_path, store):
    async with contextlib.AsyncExitStack() as stack:
        brokers = {n: await stack.enter_async_context(broker(tmp_path, store, n)) for n in (1, 2, 3)}
        await until(lambda: all(len(one.metadata.snapshot.brokers) == 3 for one in brokers.values()), "all are known")
        await create(brokers[1])
        await until(lambda: all(len(leaders(one)) == PARTITIONS for one in brokers.values()), "all know the topic")
        assert view(brokers[1]) == view(brokers[2]) == view(brokers[3])
        assert view(brokers[1])[0] == 1
        shares = [leader for leader, _ in leaders(brokers[1]).values()]
        assert sorted(map(shares.count, brokers)) == [2, 2, 3]
        for partition, (leader, _) in leaders(brokers[1]).items():
            for number, one in brokers.items():
                async with wire_client(one.bootstrap_servers) as client:
                    code = (await append(client, "t", batch(b"v"), partition)).error_code
                    assert code == (0 if number == leader else 6)  # NOT_LEADER_OR_FOLLOWER
        async with wire_client(brokers[3].bootstrap_servers) as client:
            answer = await client.call(MetadataRequest(topics=None), 12)
        assert {one.port for one in answer.brokers} == {one.acceptors["PLAINTEXT"].port for one in brokers.values()}


async def test_a_broker_stops_and_restarts(tmp_path, store):
    async with broker(tmp_path, store, 1) as first:
        async with broker(tmp_path, store, 2) as second:
            await until(lambda: len(first.metadata.snapshot.brokers) == 2, "both are known")
            await create(first, partitions=2)
            await until(lambda: len(leaders(second)) == 2, "both know the topic")
            [lost] = [partition for partition, (leader, _) in leaders(first).items() if leader == 2]
            async with wire_client(second.bootstrap_servers) as client:
                assert (await append(client, "t", batch(b"kept"), lost)).error_code == 0
        await until(lambda: leaders(first)[lost] == (-1, 1), "it has no leader")
        assert leaders(first)[1 - lost] == (1, 0)
        async with broker(tmp_path, store, 2) as again:
            await until(lambda: leaders(first)[lost] == (2, 2), "it leads again")
            await until(lambda: view(again) == view(first), "both agree")
            async with wire_client(again.bootstrap_servers) as client:
                answer = await client.call(fetch("t", partition=lost), 12)
                [partition] = answer.responses[0].partitions
                assert (partition.error_code, partition.high_watermark) == (0, 1)
                assert (await append(client, "t", batch(b"more"), lost)).base_offset == 1


async def test_the_controller_stops_and_another_broker_takes_over(tmp_path, store):
    async with broker(tmp_path, store, 2) as second, broker(tmp_path, store, 1) as first:
        await until(lambda: len(second.metadata.snapshot.brokers) == 2, "both are known")
        assert second.controller.is_active
        second.stop()
        await until(lambda: first.metadata.snapshot.controller_id == 1, "the other is the controller")
        await until(lambda: sorted(first.metadata.snapshot.brokers) == [1], "it is alone")
        await create(first, partitions=1)
        async with wire_client(first.bootstrap_servers) as client:
            assert (await append(client, "t", batch(b"v"))).error_code == 0


async def test_a_topic_deleted_and_created_again_is_new_and_empty_everywhere(tmp_path, store):
    async with broker(tmp_path, store, 1) as first, broker(tmp_path, store, 2) as second:
        await until(lambda: len(first.metadata.snapshot.brokers) == 2, "both are known")
        ids = set()
        for _ in range(3):
            ids.add(await create(first, partitions=2))
            await until(lambda: len(leaders(second)) == 2, "both know the topic")
            for partition, (leader, epoch) in leaders(first).items():
                assert epoch == 0
                async with wire_client((first, second)[leader - 1].bootstrap_servers) as client:
                    assert (await append(client, "t", batch(b"v"), partition)).base_offset == 0
            async with wire_client(first.bootstrap_servers) as client:
                request = DeleteTopicsRequest(topics=[DeleteTopicState(name="t")], timeout_ms=DEADLINE_MS)
                assert (await client.call(request)).responses[0].error_code == 0
            await until(lambda: not leaders(first) and not leaders(second), "it is gone")
        assert len(ids) == 3
        assert first.services.replicas.partitions == second.services.replicas.partitions == {}


async def test_a_deletion_is_answered_while_a_replica_s_broker_is_down(tmp_path, store):
    async with contextlib.AsyncExitStack() as stack:
        first = await stack.enter_async_context(broker(tmp_path, store, 1))
        async with broker(tmp_path, store, 2) as second:
            async with wire_client(first.bootstrap_servers) as client:
                wanted = CreatableTopic(name="t", num_partitions=1, replication_factor=2)
                created = await client.call(CreateTopicsRequest(topics=[wanted], timeout_ms=DEADLINE_MS))
                assert created.topics[0].error_code == 0
            await until(lambda: set(view(second)[2]) == {"t"}, "both brokers know the topic")
        await until(lambda: view(first)[1] == [1], "the second broker is gone")
        async with wire_client(first.bootstrap_servers) as client:
            request = DeleteTopicsRequest(topics=[DeleteTopicState(name="t", topic_id=bytes(16))], timeout_ms=600_000)
            answer = await client.call(request)
            assert answer.responses[0].error_code == 0
            again = await client.call(CreateTopicsRequest(topics=[wanted], timeout_ms=DEADLINE_MS))
            assert again.topics[0].error_code == ErrorCode.TOPIC_ALREADY_EXISTS
        assert leaders(first) == {}
        await stack.enter_async_context(broker(tmp_path, store, 2))
        registry = store.session()
        await registry.start()
        try:

            async def is_free():
                return await registry.exists(TopicZnode.path("t")) is None

            await until(is_free, "the deletion is complete")
        finally:
            await registry.close()
