"""Which TLS settings of a listener start, and which refuse: the rows of start-up.tsv, recorded from Kafka."""

import asyncio
import contextlib
import csv
import logging
import tempfile
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from broker.network.listener import Listener
from broker.network.listener_tls import ListenerTls
from broker.settings.config import BrokerConfig
from storage.setting import ConfigError
from support.certificates import LOCAL, Authority, authority, other_authority, server_certificate
from support.polling import until
from support.reference import REFERENCE
from support.stores import write_java_stores, write_stores

PBES1 = "PBE-SHA1-3DES"
PBES1_KEY = """\
-----BEGIN ENCRYPTED PRIVATE KEY-----
MIGxMBwGCiqGSIb3DQEMAQMwDgQIAMfskrxqo1gCAggABIGQYJXV5/nn9+dFKmnS
4u8zm0hJGuvb0nAKpRd3SQShe8/fqF+0/nmooHUMCUmyVP+TmvBsgkGPzKvLmsuz
Y3SojwFd7QERVwaiQIcVJV52MFSW8TTBM4DrrxC75ggEXO7HSRsHPd6k8+B6/4Aw
UEW9oCGhk+LRtrf73jOi5tu7sbIqX561wleqTLLBZ3dQGCkX
-----END ENCRYPTED PRIVATE KEY-----
"""
"""A key of this test only, encrypted with keysecret in a way that today's libraries read and do not write."""
OURS = {
    # keys that Java cannot read, and OpenSSL can
    "PEM inline, encrypted key with ssl.key.password": "starts",
    "PEM file, encrypted key, ssl.key.password": "starts",
    # nobody could connect, or nobody would be trusted: these would only look right
    "PEM inline key that does not belong to the certificate": "refuses",
    "truststore PKCS12 without password": "refuses",
    "ssl.enabled.protocols='TLSv1.1'": "refuses",
    "ssl.enabled.protocols='FOO'": "refuses",
    "ssl.enabled.protocols='TLSv1.2,FOO'": "refuses",
    "ssl.cipher.suites=FOO": "refuses",
    # Python's ssl cannot choose among the cipher suites of TLS 1.3
    "ssl.cipher.suites=TLS_AES_128_GCM_SHA256": "refuses",
    "ssl.cipher.suites=TLS_AES_128_GCM_SHA256 with ssl.enabled.protocols=TLSv1.2": "refuses",
}
"""Where Ottla differs from Kafka on purpose."""


def rows():
    with (REFERENCE / "security" / "start-up.tsv").open(newline="") as file:
        for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE):
            if row["area"] == "tls" and not row["configuration"].startswith("inter-broker"):
                yield row["configuration"], OURS.get(row["configuration"], row["result"])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("stores")
    write_stores(folder)
    write_java_stores(folder)
    for name, issued in {
        "expired": authority().issue("CN=broker", expired=True),
        "future": authority().issue("CN=broker", future=True),
        "nosan": authority().issue("CN=broker"),
        "san": authority().issue("CN=broker", sans=("example.org",)),
        "ec": server_certificate(),
        "ca2": Authority("CN=second CA").issue("CN=broker"),
    }.items():
        issued.write(folder / f"{name}.p12")
    return folder


def keystore(name, password="secret", kind=None, key_password=None):
    values = {"ssl.keystore.location": name, "ssl.keystore.password": password}
    values |= {"ssl.keystore.type": kind, "ssl.key.password": key_password}
    return {name: value for name, value in values.items() if value is not None}


def truststore(name, password=None, kind=None):
    values = {"ssl.truststore.location": name, "ssl.truststore.password": password, "ssl.truststore.type": kind}
    return keystore("server.p12") | {name: value for name, value in values.items() if value is not None}


def inline(key="KEY", chain="CHAIN", **others):
    values = {"ssl.keystore.type": "PEM", "ssl.keystore.key": key, "ssl.keystore.certificate.chain": chain}
    values |= {f"ssl.{name.replace('_', '.')}": value for name, value in others.items()}
    return {name: value for name, value in values.items() if value is not None}


GOOD = keystore("server.p12")
CASES = {
    "SSL listener, no keystore at all": {},
    "JKS keystore, both passwords": keystore("server.jks", key_password="secret"),
    "JKS keystore, no ssl.key.password": keystore("server.jks"),
    "JKS keystore, wrong ssl.keystore.password": keystore("server.jks", "wrong"),
    "JKS keystore, wrong ssl.key.password": keystore("server.jks", key_password="wrong"),
    "JKS keystore, no passwords": keystore("server.jks", None),
    "keystore file does not exist": keystore("none.jks"),
    "keystore file is not a keystore": keystore("garbage"),
    "PKCS12 keystore with ssl.keystore.type=PKCS12, no ssl.key.password": keystore("server.p12", kind="PKCS12"),
    "PKCS12 keystore, ssl.keystore.type not set (JKS)": keystore("server.p12"),
    "PKCS12 keystore, ssl.key.password different from the keystore password": keystore(
        "server.p12", key_password="other"
    ),
    "JKS keystore with ssl.keystore.type=PKCS12": keystore("server.jks", kind="PKCS12"),
    "ssl.keystore.type=FOO": keystore("server.p12", kind="FOO"),
    "keystore without a private key (only the CA certificate)": keystore("ca.p12"),
    "PEM inline key and chain": inline(),
    "PEM inline, encrypted key with ssl.key.password": inline("ENCRYPTED", key_password="keysecret"),
    "PEM inline, encrypted key, wrong ssl.key.password": inline("ENCRYPTED", key_password="wrong"),
    "PEM inline, encrypted key, no ssl.key.password": inline("ENCRYPTED"),
    "PEM inline, plain key with ssl.key.password": inline(key_password="keysecret"),
    "PEM inline key, no chain": inline(chain=None),
    "PEM inline chain, no key": inline(key=None),
    "PEM inline with ssl.keystore.password": inline(keystore_password="secret"),
    "PEM inline with ssl.keystore.location as well": inline(keystore_location="server.pem"),
    "PEM inline but ssl.keystore.type not PEM": inline(keystore_type="JKS"),
    "PEM inline key that does not belong to the certificate": inline("OTHER"),
    "PEM inline garbage": inline("garbage", "garbage"),
    "PEM file (key and chain in one file)": keystore("server.pem", None, "PEM"),
    "PEM file with ssl.keystore.password": keystore("server.pem", "secret", "PEM"),
    "PEM file, encrypted key, ssl.key.password": keystore("encrypted.pem", None, "PEM", "keysecret"),
    "PEM file without a key": keystore("ca.pem", None, "PEM"),
    "truststore JKS with password": truststore("ca.jks", "secret"),
    "truststore JKS without password": truststore("ca.jks"),
    "truststore PKCS12 without password": truststore("ca.p12", kind="PKCS12"),
    "truststore wrong password": truststore("ca.jks", "wrong"),
    "truststore file does not exist": truststore("none.jks", "secret"),
    "truststore PEM file": truststore("ca.pem", kind="PEM"),
    "truststore PEM file with ssl.truststore.password": truststore("ca.pem", "secret", "PEM"),
    "truststore PEM inline": GOOD | {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": "CA"},
    "truststore PEM inline, type not PEM": GOOD | {"ssl.truststore.certificates": "CA"},
    "truststore password without location": GOOD | {"ssl.truststore.password": "secret"},
    "ssl.client.auth=required without truststore": GOOD | {"ssl.client.auth": "required"},
    "listener.name.ssl.ssl.client.auth=foo": GOOD | {"listener.name.ssl.ssl.client.auth": "foo"},
    "ssl.cipher.suites=TLS_AES_128_GCM_SHA256 with ssl.enabled.protocols=TLSv1.2": GOOD
    | {"ssl.cipher.suites": "TLS_AES_128_GCM_SHA256", "ssl.enabled.protocols": "TLSv1.2"},
    "prefixed only: listener.name.ssl.ssl.keystore.location (and password, type)": {
        f"listener.name.ssl.{name}": value for name, value in keystore("server.p12", kind="PKCS12").items()
    },
    "prefix in upper case: listener.name.SSL.ssl.keystore.location": {
        f"listener.name.SSL.{name}": value for name, value in GOOD.items()
    },
    f"PEM inline, key encrypted with {PBES1}, ssl.key.password": inline(
        "PBES1", "PBES1 CHAIN", key_password="keysecret"
    ),
    f"PEM inline, key encrypted with {PBES1}, wrong ssl.key.password": inline(
        "PBES1", "PBES1 CHAIN", key_password="wrong"
    ),
    f"PEM inline, key encrypted with {PBES1}, no ssl.key.password": inline("PBES1", "PBES1 CHAIN"),
}


def settings_of(configuration):
    if configuration in CASES:
        return CASES[configuration]
    if configuration.startswith("PKCS12, certificate: "):
        return keystore(configuration.split(": ")[1].split(",")[0] + ".p12", kind="PKCS12")
    name, _, value = configuration.partition("=")
    return GOOD | {name: value.strip("'")}


def pbes1_certificate():
    return authority().issue("CN=broker", key=load_pem_private_key(PBES1_KEY.encode(), b"keysecret"))


def in_folder(folder, values):
    texts = {
        "KEY": server_certificate().key_pem(),
        "ENCRYPTED": server_certificate().key_pem("keysecret"),
        "OTHER": authority().issue("CN=other").key_pem(),
        "PBES1": PBES1_KEY,
        "PBES1 CHAIN": pbes1_certificate().chain_pem(),
        "CHAIN": server_certificate().chain_pem(),
        "CA": authority().pem(),
    }
    return {
        name: str(folder / value) if name.endswith("location") else texts.get(value, value)
        for name, value in values.items()
    }


def listener_tls(values):
    config = BrokerConfig(values, has_file=False)
    return ListenerTls(Listener("SSL", "127.0.0.1", 0, "SSL"), config.of_listener("SSL"))


@pytest.mark.parametrize(("configuration", "result"), list(rows()))
def test_a_configuration_starts_or_refuses_like_kafka(folder, configuration, result):
    values = in_folder(folder, settings_of(configuration))
    if result == "starts":
        listener_tls(values)
        return
    with pytest.raises(ConfigError) as caught:
        listener_tls(values)
    for secret in ("keysecret", "BEGIN", "=secret", "=wrong"):
        assert secret not in str(caught.value)


def test_an_error_names_the_setting_with_the_prefix_of_the_listener(folder):
    values = {"listener.name.ssl.ssl.keystore.location": "/none", "listener.name.ssl.ssl.keystore.password": "secret"}
    with pytest.raises(ConfigError, match=r"^listener\.name\.ssl\.ssl\.keystore\.location: /none cannot be read: No"):
        listener_tls(values)


@contextlib.asynccontextmanager
async def watched(tls):
    watching = asyncio.create_task(tls.watch_files(0.01))
    yield tls
    watching.cancel()


async def test_changed_files_are_used_without_a_restart(tmp_path, caplog):
    caplog.set_level(logging.INFO)
    file, new = tmp_path / "server.pem", tmp_path / "new.pem"
    server_certificate().write(file)
    async with watched(listener_tls(keystore(str(file), None, "PEM"))) as tls:
        for change in ("a new certificate", "another one"):
            before = tls.context
            authority().issue("CN=broker,O=Ottla,C=DE", sans=LOCAL).write(new)
            new.replace(file)
            await until(lambda before=before: tls.context is not before, change)
        before = tls.context
        for damage in (
            lambda: file.write_text("half a file"),
            lambda: authority().issue("CN=broker,O=Ottla,C=DE").write(file),
            lambda: authority().issue("CN=other", sans=LOCAL).write(file),
            lambda: file.unlink(),
        ):
            caplog.clear()
            damage()
            await until(lambda: "listener SSL keeps its stores: ssl.keystore.location: " in caplog.text, "an error")
            assert tls.context is before
        server_certificate().write(file)
        await until(lambda: tls.context is not before, "the file is right again")


@pytest.mark.parametrize("between_brokers", [False, True])
def test_new_stores_between_brokers_must_trust_themselves(tmp_path, between_brokers):
    """On other listeners, an expired certificate and one of another authority are accepted, as in Kafka."""
    server_certificate().write(tmp_path / "old.pem")
    authority().write(tmp_path / "ca.pem")
    stores = truststore(str(tmp_path / "ca.pem"), kind="PEM") | keystore(str(tmp_path / "old.pem"), None, "PEM")
    stores = {name: value for name, value in stores.items() if name != "ssl.keystore.password"}
    config = BrokerConfig(stores, has_file=False)
    listener = Listener("SSL", "127.0.0.1", 0, "SSL")
    tls = ListenerTls(listener, config.of_listener("SSL"), is_between_brokers=between_brokers)
    subject = "CN=broker,O=Ottla,C=DE"
    for issued, is_trusted in (
        (authority().issue(subject, sans=LOCAL), True),
        (authority().issue(subject, sans=LOCAL, expired=True), False),
        (other_authority().issue(subject, sans=LOCAL), False),
    ):
        issued.write(tmp_path / "new.pem")
        new = config.with_dynamic({"listener.name.ssl.ssl.keystore.location": str(tmp_path / "new.pem")})
        refused = pytest.raises(ConfigError, match="brokers connect to each other with these stores")
        with contextlib.nullcontext() if is_trusted or not between_brokers else refused:
            tls.check(new.of_listener("SSL"))


async def test_a_wrong_file_is_reported_once(tmp_path, caplog):
    file = tmp_path / "server.pem"
    server_certificate().write(file)
    looked = 0

    def stat(path):
        nonlocal looked
        looked += 1
        return Path(path).stat()

    config = BrokerConfig(keystore(str(file), None, "PEM"), has_file=False)
    tls = ListenerTls(Listener("SSL", "127.0.0.1", 0, "SSL"), config.of_listener("SSL"), stat=stat)
    async with watched(tls):
        file.write_text("half a file")
        await until(lambda: caplog.text, "an error")
        seen = looked
        await until(lambda: looked > seen + 3, "more looks at the file")
    assert caplog.text.count("keeps its stores") == 1


async def test_a_missing_temporary_folder_is_reported_and_the_stores_stay(tmp_path, caplog, monkeypatch):
    file, new = tmp_path / "server.pem", tmp_path / "new.pem"
    server_certificate().write(file)
    async with watched(listener_tls(keystore(str(file), None, "PEM"))) as tls:
        before = tls.context
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "none"))
        authority().issue("CN=broker,O=Ottla,C=DE", sans=LOCAL).write(new)
        new.replace(file)
        await until(lambda: "no temporary file can be written: No such file" in caplog.text, "an error")
        assert tls.context is before


def test_a_name_that_no_file_can_have_is_refused():
    with pytest.raises(ConfigError, match="not the name of a file"):
        listener_tls(keystore("a\0b", None, "PEM"))


def test_client_certificates_of_sasl_ssl_need_the_prefix_of_the_listener(folder, caplog):
    """As in Kafka: the setting without a prefix is for SSL listeners."""
    for name, client_auth in (("ssl.client.auth", "none"), ("listener.name.a.ssl.client.auth", "required")):
        config = BrokerConfig(in_folder(folder, truststore("ca.pem", kind="PEM") | {name: "required"}), has_file=False)
        tls = ListenerTls(Listener("A", "127.0.0.1", 0, "SASL_SSL"), config.of_listener("A"))
        assert tls.client_auth == client_auth
        tls.log_weaknesses()
    (record,) = caplog.records
    assert "set listener.name.a.ssl.client.auth" in record.getMessage()


def test_what_no_client_can_use_causes_a_warning(folder, caplog):
    listener_tls({}).log_weaknesses()
    listener_tls(in_folder(folder, GOOD | {"ssl.client.auth": "required"})).log_weaknesses()
    assert [one.getMessage() for one in caplog.records] == [
        "listener SSL has no key store: every TLS handshake fails (ssl.keystore.location)",
        "listener SSL has no trust store: no client certificate is trusted (ssl.truststore.location)",
    ]
