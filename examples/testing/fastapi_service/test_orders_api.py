"""The service runs in FastAPI's TestClient, with its consumer and its producer. The broker has a thread of its own."""

import json
import time

import orders_api
import pytest
from confluent_kafka import Producer
from fastapi.testclient import TestClient

from ottla.testing import assertions as kafka


@pytest.fixture
def service(ottla_broker, ottla_topic, monkeypatch):
    monkeypatch.setenv("KAFKA_BOOTSTRAP_SERVERS", ottla_broker.bootstrap_servers)
    monkeypatch.setenv("ORDERS_TOPIC", ottla_topic)
    monkeypatch.setenv("PAYMENTS_TOPIC", f"{ottla_topic}-payments")
    with TestClient(orders_api.app) as client:
        yield client


def wait_for_state(service, order_id, state, timeout_s=30):
    deadline = time.monotonic() + timeout_s
    while (seen := service.get(f"/orders/{order_id}").json()) != {"state": state}:
        assert time.monotonic() < deadline, f"the order is {seen}, not {state}"
        time.sleep(0.01)


def test_an_order_is_published(ottla_broker, ottla_topic, service):
    assert service.post("/orders", json={"id": 7, "item": "desk"}).status_code == 202
    [order] = kafka.read_topic(ottla_broker.bootstrap_servers, ottla_topic, value_deserializer=json.loads)
    assert (order.key, order.value) == (b"7", {"id": 7, "item": "desk"})


def test_a_payment_changes_the_state(ottla_broker, ottla_topic, service):
    assert service.get("/orders/8").status_code == 404
    service.post("/orders", json={"id": 8, "item": "lamp"})
    assert service.get("/orders/8").json() == {"state": "ordered"}

    producer = Producer({"bootstrap.servers": ottla_broker.bootstrap_servers})
    producer.produce(f"{ottla_topic}-payments", json.dumps({"order": 8}))
    producer.flush()
    wait_for_state(service, 8, "paid")
