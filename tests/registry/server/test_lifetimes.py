"""Containers and nodes with a time to live: who may create them, and when the server deletes them.

The answers are those of ZooKeeper 3.9.5 with zookeeper.extendedTypesEnabled.
"""

import asyncio

import pytest

from registry.embedded.store import EmbeddedStore
from registry.server import jute
from registry.server.codes import ErrorCode, EventType, OpCode
from registry.server.jute import JuteReader
from registry.server.server import RegistryServer
from support.polling import until
from support.registry_client import RawClient, create, delete, read, set_data

MAX_TTL_MS = (1 << 40) - 1
MULTI_END = jute.int32(-1) + jute.boolean(True) + jute.int32(-1)
EPHEMERAL_PARENT = ErrorCode.NO_CHILDREN_FOR_EPHEMERALS


class Registry:
    """A server on a file whose wall clock a test sets; its timers run with the same time."""

    def __init__(self, path, clock):
        self.path = path
        self.clock = clock
        self.clients = []

    def now_ms(self):
        return 1_000_000 + round(self.clock.now_s * 1000)

    async def start(self):
        self.store = await EmbeddedStore.open(self.path, now_ms=self.now_ms, keep_sessions=True)
        self.server = RegistryServer(self.store, max_session_timeout_ms=10_000_000, clock=self.clock)
        await self.server.start()

    async def stop(self):
        await self.server.close()
        await self.store.close()

    async def client(self):
        client = RawClient(*await asyncio.open_connection("127.0.0.1", self.server.port))
        self.clients.append(client)
        return await client.connect(timeout_ms=10_000_000)

    async def pass_minutes(self, minutes):
        """Let time pass, and wait until what the server deletes is deleted."""
        for _ in range(minutes):
            self.clock.advance(60)
            await until(lambda: self.store._writer is None, "the deletions are written")

    @property
    def paths(self):
        return sorted(self.store.tree.nodes)[1:]


@pytest.fixture
async def registry(tmp_path, clock):
    made = Registry(tmp_path / "registry.sqlite", clock)
    await made.start()
    yield made
    for client in made.clients:
        await client.close()
    await made.stop()


@pytest.fixture
async def client(registry):
    return await registry.client()


def with_ttl(path, mode, ttl_ms):
    return create(path, b"", mode) + jute.int64(ttl_ms)


async def container(client, path, mode=4):
    return (await client.ask(OpCode.CREATE_CONTAINER, create(path, b"", mode))).error


async def ttl(client, path, ttl_ms, mode=5):
    return (await client.ask(OpCode.CREATE_TTL, with_ttl(path, mode, ttl_ms))).error


async def remove(client, path):
    return (await client.ask(OpCode.DELETE, delete(path))).error


async def test_a_container_is_deleted_after_its_last_child(registry, client):
    assert await container(client, "/c") == ErrorCode.OK
    await registry.pass_minutes(3)
    assert registry.paths == ["/c"]  # it had no child yet
    await client.create("/c/a")
    await client.create("/c/b", flags=1)
    await remove(client, "/c/a")
    await registry.pass_minutes(1)
    assert registry.paths == ["/c", "/c/b"]
    await remove(client, "/c/b")
    await client.exists("/c", watch=True)
    await registry.pass_minutes(1)
    assert registry.paths == []
    assert await client.event() == (EventType.NODE_DELETED, "/c")


async def test_a_container_in_a_container_is_deleted_first(registry, client):
    await container(client, "/c")
    await container(client, "/c/c")
    await client.create("/c/c/a")
    await remove(client, "/c/c/a")
    await registry.pass_minutes(1)
    assert registry.paths == ["/c"]
    await registry.pass_minutes(1)
    assert registry.paths == []


async def test_a_node_is_deleted_when_it_was_not_changed_for_its_time_to_live(registry, client):
    assert await ttl(client, "/short", 59_000) == ErrorCode.OK
    assert await ttl(client, "/set", 100_000) == ErrorCode.OK
    assert await ttl(client, "/parent", 1) == ErrorCode.OK
    await client.create("/parent/child")
    await registry.pass_minutes(1)
    assert registry.paths == ["/parent", "/parent/child", "/set"]
    assert (await client.ask(OpCode.SET_DATA, set_data("/set", b"1"))).error == ErrorCode.OK
    await registry.pass_minutes(1)
    await remove(client, "/parent/child")
    assert registry.paths == ["/parent", "/set"]
    await registry.pass_minutes(1)
    assert registry.paths == []


async def test_they_are_kept_on_disk(registry, client):
    await container(client, "/c")
    await client.create("/c/a")
    await ttl(client, "/t", MAX_TTL_MS)
    await ttl(client, "/s", 1_000)
    await registry.stop()
    await registry.start()
    client = await registry.client()
    assert registry.paths == ["/c", "/c/a", "/s", "/t"]
    await remove(client, "/c/a")
    await registry.pass_minutes(1)
    assert registry.paths == ["/t"]


async def test_nothing_is_written_while_none_has_ended(registry, client):
    await container(client, "/c")
    zxid = registry.store.tree.zxid
    await registry.pass_minutes(2)
    assert registry.store.tree.zxid == zxid


async def test_a_stopped_server_deletes_nothing(registry, client):
    await ttl(client, "/t", 1)
    await registry.server.close()
    registry.clock.advance(600)
    assert registry.store._writer is None
    assert registry.paths == ["/t"]


@pytest.mark.parametrize(
    ("path", "error"),
    [
        ("/c", ErrorCode.OK),
        ("/node", ErrorCode.OK),
        ("/ttl", ErrorCode.OK),
        ("/parent", ErrorCode.NOT_EMPTY),
        ("/ephemeral", ErrorCode.BAD_VERSION),
        ("/none", ErrorCode.NO_NODE),
        ("/none/deep", ErrorCode.NO_NODE),
        ("/", ErrorCode.BAD_ARGUMENTS),
        ("c", ErrorCode.BAD_ARGUMENTS),
        ("", ErrorCode.BAD_ARGUMENTS),
    ],
)
async def test_a_client_deletes_a_container(registry, client, path, error):
    for name in ("/c", "/parent"):
        await container(client, name)
    await ttl(client, "/ttl", 60_000)
    await client.create("/node", b"data")
    await client.create("/parent/child")
    await client.create("/ephemeral", flags=1)
    before = registry.paths
    assert (await client.ask(OpCode.DELETE_CONTAINER, jute.string(path))).error == error
    assert registry.paths == [one for one in before if error or one != path]


async def test_the_path_of_a_container_to_delete_is_a_string_of_jute(registry, client):
    await container(client, "/c")
    assert (await client.ask(OpCode.DELETE_CONTAINER, b"/c")).error == ErrorCode.MARSHALLING_ERROR
    assert registry.paths == ["/c"]


async def test_deleting_a_container_needs_the_right_to_delete(registry, client):
    """Unlike in ZooKeeper 3.9.5, which asks for no right at all."""
    without_delete = jute.int32(1) + jute.int32(31 & ~8) + jute.string("world") + jute.string("anyone")
    await client.create("/closed", acl=without_delete)
    await container(client, "/closed/c")
    assert (await client.ask(OpCode.DELETE_CONTAINER, jute.string("/closed/c"))).error == ErrorCode.NO_AUTH
    assert registry.paths == ["/closed", "/closed/c"]


@pytest.mark.parametrize("mode", [0, 1, 2, 3, 4, 5, 6, 7, -1])
async def test_the_modes_of_a_container(registry, client, mode):
    expected = ErrorCode.OK if 0 <= mode <= 4 else ErrorCode.BAD_ARGUMENTS
    reply = await client.ask(OpCode.CREATE_CONTAINER, create("/c", b"", mode))
    assert reply.error == expected
    if expected == ErrorCode.OK:
        path = reply.body.string()
        assert path == ("/c0000000000" if mode in (2, 3) else "/c")
        assert owner(reply.body) == 0
        assert await client.create(f"{path}/ephemeral", flags=1) == ErrorCode.OK


@pytest.mark.parametrize("mode", [0, 1, 2, 3, 4, 5, 6, 7, -1])
@pytest.mark.parametrize("ttl_ms", [-1, 0, 1, MAX_TTL_MS, MAX_TTL_MS + 1])
async def test_the_modes_of_a_node_with_a_time_to_live(client, mode, ttl_ms):
    is_valid = mode in (5, 6) and 0 < ttl_ms <= MAX_TTL_MS
    reply = await client.ask(OpCode.CREATE_TTL, with_ttl("/t", mode, ttl_ms))
    assert reply.error == (ErrorCode.OK if is_valid else ErrorCode.BAD_ARGUMENTS)
    if is_valid:
        assert reply.body.string() == ("/t0000000000" if mode == 6 else "/t")
        assert owner(reply.body) == 0


def owner(body):
    """Read a stat; return the session that owns the node."""
    for _ in range(4):
        body.int64()
    for _ in range(3):
        body.int32()
    return body.int64()


@pytest.mark.parametrize("opcode", [OpCode.CREATE, OpCode.CREATE2])
@pytest.mark.parametrize(("mode", "error"), [(4, 0), (5, -8), (6, -8), (7, -8), (-1, -8)])
async def test_other_requests_create_neither(registry, client, opcode, mode, error):
    assert (await client.ask(opcode, create("/n", b"", mode))).error == error
    if not error:
        await client.create("/n/a")
        await remove(client, "/n/a")
        await registry.pass_minutes(1)
        assert registry.paths == ["/n"]


def in_multi(opcode, body):
    return jute.int32(opcode) + jute.boolean(False) + jute.int32(-1) + body


@pytest.mark.parametrize(
    ("opcode", "body", "code", "is_deleted"),
    [
        (OpCode.CREATE_CONTAINER, create("/n", b"", 4), OpCode.CREATE2, True),
        (OpCode.CREATE_CONTAINER, create("/n", b"", 0), OpCode.CREATE2, True),
        (OpCode.CREATE2, create("/n", b"", 4), OpCode.CREATE2, True),
        (OpCode.CREATE, create("/n", b"", 4), OpCode.CREATE2, True),
        (OpCode.CREATE, create("/n", b"", 0), OpCode.CREATE, False),
        (OpCode.CREATE2, create("/n", b"", 0), OpCode.CREATE2, False),
        (OpCode.CREATE_TTL, with_ttl("/n", 5, 1), OpCode.CREATE2, True),
        (OpCode.CREATE_TTL, with_ttl("/n", 4, 1), OpCode.CREATE2, True),
        (OpCode.CREATE_TTL, with_ttl("/n", 0, 1), OpCode.CREATE, False),
    ],
)
async def test_in_a_multi(registry, client, opcode, body, code, is_deleted):
    reply = await client.ask(OpCode.MULTI, in_multi(opcode, body) + MULTI_END)
    assert (reply.error, reply.body.int32()) == (ErrorCode.OK, code)
    await client.create("/n/a")
    await remove(client, "/n/a")
    await registry.pass_minutes(1)
    assert registry.paths == ([] if is_deleted else ["/n"])


async def test_a_multi_with_an_invalid_time_to_live_is_not_applied(registry, client):
    bad = in_multi(OpCode.CREATE_TTL, with_ttl("/b", 5, 0))
    reply = await client.ask(OpCode.MULTI, in_multi(OpCode.CREATE, create("/a")) + bad + MULTI_END)
    assert [result(reply.body) for _ in range(2)] == [ErrorCode.OK, ErrorCode.BAD_ARGUMENTS]
    assert registry.paths == []


def result(reader: JuteReader) -> int:
    """Read one result of a multi, which is an error."""
    assert (reader.int32(), reader.boolean()) == (OpCode.ERROR, False)
    reader.int32()
    return reader.int32()


async def test_a_multi_with_an_unknown_mode_cannot_be_read(client):
    reply = await client.ask(OpCode.MULTI, in_multi(OpCode.CREATE, create("/a", b"", 7)) + MULTI_END)
    assert reply.error == ErrorCode.MARSHALLING_ERROR


async def test_they_do_not_belong_to_the_session(registry, client):
    await container(client, "/c")
    await ttl(client, "/t", MAX_TTL_MS)
    await client.create("/e", flags=1)
    assert await client.create("/e/a") == EPHEMERAL_PARENT
    reply = await client.ask(OpCode.GET_EPHEMERALS, jute.string("/"))
    assert reply.body.vector(reply.body.string) == ["/e"]
    await client.ask(OpCode.CLOSE_SESSION)
    assert registry.paths == ["/c", "/t"]
    other = await registry.client()
    assert owner((await other.ask(OpCode.EXISTS, read("/c"))).body) == 0
