"""The settings of the connection to ZooKeeper: what they may combine, and what the files may contain."""

import csv
import dataclasses
import ssl

import pytest

from registry.errors import ZooKeeperSettingError
from registry.zookeeper import settings as settings_module
from registry.zookeeper.security import DigestLogin, TicketLogin
from registry.zookeeper.settings import NETTY_SOCKET, NIO_SOCKET, SETTING_NAMES, ZooKeeperSettings, setting_name
from security.jaas import KERBEROS_MODULE, PLAIN_MODULE, ZOOKEEPER_MODULE
from security.sasl.kerberos_login import KerberosLogin
from support.certificates import authority, client_certificate
from support.reference import REFERENCE

TLS = {"zookeeper.ssl.client.enable": True, "zookeeper.clientCnxnSocket": NETTY_SOCKET}
JAAS = f'{ZOOKEEPER_MODULE} required username="kafka" password="kafka-secret";'
LINE, FILE = "ottla.zookeeper.sasl.jaas.config", "ottla.zookeeper.sasl.jaas.file"


def load(values):
    assert values.keys() <= set(SETTING_NAMES)
    return ZooKeeperSettings.of(values.get).load()


@pytest.fixture(scope="module")
def stores(tmp_path_factory):
    folder = tmp_path_factory.mktemp("stores")
    for name in ("ca.pem", "ca.p12"):
        authority().write(folder / name)
    client_certificate().write(folder / "client.pem")
    client_certificate().write(folder / "encrypted.pem", password="secret")
    client_certificate().write(folder / "client.p12")
    (folder / "client.store").write_bytes((folder / "client.p12").read_bytes())
    (folder / "jaas.conf").write_text(f"KafkaServer {{ {PLAIN_MODULE} required; }};\nClient {{ {JAAS} }};\n")
    (folder / "other.conf").write_text(f"Mine {{ {JAAS} }};\nTwo {{ {JAAS} {JAAS} }};\nNone {{ }};\n")
    (folder / "broken.conf").write_text("Client { password=hush }")
    return folder


def test_without_settings_there_is_nothing():
    security = load({})
    assert (security.tls, security.login, security.sets_acls) == (None, None, False)


def test_every_kafka_setting_of_zookeepers_tls_is_known():
    lines = (REFERENCE / "tables" / "broker-configs.tsv").read_text().splitlines()[1:]
    kafka = {line.split("\t")[0] for line in lines if line.startswith("zookeeper.")}
    others = {"connect", "connection.timeout.ms", "max.in.flight.requests", "session.timeout.ms"}
    others |= {"metadata.migration.enable", "metadata.migration.min.batch.size"}
    assert {name for name in SETTING_NAMES if not name.startswith("ottla.")} == kafka - {
        f"zookeeper.{o}" for o in others
    }


@pytest.mark.parametrize(
    ("key", "password", "kind"),
    [
        ("client.pem", None, None),
        ("encrypted.pem", "secret", None),
        ("client.p12", "secret", None),
        ("client.store", "secret", "PKCS12"),
    ],
)
def test_stores(stores, key, password, kind):
    security = load(
        TLS
        | {
            "zookeeper.ssl.keystore.location": str(stores / key),
            "zookeeper.ssl.keystore.password": password,
            "zookeeper.ssl.keystore.type": kind,
            "zookeeper.ssl.truststore.location": str(stores / ("ca.p12" if key.endswith("p12") else "ca.pem")),
            "zookeeper.ssl.truststore.password": "secret",  # not used for PEM
            "zookeeper.set.acl": True,
        }
    )
    assert security.sets_acls
    context = security.tls()
    assert context.check_hostname
    assert context.minimum_version == context.maximum_version == ssl.TLSVersion.TLSv1_2


@pytest.mark.parametrize(
    ("values", "versions"),
    [
        ({"protocol": "TLSv1.3"}, ("TLSv1_3", "TLSv1_3")),
        ({"protocol": "TLS"}, ("TLSv1_2", "TLSv1_3")),
        ({"enabled.protocols": ("TLSv1.2", "TLSv1.3")}, ("TLSv1_2", "TLSv1_3")),
        (
            {
                "enabled.protocols": ("TLSv1.3",),
                "cipher.suites": ("TLS_AES_256_GCM_SHA384", "TLS_AES_128_GCM_SHA256", "TLS_CHACHA20_POLY1305_SHA256"),
            },
            ("TLSv1_3", "TLSv1_3"),
        ),
    ],
)
def test_versions(values, versions):
    context = load(TLS | {f"zookeeper.ssl.{name}": value for name, value in values.items()}).tls()
    assert (context.minimum_version.name, context.maximum_version.name) == versions


def test_kerberos(monkeypatch):
    monkeypatch.setattr(settings_module, "find_spec", lambda name: name)
    line = {LINE: f"{KERBEROS_MODULE} required useKeyTab=true keyTab=a.keytab principal=kafka;"}
    assert load(line).login == TicketLogin(KerberosLogin("a.keytab", "kafka"), "zookeeper")
    of_service = line | {"ottla.zookeeper.sasl.client.username": "zk"}
    assert load(of_service | {"zookeeper.set.acl": True}).login == TicketLogin(KerberosLogin("a.keytab", "kafka"), "zk")
    monkeypatch.setattr(settings_module, "find_spec", lambda name: None)
    with pytest.raises(ZooKeeperSettingError, match="extra 'kerberos'"):
        load(line)


def test_an_empty_algorithm_does_not_verify_the_host():
    context = load(TLS | {"zookeeper.ssl.endpoint.identification.algorithm": ""}).tls()
    assert not context.check_hostname
    assert context.verify_mode == ssl.CERT_REQUIRED


def test_logins(stores):
    expected = DigestLogin("kafka", "kafka-secret")
    assert load({LINE: JAAS}).login == expected
    assert load({FILE: str(stores / "jaas.conf")}).login == expected
    mine = {FILE: str(stores / "other.conf"), "ottla.zookeeper.sasl.clientconfig": "Mine"}
    assert load(mine | {"zookeeper.set.acl": True}).login == expected
    assert "secret" not in repr(load({LINE: JAAS})) + repr(ZooKeeperSettings.of({LINE: JAAS}.get))


REFUSED = {
    "TLS without Netty": ({"zookeeper.ssl.client.enable": True}, "zookeeper.ssl.client.enable", "needs zookeeper.cli"),
    "TLS with NIO": (TLS | {"zookeeper.clientCnxnSocket": NIO_SOCKET}, "zookeeper.ssl.client.enable", "plain text"),
    "another socket": ({"zookeeper.clientCnxnSocket": "org.Socket"}, "zookeeper.clientCnxnSocket", "must be org"),
    "CRL": (TLS | {"zookeeper.ssl.crl.enable": True}, "zookeeper.ssl.crl.enable", "not supported"),
    "OCSP": (TLS | {"zookeeper.ssl.ocsp.enable": True}, "zookeeper.ssl.ocsp.enable", "not supported"),
    "a trust store without TLS": (
        {"zookeeper.ssl.truststore.location": "x.pem"},
        "zookeeper.ssl.truststore.location",
        "no effect",
    ),
    "versions without TLS": (
        {"zookeeper.ssl.enabled.protocols": ("TLSv1.3",)},
        "zookeeper.ssl.enabled.protocols",
        "no effect",
    ),
    "ACLs without an identity": ({"zookeeper.set.acl": True}, "zookeeper.set.acl", "needs a login"),
    "ACLs with TLS only": (TLS | {"zookeeper.set.acl": True}, "zookeeper.set.acl", "client certificate"),
    "a store of unknown type": (
        TLS | {"zookeeper.ssl.keystore.location": "/x.store"},
        "zookeeper.ssl.keystore.type",
        "must be set",
    ),
    "a missing file": (
        TLS | {"zookeeper.ssl.truststore.location": "/nowhere.pem"},
        "zookeeper.ssl.truststore.location",
        "cannot be read",
    ),
    "a wrong password": (
        TLS | {"zookeeper.ssl.keystore.location": "encrypted.pem", "zookeeper.ssl.keystore.password": "hush"},
        "zookeeper.ssl.keystore.password",
        "is wrong",
    ),
    "no password": (
        TLS | {"zookeeper.ssl.keystore.location": "client.p12"},
        "zookeeper.ssl.keystore.password",
        "must be set",
    ),
    "an unknown version": (TLS | {"zookeeper.ssl.protocol": "TLSv1.4"}, "zookeeper.ssl.protocol", "must be one of"),
    "an old version": (
        TLS | {"zookeeper.ssl.protocol": "TLSv1.1"},
        "zookeeper.ssl.enabled.protocols",
        "older versions",
    ),
    "another algorithm": (
        TLS | {"zookeeper.ssl.endpoint.identification.algorithm": "FOO"},
        "zookeeper.ssl.endpoint.identification.algorithm",
        "must be https",
    ),
    "two logins": ({LINE: JAAS, FILE: "jaas.conf"}, FILE, "must not be set with"),
    "a section without a file": (
        {LINE: JAAS, "ottla.zookeeper.sasl.clientconfig": "Mine"},
        "ottla.zookeeper.sasl.clientconfig",
        "no effect",
    ),
    "another module": ({LINE: f"{PLAIN_MODULE} required username=a password=hush;"}, LINE, "must be one of"),
    "Kerberos without a ticket": (
        {LINE: f"{KERBEROS_MODULE} required;"},
        LINE,
        "useKeyTab=true or useTicketCache=true",
    ),
    "a service of Kerberos with another login": (
        {LINE: JAAS, "ottla.zookeeper.sasl.client.username": "zk"},
        "ottla.zookeeper.sasl.client.username",
        "only with com.sun",
    ),
    "a service without a login": (
        {"ottla.zookeeper.sasl.client.username": "zk"},
        "ottla.zookeeper.sasl.client.username",
        "no effect",
    ),
    "no user": ({LINE: f"{ZOOKEEPER_MODULE} required password=hush;"}, LINE, "username and password"),
    "a variable": ({LINE: f'{ZOOKEEPER_MODULE} required username=a password="${{hush}}";'}, LINE, "not replaced"),
    "half of a surrogate pair": (
        {LINE: f'{ZOOKEEPER_MODULE} required username=a password="hush\ud800";'},
        LINE,
        "half of a surrogate pair",
    ),
    "no line": ({LINE: "hush"}, LINE, "semicolon"),
    "a missing JAAS file": ({FILE: "/nowhere.conf"}, FILE, "cannot be read"),
    "a broken JAAS file": ({FILE: "broken.conf"}, FILE, "is not a JAAS file"),
    "a JAAS file without the section": ({FILE: "other.conf"}, FILE, "section Client"),
    "a section with two modules": (
        {FILE: "other.conf", "ottla.zookeeper.sasl.clientconfig": "Two"},
        FILE,
        "one login module",
    ),
    "an empty section": ({FILE: "other.conf", "ottla.zookeeper.sasl.clientconfig": "None"}, FILE, "one login module"),
    "a section of a broker": (
        {FILE: "jaas.conf", "ottla.zookeeper.sasl.clientconfig": "KafkaServer"},
        FILE,
        "the login module must be",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(stores, case):
    values, name, rule = REFUSED[case]
    names = [name for name in values if name.endswith((".location", ".file")) and not values[name].startswith("/")]
    if "no effect" not in rule:
        values = values | {name: str(stores / values[name]) for name in names}
    with pytest.raises(ZooKeeperSettingError, match=rule) as caught:
        load(values)
    assert caught.value.setting == name
    assert "hush" not in str(caught.value)


def test_the_names_are_those_of_the_fields():
    assert len(set(SETTING_NAMES)) == len(dataclasses.fields(ZooKeeperSettings))
    assert setting_name("ssl_client_enable") == "zookeeper.ssl.client.enable"


KAFKA_STARTS = {
    # Kafka ignores these; a broker that is told to use TLS, and does not, is refused here.
    "zookeeper.ssl.client.enable='true'",
    "zookeeper.ssl.endpoint.identification.algorithm='FOO'",
    "zookeeper.ssl.crl.enable='true'",
    "zookeeper.ssl.keystore.location='/nonexistent'",
}


def recorded_rows():
    with (REFERENCE / "security" / "start-up.tsv").open(newline="") as file:
        for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE):
            name, equals, value = row["configuration"].partition("=")
            if name.startswith("zookeeper.") and equals and "," not in value and value.endswith("'"):
                yield pytest.param(name, value.strip("'"), row, id=row["configuration"])


@pytest.mark.parametrize(("name", "value", "row"), list(recorded_rows()))
def test_the_recorded_starts(name, value, row):
    assert row["result"] == ("starts" if row["configuration"] in KAFKA_STARTS else "refuses")
    if value == "maybe":
        return  # broker/settings/ refuses it: not a boolean
    with pytest.raises(ZooKeeperSettingError) as caught:
        load({name: {"true": True}.get(value, value)})
    assert caught.value.setting == name
