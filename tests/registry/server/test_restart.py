"""Sessions survive a restart of the registry's server, with their ephemeral nodes."""

import asyncio
import stat

import pytest

from registry.embedded.store import EmbeddedStore
from registry.errors import RegistryFullError, RegistryStorageError
from registry.server import jute
from registry.server.codes import ErrorCode, EventType, OpCode
from registry.server.server import RegistryServer
from support.polling import until
from support.registry_client import ManualClock, RawClient, create, set_data

EPHEMERAL = 1


class Restarting:
    """A server on a file, which can be stopped and started again."""

    def __init__(self, path):
        self.path = path
        self.clock = ManualClock()
        self.clients = []

    async def start(self, *, keep_sessions=True):
        self.store = await EmbeddedStore.open(self.path, keep_sessions=keep_sessions)
        self.server = RegistryServer(self.store, clock=self.clock)
        await self.server.start()

    async def stop(self):
        await self.server.close()
        await self.store.close()

    async def restart(self, *, keep_sessions=True):
        await self.stop()
        await self.start(keep_sessions=keep_sessions)

    async def dial(self):
        self.clients.append(RawClient(*await asyncio.open_connection("127.0.0.1", self.server.port)))
        return self.clients[-1]

    async def client(self, of=None, **options):
        """A client with a new session, or with that of another client."""
        session = {} if of is None else {"session_id": of.session_id, "password": of.password}
        return await (await self.dial()).connect(**session, **options)


@pytest.fixture
async def registry(tmp_path):
    made = Restarting(tmp_path / "registry.sqlite")
    await made.start()
    yield made
    for client in made.clients:
        await client.close()
    await made.stop()


async def test_a_client_goes_on_with_its_session_and_its_ephemeral_nodes(registry):
    client = await registry.client(timeout_ms=9_000)
    assert await client.create("/mine", flags=EPHEMERAL) == ErrorCode.OK
    await registry.restart()
    again = await registry.client(client)
    assert (again.session_id, again.timeout_ms, again.password) == (client.session_id, 9_000, client.password)
    assert await again.exists("/mine")
    assert (await again.ask(OpCode.GET_EPHEMERALS, jute.string("/"))).body.vector(lambda: None) == [None]
    other = await registry.client()
    assert other.session_id > client.session_id
    await again.ask(OpCode.CLOSE_SESSION)
    assert not await other.exists("/mine")


async def test_its_password_is_needed(registry):
    client = await registry.client()
    await registry.restart()
    thief = await (await registry.dial()).connect(session_id=client.session_id, password=bytes(16))
    assert thief.session_id == 0


async def test_a_session_whose_client_does_not_return_ends_after_its_timeout(registry):
    client = await registry.client(timeout_ms=9_000)
    await client.create("/mine", flags=EPHEMERAL)
    registry.clock.advance(8)
    await registry.restart()
    observer = await registry.client(timeout_ms=40_000)
    registry.clock.advance(8.9)
    assert await observer.exists("/mine")
    registry.clock.advance(0.1)

    async def is_gone():
        return not await observer.exists("/mine")

    await until(is_gone, "the session has ended")
    await registry.restart()
    assert list(registry.server.sessions) == [observer.session_id]


async def test_a_session_that_has_ended_does_not_return(registry):
    client = await registry.client()
    await client.create("/mine", flags=EPHEMERAL)
    await client.ask(OpCode.CLOSE_SESSION)
    await registry.restart()
    assert registry.server.sessions == {}
    assert (await registry.client(client)).session_id == 0


async def test_a_client_gets_the_events_that_it_has_missed(registry):
    """It sets its watches again with the last transaction that it has seen, as after a lost connection."""
    client, other = await registry.client(), await registry.client()
    await other.create("/a")
    await other.create("/same")
    seen = registry.store.tree.zxid
    await other.ask(OpCode.SET_DATA, set_data("/a", b"1"))
    await registry.restart()
    again = await registry.client(client, seen_zxid=seen)
    none = jute.strings([])
    again.send(OpCode.SET_WATCHES, jute.int64(seen) + jute.strings(["/a", "/same"]) + none + none, xid=-8)
    assert await again.event() == (EventType.NODE_DATA_CHANGED, "/a")
    assert (await again.reply()).xid == -8
    await (await registry.client(other)).ask(OpCode.SET_DATA, set_data("/same", b"1"))
    assert await again.event() == (EventType.NODE_DATA_CHANGED, "/same")


async def test_a_client_that_has_seen_a_change_of_nothing_can_return(registry):
    """The end of a session without ephemeral nodes is a transaction; a client must not know more of them than we do."""
    client, other = await registry.client(), await registry.client()
    await other.ask(OpCode.CLOSE_SESSION)
    await until(lambda: len(registry.server.sessions) == 1, "the other has ended")
    seen = registry.store.tree.zxid
    await registry.restart()
    assert (await registry.client(client, seen_zxid=seen)).session_id == client.session_id


async def test_without_keep_sessions_they_end(registry):
    client = await registry.client()
    await client.create("/mine", flags=EPHEMERAL)
    await registry.restart(keep_sessions=False)
    assert registry.server.sessions == {}
    assert registry.store.tree.get("/mine") is None
    await registry.restart()
    assert registry.server.sessions == {}


async def test_sessions_of_the_process_itself_end_with_it(registry):
    own = registry.store.session()
    await own.start()
    await own.create("/own", ephemeral=True)
    client = await registry.client()
    await client.create("/mine", flags=EPHEMERAL)
    await registry.restart()
    assert sorted(registry.store.tree.nodes) == ["/", "/mine"]
    assert list(registry.server.sessions) == [client.session_id]


async def test_only_the_owner_reads_the_file_with_the_passwords(tmp_path):
    old = tmp_path / "old.sqlite"
    await (await EmbeddedStore.open(old)).close()
    for path in (tmp_path / "new.sqlite", old):
        store = await EmbeddedStore.open(path, keep_sessions=True)
        assert [
            stat.S_IMODE(one.stat().st_mode)
            for one in tmp_path.glob(f"{path.name}*")
            if one.suffix != ".sqlite-reserve"
        ] == [0o600] * 2
        await store.close()


async def test_requests_that_are_sent_before_the_session_is_durable_wait(registry):
    client = await registry.dial()
    client.send_connect()
    client.send(OpCode.CREATE, create("/a"), xid=1)
    await client.frame()
    assert (await client.reply())[:2] == (1, ErrorCode.OK)


@pytest.mark.parametrize("error", [RegistryFullError, RegistryStorageError])
async def test_a_session_that_cannot_be_written_is_refused(registry, monkeypatch, error):
    def fail(*_, **__):
        raise error("the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(registry.store._file, "write", fail)
        client = await registry.dial()
        client.send_connect()
        assert await client.is_closed()
        await until(lambda: not registry.server.sessions, "the session is forgotten")
    if error is RegistryFullError:
        assert await (await registry.client()).create("/a") == ErrorCode.OK


async def test_an_end_that_a_full_disk_has_refused_is_written_later(registry, monkeypatch):
    client, other = await registry.client(), await registry.client()
    await client.create("/mine", flags=EPHEMERAL)

    def fail(*_, **__):
        raise RegistryFullError("the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(registry.store._file, "write", fail)
        await client.ask(OpCode.CLOSE_SESSION)
        assert not await other.exists("/mine")
    await other.create("/room")
    await registry.restart()
    assert sorted(registry.store.tree.nodes) == ["/", "/room"]
    assert list(registry.server.sessions) == [other.session_id]
