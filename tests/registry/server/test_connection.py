"""Connections of the registry's server: the order of answers, bad frames, limits."""

import asyncio
import contextlib
import gc
import socket

import pytest

from registry.embedded.store import EmbeddedStore
from registry.server import connection, jute
from registry.server import server as server_module
from registry.server.codes import ErrorCode, EventType, OpCode
from registry.server.server import RegistryServer
from support.deadlines import DEADLINE_S
from support.loops import on_both_loops
from support.polling import until
from support.registry_client import create, read, set_data


async def test_a_read_sees_the_writes_before_it_and_none_after_it(client):
    client.send(OpCode.CREATE, create("/a", b"0"))
    for value in (b"1", b"2"):
        client.send(OpCode.GET_DATA, read("/a"))
        client.send(OpCode.SET_DATA, set_data("/a", value))
    client.send(OpCode.GET_DATA, read("/a"))
    replies = [await client.reply() for _ in range(6)]
    assert [reply.xid for reply in replies] == [1, 2, 3, 4, 5, 6]
    assert [replies[index].body.buffer() for index in (1, 3, 5)] == [b"0", b"1", b"2"]


async def test_the_event_of_a_write_comes_before_its_answer(client):
    assert not await client.exists("/a", watch=True)
    client.send(OpCode.CREATE, create("/a"))
    assert await client.event() == (EventType.NODE_CREATED, "/a")
    assert (await client.reply()).error == ErrorCode.OK


async def test_thousands_of_requests_at_once_are_all_answered(client):
    await client.create("/a")
    xids = [
        client.send(OpCode.SET_DATA if n % 3 else OpCode.EXISTS, set_data("/a", b"") if n % 3 else read("/a"))
        for n in range(5_000)
    ]
    assert [(await client.reply()).xid for _ in xids] == xids


async def test_a_client_that_does_not_read_its_answers_is_not_answered_further(client, other, server):
    await client.create("/large", bytes(100_000))
    (served,) = [one for one in server.connections if one.session.id == client.session_id]
    xids = [client.send(OpCode.GET_DATA, read("/large")) for _ in range(200)]
    await until(lambda: served._transport.get_write_buffer_size() > 0, "the client does not read")
    xids += [client.send(OpCode.GET_DATA, read("/large")) for _ in range(200)]
    for _ in range(3):
        await other.exists("/large")
        assert served._transport.get_write_buffer_size() < 300_000
    assert [(await client.reply()).xid for _ in xids] == xids
    assert (await client.ask(OpCode.PING)).error == ErrorCode.OK


@pytest.mark.parametrize(("limit", "value"), [("_MAX_WAITING", 10), ("_MAX_WAITING_BYTES", 10 * 100)])
async def test_too_many_requests_of_a_client_wait_in_its_socket(client, server, monkeypatch, limit, value):
    monkeypatch.setattr(connection, limit, value)
    (served,) = server.connections
    seen = []
    write = server.store.write

    def spy(*args, **options):
        seen.append(served.outstanding)
        return write(*args, **options)

    monkeypatch.setattr(server.store, "write", spy)
    xids = [client.send(OpCode.CREATE, create(f"/{n}", bytes(100))) for n in range(500)]
    assert [(await client.reply()).xid for _ in xids] == xids
    assert max(seen) <= 11


async def test_a_client_with_many_reads_lets_others_have_their_turn(client, server, monkeypatch):
    turns, answers = [0], []
    loop = asyncio.get_running_loop()

    def turn():
        turns.append(0)
        if len(answers) < 3_000:
            loop.call_soon(turn)

    real = connection.ServerConnection._answer_read

    def counted(self, request):
        turns[-1] += 1
        answers.append(request.xid)
        real(self, request)

    monkeypatch.setattr(connection.ServerConnection, "_answer_read", counted)
    loop.call_soon(turn)
    xids = [client.send(OpCode.EXISTS, read("/")) for _ in range(3_000)]
    assert [(await client.reply()).xid for _ in xids] == xids
    assert answers == xids
    assert max(turns) <= 200


@pytest.mark.parametrize("limit", ["_MAX_CONNECTIONS", "_MAX_CONNECTIONS_OF_AN_ADDRESS"])
async def test_too_many_connections_are_refused(client, dial, server, monkeypatch, limit):
    monkeypatch.setattr(server_module, limit, 2)
    second = await (await dial()).connect()
    assert await (await dial()).is_closed()
    await second.close()
    await until(lambda: len(server.connections) == 1, "the connection is forgotten")
    assert await (await (await dial()).connect()).create("/a") == ErrorCode.OK


async def test_events_end_the_connection_of_a_client_that_does_not_read(client, other, server, monkeypatch):
    monkeypatch.setattr(connection, "_MAX_UNREAD_BYTES", 1_000)
    await client.create("/large", bytes(100_000))
    assert await client.exists("/a", watch=True) is False
    (served,) = [one for one in server.connections if one.session.id == client.session_id]
    for _ in range(200):
        client.send(OpCode.GET_DATA, read("/large"))
    await until(lambda: served._transport.get_write_buffer_size() > 1_000, "the client does not read")
    await other.create("/a")
    await until(lambda: served not in server.connections, "the connection is aborted")


async def test_a_connection_has_a_limited_number_of_identities(client):
    def auth(user):
        return jute.int32(0) + jute.string("digest") + jute.buffer(user)

    for number in (*range(15), 3):
        assert (await client.ask(OpCode.AUTH, auth(b"user%d:secret" % number))).error == ErrorCode.OK
    assert (await client.ask(OpCode.AUTH, auth(b"another:secret"))).error == ErrorCode.AUTH_FAILED
    assert await client.is_closed()


async def test_a_user_of_an_auth_packet_is_short(client):
    secret = jute.int32(0) + jute.string("digest") + jute.buffer(b"a" * 2_000 + b":secret")
    assert (await client.ask(OpCode.AUTH, secret)).error == ErrorCode.AUTH_FAILED


@pytest.mark.parametrize("length", [-1, 0x100000, 0x7FFFFFFF])
async def test_a_frame_of_an_impossible_length_ends_its_connection_only(client, other, length):
    client.writer.write(jute.int32(length))
    assert await client.is_closed()
    assert await other.create("/a") == ErrorCode.OK


@pytest.mark.parametrize("frame", [b"", b"\0" * 7, jute.int32(3) + b"\0\0"])
async def test_a_request_without_a_whole_header_ends_its_connection(client, frame):
    client.send_frame(frame)
    assert await client.is_closed()


async def test_the_first_frame_is_small(dial):
    stranger = await dial()
    stranger.writer.write(jute.int32(2_000))
    assert await stranger.is_closed()


async def test_a_first_frame_that_is_cut_short_ends_the_connection(dial):
    stranger = await dial()
    stranger.send_frame(jute.int32(0) + jute.int64(0))
    assert await stranger.is_closed()


@pytest.mark.parametrize("body", [b"", jute.int32(50), jute.string("/a"), jute.buffer(b"\xff\xfe") + b"\0" * 20])
async def test_a_request_whose_fields_cannot_be_read_is_answered_with_an_error(client, body):
    assert (await client.ask(OpCode.SET_DATA, body)).error == ErrorCode.MARSHALLING_ERROR
    assert await client.create("/b") == ErrorCode.OK


async def test_a_list_cannot_claim_more_items_than_there_are_bytes(client):
    body = jute.int64(0) + jute.int32(0x7FFFFFFF) + jute.string("/a")
    assert (await client.ask(OpCode.SET_WATCHES, body)).error == ErrorCode.MARSHALLING_ERROR


@pytest.mark.parametrize(
    ("opcode", "body", "code"),
    [
        (999, b"", ErrorCode.UNIMPLEMENTED),
        (OpCode.RECONFIG, b"", ErrorCode.RECONFIG_DISABLED),
        (OpCode.CREATE, create("/a", flags=5), ErrorCode.BAD_ARGUMENTS),
        (OpCode.CREATE, create("a"), ErrorCode.BAD_ARGUMENTS),
        (OpCode.GET_DATA, read("/a//b"), ErrorCode.BAD_ARGUMENTS),
        (OpCode.ADD_WATCH, jute.string("/a") + jute.int32(7), ErrorCode.BAD_ARGUMENTS),
    ],
)
async def test_refused_requests(client, opcode, body, code):
    assert (await client.ask(opcode, body)).error == code
    assert not await client.exists("/a")


async def test_a_client_that_has_seen_a_later_state_is_refused(dial, server):
    """It would go back in time, for example after the data were deleted."""
    stranger = await dial()
    with pytest.raises(asyncio.IncompleteReadError):
        await stranger.connect(seen_zxid=server.store.tree.zxid + 1)


async def test_frames_in_pieces(client):
    body = jute.int32(1) + jute.int32(OpCode.CREATE) + create("/a", b"data")
    frame = jute.int32(len(body)) + body
    for byte in frame[:-1]:
        client.writer.write(bytes([byte]))
        await client.writer.drain()
    client.writer.write(frame[-1:])
    reply = await client.reply()
    assert (reply.xid, reply.error, reply.body.string()) == (1, ErrorCode.OK, "/a")


async def test_a_connection_that_ends_does_not_wait_without_limit_for_its_client(client, server, clock):
    """The client has sent an invalid frame and does not read what was sent before."""
    await client.create("/large", bytes(100_000))
    (served,) = server.connections
    for _ in range(200):
        client.send(OpCode.GET_DATA, read("/large"))
    await until(lambda: served._transport.get_write_buffer_size() > 0, "the client does not read")
    served.close()
    clock.advance(4.9)
    assert served in server.connections
    clock.advance(0.1)
    await until(lambda: served not in server.connections, "the connection is aborted")


async def test_a_client_without_a_session_is_closed(dial, server, clock):
    silent = await dial()
    await until(lambda: server.connections, "the connection is accepted")
    clock.advance(30)
    assert await silent.is_closed()
    await until(lambda: not server.connections, "the connection is forgotten")


@on_both_loops
async def test_a_connection_accepted_in_the_turn_in_which_the_server_closes_is_closed():
    """asyncio accepts in one turn of the loop and makes the transport in the next, which needs an open server."""
    store = await EmbeddedStore.open()
    for turns in range(5):
        server = RegistryServer(store)
        await server.start()
        with socket.create_connection(("127.0.0.1", server.port)) as client, contextlib.suppress(ConnectionResetError):
            for _ in range(turns):
                await asyncio.sleep(0)
            await server.close()
            client.settimeout(DEADLINE_S)
            assert await asyncio.to_thread(client.recv, 1) == b""  # reset if it was not accepted, else closed
        gc.collect()  # reports a socket that nobody has closed
        assert not server.connections
    await store.close()
