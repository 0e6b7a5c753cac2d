"""SASL_SSL: TLS first, then SASL; the user is the one that SASL proves."""

import sys
import types

import pytest

from support.broker import running_broker
from support.certificates import client_certificate
from support.gss import SIGNED, FakeContext
from support.sasl import gssapi
from support.tls_listening import TlsClient, client_tls, tls_settings

HANDSHAKE = bytes.fromhex("0011000100000001ffff0005") + b"PLAIN"
API_VERSIONS = bytes.fromhex("00120000000000010003726563")
JAAS = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="alice-secret";'
LISTENERS = {
    "listeners": "PLAINTEXT://127.0.0.1:0,SECURE://127.0.0.1:0",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SECURE:SASL_SSL",
}


def authenticate(password):
    return authentication(b"\0alice\0" + password)


def authentication(token):
    return bytes.fromhex("0024000000000002ffff") + len(token).to_bytes(4) + token


@pytest.fixture
def broker(tmp_path):
    values = tls_settings(tmp_path) | {
        **LISTENERS,
        "listener.name.secure.ssl.client.auth": "requested",
        "listener.name.secure.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.secure.plain.sasl.jaas.config": JAAS,
    }
    return running_broker(tmp_path / "data", **values)


@pytest.mark.parametrize("issued", [None, client_certificate()], ids=["no certificate", "a client certificate"])
async def test_the_user_of_sasl_counts(broker, issued):
    async with broker as running, TlsClient(running.acceptors["SECURE"].port, client_tls(issued)) as client:
        assert (await client.ask(HANDSHAKE))[4:6] == b"\0\0"
        (connection,) = running.acceptors["SECURE"].connections
        assert str(connection.principal) == "User:ANONYMOUS"
        assert (await client.ask(authenticate(b"alice-secret")))[4:6] == b"\0\0"
        assert str(connection.principal) == "User:alice"
        assert (await client.ask(API_VERSIONS))[:6] == b"\0\0\0\1\0\0"


async def test_kerberos_over_tls(tmp_path, monkeypatch):
    """The steps of GSSAPI are in other threads. Its library is replaced: see test_step_threads.py."""
    library = types.ModuleType("security.sasl.kerberos")
    library.Acceptor = lambda keytab, principal: types.SimpleNamespace(context=FakeContext)
    library.default_realm = lambda: "REALM.COM"
    monkeypatch.setitem(sys.modules, library.__name__, library)
    values = tls_settings(tmp_path) | gssapi("SECURE", "/keytab", "kafka/localhost") | LISTENERS
    async with (
        running_broker(tmp_path / "data", **values) as running,
        TlsClient(running.acceptors["SECURE"].port) as client,
    ):
        assert (await client.ask(HANDSHAKE[:-7] + b"\0\6GSSAPI"))[4:6] == b"\0\0"
        for message in (b"ticket:alice@REALM.COM", b"", SIGNED + b"\1\0\0\0"):
            assert (await client.ask(authentication(message)))[4:6] == b"\0\0"
        (connection,) = running.acceptors["SECURE"].connections
        assert str(connection.principal) == "User:alice"
        assert (await client.ask(API_VERSIONS))[:6] == b"\0\0\0\1\0\0"


async def test_a_wrong_password_is_refused_and_requests_need_a_login(broker):
    async with broker as running:
        port = running.acceptors["SECURE"].port
        async with TlsClient(port) as client:
            await client.ask(HANDSHAKE)
            assert (await client.ask(authenticate(b"wrong")))[4:6] == (58).to_bytes(2)
            assert await client.reader.read() == b""
        async with TlsClient(port) as client:
            client.writer.write(b"\0\0\0\x0e" + bytes.fromhex("0003000000000001ffff00000000"))  # Metadata
            assert await client.reader.read() == b""
