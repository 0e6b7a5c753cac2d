"""What the settings of security towards ZooKeeper do: a broker on a ZooKeeper with TLS and SASL."""

import json

import pytest

from broker.broker import Broker
from broker.settings.config import BrokerConfig
from broker.settings.zookeeper import load_zookeeper_security
from client.admin.admin import Admin
from client.admin.quotas import QuotaEntity
from client.admin.types import ConfigChange, ResourceType
from client.producer.producer import Producer
from registry.errors import ConnectionLossError, NoAuthError, RegistryLoginError
from registry.zookeeper.address import ZooKeeperAddress
from registry.zookeeper.registry import ZooKeeperRegistry
from registry.zookeeper.settings import NETTY_SOCKET
from security.jaas import KERBEROS_MODULE, ZOOKEEPER_MODULE
from security.principal import Principal
from storage.setting import ConfigError
from support.authorization import allow, authorized_broker
from support.broker import running_broker, settings
from support.certificates import authority, client_certificate
from support.effects import shows
from support.kerberos import REALM, running_realm
from support.kerberos_zookeeper import kerberos_zookeeper
from support.reference import REFERENCE
from support.secured_zookeeper import secured_zookeeper
from support.tcp_proxy import TcpProxy
from support.zookeeper import new_chroot

LOGIN = "ottla.zookeeper.sasl.jaas.config"
SSL = "zookeeper.ssl."


def jaas(user="kafka", password="kafka-secret"):
    return f'{ZOOKEEPER_MODULE} required username="{user}" password="{password}";'


@pytest.fixture(scope="module")
def stores(tmp_path_factory):
    folder = tmp_path_factory.mktemp("stores")
    client_certificate().write(folder / "client.p12")
    authority().write(folder / "ca.p12")
    return folder


def tls(stores, **others):
    """Settings of TLS with stores in PKCS12."""
    server = secured_zookeeper()
    values = {
        "zookeeper.connect": f"{server.tls_address}{new_chroot()}",
        "zookeeper.clientCnxnSocket": NETTY_SOCKET,
        f"{SSL}client.enable": "true",
        f"{SSL}truststore.location": str(stores / "ca.p12"),
        f"{SSL}truststore.password": "secret",
    }
    return values | {SSL + name.replace("_", "."): value for name, value in others.items()}


def with_key(stores):
    return {"keystore_location": str(stores / "client.p12"), "keystore_password": "secret"}


def sasl(line=None):
    return {"zookeeper.connect": f"{secured_zookeeper().address}{new_chroot()}", LOGIN: line or jaas()}


async def start_fails(tmp_path, values, error, match):
    values = {"zookeeper.connection.timeout.ms": "1000"} | values
    with pytest.raises(error, match=match) as caught:
        await Broker(BrokerConfig.load(None, settings(tmp_path / "data") | values)).run()
    assert "secret" not in str(caught.value)


def tls_of(broker):
    """The TLS connection of a broker to ZooKeeper."""
    return broker.services.registry_access.registry._session._handler.socket_in_use._socket


async def acls_of(connect, security):
    """The ACL of every znode below a chroot, as scheme:id:permissions."""
    registry = ZooKeeperRegistry(ZooKeeperAddress.parse(connect), security=security)
    await registry.start()
    found = {}
    paths = ["/"]
    for path in paths:
        acl, _ = await registry.get_acl(path)
        found[path] = [f"{one.scheme}:{one.id}:{one.permissions}" for one in acl]
        paths += [f"{path.rstrip('/')}/{name}" for name in await registry.children(path)]
    await registry.close()
    return found


def generic(path):
    """A path without the numbers and ids that differ from run to run."""
    parent, _, name = path.rpartition("/")
    if parent == "/delegation_token/tokens":
        return f"{parent}/TOKEN"
    return f"{parent}/N" if name[-10:].isdecimal() else path


def recorded_acls():
    rows = json.loads((REFERENCE / "security" / "zookeeper-set-acl.json").read_text())
    return {generic(row["path"]): row["acl"] for row in rows}


async def fill(broker):
    """Make what the recorded cluster had: a topic, ACLs, quotas, a SCRAM user, a token and dynamic settings."""
    async with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        await admin.create_topic("t", 1, 1, configs={"retention.ms": "100000"})
        await admin.set_scram_password("u", "pencil", ["SCRAM-SHA-256"])
        acls = [allow("User:a", "Read", "Topic", "t"), allow("User:a", "Read", "Topic", "pre", "prefixed")]
        assert set((await admin.create_acls(acls)).values()) == {None}
        quota = {"producer_byte_rate": 1e6}
        await admin.alter_client_quotas({QuotaEntity("u", "c"): quota, QuotaEntity(client_id="c"): quota})
        await admin.alter_client_quotas({QuotaEntity(ip="10.0.0.1"): {"connection_creation_rate": 100}})
        await admin.incremental_alter_configs(ResourceType.BROKER, "0", [ConfigChange("log.cleaner.threads", "2")])
    async with Producer(bootstrap_servers=broker.bootstrap_servers, enable_idempotence=True) as producer:
        await producer.send("t", b"x", partition=0)
    alice = Principal("User", "alice")
    await broker.services.tokens.create(alice, alice, [], -1)


@shows("zookeeper.set.acl", "ottla.zookeeper.sasl.jaas.config")
async def test_every_znode_has_the_recorded_acl(tmp_path):
    values = sasl() | {
        "zookeeper.set.acl": "true",
        "broker.id": "0",
        "delegation.token.secret.key": "token-secret",
        "password.encoder.secret": "encoder-secret",
    }
    security = secured_zookeeper().security(user="kafka")
    async with authorized_broker(tmp_path / "data", **values) as broker:
        await fill(broker)
        found = await acls_of(values["zookeeper.connect"], security)
    chroot_acl = found.pop("/")
    recorded = recorded_acls()
    recorded.pop("/")
    assert chroot_acl == recorded["/brokers"]  # the chroot, which only the broker has
    assert {generic(path): acl for path, acl in found.items()} == recorded


@shows("ottla.zookeeper.sasl.jaas.file", "ottla.zookeeper.sasl.clientconfig")
async def test_the_login_from_a_jaas_file(tmp_path):
    file = tmp_path / "jaas.conf"
    file.write_text(f"Mine {{ {jaas()} }};")
    values = {"ottla.zookeeper.sasl.jaas.file": str(file), "ottla.zookeeper.sasl.clientconfig": "Mine"}
    values["zookeeper.connect"] = sasl()["zookeeper.connect"]
    async with running_broker(tmp_path / "data", **values, **{"zookeeper.set.acl": "true"}):
        found = await acls_of(values["zookeeper.connect"], secured_zookeeper().security(user="kafka"))
        assert found["/config/users"] == ["sasl:kafka:31"]
    file.write_text("KafkaServer { x required; };")
    await start_fails(tmp_path, values, ConfigError, "section Mine")


@pytest.fixture(scope="module")
def realm(tmp_path_factory):
    with running_realm(tmp_path_factory.mktemp("realm")) as running:
        yield running


@pytest.fixture(scope="module")
def kerberos_server(realm, tmp_path_factory):
    with kerberos_zookeeper(tmp_path_factory.mktemp("zookeeper"), realm, "coordination") as running:
        yield running


@shows("ottla.zookeeper.sasl.jaas.config", "ottla.zookeeper.sasl.client.username")
async def test_the_login_with_kerberos(tmp_path, realm, kerberos_server):
    line = f'{KERBEROS_MODULE} required useKeyTab=true keyTab="{realm.keytab("kafka")}" principal="kafka@{REALM}";'
    values = {
        "zookeeper.connect": kerberos_server.kerberos_address + new_chroot(),
        LOGIN: line,
        "ottla.zookeeper.sasl.client.username": "coordination",
        "zookeeper.set.acl": "true",
    }
    async with running_broker(tmp_path / "data", **values):
        security = load_zookeeper_security(BrokerConfig.load(None, settings(tmp_path / "data") | values))
        found = await acls_of(values["zookeeper.connect"], security)
        assert found["/config/users"] == [f"sasl:kafka@{REALM}:31"]
    del values["ottla.zookeeper.sasl.client.username"]
    await start_fails(tmp_path, values, RegistryLoginError, "Server zookeeper/localhost@.* not found")


async def test_a_wrong_password_ends_the_start(tmp_path):
    match = "^ZooKeeper at .* refuses the login: .* refuses user name and password"
    await start_fails(tmp_path, sasl(jaas(password="wrong-secret")), RegistryLoginError, match)


async def test_a_broker_cannot_read_what_another_user_protects(tmp_path):
    values = sasl() | {"zookeeper.set.acl": "true"}
    async with running_broker(tmp_path / "data", **values):
        pass
    other = values | {LOGIN: jaas("other", "other-secret")}
    await start_fails(tmp_path, other, NoAuthError, "the ACL does not allow it")


@shows(
    "zookeeper.ssl.client.enable",
    "zookeeper.clientCnxnSocket",
    "zookeeper.ssl.truststore.location",
    "zookeeper.ssl.truststore.password",
    "zookeeper.ssl.keystore.location",
    "zookeeper.ssl.keystore.password",
)
async def test_tls_with_a_certificate(tmp_path, stores):
    values = tls(stores, **with_key(stores)) | {"zookeeper.set.acl": "true"}
    async with running_broker(tmp_path / "data", **values) as broker:
        assert tls_of(broker).version() == "TLSv1.2"
        security = secured_zookeeper().security(tls=True, certificate=True)
        found = await acls_of(values["zookeeper.connect"], security)
        assert found["/config/users"] == ["x509:CN=client:31"]
        assert found["/brokers/ids"] == ["x509:CN=client:31", "world:anyone:1"]
    for name in ("truststore", "keystore"):
        await start_fails(tmp_path, values | {f"{SSL}{name}.password": "wrong"}, ConfigError, "password is wrong")


@shows(
    "zookeeper.ssl.protocol",
    "zookeeper.ssl.enabled.protocols",
    "zookeeper.ssl.cipher.suites",
    "zookeeper.ssl.truststore.type",
    "zookeeper.ssl.keystore.type",
)
@pytest.mark.parametrize(
    ("others", "version", "cipher"),
    [
        ({"protocol": "TLSv1.3", "truststore_type": "JKS"}, "TLSv1.3", ""),
        ({"enabled_protocols": "TLSv1.3,TLSv1.2", "truststore_type": "PKCS12"}, "TLSv1.3", ""),
        ({"cipher_suites": "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"}, "TLSv1.2", "ECDHE-ECDSA-AES256-GCM-SHA384"),
        ({"cipher_suites": "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"}, "TLSv1.2", "ECDHE-ECDSA-AES128-GCM-SHA256"),
    ],
)
async def test_versions_and_cipher_suites(tmp_path, stores, others, version, cipher):
    key = with_key(stores) | {"keystore_type": "PKCS12"}
    async with running_broker(tmp_path / "data", **tls(stores, **key, **others)) as broker:
        assert tls_of(broker).version() == version
        assert cipher in tls_of(broker).cipher()[0]


async def test_a_store_of_another_type_is_refused(tmp_path, stores):
    for name in ("truststore", "keystore"):
        values = tls(stores, **with_key(stores)) | {f"{SSL}{name}.type": "PEM"}
        await start_fails(tmp_path, values, ConfigError, f"{name}.location=.*contains no")


@shows("zookeeper.ssl.endpoint.identification.algorithm")
async def test_the_host_of_the_certificate(tmp_path, stores):
    async with TcpProxy("127.0.0.1", secured_zookeeper().tls_port, host="127.0.0.2") as proxy:
        values = tls(stores) | {"zookeeper.connect": f"127.0.0.2:{proxy.port}{new_chroot()}"}
        await start_fails(tmp_path, values, ConnectionLossError, "certificate is not accepted: IP address mismatch")
        values[f"{SSL}endpoint.identification.algorithm"] = ""
        async with running_broker(tmp_path / "data", **values):
            assert proxy.accepted


async def test_the_login_of_kafka_opts(tmp_path):
    """As a process of its own starts: with the environment of Kafka's start scripts."""
    file = tmp_path / "jaas.conf"
    file.write_text(f"Client {{ {jaas()} }};")
    environment = {"KAFKA_OPTS": f"-Djava.security.auth.login.config={file}"}
    values = {"zookeeper.connect": sasl()["zookeeper.connect"], "zookeeper.set.acl": "true"}
    config = BrokerConfig.load(None, settings(tmp_path / "data") | values, environment=environment)
    async with Broker(config):
        found = await acls_of(values["zookeeper.connect"], secured_zookeeper().security(user="kafka"))
        assert found["/config/users"] == ["sasl:kafka:31"]
