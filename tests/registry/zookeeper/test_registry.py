"""What only the registry on a real ZooKeeper has: connections that break, sessions that others end, chroots."""

import asyncio
import socket
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from ottla.cluster.ports import free_ports
from registry.errors import (
    ConnectionLossError,
    DataTooLargeError,
    NoAuthError,
    NodeExistsError,
    RegistryClosedError,
    SessionExpiredError,
)
from registry.interface import MAX_REQUEST_BYTES, Acl, ConnectionState, Create, Permission
from registry.zookeeper.address import ZooKeeperAddress
from registry.zookeeper.registry import ZooKeeperRegistry
from registry.zookeeper.session import end_session
from support.deadlines import DEADLINE_S
from support.polling import until_blocking
from support.tcp_proxy import TcpProxy
from support.zookeeper import heard

CONNECTED, SUSPENDED = ConnectionState.CONNECTED, ConnectionState.SUSPENDED


@pytest.fixture
def backend(zookeeper_backend):
    return zookeeper_backend


@pytest.fixture
async def opened():
    """Make registries that are closed after the test."""
    registries = []

    def make(connect, timeout_ms=18_000, **options):
        registries.append(ZooKeeperRegistry(ZooKeeperAddress.parse(connect), timeout_ms, **options))
        return registries[-1]

    yield make
    for registry in registries:
        await registry.close()


# -- connecting --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("connect", "cause"),
    [
        ("127.0.0.1:{free}", "127.0.0.1:{free}: Connection refused"),
        ("nobody.invalid:2181", "nobody.invalid: "),
        ("127.0.0.1:{silent}", "127.0.0.1:{silent} accepts connections but opens no session"),
    ],
)
async def test_no_zookeeper(opened, connect, cause):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        ports = {"silent": silent.getsockname()[1], "free": free_ports(1)[0]}
        connect = connect.format_map(ports)
        registry = opened(connect + "/kafka", connection_timeout_ms=300)
        for _ in range(2):  # it may be tried again
            with pytest.raises(ConnectionLossError) as raised:
                await registry.start()
            assert f"ZooKeeper at {connect}/kafka within 300 ms" in str(raised.value)
            assert cause.format_map(ports) in str(raised.value)
        assert registry.state is ConnectionState.CLOSED
        assert registry.session_id == 0
        with pytest.raises(RegistryClosedError):
            await registry.get("/")


async def test_no_thread_is_left(backend, opened, eventually):
    def threads():
        return {thread for thread in threading.enumerate() if "zk_loop" in thread.name or "zookeeper" in thread.name}

    before = threads()
    failing = opened("127.0.0.1:1", connection_timeout_ms=100)
    with pytest.raises(ConnectionLossError):
        await failing.start()
    registry = await backend.connect()
    assert threads() - before
    await backend.expire(registry)
    await registry.start()
    await registry.close()

    async def are_gone():
        return threads() <= before  # those of the test before may end meanwhile

    await eventually(are_gone)


async def test_one_of_several_servers_is_enough(backend, opened):
    (port,) = free_ports(1)
    hosts = f"127.0.0.1:{port},localhost:{port},{backend.ensemble.connect}"
    registry = opened(hosts + backend.chroot)
    await registry.start()
    assert await registry.children("/") == []


@pytest.mark.parametrize(("asked_ms", "granted_ms"), [(200, 500), (4_000, 4_000), (300_000, 120_000)])
async def test_the_timeout_of_a_session_is_what_the_servers_grant(backend, opened, asked_ms, granted_ms):
    registry = opened(backend.ensemble.connect, asked_ms, connection_timeout_ms=10_000)
    assert registry.session_timeout_ms == asked_ms
    await registry.start()
    await registry.exists("/")
    assert registry.session_timeout_ms == granted_ms


async def test_names_are_looked_up_at_every_connection(backend, opened, monkeypatch):
    """A server that comes back at another address is found. The resolver is the only thing here that is not real."""
    target = "127.0.0.1", backend.ensemble.servers[0].port
    addresses = {"zookeeper.test": "127.0.0.1"}
    resolve = socket.getaddrinfo
    monkeypatch.setattr(socket, "getaddrinfo", lambda host, *rest: resolve(addresses.get(host, host), *rest))
    async with TcpProxy(*target) as old, TcpProxy(*target, host="127.0.0.2", port=old.port) as new:
        registry = opened(f"zookeeper.test:{old.port}{backend.chroot}")
        try:
            await registry.start()
            session = registry.session_id
            addresses["zookeeper.test"] = "127.0.0.2"
            async with heard(registry, CONNECTED), heard(registry, SUSPENDED):
                old.cut()
            assert (registry.session_id, new.accepted) == (session, 1)
        finally:
            await registry.close()


async def test_the_chroot_is_created_and_hidden(backend, opened):
    plain = opened(backend.ensemble.connect)
    inside = opened(f"{backend.ensemble.connect}{backend.chroot}/a/b")
    await plain.start()
    await inside.start()
    assert await inside.create("/x", b"1") == "/x"
    assert await inside.create("/s-", sequence=True) == "/s-0000000001"
    assert await inside.multi([Create("/y"), Create("/", sequence=True)]) == ["/y", "/0000000003"]
    with pytest.raises(NodeExistsError) as raised:
        await inside.create("/x")
    assert raised.value.path == "/x"
    top = f"{backend.chroot}/a/b"
    assert sorted(await plain.children(top)) == ["0000000003", "s-0000000001", "x", "y"]
    assert (await plain.get(f"{top}/x"))[0] == b"1"
    assert (await plain.get(top))[0] is None
    again = opened(f"{backend.ensemble.connect}{top}")
    await again.start()  # it is there already
    assert (await again.get("/x"))[0] == b"1"


async def test_two_sessions_create_the_same_chroot(backend, opened):
    registries = [opened(f"{backend.ensemble.connect}{backend.chroot}/deep/er") for _ in range(4)]
    await asyncio.gather(*(registry.start() for registry in registries))
    assert [await registry.children("/") for registry in registries] == [[]] * 4


async def test_the_largest_request_is_accepted(backend, opened):
    registry = await backend.connect()
    room = MAX_REQUEST_BYTES - 64 - len("/big") - len(backend.chroot)
    await registry.create("/big", bytes(room))
    assert (await registry.exists("/big")).data_length == room
    with pytest.raises(DataTooLargeError):
        await registry.set("/big", bytes(room + 1))
    many = [Acl(Permission.ALL, "digest", f"user{number}:hash") for number in range(60_000)]
    with pytest.raises(DataTooLargeError):
        await registry.create("/acl", acl=many)
    paths = [Create(f"/{'é' * 200}{number}", bytes(1000)) for number in range(800)]
    with pytest.raises(DataTooLargeError):
        await registry.multi(paths)
    await registry.multi(paths[:600])
    assert registry.state is CONNECTED


async def test_an_acl_with_an_identity_that_the_session_does_not_have(backend):
    registry = await backend.connect()
    await registry.create("/secret", b"x", acl=[Acl(Permission.ALL, "digest", "somebody:else")])
    with pytest.raises(NoAuthError):
        await registry.get("/secret")


# -- a lost connection -------------------------------------------------------------------------------------------------


async def test_a_write_in_flight_is_reported_and_may_have_been_applied(backend):
    registry, other = await backend.connect(), await backend.connect()
    await registry.create("/a", b"0")
    proxy = backend.proxies[registry]
    proxy.stall(answers_only=True)
    called = asyncio.Event()
    other.watch_data("/a", called.set)
    assert (await other.get("/a"))[0] == b"0"
    writing = asyncio.create_task(registry.set("/a", b"1"))
    async with asyncio.timeout(DEADLINE_S):
        await called.wait()
    proxy.drop()
    with pytest.raises(ConnectionLossError) as raised:
        await writing
    assert raised.value.path == "/a"
    data, stat = await registry.get("/a")  # waits for the connection
    assert (data, stat.version) == (b"1", 1)


async def test_reads_in_flight_are_resent(backend):
    registry = await backend.connect()
    await registry.create("/a", b"0")
    backend.proxies[registry].stall()
    reads = [registry.get("/a"), registry.exists("/a"), registry.children("/"), registry.children_with_stat("/")]
    waiting = [asyncio.create_task(read) for read in [*reads, registry.get_acl("/a")]]
    for _ in range(3):
        await asyncio.sleep(0)
    assert len(registry._requests._in_flight) == len(waiting)
    await backend.disconnect(registry)
    assert not any(task.done() for task in waiting)
    await backend.reconnect(registry)
    (data, _), stat, names, (with_stat, _), (acl, _) = await asyncio.gather(*waiting)
    assert (data, stat.version, names, with_stat) == (b"0", 0, ["a"], ["a"])
    assert acl == (Acl(Permission.ALL, "world", "anyone"),)


async def test_writes_in_flight_are_limited_and_the_others_keep_their_order(backend):
    registry = await backend.connect(max_in_flight=4)
    await registry.create("/q")
    backend.proxies[registry].stall()
    writing = [asyncio.create_task(registry.create(f"/q/{number}-", sequence=True)) for number in range(9)]
    for _ in range(3):
        await asyncio.sleep(0)
    await backend.disconnect(registry)
    late = asyncio.create_task(registry.create("/q/late-", sequence=True))
    await backend.reconnect(registry)
    results = await asyncio.gather(*writing, late, return_exceptions=True)
    assert [isinstance(result, ConnectionLossError) for result in results] == [True] * 4 + [False] * 6
    assert [path.split("-")[0] for path in sorted(results[4:], key=lambda path: path[-10:])] == [
        "/q/4", "/q/5", "/q/6", "/q/7", "/q/8", "/q/late",
    ]  # fmt: skip


async def test_a_call_cancelled_while_suspended_is_not_sent(backend):
    registry = await backend.connect()
    await backend.disconnect(registry)
    given_up = asyncio.create_task(registry.create("/given-up"))
    kept = asyncio.create_task(registry.create("/kept"))
    await asyncio.sleep(0)
    given_up.cancel()
    await backend.reconnect(registry)
    await kept
    assert await registry.children("/") == ["kept"]


async def test_a_silent_server_is_noticed(backend):
    """The connection stays, the server says nothing: the registry is suspended before its session can expire."""
    registry = await backend.connect(timeout_ms=3_000)
    await registry.create("/e", ephemeral=True)
    async with heard(registry, SUSPENDED):
        backend.proxies[registry].stall()
    async with heard(registry, CONNECTED):
        backend.proxies[registry].drop()
    assert (await registry.exists("/e")).ephemeral_owner == registry.session_id


async def test_watches_fire_for_changes_during_a_disconnect(backend, calls):
    registry, other = await backend.connect(), await backend.connect()
    await other.create("/changed", b"0")
    await other.create("/deleted")
    await other.create("/parent")
    watched = {path: calls() for path in ("/changed", "/deleted", "/created")}
    for path, called in watched.items():
        registry.watch_data(path, called)
    children = calls()
    registry.watch_children("/parent", children)
    assert await registry.children("/parent") == []
    await backend.disconnect(registry)
    await other.set("/changed", b"1")
    await other.delete("/deleted")
    await other.create("/created")
    await other.create("/parent/child")
    assert not any(called.count for called in [*watched.values(), children])
    await backend.reconnect(registry)
    for called in [*watched.values(), children]:
        await called.wait()
    assert (await registry.get("/changed"))[0] == b"1"
    for path, called in watched.items():  # and they go on
        await (other.create(path) if path == "/deleted" else other.delete(path))
        await called.wait()
    await other.delete("/parent/child")
    await children.wait()


async def test_many_watches(backend, calls):
    registry, other = await backend.connect(max_in_flight=100), await backend.connect(max_in_flight=100)
    paths = [f"/n{number}" for number in range(400)]
    await asyncio.gather(*(other.create(path) for path in paths))
    watched = [calls() for _ in paths]
    for path, called in zip(paths, watched, strict=True):
        registry.watch_data(path, called)
    await registry.exists("/n0")
    for round_ in range(3):
        if round_:
            await backend.disconnect(registry)
        await asyncio.gather(*(other.set(path, b"") for path in paths))
        if round_:
            await backend.reconnect(registry)
        for called in watched:
            await called.wait()


async def test_watches_do_not_multiply(backend, eventually):
    """However often the connection was lost: the servers hold one watch a path and kind, and a cancelled one goes."""
    registry = await backend.connect()

    async def held():
        server = backend.ensemble.servers[0]
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(b"mntr")
        answer = (await reader.read()).decode()
        writer.close()
        return int(next(line for line in answer.splitlines() if line.startswith("zk_watch_count")).split()[1])

    async def is_held(count):
        async def question():
            return await held() == count

        await eventually(question)

    await is_held(0)
    handles = [registry.watch_data("/a", lambda: None) for _ in range(3)]
    handles += [registry.watch_children("/a", lambda: None) for _ in range(3)]
    for _ in range(3):
        await backend.disconnect(registry)
        await backend.reconnect(registry)
        await registry.exists("/a")
    await registry.create("/a")
    await registry.create("/a/b")
    await registry.set("/a", b"")
    await is_held(2)
    for handle in handles:
        handle.cancel()
    await registry.multi([Create("/a/c"), Create("/a/d")])
    await registry.set("/a", b"")
    await is_held(0)


async def test_closing_without_a_connection(backend, eventually):
    registry, other = await backend.connect(timeout_ms=1_000), await backend.connect()
    await registry.create("/e", ephemeral=True)
    await backend.disconnect(registry)
    waiting = asyncio.create_task(registry.get("/e"))
    await asyncio.sleep(0)
    await registry.close()
    with pytest.raises(RegistryClosedError):
        await waiting

    async def gone():
        return await other.exists("/e") is None

    await eventually(gone)


# -- the end of a session ----------------------------------------------------------------------------------------------


async def test_no_call_continues_in_a_new_session(backend):
    """Writers that never pause while their session is ended: all they made is gone with it."""
    registry, other = await backend.connect(), await backend.connect()
    await other.create("/q")
    made = asyncio.Event()

    async def write():
        while True:
            try:
                await registry.create("/q/n-", ephemeral=True, sequence=True)
            except ConnectionLossError:
                await asyncio.sleep(0)
            else:
                made.set()

    async def one_writer():
        with pytest.raises(SessionExpiredError):
            await write()

    writers = [asyncio.create_task(one_writer()) for _ in range(5)]
    async with asyncio.timeout(DEADLINE_S):
        await made.wait()
        await backend.expire(registry)
        await asyncio.gather(*writers)
    assert registry.session_id == 0
    assert await other.children("/q") == []
    with pytest.raises(SessionExpiredError):
        await registry.create("/q/n-", ephemeral=True)
    await registry.start()
    await registry.create("/q/new", ephemeral=True)
    assert await other.children("/q") == ["new"]


async def test_a_write_during_expiry_is_not_executed(backend, opened):
    """kazoo knows that the session has ended and wants a new one, the event loop does not know yet, and writes."""
    registry, other = opened(f"{backend.ensemble.connect}{backend.chroot}"), await backend.connect()
    await registry.start()
    credentials, session = registry.credentials, registry._session

    def end_and_wait():
        assert asyncio.run(end_session(ZooKeeperAddress.parse(backend.ensemble.connect), credentials, 10_000))
        until_blocking(
            lambda: session._handler.refused or session.client.client_id not in (None, credentials), "kazoo knows"
        )

    with ThreadPoolExecutor(1) as thread:
        thread.submit(end_and_wait).result()  # the event loop stands still meanwhile
    assert registry.state is CONNECTED
    with pytest.raises(SessionExpiredError):
        await registry.create("/late")
    await registry.start()
    assert await other.exists("/late") is None


async def test_a_session_can_be_closed_with_its_password(backend, eventually):
    registry, other = await backend.connect(), await backend.connect()
    await registry.create("/e", ephemeral=True)
    address = ZooKeeperAddress.parse(backend.ensemble.connect)
    session_id, password = registry.credentials
    assert not await end_session(address, (session_id, bytes(16)), 10_000)
    assert await other.exists("/e") is not None
    assert await end_session(address, (session_id, password), 10_000)

    async def is_gone():
        return await other.exists("/e") is None

    await eventually(is_gone)  # its server may hear of it later
    assert not await end_session(address, (session_id, password), 10_000)


async def test_closing_while_starting(opened):
    registry = opened("127.0.0.1:1", connection_timeout_ms=60_000)
    starting = asyncio.create_task(registry.start())
    await asyncio.sleep(0)
    await registry.close()
    async with asyncio.timeout(DEADLINE_S):
        with pytest.raises(RegistryClosedError):
            await starting
