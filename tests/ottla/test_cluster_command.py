"""`ottla cluster`: clusters of real processes, how they end, and which arguments are refused."""

import asyncio
import os
import re
import signal
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from broker.first_commands import TRY
from ottla.cluster.process_output import ProcessOutput
from ottla.command_line import registry_session
from support.broker import ROOT
from support.broker_sessions import expire_session
from support.cluster_command import ANY_PORTS, Running
from support.deadlines import DEADLINE_S
from support.polling import until_blocking
from support.zookeeper import new_chroot, shared_zookeeper


def descendants(pid):
    """The command lines of the child processes of a process, by process id."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return {int(one): Path(f"/proc/{one}/cmdline").read_text().replace("\0", " ") for one in children}


def lives(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_three_brokers_of_which_one_is_killed_and_comes_back(tmp_path, ottla):
    with Running("--data-dir", tmp_path, "--set", "num.partitions=2") as running:
        running.ready()
        connect, servers = running.value("registry").split()[0], running.value("bootstrap")

        def ids():
            return ottla("zk", "ls", "/brokers/ids", "-z", connect).out.split()

        def in_trouble(*options):
            described = ottla("topics", "describe", *options, "--json", "-b", servers).json
            return [f"{topic['topic']}-{one['partition']}" for topic in described for one in topic["partitions"]]

        assert ids() == ["1", "2", "3"]
        assert len(servers.split(",")) == 3
        for name in ("broker-1", "broker-2", "broker-3"):
            console = re.search(r"http://\S+", running.value(name))[0]
            with urllib.request.urlopen(f"{console}readyz", timeout=DEADLINE_S) as answer:
                assert answer.status == 200
        created = ottla("topics", "create", "orders", "--json", "-b", servers).json[0]
        assert (created["partitions"], created["replication_factor"]) == (2, 3)
        ottla("topics", "create", "alone", "--replica-assignment", "3,1", "-b", servers)
        assert in_trouble("--under-replicated", "--unavailable") == []

        address = running.value("broker-3").split()[0]
        os.kill(running.pid("broker-3"), signal.SIGKILL)
        until_blocking(
            lambda: "broker-3 | has ended by SIGKILL; the others continue\n" in running.errors, running.errors
        )
        asyncio.run(expire_session(connect, tmp_path / "broker-3"))
        assert ids() == ["1", "2"]
        # Each command asks any of the two brokers, which learn of it one after the other.
        for options, expected in (
            (["--under-replicated"], ["orders-0", "orders-1"]),
            (["--unavailable"], ["alone-0"]),
            (["--unavailable", "--under-replicated"], ["alone-0", "orders-0", "orders-1"]),
        ):
            until_blocking(lambda: in_trouble(*options) == expected, f"{expected} lack broker 3")  # noqa: B023

        def shown(topic, option):
            return ottla("topics", "describe", topic, option, "-b", servers)

        lines = until_blocking(lambda: shown("alone", "--unavailable").out.splitlines(), "one partition is unavailable")
        assert ", 1 of 2 partitions, replication factor 1" in "\n".join(lines)
        assert len(lines) == 3
        nothing = shown("alone", "--under-replicated")
        assert (nothing.out, nothing.err) == ("", "no such partition\n")
        again = re.search(rf"ottla broker ({tmp_path}/broker-3\.properties)$", running.text, flags=re.MULTILINE)[1]
        with subprocess.Popen(
            [sys.executable, "-m", "ottla", "broker", again],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        ) as third:
            until_blocking(lambda: "3" in ids(), "broker 3 is back")
            assert address.encode() in b"".join(iter(third.stdout.readline, f"{TRY}\n".encode()))
            third.terminate()
            third.stdout.read()
        assert running.stop() == 1
    stopped = re.findall(r"^(broker-\d) +\| .* stopped cleanly$", running.errors, flags=re.MULTILINE)
    assert stopped == ["broker-2", "broker-1"]
    assert running.errors.endswith("\nottla: ended unexpectedly or killed: broker-3\n")
    assert not lives(running.pid("broker-1"))
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", int(connect.rpartition(":")[2])))


def test_what_is_left_of_a_temporary_cluster(tmp_path, ottla):
    with Running("--brokers", 1, "--quiet", "--no-console") as running:
        running.ready()
        children = descendants(running.process.pid)
        assert len(children) == 2
        assert "The cluster is ready: 1 broker.\n" in running.text
        assert "console" not in running.text
        assert "one node, for development and tests" in running.value("registry")
        os.kill(running.pid("broker-1"), signal.SIGSTOP)  # one that stands still is stopped all the same
        assert running.stop(signal.SIGTERM) == 0, running.errors
    assert not any(map(lives, children))
    assert not Path(running.value("data")).exists()
    assert [line for line in running.err if " INFO " in line] == []


def test_a_cluster_with_a_zookeeper(tmp_path, ottla):
    with Running("--brokers", 1, "--no-console", "--zookeeper-nodes", 1, "--data-dir", tmp_path / "data") as running:
        running.ready()
        connect = running.value("zookeeper").split()[0]
        assert "for development" not in running.text
        assert ottla("zk", "ls", "/brokers/ids", "-z", connect).out == "1\n"
        assert "zookeeper.server" in descendants(running.process.pid)[running.pid("zookeeper")]
        assert running.stop() == 0, running.errors
    refused = ottla("cluster", *ANY_PORTS, "--data-dir", tmp_path / "data", code=1).err
    assert "has a cluster that was started with --zookeeper-nodes" in refused


def topics_in(connect, ottla):
    return ottla("zk", "ls", "/brokers/topics", "-z", connect).out.split()


def test_a_temporary_cluster_on_a_zookeeper_that_runs(ottla):
    """It has a chroot of its own, which is deleted with its data."""
    given = f"{shared_zookeeper().connect}{new_chroot()}"
    ottla("zk", "create", "--write", "--parents", "/mine", "-z", given)
    with Running("--brokers", 1, "--no-console", "--zookeeper", given) as running:
        running.ready()
        connect = running.value("zookeeper")
        assert connect.startswith(f"{given}/ottla-cluster-")
        ottla("topics", "create", "orders", "-b", running.value("bootstrap"))
        assert topics_in(connect, ottla) == ["orders"]
        assert running.stop() == 0, running.errors
    assert ottla("zk", "ls", "/", "-z", given).out.split() == ["mine"]
    assert not Path(running.value("data")).exists()


def test_what_a_killed_command_leaves_in_a_zookeeper_is_deleted_by_the_next_start(tmp_path, ottla, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))  # other tests have clusters, too
    given = f"{shared_zookeeper().connect}{new_chroot()}"
    words = ("--brokers", 1, "--no-console", "--zookeeper", given)
    with Running(*words) as killed:
        killed.ready()
        left, data, pid = killed.value("zookeeper"), Path(killed.value("data")), killed.pid("broker-1")
        name = left.rpartition("/")[2]
        with Running(*words) as other:  # nothing is left behind as long as the command runs
            other.ready()
            assert other.stop() == 0, other.errors
        assert "was killed" not in other.errors
        try:
            killed.process.kill()
            killed.process.wait(DEADLINE_S)
            with Running(*words) as second:
                second.ready()
                assert f"brokers of it still run: {data}\n" in second.errors
                assert data.exists()
                assert second.stop() == 0, second.errors
            assert ottla("zk", "ls", "/", "-z", given).out.split() == [name]
        finally:
            os.kill(pid, signal.SIGKILL)
        until_blocking(lambda: not lives(pid), "the broker has ended")
    with Running(*words) as third:
        third.ready()
        assert f"{left} is deleted: the command of its cluster was killed\n" in third.errors
        assert third.stop() == 0, third.errors
    assert ottla("zk", "ls", "/", "-z", given).out.split() == []
    assert list(tmp_path.glob("ottla-cluster-*")) == []


def test_a_kept_cluster_on_a_zookeeper_that_runs(tmp_path, ottla):
    given = f"{shared_zookeeper().connect}{new_chroot()}"
    for life in range(2):
        with Running("--brokers", 1, "--no-console", "-z", given, "--data-dir", tmp_path / "data") as running:
            running.ready()
            assert running.value("zookeeper") == given
            server = ("-b", running.value("bootstrap"))
            if life == 0:
                ottla("topics", "create", "orders", *server)
                ottla("produce", "orders", *server, stdin=b"kept\n")
            assert ottla("consume", "orders", "--from-beginning", "-n", 1, *server).out == "kept\n"
            assert running.stop() == 0, running.errors
    assert topics_in(given, ottla) == ["orders"]
    refused = ottla("cluster", *ANY_PORTS, "-z", given, "--data-dir", tmp_path / "empty", code=1).err
    assert f"--zookeeper {given} has a cluster with 1 topics, and {tmp_path / 'empty'} has no data of it" in refused
    assert topics_in(given, ottla) == ["orders"]
    for words in ((), ("--zookeeper-nodes", 1)):
        refused = ottla("cluster", *ANY_PORTS, *words, "--data-dir", tmp_path / "data", code=1).err
        assert f"has a cluster that was started with --zookeeper {given}: start it so again" in refused


def test_a_zookeeper_that_does_not_run(tmp_path, ottla, monkeypatch):
    monkeypatch.setattr(registry_session, "_CONNECTION_TIMEOUT_MS", 300)
    error = ottla("cluster", *ANY_PORTS, "-z", "127.0.0.1:1", code=1).err
    assert re.search("^ottla: --zookeeper 127.0.0.1:1: no session on ZooKeeper .*Connection refused", error)
    (tmp_path / "data" / "registry").mkdir(parents=True)
    refused = ottla("cluster", "-z", "127.0.0.1:1", "--data-dir", tmp_path / "data", code=1).err
    assert "was started without --zookeeper-nodes and --zookeeper" in refused


def test_a_registry_that_dies_is_reported(tmp_path):
    with Running("--brokers", 1, "--no-console") as running:
        running.ready()
        os.kill(running.pid("registry"), signal.SIGKILL)
        until_blocking(lambda: "registry | has ended: by SIGKILL\n" in running.errors, running.errors)
        os.kill(running.pid("broker-1"), signal.SIGKILL)
        assert running.ended() == 1
    assert running.errors.endswith("ottla: no process of the cluster is left\n")


def test_its_start_does_not_wait_for_what_it_does_not_need():
    script = (
        "import sys, ottla.app, ottla.commands.cluster, ottla.commands.registry\n"
        "print({'client.admin.admin', 'kazoo.client', 'broker.broker'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


def test_a_registry_that_cannot_start(tmp_path):
    (tmp_path / "registry").mkdir()
    (tmp_path / "registry" / "registry.sqlite").write_bytes(bytes(range(256)) * 64)
    with Running("--brokers", 2, "--no-console", "--data-dir", tmp_path) as running:
        assert running.ended() == 1
    assert re.search(r"^ottla: registry ended: .*registry\.sqlite: not a registry: ", running.err[-1])


def test_ctrl_c_while_it_starts():
    with Running("--brokers", 2) as starting:
        children = until_blocking(
            lambda: [pid for pid, words in descendants(starting.process.pid).items() if "broker-1.properties" in words],
            "a broker is being started",
        )
        assert starting.stop() == 0
    assert not any(map(lives, children))
    assert TRY not in starting.text


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--set", "broker.id=7"), r"--set broker\.id: each broker of the cluster has its own"),
        (("--set", "log.dirs=/tmp/x"), r"--set log\.dirs: each broker of the cluster has its own"),
        (("--set", "num.partitions"), r"--set 'num\.partitions' is not name=value"),
        (("--brokers", "0"), r".*--brokers"),
        (("-z", "a:1", "--zookeeper-nodes", "1"), "--zookeeper and --zookeeper-nodes cannot be used together"),
        (("-z", "a:b"), r".*'a:b'"),
    ],
)
def test_what_is_refused(ottla, tmp_path, words, message):
    assert re.search(f"^ottla: {message}", ottla("cluster", "--data-dir", tmp_path / "data", *words, code=1).err)
    assert not (tmp_path / "data").exists()


def test_a_setting_that_the_brokers_refuse():
    with Running("--brokers", 2, "--set", "num.partitions=-4") as running:
        assert running.ended() == 1
    assert re.search(r"^ottla: broker-\d ended with 1: num\.partitions=-4: .*$", running.err[-1])
    assert running.text == ""


@pytest.mark.parametrize("option", ["--port", "--console-port", "--zookeeper-port", "--control-port"])
def test_a_port_that_is_taken(ottla, option):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        refused = ottla("cluster", *ANY_PORTS, option, port, code=1)
    assert refused.err == f"ottla: cannot listen on 127.0.0.1:{port}: Address already in use\n"


def test_a_quiet_output_leaves_out_what_is_minor(capsys):
    output = ProcessOutput(["broker-1", "b"], quiet=True)
    output.said("b", "said before the first log line")
    output.said("b", "2026-11-21 15:28:16,084 INFO registry.zookeeper.registry: session")
    output.said("b", "which goes on")
    output.said("broker-1", "ottla: a broker's last word")
    output.said("b", "2026-11-21 15:28:16,084 WARNING storage: look")
    output.said("b", "INFO here")
    assert capsys.readouterr().err == (
        "b        | said before the first log line\n"
        "broker-1 | ottla: a broker's last word\n"
        "b        | 2026-11-21 15:28:16,084 WARNING storage: look\n"
        "b        | INFO here\n"
    )
