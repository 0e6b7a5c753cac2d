"""The view publishes, the command consumes, and both use the database of the test."""

import json
import os

import django
import pytest
from confluent_kafka import Producer

os.environ["DJANGO_SETTINGS_MODULE"] = "shop.settings"
os.environ["DATABASE"] = ":memory:"
django.setup()

from django.conf import settings  # noqa: E402 - Django must be set up before
from django.core.management import call_command  # noqa: E402
from django.test import Client  # noqa: E402
from shop.models import Order  # noqa: E402

from ottla.testing import assertions as kafka  # noqa: E402


@pytest.fixture(scope="module", autouse=True)
def database():
    call_command("migrate", run_syncdb=True, verbosity=0)


@pytest.fixture(autouse=True)
def broker(ottla_broker, ottla_topic, monkeypatch):
    monkeypatch.setattr(settings, "KAFKA_BOOTSTRAP_SERVERS", ottla_broker.bootstrap_servers)
    monkeypatch.setattr(settings, "ORDERS_TOPIC", ottla_topic)
    monkeypatch.setattr(settings, "PAYMENTS_TOPIC", f"{ottla_topic}-payments")


def test_an_order_is_stored_and_published(ottla_broker, ottla_topic):
    answer = Client().post("/orders", {"item": "desk"}, content_type="application/json")
    assert answer.status_code == 201
    [event] = kafka.read_topic(ottla_broker.bootstrap_servers, ottla_topic, value_deserializer=json.loads)
    assert event.value == {"id": answer.json()["id"], "item": "desk"}
    assert Order.objects.get(id=answer.json()["id"]).is_paid is False


def test_a_payment_is_consumed_once(ottla_broker, ottla_topic):
    order = Order.objects.create(item="lamp")
    producer = Producer({"bootstrap.servers": ottla_broker.bootstrap_servers})
    producer.produce(settings.PAYMENTS_TOPIC, json.dumps({"order": order.id}))
    producer.flush()

    call_command("consume_payments", count=1)
    order.refresh_from_db()
    assert order.is_paid
    kafka.wait_for_no_lag(ottla_broker.bootstrap_servers, f"{settings.PAYMENTS_TOPIC}-shop")
