"""The service runs in a thread; the test writes orders and reads invoices."""

import json
from threading import Event, Thread

import billing
import pytest
from confluent_kafka import Producer

from ottla.testing import assertions as kafka


@pytest.fixture
def invoices(ottla_broker, ottla_topic):
    """The service reads the test's topic, and writes this one."""
    topic, group_id, stopped = f"{ottla_topic}-invoices", f"{ottla_topic}-billing", Event()
    arguments = (ottla_broker.bootstrap_servers, ottla_topic, topic, group_id, stopped)
    service = Thread(target=billing.run, args=arguments)
    service.start()
    yield topic
    stopped.set()
    service.join()


def test_every_order_has_an_invoice(ottla_broker, ottla_topic, invoices):
    servers = ottla_broker.bootstrap_servers
    producer = Producer({"bootstrap.servers": servers})
    for number in range(1, 4):
        producer.produce(ottla_topic, json.dumps({"id": number, "price": 10, "quantity": number}), b"franz")
    producer.flush()

    kafka.wait_for_records(servers, invoices, 3)
    kafka.wait_for_no_lag(servers, f"{ottla_topic}-billing")
    written = kafka.read_topic(servers, invoices, value_deserializer=json.loads)
    assert [record.value["total"] for record in written] == [10, 20, 30]
    assert {record.key for record in written} == {b"franz"}
