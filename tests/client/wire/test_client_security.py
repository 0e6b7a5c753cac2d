"""TLS of clients: with which brokers they speak, and with which they refuse to; on both event loops."""

import asyncio
import contextlib
import os
import random
import socket
import ssl
import threading

import pytest

from client.admin.admin import Admin
from client.errors import AuthenticationError, BrokerUnreachableError, InvalidOptionError, SslAuthenticationError
from client.producer.producer import Producer
from client.wire.client_security import connection_security
from client.wire.connection import Connection
from client.wire.security_options import SecurityOptions
from protocol.messages.metadata import MetadataRequest, MetadataResponse
from support.certificates import LOCAL, Authority, authority, client_certificate, other_authority, server_certificate
from support.deadlines import DEADLINE_S
from support.sasl_broker import PASSWORD, USER, SaslBroker
from support.tcp_server import TcpServer


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("certificates")
    authority().write(folder / "ca.pem")
    other_authority().write(folder / "other-ca.pem")
    authority().write(folder / "ca.p12")
    client_certificate().write(folder / "client.pem")
    client_certificate().write(folder / "client.p12")
    client_certificate().write(folder / "locked.pem", "hunter2")
    other_authority().issue("CN=client").write(folder / "other-client.pem")
    return folder


def server(tmp_path, issued=None, *, client_auth=ssl.CERT_NONE):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain((issued or server_certificate()).write(tmp_path / "server.pem"))
    context.load_verify_locations(cadata=authority().pem())
    context.verify_mode = client_auth
    return context


def trusting(files, **others):
    return {
        "security_protocol": "SSL",
        "ssl_truststore_type": "PEM",
        "ssl_truststore_location": str(files / "ca.pem"),
        **others,
    }


def with_certificate(files, name="client.pem", **others):
    return trusting(files, ssl_keystore_type="PEM", ssl_keystore_location=str(files / name), **others)


async def call(broker, options, host="127.0.0.1"):
    """One request over a new connection."""
    security = connection_security(SecurityOptions(**options), random.Random(1))
    async with await Connection.open(host, broker.port, security=security, request_timeout_s=DEADLINE_S) as connection:
        return await connection.call(MetadataRequest(topics=[]), MetadataResponse, 9)


@pytest.mark.parametrize("kind", ["file", "text", "PKCS12", "context", "no host name"])
async def test_a_broker_that_is_trusted(files, tmp_path, kind):
    issued = server_certificate() if kind != "no host name" else authority().issue("CN=x", sans=("elsewhere",))
    options = {
        "file": trusting(files),
        "text": {
            "security_protocol": "SSL",
            "ssl_truststore_type": "PEM",
            "ssl_truststore_certificates": authority().pem(),
        },
        "PKCS12": trusting(
            files,
            ssl_truststore_type="PKCS12",
            ssl_truststore_location=str(files / "ca.p12"),
            ssl_truststore_password="secret",
        ),
        "context": {
            "security_protocol": "SSL",
            "ssl_context": ssl.create_default_context(cadata=authority().pem()),
        },
        "no host name": trusting(files, ssl_endpoint_identification_algorithm=""),
    }[kind]
    async with SaslBroker(tls=server(tmp_path, issued)) as broker:
        assert (await call(broker, options)).cluster_id == "fake"


async def test_certificates_without_key_identifiers_are_accepted(tmp_path):
    """As by Java, and not by create_default_context() of Python 3.13."""
    lax = Authority(is_strict=False)
    options = {
        "security_protocol": "SSL",
        "ssl_truststore_type": "PEM",
        "ssl_truststore_certificates": lax.pem(),
    }
    async with SaslBroker(tls=server(tmp_path, lax.issue(sans=LOCAL))) as broker:
        assert (await call(broker, options)).cluster_id == "fake"


@pytest.mark.parametrize(
    ("issued", "others", "reason"),
    [
        (None, {"ssl_truststore_location": "other-ca.pem"}, "the certificate of the broker is refused"),
        (("CN=x", {"sans": ("elsewhere",)}), {}, "the certificate of the broker is refused: .*127.0.0.1"),
        (("CN=x", {"sans": LOCAL, "expired": True}), {}, "the certificate of the broker is refused: .*expired"),
    ],
    ids=["another authority", "another host", "expired"],
)
async def test_a_broker_that_is_not_trusted(files, tmp_path, issued, others, reason):
    others = {name: str(files / value) for name, value in others.items()}
    certificate = None if issued is None else authority().issue(issued[0], **issued[1])
    async with SaslBroker(tls=server(tmp_path, certificate)) as broker:
        with pytest.raises(SslAuthenticationError, match=f"^TLS to 127.0.0.1:{broker.port}: {reason}") as caught:
            await call(broker, trusting(files, **others))
        assert not caught.value.retriable


async def test_without_a_trust_store_the_authorities_of_the_system_count(tmp_path):
    async with SaslBroker(tls=server(tmp_path)) as broker:
        with pytest.raises(SslAuthenticationError, match="the certificate of the broker is refused"):
            await call(broker, {"security_protocol": "SSL"})


@pytest.mark.parametrize(
    "options",
    [
        {"name": "client.pem"},
        {"name": "locked.pem", "ssl_key_password": "hunter2"},
        {"name": "client.p12", "ssl_keystore_type": "PKCS12", "ssl_keystore_password": "secret"},
    ],
    ids=["PEM", "PEM with a password", "PKCS12"],
)
async def test_the_certificate_of_the_client(files, tmp_path, options):
    name = options["name"]
    others = {key: value for key, value in options.items() if key != "name"}
    given = with_certificate(files, name) | others
    async with SaslBroker(tls=server(tmp_path, client_auth=ssl.CERT_REQUIRED)) as broker:
        assert (await call(broker, given)).cluster_id == "fake"


class PlainServer:
    """A TLS server of Python's blocking ssl. Unlike asyncio's, it sends the alert when it refuses a handshake."""

    def __init__(self, context):
        self._context = context
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = self._listening.getsockname()[1]
        self._thread = threading.Thread(target=self._run)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        self._thread.join()

    def _run(self):
        while True:
            try:
                accepted, _ = self._listening.accept()
            except OSError:
                return
            one = self._context.wrap_socket(accepted, server_side=True, do_handshake_on_connect=False)
            with one, contextlib.suppress(OSError):
                try:
                    one.do_handshake()
                except ssl.SSLError:  # the alert is on its way: a reset, for bytes that were not read, would destroy it
                    socket.socket.shutdown(one, socket.SHUT_WR)
                    while os.read(one.fileno(), 4096):
                        pass


@pytest.mark.parametrize("protocol", ["TLSv1.2", "TLSv1.3"])
@pytest.mark.parametrize("name", [None, "other-client.pem"], ids=["missing", "untrusted"])
async def test_a_client_that_the_broker_does_not_trust(files, tmp_path, name, protocol):
    options = trusting(files) if name is None else with_certificate(files, name)
    refused = pytest.raises(SslAuthenticationError, match=r"the broker refuses the certificate|handshake failed")
    with PlainServer(server(tmp_path, client_auth=ssl.CERT_REQUIRED)) as broker, refused as caught:
        await call(broker, options | {"ssl_enabled_protocols": protocol})
    assert not caught.value.retriable


async def test_a_listener_without_tls(files):
    async def close(reader, writer):
        await reader.read(1)

    closing = TcpServer(close)
    await closing.listen()
    try:
        with pytest.raises(BrokerUnreachableError, match="the listener may have no TLS"):
            await call(closing, trusting(files))
    finally:
        await closing.close()


async def test_no_common_protocol(files, tmp_path):
    context = server(tmp_path)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    with PlainServer(context) as broker, pytest.raises(SslAuthenticationError, match="protocol version"):
        await call(broker, trusting(files, ssl_enabled_protocols="TLSv1.2"))


@pytest.mark.parametrize(
    ("others", "option"),
    [
        ({"ssl_truststore_location": "/no such file"}, "ssl_truststore_location"),
        ({"ssl_enabled_protocols": "TLSv9"}, "ssl_enabled_protocols"),
        ({"ssl_keystore_location": "locked.pem", "ssl_keystore_type": "PEM"}, "ssl_key_password"),
    ],
)
def test_a_store_that_cannot_be_used(files, others, option):
    others = {key: str(files / value) if key.endswith("location") else value for key, value in others.items()}
    with pytest.raises(InvalidOptionError) as caught:
        Producer(**trusting(files, **others))
    assert caught.value.option in (option, "ssl_keystore_location")
    assert str(caught.value).startswith(caught.value.option)


async def test_a_login_over_tls(files, tmp_path):
    login = {
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "SCRAM-SHA-256",
        "sasl_plain_username": USER,
        "sasl_plain_password": PASSWORD,
    }
    async with SaslBroker({"t": 1}, tls=server(tmp_path)) as broker:
        servers = f"localhost:{broker.port}"
        async with Producer(bootstrap_servers=servers, **trusting(files, **login)) as producer:
            assert (await producer.send("t", b"x" * 300_000, partition=0)).offset == 0
        with pytest.raises(AuthenticationError):
            async with Admin(bootstrap_servers=servers, **trusting(files, **login | {"sasl_plain_password": "no"})):
                pass


def test_tls_on_uvloop(files, tmp_path):
    uvloop = pytest.importorskip("uvloop")

    async def main():
        async with SaslBroker(tls=server(tmp_path, client_auth=ssl.CERT_REQUIRED)) as broker:
            assert (await call(broker, with_certificate(files))).cluster_id == "fake"
            with pytest.raises(SslAuthenticationError, match="the certificate of the broker is refused"):
                await call(broker, {"security_protocol": "SSL"})
        refused = pytest.raises(SslAuthenticationError, match="refuses the certificate of this client")
        with PlainServer(server(tmp_path, client_auth=ssl.CERT_REQUIRED)) as broker, refused:
            await call(broker, trusting(files))

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())
