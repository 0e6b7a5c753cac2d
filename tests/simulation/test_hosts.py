"""What surrounds the brokers of a simulation: time, processes, the network, the registry's sessions."""

import asyncio
import errno
import os
import random

import pytest

from protocol.api_keys import ApiKey
from registry.embedded.store import EmbeddedStore
from registry.errors import ConnectionLossError, SessionExpiredError
from registry.interface import ConnectionState
from support.simulation.disk import HostFileSystem
from support.simulation.link import Link
from support.simulation.network import SimulatedNetwork
from support.simulation.process import NOBODY, ProcessDiedError, SimulatedProcess
from support.simulation.session import SimulatedStore
from support.simulation.trace import Trace
from support.simulation.virtual_loop import SimulationStuckError, VirtualTimeLoop


class Recorder(asyncio.Protocol):
    """Keeps what it is told."""

    def __init__(self):
        self.heard = []
        self.transport = None

    def connection_made(self, transport):
        self.transport = transport

    def data_received(self, data):
        self.heard.append(bytes(data))

    def eof_received(self):
        self.heard.append("eof")

    def connection_lost(self, exc):
        self.heard.append(type(exc).__name__ if exc is not None else "closed")

    @property
    def received(self):
        return b"".join(one for one in self.heard if isinstance(one, bytes))


@pytest.fixture
def loop():
    loop = VirtualTimeLoop()
    yield loop
    loop.close()


@pytest.fixture
def network(loop):
    return SimulatedNetwork(random.Random(1), Trace(loop.time))


class Pair:
    """A connection between two hosts."""

    def __init__(self, network):
        self.network = network
        self.server, self.client = SimulatedProcess("server"), SimulatedProcess("client")
        self.accepted = []

    def _accept(self):
        self.accepted.append(Recorder())
        return self.accepted[-1]

    async def open(self):
        self.listening = await self.network.of(self.server).listen(self._accept, "server", 1)
        _, self.ours = await self.network.of(self.client).connect(Recorder, "server", 1)
        await asyncio.sleep(0.1)
        (self.theirs,) = self.accepted
        return self


def test_time_advances_only_when_all_hosts_are_idle(loop):
    async def main():
        await asyncio.gather(asyncio.sleep(3600), asyncio.sleep(7200))
        return loop.time()

    assert loop.run_until_complete(main()) == 7200


def test_a_deadlock_is_detected(loop):
    async def main():
        await loop.create_future()

    with pytest.raises(SimulationStuckError, match="nobody has anything left to do"):
        loop.run_until_complete(main())


def test_endless_loops_are_detected(loop):
    async def main():
        while True:  # noqa: ASYNC110 - that is what is tested
            await asyncio.sleep(0)

    with pytest.raises(SimulationStuckError, match="time stands still"):
        loop.run_until_complete(main())


def test_threads_are_refused(loop):
    with pytest.raises(AssertionError, match="asks for a thread"):
        loop.run_until_complete(asyncio.to_thread(print))


def test_a_paused_process_continues_later_and_a_dead_one_does_not(loop):
    async def count(ticks):
        try:
            while True:
                await asyncio.sleep(1)
                ticks.append(loop.time())
        finally:
            ticks.append("finally")

    async def main():
        process, ticks = SimulatedProcess("host"), []
        task = loop.create_task(count(ticks), context=process.context)
        await asyncio.sleep(1.5)
        process.pause()
        await asyncio.sleep(10)
        assert ticks == [1]
        loop.resume(process)
        await asyncio.sleep(0.1)
        assert ticks == [1, 11.5]
        process.kill()
        await asyncio.sleep(10)
        assert ticks == [1, 11.5]
        assert not task.done()

    loop.run_until_complete(main())


def test_bytes_arrive_in_order_and_in_pieces(loop, network):
    async def main():
        pair = await Pair(network).open()
        sent = random.Random(2).randbytes(1_000_000)
        for start in range(0, len(sent), 70_000):
            pair.ours.transport.write(sent[start : start + 70_000])
        await asyncio.sleep(5)
        assert pair.theirs.received == sent
        pair.ours.transport.close()
        await asyncio.sleep(1)
        assert pair.ours.heard == ["closed"]
        assert pair.theirs.heard[-2:] == ["eof", "closed"]

    loop.run_until_complete(main())


def test_data_sent_into_a_cut_link_arrives_when_it_is_restored(loop, network):
    async def main():
        pair = await Pair(network).open()
        link = network.link("client", "server")
        link.cut()
        pair.ours.transport.write(b"late")
        pair.theirs.transport.write(b"in time")
        await asyncio.sleep(30)
        assert (pair.theirs.received, pair.ours.received) == (b"", b"in time")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(5):
                await network.of(pair.client).connect(Recorder, "server", 1)
        link.heal()
        await asyncio.sleep(1)
        assert pair.theirs.received == b"late"

    loop.run_until_complete(main())


@pytest.mark.parametrize("power_cut", [False, True])
def test_the_end_of_a_process(loop, network, power_cut):
    async def main():
        pair = await Pair(network).open()
        pair.server.kill()
        network.process_died(pair.server, power_cut=power_cut)
        if power_cut:
            network.power_off("server")
        await asyncio.sleep(5)
        # The kernel of a machine that is up closes the socket; of one without power nobody hears anything.
        assert bool(pair.ours.heard) is not power_cut
        if power_cut:
            pair.ours.transport.write(b"are you there?")
            network.power_on("server")
            await asyncio.sleep(5)
            assert pair.ours.heard == ["ConnectionResetError"]
        with pytest.raises(ConnectionRefusedError):
            await network.of(pair.client).connect(Recorder, "server", 1)
        assert pair.theirs.heard == []

    loop.run_until_complete(main())


def test_a_reset_sent_into_a_cut_link_arrives_when_it_is_restored(loop, network):
    async def main():
        pair = await Pair(network).open()
        pair.server.kill()
        network.process_died(pair.server, power_cut=True)
        link = network.link("server", "client")
        link.cut()
        pair.ours.transport.write(b"are you there?")
        await asyncio.sleep(5)
        assert pair.ours.heard == []
        link.heal()
        await asyncio.sleep(1)
        assert pair.ours.heard == ["ConnectionResetError"]

    loop.run_until_complete(main())


def test_a_reset_ends_both_sides(loop, network):
    async def main():
        pair = await Pair(network).open()
        network.reset("server", "client")
        await asyncio.sleep(1)
        assert [side.heard for side in (pair.ours, pair.theirs)] == [["ConnectionResetError"], ["ConnectionResetError"]]

    loop.run_until_complete(main())


def test_a_connection_that_is_held_is_overtaken(loop, network):
    async def main():
        pair = await Pair(network).open()
        (pipe,) = network.pipes("client", "server")
        pipe.hold()
        pair.ours.transport.write(b"first")
        _, second = await network.of(pair.client).connect(Recorder, "server", 1)
        second.transport.write(b"second")
        pair.ours.transport.close()
        await asyncio.sleep(5)
        assert [one.received for one in pair.accepted] == [b"", b"second"]
        pipe.release()
        await asyncio.sleep(1)
        assert pair.theirs.heard == [b"first", "eof", "closed"]

    loop.run_until_complete(main())


def test_what_was_sent_on_a_connection_arrives_again_on_another(loop, network):
    metadata = b"\0\0\0\x06" + ApiKey.METADATA.to_bytes(2) + b"abcd"
    incomplete = b"\0\0\0\x09" + ApiKey.METADATA.to_bytes(2) + b"..."

    async def main():
        pair = await Pair(network).open()
        pair.ours.transport.write(metadata + metadata + incomplete)
        await asyncio.sleep(1)
        await network.repeat("client", "server")
        await asyncio.sleep(1)
        assert [one.received for one in pair.accepted] == [metadata + metadata + incomplete, metadata + metadata]
        assert pair.accepted[1].heard[-1] == "closed"

    loop.run_until_complete(main())


def test_what_a_controller_sends_is_not_repeated(loop, network):
    async def main():
        pair = await Pair(network).open()
        for key in (ApiKey.METADATA, ApiKey.UPDATE_METADATA):
            pair.ours.transport.write(b"\0\0\0\x06" + key.to_bytes(2) + b"abcd")
        await asyncio.sleep(1)
        await network.repeat("client", "server")
        assert len(pair.accepted) == 1

    loop.run_until_complete(main())


def test_a_process_that_is_killed_in_a_write(loop, tmp_path):
    disk = HostFileSystem(tmp_path, random.Random(1))
    process = SimulatedProcess("host")
    done = []

    async def write():
        file = disk.open(str(tmp_path / "file"), create=True)
        for position in range(0, 300, 100):
            disk.pwrite(file.fd, b"x" * 100, position)
            done.append(position)

    async def main():
        disk.faults.writes_until_death = 3
        disk.faults.die = lambda: NOBODY.run(process.kill)
        task = loop.create_task(write(), context=process.context)
        await asyncio.sleep(1)
        assert type(task.exception()) is ProcessDiedError
        assert done == [0, 100]
        assert 200 <= (tmp_path / "file").stat().st_size < 300
        with pytest.raises(ProcessDiedError):  # what its handlers of exceptions would do
            process.context.run(disk.remove, str(tmp_path / "file"))
        disk.process_died()
        assert disk.read_file(str(tmp_path / "file")).startswith(b"x" * 200)

    loop.run_until_complete(main())


def test_a_log_directory_that_fails(loop, tmp_path):
    for name in ("good", "bad"):
        (tmp_path / name).mkdir()
    disk = HostFileSystem(tmp_path, random.Random(1))
    files = {name: disk.open(str(tmp_path / name / "file"), create=True) for name in ("good", "bad")}
    disk.faults.broken.add(str(tmp_path / "bad"))
    for fails in (
        lambda: disk.pwrite(files["bad"].fd, b"x", 0),
        lambda: disk.pread(files["bad"].fd, 1, 0),
        lambda: disk.fsync(files["bad"].fd),
        lambda: disk.open(str(tmp_path / "bad" / "file")),
        lambda: disk.rename(str(tmp_path / "bad" / "file"), str(tmp_path / "bad" / "other")),
        lambda: disk.list_directory(str(tmp_path / "bad")),
    ):
        with pytest.raises(OSError, match=os.strerror(errno.EIO)):
            fails()
    assert disk.pwrite(files["good"].fd, b"x", 0) == 1
    disk.faults.broken.clear()
    assert disk.pread(files["bad"].fd, 1, 0) == b""


def test_a_slow_disk(loop, tmp_path):
    async def main():
        disk = HostFileSystem(tmp_path, random.Random(1))
        disk.faults.blocking_s = (1.0, 2.0)
        assert await disk.run_blocking(lambda: "done") == "done"
        assert 2.0 <= loop.time() <= 4.0

    loop.run_until_complete(main())


def test_links_have_latency(loop):
    async def main():
        link = Link(random.Random(1))
        link.latency_s = (2.0, 3.0)
        await link.cross()
        assert 2.0 <= loop.time() <= 3.0

    loop.run_until_complete(main())


def test_a_session_over_a_link(loop):
    async def main():
        store = await EmbeddedStore.open(None, now_ms=lambda: int(loop.time() * 1000))
        process = SimulatedProcess("host")
        session = SimulatedStore(store, process, random.Random(1)).session(4_000)
        outcomes, states, looks = [], [], []

        async def live():
            await session.start()
            session.listen(states.append)
            session.watch_data("/a", lambda: looks.append(loop.time()))
            await asyncio.gather(*(session.create(path) for path in ("/a", "/a/b", "/a/b/c")))
            await session.create("/e", ephemeral=True)
            outcomes.append(await session.get("/a"))
            try:
                await session.set("/a", b"done, but who knows")
            except ConnectionLossError as error:
                outcomes.append(error)
            try:
                await session.get("/a")
            except SessionExpiredError as error:
                outcomes.append(error)

        task = loop.create_task(live(), context=process.context)
        while store.tree.get("/a") is None or store.tree.node("/a").data is None:  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.0001)
        session.disconnect()
        assert len(outcomes) == 1
        await asyncio.sleep(5)
        assert store.tree.get("/e") is None
        session.reconnect()
        await asyncio.sleep(1)
        assert task.done()
        assert [type(outcome) for outcome in outcomes[1:]] == [ConnectionLossError, SessionExpiredError]
        assert looks
        assert states == [ConnectionState.SUSPENDED, ConnectionState.EXPIRED]

    loop.run_until_complete(main())


def test_a_session_that_hears_late(loop):
    async def main():
        store = await EmbeddedStore.open(None, now_ms=lambda: int(loop.time() * 1000))
        process = SimulatedProcess("host")
        session = SimulatedStore(store, process, random.Random(1)).session(4_000)
        heard = []

        async def live():
            await session.start()
            session.listen(lambda state: heard.append((state, loop.time())))

        await loop.create_task(live(), context=process.context)
        session.lag_s = 5.0
        begun = loop.time()
        await session.expire()
        await asyncio.sleep(10)
        ((state, at_s),) = heard
        assert state is ConnectionState.EXPIRED
        assert 5.0 <= at_s - begun < 5.1

    loop.run_until_complete(main())
