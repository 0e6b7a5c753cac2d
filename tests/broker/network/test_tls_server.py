"""TLS listeners over real sockets, on both event loops: handshakes that succeed, fail and stall."""

import asyncio
import contextlib
import logging
import random
import resource
import socket
import ssl
import weakref

import pytest

from broker.network import tls_server
from broker.network.connection import MIN_CAPACITY_BYTES
from broker.network.limited_lines import LINES_IN_A_WINDOW
from broker.network.limits import ConnectionQuota
from broker.network.output import ENCRYPTED_STEP_BYTES
from storage.file_system import FileSystem
from storage.log.file_records import FileRecords
from support.certificates import authority, client_certificate, other_authority
from support.connections import Lazy, framed
from support.deadlines import DEADLINE_S
from support.listening import Client, left_to_garbage_collector, without_garbage_collector
from support.loops import on_both_loops
from support.polling import until
from support.tls_listening import TlsClient, client_tls, tls_listening

PLAIN_TEXT_ALERT = bytes.fromhex("15030300020250")


def quota(**limits):
    loop = asyncio.get_running_loop()
    return ConnectionQuota(now_s=loop.time, call_later=loop.call_later, **limits)


def client_hello():
    """The first record of a handshake."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    end = client_tls().wrap_bio(incoming, outgoing, server_hostname="localhost")
    with contextlib.suppress(ssl.SSLWantReadError):
        end.do_handshake()
    return outgoing.read()


async def refused(port, context):
    """Whether the broker refuses a handshake; with TLS 1.3 the client sees it after its own end."""
    try:
        async with TlsClient(port, context) as client:
            await client.ask(b"x")
    except (ssl.SSLError, OSError, EOFError):
        return True
    return False


@on_both_loops
async def test_frames_of_any_size_are_answered(tmp_path):
    rng = random.Random(1)
    async with tls_listening(tmp_path) as acceptor, TlsClient(acceptor.port) as client:
        assert client.tls.version() == "TLSv1.3"
        for size in (1, 9000, 300_000, 2, 2_000_000, 3):
            body = rng.randbytes(size)
            assert await client.ask(body) == body


@on_both_loops
async def test_frames_that_are_sent_at_once_are_answered_in_order(tmp_path):
    async with tls_listening(tmp_path) as acceptor, TlsClient(acceptor.port) as client:
        bodies = [b"%d" % number for number in range(2000)]
        client.writer.write(b"".join(map(framed, bodies)))
        assert [await client.answer() for _ in bodies] == bodies


@on_both_loops
async def test_a_closed_connection_and_its_handshake_are_freed_at_once(tmp_path):
    async with tls_listening(tmp_path) as acceptor:
        with without_garbage_collector():
            async with TlsClient(acceptor.port) as client:
                await client.ask(b"x")
                connection = weakref.ref(*acceptor.connections)
            await until(lambda: connection() is None, "the connection is freed")
            assert left_to_garbage_collector(tls_server.Handshake) == 0


@on_both_loops
async def test_ranges_of_a_file_are_encrypted_too(tmp_path):
    """Not sent with sendfile, which would put them on the wire in plain text."""
    data = random.Random(2).randbytes(3_000_000)
    (tmp_path / "log").write_bytes(data)
    fs = FileSystem()
    records = FileRecords(fs, fs.open(str(tmp_path / "log")), 0, len(data))
    head = len(data).to_bytes(4)
    async with tls_listening(tmp_path, lambda frame: [head, records]) as acceptor, TlsClient(acceptor.port) as client:
        assert await client.ask(b"x") == data


@on_both_loops
async def test_ranges_are_encrypted_in_small_steps(tmp_path):
    lazy = Lazy(random.Random(3).randbytes(1_000_000))
    head = len(lazy).to_bytes(4)
    async with tls_listening(tmp_path, lambda frame: [head, lazy]) as acceptor, TlsClient(acceptor.port) as client:
        assert await client.ask(b"x") == lazy.data
    assert max(size for _, size in lazy.reads) == ENCRYPTED_STEP_BYTES


@on_both_loops
async def test_the_user_is_the_subject_of_the_certificate(tmp_path):
    settings = {"ssl_client_auth": "requested"}
    async with tls_listening(tmp_path, settings=settings) as acceptor:
        for issued, user in ((client_certificate(), "User:CN=client"), (None, "User:ANONYMOUS")):
            async with TlsClient(acceptor.port, client_tls(issued)) as client:
                await client.ask(b"x")
                (connection,) = acceptor.connections
                assert str(connection.principal) == user
            await until(lambda: not acceptor.connections, "the connection is closed")


@on_both_loops
async def test_a_certificate_without_a_user_name_is_refused(tmp_path, caplog):
    settings = {"ssl_client_auth": "required", "ssl_principal_mapping_rules": "RULE:^CN=known$/known/"}
    caplog.set_level(logging.INFO)
    async with tls_listening(tmp_path, settings=settings) as acceptor:
        assert await refused(acceptor.port, client_tls(client_certificate()))
        async with TlsClient(acceptor.port, client_tls(authority().issue("CN=known"))) as client:
            await client.ask(b"x")
            assert [str(connection.principal) for connection in acceptor.connections] == ["User:known"]
    assert "no rule of ssl.principal.mapping.rules applies to CN=client" in caplog.text


@on_both_loops
async def test_certificates_that_are_missing_or_not_trusted_are_refused_with_a_reason(tmp_path, caplog):
    one = quota()
    caplog.set_level(logging.INFO)
    refused_for = "the client certificate is refused: "
    cases = (
        (None, "peer did not return a certificate", "HANDSHAKE_FAILURE|CERTIFICATE_REQUIRED"),
        (other_authority().issue("CN=client"), refused_for, "UNKNOWN_CA"),
        (authority().issue("CN=client", expired=True), f"{refused_for}certificate has expired", "CERTIFICATE_EXPIRED"),
    )
    async with tls_listening(tmp_path, quota=one, settings={"ssl_client_auth": "required"}) as acceptor:
        for version in ("TLSv1.2", "TLSv1.3"):
            for issued, reason, alert in cases:
                caplog.clear()
                with pytest.raises(ssl.SSLError, match=f"ALERT_({alert})"):  # asyncio alone would not send it
                    async with TlsClient(acceptor.port, client_tls(issued, enabled_protocols=(version,))) as client:
                        await client.ask(b"x")
                await until(lambda: one.total == 0, "the connection is counted no more")
                line, audited = [record.getMessage() for record in caplog.records]
                assert line.startswith("TLS handshake with 127.0.0.1:")
                assert reason in line
                assert audited.startswith('failed: host="127.0.0.1" mechanism=TLS reason="')
                assert reason in audited
        assert not await refused(acceptor.port, client_tls(client_certificate()))


@pytest.mark.parametrize("data", [b"GET / HTTP/1.1\r\n\r\n", b"\0\0\0\x0d\0\x12\0\0\0\0\0\x01\0\x03rec"])
@on_both_loops
async def test_plain_text_gets_kafkas_alert(tmp_path, data, caplog):
    caplog.set_level(logging.INFO)
    async with tls_listening(tmp_path) as acceptor, Client(acceptor) as client:
        await client.send(data)
        assert await client.rest() == PLAIN_TEXT_ALERT
    assert "the client does not speak TLS" in caplog.text


@on_both_loops
async def test_a_handshake_that_is_not_complete_in_time_is_closed(tmp_path, caplog):
    one = quota()
    caplog.set_level(logging.INFO)
    hello = client_hello()
    async with (
        tls_listening(tmp_path, quota=one, handshake_timeout_s=0.2) as acceptor,
        Client(acceptor) as silent,
        Client(acceptor) as partial,
        Client(acceptor) as stalled,
    ):
        await partial.send(hello[:20])
        await stalled.send(hello)
        await silent.rest()
        await partial.rest()
        await stalled.rest()
        await until(lambda: one.total == 0, "the connections are counted no more")
    assert caplog.text.count("the client did not complete it in time") == 3


@on_both_loops
async def test_a_client_hello_in_pieces(tmp_path):
    hello = client_hello()
    async with tls_listening(tmp_path) as acceptor, Client(acceptor) as client:
        for at in range(0, len(hello), 100):
            await client.send(hello[at : at + 100])
            await asyncio.sleep(0)
        assert (await client.exactly(1)) == b"\x16"


@on_both_loops
async def test_stalled_handshakes_count_in_the_limits_and_hinder_nobody(tmp_path):
    one = quota(max_per_ip=21)
    hello = client_hello()
    async with contextlib.AsyncExitStack() as stack:
        acceptor = await stack.enter_async_context(tls_listening(tmp_path, quota=one))
        for number in range(20):
            client = await stack.enter_async_context(Client(acceptor))
            await client.send((b"", hello[:50], hello)[number % 3])
        await until(lambda: one.total == 20, "all are counted")
        async with TlsClient(acceptor.port) as client:
            assert await client.ask(b"x") == b"x"
            assert await refused(acceptor.port, client_tls())  # the limit of the address
        await until(lambda: one.total == 20, "the others are closed")
    assert one.total == 0


@pytest.fixture
def _many_files():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 4096), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.usefixtures("_many_files")
@on_both_loops
async def test_many_stalled_handshakes_cost_a_socket_each(tmp_path):
    """Peers that send nothing, or less than their first record, get no TLS state; others are served meanwhile."""
    stalled = 1000
    one = quota()
    hello = client_hello()
    async with contextlib.AsyncExitStack() as stack:
        acceptor = await stack.enter_async_context(tls_listening(tmp_path, quota=one, backlog=stalled))
        for number in range(stalled):
            client = await stack.enter_async_context(Client(acceptor))
            await client.send(hello[: number % len(hello)])
        await until(lambda: one.total == stalled, "all are counted")
        async with TlsClient(acceptor.port) as client:
            for number in range(100):
                assert await client.ask(b"%d" % number) == b"%d" % number
            assert len(acceptor.connections) == 1
            assert acceptor.budget.receive_bytes == MIN_CAPACITY_BYTES
    assert one.total == 0


@on_both_loops
async def test_handshakes_that_stall_after_their_first_record_are_limited(tmp_path, monkeypatch, caplog):
    """The oldest ones are closed; those that are complete do not count, and a new client is served."""
    caplog.set_level(logging.INFO, "broker.network.tls_server")
    monkeypatch.setattr(tls_server, "MAX_HANDSHAKES_WITH_STATE", 8)
    one, hello = quota(), client_hello()
    async with contextlib.AsyncExitStack() as stack:
        acceptor = await stack.enter_async_context(tls_listening(tmp_path, quota=one))
        served = await stack.enter_async_context(TlsClient(acceptor.port))
        assert await served.ask(b"x") == b"x"
        stalled = []
        for number in range(20):
            stalled.append(await stack.enter_async_context(Client(acceptor)))
            await stalled[-1].send(hello)
            await stalled[-1].exactly(1)  # of the server's answer: its state is allocated
            await until(lambda number=number: one.total == 1 + min(number + 1, 8), "no more than the limit is left")
        async with asyncio.timeout(DEADLINE_S):
            for client in stalled[:12]:
                await client.rest()
        async with TlsClient(acceptor.port) as client:
            assert await client.ask(b"y") == b"y"
        assert await served.ask(b"z") == b"z"
    assert one.total == 0
    assert "more than 8 TLS handshakes, of which it is the oldest" in caplog.text


@on_both_loops
async def test_a_handshake_waits_for_max_connections(tmp_path):
    one = quota(max_connections=1)
    async with tls_listening(tmp_path, quota=one) as acceptor:
        async with Client(acceptor):
            await until(lambda: one.total == 1, "the first is counted")
            second = asyncio.create_task(refused(acceptor.port, client_tls()))
            await until(lambda: one.total == 2, "the second is counted")
            assert not acceptor.connections
        assert not await second


@on_both_loops
async def test_connections_before_the_broker_serves_wait(tmp_path):
    async with tls_listening(tmp_path, is_running=False) as acceptor:
        early = asyncio.create_task(refused(acceptor.port, client_tls()))
        loop = asyncio.get_running_loop()
        await until(lambda: acceptor._early, "the connection is accepted")
        assert not early.done()
        running = loop.create_task(acceptor.run())
        assert not await early
        running.cancel()


@on_both_loops
async def test_a_listener_that_closes_ends_handshakes(tmp_path):
    one = quota()
    async with contextlib.AsyncExitStack() as clients:
        async with tls_listening(tmp_path, quota=one) as acceptor:
            for data in (b"", client_hello()):
                client = await clients.enter_async_context(Client(acceptor))
                await client.send(data)
            await until(lambda: one.total == 2, "both are counted")
        await until(lambda: one.total == 0, "both are closed")


@on_both_loops
async def test_a_client_that_resets_its_connection_is_logged_in_one_line(tmp_path, caplog):
    one = quota()
    caplog.set_level(logging.INFO)
    async with tls_listening(tmp_path, quota=one) as acceptor:
        with socket.create_connection(("127.0.0.1", acceptor.port)):
            await until(lambda: one.total == 1, "the connection is counted")
        await until(lambda: one.total == 0, "the connection is closed")
    (record,) = [record for record in caplog.records if record.name.startswith("broker")]
    assert "the client closed the connection" in record.getMessage()
    assert record.exc_info is None


@on_both_loops
async def test_connections_that_a_limit_closes_cannot_fill_the_log(tmp_path, caplog):
    caplog.set_level(logging.INFO)
    one = quota(max_per_ip=0)
    async with tls_listening(tmp_path, quota=one) as acceptor:
        for _ in range(2 * LINES_IN_A_WINDOW):
            async with Client(acceptor) as client:
                assert await client.rest() == b""
    assert caplog.text.count("closing connection from") == LINES_IN_A_WINDOW
