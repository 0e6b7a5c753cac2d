"""Key stores and trust stores, as the settings may name them: the rows of Kafka's start-up.tsv, and broken files."""

import contextlib
import hashlib
import random
import shutil

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, load_pem_private_key

from security.tls.contexts import server_context
from security.tls.errors import TlsConfigError
from security.tls.settings import TlsSettings
from security.tls.stores import load_key_store, load_trust_store
from support.certificates import authority, server_certificate
from support.counts import count
from support.keytool import keytool
from support.seeds import chosen_seed
from support.stores import write_java_stores, write_stores


def new_password():
    return b"random"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A key store and a trust store of each type."""
    folder = tmp_path_factory.mktemp("stores")
    write_stores(folder)
    return folder


@pytest.fixture(scope="module")
def jks(folder):
    """The same as JKS stores, written by Java."""
    write_java_stores(folder, key_password="keysecret")
    return folder


def chain():
    return [one.public_bytes(Encoding.DER) for one in server_certificate().chain]


def is_the_server(store):
    key = load_pem_private_key(store.key, store.password)
    assert key.public_key() == server_certificate().key.public_key()
    assert list(store.chain) == chain()


def test_a_key_store_in_pem(folder):
    is_the_server(
        load_key_store(TlsSettings(keystore_type="PEM", keystore_location=str(folder / "server.pem")), new_password)
    )


def test_an_encrypted_key_in_pem(folder):
    settings = TlsSettings(
        keystore_type="PEM", keystore_location=str(folder / "encrypted.pem"), key_password="keysecret"
    )
    is_the_server(load_key_store(settings, new_password))


@pytest.mark.parametrize("kind", ["PKCS12", "JKS", "pkcs12"])
def test_a_key_store_in_pkcs12_whatever_its_type_says(folder, kind):
    settings = TlsSettings(keystore_type=kind, keystore_location=str(folder / "server.p12"), keystore_password="secret")
    is_the_server(load_key_store(settings, new_password))


@pytest.mark.parametrize("kind", ["PKCS12", "JKS"])
def test_a_key_store_that_java_wrote_as_jks(jks, kind):
    settings = TlsSettings(
        keystore_type=kind,
        keystore_location=str(jks / "server.jks"),
        keystore_password="secret",
        key_password="keysecret",
    )
    is_the_server(load_key_store(settings, new_password))


def test_key_and_chain_in_the_settings():
    server = server_certificate()
    settings = TlsSettings(
        keystore_type="PEM", keystore_key=server.key_pem(), keystore_certificate_chain=server.chain_pem()
    )
    is_the_server(load_key_store(settings, new_password))


def test_a_store_without_a_private_key_is_none(folder):
    settings = TlsSettings(keystore_location=str(folder / "ca.p12"), keystore_password="secret")
    assert load_key_store(settings, new_password) is None
    assert load_key_store(TlsSettings(), new_password) is None


def trusted():
    return [authority().certificate.public_bytes(Encoding.DER)]


def test_trust_stores(jks):
    folder = jks
    for name, kind, password in (
        ("ca.pem", "PEM", None),
        ("ca.p12", "PKCS12", "secret"),
        ("ca.p12", "JKS", "secret"),
        ("ca.jks", "JKS", "secret"),
        ("ca.jks", "JKS", None),
    ):
        settings = TlsSettings(
            truststore_type=kind, truststore_location=str(folder / name), truststore_password=password
        )
        assert load_trust_store(settings) == trusted(), name
    assert load_trust_store(TlsSettings(truststore_type="PEM", truststore_certificates=authority().pem())) == trusted()
    assert load_trust_store(TlsSettings()) is None


def test_of_a_key_in_a_trust_store_only_its_own_certificate_is_trusted(jks, tmp_path):
    """As in Java, its authority is not trusted unless the store has it as an entry of its own, too."""
    own = server_certificate().certificate.public_bytes(Encoding.DER)
    from_p12 = ["-srckeystore", jks / "server.p12", "-srcstorepass", "secret", "-noprompt"]
    to_p12 = ["-destkeystore", tmp_path / "java.p12", "-deststoretype", "PKCS12", "-deststorepass", "secret"]
    keytool("-importkeystore", *from_p12, *to_p12)
    shutil.copy(jks / "server.jks", tmp_path / "java.jks")

    def loaded(store):
        return load_trust_store(TlsSettings(truststore_location=str(store), truststore_password="secret"))

    assert loaded(jks / "server.p12") == [own]
    for name in ("java.p12", "java.jks"):
        assert loaded(tmp_path / name) == [own], name
        of_the_authority = ["-importcert", "-alias", "ca", "-file", jks / "ca.pem", "-noprompt"]
        keytool(*of_the_authority, "-keystore", tmp_path / name, "-storepass", "secret")
        assert loaded(tmp_path / name) == [own, *trusted()], name


def test_an_empty_certificate_in_a_jks_store_is_refused(tmp_path):
    store = bytes.fromhex("feedfeed 00000001 00000001 00000002 0000 0000000000000000 00000000") + bytes(20)
    (tmp_path / "empty.jks").write_bytes(store)
    with pytest.raises(TlsConfigError, match="damaged certificate"):
        server_context(TlsSettings(truststore_location=str(tmp_path / "empty.jks")))


@pytest.mark.counted
def test_a_damaged_jks_store_gives_another_store_or_an_error(jks, tmp_path):
    """The checksum is right, so that all of the reader is tried."""
    rng = random.Random(chosen_seed(16))
    damaged = tmp_path / "damaged.jks"
    for number in range(count(300, 30_000)):
        original = (jks / ("server.jks", "ca.jks")[number % 2]).read_bytes()
        body = bytearray(original[:-20])
        for _ in range(rng.randrange(1, 4)):
            at = rng.randrange(4, min(len(body), 80) if rng.random() < 0.5 else len(body))
            match rng.randrange(3):
                case 0:
                    body[at] = rng.randrange(256)
                case 1:
                    del body[at : at + rng.randrange(1, 40)]
                case _:
                    body[at:at] = rng.randbytes(rng.randrange(1, 9))
        checksum = hashlib.sha1("secret".encode("utf-16-be") + b"Mighty Aphrodite" + body).digest()
        damaged.write_bytes(body + checksum)
        opened = {"keystore_location": str(damaged), "keystore_password": "secret", "key_password": "keysecret"}
        with contextlib.suppress(TlsConfigError):
            server_context(TlsSettings(**opened))
        for password in ("secret", None):
            settings = TlsSettings(truststore_location=str(damaged), truststore_password=password)
            with contextlib.suppress(TlsConfigError):
                server_context(settings)


WRONG_KEY_STORES = {
    "no such file": ({"keystore_location": "none", "keystore_password": "secret"}, "ssl.keystore.location"),
    "no store": ({"keystore_location": "garbage", "keystore_password": "secret"}, "ssl.keystore.location"),
    "no password": ({"keystore_location": "server.p12"}, "ssl.keystore.password"),
    "wrong password": ({"keystore_location": "server.p12", "keystore_password": "WRONG"}, "ssl.keystore.location"),
    "other key password in PKCS12": (
        {"keystore_location": "server.p12", "keystore_password": "secret", "key_password": "other"},
        "ssl.key.password",
    ),
    "type FOO": ({"keystore_type": "FOO"}, "ssl.keystore.type"),
    "type JCEKS": ({"keystore_type": "JCEKS"}, "ssl.keystore.type"),
    "password without a store": ({"keystore_password": "secret"}, "ssl.keystore.password"),
    "PEM file with store password": (
        {"keystore_type": "PEM", "keystore_location": "server.pem", "keystore_password": "secret"},
        "ssl.keystore.password",
    ),
    "PEM file without a key": ({"keystore_type": "PEM", "keystore_location": "ca.pem"}, "ssl.keystore.location"),
    "encrypted PEM without password": (
        {"keystore_type": "PEM", "keystore_location": "encrypted.pem"},
        "ssl.key.password",
    ),
    "encrypted PEM with a wrong password": (
        {"keystore_type": "PEM", "keystore_location": "encrypted.pem", "key_password": "WRONG"},
        "ssl.key.password",
    ),
    "plain PEM with a password": (
        {"keystore_type": "PEM", "keystore_location": "server.pem", "key_password": "secret"},
        "ssl.key.password",
    ),
    "inline key without chain": (
        {"keystore_type": "PEM", "keystore_key": "KEY"},
        "ssl.keystore.certificate.chain",
    ),
    "inline chain without key": ({"keystore_type": "PEM", "keystore_certificate_chain": "CHAIN"}, "ssl.keystore.key"),
    "inline with another type": (
        {"keystore_key": "KEY", "keystore_certificate_chain": "CHAIN"},
        "ssl.keystore.type",
    ),
    "inline with a file": (
        {
            "keystore_type": "PEM",
            "keystore_key": "KEY",
            "keystore_certificate_chain": "CHAIN",
            "keystore_location": "server.pem",
        },
        "ssl.keystore.location",
    ),
    "inline with a store password": (
        {
            "keystore_type": "PEM",
            "keystore_key": "KEY",
            "keystore_certificate_chain": "CHAIN",
            "keystore_password": "secret",
        },
        "ssl.keystore.password",
    ),
    "inline garbage": (
        {"keystore_type": "PEM", "keystore_key": "garbage", "keystore_certificate_chain": "garbage"},
        "ssl.keystore.key",
    ),
}


def in_folder(folder, values):
    server = server_certificate()
    texts = {"KEY": server.key_pem(), "CHAIN": server.chain_pem()}
    values = {name: texts.get(value, value) for name, value in values.items()}
    for name in ("keystore_location", "truststore_location"):
        if name in values:
            values[name] = str(folder / values[name])
    return TlsSettings(**values)


@pytest.mark.parametrize(("values", "setting"), WRONG_KEY_STORES.values(), ids=WRONG_KEY_STORES)
def test_key_stores_that_are_refused(folder, values, setting):
    with pytest.raises(TlsConfigError) as caught:
        load_key_store(in_folder(folder, values), new_password)
    assert caught.value.setting == setting
    for secret in ("secret", "WRONG", "BEGIN"):
        assert secret not in str(caught.value)


def test_wrong_passwords_of_jks(jks):
    for store, key, setting in (("wrong", "keysecret", "ssl.keystore.location"), ("secret", "x", "ssl.key.password")):
        settings = TlsSettings(keystore_location=str(jks / "server.jks"), keystore_password=store, key_password=key)
        with pytest.raises(TlsConfigError) as caught:
            load_key_store(settings, new_password)
        assert caught.value.setting == setting


WRONG_TRUST_STORES = {
    "no such file": ({"truststore_location": "none", "truststore_password": "secret"}, "ssl.truststore.location"),
    "wrong password": ({"truststore_location": "ca.p12", "truststore_password": "WRONG"}, "ssl.truststore.location"),
    "PKCS12 without a password": ({"truststore_location": "ca.p12"}, "ssl.truststore.password"),
    "password without a store": ({"truststore_password": "secret"}, "ssl.truststore.password"),
    "PEM with a password": (
        {"truststore_type": "PEM", "truststore_location": "ca.pem", "truststore_password": "secret"},
        "ssl.truststore.password",
    ),
    "inline with another type": ({"truststore_certificates": "CHAIN"}, "ssl.truststore.type"),
    "inline with a file": (
        {"truststore_type": "PEM", "truststore_certificates": "CHAIN", "truststore_location": "ca.pem"},
        "ssl.truststore.location",
    ),
    "no certificate": ({"truststore_type": "PEM", "truststore_location": "garbage"}, "ssl.truststore.location"),
}


@pytest.mark.parametrize(("values", "setting"), WRONG_TRUST_STORES.values(), ids=WRONG_TRUST_STORES)
def test_trust_stores_that_are_refused(folder, values, setting):
    with pytest.raises(TlsConfigError) as caught:
        load_trust_store(in_folder(folder, values))
    assert caught.value.setting == setting
