"""The application consumes and publishes on a real broker, where FastStream's TestKafkaBroker only calls functions."""

import json

import deliveries
from aiokafka import AIOKafkaProducer

from ottla.testing import async_assertions as kafka


async def test_a_paid_order_is_planned(ottla_broker, ottla_topic):
    servers = ottla_broker.bootstrap_servers
    async with AIOKafkaProducer(bootstrap_servers=servers) as producer:
        await producer.send_and_wait(ottla_topic, json.dumps({"id": 1, "city": "Berlin"}).encode())

    app = deliveries.make_app(servers, ottla_topic, f"{ottla_topic}-deliveries")
    await app.broker.start()
    try:
        [planned] = await kafka.wait_for_records(servers, f"{ottla_topic}-deliveries", value_deserializer=json.loads)
    finally:
        await app.broker.stop()
    assert planned.value == {"order": 1, "route": "Prague - Berlin"}
