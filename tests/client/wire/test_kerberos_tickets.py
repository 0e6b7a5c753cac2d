"""Logins of clients with tickets of a real KDC, and brokers that log in to each other with them."""

from __future__ import annotations

import contextlib
import random
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import pytest_asyncio

from broker.broker import Broker
from broker.settings.config import BrokerConfig
from client.admin.admin import Admin
from client.consumer.consumer import Consumer
from client.errors import AuthenticationError, InvalidOptionError, KafkaError
from client.producer.producer import Producer
from client.wire.client_security import connection_security
from client.wire.connection import Connection
from client.wire.security_options import SecurityOptions
from protocol.api_keys import ApiKey
from protocol.messages.metadata import MetadataRequest, MetadataResponse
from registry.embedded.store import EmbeddedStore
from security.jaas import KERBEROS_MODULE
from security.principal import Principal
from support.broker import settings
from support.kerberos import HOST, REALM, Realm, running_realm
from support.polling import until
from support.sasl import gssapi

pytestmark = pytest.mark.asyncio(loop_scope="module")
SASL = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "GSSAPI"}


class Running(NamedTuple):
    """A broker whose only listener has GSSAPI: it logs in to itself, too."""

    realm: Realm
    keytab: Path
    broker: Broker

    @property
    def port(self) -> int:
        return self.broker.acceptors["SASL"].port

    @property
    def servers(self) -> str:
        return f"{HOST}:{self.port}"

    def by_keytab(self, principal: str = "alice") -> dict[str, Any]:
        line = f'{KERBEROS_MODULE} required useKeyTab=true keyTab="{self.keytab}" principal="{principal}";'
        return {**SASL, "sasl_jaas_config": line}

    def users(self) -> set[Principal]:
        return {one.principal for one in self.broker.acceptors["SASL"].connections}


@pytest.fixture(scope="module")
def realm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Realm]:
    with running_realm(tmp_path_factory.mktemp("realm")) as found:
        yield found


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def running(realm: Realm, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Running]:
    keytab = realm.keytab(f"kafka/{HOST}", "alice")
    async with Broker(broker_config(tmp_path_factory.mktemp("data"), keytab)) as broker:
        yield Running(realm, keytab, broker)


def broker_config(folder: Path, keytab: Path, **others: str) -> BrokerConfig:
    """Settings of a broker that logs in to others with the key of its listener."""
    values = {
        **settings(folder),
        "listeners": f"SASL://{HOST}:0",
        "listener.security.protocol.map": "SASL:SASL_PLAINTEXT",
        "inter.broker.listener.name": "SASL",
        "sasl.mechanism.inter.broker.protocol": "GSSAPI",
        **gssapi("SASL", keytab, f"kafka/{HOST}@{REALM}", connections_max_reauth_ms="3600000"),
        "num.partitions": "1",
    }
    return BrokerConfig.load(None, values | others)


async def opened(running: Running, host: str = HOST, **options: Any) -> Connection:
    security = connection_security(SecurityOptions(**options), random.Random(1))
    return await Connection.open(host, running.port, security=security)


async def test_a_record_makes_the_round_trip(running: Running) -> None:
    """The partition has a leader only if the controller has logged in to the broker."""
    options: dict[str, Any] = {"bootstrap_servers": running.servers, **running.by_keytab()}
    async with Admin(**options) as admin:
        assert await admin.list_topics() == []
    async with Producer(**options) as producer:
        await producer.send("castles", b"value")
    async with Consumer("castles", group_id="surveyors", auto_offset_reset="earliest", **options) as consumer:
        async for record in consumer:
            assert record.value == b"value"
            break
    assert Principal("User", "kafka") in running.users()


async def test_brokers_replicate(realm: Realm, tmp_path: Path) -> None:
    """Both replicas must have a record before it is acknowledged."""
    keytab = realm.keytab(f"kafka/{HOST}", "alice", name="replicas")
    options: dict[str, Any] = Running(realm, keytab, None).by_keytab()  # type: ignore[arg-type]
    store = await EmbeddedStore.open()
    async with contextlib.AsyncExitStack() as stack:
        stack.push_async_callback(store.close)
        brokers = []
        for number in ("0", "1"):
            own = {"broker.id": number, "controlled.shutdown.enable": "false"}
            config = broker_config(tmp_path / number, keytab, **own)
            brokers.append(await stack.enter_async_context(Broker(config, store=store)))
        await until(lambda: len(brokers[0].metadata.snapshot.brokers) == 2, "both are there")
        options["bootstrap_servers"] = brokers[0].bootstrap_servers
        async with Admin(**options) as admin:
            await admin.create_topic("t", assignment={0: [0, 1], 1: [1, 0]}, configs={"min.insync.replicas": "2"})
        async with Producer(**options) as producer:
            for partition in (0, 1):
                await producer.send("t", b"value", partition=partition)


async def test_the_ticket_cache_of_the_user(running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KRB5CCNAME", f"FILE:{running.realm.tickets(running.keytab, 'alice')}")
    async with await opened(running, **SASL):
        assert Principal("User", "alice") in running.users()


async def test_bare_tokens(running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker before Kafka 1.0 has version 0 of SaslHandshake; its next frame is the answer to a request."""
    common = Connection.common_version

    def oldest(self: Connection, message: Any, max_version: int | None = None) -> int:
        return 0 if message.API_KEY == ApiKey.SASL_HANDSHAKE else common(self, message, max_version)

    monkeypatch.setattr(Connection, "common_version", oldest)
    async with await opened(running, **running.by_keytab()) as connection:
        assert (await connection.call(MetadataRequest(topics=[]), MetadataResponse, 8)).cluster_id


@pytest.mark.parametrize(
    ("changed", "host", "reason"),
    [
        (SASL, HOST, "no Kerberos ticket for kafka/localhost: No Kerberos credentials available"),
        ({"sasl_kerberos_service_name": "bus"}, HOST, "no Kerberos ticket for bus/localhost: Server bus/localhost"),
        ({}, "127.0.0.1", "no Kerberos ticket for kafka/127.0.0.1: Server kafka/127.0.0.1"),
    ],
)
async def test_a_login_without_a_ticket(running: Running, changed: dict[str, Any], host: str, reason: str) -> None:
    options = changed if changed is SASL else running.by_keytab() | changed
    with pytest.raises(AuthenticationError, match=reason) as refused:
        await opened(running, host, **options)
    assert not refused.value.retriable


async def test_a_kdc_that_cannot_be_reached_may_answer_later(
    running: Running, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KRB5_CONFIG", running.realm.without_kdc())
    (tmp_path / "another.keytab").write_bytes(running.keytab.read_bytes())  # another path: no ticket of other tests
    options = running._replace(keytab=tmp_path / "another.keytab").by_keytab()
    with pytest.raises(KafkaError, match="Cannot contact any KDC") as refused:
        await opened(running, **options)
    assert refused.value.retriable


async def test_without_the_package_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """It needs no KDC and no package."""
    monkeypatch.setitem(sys.modules, "gssapi", None)
    for name in ("security.sasl.kerberos", "client.wire.kerberos_tickets"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    with pytest.raises(InvalidOptionError, match="install ottla with the extra 'kerberos'"):
        connection_security(SecurityOptions(**SASL), random.Random(1))
