"""Three ZooKeepers of which some die, stand still and come back; and what a directory of theirs holds."""

import asyncio
from concurrent.futures import ThreadPoolExecutor

import pytest

from ottla.cluster.ports import HOST
from ottla.command_line.failure import CommandError
from ottla.zookeeper.server import ZooKeeperEnsemble
from registry.errors import ConnectionLossError
from registry.interface import ConnectionState
from registry.zookeeper.address import ZooKeeperAddress
from registry.zookeeper.registry import ZooKeeperRegistry
from support.deadlines import DEADLINE_MS, DEADLINE_S
from support.tcp_proxy import TcpProxy
from support.zookeeper import heard, new_chroot

SUSPENDED = ConnectionState.SUSPENDED


def run_apart(work):
    """Run a coroutine in a loop of its own, wherever we are."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, work).result()


@pytest.fixture(scope="module")
def three(tmp_path_factory):
    ensemble = ZooKeeperEnsemble(tmp_path_factory.mktemp("zookeeper"), nodes=3, sync=False)
    run_apart(ensemble.start())
    yield ensemble
    ensemble.close()


@pytest.fixture
async def ensemble(three):
    """All three, whole again after the test."""
    yield three
    for server in three.servers:
        server.resume()
        if not server.is_running:
            server.start()
    await three.wait()


@pytest.fixture
async def connect(ensemble):
    """Connect registries in one chroot, through all servers or one of them."""
    registries, chroot = [], new_chroot()

    async def connect(timeout_ms=6_000, server=None):
        hosts = ensemble.connect if server is None else server.address
        registry = ZooKeeperRegistry(
            ZooKeeperAddress.parse(hosts + chroot), timeout_ms, connection_timeout_ms=DEADLINE_MS
        )
        registries.append(registry)
        await registry.start()
        return registry

    yield connect
    for registry in registries:
        await registry.close()


def server_of(ensemble, registry):
    """The server that a registry is connected to."""
    return next(server for server in ensemble.servers if server.address in registry._session.server)


async def retried(call):
    """The result of a call that may be repeated, once there is a connection."""
    async with asyncio.timeout(DEADLINE_S):
        while True:
            try:
                return await call()
            except ConnectionLossError:
                continue


@pytest.mark.parametrize("way", ["kill", "pause"])
async def test_the_session_moves_to_another_server(ensemble, connect, calls, way):
    registry = await connect()
    await registry.create("/e", b"0", ephemeral=True)
    called = calls()
    registry.watch_data("/e", called)
    session, server = registry.session_id, server_of(ensemble, registry)
    async with heard(registry, SUSPENDED):
        (server.kill if way == "kill" else server.pause)()
    assert (await retried(lambda: registry.set("/e", b"1"))).ephemeral_owner == session == registry.session_id
    await called.wait()
    assert server_of(ensemble, registry) is not server


async def test_without_a_majority_no_write_succeeds(ensemble, connect, eventually):
    registry = await connect(timeout_ms=20_000)
    await registry.create("/e", b"0", ephemeral=True)
    session = registry.session_id
    gone = ensemble.servers[:2]
    async with heard(registry, SUSPENDED):
        for server in gone:
            server.kill()

    async def noticed():
        return ensemble.servers[2].mode() == ""

    await eventually(noticed)
    # The last server may have taken the connection before it noticed: then its loss is heard of only now, by a write.
    calls = [lambda: registry.exists("/e"), lambda: registry.set("/e", b"1")]
    waiting = [asyncio.create_task(retried(call)) for call in calls]
    late = ZooKeeperRegistry(ZooKeeperAddress.parse(ensemble.servers[2].address), connection_timeout_ms=500)
    with pytest.raises(ConnectionLossError, match="is a majority of the servers running"):
        await late.start()
    await late.close()
    assert not any(task.done() for task in waiting)
    for server in gone:
        server.start()
    async with asyncio.timeout(DEADLINE_S):
        stat, changed = await asyncio.gather(*waiting)
    assert (stat.ephemeral_owner, changed.version) == (session, 1)


async def test_everything_survives_the_death_of_all_servers(ensemble, connect):
    registry = await connect(timeout_ms=30_000)
    await registry.create("/kept/deep", b"1", make_parents=True)
    await registry.create("/kept/e", ephemeral=True)
    before = await registry.exists("/kept/deep")
    for server in ensemble.servers:
        server.kill()
    for server in ensemble.servers:
        server.start()
    assert await retried(lambda: registry.get("/kept/deep")) == (b"1", before)
    assert (await retried(lambda: registry.exists("/kept/e"))).ephemeral_owner == registry.session_id
    assert (await retried(lambda: registry.set("/kept/deep", b"2"))).mzxid > before.mzxid


async def test_a_session_expires_if_its_server_is_partitioned(ensemble, connect, calls):
    """A server without a majority cannot keep a session alive: the others end it, and its client learns that."""
    server = next(server for server in ensemble.servers if server.mode() == "follower")
    registry, other = await connect(1_000, server), await connect()
    await registry.create("/e", ephemeral=True)
    states = []
    registry.listen(states.append)
    called = calls()
    other.watch_data("/e", called)
    server.pause()
    while await retried(lambda: other.exists("/e")) is not None:
        await called.wait()
    async with heard(registry, ConnectionState.EXPIRED):
        server.resume()
    assert states[0] is SUSPENDED


class _LaggingEnsemble(ZooKeeperEnsemble):
    """Three servers, of which the first one reaches the others through proxies."""

    def __init__(self, data_dir, proxies):
        super().__init__(data_dir, nodes=3, sync=False)
        self._proxies = proxies

    def _configure(self):
        super()._configure()
        file = self.servers[0].folder / "zoo.cfg"
        lines = file.read_text().replace("syncLimit=20", "syncLimit=400").splitlines()
        for number, proxy in zip((2, 3), self._proxies, strict=True):
            (place,) = [place for place, line in enumerate(lines) if line.startswith(f"server.{number}=")]
            host, quorum_port, election_port = lines[place].partition("=")[2].split(":")
            proxy.target = host, int(quorum_port)
            lines[place] = f"server.{number}={host}:{proxy.port}:{election_port}"
        file.write_text("\n".join([*lines, ""]))


async def test_a_server_that_lags_answers_with_old_data_until_a_sync(tmp_path):
    async with (
        TcpProxy(HOST, 0) as second,
        TcpProxy(HOST, 0) as third,
        _LaggingEnsemble(tmp_path / "data", (second, third)) as ensemble,
    ):
        first, _, last = (ZooKeeperAddress.parse(server.address) for server in ensemble.servers)
        late, other = ZooKeeperRegistry(first), ZooKeeperRegistry(last)
        await asyncio.gather(late.start(), other.start())
        await other.create("/a", b"0")
        await late.sync()
        for proxy in (second, third):
            proxy.stall(answers_only=True)
        await other.set("/a", b"1")
        assert (await late.get("/a"))[0] == b"0"
        synced = asyncio.create_task(late.sync())
        for proxy in (second, third):
            await proxy.heal()
        await synced
        assert (await late.get("/a"))[0] == b"1"
        await asyncio.gather(late.close(), other.close())


async def test_a_directory_belongs_to_one_ensemble(ensemble):
    for nodes, message in ((3, "in use by another ZooKeeper"), (1, "in use by another")):
        with pytest.raises(CommandError, match=message):
            await ZooKeeperEnsemble(ensemble.data_dir, nodes=nodes).start()


async def test_a_directory_keeps_its_data(tmp_path):
    async def opened(ensemble):
        registry = ZooKeeperRegistry(ZooKeeperAddress.parse(ensemble.connect))
        await registry.start()
        return registry

    async with ZooKeeperEnsemble(tmp_path / "data") as ensemble:
        registry = await opened(ensemble)
        await registry.create("/a", b"1")
        await registry.close()
    async with ZooKeeperEnsemble(tmp_path / "data", port=ensemble.servers[0].port) as again:
        assert again.connect == ensemble.connect
        registry = await opened(again)
        assert (await registry.get("/a"))[0] == b"1"
        await registry.close()
    with pytest.raises(CommandError, match="has data of 1 ZooKeeper nodes, not 3"):
        await ZooKeeperEnsemble(tmp_path / "data", nodes=3).start()


async def test_a_port_that_is_taken(ensemble):
    taken = ensemble.servers[0].port
    with pytest.raises(CommandError, match=f"cannot listen on 127.0.0.1:{taken}: Address already in use"):
        await ZooKeeperEnsemble(port=taken).start()
