"""The verbs `corrupt` and `truncate`: what consumers, followers and recovery make of a damaged log."""

from __future__ import annotations

import pytest
from confluent_kafka import Consumer, TopicPartition

from ottla import testing
from ottla.testing.faults.errors import FaultError
from support.deadlines import DEADLINE_S
from support.faulty_cluster import SeenProducer, create_topic, isr_of, leader_of, whole
from support.polling import until_blocking


@pytest.fixture(scope="module")
def cluster():
    with testing.cluster(3) as running:
        yield running


@pytest.fixture(autouse=True)
def healed(cluster):
    yield
    cluster.faults.heal_all()
    for broker_id, member in cluster.brokers.items():
        if member.broker is None:
            cluster.start_broker(broker_id)
    until_blocking(lambda: whole(cluster), "the cluster is whole")


def filled(cluster, topic, replicas):
    """A topic with a batch for each of three records."""
    create_topic(cluster, topic, replicas)
    producer = SeenProducer(cluster.bootstrap_servers)
    for number in range(3):
        assert producer.deliver(topic, b"%d" % number) == (None, number)
    until_blocking(lambda: isr_of(cluster, topic) == set(replicas), "all replicas are in sync")
    return topic


def seen(cluster, topic, count, *, checks):
    """What a consumer of librdkafka gets: values, and names of errors."""
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": "unused",
            "enable.auto.commit": False,
            "check.crcs": checks,
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    try:
        messages = consumer.consume(count, DEADLINE_S)
        return [one.value() if one.error() is None else one.error().name() for one in messages]
    finally:
        consumer.close()


def log_ends(cluster, topic):
    """The log end offsets of the replicas that run."""
    found = {}
    for broker_id, member in cluster.brokers.items():
        if member.broker is not None and member.broker.services is not None:
            partition = member.broker.services.replicas.partitions.get((topic, 0))
            if partition is not None and partition.log is not None:
                found[broker_id] = partition.log.log_end_offset
    return found


def test_a_consumer_that_checks_crcs_reports_a_damaged_batch(cluster):
    topic = filled(cluster, "corrupt", [2])
    with cluster.faults.corrupt(topic, offset=1, broker=2) as fault:
        assert fault.did["file"].endswith("corrupt-0/00000000000000000000.log")
        assert seen(cluster, topic, 2, checks=True) == [b"0", "_BAD_MSG"]
    assert seen(cluster, topic, 3, checks=True) == [b"0", b"1", b"2"]


def test_recovery_cuts_the_log_off_and_the_leader_sends_the_rest_again(cluster):
    topic = filled(cluster, "recovered", [1, 2])
    cluster.faults.kill(2)
    fault = cluster.faults.corrupt(topic, offset=1, broker=2)
    cluster.start_broker(2)
    fault.heal()  # changes nothing: the batch is another one
    until_blocking(lambda: isr_of(cluster, topic) == {1, 2}, "the replica is in sync again")
    until_blocking(lambda: log_ends(cluster, topic) == {1: 3, 2: 3}, "both logs have all records")
    cluster.faults.move_leader(topic, to=2)
    assert seen(cluster, topic, 3, checks=True) == [b"0", b"1", b"2"]


@pytest.mark.parametrize("verb", ["truncate", "corrupt"])
def test_a_damaged_log_without_other_replicas_loses_records(cluster, verb):
    topic = filled(cluster, f"lost-{verb}", [3])
    cluster.faults.kill(3)
    getattr(cluster.faults, verb)(topic, offset=1, broker=3)
    cluster.start_broker(3)
    until_blocking(lambda: leader_of(cluster, topic) == 3, "the replica leads again")
    until_blocking(lambda: log_ends(cluster, topic) == {3: 1}, "the log ends before the batch")
    producer = SeenProducer(cluster.bootstrap_servers)
    assert producer.deliver(topic, b"new") == (None, 1)
    assert seen(cluster, topic, 2, checks=True) == [b"0", b"new"]


def test_what_is_impossible_is_refused(cluster):
    topic = filled(cluster, "refused", [1])
    faults = cluster.faults
    with pytest.raises(FaultError, match="broker=1: the broker is running; it must be stopped or killed before"):
        faults.truncate(topic, broker=1)
    with pytest.raises(FaultError, match="the broker has no replica of refused-0"):
        faults.corrupt(topic, broker=2)
    with pytest.raises(FaultError, match="offset=3: the replica of refused-0 has no batch with this offset"):
        faults.corrupt(topic, offset=3, broker=1)
