"""The errors of connections, from the exceptions of real handshakes; test_client_security.py has them from brokers."""

import errno
import re
import ssl

import pytest

from client.errors import BrokerUnreachableError, ConnectionLostError, SslAuthenticationError
from client.wire.connection_errors import lost, unreachable
from support.certificates import LOCAL, authority, other_authority, server_certificate


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("certificates")
    server_certificate().write(folder / "server.pem")
    authority().issue("CN=broker", sans=LOCAL, expired=True).write(folder / "expired.pem")
    other_authority().issue("CN=client").write(folder / "other-client.pem")
    return folder


@pytest.fixture
def server(folder):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "server.pem")
    return context


@pytest.fixture
def client():
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(cadata=authority().pem())
    return context


def failed_handshake(client, server, answer=None):
    """The exception that the client gets: from the handshake, or from the first read after it.

    answer: bytes that arrive instead of the server's; empty for the end of the stream.
    """
    to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
    ours = client.wrap_bio(to_client, to_server, server_hostname="localhost")
    peer = server.wrap_bio(to_server, to_client, server_side=True)
    step, peers_step = ours.do_handshake, peer.do_handshake
    for _ in range(4):
        try:
            step()
            step = lambda: ours.read(1)  # noqa: E731
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLError as error:
            return error
        if answer is not None:
            to_client.write(answer) if answer else to_client.write_eof()
            continue
        try:
            peers_step()
        except ssl.SSLError:  # the alert is in to_client
            continue
    raise AssertionError("the handshake has not failed")


def test_a_certificate_of_the_broker_that_is_not_accepted(client, server, folder):
    server.load_cert_chain(folder / "expired.pem")
    error = unreachable("b", 9093, failed_handshake(client, server), has_tls=True)
    assert type(error) is SslAuthenticationError
    assert str(error) == "TLS to b:9093: the certificate of the broker is refused: certificate has expired"


def test_an_answer_that_is_not_tls(client, server):
    error = unreachable("b", 9093, failed_handshake(client, server, b"HTTP/1.1 400 Bad Request"), has_tls=True)
    assert type(error) is SslAuthenticationError
    assert str(error) == "TLS to b:9093: the answer is not TLS; the listener may have no TLS"


def test_no_common_version(client, server):
    client.maximum_version = ssl.TLSVersion.TLSv1_2
    server.minimum_version = ssl.TLSVersion.TLSv1_3
    error = unreachable("b", 9093, failed_handshake(client, server), has_tls=True)
    assert type(error) is SslAuthenticationError
    assert str(error) == "TLS to b:9093: the handshake failed: tlsv1 alert protocol version"


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3], ids=lambda one: one.name)
def test_a_certificate_of_the_client_that_is_not_accepted(client, server, folder, version):
    client.maximum_version = version
    client.load_cert_chain(folder / "other-client.pem")
    server.verify_mode = ssl.CERT_REQUIRED
    found = failed_handshake(client, server)
    for error in (unreachable("b", 9093, found, has_tls=True), lost("b", 9093, found)):
        assert type(error) is SslAuthenticationError
        assert str(error) == "TLS to b:9093: the broker refuses the certificate of this client: tlsv1 alert unknown ca"


def test_a_handshake_that_the_broker_ends(client, server):
    ended = {
        "Connection reset by peer": ConnectionResetError(errno.ECONNRESET, "reset"),
        "unexpected end of the stream": failed_handshake(client, server, b""),
    }
    for words, closed in ended.items():
        error = unreachable("b", 9093, closed, has_tls=True)
        assert type(error) is BrokerUnreachableError
        assert re.search(rf"closed during the TLS handshake \({words}\); the listener may have no TLS$", str(error))


def test_bytes_that_are_not_tls_in_an_open_connection(client, server):
    error = lost("b", 9093, failed_handshake(client, server, b"HTTP/1.1 400 Bad Request"))
    assert str(error) == "connection to b:9093 lost: wrong version number"


def test_an_error_of_the_system():
    refused = ConnectionRefusedError(errno.ECONNREFUSED, "Connect call failed ('127.0.0.1', 9092)")
    assert str(unreachable("b", 9092, refused, has_tls=True)).endswith(": Connection refused")
    error = unreachable("b", 9092, ConnectionResetError(errno.ECONNRESET, "reset"), has_tls=False)
    assert type(error) is BrokerUnreachableError
    assert str(error).endswith(": Connection reset by peer")


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (None, "closed by the broker"),
        (BrokenPipeError(errno.EPIPE, "pipe"), "Broken pipe"),
        (ValueError("a text"), "a text"),
        (TimeoutError(), "TimeoutError"),
    ],
    ids=str,
)
def test_a_connection_that_has_ended(error, reason):
    found = lost("b", 9092, error)
    assert type(found) is ConnectionLostError
    assert str(found) == f"connection to b:9092 lost: {reason}"
