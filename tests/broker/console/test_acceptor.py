"""The console over TLS: certificates, the limit of connections, and peers that stall."""

import asyncio
import contextlib
import logging
import socket

import aiohttp
import pytest

from broker.broker import Broker
from broker.console.acceptor import ConsoleAcceptor, ConsoleConnection
from broker.network.limited_lines import LINES_IN_A_WINDOW
from broker.network.listener import Listener
from broker.network.listener_tls import ListenerTls
from broker.settings.config import BrokerConfig
from client.wire.listening import listening_sockets
from security.password_encoder import PasswordEncoder
from storage.setting import ConfigError
from support.broker import settings
from support.certificates import authority, client_certificate, other_authority, server_certificate
from support.console import ask
from support.deadlines import DEADLINE_S
from support.polling import until
from support.tls_listening import TlsClient, alter_broker, client_tls, stored_settings, tls_settings
from support.wire import wire_client

HTTPS = {"ottla.console.listener": "https://127.0.0.1:0"}


def console_tls(folder, server=None, **others):
    """The settings of a key store and a trust store, for the console only."""
    values = {f"ottla.console.{name}": value for name, value in tls_settings(folder, server=server).items()}
    return HTTPS | values | others


@contextlib.asynccontextmanager
async def https_broker(folder, values):
    config = BrokerConfig.load(None, settings(folder / "data") | values)
    async with Broker(config) as broker:
        yield broker


async def health(broker, context=None):
    """The answer to a request over TLS; None if the handshake fails."""
    url = f"https://localhost:{broker.console.port}/healthz"
    try:
        async with aiohttp.ClientSession() as http, http.get(url, ssl=context or client_tls()) as response:
            return response.status, await response.text()
    except (aiohttp.ClientError, OSError):
        return None


async def serial(broker):
    async with TlsClient(broker.console.port) as client:
        return client.serial


async def test_https_beside_a_plain_listener(tmp_path):
    async with https_broker(tmp_path, console_tls(tmp_path)) as broker:
        assert await health(broker) == (200, "alive\n")
        assert await health(broker, client_tls(trusted=other_authority())) is None
        assert broker.console.url == f"https://127.0.0.1:{broker.console.port}/"
        reader, writer = await asyncio.open_connection("127.0.0.1", broker.console.port)
        writer.write(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert b"HTTP" not in await reader.read()  # plain text gets no answer but an alert
        writer.close()
        await writer.wait_closed()


async def test_the_stores_of_the_broker_count_but_not_its_client_authentication(tmp_path):
    values = HTTPS | tls_settings(tmp_path) | {"ssl.client.auth": "required"}
    async with https_broker(tmp_path, values) as broker:
        assert await health(broker) == (200, "alive\n")


async def test_client_certificates_can_be_required(tmp_path):
    values = console_tls(tmp_path) | {"ottla.console.ssl.client.auth": "required"}
    async with https_broker(tmp_path, values) as broker:
        assert await health(broker, client_tls(client_certificate())) == (200, "alive\n")
        assert await health(broker, client_tls()) is None
        assert await health(broker, client_tls(other_authority().issue("CN=client"))) is None


@pytest.mark.parametrize("kind", ["p12", "texts"])
async def test_other_kinds_of_stores(tmp_path, kind):
    server = server_certificate()
    if kind == "p12":
        server.write(tmp_path / "server.p12", "hush")
        stores = {"type": "PKCS12", "location": str(tmp_path / "server.p12"), "password": "hush"}
    else:
        stores = {"type": "PEM", "key": server.key_pem(), "certificate.chain": server.chain_pem()}
    values = {f"ottla.console.ssl.keystore.{name}": value for name, value in stores.items()}
    async with https_broker(tmp_path, HTTPS | values) as broker:
        assert await health(broker) == (200, "alive\n")


async def test_a_dynamic_setting_gives_the_console_a_new_certificate(tmp_path):
    first, second = (authority().issue("CN=console", sans=("localhost", "127.0.0.1")) for _ in range(2))
    values = console_tls(tmp_path, first)
    file = second.write(tmp_path / "second.p12", "hush")
    name = "ottla.console.ssl.keystore"
    async with (
        https_broker(tmp_path, values | {"password.encoder.secret": "s"}) as broker,
        wire_client(broker.bootstrap_servers) as client,
        TlsClient(broker.console.port) as kept,
    ):
        assert kept.serial == first.serial
        other = other_authority().issue("CN=attacker").write(tmp_path / "other.pem")
        code, message = await alter_broker(client, {f"{name}.location": str(other)})
        assert (code, "the subject must stay CN=console" in message) == (42, True)
        assert await serial(broker) == first.serial
        new = {f"{name}.type": "PKCS12", f"{name}.location": str(file), f"{name}.password": "hush"}
        assert await alter_broker(client, new) == (0, None)
        assert await serial(broker) == second.serial
        stored = (await stored_settings(broker))[f"{name}.password"]
        assert PasswordEncoder("s").decode(stored) == "hush"
        kept.writer.write(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert await kept.reader.readline() == b"HTTP/1.1 200 OK\r\n"


@pytest.mark.parametrize("name", ["ottla.console.ssl.client.auth", "ottla.console.ssl.cipher.suites"])
async def test_other_settings_of_the_console_cannot_change(tmp_path, name):
    values = console_tls(tmp_path)
    async with https_broker(tmp_path, values) as broker, wire_client(broker.bootstrap_servers) as client:
        code, message = await alter_broker(client, {name: "none"})
        assert (code, "cannot be changed while the broker runs" in message) == (42, True)


async def test_a_console_without_tls_has_no_dynamic_certificates(tmp_path):
    plain = {"ottla.console.listener": "127.0.0.1:0"}
    async with https_broker(tmp_path, plain) as broker, wire_client(broker.bootstrap_servers) as client:
        code, message = await alter_broker(client, {"ottla.console.ssl.keystore.location": "/x"})
        assert (code, "has no effect without TLS" in message) == (42, True)


async def test_a_changed_file_is_the_certificate_of_new_connections(tmp_path):
    first, second = (authority().issue("CN=console", sans=("localhost",)) for _ in range(2))
    async with https_broker(tmp_path, console_tls(tmp_path, first)) as broker:
        assert await serial(broker) == first.serial
        second.write(tmp_path / "new.pem")
        (tmp_path / "new.pem").replace(tmp_path / "server.pem")
        watching = asyncio.create_task(broker.console.tls.watch_files(0.01))

        async def is_new():
            return await serial(broker) == second.serial

        await until(is_new, "the file is read again")
        watching.cancel()


@pytest.mark.parametrize(
    ("values", "said"),
    [
        (HTTPS, "ottla.console.ssl.keystore.location: must be set because ottla.console.listener has https://"),
        (
            {"ottla.console.listener": "127.0.0.1:0", "ottla.console.ssl.client.auth": "required"},
            "ottla.console.ssl.client.auth: has no effect without TLS: begin ottla.console.listener with https://",
        ),
        (
            {"ottla.console.listener": "ftp://127.0.0.1:1"},
            "ottla.console.listener=ftp://127.0.0.1:1: must be host:port",
        ),
        ({"ottla.console.listener": "://127.0.0.1:1"}, "ottla.console.listener=://127.0.0.1:1: must be host:port"),
        ({"ottla.console.ssl.keystor.type": "PEM"}, "ottla.console.ssl.keystor.type=PEM: no setting has this name"),
        (HTTPS | {"ottla.console.ssl.client.auth": "maybe"}, "ottla.console.ssl.client.auth=maybe: must be one of"),
    ],
)
def test_what_is_refused(tmp_path, values, said):
    with pytest.raises(ConfigError) as caught:
        BrokerConfig.load(None, settings(tmp_path) | values)
    assert str(caught.value).startswith(said)


async def test_a_wrong_key_store_stops_the_start_with_the_name_of_the_setting(tmp_path):
    values = HTTPS | {
        "ottla.console.ssl.keystore.location": str(tmp_path / "missing.pem"),
        "ottla.console.ssl.keystore.type": "PEM",
    }
    with pytest.raises(ConfigError, match=r"^ottla\.console\.ssl\.keystore\.location: "):
        async with https_broker(tmp_path, values):
            pass


# -- limits ------------------------------------------------------------------------------------------------------------


class Echo(asyncio.Protocol):
    """Stands for HTTP."""

    def connection_made(self, transport):
        self.transport = transport

    def data_received(self, data):
        self.transport.write(data)


@contextlib.asynccontextmanager
async def accepting(folder=None, new_handler=Echo, **options):
    tls = None
    if folder is not None:
        config = BrokerConfig(console_tls(folder), has_file=False)
        tls = ListenerTls(Listener("console", "127.0.0.1", 0, "SSL"), config.of_console())
    acceptor = ConsoleAcceptor(new_handler, **options)
    sockets = await listening_sockets("127.0.0.1", 0, 10)
    await acceptor.open(sockets, tls, 10)
    try:
        yield sockets[0].getsockname()[1]
    finally:
        await acceptor.close()
        await until(lambda: acceptor.count == 0, "all connections are closed")


@contextlib.contextmanager
def stalled(port):
    with socket.create_connection(("127.0.0.1", port)) as peer:
        yield peer


async def test_a_stalled_handshake_stops_no_one_else(tmp_path):
    with contextlib.ExitStack() as peers:
        async with accepting(tmp_path) as port:
            for start in (b"", b"\x16\x03\x01", b"\x16\x03\x01\x02\x00\x01"):
                peers.enter_context(stalled(port)).sendall(start)
            async with TlsClient(port) as client:
                client.writer.write(b"x")
                assert await client.reader.readexactly(1) == b"x"


@pytest.mark.parametrize("has_tls", [False, True])
@pytest.mark.parametrize("start", [b"", b"GET /healthz HTTP/1.1\r\nHost: local"], ids=["silent", "not complete"])
async def test_a_connection_without_a_request_is_closed(tmp_path, has_tls, start):
    async with accepting(tmp_path if has_tls else None, request_timeout_s=0.05, new_handler=asyncio.Protocol) as port:
        reader, writer = await asyncio.open_connection(
            "127.0.0.1",
            port,
            ssl=client_tls() if has_tls else None,
            server_hostname="localhost" if has_tls else None,
        )
        writer.write(start)
        with contextlib.suppress(ConnectionResetError):
            assert await asyncio.wait_for(reader.read(), DEADLINE_S) == b""
        writer.transport.abort()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


async def test_a_request_that_has_arrived_may_take_longer():
    timers = []

    def call_later(seconds, function, *values):
        timers.append(asyncio.get_running_loop().call_later(seconds, function, *values))
        return timers[-1]

    acceptor = ConsoleAcceptor(Echo)
    acceptor.call_later = call_later
    for _ in range(2):
        connection = ConsoleConnection(acceptor, Echo())
        connection.connection_made(asyncio.Transport())
        assert not timers[-1].cancelled()
        if len(timers) == 1:
            connection.request_arrived()
        else:
            connection.connection_lost(None)
        assert timers[-1].cancelled()


class Refused(asyncio.Transport):
    def abort(self):
        """The connection is refused."""


async def test_refused_connections_do_not_fill_the_log(caplog):
    caplog.set_level(logging.INFO)
    acceptor = ConsoleAcceptor(Echo, max_connections=0)
    for _ in range(LINES_IN_A_WINDOW + 5):
        connection = ConsoleConnection(acceptor, Echo())
        connection.connection_made(Refused({"peername": ("192.0.2.1", 1)}))
    text = "closing connection from 192.0.2.1 on listener console: it is the oldest of more than 0"
    expected = [text] * LINES_IN_A_WINDOW
    assert [one.getMessage() for one in caplog.records] == expected


async def test_every_request_arrives(tmp_path, monkeypatch):
    arrived = []
    monkeypatch.setattr(ConsoleConnection, "request_arrived", lambda connection: arrived.append(connection))
    async with https_broker(tmp_path, {"ottla.console.listener": "127.0.0.1:0"}) as broker:
        for path in ("/healthz", "/nothing", "/api/cluster"):
            arrived.clear()
            assert (await ask(broker, path)).status in (200, 404)
            assert arrived


async def test_a_handshake_that_takes_too_long_is_closed(tmp_path):
    async with accepting(tmp_path, handshake_timeout_s=0.05) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        assert await reader.read() == b""
        writer.close()
        await writer.wait_closed()


@pytest.mark.parametrize("has_tls", [False, True])
async def test_one_connection_too_many_closes_the_oldest(tmp_path, has_tls):
    context, name = (client_tls(), "localhost") if has_tls else (None, None)
    async with accepting(tmp_path if has_tls else None, max_connections=4) as port:
        peers = [await asyncio.open_connection("127.0.0.1", port) for _ in range(4)]  # with TLS, they stall
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context, server_hostname=name)
        writer.write(b"x")
        assert await reader.readexactly(1) == b"x"
        with contextlib.suppress(ConnectionResetError):
            assert await peers[0][0].read() == b""
        for _, other in (*peers, (reader, writer)):
            other.transport.abort()
            with contextlib.suppress(OSError):
                await other.wait_closed()


async def test_handshakes_do_not_close_connections(tmp_path):
    async with accepting(tmp_path, max_connections=4) as port, TlsClient(port) as client:
        peers = [await asyncio.open_connection("127.0.0.1", port) for _ in range(4)]
        with contextlib.suppress(ConnectionResetError):
            assert await peers[0][0].read() == b""
        client.writer.write(b"x")
        assert await client.reader.readexactly(1) == b"x"
        for _, other in peers:
            other.transport.abort()
            with contextlib.suppress(OSError):
                await other.wait_closed()
