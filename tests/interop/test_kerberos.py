"""Clients of several vendors over SASL_PLAINTEXT with GSSAPI, with tickets of a real KDC.

confluent-kafka is not among them: the librdkafka of its wheel has no GSSAPI. Debian's kcat has it through Cyrus SASL,
whose module for GSSAPI is another package.
"""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

from ottla import testing
from support.broker import settings
from support.deadlines import DEADLINE_S
from support.kafka_clients import kafka
from support.kerberos import HOST, running_realm
from support.programs import need_kcat
from support.sasl import gssapi


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A broker that all clients use with alice's tickets, which are those of the environment."""
    with running_realm(tmp_path_factory.mktemp("realm")) as realm, pytest.MonkeyPatch.context() as patched:
        keytab = realm.keytab(f"kafka/{HOST}", "alice")
        patched.setenv("KRB5CCNAME", f"FILE:{realm.tickets(keytab, 'alice')}")
        values = {
            **settings(tmp_path_factory.mktemp("data")),
            "listeners": f"PLAINTEXT://127.0.0.1:0,SASL://{HOST}:0",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SASL:SASL_PLAINTEXT",
            "inter.broker.listener.name": "PLAINTEXT",
            **gssapi("SASL", keytab, f"kafka/{HOST}", connections_max_reauth_ms="3600000"),
            "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
            "super.users": "User:ANONYMOUS;User:alice",
            "num.partitions": "1",
        }
        with testing.broker(values) as running:
            yield running.bootstrap_servers


def options(servers: str) -> dict[str, Any]:
    """Those of aiokafka and kafka-python."""
    return {
        "bootstrap_servers": servers,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "GSSAPI",
        "sasl_kerberos_service_name": "kafka",
        "sasl_kerberos_domain_name": HOST,
    }


def aiokafka_round_trip(servers: str, topic: str) -> bytes | None:
    async def run() -> bytes | None:
        async with AIOKafkaProducer(**options(servers)) as producer:
            await producer.send_and_wait(topic, b"value")
        async with AIOKafkaConsumer(
            topic, group_id=topic, auto_offset_reset="earliest", **options(servers)
        ) as consumer:
            value: bytes | None = (await consumer.getone()).value
            return value

    return asyncio.run(run())


def kafka_python_round_trip(servers: str, topic: str) -> bytes | None:
    producer = kafka.KafkaProducer(**options(servers))
    producer.send(topic, b"value").get(DEADLINE_S)
    producer.close()
    consumer = kafka.KafkaConsumer(topic, group_id=topic, auto_offset_reset="earliest", **options(servers))
    try:
        value: bytes | None = next(consumer).value
        return value
    finally:
        consumer.close()


def kcat_round_trip(servers: str, topic: str) -> bytes | None:
    kcat = need_kcat()
    arguments = [kcat, "-b", servers, "-X", "security.protocol=SASL_PLAINTEXT", "-X", "sasl.mechanism=GSSAPI"]
    # librdkafka would run kinit for a keytab; the ticket is there.
    arguments += ["-X", "sasl.kerberos.service.name=kafka", "-X", "sasl.kerberos.kinit.cmd=true"]
    subprocess.run([*arguments, "-P", "-t", topic], input=b"value", check=True, timeout=DEADLINE_S)
    reading = [*arguments, "-C", "-t", topic, "-e", "-q"]
    return subprocess.run(reading, check=True, capture_output=True, timeout=DEADLINE_S).stdout.strip()


ROUND_TRIPS: dict[str, Callable[[str, str], bytes | None]] = {
    "aiokafka": aiokafka_round_trip,
    "kafka-python": kafka_python_round_trip,
    "kcat": kcat_round_trip,
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("client", ROUND_TRIPS)
def test_a_record_makes_the_round_trip(servers: str, client: str) -> None:
    assert ROUND_TRIPS[client](servers, f"from-{client}") == b"value"
