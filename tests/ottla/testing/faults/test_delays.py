"""The verbs `delay_commits` and `delay_replication`: what consumers see late."""

from __future__ import annotations

import asyncio

import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka import TopicPartition as Partition
from confluent_kafka import Consumer, TopicPartition

from ottla import testing
from ottla.testing.faults.delays import DelayCommitsFault, DelayReplicationFault
from ottla.testing.faults.errors import FaultError
from support.deadlines import DEADLINE_S
from support.faulty_cluster import QUICK, SeenProducer, create_topic, isr_of, whole
from support.polling import until_blocking


@pytest.fixture(scope="module")
def cluster():
    with testing.cluster(2) as running:
        yield running


@pytest.fixture(autouse=True)
def healed(cluster):
    yield
    cluster.faults.heal_all()
    until_blocking(lambda: whole(cluster), "the cluster is whole")


def consumer_of(cluster, group):
    settings = {"bootstrap.servers": cluster.bootstrap_servers, "group.id": group, "enable.auto.commit": False}
    return Consumer(settings | QUICK)


async def test_a_commit_is_late(cluster):
    topic = await asyncio.to_thread(create_topic, cluster, "committed", [1])
    async with AIOKafkaConsumer(
        bootstrap_servers=cluster.bootstrap_servers, group_id="late", enable_auto_commit=False
    ) as consumer:
        one = Partition(topic, 0)
        consumer.assign([one])
        fault = await asyncio.to_thread(cluster.faults.delay_commits, 3600, group="late", count=1)
        committing = asyncio.create_task(consumer.commit({one: 5}))
        await asyncio.to_thread(until_blocking, lambda: fault.state["uses"] == 1, "the commit waits")

        def committed():
            other = consumer_of(cluster, "late")
            try:
                return other.committed([TopicPartition(topic, 0)], DEADLINE_S)[0].offset
            finally:
                other.close()

        assert await asyncio.to_thread(committed) < 0  # no offset
        assert not committing.done()
        await asyncio.to_thread(fault.heal)
        async with asyncio.timeout(DEADLINE_S):
            await committing
        assert await asyncio.to_thread(committed) == 5


def test_commits_of_other_groups_are_not_late(cluster):
    topic = create_topic(cluster, "others", [1])
    cluster.faults.delay_commits(3600, group="late")
    consumer = consumer_of(cluster, "punctual")
    try:
        (committed,) = consumer.commit(offsets=[TopicPartition(topic, 0, 5)], asynchronous=False)
        assert committed.error is None
    finally:
        consumer.close()


def test_new_records_are_visible_late(cluster):
    topic = create_topic(cluster, "lagging", [1, 2])
    producer = SeenProducer(cluster.bootstrap_servers, acks=1)
    assert producer.deliver(topic, b"one") == (None, 0)
    until_blocking(lambda: isr_of(cluster, topic) == {1, 2}, "both replicas are in sync")
    consumer = consumer_of(cluster, "unused")
    consumer.assign([TopicPartition(topic, 0, 0)])
    try:
        assert [message.value() for message in consumer.consume(1, DEADLINE_S)] == [b"one"]
        with cluster.faults.delay_replication(3600, follower=2) as fault:
            until_blocking(lambda: fault.state["uses"] > 0, "the follower waits")
            assert producer.deliver(topic, b"two") == (None, 1)
            assert consumer.get_watermark_offsets(TopicPartition(topic, 0), DEADLINE_S) == (0, 1)
        assert [message.value() for message in consumer.consume(1, DEADLINE_S)] == [b"two"]
    finally:
        consumer.close()


def test_options_are_checked(cluster):
    with pytest.raises(FaultError, match="delay_s=0: must be above 0"):
        DelayCommitsFault(delay_s=0)
    with pytest.raises(FaultError, match="delay_s=-1: must be above 0"):
        DelayReplicationFault(delay_s=-1)
    with pytest.raises(FaultError, match="broker=7: the cluster has no broker with this id"):
        cluster.faults.delay_replication(1, broker=7)
    with pytest.raises(FaultError, match="broker=7: the cluster has no broker with this id"):
        cluster.faults.delay_commits(1, broker=7)
