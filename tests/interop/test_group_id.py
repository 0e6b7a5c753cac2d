"""Consumers with a group id, automatic commits and assigned partitions: they read, and commit when they are closed.

A client that does not find the coordinator gives the commit up after 30 to 50 s.
"""

from __future__ import annotations

import asyncio
import time

import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka import TopicPartition as AioTopicPartition
from confluent_kafka import Consumer, Producer, TopicPartition

from support.deadlines import DEADLINE_S
from support.kafka_clients import kafka

COUNT = 10
WITH_OFFSET = pytest.mark.parametrize("offset", [None, 0], ids=["nothing committed", "from an offset"])


@pytest.fixture(scope="module")
def topic(broker):
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for number in range(COUNT):
        producer.produce("assigned", str(number), partition=0)
    assert producer.flush(DEADLINE_S) == 0
    return "assigned"


def committed(broker, group):
    """The committed offset of the partition."""
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": group})
    (found,) = consumer.committed([TopicPartition("assigned", 0)], DEADLINE_S)
    consumer.close()
    return found.offset


@WITH_OFFSET
def test_confluent_kafka(broker, topic, offset):
    consumer = Consumer(
        {"bootstrap.servers": broker.bootstrap, "group.id": f"confluent-{offset}", "auto.offset.reset": "earliest"}
    )
    consumer.assign([TopicPartition(topic, 0) if offset is None else TopicPartition(topic, 0, offset)])
    messages = consumer.consume(COUNT, DEADLINE_S)
    assert [message.value() for message in messages] == [b"%d" % number for number in range(COUNT)]
    consumer.close()
    assert committed(broker, f"confluent-{offset}") == COUNT


@WITH_OFFSET
def test_kafka_python(broker, topic, offset):
    consumer = kafka.KafkaConsumer(
        bootstrap_servers=broker.bootstrap, group_id=f"kafka-python-{offset}", auto_offset_reset="earliest"
    )
    partition = kafka.TopicPartition(topic, 0)
    consumer.assign([partition])
    if offset is not None:
        consumer.seek(partition, offset)
    found = []
    until = time.monotonic() + DEADLINE_S
    while len(found) < COUNT and time.monotonic() < until:
        for records in consumer.poll(500).values():
            found += [record.value for record in records]
    assert found == [b"%d" % number for number in range(COUNT)]
    consumer.close()
    assert committed(broker, f"kafka-python-{offset}") == COUNT


@WITH_OFFSET
async def test_aiokafka(broker, topic, offset):
    consumer = AIOKafkaConsumer(
        bootstrap_servers=broker.bootstrap, group_id=f"aiokafka-{offset}", auto_offset_reset="earliest"
    )
    await asyncio.wait_for(consumer.start(), DEADLINE_S)
    try:
        partition = AioTopicPartition(topic, 0)
        consumer.assign([partition])
        if offset is not None:
            consumer.seek(partition, offset)
        found = []
        while len(found) < COUNT:
            found.append((await asyncio.wait_for(consumer.getone(), DEADLINE_S)).value)
        assert found == [b"%d" % number for number in range(COUNT)]
    finally:
        await asyncio.wait_for(consumer.stop(), DEADLINE_S)
    assert await asyncio.to_thread(committed, broker, f"aiokafka-{offset}") == COUNT
