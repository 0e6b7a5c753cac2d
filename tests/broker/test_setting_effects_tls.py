"""The settings of TLS listeners: each test shows the effect of some on a whole broker."""

import ssl

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from security.password_encoder import PasswordEncoder
from support.broker import running_broker
from support.certificates import authority, client_certificate, server_certificate
from support.effects import shows
from support.tls_listening import TlsClient, alter_broker, client_tls, stored_settings, tls_settings
from support.wire import wire_client

LISTENERS = {"listeners": "PLAINTEXT://127.0.0.1:0,SSL://127.0.0.1:0"}
API_VERSIONS = bytes.fromhex("00120000000000010003726563")


def tls_broker(folder, values):
    names = {name.replace(".", "_"): value for name, value in (LISTENERS | values).items()}
    return running_broker(folder / "data", **names)


async def answers(broker, context):
    """Whether the broker answers a request over TLS; the connection's version and cipher suite."""
    try:
        async with TlsClient(broker.acceptors["SSL"].port, context) as client:
            assert (await client.ask(API_VERSIONS))[:6] == b"\0\0\0\1\0\0"
            return client.tls.version(), client.tls.cipher()[0]
    except (ssl.SSLError, OSError, EOFError):
        return None


@shows(
    "ssl.keystore.location", "ssl.keystore.type", "ssl.truststore.location", "ssl.truststore.type", "ssl.client.auth"
)
async def test_files_in_pem_and_required_client_certificates(tmp_path):
    values = tls_settings(tmp_path) | {"listener.name.ssl.ssl.client.auth": "required"}
    async with tls_broker(tmp_path, values) as broker:
        assert await answers(broker, client_tls(client_certificate())) is not None
        assert await answers(broker, client_tls()) is None


@shows("ssl.keystore.password", "ssl.key.password", "ssl.truststore.password", "ssl.enabled.protocols")
async def test_stores_with_passwords_and_one_version(tmp_path):
    server_certificate().write(tmp_path / "server.p12", "hush")
    authority().write(tmp_path / "ca.p12", "whisper")
    values = {
        "ssl.keystore.location": str(tmp_path / "server.p12"),
        "ssl.keystore.password": "hush",
        "ssl.key.password": "hush",
        "ssl.truststore.location": str(tmp_path / "ca.p12"),
        "ssl.truststore.password": "whisper",
        "ssl.client.auth": "required",
        "ssl.enabled.protocols": "TLSv1.2",
    }
    async with tls_broker(tmp_path, values) as broker:
        version, _ = await answers(broker, client_tls(client_certificate()))
        assert version == "TLSv1.2"
        assert await answers(broker, client_tls(client_certificate(), enabled_protocols=("TLSv1.3",))) is None


@shows(
    "ssl.keystore.key",
    "ssl.keystore.certificate.chain",
    "ssl.truststore.certificates",
    "ssl.cipher.suites",
    "ssl.principal.mapping.rules",
)
async def test_keys_and_certificates_in_the_settings(tmp_path):
    server = server_certificate()
    values = {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.key": server.key_pem(),
        "ssl.keystore.certificate.chain": server.chain_pem(),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": authority().pem(),
        "ssl.client.auth": "requested",
        "ssl.cipher.suites": "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
        "ssl.principal.mapping.rules": "RULE:^CN=(client)$/$1/U",
    }
    async with tls_broker(tmp_path, values) as broker:
        assert await answers(broker, client_tls()) == ("TLSv1.2", "ECDHE-ECDSA-AES128-GCM-SHA256")
        async with TlsClient(broker.acceptors["SSL"].port, client_tls(client_certificate())) as client:
            await client.ask(API_VERSIONS)
            users = [str(connection.principal) for connection in broker.acceptors["SSL"].connections]
            assert "User:CLIENT" in users
        assert await answers(broker, client_tls(authority().issue("CN=stranger"))) is None


@shows("ssl.allow.dn.changes", "ssl.allow.san.changes")
async def test_a_new_certificate_may_have_another_subject_and_other_names_only_if_allowed(tmp_path):
    new = tmp_path / "new.pem"
    authority().issue("CN=another", sans=("another.example",)).write(new)
    change = {"listener.name.ssl.ssl.keystore.location": str(new)}
    for allowed, code in (({}, 42), ({"ssl.allow.dn.changes": "true", "ssl.allow.san.changes": "true"}, 0)):
        async with (
            tls_broker(tmp_path / str(code), tls_settings(tmp_path) | allowed) as broker,
            wire_client(f"127.0.0.1:{broker.acceptors['PLAINTEXT'].port}") as client,
        ):
            assert (await alter_broker(client, change))[0] == code


@shows(
    "password.encoder.cipher.algorithm",
    "password.encoder.iterations",
    "password.encoder.key.length",
    "password.encoder.keyfactory.algorithm",
    "password.encoder.old.secret",
    "password.encoder.secret",
)
async def test_passwords_are_stored_encrypted_and_survive_a_new_secret(tmp_path):
    name = "listener.name.ssl.ssl.keystore.password"
    server_certificate().write(tmp_path / "server.p12")
    values = {"ssl.keystore.location": str(tmp_path / "server.p12"), "ssl.keystore.password": "secret"}
    changed = {
        "password.encoder.secret": "new",
        "password.encoder.old.secret": "old",
        "password.encoder.iterations": "2000",
        "password.encoder.key.length": "256",
        "password.encoder.keyfactory.algorithm": "PBKDF2WithHmacSHA256",
        "password.encoder.cipher.algorithm": "AES/CBC/PKCS5Padding",
    }
    for number, encoder in enumerate(({"password.encoder.secret": "old"}, changed)):
        async with tls_broker(tmp_path, values | encoder) as broker:
            if number == 0:
                async with wire_client(f"127.0.0.1:{broker.acceptors['PLAINTEXT'].port}") as client:
                    assert await alter_broker(client, {name: "secret"}) == (0, None)
            assert await answers(broker, client_tls()) is not None
            text = (await stored_settings(broker))[name]
    assert PasswordEncoder("new").decode(text) == "secret"
    for part in ("cipherAlgorithm:AES/CBC/PKCS5Padding", "keyLength:256", "iterations:2000", "HmacSHA256"):
        assert part in text


@pytest.mark.timeout(120)
async def test_records_go_through_a_tls_listener_and_back(tmp_path):
    """With large answers, and a group, whose coordinator the client finds at the TLS listener."""
    async with tls_broker(tmp_path, tls_settings(tmp_path)) as broker:
        options = {
            "bootstrap_servers": f"127.0.0.1:{broker.acceptors['SSL'].port}",
            "security_protocol": "SSL",
            "ssl_context": client_tls(),
        }
        admin = AIOKafkaAdminClient(**options)
        await admin.start()
        await admin.create_topics([NewTopic("t", 2, 1)])
        await admin.close()
        sent = [b"%d" % number * 20_000 for number in range(50)]
        async with AIOKafkaProducer(**options) as producer:
            for value in sent:
                await producer.send_and_wait("t", value, partition=0)
        async with AIOKafkaConsumer("t", group_id="g", auto_offset_reset="earliest", **options) as consumer:
            got = [(await consumer.getone()).value for _ in sent]
        assert got == sent


async def test_the_commands_to_try_use_the_listener_without_tls(tmp_path):
    for listeners in ("SSL://127.0.0.1:0,PLAINTEXT://127.0.0.1:0", LISTENERS["listeners"]):
        async with tls_broker(tmp_path, tls_settings(tmp_path) | {"listeners": listeners}) as broker:
            plain = f"--bootstrap-server 127.0.0.1:{broker.acceptors['PLAINTEXT'].port}"
            assert all(command.endswith(plain) for command in broker.first_commands)
    values = tls_settings(tmp_path) | {"listeners": "SSL://127.0.0.1:0", "security.inter.broker.protocol": "SSL"}
    async with tls_broker(tmp_path, values) as broker:
        assert all(command.endswith(" --command-config client.properties") for command in broker.first_commands)
