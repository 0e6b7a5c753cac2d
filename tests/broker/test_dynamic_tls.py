"""New key stores and trust stores while a broker runs: the steps recorded from Kafka, and changed files."""

import json
import ssl

import pytest
from cryptography import x509

from protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from security.password_encoder import PasswordEncoder
from support.broker import running_broker
from support.certificates import Authority, authority, other_authority
from support.reference import REFERENCE
from support.tls_listening import TlsClient, alter_broker, client_tls, stored_settings
from support.wire import wire_client

BROKER = 4
SUBJECT = "CN=broker,O=Ottla,C=DE"
API_VERSIONS = bytes.fromhex("00120000000000010003726563")
HIDDEN = "listener.name.ssl.ssl.keystore.password"


def steps():
    lines = (REFERENCE / "security" / "tls.jsonl").read_text().splitlines()
    return [one for one in map(json.loads, lines) if "step" in one]


def stores(folder):
    """The stores of the recorded steps; the certificate of each key store by its name."""
    ca = authority()
    names = ("localhost", "127.0.0.1")
    made = {
        "server": ca.issue(SUBJECT, sans=names),
        "server2": ca.issue(SUBJECT, sans=names),
        "server-dn": ca.issue("CN=otherbroker", sans=names),
        "server-san": ca.issue(SUBJECT, sans=("example.org",)),
        "server-nosan": ca.issue(SUBJECT),
        "server-expired": ca.issue(SUBJECT, sans=names, expired=True),
        "server-ca2": other_authority().issue(SUBJECT, sans=names),
        "server-ec": ca.issue(SUBJECT, sans=names, key_type="rsa"),
    }
    for name, issued in made.items():
        issued.write(folder / f"{name}.p12")
    made["server"].write(folder / "moving.p12")
    ca.write(folder / "ca.p12")
    Authority("CN=second CA").write(folder / "ca2.p12")
    return made


def broker_settings(folder, **others):
    values = {
        "listeners": "PLAINTEXT://127.0.0.1:0,SSL://127.0.0.1:0,REQ://127.0.0.1:0",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SSL:SSL,REQ:SSL",
        "ssl.keystore.type": "PKCS12",
        "ssl.keystore.location": str(folder / "server.p12"),
        "ssl.keystore.password": "secret",
        "ssl.truststore.type": "PKCS12",
        "ssl.truststore.location": str(folder / "ca.p12"),
        "ssl.truststore.password": "secret",
        "listener.name.req.ssl.client.auth": "required",
        "password.encoder.secret": "encoder-secret",
    }
    return {name.replace(".", "_"): value for name, value in (values | others).items()}


def plain_client(broker):
    return wire_client(f"127.0.0.1:{broker.acceptors['PLAINTEXT'].port}")


async def served(broker, made, listener="SSL"):
    """The name of the certificate that a new connection gets."""
    context = client_tls(authority().issue("CN=client"), endpoint_identification_algorithm="")
    context.verify_mode = ssl.CERT_NONE
    async with TlsClient(broker.acceptors[listener].port, context) as client:
        shown = client.tls.getpeercert(True)
    serial = x509.load_der_x509_certificate(shown).serial_number
    return next(name for name, issued in made.items() if issued.serial == serial)


def expected_config(step, folder):
    """The recorded znode, with its paths in `folder`; None if it was not recorded."""
    for znode in step.get("znodes", []):
        return {name: text.replace("DIR", str(folder)) for name, text in znode["value"]["config"].items()}
    return None


@pytest.mark.timeout(120)
async def test_the_recorded_steps(tmp_path):
    made = stores(tmp_path)
    encoder = PasswordEncoder("encoder-secret")
    async with (
        running_broker(tmp_path / "data", **broker_settings(tmp_path)) as broker,
        plain_client(broker) as client,
        TlsClient(broker.acceptors["SSL"].port, client_tls()) as old,
    ):
        for step in steps():
            if step["step"] == "file replaced on disk, no request":
                made["server2"].write(tmp_path / "moving.p12")
                continue  # Ottla reads the file sooner than Kafka
            if "set" in step:
                values = {
                    name: None if text is None else text.replace("DIR", str(tmp_path))
                    for name, text in step["set"].items()
                }
                code, message = await alter_broker(client, values, step["resource"])
                assert code == step["error_code"], (step["step"], message)
                assert "secret" not in (message or "")
            for listener, name in step.get("served_after", {}).items():
                assert await served(broker, made, listener) == name, step["step"]
            expected = expected_config(step, tmp_path)
            if expected is not None:
                found = await stored_settings(broker)
                assert found.keys() == expected.keys(), step["step"]
                for name, text in found.items():
                    if name.endswith("password"):
                        assert encoder.decode(text) == "secret"
                    else:
                        assert text == expected[name]
            assert (await old.ask(API_VERSIONS))[:4] == b"\0\0\0\1"  # a connection lives on


async def test_ssl_client_auth_does_not_change_before_the_next_start(tmp_path):
    """As in Kafka: a listener is not opened by a dynamic setting."""
    stores(tmp_path)
    name = "listener.name.req.ssl.client.auth"
    async with running_broker(tmp_path / "data", **broker_settings(tmp_path)) as broker:
        async with plain_client(broker) as client:
            assert await alter_broker(client, {name: "none"}) == (0, None)
        with pytest.raises((OSError, EOFError)):
            async with TlsClient(broker.acceptors["REQ"].port, client_tls()) as client:
                await client.ask(API_VERSIONS)


async def test_a_trust_store_that_is_exchanged_revokes_certificates(tmp_path):
    stores(tmp_path)
    trust = {
        "listener.name.req.ssl.truststore.location": str(tmp_path / "ca2.p12"),
        "listener.name.req.ssl.truststore.password": "secret",
    }
    context = client_tls(authority().issue("CN=client"))
    async with running_broker(tmp_path / "data", **broker_settings(tmp_path)) as broker, plain_client(broker) as client:
        port = broker.acceptors["REQ"].port
        async with TlsClient(port, context) as tls:
            await tls.ask(API_VERSIONS)
        assert await alter_broker(client, trust) == (0, None)
        with pytest.raises((OSError, EOFError)):
            async with TlsClient(port, context) as tls:
                await tls.ask(API_VERSIONS)


async def test_a_password_needs_a_secret_and_is_never_shown(tmp_path, caplog):
    made = stores(tmp_path)
    planted = "hush-hush"
    made["server2"].write(tmp_path / "server2.p12", planted)
    values = {"listener.name.ssl.ssl.keystore.location": str(tmp_path / "server2.p12"), HIDDEN: planted}
    without = broker_settings(tmp_path)
    del without["password_encoder_secret"]
    async with running_broker(tmp_path / "without", **without) as broker, plain_client(broker) as client:
        code, message = await alter_broker(client, values)
        assert code == 42
        assert "password.encoder.secret" in message
        assert planted not in message
    async with running_broker(tmp_path / "data", **broker_settings(tmp_path)) as broker, plain_client(broker) as client:
        assert await alter_broker(client, values) == (0, None)
        resource = DescribeConfigsResource(resource_type=BROKER, resource_name="0", configuration_keys=[HIDDEN])
        answer = await client.call(DescribeConfigsRequest(resources=[resource]), 4)
        assert [(one.is_sensitive, one.value) for one in answer.results[0].configs] == [(True, None)]
        assert planted not in repr(await stored_settings(broker))
    assert planted not in caplog.text
