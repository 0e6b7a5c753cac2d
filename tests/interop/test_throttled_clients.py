"""Clients that exceed a quota: they learn the time, wait, and lose nothing.

Every quota is a little less than the test needs in ten seconds: the time of throttling is a fraction of a second.
"""

import asyncio

import pytest

from client.admin.admin import Admin
from client.admin.quotas import QuotaEntity
from support.deadlines import DEADLINE_S
from support.kafka_clients import kafka
from support.polling import until_blocking

RECORDS = 40
SIZE = 2500
BYTES_PER_S = RECORDS * SIZE // 10 - 200


@pytest.fixture
def quota(broker):
    """Sets a quota of a client id."""

    def alter(client_id, **values):
        async def main():
            async with Admin(bootstrap_servers=broker.bootstrap) as admin:
                [error] = (await admin.alter_client_quotas({QuotaEntity(client_id=client_id): values})).values()
                assert error is None

        asyncio.run(main())

    return alter


def create(broker, topic):
    async def main():
        async with Admin(bootstrap_servers=broker.bootstrap) as admin:
            await admin.create_topic(topic, 1)

    asyncio.run(main())


def values():
    return [bytes([number]) * SIZE for number in range(RECORDS)]


def test_confluent_kafka_is_told_and_delivers_everything(broker, quota):
    from confluent_kafka import Consumer, Producer

    create(broker, "by-confluent")
    quota("throttled-producer", producer_byte_rate=BYTES_PER_S)
    quota("throttled-consumer", consumer_byte_rate=BYTES_PER_S)
    told, delivered = [], []
    producer = Producer(
        {
            "bootstrap.servers": broker.bootstrap,
            "client.id": "throttled-producer",
            "throttle_cb": told.append,
            "batch.num.messages": 10,
        }
    )
    for value in values():
        producer.produce("by-confluent", value, on_delivery=lambda error, message: delivered.append(error))
    until_blocking(lambda: producer.poll(0.05) or told, "the producer is told that it is throttled")
    assert producer.flush(DEADLINE_S) == 0
    assert delivered == [None] * RECORDS
    assert told[0].throttle_time > 0

    told.clear()
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "client.id": "throttled-consumer",
            "group.id": "throttled",
            "auto.offset.reset": "earliest",
            "throttle_cb": told.append,
        }
    )
    consumer.subscribe(["by-confluent"])
    read = []

    def has_read():
        message = consumer.poll(0.05)
        if message is not None:
            assert message.error() is None
            read.append(message.value())
        return len(read) == RECORDS and told

    until_blocking(has_read, "everything is read, and the consumer was told that it is throttled")
    consumer.close()
    assert read == values()


async def test_aiokafka_goes_on(broker):
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

    client = {"bootstrap_servers": broker.bootstrap, "client_id": "throttled-aiokafka"}
    async with Admin(bootstrap_servers=broker.bootstrap) as admin:
        await admin.create_topic("by-aiokafka", 1)
        rates = {"producer_byte_rate": BYTES_PER_S, "consumer_byte_rate": BYTES_PER_S, "request_percentage": 5000}
        entity = QuotaEntity(client_id="throttled-aiokafka")
        assert await admin.alter_client_quotas({entity: rates}) == {entity: None}
    async with AIOKafkaProducer(**client) as producer:
        for value in values():
            await producer.send_and_wait("by-aiokafka", value)
    read = []
    async with AIOKafkaConsumer("by-aiokafka", auto_offset_reset="earliest", **client) as consumer:
        while len(read) < RECORDS:
            message = await asyncio.wait_for(consumer.getone(), DEADLINE_S)
            read.append(message.value)
    assert read == values()


def test_kafka_python_goes_on(broker, quota):
    create(broker, "by-kafka-python")
    quota("throttled-kafka-python", producer_byte_rate=BYTES_PER_S, consumer_byte_rate=BYTES_PER_S)
    client = {"bootstrap_servers": broker.bootstrap, "client_id": "throttled-kafka-python"}
    producer = kafka.KafkaProducer(**client)
    for value in values():
        producer.send("by-kafka-python", value).get(DEADLINE_S)
    producer.close()
    consumer = kafka.KafkaConsumer("by-kafka-python", auto_offset_reset="earliest", group_id=None, **client)
    read = []

    def has_read():
        for records in consumer.poll(50).values():
            read.extend(record.value for record in records)
        return len(read) == RECORDS

    until_blocking(has_read, "everything is read")
    consumer.close()
    assert read == values()
