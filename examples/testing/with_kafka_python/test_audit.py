"""The job is called as it is: it needs nothing but an address."""

import audit
import pytest
from kafka import KafkaProducer

from ottla.testing import assertions as kafka


@pytest.fixture
def producer(ottla_broker):
    producer = KafkaProducer(bootstrap_servers=ottla_broker.bootstrap_servers)
    yield producer
    producer.close()


def test_a_login_is_counted_once(ottla_broker, ottla_topic, producer):
    servers = ottla_broker.bootstrap_servers
    for user in (b"franz", b"max", b"franz"):
        producer.send(ottla_topic, b"login", key=user).get(30)

    assert audit.count_logins(servers, ottla_topic) == {"franz": 2, "max": 1}
    kafka.wait_for_no_lag(servers, f"{ottla_topic}-audit", topics=[ottla_topic])
    assert audit.count_logins(servers, ottla_topic) == {}
