"""`ottla broker --processes N` as real processes: what they share, how they end, and that they come back."""

import json
import os
import re
import signal
import socket

from support.cluster_command import Running
from support.every_broker import until_every_broker
from support.polling import until_blocking
from support.running_registry import RunningRegistry


def processes(tmp_path, *words, count=2):
    """The command with so many processes, on ports that the system picks."""
    settings = {
        "listeners": "PLAINTEXT://127.0.0.1:0",
        "log.dirs": tmp_path / "data",
        "ottla.console.listener": "",
        "controlled.shutdown.retry.backoff.ms": "100",
    }
    return Running("--processes", count, *options(settings), *words, ports=(), name="broker")


def options(settings):
    return [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]


def test_two_processes_that_come_back_after_a_kill(tmp_path, ottla):
    with processes(tmp_path) as running:
        running.ready()
        assert "Ottla is ready. 2 processes:\n" in running.text
        connect, servers = running.value("registry").split()[0], running.value("bootstrap")

        def registered():
            tree = ottla("zk", "tree", "/brokers/ids", "-z", connect, "--json").json
            return {node["path"].rpartition("/")[2]: node for node in tree[1:]}

        brokers = registered()
        assert {broker: node["value"]["rack"] for broker, node in brokers.items()} == dict.fromkeys(
            ("0", "1"), socket.gethostname()
        )
        assert (tmp_path / "data" / "process-1" / "meta.properties").exists()
        ottla("topics", "create", "orders", "--replica-assignment", "0,1,1,0", "-b", servers)
        ottla("produce", "orders", "--partition", "1", "-b", servers, stdin=b"before\n")

        os.kill(running.pid("process-1"), signal.SIGKILL)
        until_blocking(
            lambda: "process-1 | has ended by SIGKILL; it starts again in" in running.errors, "it is noticed"
        )

        def is_back():
            found = registered()
            return found.keys() == {"0", "1"} and found["1"]["stat"]["czxid"] > brokers["1"]["stat"]["czxid"]

        until_blocking(is_back, "broker 1 is registered again")
        os.kill(int(re.search(r"pid (\d+)", running.value("registry"))[1]), signal.SIGKILL)
        until_blocking(
            lambda: "registry  | registry has ended: by SIGKILL; it starts again" in running.errors, "noticed"
        )
        bootstrap = servers.split(",")[0]

        def read():
            return ottla("consume", "orders", "--partition", "1", "--offset", "0", "--count", "1", "-b", bootstrap).out

        assert read() == "before\n"
        assert running.stop(signal.SIGTERM) == 0, running.errors
    stopped = re.findall(r"^(process-\d) +\| .* stopped cleanly$", running.errors, flags=re.MULTILINE)
    assert stopped == ["process-1", "process-0"]
    found = ottla("broker", "--data-dir", tmp_path / "data", "--processes", "1", code=1).err
    assert "process-1 has the data of a broker that --processes 1 does not start" in found


def test_replicas_are_on_different_machines(tmp_path, ottla):
    """Two supervisors with a registry of their own stand for two machines; one writes its log as JSON."""
    with (
        RunningRegistry("registry", "--port", "0", "--data-dir", tmp_path / "registry") as registry,
        processes(tmp_path / "a", *shared(registry, "a", 0)) as first,
        processes(tmp_path / "b", *shared(registry, "b", 10), "--set", "ottla.log.format=json") as second,
    ):
        first.ready()
        until_blocking(lambda: second.out or second.process.poll() is not None, "the second one is ready")
        (facts,) = map(json.loads, second.out)
        assert [one["process"] for one in facts["processes"]] == ["process-0", "process-1"]
        servers = first.value("bootstrap")
        every = servers.split(",")  # a command asks any of them
        until_every_broker(every, lambda brokers, _: brokers == {0, 1, 10, 11}, "all brokers are known")
        ottla("topics", "create", "orders", "--partitions", "8", "--replication-factor", "2", "-b", servers)
        until_every_broker(every, lambda _, topics: topics == {"orders"}, "the topic is known")
        (topic,) = ottla("topics", "describe", "orders", "--json", "-b", servers).json
        assert [sorted(broker // 10 for broker in one["replicas"]) for one in topic["partitions"]] == [[0, 1]] * 8
        assert second.stop(signal.SIGTERM) == 0, second.errors
        lines = [json.loads(line) for line in second.err if line.startswith("{")]
        stopped = [line["process"] for line in lines if line["message"] == "stopped cleanly"]
        assert stopped == ["process-1", "process-0"]
        assert first.stop(signal.SIGTERM) == 0, first.errors


def shared(registry, rack, first_id):
    """The options of a machine whose processes share a registry with another machine's."""
    return options({"zookeeper.connect": registry.value("connect"), "broker.rack": rack, "broker.id": first_id})


def test_a_process_that_cannot_start_ends_all(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with processes(tmp_path, "--set", f"listeners=PLAINTEXT://127.0.0.1:{port}") as running:
            assert running.ended() == 1
    last = running.errors.splitlines()[-1]
    found = re.match(r"ottla: process-(\d) ended with 1: cannot listen on PLAINTEXT://127\.0\.0\.1:(\d+)", last)
    assert found, running.errors
    assert int(found[2]) == port + int(found[1])  # the next port may be taken, too
