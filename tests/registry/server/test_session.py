"""Sessions of the registry's server: they outlive connections, and end by a request or by silence."""

import asyncio

import pytest

from registry.server import server as server_module
from registry.server.codes import ErrorCode, OpCode
from support.polling import until
from support.registry_client import create, read

EPHEMERAL = 1


async def test_a_session_goes_on_with_another_connection(client, dial):
    await client.create("/mine", flags=EPHEMERAL)
    again = await (await dial()).connect(session_id=client.session_id, password=client.password)
    assert (again.session_id, again.password) == (client.session_id, client.password)
    assert await client.is_closed()
    assert await again.exists("/mine")


async def test_a_session_needs_its_password(client, dial):
    thief = await (await dial()).connect(session_id=client.session_id, password=bytes(16))
    assert (thief.session_id, thief.timeout_ms) == (0, 0)
    assert await thief.is_closed()
    assert await client.create("/a") == ErrorCode.OK


async def test_an_unknown_session_is_refused(dial):
    lost = await (await dial()).connect(session_id=12345, password=bytes(16))
    assert lost.session_id == 0
    assert await lost.is_closed()


@pytest.mark.parametrize(("wanted", "granted"), [(1, 2_000), (10_000, 10_000), (3_600_000, 120_000)])
async def test_the_timeout_has_limits(dial, wanted, granted):
    assert (await (await dial()).connect(timeout_ms=wanted)).timeout_ms == granted


async def test_a_silent_session_ends_with_its_ephemeral_nodes(client, other, clock, server):
    await client.create("/mine", flags=EPHEMERAL)
    clock.advance(6)
    assert await other.exists("/mine")  # which is also a sign of life of the other
    clock.advance(4)
    assert await client.is_closed()
    assert not await other.exists("/mine")
    assert list(server.sessions) == [other.session_id]


async def test_the_end_of_a_session_closes_the_connection_of_a_client_that_does_not_read(client, other, clock, server):
    await client.create("/large", bytes(100_000))
    (served,) = [one for one in server.connections if one.session.id == client.session_id]
    for _ in range(200):
        client.send(OpCode.GET_DATA, read("/large"))
    await until(lambda: served._transport.get_write_buffer_size() > 0, "the client does not read")
    clock.advance(10)
    await until(lambda: served not in server.connections, "the connection is closed")


async def test_the_time_in_which_the_server_did_not_run_does_not_count(client, other, clock, server):
    """As after a SIGSTOP, or on a machine that stands still: the clients had no chance."""
    await client.create("/mine", flags=EPHEMERAL)
    clock.stall(60)
    assert await other.exists("/mine")
    clock.advance(0.9)
    assert await client.exists("/mine")
    clock.advance(9)
    assert await other.exists("/mine")
    clock.advance(1)
    assert await client.is_closed()
    assert not await other.exists("/mine")


async def test_a_ping_keeps_a_session(client, clock):
    for _ in range(5):
        clock.advance(9)
        client.send(OpCode.PING, xid=-2)
        reply = await client.reply()
        assert (reply.xid, reply.error) == (-2, ErrorCode.OK)
    assert await client.create("/a") == ErrorCode.OK


async def test_a_session_without_a_connection_ends_after_its_timeout(client, other, clock):
    await client.create("/mine", flags=EPHEMERAL)
    await client.close()
    clock.advance(9.9)
    assert await other.exists("/mine")
    clock.advance(0.1)
    await until(lambda: _is_gone(other, "/mine"), "the ephemeral node is deleted")


async def _is_gone(client, path):
    return not await client.exists(path)


async def test_the_end_of_a_session_is_answered_after_what_was_asked_before(client, other):
    client.send(OpCode.CLOSE_SESSION)
    replies = [await client.reply()]
    assert [reply.error for reply in replies] == [ErrorCode.OK]
    assert await client.is_closed()
    assert await other.create("/a") == ErrorCode.OK


async def test_a_closed_session_cannot_be_taken_up_again(client, dial):
    await client.create("/mine", flags=EPHEMERAL)
    await client.ask(OpCode.CLOSE_SESSION)
    again = await (await dial()).connect(session_id=client.session_id, password=client.password)
    assert again.session_id == 0


async def test_a_session_whose_end_is_under_way_cannot_be_taken_up(client, other, dial, server, monkeypatch):
    """Its owner, whose connection was closed when another client took the session to end it, comes back just then."""
    await client.create("/mine", flags=EPHEMERAL)
    is_asked, is_written = asyncio.Event(), asyncio.Event()
    end_session = server.store.end_session

    async def end_later(session_id):
        is_asked.set()
        await is_written.wait()
        await end_session(session_id)

    monkeypatch.setattr(server.store, "end_session", lambda session_id: asyncio.ensure_future(end_later(session_id)))
    client.send(OpCode.CLOSE_SESSION)
    await is_asked.wait()
    owner = await (await dial()).connect(session_id=client.session_id, password=client.password)
    assert (owner.session_id, await owner.is_closed()) == (0, True)
    is_written.set()
    assert (await client.reply()).error == ErrorCode.OK
    assert await client.is_closed()
    assert not await other.exists("/mine")


async def test_a_write_whose_connection_breaks_is_applied(client, other):
    client.send(OpCode.CREATE, create("/a"))
    await client.writer.drain()
    await client.close()
    await until(lambda: other.exists("/a"), "the node is there")


@pytest.mark.parametrize("limit", ["_MAX_LEFT_SESSIONS", "_MAX_LEFT_SESSIONS_OF_AN_ADDRESS"])
async def test_sessions_without_a_connection_have_a_limit(client, dial, server, clock, monkeypatch, limit):
    """New sessions are refused; those that exist go on."""
    monkeypatch.setattr(server_module, limit, 2)
    left = [await (await dial()).connect() for _ in range(2)]
    for one in left:
        await one.close()
    await until(lambda: sum(one.connection is None for one in server.sessions.values()) == 2, "two have none")
    refused = await dial()
    refused.send_connect()
    assert await refused.is_closed()
    assert await client.create("/a") == ErrorCode.OK
    again = await (await dial()).connect(session_id=left[0].session_id, password=left[0].password)
    assert again.session_id == left[0].session_id
    await (await dial()).connect()
