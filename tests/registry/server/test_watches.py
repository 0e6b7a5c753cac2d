"""Watches of the registry's server: what fires, once or each time, and what a new connection gets to know."""

import pytest

from registry.server import jute, watches
from registry.server.codes import ErrorCode, EventType, OpCode
from support.registry_client import delete, read, set_data

CREATED, DELETED = EventType.NODE_CREATED, EventType.NODE_DELETED
CHANGED, CHILDREN = EventType.NODE_DATA_CHANGED, EventType.NODE_CHILDREN_CHANGED
PERSISTENT, RECURSIVE = 0, 1


async def watch(client, path, mode):
    reply = await client.ask(OpCode.ADD_WATCH, jute.string(path) + jute.int32(mode))
    assert (reply.error, reply.body.int32()) == (ErrorCode.OK, 0)


async def life_of(client, path):
    """Create a node, set its data, give it a child, and delete both."""
    assert await client.create(path) == ErrorCode.OK
    assert (await client.ask(OpCode.SET_DATA, set_data(path, b"1"))).error == ErrorCode.OK
    assert await client.create(f"{path}/child") == ErrorCode.OK
    assert (await client.ask(OpCode.DELETE, delete(f"{path}/child"))).error == ErrorCode.OK
    assert (await client.ask(OpCode.DELETE, delete(path))).error == ErrorCode.OK


async def events_until(client, end):
    """The events until this node is created."""
    found = []
    while (event := await client.event()) != (CREATED, end):
        found.append(event)
    return found


@pytest.fixture
async def end(client, other):
    """Read the client's events up to now."""
    await client.exists("/end", watch=True)

    async def end():
        assert await other.create("/end") == ErrorCode.OK
        return await events_until(client, "/end")

    return end


async def test_a_watch_fires_once(client, other, end):
    await client.exists("/a", watch=True)
    await life_of(other, "/a")
    assert await end() == [(CREATED, "/a")]


async def test_a_watch_of_children_fires_for_children_and_for_the_end_of_the_node(client, other, end):
    await other.create("/a")
    for change, event in (
        (lambda: other.create("/a/b"), (CHILDREN, "/a")),
        (lambda: other.ask(OpCode.DELETE, delete("/a/b")), (CHILDREN, "/a")),
        (lambda: other.ask(OpCode.DELETE, delete("/a")), (DELETED, "/a")),
    ):
        await client.ask(OpCode.GET_CHILDREN, read("/a", watch=True))
        await change()
        assert await client.event() == event
    assert await end() == []


async def test_two_watches_of_a_deleted_node_are_one_event(client, other, end):
    await other.create("/a")
    await client.ask(OpCode.GET_DATA, read("/a", watch=True))
    await client.ask(OpCode.GET_CHILDREN, read("/a", watch=True))
    await other.ask(OpCode.DELETE, delete("/a"))
    assert await end() == [(DELETED, "/a")]


async def test_a_read_that_fails_sets_no_watch_but_exists_does(client, other, end):
    for opcode in (OpCode.GET_DATA, OpCode.GET_CHILDREN):
        assert (await client.ask(opcode, read("/a", watch=True))).error == ErrorCode.NO_NODE
    await other.create("/a")
    assert await end() == []


async def test_a_persistent_watch_fires_each_time(client, other, end):
    await watch(client, "/a", PERSISTENT)
    await life_of(other, "/a")
    assert await end() == [
        (CREATED, "/a"),
        (CHANGED, "/a"),
        (CHILDREN, "/a"),
        (CHILDREN, "/a"),
        (DELETED, "/a"),
    ]


async def test_a_recursive_watch_fires_for_all_nodes_below_and_not_for_children(client, other, end):
    await watch(client, "/a", RECURSIVE)
    await life_of(other, "/a")
    await life_of(other, "/ab")
    assert await end() == [
        (CREATED, "/a"),
        (CHANGED, "/a"),
        (CREATED, "/a/child"),
        (DELETED, "/a/child"),
        (DELETED, "/a"),
    ]


async def test_a_recursive_watch_of_the_root(client, other):
    await watch(client, "/", RECURSIVE)
    await other.create("/a")
    assert await client.event() == (CREATED, "/a")


@pytest.mark.parametrize(("kind", "is_found"), [(1, False), (2, True), (3, True), (4, False), (5, False), (9, False)])
async def test_watches_are_found_and_removed_by_kind(client, other, end, kind, is_found):
    await other.create("/a")
    await client.ask(OpCode.GET_DATA, read("/a", watch=True))
    body = jute.string("/a") + jute.int32(kind)
    expected = ErrorCode.OK if is_found else ErrorCode.NO_WATCHER
    assert (await client.ask(OpCode.CHECK_WATCHES, body)).error == expected
    assert (await client.ask(OpCode.REMOVE_WATCHES, body)).error == expected
    assert (await client.ask(OpCode.REMOVE_WATCHES, body)).error == ErrorCode.NO_WATCHER
    await other.ask(OpCode.SET_DATA, set_data("/a", b"1"))
    assert await end() == ([] if is_found else [(CHANGED, "/a")])


async def test_a_new_connection_gets_the_events_that_it_has_missed(client, other, dial, server):
    for name in ("set", "same", "parent", "deleted", "quiet"):
        await other.create(f"/{name}")
    seen = server.store.tree.zxid
    await other.ask(OpCode.SET_DATA, set_data("/set", b"1"))
    await other.create("/parent/child")
    await other.ask(OpCode.DELETE, delete("/deleted"))
    await other.create("/new")
    again = await (await dial()).connect(session_id=client.session_id, password=client.password, seen_zxid=seen)
    data = jute.strings(["/set", "/same", "/deleted"])
    exist = jute.strings(["/new", "/never"])
    children = jute.strings(["/parent", "/quiet", "/deleted"])
    again.send(OpCode.SET_WATCHES, jute.int64(seen) + data + exist + children, xid=-8)
    events = [await again.event() for _ in range(5)]
    assert events == [
        (CHANGED, "/set"),
        (DELETED, "/deleted"),
        (CREATED, "/new"),
        (CHILDREN, "/parent"),
        (DELETED, "/deleted"),
    ]
    reply = await again.reply()
    assert (reply.xid, reply.error) == (-8, ErrorCode.OK)
    for change, event in (
        (lambda: other.ask(OpCode.SET_DATA, set_data("/same", b"1")), (CHANGED, "/same")),
        (lambda: other.create("/never"), (CREATED, "/never")),
        (lambda: other.create("/quiet/child"), (CHILDREN, "/quiet")),
    ):
        await change()
        assert await again.event() == event


async def test_persistent_watches_on_a_new_connection(client, other, dial):
    again = await (await dial()).connect(session_id=client.session_id, password=client.password)
    none = jute.strings([])
    body = jute.int64(0) + none * 3 + jute.strings(["/p"]) + jute.strings(["/r"])
    assert (await again.ask(OpCode.SET_WATCHES2, body)).error == ErrorCode.OK
    for path in ("/p", "/p/x", "/r", "/r/x"):
        await other.create(path)
    assert [await again.event() for _ in range(4)] == [
        (CREATED, "/p"),
        (CHILDREN, "/p"),
        (CREATED, "/r"),
        (CREATED, "/r/x"),
    ]


async def test_the_watches_of_a_connection_have_a_limit(client, other, monkeypatch):
    """A watch that has fired or was removed does not count."""
    monkeypatch.setattr(watches, "_MAX_BYTES", 2 * 102)
    await client.create("/a")
    for _ in range(3):
        assert await client.exists("/a", watch=True)
        await other.ask(OpCode.SET_DATA, set_data("/a", b""))
        assert await client.event() == (EventType.NODE_DATA_CHANGED, "/a")
    for path in ("/b", "/b", "/c"):
        assert (await client.ask(OpCode.EXISTS, read(path, watch=True))).error == ErrorCode.NO_NODE
    assert (await client.ask(OpCode.GET_DATA, read("/a", watch=True))).error == ErrorCode.BAD_ARGUMENTS
    assert (await client.ask(OpCode.GET_DATA, read("/a"))).error == ErrorCode.OK
    assert (await client.ask(OpCode.REMOVE_WATCHES, jute.string("/b") + jute.int32(2))).error == ErrorCode.OK
    assert (await client.ask(OpCode.GET_DATA, read("/a", watch=True))).error == ErrorCode.OK


@pytest.mark.parametrize("position", range(5))
async def test_watches_that_are_set_again_need_valid_paths(client, position):
    lists = [jute.strings(["no slash"] if position == index else []) for index in range(5)]
    reply = await client.ask(OpCode.SET_WATCHES2, jute.int64(0) + b"".join(lists))
    assert reply.error == ErrorCode.BAD_ARGUMENTS
