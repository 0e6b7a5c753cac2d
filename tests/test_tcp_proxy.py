"""The proxy that tests cut links with ends quietly and completely, also in the middle of a test."""

import asyncio
import contextlib

import pytest

from support.polling import until
from support.tcp_proxy import TcpProxy


@contextlib.asynccontextmanager
async def echo_server():
    """The port of a server that sends back what it gets."""

    class Echo(asyncio.Protocol):
        def connection_made(self, transport):
            self.transport = transport
            transports.append(transport)

        def data_received(self, data):
            self.transport.write(data)

    transports = []
    server = await asyncio.get_running_loop().create_server(Echo, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for transport in transports:
            transport.abort()
        await server.wait_closed()


@contextlib.asynccontextmanager
async def connected(port):
    """A connection to a port of this machine."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        yield reader, writer
    finally:
        writer.transport.abort()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()


async def echo(connection, text):
    reader, writer = connection
    writer.write(text)
    return await reader.readexactly(len(text))


@pytest.fixture
def complaints():
    """What the event loop reports to its exception handler in `run`."""
    return []


@pytest.fixture
def run(complaints):
    """Runs a coroutine in an event loop of its own, which cancels at the end what is left over."""

    def running(coroutine):
        with asyncio.Runner() as runner:
            runner.get_loop().set_exception_handler(lambda loop, context: complaints.append(context))
            return runner.run(coroutine)

    return running


async def test_forwards_both_ways_and_to_a_target_that_changes():
    async with echo_server() as port, TcpProxy("127.0.0.1", 1) as proxy:
        async with connected(proxy.port) as (reader, _):
            assert await reader.read() == b""  # nobody is at port 1
        proxy.target = "127.0.0.1", port
        async with connected(proxy.port) as connection:
            assert await echo(connection, b"hello") == b"hello"
        assert proxy.accepted == 2


async def test_cut_closes_connections_and_refuses_new_ones_until_it_is_healed():
    async with echo_server() as port, TcpProxy("127.0.0.1", port) as proxy:
        async with connected(proxy.port) as connection:
            await echo(connection, b"hello")
            proxy.cut()
            with contextlib.suppress(ConnectionResetError):
                assert await connection[0].read() == b""
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", proxy.port)
        await proxy.heal()
        async with connected(proxy.port) as connection:
            assert await echo(connection, b"again") == b"again"


async def test_what_is_stalled_arrives_after_it_is_healed():
    async with echo_server() as port, TcpProxy("127.0.0.1", port) as proxy, connected(proxy.port) as connection:
        await echo(connection, b"hello")
        proxy.stall(answers_only=True)
        answer = asyncio.create_task(echo(connection, b"late"))
        done, _ = await asyncio.wait([answer], timeout=0.05)
        assert not done
        await proxy.heal()
        assert await answer == b"late"


@pytest.mark.parametrize("stalls", [False, True])
async def test_nothing_is_left_after_the_end(stalls):
    async with echo_server() as port:
        before = asyncio.all_tasks()
        proxy = await TcpProxy("127.0.0.1", port).start()
        async with connected(proxy.port) as one, connected(proxy.port) as other:
            await echo(one, b"hello")
            if stalls:
                proxy.stall()
            other[1].write(b"on its way")
            await until(lambda: proxy.accepted == 2, "both are accepted")
            await proxy.close()
            assert asyncio.all_tasks() == before
            for reader, _ in (one, other):
                with contextlib.suppress(ConnectionResetError):
                    await reader.read()
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", proxy.port)


@pytest.mark.parametrize("stalls", [False, True])
def test_a_test_that_fails_in_the_middle_shows_its_own_traceback_only(run, complaints, caplog, stalls):
    async def test():
        async with echo_server() as port, TcpProxy("127.0.0.1", port) as proxy, connected(proxy.port) as connection:
            await echo(connection, b"hello")
            if stalls:
                proxy.stall()
            raise AssertionError("the test's own")

    with pytest.raises(AssertionError, match="own"):
        run(test())
    assert complaints == []
    assert caplog.text == ""


def test_a_loop_that_ends_before_the_proxy_cancels_its_connections_quietly(run, complaints, caplog):
    proxies = []

    async def test():
        async with echo_server() as port:
            proxy = await TcpProxy("127.0.0.1", port).start()
            proxies.append(proxy)
            async with connected(proxy.port) as connection:
                await echo(connection, b"hello")
                proxy.stall()
                proxy._server.stop_listening()
                raise AssertionError("the test's own")

    with pytest.raises(AssertionError, match="own"):
        run(test())
    assert complaints == []
    assert caplog.text == ""
