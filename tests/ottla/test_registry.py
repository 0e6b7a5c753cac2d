"""`ottla registry` as a person starts and stops it, and brokers that use it."""

import asyncio
import os
import re
import signal
import socket

import pytest

from ottla.command_line.failure import CommandError
from ottla.command_line.registry_session import opened
from ottla.commands import registry as command
from registry.embedded.access import Caller
from registry.embedded.file import RegistryFile
from registry.embedded.store import EmbeddedStore
from registry.embedded.tree import KeptSession
from registry.errors import RegistryStorageError
from registry.interface import Create
from registry.server.codes import OpCode
from support.broker import broker_process
from support.deadlines import DEADLINE_S
from support.polling import until, until_blocking
from support.registry_client import RawClient, create
from support.running_registry import RunningRegistry, listens


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_it(number):
    with RunningRegistry("registry", "--port", 0) as running:
        connect = running.value("connect")
        assert running.value("data") == "in memory"
        assert "one node, for development and tests" in running.text
        os.killpg(running.process.pid, number)
        assert running.process.wait(DEADLINE_S) == 0
        assert not listens(connect)


def test_what_is_written_is_kept_in_a_directory(tmp_path, ottla):
    with RunningRegistry("registry", "--port", 0, "--data-dir", tmp_path / "kept") as running:
        ottla("zk", "create", "--write", "/kept", "1", "-z", running.value("connect"))
        error = ottla("registry", "--port", 0, "--data-dir", tmp_path / "kept", code=1).err
        assert "another process has the registry open" in error
        running.process.kill()
        running.process.wait(DEADLINE_S)
    with RunningRegistry("registry", "--port", 0, "--data-dir", tmp_path / "kept") as running:
        assert ottla("zk", "get", "/kept", "-z", running.value("connect")).out == "1\n"


class Owner:
    """A session of a client in another process."""

    def changed(self, changes):
        pass

    def session_ended(self):
        pass


async def test_a_command_on_the_files_of_a_stopped_registry_keeps_its_sessions(tmp_path):
    path, kept = tmp_path / "registry.sqlite", KeptSession(1_000, bytes(16))
    store = await EmbeddedStore.open(path, keep_sessions=True)
    session_id, opening = store.open_kept_session(Owner(), kept)
    await opening
    await store.write(session_id, lambda draft: draft.create(Create("/mine", None, ephemeral=True), Caller(session_id)))
    await store.close()
    async with opened("", tmp_path) as registry:
        assert (await registry.exists("/mine")).ephemeral_owner == session_id
        await registry.create("/other")
    store = await EmbeddedStore.open(path, keep_sessions=True)
    assert store.kept_sessions == {session_id: kept}
    assert sorted(store.tree.nodes) == ["/", "/mine", "/other"]
    await store.close()


def test_brokers_in_processes_of_their_own_are_a_cluster(tmp_path, ottla):
    with RunningRegistry("registry", "--port", 0) as running:
        settings = {
            "zookeeper_connect": running.value("connect"),
            "zookeeper_session_timeout_ms": "6000",
            "offsets_topic_replication_factor": "2",
        }
        with (
            broker_process(tmp_path / "0", broker_id="0", **settings) as first,
            broker_process(tmp_path / "1", broker_id="1", **settings) as second,
        ):
            server = ("-b", first.bootstrap)
            until_blocking(lambda: len(ottla("brokers", "list", "--json", *server).json) == 2, "both are registered")
            ottla("topics", "create", "t", "--partitions", 2, "--replication-factor", 2, *server)
            ottla("produce", "t", *server, stdin=b"hello\n")
            first.kill()
            found = ottla("consume", "t", "--from-beginning", "-n", 1, "-b", second.bootstrap)
            assert found.out == "hello\n"


def test_a_port_that_is_taken(ottla):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert f"127.0.0.1:{port}: cannot listen: " in ottla("registry", "--port", port, code=1).err


def test_a_socket_of_the_parent_process(tmp_path, ottla):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        early = socket.create_connection(("127.0.0.1", port), timeout=DEADLINE_S)
        with RunningRegistry("registry", "--fd", listener.fileno(), pass_fds=[listener.fileno()]) as running, early:
            listener.close()
            assert running.value("connect") == f"127.0.0.1:{port}"
            early.sendall(b"ruok")
            assert early.recv(100) == b"imok"
        assert not listens(f"127.0.0.1:{port}")


def test_a_descriptor_that_is_no_listening_socket(tmp_path, ottla):
    assert "--fd 9999999: Bad file descriptor" in ottla("registry", "--fd", 9_999_999, code=1).err
    with (tmp_path / "file").open("wb") as file:
        error = ottla("registry", "--fd", file.fileno(), code=1).err
        assert "Socket operation on non-socket" in error
    with socket.socket() as plain:
        descriptor = os.dup(plain.fileno())
        assert f"--fd {descriptor}: the socket does not listen" in ottla("registry", "--fd", descriptor, code=1).err
    first, second = socket.socketpair()
    with first, second:
        assert "not a TCP socket" in ottla("registry", "--fd", os.dup(first.fileno()), code=1).err


def test_a_directory_that_cannot_be_created(tmp_path, ottla):
    (tmp_path / "file").touch()
    assert "cannot be created" in ottla("registry", "--port", 0, "--data-dir", tmp_path / "file" / "x", code=1).err


async def test_a_failure_of_the_store_ends_it(tmp_path, monkeypatch, capsys):
    def fail(*_, **__):
        raise RegistryStorageError("registry.sqlite: a write failed: disk I/O error")

    monkeypatch.setattr(command, "on_stop_signals", lambda _: None)
    serving = asyncio.create_task(command._serve("127.0.0.1", 0, tmp_path / "registry.sqlite"))
    text = ""

    def port():
        nonlocal text
        text += capsys.readouterr().out
        return re.search(r"connect +127\.0\.0\.1:(\d+)", text)

    try:
        await until(port, "the registry is ready")
        client = await RawClient(*await asyncio.open_connection("127.0.0.1", int(port()[1]))).connect()
        monkeypatch.setattr(RegistryFile, "write", fail)
        client.send(OpCode.CREATE, create("/a"))
        with pytest.raises(CommandError, match=r"^registry\.sqlite: a write failed: disk I/O error$"):
            async with asyncio.timeout(DEADLINE_S):
                await serving
        await client.close()
    finally:
        serving.cancel()


def test_other_machines_can_reach_it_only_if_that_is_wanted():
    with RunningRegistry("registry", "--port", 0, "--listen", "0.0.0.0") as running:
        assert "everyone who reaches 0.0.0.0:" in running.text
        assert running.value("connect").startswith("127.0.0.1:")
