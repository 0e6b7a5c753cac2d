"""Two brokers that have only a secured listener: every connection between them, and that of a client, is over it."""

import asyncio
import base64
import contextlib
import csv
import random
import tempfile

import pytest

from broker.broker import Broker
from broker.cluster.inter_broker import inter_broker_security
from broker.settings.config import BrokerConfig
from client.admin.admin import Admin
from client.consumer.consumer import Consumer
from client.errors import AuthenticationError, NoBrokersAvailableError
from client.producer.producer import Producer
from client.wire.client_security import connection_security
from client.wire.connection import Connection
from client.wire.security_options import SecurityOptions
from protocol.messages.create_delegation_token import CreateDelegationTokenRequest, CreateDelegationTokenResponse
from protocol.messages.metadata import MetadataRequest, MetadataResponse
from security.jaas import PLAIN_MODULE, SCRAM_MODULE
from storage.setting import ConfigError
from support.broker import settings
from support.certificates import LOCAL, authority, other_authority, server_certificate
from support.cluster_security import JAAS
from support.polling import until
from support.reference import REFERENCE
from support.sasl import HANDLER, UNSECURED_HANDLER, credentials, store_with_users

NAME = "INTERNAL"
SUBJECT = "CN=broker,O=Ottla,C=DE"  # of server_certificate()
PREFIX = f"listener.name.{NAME.lower()}."
KINDS = ["SSL", *(f"SASL_PLAINTEXT {mechanism}" for mechanism in JAAS), "SASL_SSL SCRAM-SHA-512"]


@pytest.fixture(scope="module")
def stores(tmp_path_factory):
    folder = tmp_path_factory.mktemp("stores")
    server_certificate().write(folder / "server.pem")
    authority().write(folder / "ca.pem")
    other_authority().write(folder / "other-ca.pem")
    authority().issue("CN=old", sans=LOCAL, expired=True).write(folder / "expired.pem")
    authority().issue("CN=other", sans=("elsewhere",)).write(folder / "elsewhere.pem")
    return folder


def tls(stores, key="server.pem", trust="ca.pem"):
    trusted = {"truststore.type": "PEM", "truststore.location": str(stores / trust)} if trust else {}
    names = {"keystore.type": "PEM", "keystore.location": str(stores / key), **trusted}
    return {f"{PREFIX}ssl.{name}": value for name, value in names.items()}


def secured(kind, stores):
    """The settings of a broker."""
    protocol, _, mechanism = kind.partition(" ")
    found = {
        "listeners": f"{NAME}://127.0.0.1:0",
        "listener.security.protocol.map": f"{NAME}:{protocol}",
        "inter.broker.listener.name": NAME,
    }
    if protocol.endswith("SSL"):
        found |= tls(stores)
        found[f"{PREFIX}ssl.client.auth"] = "required" if protocol == "SSL" else "none"
    if mechanism:
        found["sasl.mechanism.inter.broker.protocol"] = mechanism
        found[f"{PREFIX}sasl.enabled.mechanisms"] = mechanism
        found[f"{PREFIX}{mechanism.lower()}.sasl.jaas.config"] = JAAS[mechanism]
    if mechanism == "OAUTHBEARER":
        found[f"{PREFIX}oauthbearer.{HANDLER}"] = UNSECURED_HANDLER
    return found


def for_clients(kind, stores):
    """The options of a client."""
    protocol, _, mechanism = kind.partition(" ")
    found = {"security_protocol": protocol}
    if protocol.endswith("SSL"):
        found |= {"ssl_truststore_type": "PEM", "ssl_truststore_location": str(stores / "ca.pem")}
    if protocol == "SSL":
        found |= {"ssl_keystore_type": "PEM", "ssl_keystore_location": str(stores / "server.pem")}
    if mechanism:
        found |= {"sasl_mechanism": mechanism, "sasl_jaas_config": JAAS[mechanism]}
    return found


@contextlib.asynccontextmanager
async def two_brokers(tmp_path, kind, stores):
    store = await store_with_users({"admin": credentials("admin-secret")})
    try:
        async with contextlib.AsyncExitStack() as stack:
            brokers = []
            for number in range(2):
                own = {"broker.id": str(number), "controlled.shutdown.enable": "false"}
                of_one = settings(tmp_path / str(number)) | secured(kind, stores) | own
                config = BrokerConfig.load(None, of_one)
                brokers.append(await stack.enter_async_context(Broker(config, store=store)))
            await until(lambda: len(brokers[0].metadata.snapshot.brokers) == 2, "both are there")
            yield brokers
    finally:
        await store.close()


@pytest.mark.parametrize("kind", KINDS)
async def test_two_brokers_and_a_client(tmp_path, stores, kind):
    options = for_clients(kind, stores)
    async with two_brokers(tmp_path, kind, stores) as brokers:
        options["bootstrap_servers"] = brokers[0].bootstrap_servers
        async with Admin(**options) as admin:
            await admin.create_topic("t", assignment={0: [0, 1], 1: [1, 0]}, configs={"min.insync.replicas": "2"})
        async with Producer(**options, transactional_id="mover") as producer, producer.transaction():
            for partition in (0, 1):
                await producer.send("t", b"%d" % partition, partition=partition)
        reading = {"group_id": "readers", "auto_offset_reset": "earliest", "isolation_level": "read_committed"}
        async with Consumer("t", **options, **reading) as consumer:
            found = []
            async for record in consumer:
                found.append(record.value)
                if len(found) == 2:
                    break
            await consumer.commit()
        assert sorted(found) == [b"0", b"1"]


async def test_a_client_without_tls(tmp_path, stores):
    config = BrokerConfig.load(None, settings(tmp_path / "data") | secured("SSL", stores))
    async with Broker(config) as broker:
        plain = Admin(bootstrap_servers=broker.bootstrap_servers)
        with pytest.raises(NoBrokersAvailableError, match="the listener expects TLS: set security_protocol"):
            await plain.start()
        await plain.close()


async def test_a_client_with_a_wrong_password(tmp_path, stores):
    kind = "SASL_PLAINTEXT PLAIN"
    wrong = JAAS["PLAIN"].replace('password="admin-secret"', 'password="hunter2"')
    async with two_brokers(tmp_path, kind, stores) as brokers:
        options = for_clients(kind, stores) | {"sasl_jaas_config": wrong}
        with pytest.raises(AuthenticationError, match="SASL_AUTHENTICATION_FAILED") as caught:
            async with Admin(bootstrap_servers=brokers[0].bootstrap_servers, **options):
                pass
        assert "hunter2" not in str(caught.value)


# ---- what starts


def security(values):
    config = BrokerConfig.load(None, values)
    return inter_broker_security(config, config.inter_broker_listener_name, random.Random(1))


@pytest.mark.parametrize(
    ("stores_of", "rule"),
    [
        ({"trust": None}, "the trust store must accept"),
        ({"trust": "other-ca.pem"}, "the trust store must accept"),
        ({"key": "expired.pem"}, "the trust store must accept .*expired"),
    ],
    ids=["keystore only", "truststore does not trust the own certificate", "expired certificate"],
)
def test_stores_that_brokers_cannot_connect_with_are_refused(stores, stores_of, rule):
    values = {name: value for name, value in secured("SSL", stores).items() if ".ssl." not in name}
    with pytest.raises(ConfigError, match=rule):
        security(values | tls(stores, **stores_of))


def test_another_host_name_starts(stores):
    assert security(secured("SSL", stores) | tls(stores, key="elsewhere.pem")).tls is not None


def test_new_files_are_used_for_the_next_connection(stores, tmp_path, monkeypatch):
    server_certificate().write(tmp_path / "server.pem")
    authority().write(tmp_path / "ca.pem")
    found = security(secured("SSL", stores) | tls(tmp_path))
    first = found.tls()
    assert found.tls() is first
    (tmp_path / "server.pem").write_text("damaged")
    assert found.tls() is first
    with monkeypatch.context() as patch:
        patch.setattr(tempfile, "tempdir", str(tmp_path / "none"))
        server_certificate().write(tmp_path / "server.pem")
        assert found.tls() is first
    authority().issue(SUBJECT, sans=LOCAL).write(tmp_path / "server.pem")
    assert found.tls() is not first


def test_new_files_of_another_subject_or_with_fewer_names_are_not_used(stores, tmp_path, caplog):
    """The rules of the listener, which has the same files (security/tls/stores_in_use.py)."""
    server_certificate().write(tmp_path / "server.pem")
    authority().write(tmp_path / "ca.pem")
    found = security(secured("SSL", stores) | tls(tmp_path))
    first = found.tls()
    for subject, names, rule in (("CN=new", LOCAL, "subject must stay"), (SUBJECT, (), "must keep its alternative")):
        caplog.clear()
        authority().issue(subject, sans=names).write(tmp_path / "server.pem")
        assert found.tls() is first
        assert rule in caplog.text
        assert found.tls() is first
        assert len(caplog.records) == 1, "the same files are not tried again"
    allowed = {f"{PREFIX}ssl.allow.dn.changes": "true", f"{PREFIX}ssl.allow.san.changes": "true"}
    server_certificate().write(tmp_path / "server.pem")
    found = security(secured("SSL", stores) | tls(tmp_path) | allowed)
    first = found.tls()
    authority().issue("CN=new").write(tmp_path / "server.pem")
    assert found.tls() is not first


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"sasl.mechanism.inter.broker.protocol": "GSSAPI"}, "sasl.mechanism.inter.broker.protocol"),
        ({"sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-256"}, "sasl.mechanism.inter.broker.protocol"),
        (
            {f"{PREFIX}plain.sasl.jaas.config": f'{PLAIN_MODULE} required user_admin="admin-secret";'},
            f"{PREFIX}plain.sasl.jaas.config",
        ),
    ],
    ids=["mechanism not set", "mechanism not enabled", "no user of its own"],
)
def test_a_login_that_cannot_work_is_refused(stores, changed, named):
    with pytest.raises(ConfigError) as caught:
        security(secured("SASL_PLAINTEXT PLAIN", stores) | changed)
    assert caught.value.name == named
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "rule"),
    [
        ("https://me:hunter2@login/", "=.hidden.: must not contain a user or a password"),
        ("https://me:hunter2@[login/", "=.hidden.: is not a URL"),
        ("file:///token", "=file:///token: must begin with https:// or http://"),
    ],
)
def test_the_url_of_a_token_endpoint_that_cannot_work_is_refused(stores, url, rule):
    with pytest.raises(ConfigError, match=rule) as caught:
        security(secured("SASL_PLAINTEXT OAUTHBEARER", stores) | {"sasl.oauthbearer.token.endpoint.url": url})
    assert caught.value.name == "sasl.oauthbearer.token.endpoint.url"
    assert "hunter2" not in str(caught.value)


def test_a_token_endpoint_is_only_for_oauthbearer(stores):
    url = {"sasl.oauthbearer.token.endpoint.url": "https://login/"}
    assert security(secured("SASL_PLAINTEXT PLAIN", stores) | url) != (None, None)


def test_plaintext_needs_nothing(stores):
    assert security({"listeners": "PLAINTEXT://127.0.0.1:0"}) == (None, None)


async def test_a_client_logs_in_with_a_delegation_token(tmp_path, stores):
    kind = "SASL_SSL SCRAM-SHA-512"
    store = await store_with_users({"admin": credentials("admin-secret")})
    own = {"delegation.token.secret.key": "token-secret"}
    config = BrokerConfig.load(None, settings(tmp_path / "data") | secured(kind, stores) | own)
    options = for_clients(kind, stores)
    async with Broker(config, store=store) as broker:
        security = connection_security(SecurityOptions(**options), random.Random(1))
        host, port = broker.bootstrap_servers.rsplit(":", 1)
        async with await Connection.open(host, int(port), security=security) as connection:
            request = CreateDelegationTokenRequest(renewers=[], max_lifetime_ms=-1)
            token = await connection.call(request, CreateDelegationTokenResponse)
        hmac = base64.b64encode(bytes(token.hmac)).decode()
        user = f'username="{token.token_id}" password="{hmac}" tokenauth="true"'
        options |= {"bootstrap_servers": broker.bootstrap_servers}
        async with Admin(**options | {"sasl_jaas_config": f"{SCRAM_MODULE} required {user};"}) as admin:
            await admin.list_topics()
        other = user.replace(hmac, base64.b64encode(b"another").decode())
        wrong = Admin(**options | {"sasl_jaas_config": f"{SCRAM_MODULE} required {other};"})
        with pytest.raises(AuthenticationError):
            await wrong.start()
        await wrong.close()
    await store.close()


async def test_sessions_between_brokers_and_of_clients_are_renewed(tmp_path, stores):
    kind = "SASL_PLAINTEXT PLAIN"
    short = {f"{PREFIX}plain.connections.max.reauth.ms": "2000"}
    config = BrokerConfig.load(None, settings(tmp_path / "data") | secured(kind, stores) | short)
    async with Broker(config) as broker:
        security = connection_security(SecurityOptions(**for_clients(kind, stores)), random.Random(1))
        host, port = broker.bootstrap_servers.rsplit(":", 1)
        async with await Connection.open(host, int(port), security=security) as connection:
            controller = set(broker.acceptors[NAME].connections)
            first = asyncio.get_running_loop().time()

            async def is_over():
                await connection.call(MetadataRequest(topics=[]), MetadataResponse)
                return asyncio.get_running_loop().time() > first + 3

            await until(is_over, "the first session is over")
            assert not connection.is_closed
            assert controller <= set(broker.acceptors[NAME].connections)


# ---- the rows of start-up.tsv, recorded from Kafka


OURS = {"inter-broker PLAIN, JAAS without username and password": "refuses"}  # Kafka starts, and cannot log in


def recorded_rows():
    with (REFERENCE / "security" / "start-up.tsv").open(newline="") as file:
        for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE):
            if row["configuration"].startswith("inter-broker"):
                yield row["configuration"], OURS.get(row["configuration"], row["result"])


def recorded_settings(row, stores):
    """The settings of a row."""
    ssl = secured("SSL", stores) | {f"{PREFIX}ssl.client.auth": "none"}
    plain, jaas = secured("SASL_PLAINTEXT PLAIN", stores), f"{PREFIX}plain.sasl.jaas.config"
    elsewhere = tls(stores, key="elsewhere.pem")
    without_trust = {name: value for name, value in ssl.items() if "truststore" not in name}
    return {
        "SSL, keystore only": without_trust,
        "SSL, keystore and truststore": ssl,
        "SSL, truststore does not trust the own certificate": ssl | tls(stores, trust="other-ca.pem"),
        "SSL, expired certificate": ssl | tls(stores, key="expired.pem"),
        "SSL, SAN does not match the host": ssl | elsewhere,
        "SSL, SAN does not match, ssl.endpoint.identification.algorithm empty": ssl
        | elsewhere
        | {f"{PREFIX}ssl.endpoint.identification.algorithm": ""},
        "SSL, ssl.client.auth=required": ssl | {f"{PREFIX}ssl.client.auth": "required"},
        "SASL, sasl.mechanism.inter.broker.protocol not set (GSSAPI), only PLAIN enabled": {
            name: value for name, value in plain.items() if name != "sasl.mechanism.inter.broker.protocol"
        },
        "PLAIN, complete": plain,
        "PLAIN, JAAS without username and password": plain | {jaas: f"{PLAIN_MODULE} required user_admin=x;"},
        "PLAIN, wrong own password": plain | {jaas: JAAS["PLAIN"].replace('password="admin-secret"', "password=x")},
        "mechanism SCRAM-SHA-256 enabled, no such user yet": secured("SASL_PLAINTEXT SCRAM-SHA-256", stores),
    }[row.removeprefix("inter-broker ")]


@pytest.mark.parametrize(("row", "result"), list(recorded_rows()))
def test_what_starts_as_in_kafka(stores, row, result):
    values = recorded_settings(row, stores)
    if result == "starts":
        assert security(values) != (None, None)
    else:
        with pytest.raises(ConfigError):
            security(values)
