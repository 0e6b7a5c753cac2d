"""Clients of several vendors over every kind of listener, with every mechanism that each has.

Each creates a topic, writes to it in a transaction that it aborts and in one that it commits, and reads as a member of
a group. kcat has neither transactions nor the creation of topics.

Tokens of OAUTHBEARER are unsigned on some listeners and signed (RS256) on others: from a function of the program, or,
with librdkafka's method oidc, from a token endpoint. A kcat without that method cannot send a signed token.
"""

from __future__ import annotations

import asyncio
import re
import ssl
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import confluent_kafka
import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.abc import AbstractTokenProvider
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.admin import NewTopic as AioNewTopic
from confluent_kafka.admin import AdminClient, NewTopic

from ottla import testing
from ottla.cluster.ports import free_ports
from support.broker import settings
from support.certificates import client_certificate
from support.cluster_security import unsigned_token
from support.deadlines import DEADLINE_S
from support.kafka_clients import kafka
from support.programs import need_kcat
from support.sasl import PLAIN_JAAS, listener_settings, signed, unsecured
from support.tls_listening import tls_settings
from support.token_issuer import AUDIENCE, CLIENT, LIFETIME_S, SECRET, TokenIssuer

PASSWORD = "alice-secret"
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
SIGNED = "OAUTHBEARER RS256"
OIDC = "OAUTHBEARER RS256 oidc"
SASL_PROTOCOLS = ("SASL_PLAINTEXT", "SASL_SSL")
SASL_KINDS = [(protocol, one) for protocol in SASL_PROTOCOLS for one in (*MECHANISMS, SIGNED, OIDC)]
KINDS = [("PLAINTEXT", ""), ("SSL", ""), *SASL_KINDS]


class Way(NamedTuple):
    """How a client connects to a listener. `kind` begins with the mechanism; `folder` has the certificates."""

    servers: str
    protocol: str
    kind: str
    folder: Path
    issuer: TokenIssuer

    @property
    def mechanism(self) -> str:
        """The mechanism of SASL; empty for none."""
        return self.kind.partition(" ")[0]

    def token(self) -> str:
        """A token for alice."""
        return self.issuer.token("alice") if self.kind == SIGNED else unsigned_token("alice")

    def librdkafka(self, password: str = PASSWORD) -> dict[str, Any]:
        """librdkafka's settings."""
        found: dict[str, Any] = {"bootstrap.servers": self.servers, "security.protocol": self.protocol}
        if self.protocol.endswith("SSL"):
            found["ssl.ca.location"] = str(self.folder / "ca.pem")
        if self.protocol == "SSL":
            own = str(self.folder / "client.pem")
            found |= {"ssl.certificate.location": own, "ssl.key.location": own}
        if self.mechanism:
            found["sasl.mechanism"] = self.mechanism
        if self.kind == OIDC:
            return found | {
                "sasl.oauthbearer.method": "oidc",
                "sasl.oauthbearer.client.id": CLIENT,
                "sasl.oauthbearer.client.secret": SECRET,
                "sasl.oauthbearer.scope": "alice",
                "sasl.oauthbearer.token.endpoint.url": self.issuer.endpoint_url,
            }
        if self.kind == SIGNED:
            return found | {"oauth_cb": lambda _: (self.token(), time.time() + LIFETIME_S)}
        if self.mechanism == "OAUTHBEARER":
            return found | {"enable.sasl.oauthbearer.unsecure.jwt": True, "sasl.oauthbearer.config": "principal=alice"}
        if self.mechanism:
            found |= {"sasl.username": "alice", "sasl.password": password}
        return found

    def python(self, provider: type[Any], token: Any) -> dict[str, Any]:
        """The options of aiokafka and kafka-python. provider: its class of providers of tokens. token: its method."""
        found: dict[str, Any] = {"bootstrap_servers": self.servers, "security_protocol": self.protocol}
        if self.protocol.endswith("SSL"):
            found["ssl_context"] = ssl.create_default_context(cafile=self.folder / "ca.pem")
        if self.protocol == "SSL":
            found["ssl_context"].load_cert_chain(self.folder / "client.pem")
        if self.mechanism:
            found["sasl_mechanism"] = self.mechanism
        if self.mechanism == "OAUTHBEARER":
            found["sasl_oauth_token_provider"] = type("Tokens", (provider,), {"token": token})()
        elif self.mechanism:
            found |= {"sasl_plain_username": "alice", "sasl_plain_password": PASSWORD}
        return found


@pytest.fixture(scope="module")
def ways(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[tuple[str, str], Way]]:
    """A broker with a listener of each protocol, all mechanisms on those with SASL, and alice in each of them."""
    folder = tmp_path_factory.mktemp("secured")
    signing = {f"SIGNED_{protocol}": protocol for protocol in SASL_PROTOCOLS}
    protocols = {name: name for name in ("PLAINTEXT", "SSL", *SASL_PROTOCOLS)} | signing
    ports = dict(zip(protocols, free_ports(len(protocols)), strict=True))
    values = {
        **settings(folder / "data"),
        **tls_settings(folder),
        "listeners": ",".join(f"{name}://127.0.0.1:{port}" for name, port in ports.items()),
        "listener.security.protocol.map": ",".join(f"{name}:{protocol}" for name, protocol in protocols.items()),
        "listener.name.ssl.ssl.client.auth": "required",
        "group.initial.rebalance.delay.ms": "0",
        "num.partitions": "1",
    }
    for protocol in SASL_PROTOCOLS:
        values |= listener_settings(protocol, *MECHANISMS) | unsecured(protocol)
        values[f"listener.name.{protocol.lower()}.plain.sasl.jaas.config"] = PLAIN_JAAS
    client_certificate().write(folder / "client.pem")
    with TokenIssuer() as issuer:
        (folder / "jwks.json").write_text(issuer.key_set)
        for name, key_set in zip(signing, (folder / "jwks.json", issuer.key_set_url), strict=True):
            values |= listener_settings(name, "OAUTHBEARER") | signed(name, key_set, expected_audience=AUDIENCE)
        with testing.broker(values):
            found = {}
            for protocol, kind in KINDS:
                name = f"SIGNED_{protocol}" if kind in (SIGNED, OIDC) else protocol
                found[protocol, kind] = Way(f"127.0.0.1:{ports[name]}", protocol, kind, folder, issuer)
            add_scram_users(found["SASL_SSL", "PLAIN"])
            yield found


def add_scram_users(way: Way) -> None:
    """Give alice a password for each mechanism, by confluent-kafka."""
    admin = AdminClient(way.librdkafka())
    scram = confluent_kafka.admin.ScramMechanism
    for mechanism in (scram.SCRAM_SHA_256, scram.SCRAM_SHA_512):
        info = confluent_kafka.admin.ScramCredentialInfo(mechanism, 4096)
        change = confluent_kafka.admin.UserScramCredentialUpsertion("alice", info, PASSWORD.encode())
        for done in admin.alter_user_scram_credentials([change]).values():
            done.result(DEADLINE_S)
    described = admin.describe_user_scram_credentials(["alice"])["alice"].result(DEADLINE_S)
    assert len(described.scram_credential_infos) == 2


# -- what each client does ---------------------------------------------------------------------------------------------


def with_confluent_kafka(way: Way, topic: str) -> bytes | None:
    admin = AdminClient(way.librdkafka())
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(DEADLINE_S)
    assert topic in admin.list_topics(timeout=DEADLINE_S).topics
    producer = confluent_kafka.Producer(way.librdkafka() | {"transactional.id": topic})
    producer.init_transactions(DEADLINE_S)
    for value in (b"aborted", b"committed"):
        producer.begin_transaction()
        producer.produce(topic, value)
        assert producer.flush(DEADLINE_S) == 0
        (producer.commit_transaction if value == b"committed" else producer.abort_transaction)(DEADLINE_S)
    consumer = confluent_kafka.Consumer(way.librdkafka() | {"group.id": topic, "auto.offset.reset": "earliest"})
    try:
        consumer.subscribe([topic])
        message = consumer.poll(DEADLINE_S)
        assert message is not None
        assert message.error() is None
        consumer.commit(message, asynchronous=False)
        value: bytes | None = message.value()
        return value
    finally:
        consumer.close()


def with_aiokafka(way: Way, topic: str) -> bytes | None:
    async def token(_: Any) -> str:
        return way.token()

    return asyncio.run(_with_aiokafka(way.python(AbstractTokenProvider, token), topic))


async def _with_aiokafka(options: dict[str, Any], topic: str) -> bytes | None:
    admin = AIOKafkaAdminClient(**options)
    await admin.start()
    try:
        assert [error[1] for error in (await admin.create_topics([AioNewTopic(topic, 1, 1)])).topic_errors] == [0]
        assert topic in await admin.list_topics()
    finally:
        await admin.close()
    async with AIOKafkaProducer(**options, transactional_id=topic) as producer:
        for value in (b"aborted", b"committed"):
            await producer.begin_transaction()
            await producer.send_and_wait(topic, value)
            await (producer.commit_transaction() if value == b"committed" else producer.abort_transaction())
    reading = {"group_id": topic, "auto_offset_reset": "earliest", "isolation_level": "read_committed"}
    async with AIOKafkaConsumer(topic, **reading, **options) as consumer, asyncio.timeout(DEADLINE_S):
        message = await consumer.getone()
        await consumer.commit()
        value: bytes | None = message.value
        return value


def with_kafka_python(way: Way, topic: str) -> bytes | None:
    from kafka.net.sasl.oauth import AbstractTokenProvider as Provider

    options = way.python(Provider, lambda _: way.token())
    admin = kafka.KafkaAdminClient(**options)
    admin.create_topics([kafka.admin.NewTopic(topic, 1, 1)])
    assert topic in admin.list_topics()
    admin.close()
    producer = kafka.KafkaProducer(**options, transactional_id=topic)
    producer.init_transactions()
    for value in (b"aborted", b"committed"):
        producer.begin_transaction()
        producer.send(topic, value).get(DEADLINE_S)
        (producer.commit_transaction if value == b"committed" else producer.abort_transaction)()
    producer.close()
    reading = {"group_id": topic, "auto_offset_reset": "earliest", "isolation_level": "read_committed"}
    consumer = kafka.KafkaConsumer(topic, **reading, **options)
    try:
        value_read: bytes | None = next(consumer).value
        consumer.commit()
        return value_read
    finally:
        consumer.close()


def with_kcat(way: Way, topic: str) -> bytes | None:
    arguments = [need_kcat(), "-q"]
    for name, value in way.librdkafka().items():
        arguments += ["-X", f"{name}={str(value).lower() if value is True else value}"]
    subprocess.run([*arguments, "-P", "-t", topic], input=b"committed", check=True, timeout=DEADLINE_S)
    reading = [*arguments, "-X", "auto.offset.reset=earliest", "-c", "1", "-G", topic, topic]
    return subprocess.run(reading, check=True, capture_output=True, timeout=DEADLINE_S).stdout.strip()


def about_kcat() -> str:
    """What kcat says about its version and its librdkafka."""
    return subprocess.run([need_kcat(), "-V"], check=True, capture_output=True, text=True).stdout


def kcat_repeats_its_nonce() -> bool:
    """librdkafka before 2.6.1 sends a wrong nonce, which Kafka accepted before 3.9 (CVE-2024-56128)."""
    shown = about_kcat()
    found = re.search(r"librdkafka (\d+)\.(\d+)\.(\d+)", shown)
    assert found is not None
    return tuple(int(number) for number in found.groups()) < (2, 6, 1)


CLIENTS: dict[str, Callable[[Way, str], bytes | None]] = {
    "confluent-kafka": with_confluent_kafka,
    "aiokafka": with_aiokafka,
    "kafka-python": with_kafka_python,
    "kcat": with_kcat,
}
ABLE = {SIGNED: ("confluent-kafka", "aiokafka", "kafka-python"), OIDC: ("confluent-kafka", "kcat")}
"""Whose programs give the client a signed token, and which clients fetch it from a token endpoint themselves."""
CASES = [(client, kind) for client in CLIENTS for kind in KINDS if client in ABLE.get(kind[1], CLIENTS)]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("client", "kind"), CASES, ids=lambda part: part if isinstance(part, str) else " ".join(part).strip()
)
def test_admin_transactions_and_groups(ways: dict[tuple[str, str], Way], client: str, kind: tuple[str, str]) -> None:
    topic = "-".join((client, *kind)).replace(" ", "-")
    if client == "kcat" and kind[1].startswith("SCRAM") and kcat_repeats_its_nonce():
        with pytest.raises(subprocess.CalledProcessError):
            with_kcat(ways[kind], topic)
        return
    if client == "kcat" and kind[1] == OIDC and "oidc" not in about_kcat():
        with pytest.raises(subprocess.CalledProcessError):
            with_kcat(ways[kind], topic)
        return
    fetched = ways[kind].issuer.fetched
    assert CLIENTS[client](ways[kind], topic) == b"committed"
    assert (ways[kind].issuer.fetched > fetched) == (kind[1] == OIDC)


@pytest.mark.parametrize("kind", ["PLAIN", "SCRAM-SHA-256", SIGNED])
def test_librdkafka_reports_a_wrong_login(ways: dict[tuple[str, str], Way], kind: str) -> None:
    """A wrong password; where tokens must be signed, one that is not."""
    errors: list[Any] = []
    values = ways["SASL_PLAINTEXT", kind].librdkafka("wrong") | {"error_cb": errors.append}
    if kind == SIGNED:
        values["oauth_cb"] = lambda _: (unsigned_token("alice"), time.time() + LIFETIME_S)
    producer = confluent_kafka.Producer(values)
    deadline = time.monotonic() + DEADLINE_S
    while not errors and time.monotonic() < deadline:
        producer.poll(0.05)
    assert errors
    assert errors[0].code() == confluent_kafka.KafkaError._AUTHENTICATION
    producer.purge()
    producer.flush(DEADLINE_S)
