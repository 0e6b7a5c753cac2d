"""The application runs in the event loop of the test."""

import json

import faust_billing
from aiokafka import AIOKafkaProducer

from ottla.testing import async_assertions as kafka


async def test_every_order_has_an_invoice(ottla_broker, ottla_topic, tmp_path):
    servers = ottla_broker.bootstrap_servers
    async with AIOKafkaProducer(bootstrap_servers=servers) as producer:
        await producer.send_and_wait(ottla_topic, json.dumps({"id": 1, "price": 10, "quantity": 2}).encode())

    app = faust_billing.make_app(servers, ottla_topic, f"{ottla_topic}-invoices", tmp_path)
    await app.start()
    try:
        [invoice] = await kafka.wait_for_records(servers, f"{ottla_topic}-invoices", value_deserializer=json.loads)
    finally:
        await app.stop()
    assert invoice.value == {"order": 1, "total": 20}
