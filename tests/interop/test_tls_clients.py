"""confluent-kafka, kcat, aiokafka, kafka-python and Ottla's client over TLS, with a required client certificate.

Each writes records, reads them as a member of a group, and is refused without a certificate.
"""

import asyncio
import itertools
import ssl
import subprocess
import warnings

import pytest
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from ottla.cluster.ports import free_ports
from support.broker import BrokerProcess
from support.certificates import client_certificate
from support.deadlines import DEADLINE_MS, DEADLINE_S
from support.polling import until_blocking
from support.programs import need_kcat
from support.tls_listening import tls_settings

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # kafka-python warns when imported by Python 3.11
    import kafka

TOPICS = itertools.count()
VALUES = [b"x" * size for size in (1, 100, 20_000, 300_000)] + [b"%d" % number for number in range(100)]


@pytest.fixture(scope="module")
def tls(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tls")
    plain, secure = free_ports(2)
    values = tls_settings(folder) | {
        "listeners": f"PLAINTEXT://127.0.0.1:{plain},SSL://127.0.0.1:{secure}",
        "ssl.client.auth": "required",
        "group.initial.rebalance.delay.ms": "0",
    }
    with BrokerProcess(folder / "data", values, port=plain) as process:
        client_certificate().write(folder / "client.pem")
        yield Tls(f"127.0.0.1:{secure}", folder)
        assert "Traceback" not in process.log_text()


class Tls:
    """The address of a broker's TLS listener, and what clients need to reach it."""

    def __init__(self, servers, folder):
        self.servers = servers
        self._folder = folder

    def librdkafka(self, *, certificate=True):
        settings = {
            "bootstrap.servers": self.servers,
            "security.protocol": "ssl",
            "ssl.ca.location": str(self._folder / "ca.pem"),
        }
        if certificate:
            file = str(self._folder / "client.pem")
            settings |= {"ssl.certificate.location": file, "ssl.key.location": file}
        return settings

    def python(self, *, certificate=True):
        context = ssl.create_default_context(cafile=self._folder / "ca.pem")
        if certificate:
            context.load_cert_chain(self._folder / "client.pem")
        return {"bootstrap_servers": self.servers, "security_protocol": "SSL", "ssl_context": context}

    def new_topic(self):
        name = f"tls-{next(TOPICS)}"
        admin = AdminClient(self.librdkafka())
        admin.create_topics([NewTopic(name, 1, 1)])[name].result(DEADLINE_S)
        return name


def test_confluent_kafka_with_a_transaction_and_a_group(tls):
    topic = tls.new_topic()
    producer = Producer(tls.librdkafka() | {"transactional.id": topic, "message.max.bytes": 2_000_000})
    producer.init_transactions(DEADLINE_S)
    producer.begin_transaction()
    for value in VALUES:
        producer.produce(topic, value)
    producer.commit_transaction(DEADLINE_S)
    consumer = Consumer(tls.librdkafka() | {"group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    found = []
    while len(found) < len(VALUES):
        message = consumer.poll(DEADLINE_S)
        assert message is not None
        assert message.error() is None
        found.append(message.value())
    assert found == VALUES
    consumer.commit(asynchronous=False)
    consumer.close()


def test_librdkafka_without_a_certificate_is_refused(tls):
    errors = []
    producer = Producer(tls.librdkafka(certificate=False) | {"error_cb": errors.append})
    with pytest.raises(KafkaException):
        producer.list_topics(timeout=1)

    def is_told():
        producer.poll(0.05)
        return any("certificate required" in str(error) for error in errors)

    until_blocking(is_told, "the error is the alert, not a lost connection")


def test_kcat(tls, tmp_path):
    topic = tls.new_topic()
    options = [word for name, value in tls.librdkafka().items() for word in ("-X", f"{name}={value}")]
    file = tmp_path / "value"
    file.write_bytes(VALUES[2])

    def kcat(*words):
        command = [need_kcat(), "-q", *options, *words]
        return subprocess.run(command, capture_output=True, check=True, timeout=DEADLINE_S).stdout

    kcat("-P", "-t", topic, str(file))
    assert kcat("-C", "-t", topic, "-o", "beginning", "-c", "1") == VALUES[2] + b"\n"
    assert kcat("-G", f"group-{topic}", "-X", "auto.offset.reset=earliest", "-c", "1", topic) == VALUES[2] + b"\n"


async def test_aiokafka(tls):
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
    from aiokafka.errors import KafkaConnectionError

    topic = tls.new_topic()
    async with AIOKafkaProducer(**tls.python(), max_request_size=2_000_000) as producer:
        for value in VALUES:
            await producer.send(topic, value)
    consumer = AIOKafkaConsumer(topic, group_id=topic, auto_offset_reset="earliest", **tls.python())
    async with consumer, asyncio.timeout(DEADLINE_S):
        assert [(await consumer.getone()).value for _ in VALUES] == VALUES
        await consumer.commit()
    refused = AIOKafkaProducer(**tls.python(certificate=False))
    with pytest.raises(KafkaConnectionError):
        await refused.start()
    await refused.stop()


def test_kafka_python(tls):
    topic = tls.new_topic()
    producer = kafka.KafkaProducer(**tls.python(), max_request_size=2_000_000)
    sent = [producer.send(topic, value) for value in VALUES]
    for future in sent:
        future.get(DEADLINE_S)
    producer.close()
    consumer = kafka.KafkaConsumer(topic, group_id=topic, auto_offset_reset="earliest", **tls.python())
    found = []
    while len(found) < len(VALUES):
        polled = consumer.poll(DEADLINE_MS)
        assert polled
        found += [message.value for messages in polled.values() for message in messages]
    assert found == VALUES
    consumer.commit()
    consumer.close()
