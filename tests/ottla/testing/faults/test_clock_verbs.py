"""The verb `skew_clock`: timestamps and retention of a broker whose clock is wrong."""

from __future__ import annotations

import time

import pytest
from confluent_kafka import TIMESTAMP_LOG_APPEND_TIME, Consumer, TopicPartition

from ottla import testing
from ottla.testing.faults.errors import FaultError
from support.deadlines import DEADLINE_S
from support.faulty_cluster import SeenProducer, create_topic
from support.polling import until_blocking

HOUR_MS = 3_600_000
SETTINGS = {"log.retention.check.interval.ms": "50", "log.initial.task.delay.ms": "50"}


@pytest.fixture(scope="module")
def broker():
    with testing.broker({"broker.id": "1"} | SETTINGS) as running:
        yield running


@pytest.fixture
def consumer(broker):
    client = Consumer(
        {"bootstrap.servers": broker.bootstrap_servers, "group.id": "unused", "enable.auto.commit": False}
    )
    yield client
    client.close()


@pytest.mark.parametrize("offset_s", [7200, -7200])
def test_log_append_time(broker, consumer, offset_s):
    topic = create_topic(broker, f"stamped{offset_s}", [1], message_timestamp_type="LogAppendTime")
    producer = SeenProducer(broker.bootstrap_servers)
    with broker.faults.skew_clock(offset_s) as fault:
        assert fault.did == {"brokers": [1]}
        assert producer.deliver(topic, b"skewed") == (None, 0)
    assert producer.deliver(topic, b"right") == (None, 1)
    consumer.assign([TopicPartition(topic, 0, 0)])
    (kind, skewed), (_, right) = [message.timestamp() for message in consumer.consume(2, DEADLINE_S)]
    assert kind == TIMESTAMP_LOG_APPEND_TIME
    assert abs(skewed - right - offset_s * 1000) < HOUR_MS
    assert abs(right - time.time() * 1000) < HOUR_MS


def test_retention_deletes_what_the_clock_makes_old(broker, consumer):
    topic = create_topic(broker, "retained", [1], retention_ms=str(HOUR_MS))
    producer = SeenProducer(broker.bootstrap_servers)
    assert producer.deliver(topic, b"old") == (None, 0)
    with broker.faults.skew_clock(2 * 3600, broker=1):

        def watermarks():
            return consumer.get_watermark_offsets(TopicPartition(topic, 0), DEADLINE_S)

        until_blocking(lambda: watermarks() == (1, 1), "retention has deleted the record")


def test_skews_add_up_and_heal_one_by_one(broker):
    clock = broker.faults.scene.clocks[1]
    first = broker.faults.skew_clock(10)
    second = broker.faults.skew_clock(-4)
    assert clock.skew_ms == 6000
    first.heal()
    assert clock.skew_ms == -4000
    second.heal()
    assert clock.skew_ms == 0


def test_an_unknown_broker_is_refused(broker):
    with pytest.raises(FaultError, match="broker=7: the cluster has no broker with this id; it has 1"):
        broker.faults.skew_clock(1, broker=7)
