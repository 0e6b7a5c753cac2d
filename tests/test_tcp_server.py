"""The server of the tests' fake peers leaves no connection open, whenever it is closed."""

import asyncio
import contextlib
import gc
import socket
from pathlib import Path

import pytest

from support.deadlines import DEADLINE_S
from support.tcp_server import TcpServer


def serve_until_closed(accepted):
    async def serve(reader, writer):
        accepted.append(writer)
        await reader.read()

    return serve


async def end_of(connection):
    reader, writer = connection
    try:
        async with asyncio.timeout(DEADLINE_S):
            return await reader.read()
    except ConnectionResetError:
        return b""
    finally:
        writer.transport.abort()


@pytest.mark.parametrize("is_closed", [True, False])
@pytest.mark.parametrize("turns", range(8))
def test_no_connection_is_left_however_far_it_had_come_at_the_end(turns, is_closed):
    async def test():
        server = TcpServer(serve_until_closed([]))
        await server.listen()
        client = socket.create_connection(("127.0.0.1", server.port))
        for _ in range(turns):
            await asyncio.sleep(0)
        if is_closed:
            await server.close()
        else:
            server.stop_listening()
        return client

    client = asyncio.run(test())
    with client:
        client.settimeout(DEADLINE_S)
        with contextlib.suppress(ConnectionResetError):
            assert client.recv(1) == b""
    gc.collect()  # reports, and so fails for, a socket that is still open


async def test_drop_closes_what_is_open_and_accepts_again():
    accepted = []
    server = TcpServer(serve_until_closed(accepted))
    await server.listen()
    first = await asyncio.open_connection("127.0.0.1", server.port)
    second = await asyncio.open_connection("127.0.0.1", server.port)
    server.drop()
    server.stop_listening()
    await server.listen()
    third = await asyncio.open_connection("127.0.0.1", server.port)
    await server.close()
    for connection in (first, second, third):
        assert await end_of(connection) == b""


def test_its_port_is_none_that_the_system_gives_to_others_while_it_does_not_listen():
    first_given, _ = Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()
    assert TcpServer(serve_until_closed([])).port < int(first_given)


async def test_a_connection_ends_with_its_task_and_a_failure_is_reported():
    async def fail(reader, writer):
        raise KeyError("no such topic")

    complaints = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: complaints.append(context["exception"]))
    server = TcpServer(fail)
    await server.listen()
    assert await end_of(await asyncio.open_connection("127.0.0.1", server.port)) == b""
    await server.close()
    assert [repr(error) for error in complaints] == ["KeyError('no such topic')"]
