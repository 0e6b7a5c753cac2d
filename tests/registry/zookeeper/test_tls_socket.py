"""TLS connections as kazoo waits for them: data that `select` does not see, and bytes that are no data."""

import asyncio
import contextlib
import socket
import ssl
import threading

import pytest

from registry.zookeeper.session import LoopHandler
from registry.zookeeper.tls_socket import TlsSocket, reason
from security.tls.contexts import client_context, server_context
from security.tls.settings import TlsSettings
from support.certificates import authority, other_authority, server_certificate
from support.deadlines import DEADLINE_S


def settings(trusted=authority, key=server_certificate):
    stores = {"truststore_type": "PEM", "truststore_certificates": trusted().pem()}
    if key is not None:
        chain = key().chain_pem()
        stores |= {"keystore_type": "PEM", "keystore_key": key().key_pem(), "keystore_certificate_chain": chain}
    return TlsSettings(**stores)


class Pair:
    """Both ends of a connection; the server's end is in memory, so a test decides which bytes arrive."""

    def __init__(self, host="localhost", trusted=authority, client_auth="none"):
        self.errors = []
        ours, self.wire = socket.socketpair()
        self.wire.settimeout(DEADLINE_S)
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = server_context(settings(), client_auth).wrap_bio(self._incoming, self._outgoing, server_side=True)
        self.socket = TlsSocket(ours, client_context(settings(trusted, None)), host, self.errors.append)
        self._failure = None

    def handshake(self):
        server = threading.Thread(target=self._serve)
        server.start()
        try:
            self.socket.handshake(DEADLINE_S)
        finally:
            server.join()
        self.socket.setblocking(False)
        return self

    def _serve(self):
        while True:
            try:
                self._tls.do_handshake()
            except ssl.SSLWantReadError:
                self.wire.sendall(self._outgoing.read())
                self._incoming.write(self.wire.recv(65_536))
            except ssl.SSLError:
                with contextlib.suppress(OSError):  # the client has closed the connection
                    self.wire.sendall(self._outgoing.read())
                return
            else:
                self.wire.sendall(self._outgoing.read())
                return

    def encrypted(self, *texts):
        for text in texts:
            self._tls.write(text)
        return self._outgoing.read()

    def decrypted(self):
        self._incoming.write(self.wire.recv(65_536))
        return self._tls.read()

    def close(self):
        self.socket.close()
        self.wire.close()


@pytest.fixture
def pair():
    with contextlib.closing(Pair()) as made:
        yield made.handshake()


@pytest.fixture
async def select():
    """The `select` that kazoo calls; it never waits here."""
    handler = LoopHandler(asyncio.get_running_loop(), 1)
    return lambda *readers: handler.select(list(readers), [], [], 0.0)[0]


def test_data_in_both_directions(pair):
    assert pair.socket.send(b"question") == 8
    assert pair.decrypted() == b"question"
    pair.wire.sendall(pair.encrypted(b"answer"))
    assert pair.socket.recv(3) + pair.socket.recv(9) == b"answer"
    with pytest.raises(ssl.SSLWantReadError):
        pair.socket.recv(1)


async def test_what_is_decrypted_already_is_ready(pair, select):
    pair.wire.sendall(pair.encrypted(b"ab"))
    assert select(pair.socket) == [pair.socket]
    assert pair.socket.recv(1) == b"a"
    # Nothing is left on the socket, so the operating system's select would wait.
    assert select(pair.socket, pair.wire) == [pair.socket]
    assert pair.socket.pending() == 1
    assert pair.socket.recv(5) == b"b"
    assert select(pair.socket) == []


async def test_half_a_record_is_not_ready(pair, select):
    record = pair.encrypted(b"text")
    pair.wire.sendall(record[:10])
    assert select(pair.socket) == []
    pair.wire.sendall(record[10:])
    assert select(pair.socket) == [pair.socket]
    assert pair.socket.recv(9) == b"text"


async def test_other_sockets_are_seen_beside_it(pair, select):
    one, other = socket.socketpair()
    with one, other:
        other.sendall(b"x")
        assert select(pair.socket, one) == [one]
        pair.wire.sendall(pair.encrypted(b"text"))
        assert select(pair.socket, one) == [pair.socket, one]


async def test_the_end_is_ready(pair, select):
    pair.wire.shutdown(socket.SHUT_WR)  # not close: as with TCP, an alert can still be sent
    assert select(pair.socket) == [pair.socket]
    assert pair.socket.recv(1) == b""


async def test_an_error_is_ready(pair, select):
    pair.wire.sendall(b"\x17\x03\x03\x00\x20" + bytes(32))
    assert select(pair.socket) == [pair.socket]
    with pytest.raises(ssl.SSLError):
        pair.socket.recv(1)
    assert "TLS failed" in reason(pair.errors[0])


async def test_a_client_certificate_that_is_missing_shows_after_the_handshake(select):
    with contextlib.closing(Pair(client_auth="required")) as pair:
        pair.handshake()
        assert select(pair.socket) == [pair.socket]
        with pytest.raises(ssl.SSLError):
            pair.socket.recv(1)
        assert reason(pair.errors[0]) == (
            "the server answers with the TLS alert certificate required (does it require another client certificate?)"
        )


def test_a_shutdown_does_not_continue_in_plain_text(pair):
    pair.socket.shutdown(socket.SHUT_RDWR)
    with pytest.raises(OSError):  # noqa: PT011  # ssl.SSLError or BrokenPipeError
        pair.socket.send(b"secret")
    assert b"secret" not in pair.wire.recv(65_536)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"host": "example.org"}, "Hostname mismatch"),
        ({"trusted": other_authority}, "self-signed certificate in certificate chain"),
    ],
)
def test_a_certificate_that_is_not_accepted(options, why):
    with contextlib.closing(Pair(**options)) as pair:
        with pytest.raises(ssl.SSLCertVerificationError) as caught:
            pair.handshake()
        assert why in reason(caught.value)
        assert pair.socket.fileno() == -1


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ssl.SSLEOFError(), "is this its port for TLS?"),
        (ConnectionResetError(), "is this its port for TLS?"),
        (TimeoutError(), "does not answer the TLS handshake"),
        (ConnectionRefusedError(111, "Connection refused"), "Connection refused"),
        (OSError("odd"), "odd"),
    ],
)
def test_reasons(error, text):
    assert text in reason(error)
