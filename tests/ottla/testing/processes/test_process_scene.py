"""Faults of broker processes: every verb on `ottla cluster --control-port`, as librdkafka and aiokafka meet it."""

from __future__ import annotations

import asyncio
import socket

import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka import TopicPartition as Partition
from confluent_kafka import Consumer, TopicPartition

from ottla.testing.faults.verbs import VERBS
from support.deadlines import DEADLINE_S
from support.faulty_cluster import QUICK, SeenProducer, consume
from support.polling import until_blocking
from support.process_cluster import ProcessCluster, RefusedError

SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "replica.lag.time.max.ms": "1000",
    "replica.socket.timeout.ms": "2000",
}
ALL = [1, 2, 3]


@pytest.fixture(scope="module")
def cluster():
    with ProcessCluster(*(word for pair in SETTINGS.items() for word in ("--set", "=".join(pair)))) as running:
        yield running
        assert running.command.stop() == 0, running.command.errors


@pytest.fixture(autouse=True)
def healed(cluster):
    yield
    cluster.ask("DELETE", "/faults")
    for broker_id, state in cluster.states().items():
        if state == "stopped":
            cluster.inject("start", broker=broker_id)
    until_blocking(lambda: cluster.present() == set(ALL), "the cluster is whole")


def producer_of(cluster, topic, **settings):
    """A producer that has delivered a first record."""
    producer = SeenProducer(cluster.bootstrap_servers, enable_idempotence=True, **settings)
    assert producer.deliver(topic, b"one") == (None, 0)
    return producer


def read(cluster, topic, count, **settings):
    """What a consumer without a group gets: values, and names of errors."""
    options = {"bootstrap.servers": cluster.bootstrap_servers, "group.id": "unused", "enable.auto.commit": False}
    consumer = Consumer(options | QUICK | {name.replace("_", "."): value for name, value in settings.items()})
    consumer.assign([TopicPartition(topic, 0, 0)])
    try:
        messages = consumer.consume(count, 3 * DEADLINE_S)
        return [one.value() if one.error() is None else one.error().name() for one in messages]
    finally:
        consumer.close()


# -- brokers -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("verb", ["stop", "kill", "pause"])
def test_a_broker_that_is_gone_comes_back(cluster, verb):
    topic = cluster.create_topic(f"gone-{verb}", [[2]])
    producer = producer_of(cluster, topic, socket_timeout_ms=500, request_timeout_ms=500)
    with cluster.fault(verb, broker=2) as fault:
        assert fault["did"] == {"broker": 2}
        assert cluster.states()[2] == ("paused" if verb == "pause" else "stopped")
        producer.send(topic, b"two")
        producer.until(lambda: producer.disconnects or producer.errors, "the producer has lost the broker")
        assert len(producer.reports) == 1
    producer.until(lambda: producer.reports[1:] == [(None, 1)], "the record is delivered")
    assert read(cluster, topic, 2) == [b"one", b"two"]


def test_a_broker_that_stops_hands_its_leaders_over(cluster):
    topic = cluster.create_topic("handed-over", [[2, 1, 3]])
    producer = producer_of(cluster, topic)
    with cluster.fault("stop", broker=2):
        until_blocking(lambda: cluster.leaders(topic) in ([1], [3]), "another broker leads")
        assert producer.deliver(topic, b"two") == (None, 1)


def test_start_and_resume_end_faults(cluster):
    cluster.inject("kill", broker=2)
    assert [one["verb"] for one in cluster.active()] == ["kill"]
    cluster.inject("start", broker=2)
    assert cluster.active() == []
    cluster.inject("pause", broker=3)
    cluster.inject("resume", broker=3)
    assert (cluster.active(), set(cluster.states().values())) == ([], {"running"})


@pytest.mark.parametrize("kill", [False, True])
def test_restart(cluster, kill):
    topic = cluster.create_topic(f"restart-{kill}", [[3]])
    producer = producer_of(cluster, topic)
    cluster.inject("restart", broker=3, kill=kill)
    assert producer.deliver(topic, b"two") == (None, 1)
    producer.until(lambda: producer.disconnects > 0, "the connection was closed")


def test_a_limit_of_time_heals(cluster):
    cluster.inject("kill", broker=3, for_s=0.01)
    until_blocking(lambda: cluster.active() == [] and cluster.states()[3] == "running", "the broker is back")


# -- connections -------------------------------------------------------------------------------------------------------


def test_cut_means_clients_and_not_brokers(cluster):
    topic = cluster.create_topic("cut", [[1, 2, 3]])
    producer = producer_of(cluster, topic, client_id="cut-me")
    other = SeenProducer(cluster.bootstrap_servers, client_id="not-me")
    assert other.deliver(topic, b"two") == (None, 1)
    before = other.disconnects_now()
    done = cluster.inject("cut", client_id="cut-me")["did"]["connections"]
    assert done > 0
    producer.until(lambda: producer.disconnects >= done, "the producer has lost its connections")
    assert cluster.inject("cut", peers=True)["did"]["connections"] > 0
    assert producer.deliver(topic, b"three") == (None, 2)
    assert other.disconnects_now() == before


def test_refused_connections(cluster):
    with cluster.fault("refuse", broker=1):
        host, _, port = cluster.address(1).partition(":")
        with pytest.raises(ConnectionError), socket.create_connection((host, int(port)), DEADLINE_S) as client:
            client.recv(1)
    topic = cluster.create_topic("refused", [[1]])
    producer_of(cluster, topic)


@pytest.mark.parametrize(
    ("verb", "options"),
    [
        ("blackhole", {}),
        ("blackhole", {"direction": "to"}),
        ("delay", {"delay_s": 3600}),
        ("throttle", {"bytes_per_s": 0.1}),
    ],
    ids=["blackhole", "blackhole-to", "delay", "throttle"],
)
def test_a_client_times_out_and_recovers(cluster, verb, options, request):
    topic = cluster.create_topic(f"time-{request.node.callspec.id}", [[1]])
    producer = producer_of(cluster, topic, client_id="slow", socket_timeout_ms=500, request_timeout_ms=500)
    with cluster.fault(verb, client_id="slow", **options):
        producer.send(topic, b"two")
        producer.until(lambda: "_TIMED_OUT" in producer.errors or producer.disconnects, "a request has timed out")
        assert len(producer.reports) == 1
    producer.until(lambda: producer.reports[1:] == [(None, 1)], "the record is delivered")


def test_a_follower_that_is_cut_off_leaves_the_isr_and_comes_back(cluster):
    controller = cluster.controller()
    leader, follower = {1, 2, 3} - {controller}
    topic = cluster.create_topic("isr", [[leader, follower, controller]])
    unsafe = SeenProducer(cluster.bootstrap_servers, acks=1)
    with cluster.fault("blackhole", broker=leader, peer=follower):
        assert unsafe.deliver(topic, b"not replicated") == (None, 0)
        until_blocking(lambda: cluster.isr(topic) == {leader, controller}, "the follower is not in sync")
    until_blocking(lambda: cluster.isr(topic) == {1, 2, 3}, "all replicas are in sync")


def test_a_number_of_connections_of_all_brokers_together(cluster):
    topics = [cluster.create_topic(f"held-{broker_id}", [[broker_id]]) for broker_id in ALL]
    cluster.inject("blackhole", client_id="held", count=2)
    quick = {"socket_timeout_ms": 500, "request_timeout_ms": 500, "api_version_request_timeout_ms": 500}
    producers = [SeenProducer(cluster.bootstrap_servers, client_id="held", **quick) for _ in topics]
    for producer, topic in zip(producers, topics, strict=True):
        assert producer.deliver(topic, b"v")[0] is None
    until_blocking(lambda: cluster.active() == [], "the connections are closed, and the fault is healed")


# -- requests ----------------------------------------------------------------------------------------------------------


def test_a_count_is_for_all_brokers_together(cluster):
    topic = cluster.create_topic("counted", [[1], [2], [3]])
    fault = cluster.inject("answer", api="Produce", error="NOT_LEADER_OR_FOLLOWER", topic=topic, count=2)
    producer = SeenProducer(cluster.bootstrap_servers, client_id="counted", partitioner="random")
    for _ in range(60):
        assert producer.deliver(topic, b"v")[0] is None
    until_blocking(lambda: cluster.active() == [], "the fault is over")
    seen = cluster.ask("GET", f"/requests?api=Produce&client_id=counted&topic={topic}")["requests"]
    assert [one["error"] for one in seen].count("NOT_LEADER_OR_FOLLOWER") == 2, fault
    assert {one["broker"] for one in seen} == {1, 2, 3}


def test_a_closed_connection_instead_of_an_answer(cluster):
    topic = cluster.create_topic("closed", [[2]])
    producer = producer_of(cluster, topic)
    cluster.inject("answer", api="Produce", close=True, applied=True, topic=topic, count=1)
    assert producer.deliver(topic, b"two") == (None, 1)
    assert read(cluster, topic, 2) == [b"one", b"two"]
    until_blocking(lambda: cluster.active() == [], "the fault is over")


def test_a_counted_fault_stays_while_its_request_waits(cluster):
    topic = cluster.create_topic("waits", [[3]])
    producer = producer_of(cluster, topic)
    with cluster.fault("answer", api="Produce", delay_s=3600, topic=topic, count=1) as fault:
        producer.send(topic, b"two")
        producer.until(lambda: cluster.uses(fault) == 1, "the request waits")
        assert len(producer.reports) == 1
    producer.until(lambda: producer.reports[1:] == [(None, 1)], "the record is delivered")


def test_faults_apply_to_a_broker_that_starts_later(cluster):
    topic = cluster.create_topic("later", [[2]])
    producer = producer_of(cluster, topic)
    cluster.inject("kill", broker=2)
    fault = cluster.inject("answer", api="Produce", delay_s=3600, topic=topic)
    cluster.inject("start", broker=2)
    producer.send(topic, b"two")
    producer.until(lambda: cluster.uses(fault) == 1, "the request waits")
    cluster.ask("DELETE", f"/faults/{fault['id']}")
    producer.until(lambda: producer.reports[1:] == [(None, 1)], "the record is delivered")


# -- disks and logs ----------------------------------------------------------------------------------------------------


def test_a_producer_waits_for_room_on_a_full_disk(cluster):
    topic = cluster.create_topic("full", [[2]])
    producer = producer_of(cluster, topic)
    with cluster.fault("fill_disk", broker=2) as fault:
        producer.send(topic, b"two")
        producer.until(lambda: cluster.uses(fault) > 0, "the broker has met the full disk")
        assert len(producer.reports) == 1
    producer.until(lambda: producer.reports[1:] == [(None, 1)], "the record is delivered")


def test_a_broker_whose_disk_fails_ends_and_healing_starts_it(cluster):
    topic = cluster.create_topic("failed", [[2, 1, 3]], flush_messages="1")
    producer = producer_of(cluster, topic)
    with cluster.fault("fail_disk", operation="fsync", broker=2):
        assert producer.deliver(topic, b"two") == (None, 1)
        until_blocking(lambda: cluster.states()[2] == "stopped", "a broker without a log directory ends")
    assert cluster.states()[2] == "running"
    until_blocking(lambda: cluster.isr(topic) == {1, 2, 3}, "all replicas are in sync")
    assert read(cluster, topic, 2) == [b"one", b"two"]


def test_a_record_waits_for_a_slow_fsync(cluster):
    topic = cluster.create_topic("slow", [[3]], flush_messages="1")
    producer = producer_of(cluster, topic)
    log_dir = f"{cluster.command.value('data')}/broker-3"
    with cluster.fault("slow_disk", delay_s=3600, log_dir=log_dir) as fault:
        assert fault["did"] == {"log_dirs": [log_dir]}
        producer.send(topic, b"two")
        producer.until(lambda: cluster.uses(fault) > 0, "a fsync waits")
        assert len(producer.reports) == 1
    producer.until(lambda: producer.reports[1:] == [(None, 1)], "the record is delivered")


def test_a_damaged_batch_is_reported_and_restored(cluster):
    topic = cluster.create_topic("damaged", [[1]])
    assert producer_of(cluster, topic).deliver(topic, b"two") == (None, 1)
    with cluster.fault("corrupt", topic=topic, offset=1, broker=1):
        assert read(cluster, topic, 2, check_crcs=True) == [b"one", "_BAD_MSG"]
    assert read(cluster, topic, 2, check_crcs=True) == [b"one", b"two"]


def test_a_log_that_is_cut_off_loses_records(cluster):
    topic = cluster.create_topic("torn", [[3]])
    producer = producer_of(cluster, topic)
    assert producer.deliver(topic, b"two") == (None, 1)
    with pytest.raises(RefusedError, match="400: broker=3: the broker is running; it must be stopped or killed before"):
        cluster.inject("truncate", topic=topic, offset=1, broker=3)
    cluster.inject("kill", broker=3)
    cluster.inject("truncate", topic=topic, offset=1, broker=3)
    cluster.inject("start", broker=3)
    until_blocking(lambda: cluster.leaders(topic) == [3], "the replica leads again")
    assert SeenProducer(cluster.bootstrap_servers).deliver(topic, b"new") == (None, 1)
    assert read(cluster, topic, 2) == [b"one", b"new"]


# -- time --------------------------------------------------------------------------------------------------------------


def test_a_clock_that_is_wrong(cluster):
    topic = cluster.create_topic("stamped", [[1]], message_timestamp_type="LogAppendTime")
    with cluster.fault("skew_clock", offset_s=7200, broker=1) as fault:
        assert fault["did"] == {"brokers": [1]}
        producer = producer_of(cluster, topic)
    assert producer.deliver(topic, b"right") == (None, 1)
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": "unused"})
    consumer.assign([TopicPartition(topic, 0, 0)])
    (_, skewed), (_, right) = [message.timestamp() for message in consumer.consume(2, 3 * DEADLINE_S)]
    consumer.close()
    assert abs(skewed - right - 7_200_000) < 3_600_000


async def test_a_commit_is_late(cluster):
    topic = await asyncio.to_thread(cluster.create_topic, "committed", [[1]])
    async with AIOKafkaConsumer(
        bootstrap_servers=cluster.bootstrap_servers, group_id="late", enable_auto_commit=False
    ) as consumer:
        one = Partition(topic, 0)
        consumer.assign([one])
        fault = await asyncio.to_thread(cluster.inject, "delay_commits", delay_s=3600, group="late", count=1)
        committing = asyncio.create_task(consumer.commit({one: 5}))
        await asyncio.to_thread(until_blocking, lambda: cluster.uses(fault) == 1, "the commit waits")
        assert not committing.done()
        await asyncio.to_thread(cluster.ask, "DELETE", f"/faults/{fault['id']}")
        async with asyncio.timeout(3 * DEADLINE_S):
            await committing
            assert await consumer.committed(one) == 5


def test_new_records_are_visible_late(cluster):
    topic = cluster.create_topic("lagging", [[1, 2]])
    producer = SeenProducer(cluster.bootstrap_servers, acks=1)
    assert producer.deliver(topic, b"one") == (None, 0)
    assert read(cluster, topic, 1) == [b"one"]
    with cluster.fault("delay_replication", delay_s=0.5, follower=2) as fault:
        until_blocking(lambda: cluster.uses(fault) > 0, "the follower waits")
        assert producer.deliver(topic, b"two") == (None, 1)
        assert read(cluster, topic, 2) == [b"one", b"two"]


# -- leaders and sessions ----------------------------------------------------------------------------------------------


def test_leaders_move(cluster):
    topic = cluster.create_topic("leader", [[1, 2, 3]])
    producer = producer_of(cluster, topic)
    assert cluster.inject("move_leader", topic=topic, to=3)["did"] == {"from": 1, "to": 3}
    assert cluster.leaders(topic) == [3]
    assert producer.deliver(topic, b"two") == (None, 1)
    with pytest.raises(RefusedError, match="400: to=3: the broker is the leader of leader-0 already"):
        cluster.inject("move_leader", topic=topic, to=3)


def test_a_consumer_follows_its_coordinator(cluster):
    topic = cluster.create_topic("coordinated", [[1]])
    producer = producer_of(cluster, topic)
    assert consume(cluster.bootstrap_servers, topic, 1, group_id="g") == [b"one"]
    moved = cluster.inject("move_coordinator", group="g")["did"]
    assert cluster.leaders("__consumer_offsets") == [moved["to"]]
    assert producer.deliver(topic, b"two") == (None, 1)
    assert consume(cluster.bootstrap_servers, topic, 1, group_id="g") == [b"two"]


def test_the_controller_moves(cluster):
    before = cluster.controller()
    moved = cluster.inject("move_controller")["did"]
    assert moved["from"] == before
    until_blocking(lambda: cluster.controller() == moved["to"], "the metadata name the new controller")
    producer_of(cluster, cluster.create_topic("controlled", [[2, 3]]))


def test_a_leader_whose_session_expires_registers_again(cluster):
    topic = cluster.create_topic("expired", [[2, 1, 3]])
    producer = producer_of(cluster, topic)
    first = cluster.inject("expire_session", broker=2)["did"]["session"]
    until_blocking(lambda: "registry session has expired: broker 2 registers again" in cluster.command.errors, "it did")
    assert producer.deliver(topic, b"two") == (None, 1)
    until_blocking(lambda: cluster.isr(topic) == {1, 2, 3}, "all replicas are in sync")
    assert cluster.inject("expire_session", broker=2)["did"]["session"] != first


# -- what is refused ---------------------------------------------------------------------------------------------------


def test_errors_and_the_verbs(cluster):
    assert cluster.ask("GET", "/")["verbs"] == list(VERBS)
    for verb, options, text in (
        ("kill", {"broker": 9}, "broker=9: the cluster has no broker with this id; it has 1, 2, 3"),
        ("blackhole", {"broker": 1, "peer": 7}, "broker=7: the cluster has no broker with this id"),
        ("skew_clock", {"offset_s": 1, "broker": 7}, "broker=7: the cluster has no broker with this id"),
        ("delay_replication", {"delay_s": 1, "follower": 7}, "broker=7: the cluster has no broker with this id"),
        ("fill_disk", {"log_dir": "/none"}, "log_dir=/none: no broker has this log directory"),
        ("resume", {"broker": 1}, "broker=1: the broker is running; it must be paused"),
        ("move_leader", {"topic": "none"}, "none-0: the partition does not exist"),
    ):
        with pytest.raises(RefusedError, match=f"400: {text}"):
            cluster.inject(verb, **options)
    cluster.inject("pause", broker=2)
    with pytest.raises(RefusedError, match="400: broker=2: the broker is paused"):
        cluster.inject("expire_session", broker=2)
    assert [one["verb"] for one in cluster.active()] == ["pause"]
