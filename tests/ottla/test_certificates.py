"""`ottla certificates init`: what it writes makes a broker and clients that trust each other."""

import ssl

import pytest

from broker.broker import Broker
from broker.settings.config import BrokerConfig
from broker.settings.properties import read_properties
from security.tls.contexts import client_context
from security.tls.settings import TlsSettings
from support.tls_listening import TlsClient

API_VERSIONS = bytes.fromhex("00120000000000010003726563")


def client_of(file):
    """The context of a client with these settings."""
    return client_context(TlsSettings.of(read_properties(file).get))


async def test_a_broker_and_its_clients_use_the_files(ottla, tmp_path):
    folder = tmp_path / "tls"
    done = ottla("certificates", "init", folder, "--client", "alice", "--client", "bob")
    assert f"ottla broker {folder / 'server.properties'}" in done.out
    assert sorted(file.name for file in folder.iterdir()) == [
        *("alice.pem", "alice.properties", "bob.pem", "bob.properties"),
        *("broker.pem", "ca-key.pem", "ca.pem", "server.properties"),
    ]
    for name in ("alice.pem", "bob.pem", "broker.pem", "ca-key.pem"):
        assert (folder / name).stat().st_mode & 0o777 == 0o600
    listeners = {
        "listeners": "PLAINTEXT://127.0.0.1:0,SSL://localhost:0",
        "advertised.listeners": "PLAINTEXT://127.0.0.1:0,SSL://localhost:0",
        "ottla.console.listener": "",
    }
    async with Broker(BrokerConfig.load(folder / "server.properties", listeners)) as broker:
        port = broker.acceptors["SSL"].port
        for host in ("localhost", "127.0.0.1", "::1"):
            async with TlsClient(port, client_of(folder / "alice.properties"), host) as client:
                assert (await client.ask(API_VERSIONS))[:6] == b"\0\0\0\1\0\0"
                users = [str(connection.principal) for connection in broker.acceptors["SSL"].connections]
                assert users[-1] == "User:CN=alice"
        with pytest.raises(ssl.SSLCertVerificationError):
            async with TlsClient(port, client_of(folder / "bob.properties"), "broker.example"):
                pass
        nobody = client_context(
            TlsSettings(truststore_type="PEM", truststore_location=str(folder / "ca.pem")),
        )
        with pytest.raises((OSError, EOFError)):
            async with TlsClient(port, nobody) as client:
                await client.ask(API_VERSIONS)


def test_another_host_is_advertised(ottla, tmp_path):
    ottla("certificates", "init", tmp_path, "--host", "broker.example", "--host", "10.0.0.1")
    text = (tmp_path / "server.properties").read_text()
    assert "advertised.listeners=PLAINTEXT://127.0.0.1:9092,SSL://broker.example:9093\n" in text
    assert BrokerConfig.load(tmp_path / "server.properties").advertised_listeners[1].host == "broker.example"
    assert "bootstrap.servers=broker.example:9093" in (tmp_path / "client.properties").read_text()


def test_nothing_is_replaced_and_names_are_checked(ottla, tmp_path):
    (tmp_path / "ca.pem").write_text("mine")
    assert "ca.pem exists" in ottla("certificates", "init", tmp_path, code=1).err
    assert (tmp_path / "ca.pem").read_text() == "mine"
    assert [file.name for file in tmp_path.iterdir()] == ["ca.pem"]
    for words in (("--client", "a/b"), ("--client", "ca"), ("--client", "a", "--client", "a"), ("--host", "a b")):
        assert words[0] in ottla("certificates", "init", tmp_path / "new", *words, code=1).err
        assert not (tmp_path / "new").exists()
