"""A broker's start and end: what it refuses and how it says so, what it leaves behind, and what kills it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import sqlite3
import tempfile
import threading
from pathlib import Path

import pytest

from broker import main
from broker.broker import Broker
from broker.controller.controller import Controller
from broker.errors import BrokerStartError
from broker.settings.config import BrokerConfig
from ottla.cluster.ports import free_ports
from registry.embedded.store import EmbeddedStore
from storage.log_manager import LogManager
from support.broker import broker_process, running_broker, settings
from support.deadlines import DEADLINE_S
from support.fork_server import ForkedProcess, run_module
from support.polling import until
from support.wire import ConnectionClosedError, append, batch, create_topic, fetch, wire_client

CLEAN = ".kafka_cleanshutdown"


def refused(log_dir, **overrides):
    """Start a broker that cannot start: its exit code and what it says on stderr, log lines left out."""
    arguments = [
        part for name, value in settings(log_dir, **overrides).items() for part in ("--set", f"{name}={value}")
    ]
    with tempfile.TemporaryDirectory() as folder:
        out, errors = Path(folder) / "out", Path(folder) / "errors"
        process = ForkedProcess(run_module, "broker.__main__", *arguments, out=out, errors=errors)
        code = process.wait(DEADLINE_S)
        assert "Ottla is ready" not in out.read_text()
        said = errors.read_text()
    assert "Traceback" not in said
    lines = [line for line in said.splitlines() if line.startswith("ottla: ")]
    assert len(lines) == 1, said
    return code, lines[0]


async def starts(log_dir, **overrides):
    """The same directory can be used at once."""
    async with running_broker(log_dir, **overrides):
        pass
    return True


# -- it does not start -------------------------------------------------------------------------------------------------


async def test_a_port_that_is_taken(tmp_path):
    with contextlib.closing(socket.socket()) as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        code, line = refused(tmp_path / "data", listeners=f"PLAINTEXT://127.0.0.1:{port}")
    assert code == 1
    assert f"PLAINTEXT://127.0.0.1:{port}" in line
    assert "in use" in line
    assert (tmp_path / "data" / CLEAN).exists()
    assert await starts(tmp_path / "data")


async def test_a_log_directory_in_use(tmp_path):
    with broker_process(tmp_path / "data") as running:
        before = set((tmp_path / "data").iterdir())
        code, line = refused(tmp_path / "data")
        assert code == 1
        assert str(tmp_path / "data") in line
        made = set((tmp_path / "data").iterdir()) - before
        assert [path for path in made if "-checkpoint" not in path.name] == []  # those the first one writes
        async with wire_client(running.bootstrap) as client:
            await create_topic(client, "t")
            assert (await append(client, "t", batch(b"v"))).error_code == 0


async def test_a_log_directory_of_another_broker(tmp_path):
    assert await starts(tmp_path / "data", broker_id="3")
    meta = (tmp_path / "data" / "meta.properties").read_bytes()
    code, line = refused(tmp_path / "data", broker_id="4")
    assert code == 1
    assert "belongs to broker 3" in line
    assert (tmp_path / "data" / "meta.properties").read_bytes() == meta
    assert await starts(tmp_path / "data", broker_id="3")


async def test_a_log_directory_of_another_cluster(tmp_path):
    assert await starts(tmp_path / "data", broker_id="3")
    assert await starts(tmp_path / "other", broker_id="3")
    (tmp_path / "other" / "meta.properties").write_bytes((tmp_path / "data" / "meta.properties").read_bytes())
    code, line = refused(tmp_path / "other", broker_id="3")
    assert code == 1
    assert "cluster" in line


async def test_a_registry_file_in_use(tmp_path):
    (tmp_path / "data").mkdir()
    store = await EmbeddedStore.open(tmp_path / "data" / "registry.sqlite")
    try:
        code, line = refused(tmp_path / "data")
        assert code == 1
        assert "registry.sqlite" in line
    finally:
        await store.close()
    assert await starts(tmp_path / "data")


def test_a_file_that_is_not_a_registry(tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "registry.sqlite").write_bytes(b"no database" * 1000)
    code, line = refused(tmp_path / "data")
    assert code == 1
    assert "registry.sqlite" in line
    with contextlib.closing(sqlite3.connect(":memory:")):
        assert (tmp_path / "data" / "registry.sqlite").read_bytes() == b"no database" * 1000


@pytest.mark.parametrize("where", ["file", "below a file"])
def test_an_invalid_log_directory(tmp_path, where):
    (tmp_path / "file").write_text("x")
    path = tmp_path / "file" if where == "file" else tmp_path / "file" / "data"
    code, line = refused(path)
    assert code == 1
    assert str(path) in line


@pytest.mark.parametrize(
    ("name", "value"), [("num.partitions", "many"), ("broker.idd", "1"), ("log.retention.policy", "x")]
)
def test_a_bad_setting(tmp_path, name, value):
    code, line = refused(tmp_path / "data", **{name.replace(".", "_"): value})
    assert code == 1
    assert name in line
    assert not (tmp_path / "data").exists()


async def test_a_second_broker_with_the_same_id(tmp_path):
    store = await EmbeddedStore.open()
    try:
        config = BrokerConfig.load(None, settings(tmp_path / "a", broker_id="1"))
        async with Broker(config, store=store) as first:
            second = Broker(BrokerConfig.load(None, settings(tmp_path / "b", broker_id="1")), store=store)
            with pytest.raises(BrokerStartError, match="id 1 is registered already"):
                await second.run()
            assert not (tmp_path / "b" / "meta.properties").exists()  # it may still become another one
            async with wire_client(first.bootstrap_servers) as client:
                await create_topic(client, "t")
        third = BrokerConfig.load(None, settings(tmp_path / "b", broker_id="2"))
        async with Broker(third, store=store):
            pass
    finally:
        await store.close()


async def test_a_failed_load_releases_all_locks(tmp_path, monkeypatch):
    async def broken(self):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(LogManager, "load", broken)
    with pytest.raises(OSError, match="Input/output error"):
        await Broker(BrokerConfig.load(None, settings(tmp_path / "data"))).run()
    monkeypatch.undo()
    assert await starts(tmp_path / "data")


# -- it stops ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_under_load_stops_cleanly(tmp_path, number):
    with broker_process(tmp_path / "data") as broker:
        acknowledged = {0: 0, 1: 0}
        async with wire_client(broker.bootstrap) as admin, wire_client(broker.bootstrap) as waiting:
            await create_topic(admin, "t", partitions=2)
            waiting.send(fetch("t", partition=1, offset=10**6, max_wait_ms=60_000), 12)
            waiting.send(fetch("t", partition=1, max_wait_ms=60_000, min_bytes=10**8), 12)

            async def load(partition):
                with contextlib.suppress(ConnectionClosedError):
                    async with wire_client(broker.bootstrap) as client:
                        while True:
                            assert (await append(client, "t", batch(b"v"), partition)).error_code == 0
                            acknowledged[partition] += 1

            loads = [asyncio.create_task(load(partition)) for partition in acknowledged]
            await until(lambda: min(acknowledged.values()) > 20, "there is load")
            os.kill(broker.pid, number)
            os.kill(broker.pid, number)  # in vain
            await asyncio.gather(*loads)
            with contextlib.suppress(ConnectionClosedError):
                while True:
                    await waiting.receive_raw()
        assert await asyncio.to_thread(broker.process.wait, 30) == 0
        data = tmp_path / "data"
        assert (data / CLEAN).exists()
        points = (data / "recovery-point-offset-checkpoint").read_text().splitlines()[2:]
        marks = (data / "replication-offset-checkpoint").read_text().splitlines()[2:]
        assert sorted(points) == sorted(marks)
        for line in points:
            topic, partition, offset = line.split()
            assert topic == "t"
            assert acknowledged[int(partition)] <= int(offset) <= acknowledged[int(partition)] + 1
        broker.start()
        assert "recovering" not in broker.log_text()
        assert broker.stop() == 0


def test_a_signal_before_it_is_ready_stops_cleanly(tmp_path, monkeypatch):
    """It is obeyed when there is something to stop, and what the last clean stop has marked is still marked."""
    overrides = settings(tmp_path / "data")
    loading = threading.Event()
    load = LogManager.load

    async def slow(self):
        loading.set()
        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.sleep(0.05)
        await load(self)

    monkeypatch.setattr(LogManager, "load", slow)
    for clean_before in (False, True):
        assert (tmp_path / "data" / CLEAN).exists() is clean_before
        assert main.run(None, overrides, quiet=True) == 0
        assert loading.is_set()
        assert (tmp_path / "data" / CLEAN).exists() is clean_before
        (tmp_path / "data" / CLEAN).touch()


async def test_it_stops_while_it_waits_for_zookeeper(tmp_path):
    """ZooKeeper closes every connection."""
    asked = asyncio.Event()

    async def accepted(_, writer):
        writer.close()
        asked.set()

    server = await asyncio.start_server(accepted, "127.0.0.1", 0)
    connect = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    waiting = {"zookeeper_connect": connect, "zookeeper_connection_timeout_ms": "3600000"}
    broker = Broker(BrokerConfig.load(None, settings(tmp_path / "data", **waiting)))
    running = asyncio.create_task(broker.run())
    try:
        async with asyncio.timeout(DEADLINE_S):
            await asked.wait()
            broker.stop()
            await running
    finally:
        running.cancel()
        server.close()


async def test_repeated_signals_stop_it_once(tmp_path):
    broker = Broker(BrokerConfig.load(None, settings(tmp_path / "data")))
    async with broker:
        for _ in range(3):
            broker.stop()
    assert broker.is_stopping
    assert (tmp_path / "data" / CLEAN).exists()


async def test_clients_are_closed_and_the_port_is_free(tmp_path):
    (port,) = free_ports(1)  # one that the system gives to nobody else as soon as it is free
    async with running_broker(tmp_path / "data", listeners=f"PLAINTEXT://127.0.0.1:{port}") as broker:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        broker.stop()
        with contextlib.suppress(ConnectionResetError):
            assert await asyncio.wait_for(reader.read(), DEADLINE_S) == b""
        writer.close()
        with contextlib.suppress(ConnectionResetError):
            await writer.wait_closed()
    with pytest.raises(OSError, match=r"refused|Connect call failed"):
        await asyncio.open_connection("127.0.0.1", port)


# -- it dies -----------------------------------------------------------------------------------------------------------


async def test_a_failed_service_stops_the_broker_cleanly(tmp_path, monkeypatch):
    dies = asyncio.Event()

    async def run(self):
        await dies.wait()
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(LogManager, "run", run)
    broker = Broker(BrokerConfig.load(None, settings(tmp_path / "data")))
    with pytest.raises(ExceptionGroup) as caught:  # noqa: PT012 - the broker's end is what raises
        async with broker, wire_client(broker.bootstrap_servers) as client:
            await create_topic(client, "t")
            dies.set()
            assert await client.is_closed()
    assert isinstance(main._first_leaf(caught.value), OSError)
    assert (tmp_path / "data" / CLEAN).exists()
    monkeypatch.undo()
    assert await starts(tmp_path / "data")


def test_the_reason_is_one_line_and_the_exit_code_one(tmp_path, monkeypatch, capsys):
    async def run(self):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(LogManager, "run", run)
    assert main.run(None, settings(tmp_path / "data"), quiet=True) == 1
    lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("ottla: ")]
    assert lines == ["ottla: [Errno 28] No space left on device"]


def test_an_unexpected_exception_is_not_hidden(tmp_path, monkeypatch):
    async def run(self):
        raise ZeroDivisionError

    monkeypatch.setattr(LogManager, "run", run)
    with pytest.raises(ExceptionGroup):
        main.run(None, settings(tmp_path / "data"), quiet=True)


async def test_a_lost_session_is_replaced_by_a_new_one(tmp_path):
    """Two brokers, as one path: the one that was taken for dead is there again, and leads what it led."""
    store = await EmbeddedStore.open()
    broker = Broker(BrokerConfig.load(None, settings(tmp_path / "data", broker_id="7")), store=store)
    async with broker, wire_client(broker.bootstrap_servers) as client:
        await create_topic(client, "t")
        await append(client, "t", batch(b"0"))
        for _ in range(3):
            [session] = list(store._sessions)
            epoch = broker.services.broker_epoch
            await store.end_session(session)
            await until(lambda epoch=epoch: broker.services.broker_epoch > epoch, "it is registered again")
            await until(lambda: broker.controller.is_active, "it is the controller again")
            assert (await append(client, "t", batch(b"1"))).error_code == 0
            await create_topic(client, f"u{epoch}")
        assert list(store._sessions) != [session]
    await store.close()
    assert (tmp_path / "data" / CLEAN).exists()


async def test_a_permanently_failed_registry_stops_the_broker(tmp_path):
    store = await EmbeddedStore.open()
    broker = Broker(BrokerConfig.load(None, settings(tmp_path / "data")), store=store)
    with pytest.raises(ExceptionGroup) as caught:  # noqa: PT012 - the broker's end is what raises
        async with broker, wire_client(broker.bootstrap_servers) as client:
            await store.close()
            assert await client.is_closed()
    assert "store is closed" in str(main._first_leaf(caught.value))
    assert (tmp_path / "data" / CLEAN).exists()


async def test_the_last_broker_stops_without_a_hand_over(monkeypatch, tmp_path):
    """The other one could not take over yet, and then it goes, too."""
    asked = []

    async def relieve(self, broker_id, broker_epoch):
        asked.append(broker_id)
        return [("t", 0)]

    monkeypatch.setattr(Controller, "relieve", relieve)
    store = await EmbeddedStore.open()
    overrides = {1: {"controlled_shutdown_enable": "false"}, 2: {"controlled_shutdown_retry_backoff_ms": "20000"}}
    first, second = (
        Broker(BrokerConfig.load(None, settings(tmp_path / str(id_), broker_id=str(id_), **more)), store=store)
        for id_, more in overrides.items()
    )
    await first.__aenter__()
    await second.__aenter__()
    await until(lambda: len(second.metadata.snapshot.brokers) == 2, "it knows the other one")
    stopping = asyncio.create_task(second.__aexit__(None, None, None))
    await until(lambda: asked == [2], "it asks")
    await first.__aexit__(None, None, None)
    await stopping
    assert asked == [2]
    await store.close()
