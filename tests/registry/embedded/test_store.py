"""What only the embedded store promises: its file, durability, order of visibility, failure, determinism."""

import asyncio
import contextlib
import contextvars
import os
import random
import signal
import sqlite3
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from registry.embedded.access import Caller
from registry.embedded.store import EmbeddedStore
from registry.errors import (
    ConnectionLossError,
    NodeExistsError,
    NoNodeError,
    RegistryClosedError,
    RegistryCorruptError,
    RegistryError,
    RegistryFullError,
    RegistryInUseError,
    RegistryStorageError,
    SessionExpiredError,
)
from registry.interface import Acl, ConnectionState, Create, Delete, Set
from support.counts import count
from support.deadlines import DEADLINE_S
from support.polling import until

ROOT = Path(__file__).resolve().parents[3]


@contextlib.asynccontextmanager
async def opened(path, **options):
    store = await EmbeddedStore.open(path, **options)
    try:
        yield store
    finally:
        await store.close()


async def connected(store):
    registry = store.session()
    await registry.start()
    return registry


class Disk:
    """An injected way to block that lets commits through only when told to, or fails them."""

    def __init__(self):
        self.commits = 0
        self.gate = asyncio.Event()
        self.gate.set()
        self.error = None

    async def __call__(self, work):
        await self.gate.wait()
        self.commits += 1
        if self.error is not None:
            raise self.error
        return work()


async def test_persistent_nodes_survive(tmp_path):
    path = tmp_path / "registry.sqlite"
    acl = [Acl(31, "world", "anyone"), Acl(1, "sasl", "a:b:c")]
    async with opened(path) as store:
        registry = await connected(store)
        await registry.create("/a", b"\x00\xff", acl=acl)
        await registry.create("/a/s-", sequence=True)
        await registry.create("/a/é", None)
        await registry.create("/a/gone")
        await registry.delete("/a/gone")
        await registry.create("/e", ephemeral=True)
        await registry.create("/a/e", ephemeral=True)
        await registry.set("/a", b"", 0)
        before = {p: await registry.get(p) for p in ("/a", "/a/s-0000000000", "/a/é")}
        zxid = store.tree.zxid
    async with opened(path) as store:
        registry = await connected(store)
        assert sorted(await registry.children("/")) == ["a"]
        assert sorted(await registry.children("/a")) == ["s-0000000000", "é"]
        data, stat = await registry.get("/a")
        old = before.pop("/a")
        assert data == old[0] == b""
        assert stat.cversion == old[1].cversion + 1  # one ephemeral child was removed
        assert stat.pzxid == store.tree.zxid == zxid + 1
        assert stat.mzxid == old[1].mzxid
        assert {p: await registry.get(p) for p in before} == before
        assert (await registry.get_acl("/a"))[0] == tuple(acl)
        # The counter of sequential nodes goes on, and so does the zxid.
        assert await registry.create("/a/s-", sequence=True) == "/a/s-0000000004"
        assert (await registry.exists("/a/s-0000000004")).czxid > zxid


@pytest.mark.counted
async def test_reopening_gives_the_same_tree(tmp_path):
    """Random operations of all kinds; memory and file agree after each reopening."""
    rng = random.Random(7)
    path = tmp_path / "registry.sqlite"
    paths = ["/a", "/b", "/a/x", "/a/y", "/b/x", "/a/x/1", "/a/x/2"]

    def operation():
        target = rng.choice(paths)
        kind = rng.randrange(4)
        if kind == 0:
            return Delete(target, rng.choice([-1, -1, 0]))
        if kind == 1:
            return Set(target, rng.randbytes(rng.randrange(20)), rng.choice([-1, -1, 1]))
        return Create(target, rng.randbytes(3), sequence=rng.random() < 0.2)

    done = failed = 0
    for _round in range(count(5, 50)):
        async with opened(path) as store:
            registry = await connected(store)
            for _ in range(60):
                ops = [operation() for _ in range(rng.choice([1, 1, 2, 3]))]
                nodes = dict(store.tree.nodes)
                try:
                    await registry.multi(ops)
                    done += 1
                except RegistryError:
                    failed += 1
                    assert store.tree.nodes == nodes
            nodes, zxid = store.tree.nodes, store.tree.zxid
        async with opened(path) as store:
            assert store.tree.nodes == nodes
            assert store.tree.zxid <= zxid
            children = {p: store.tree.children(p) for p in nodes}
            for p, node in nodes.items():
                assert len(children[p]) == node.num_children
                assert all(f"{p.rstrip('/')}/{name}" in nodes for name in children[p])
    assert min(done, failed) > 50


WRITER = """
import asyncio, sys
from pathlib import Path
from registry.embedded.access import Caller
from registry.embedded.store import EmbeddedStore

async def main():
    store = await EmbeddedStore.open(Path(sys.argv[1]))
    registries = [store.session() for _ in range(3)]
    for registry in registries:
        await registry.start()
    await registries[0].create(f"/alive", ephemeral=True)

    async def write(registry, who):
        n = 0
        while True:
            path = await registry.create(f"/{who}-", str(n).encode(), sequence=True)
            print(who, n, path, flush=True)
            n += 1

    await asyncio.gather(*(write(registry, who) for who, registry in enumerate(registries)))

asyncio.run(main())
"""


@pytest.mark.counted
@pytest.mark.parametrize("kill", range(count(2, 25)))
async def test_acknowledged_writes_survive_a_kill(tmp_path, kill):
    path = tmp_path / "registry.sqlite"
    acknowledged = await asyncio.to_thread(acknowledged_until_killed, path, 20 + 13 * kill)
    assert len(acknowledged) >= 20
    async with opened(path) as store:
        registry = await connected(store)
        for _who, n, node in acknowledged:
            assert (await registry.get(node))[0] == n.encode()
        assert await registry.exists("/alive") is None
        # Nothing in between is missing either: each writer waited for one before it made the next.
        for who in "012":
            nodes = [node for node in await registry.children("/") if node.startswith(f"{who}-")]
            written = [int((await registry.get(f"/{node}"))[0]) for node in nodes]
            assert written == list(range(len(nodes)))
            last = max((int(n) for w, n, _ in acknowledged if w == who), default=-1)
            assert len(nodes) in (last + 1, last + 2)


def acknowledged_until_killed(path, lines_before):
    """Kill a writer after some lines; (writer, number, node) of what it was told is written."""
    writer = subprocess.Popen([sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE, text=True, cwd=ROOT)
    with writer:
        lines = [writer.stdout.readline() for _ in range(lines_before)]
        writer.send_signal(signal.SIGKILL)
        lines += writer.stdout.readlines()
    return [line.split() for line in lines if line.endswith("\n")]


async def test_a_second_opener_is_refused(tmp_path):
    path = tmp_path / "registry.sqlite"
    script = (
        "import asyncio, sys; from pathlib import Path; from registry.embedded.store import EmbeddedStore\n"
        "asyncio.run(EmbeddedStore.open(Path(sys.argv[1])))"
    )

    def other_process():
        return subprocess.run(
            [sys.executable, "-c", script, str(path)], cwd=ROOT, capture_output=True, text=True, check=False
        )

    async with opened(path) as store:
        with pytest.raises(RegistryInUseError, match="another process has the registry open"):
            await EmbeddedStore.open(path)
        result = await asyncio.to_thread(other_process)
        assert result.returncode != 0
        assert f"RegistryInUseError: {path}: another process has the registry open" in result.stderr
        registry = await connected(store)
        await registry.create("/still-works")
    assert (await asyncio.to_thread(other_process)).returncode == 0


async def test_files_that_are_not_a_registry_are_refused(tmp_path):
    garbage = tmp_path / "garbage"
    garbage.write_bytes(bytes(range(256)) * 64)
    with pytest.raises(RegistryCorruptError, match="not a registry"):
        await EmbeddedStore.open(garbage)
    assert garbage.read_bytes() == bytes(range(256)) * 64

    foreign = tmp_path / "foreign"
    with contextlib.closing(sqlite3.connect(foreign)) as connection, connection:
        connection.execute("CREATE TABLE t (x)")
    with pytest.raises(RegistryCorruptError, match="another program"):
        await EmbeddedStore.open(foreign)

    with pytest.raises(RegistryStorageError, match="cannot be opened"):
        await EmbeddedStore.open(tmp_path / "no" / "such" / "directory")


@pytest.mark.parametrize(
    ("damage", "rule"),
    [
        ("PRAGMA user_version = 2", "unknown layout 2"),
        ("DELETE FROM meta", "last zxid is missing"),
        ("DELETE FROM znode WHERE path = '/'", "the root is missing"),
        ("DELETE FROM znode WHERE path = '/a'", "/a/b has no parent"),
        ("UPDATE znode SET acl = 'nonsense'", "not a registry"),
    ],
)
async def test_damaged_content_is_refused(tmp_path, damage, rule):
    path = tmp_path / "registry.sqlite"
    async with opened(path) as store:
        await (await connected(store)).create("/a/b", make_parents=True)
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(damage)
    with pytest.raises(RegistryCorruptError, match=rule):
        await EmbeddedStore.open(path)


@pytest.fixture
def usual_umask():
    before = os.umask(0o022)
    yield
    os.umask(before)


def _modes(path):
    return {one.name: stat.S_IMODE(one.stat().st_mode) for one in path.parent.iterdir() if "reserve" not in one.name}


@pytest.mark.usefixtures("usual_umask")
async def test_only_the_owner_reads_a_new_file(tmp_path):
    path = tmp_path / "registry.sqlite"
    async with opened(path) as store:
        await (await connected(store)).create("/a", b"a SCRAM key")
        assert _modes(path) == {"registry.sqlite": 0o600, "registry.sqlite-wal": 0o600}
    assert _modes(path) == {"registry.sqlite": 0o600}


@pytest.mark.usefixtures("usual_umask")
async def test_a_file_that_others_could_read_becomes_private(tmp_path):
    path = tmp_path / "registry.sqlite"
    async with opened(path) as store:
        await (await connected(store)).create("/a", b"a SCRAM key")
        left = {one.name: one.read_bytes() for one in tmp_path.iterdir()}  # what a killed process leaves
    for name, content in left.items():
        (tmp_path / name).write_bytes(content)
        (tmp_path / name).chmod(0o664)
    link = tmp_path / "link" / "registry.sqlite"
    link.parent.mkdir()
    link.symlink_to(path)
    async with opened(link) as store:
        assert store.tree.get("/a").data == b"a SCRAM key"
        modes = _modes(path)
        assert (modes["registry.sqlite"], modes["registry.sqlite-wal"]) == (0o600, 0o600)


async def test_a_folder_in_the_place_of_the_file_stays_as_it_is(tmp_path):
    path = tmp_path / "registry.sqlite"
    path.mkdir(0o755)
    path.chmod(0o755)
    with pytest.raises(RegistryStorageError, match="cannot be opened"):
        await EmbeddedStore.open(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o755


async def test_power_cut_settings(tmp_path, open_file):
    """A commit is durable only with FULL in WAL mode."""
    file, _tree = open_file(tmp_path / "registry.sqlite")
    execute = file._connection.execute
    assert execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert execute("PRAGMA synchronous").fetchone() == (2,)
    assert execute("PRAGMA locking_mode").fetchone() == ("exclusive",)


async def test_nothing_is_visible_before_it_is_durable(tmp_path, calls):
    disk = Disk()
    async with opened(tmp_path / "registry.sqlite", run_blocking=disk) as store:
        registry, other = await connected(store), await connected(store)
        called = calls()
        other.watch_children("/", called)
        disk.gate.clear()
        write = asyncio.create_task(registry.create("/a"))
        for _ in range(10):
            await asyncio.sleep(0)
        assert not write.done()
        assert await other.exists("/a") is None
        assert called.count == 0
        disk.gate.set()
        await write
        assert await other.exists("/a") is not None
        await called.wait()


async def test_concurrent_writes_share_a_commit_and_keep_their_order(tmp_path):
    disk = Disk()
    async with opened(tmp_path / "registry.sqlite", run_blocking=disk) as store:
        first, second = await connected(store), await connected(store)
        commits = disk.commits
        results = await asyncio.gather(
            first.create("/a", b"first"),
            second.create("/a", b"second"),
            second.set("/a", b"third", 0),
            first.delete("/nothing"),
            first.create("/a/b"),
            return_exceptions=True,
        )
        assert disk.commits == commits + 1
        kinds = [type(result).__name__ for result in results]
        assert kinds == ["str", "NodeExistsError", "Stat", "NoNodeError", "str"]
        assert (await first.get("/a"))[0] == b"third"
        b, a = await first.exists("/a/b"), await first.exists("/a")
        assert a.czxid < a.mzxid < b.czxid == a.pzxid  # a transaction each, none for those that failed
        assert b.czxid == a.czxid + 2


async def test_a_failed_commit_stops_the_store(tmp_path, calls):
    disk = Disk()
    path = tmp_path / "registry.sqlite"
    async with opened(path, run_blocking=disk) as store:
        registry, other = await connected(store), await connected(store)
        await registry.create("/kept")
        expired = calls()
        other.listen(expired)
        await asyncio.sleep(0)
        disk.error = RegistryStorageError("the disk is full")
        results = await asyncio.gather(registry.create("/a"), other.create("/b"), return_exceptions=True)
        assert [str(result) for result in results] == ["the disk is full"] * 2
        await expired.wait()
        assert registry.state is other.state is ConnectionState.EXPIRED
        with pytest.raises(SessionExpiredError):
            await registry.get("/kept")
        with pytest.raises(RegistryStorageError):
            await registry.start()
        await registry.close()
    async with opened(path) as store:
        assert sorted(store.tree.nodes) == ["/", "/kept"]


async def test_a_write_on_a_full_disk_changes_nothing_and_can_be_retried(tmp_path, open_file):
    file, tree = open_file(tmp_path / "registry.sqlite")
    file._connection.execute("PRAGMA max_page_count = 8")
    node = tree.node("/")._replace(data=bytes(1 << 20))
    with pytest.raises(RegistryFullError, match="full"):
        file.write({"/a": node}, 1)
    file._connection.execute("PRAGMA max_page_count = 8000")
    file.write({"/b": node}, 2)
    file.close()
    async with opened(tmp_path / "registry.sqlite") as store:
        assert sorted(store.tree.nodes) == ["/", "/b"]
        assert store.tree.zxid == 2


async def test_a_store_works_on_a_full_disk(tmp_path):
    """What cannot be written is refused, reads go on, sessions end, and later writes are kept."""
    path = tmp_path / "registry.sqlite"
    async with opened(path) as store:
        registry, other, observer = [await connected(store) for _ in range(3)]
        await registry.create("/before", b"1")
        await other.create("/ephemeral", ephemeral=True)
        store._file._connection.execute("PRAGMA max_page_count = 1")
        with pytest.raises(RegistryFullError, match=r"registry\.sqlite"):
            await registry.create("/refused", bytes(100_000))
        assert registry.state is ConnectionState.CONNECTED
        assert await registry.get("/before") == (b"1", store.tree.node("/before").stat())
        with pytest.raises(NoNodeError):  # an error of its own comes first
            await registry.set("/missing", bytes(100_000))
        await asyncio.gather(other.close(), asyncio.wait_for(_refused(observer), DEADLINE_S))
        assert await observer.exists("/ephemeral") is None
        store._file._connection.execute("PRAGMA max_page_count = 10000")
        await registry.create("/after", bytes(100_000))
        assert await observer.children("/") == ["after", "before"]
    async with opened(path) as store:
        assert sorted(store.tree.nodes) == ["/", "/after", "/before"]


async def _refused(registry):
    with pytest.raises(RegistryFullError):
        await registry.create("/large", bytes(200_000))


async def test_a_cancelled_caller_does_not_cancel_its_write(tmp_path):
    disk = Disk()
    async with opened(tmp_path / "registry.sqlite", run_blocking=disk) as store:
        registry = await connected(store)
        disk.gate.clear()
        task = asyncio.create_task(registry.create("/a"))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        disk.gate.set()
        await registry.create("/b")
        assert await registry.children("/") == ["a", "b"]


async def test_writes_in_flight_have_an_unknown_outcome_after_a_disconnect(tmp_path):
    disk = Disk()
    async with opened(tmp_path / "registry.sqlite", run_blocking=disk) as store:
        registry = await connected(store)
        disk.gate.clear()
        task = asyncio.create_task(registry.create("/a"))
        await asyncio.sleep(0)
        registry.disconnect()
        with pytest.raises(ConnectionLossError):
            await task
        disk.gate.set()
        registry.reconnect()
        with pytest.raises(NodeExistsError):  # it was applied all the same
            await registry.create("/a")


async def test_an_expired_session_does_not_execute_its_later_writes(tmp_path):
    disk = Disk()
    async with opened(tmp_path / "registry.sqlite", run_blocking=disk) as store:
        registry, other = await connected(store), await connected(store)
        disk.gate.clear()
        before = asyncio.create_task(registry.create("/before", ephemeral=True))
        end = asyncio.create_task(registry.expire())
        after = asyncio.create_task(registry.create("/after", ephemeral=True))
        await asyncio.sleep(0)
        disk.gate.set()
        assert await before == "/before"
        await end
        with pytest.raises(SessionExpiredError):
            await after
        assert await other.children("/") == []
        with pytest.raises(NoNodeError):
            await other.get("/before")


async def test_the_end_of_a_session_deletes_only_its_own_ephemerals(tmp_path):
    """Created in the same commit as the end of one of the sessions."""
    disk = Disk()
    async with opened(tmp_path / "registry.sqlite", run_blocking=disk) as store:
        registry, other = await connected(store), await connected(store)
        commits = disk.commits
        await asyncio.gather(
            registry.create("/mine", ephemeral=True),
            other.create("/theirs", ephemeral=True),
            registry.create("/persistent"),
            registry.close(),
        )
        assert disk.commits == commits + 1
        assert await other.children("/") == ["persistent", "theirs"]


async def test_close_waits_for_writes_and_refuses_more(tmp_path):
    path = tmp_path / "registry.sqlite"
    store = await EmbeddedStore.open(path)
    registry = await connected(store)
    write = asyncio.create_task(registry.create("/a"))
    await asyncio.sleep(0)
    await store.close()
    await store.close()
    assert await write == "/a"
    with pytest.raises(SessionExpiredError):
        await registry.create("/b")
    with pytest.raises(RegistryClosedError):
        await store.session().start()
    await registry.close()
    async with opened(path) as store:
        assert store.tree.get("/a") is not None


async def test_time_is_injected():
    times = iter(range(1_000, 9_000, 1_000))
    async with opened(None, now_ms=lambda: next(times)) as store:
        registry = await connected(store)  # the store took 1000 for session ids
        await registry.create("/a")
        stat = await registry.set("/a", b"")
        assert (stat.ctime, stat.mtime) == (2_000, 3_000)


async def test_watches_do_not_fire_without_a_change(calls):
    async with opened(None) as store:
        registry = await connected(store)
        await registry.create("/a/b", make_parents=True)
        data, children = calls(), calls()
        registry.watch_data("/a", data)
        registry.watch_children("/a", children)
        await registry.set("/a/b", b"")
        await registry.create("/c")
        with pytest.raises(NodeExistsError):
            await registry.create("/a/b")
        with pytest.raises(NodeExistsError):
            await registry.multi([Create("/a/x"), Create("/a/b")])
        await asyncio.sleep(0)
        assert (data.count, children.count) == (0, 0)
        await registry.set("/a", b"")
        await asyncio.sleep(0)
        assert (data.count, children.count) == (1, 0)
        await asyncio.gather(registry.create("/a/y"), registry.create("/a/z"))
        await asyncio.sleep(0)
        assert (data.count, children.count) == (1, 1)


async def test_no_thread_without_a_file():
    """A simulation runs on a virtual clock: nothing may happen off the loop."""
    script = (
        "import asyncio, threading\n"
        "from registry.embedded.store import EmbeddedStore\n"
        "async def main():\n"
        "    store = await EmbeddedStore.open()\n"
        "    registry = store.session(); await registry.start()\n"
        "    await registry.create('/a'); await store.close()\n"
        "    assert threading.active_count() == 1\n"
        "asyncio.run(main())"
    )
    await asyncio.to_thread(subprocess.run, [sys.executable, "-c", script], cwd=ROOT, check=True)


async def test_watches_are_silent_while_disconnected_or_cancelled(calls):
    async with opened(None) as store:
        registry, other = await connected(store), await connected(store)
        first, second = calls(), calls()
        registry.watch_data("/a", first)
        handle = other.watch_data("/a", lambda: (second(), handle.cancel()))
        both = other.watch_data("/a", second)
        other.watch_data("/a", both.cancel)
        registry.disconnect()
        await registry_settled()
        await other.create("/a")
        await registry_settled()
        assert first.count == 0
        assert second.count == 2
        last = other.watch_data("/a", second)
        await other.set("/a", b"")
        last.cancel()  # it has been called for, but has not run
        await registry_settled()
        assert second.count == 2
        registry.reconnect()
        await registry_settled()
        assert first.count == 1


async def registry_settled():
    """Let everything that is ready on the loop run."""
    for _ in range(5):
        await asyncio.sleep(0)


async def test_a_write_that_raises_leaves_nothing_behind():
    async with opened(None) as store:
        registry = await connected(store)

        def half(draft):
            draft.create(Create("/half"), Caller(1))
            raise NoNodeError("/other: there is no such node")

        with pytest.raises(NoNodeError):
            await store.write(registry.session_id, half)
        assert await registry.exists("/half") is None
        assert store.tree.zxid == 0


async def test_callbacks_run_in_the_context_in_which_they_were_registered():
    """Several brokers of one process share a store: the callbacks of one must not run as a part of another."""
    name = contextvars.ContextVar("name")
    seen = []
    store = await EmbeddedStore.open()
    first, second = store.session(), store.session()
    await second.start()

    async def watch():
        name.set("first")
        await first.start()
        first.watch_data("/a", lambda: seen.append(name.get()))
        first.listen(lambda state: seen.append(name.get()))

    async def write():
        name.set("second")
        await second.create("/a")
        first.disconnect()

    await asyncio.create_task(watch())
    await asyncio.create_task(write())
    await until(lambda: len(seen) == 2, "both callbacks have run")
    assert seen == ["first", "first"]
    first.reconnect()
    await first.close()
    await second.close()
    await store.close()
