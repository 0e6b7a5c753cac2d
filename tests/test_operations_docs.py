"""docs/operations.md: its commands do what the page says, in the situations that it describes; its metrics exist."""

from __future__ import annotations

import asyncio
import contextlib
import re
import urllib.request
from pathlib import Path

import pytest
from confluent_kafka import Producer

from ottla.cluster.ports import free_ports
from ottla.zookeeper.server import ZooKeeperEnsemble
from support.broker import ROOT, BrokerProcess
from support.deadlines import DEADLINE_S
from support.doc_scripts import console_examples, dead_links
from support.fork_server import ForkedProcess
from support.operations import PAGE, Operator, section
from support.polling import until_blocking
from support.small_disk import run_on_small_disk

DATA = "/var/lib/ottla/data"
CONSOLE = "http://127.0.0.1:8080"
QUICK = {
    "log.segment.delete.delay.ms": "100",
    "log.retention.check.interval.ms": "300",
    "log.initial.task.delay.ms": "0",
}
ONE_BROKER = ["Back up and restore", "The disk is full"]
CLUSTER = [
    "Upgrade and downgrade",
    "Monitoring",
    "A log directory is lost",
    "ZooKeeper does not answer",
    "A partition has no leader",
    "A broker is away",
]


def one_broker(data, folder, monkeypatch, **overrides):
    port, console = free_ports(2)
    settings = QUICK | {"ottla.console.listener": f"127.0.0.1:{console}"}
    broker = BrokerProcess(data, settings | overrides, port=port)
    monkeypatch.setenv("OTTLA_BOOTSTRAP_SERVER", broker.bootstrap)
    folder.mkdir(exist_ok=True)
    return broker, Operator({0: broker}, folder, {DATA: str(data), CONSOLE: f"http://127.0.0.1:{console}"})


def test_back_up_and_restore(tmp_path, monkeypatch):
    broker, operator = one_broker(tmp_path / "data", tmp_path / "work", monkeypatch)
    with broker:
        operator.run("```console\n$ echo 'first order' | ottla produce orders --quiet\n```")
        text = section("Back up and restore")
        operator.run(text)
        assert (tmp_path / "work" / "damaged").is_dir()


def test_the_disk_is_full(tmp_path):
    run_on_small_disk("test_operations_docs", "on_a_full_disk", tmp_path / "disk", 8 << 20)


def on_a_full_disk(disk: Path) -> None:
    """In a process that has mounts of its own."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        broker, operator = one_broker(disk / "data", disk.parent / "work", monkeypatch)
        with broker:
            fill = f"yes {'x' * 1000} | head -c 3000000 | ottla produce load --quiet"
            for line in ("ottla topics create orders", "ottla topics create load", fill):
                operator.run(f"```console\n$ {line}\n```")
            with contextlib.suppress(OSError), (disk / "ballast").open("ab") as ballast:
                while ballast.write(bytes(4096)):
                    ballast.flush()
            waiting = ForkedProcess(produce_one, broker.bootstrap)
            operator.run(section("The disk is full"))
            assert waiting.wait(DEADLINE_S) == 0  # its record is written when there is space


def produce_one(bootstrap: str) -> int:
    producer = Producer({"bootstrap.servers": bootstrap})
    producer.produce("orders", b"x" * 100_000)
    return producer.flush(DEADLINE_S)


@pytest.fixture(scope="module")
def zookeeper():
    ensemble = ZooKeeperEnsemble(sync=False)
    asyncio.run(ensemble.start())
    yield ensemble
    for server in ensemble.servers:
        server.resume()
    ensemble.close()


@pytest.fixture
def cluster(tmp_path, zookeeper, monkeypatch):
    """Brokers 1, 2 and 3, each with two log directories."""
    ports = free_ports(3)
    monkeypatch.setenv("OTTLA_BOOTSTRAP_SERVER", ",".join(f"127.0.0.1:{port}" for port in ports))
    overrides = {
        "zookeeper.connect": f"{zookeeper.connect}/operations",
        "controlled.shutdown.retry.backoff.ms": "100",
        "replica.high.watermark.checkpoint.interval.ms": "300",
        "replica.lag.time.max.ms": "3000",
        "default.replication.factor": "2",
    }
    brokers = {}
    with contextlib.ExitStack() as stack:
        for broker_id, port in enumerate(ports, 1):
            own = tmp_path / f"broker-{broker_id}"
            dirs = {"log.dirs": f"{own}/disk-1,{own}/disk-2", "broker.id": str(broker_id)}
            brokers[broker_id] = BrokerProcess(own, overrides | dirs, port=port).launch()
            stack.enter_context(brokers[broker_id])
        for broker in brokers.values():
            broker.wait_ready()
        yield Operator(brokers, tmp_path, {})


@pytest.mark.timeout(600)
def test_a_cluster(cluster, zookeeper, tmp_path):
    brokers = cluster.brokers

    def command(line):
        cluster.run(f"```console\n$ {line}\n```")

    def isr(topic, wanted):
        until_blocking(lambda: f" {wanted} " in cluster._ottla(["topics", "describe", topic]), f"{wanted} are in sync")

    command("ottla topics create orders --replica-assignment 1:2,2:3,3:1,2:1")
    command("seq 100 | ottla produce orders --acks all --quiet")
    cluster.run(section("Upgrade and downgrade"))
    cluster.run(section("Monitoring"))

    lost = tmp_path / "broker-2" / "disk-2"
    lost.rename(lost.with_name("gone"))
    lost.touch()
    until_blocking(lambda: "disk-2" in brokers[2].log_text() and "offline" in brokers[2].log_text(), "it is noticed")

    def mounted():
        lost.unlink()
        lost.mkdir()

    cluster.on_service["/var/lib/ottla/disk-2"] = mounted
    cluster.run(section("A log directory is lost"))

    zookeeper.servers[0].pause()
    cluster.on_service["zookeeper"] = zookeeper.servers[0].resume
    cluster.run(section("ZooKeeper does not answer"))

    command("ottla topics create letters --replica-assignment 3:2 --config min.insync.replicas=1")
    for text in re.split(r"(?=^The broker cannot come back)", section("A partition has no leader"), flags=re.MULTILINE):
        brokers[2].stop()
        isr("letters", "3")
        brokers[3].stop()
        brokers[2].start()
        until_blocking(lambda: "letters" in cluster._ottla(["topics", "describe", "--unavailable"]), "nobody leads")
        cluster.run(text)
    cluster.run(section("A broker is away"))


def test_every_command_is_run():
    with_commands = [heading for heading in re.findall(r"^## (.*)$", PAGE.read_text(), re.M) if examples_of(heading)]
    assert sorted(with_commands) == sorted(ONE_BROKER + CLUSTER)


def examples_of(heading):
    return console_examples(section(heading))


def test_the_metrics_exist(tmp_path):
    (console,) = free_ports(1)
    with BrokerProcess(tmp_path / "data", {"ottla.console.listener": f"127.0.0.1:{console}"}) as broker:
        assert broker.pid
        with urllib.request.urlopen(f"http://127.0.0.1:{console}/metrics") as answer:
            served = set(re.findall(r"^# TYPE (\w+)", answer.read().decode(), flags=re.MULTILINE))
    named = set(re.findall(r"`((?:ottla|process)_\w+)`", PAGE.read_text()))
    assert len(named) > 10
    assert named <= served


def test_its_measured_figures_are_those_of_the_benchmarks():
    text = (ROOT / "benchmarks" / "README.md").read_text()
    for row in (
        "| produce 1024 B, 8 partitions, none: ottla | 0.806 | 957 |",
        "| consume 1024 B, 8 partitions, none: ottla | 0.665 | 762 |",
        "| ottla | 27.4 | 36534 |",
        "| ottla | 0.20 | 0.21 | 32 |",
        "| 1,000 B a value, map of 4 MB | 1.00 | 193 |",
    ):
        assert row in text, "docs/operations.md has this figure, too"


def test_its_links_have_targets():
    assert dead_links(PAGE) == []


def test_the_unit_has_the_paths_of_the_page():
    text = PAGE.read_text()
    unit = (ROOT / "docs" / "deploy" / "ottla.service").read_text()
    for path in ("/opt/ottla", "/etc/ottla/server.properties", "/etc/ottla/environment", "/var/lib/ottla"):
        assert path in text
        assert path in unit
