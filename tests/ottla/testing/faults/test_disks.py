"""The verbs for disks, as clients of librdkafka meet them."""

from __future__ import annotations

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from ottla import testing
from ottla.testing.faults.disks import FillDiskFault, SlowDiskFault
from ottla.testing.faults.errors import FaultError
from support.deadlines import DEADLINE_S
from support.faulty_cluster import QUICK, SeenProducer, create_topic, isr_of, leader_of, whole
from support.polling import until_blocking

SYNCED = {"flush_messages": "1"}


@pytest.fixture(scope="module")
def cluster():
    with testing.cluster(3) as running:
        yield running


@pytest.fixture(autouse=True)
def healed(request):
    yield
    if "cluster" in request.fixturenames:
        cluster = request.getfixturevalue("cluster")
        cluster.faults.heal_all()
        until_blocking(lambda: whole(cluster), "the cluster is whole")


def read(cluster, topic, count):
    """Read without a group: the disk that is full also has a replica of the offsets."""
    settings = {"bootstrap.servers": cluster.bootstrap_servers, "group.id": "unused", "enable.auto.commit": False}
    consumer = Consumer(settings)
    consumer.assign([TopicPartition(topic, 0, 0)])
    try:
        return [message.value() for message in consumer.consume(count, DEADLINE_S)]
    finally:
        consumer.close()


def has_effect(fault):
    return fault.state["uses"] > 0


def test_a_producer_waits_for_room_on_a_full_disk(cluster):
    topic = create_topic(cluster, "full", [2])
    producer = SeenProducer(cluster.bootstrap_servers, enable_idempotence=True)
    assert producer.deliver(topic, b"one") == (None, 0)
    with cluster.faults.fill_disk(broker=2) as fault:
        assert fault.did["log_dirs"] == [str(cluster.directory / "broker-2")]
        producer.send(topic, b"two")
        producer.until(lambda: has_effect(fault), "the broker has met the full disk")
        assert len(producer.reports) == 1
        assert read(cluster, topic, 1) == [b"one"]  # readers go on
        assert len(producer.reports) == 1
    producer.until(lambda: len(producer.reports) == 2, "the record is delivered")
    assert producer.reports[1] == (None, 1)


def test_there_is_room_for_some_bytes(cluster):
    topic = create_topic(cluster, "nearly-full", [2])
    producer = SeenProducer(cluster.bootstrap_servers, batch_num_messages=1)
    with cluster.faults.fill_disk(broker=2, room_bytes=20_000) as fault:
        assert producer.deliver(topic, bytes(1000)) == (None, 0)
        for _ in range(20):
            producer.send(topic, bytes(1000))
        producer.until(lambda: has_effect(fault), "the disk is full")
        assert len(producer.reports) < 21
    producer.until(lambda: len(producer.reports) == 21, "all are delivered")
    assert {error for error, _ in producer.reports} == {None}


@pytest.mark.parametrize("operation", ["fsync", "write", "all"])
def test_another_broker_takes_over_from_one_whose_disk_fails(cluster, operation):
    topic = create_topic(cluster, f"failed-{operation}", [2, 1, 3], **SYNCED)
    producer = SeenProducer(cluster.bootstrap_servers, enable_idempotence=True)
    assert producer.deliver(topic, b"one") == (None, 0)
    until_blocking(lambda: isr_of(cluster, topic) == {1, 2, 3}, "all replicas are in sync")
    fault = cluster.faults.fail_disk(operation, broker=2)
    assert producer.deliver(topic, b"two") == (None, 1)
    until_blocking(lambda: leader_of(cluster, topic) in (1, 3), "another broker leads")
    until_blocking(lambda: cluster.brokers[2].broker is None, "a broker without a log directory ends")
    fault.heal()  # starts it again
    until_blocking(lambda: isr_of(cluster, topic) == {1, 2, 3}, "all replicas are in sync")
    assert read(cluster, topic, 2) == [b"one", b"two"]


def test_a_record_waits_for_a_slow_fsync(cluster):
    topic = create_topic(cluster, "slow", [3], **SYNCED)
    producer = SeenProducer(cluster.bootstrap_servers)
    with cluster.faults.slow_disk(3600, broker=3) as fault:
        producer.send(topic, b"one")
        producer.until(lambda: has_effect(fault), "a fsync waits")
        assert producer.reports == []
    producer.until(lambda: producer.reports == [(None, 0)], "the record is delivered")


def test_one_of_two_log_directories_fails(tmp_path):
    first, second = tmp_path / "first", tmp_path / "second"
    with testing.broker({"log.dirs": f"{first},{second}", "ottla.console.listener": ""}) as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        admin.create_topics([NewTopic("t", 2, 1)])["t"].result(DEADLINE_S)

        def leaders():
            found = admin.list_topics("t", DEADLINE_S).topics["t"].partitions
            return {number: one.leader for number, one in found.items()}

        until_blocking(lambda: leaders() == {0: 0, 1: 0}, "both partitions have a leader")
        until_blocking(lambda: len([*first.glob("t-*"), *second.glob("t-*")]) == 2, "both logs exist")
        (lost,) = [int(path.name[2:]) for path in first.glob("t-*")]
        fault = broker.faults.fail_disk("write", log_dir=str(first))
        assert fault.did["log_dirs"] == [str(first)]
        reports = []
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers} | QUICK)
        for partition in (lost, 1 - lost):
            producer.produce(
                "t", b"v", partition=partition, on_delivery=lambda error, one: reports.append(one.partition())
            )
        until_blocking(lambda: producer.poll(0.01) is not None and leaders()[lost] == -1, "its partition is offline")
        until_blocking(lambda: producer.poll(0.01) is not None and reports, "the other one is served")
        assert reports == [1 - lost]
        fault.heal()
        broker.faults.restart(0)
        until_blocking(lambda: producer.poll(0.01) is not None and len(reports) == 2, "both are served")
        with pytest.raises(
            FaultError, match=f"log_dir=/none: no broker has this log directory; there are {first}, {second}"
        ):
            broker.faults.fill_disk(log_dir="/none")


def test_options_are_checked():
    with pytest.raises(FaultError, match="room_bytes=-1: must be 0 or more"):
        FillDiskFault(room_bytes=-1)
    with pytest.raises(FaultError, match="delay_s=0: must be above 0"):
        SlowDiskFault(delay_s=0)
