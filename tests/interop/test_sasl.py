"""Clients of several vendors over SASL_PLAINTEXT, with every mechanism that each has."""

from __future__ import annotations

import asyncio
import base64
import json
import re
import subprocess
import time
from collections.abc import Callable, Iterator
from typing import Any

import confluent_kafka
import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.abc import AbstractTokenProvider
from confluent_kafka.admin import AdminClient

from ottla import testing
from support.broker import settings
from support.deadlines import DEADLINE_S
from support.kafka_clients import kafka
from support.programs import need_kcat
from support.sasl import PLAIN_JAAS, listener_settings, sasl_listeners, unsecured

PASSWORD = "alice-secret"
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A broker with all mechanisms on its listener SASL, and alice in each of them."""
    values = {
        **settings(tmp_path_factory.mktemp("sasl") / "data"),
        **sasl_listeners("SASL"),
        **listener_settings("SASL", *MECHANISMS),
        **unsecured("SASL"),
        "listener.name.sasl.plain.sasl.jaas.config": PLAIN_JAAS,
        "num.partitions": "1",
    }
    with testing.broker(values) as running:
        servers = running.bootstrap_servers
        admin = AdminClient(confluent("PLAIN", servers))
        scram = confluent_kafka.admin.ScramMechanism
        for mechanism in (scram.SCRAM_SHA_256, scram.SCRAM_SHA_512):
            info = confluent_kafka.admin.ScramCredentialInfo(mechanism, 4096)
            change = confluent_kafka.admin.UserScramCredentialUpsertion("alice", info, PASSWORD.encode())
            for done in admin.alter_user_scram_credentials([change]).values():
                done.result(DEADLINE_S)
        described = admin.describe_user_scram_credentials(["alice"])["alice"].result(DEADLINE_S)
        assert len(described.scram_credential_infos) == 2
        yield servers


def unsigned_token() -> str:
    """A token of alice without a signature."""

    def section(value: object) -> str:
        return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")

    claims = {"sub": "alice", "iat": int(time.time()), "exp": int(time.time()) + 3600}
    return f"{section({'alg': 'none'})}.{section(claims)}."


def confluent(mechanism: str, servers: str, password: str = PASSWORD) -> dict[str, Any]:
    """librdkafka's settings."""
    found: dict[str, Any] = {
        "bootstrap.servers": servers,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
    }
    if mechanism == "OAUTHBEARER":
        return found | {"enable.sasl.oauthbearer.unsecure.jwt": True, "sasl.oauthbearer.config": "principal=alice"}
    return found | {"sasl.username": "alice", "sasl.password": password}


def confluent_round_trip(servers: str, mechanism: str, topic: str) -> bytes | None:
    producer = confluent_kafka.Producer(confluent(mechanism, servers))
    producer.produce(topic, b"value")
    assert producer.flush(DEADLINE_S) == 0
    group = {"group.id": topic, "auto.offset.reset": "earliest"}
    consumer = confluent_kafka.Consumer(confluent(mechanism, servers) | group)
    try:
        consumer.subscribe([topic])
        message = consumer.poll(DEADLINE_S)
        assert message is not None
        assert message.error() is None
        value: bytes | None = message.value()
        return value
    finally:
        consumer.close()


class Tokens(AbstractTokenProvider):
    """The tokens of aiokafka."""

    async def token(self) -> str:
        return unsigned_token()


def aiokafka_round_trip(servers: str, mechanism: str, topic: str) -> bytes | None:
    async def run() -> bytes | None:
        values: dict[str, Any] = {
            "bootstrap_servers": servers,
            "security_protocol": "SASL_PLAINTEXT",
            "sasl_mechanism": mechanism,
        }
        if mechanism == "OAUTHBEARER":
            values["sasl_oauth_token_provider"] = Tokens()
        else:
            values |= {"sasl_plain_username": "alice", "sasl_plain_password": PASSWORD}
        async with AIOKafkaProducer(**values) as producer:
            await producer.send_and_wait(topic, b"value")
        async with AIOKafkaConsumer(topic, group_id=topic, auto_offset_reset="earliest", **values) as consumer:
            value: bytes | None = (await consumer.getone()).value
            return value

    return asyncio.run(run())


def kafka_python_round_trip(servers: str, mechanism: str, topic: str) -> bytes | None:
    values: dict[str, Any] = {
        "bootstrap_servers": servers,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": mechanism,
    }
    if mechanism == "OAUTHBEARER":
        from kafka.net.sasl.oauth import AbstractTokenProvider as Provider

        class KafkaPythonTokens(Provider):  # type: ignore[misc]
            def token(self) -> str:
                return unsigned_token()

        values["sasl_oauth_token_provider"] = KafkaPythonTokens()
    else:
        values |= {"sasl_plain_username": "alice", "sasl_plain_password": PASSWORD}
    producer = kafka.KafkaProducer(**values)
    producer.send(topic, b"value").get(DEADLINE_S)
    producer.close()
    consumer = kafka.KafkaConsumer(topic, group_id=topic, auto_offset_reset="earliest", **values)
    try:
        value: bytes | None = next(consumer).value
        return value
    finally:
        consumer.close()


def kcat_round_trip(servers: str, mechanism: str, topic: str) -> bytes | None:
    arguments = [need_kcat(), "-b", servers]
    for name, value in confluent(mechanism, servers).items():
        if name != "bootstrap.servers":
            arguments += ["-X", f"{name}={str(value).lower() if value is True else value}"]
    subprocess.run([*arguments, "-P", "-t", topic], input=b"value", check=True, timeout=DEADLINE_S)
    reading = [*arguments, "-C", "-t", topic, "-e", "-q"]
    return subprocess.run(reading, check=True, capture_output=True, timeout=DEADLINE_S).stdout.strip()


def kcat_repeats_its_nonce() -> bool:
    """librdkafka before 2.6.1 sends a wrong nonce, which Kafka accepted before 3.9 (CVE-2024-56128)."""
    shown = subprocess.run([need_kcat(), "-V"], check=True, capture_output=True, text=True).stdout
    found = re.search(r"librdkafka (\d+)\.(\d+)\.(\d+)", shown)
    assert found is not None
    return tuple(int(number) for number in found.groups()) < (2, 6, 1)


ROUND_TRIPS: dict[str, Callable[[str, str, str], bytes | None]] = {
    "confluent-kafka": confluent_round_trip,
    "aiokafka": aiokafka_round_trip,
    "kafka-python": kafka_python_round_trip,
    "kcat": kcat_round_trip,
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("client", ROUND_TRIPS)
def test_a_record_makes_the_round_trip(broker: str, client: str, mechanism: str) -> None:
    if client == "kcat" and mechanism.startswith("SCRAM") and kcat_repeats_its_nonce():
        with pytest.raises(subprocess.CalledProcessError):
            kcat_round_trip(broker, mechanism, f"{client}-{mechanism}")
        return
    assert ROUND_TRIPS[client](broker, mechanism, f"{client}-{mechanism}") == b"value"


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
def test_librdkafka_reports_a_wrong_password(broker: str, mechanism: str) -> None:
    errors: list[Any] = []
    values = confluent(mechanism, broker, "wrong") | {"error_cb": errors.append}
    producer = confluent_kafka.Producer(values)
    deadline = time.monotonic() + DEADLINE_S
    while not errors and time.monotonic() < deadline:
        producer.poll(0.05)
    assert errors
    assert errors[0].code() == confluent_kafka.KafkaError._AUTHENTICATION
    producer.purge()
    producer.flush(DEADLINE_S)
