"""Benchmarks of clusters: `python -m benchmarks.cluster [--quick]`; part of `make bench`.

Three brokers and a ZooKeeper on this machine: produce to one replica and to three, an empty follower that catches up,
how long nobody acknowledges after a leader was killed, 2,000 partitions, and the failover of 4,000 leaders. The table
names medians of the rounds.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from benchmarks import cases, cluster_report
from benchmarks.cases import Case, Figures
from benchmarks.run import Load
from benchmarks.server import ROOT, TICKS_PER_SECOND, Floor, Ottla, Server
from ottla.zookeeper.server import ZooKeeperEnsemble

BROKERS = (1, 2, 3)
RATES = (250, 1000)
SESSION_TIMEOUT_MS = 6_000
PATIENCE_S = 300.0

SIZES = {  # full, quick
    "bytes": (500_000_000, 20_000_000),
    "messages": (5_000, 500),
    "partitions": (2_000, 100),
    "leaders": (4_000, 100),
    "idle_s": (10, 1),
}


class Member(Ottla):
    """One broker of a cluster."""

    name = "member"

    def __init__(self, broker_id: int, zookeeper: str, base: Path) -> None:
        super().__init__(base)
        self.id = broker_id
        self._zookeeper = zookeeper

    def command(self) -> list[str]:
        settings = {
            "broker.id": str(self.id),
            "zookeeper.connect": self._zookeeper,
            "zookeeper.session.timeout.ms": str(SESSION_TIMEOUT_MS),
            "auto.leader.rebalance.enable": "false",
        }
        return [*super().command(), *(part for pair in settings.items() for part in ("--set", "=".join(pair)))]

    def kill(self) -> None:
        """End the process as a crash does."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()


class Cluster(Server):
    """ZooKeeper and brokers; costs are those of all brokers."""

    name = "cluster"

    def __init__(self, base: Path, brokers: Sequence[int] = BROKERS) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="bench-cluster-", dir=base))
        self._zookeeper = ZooKeeperEnsemble(sync=False)
        self._ids = brokers
        self.members: dict[int, Member] = {}

    def command(self) -> list[str]:
        """Nothing: the processes are those of the members and of the ZooKeeper."""
        return []

    def create_topic(self, topic: str, partitions: int) -> None:
        """A topic whose partitions have one replica each."""
        ids = list(self.members)
        self.create(topic, {number: [ids[number % len(ids)]] for number in range(partitions)})

    def __enter__(self) -> Self:
        asyncio.run(self._zookeeper.start())
        self.members = {one: Member(one, self._zookeeper.connect, self.directory) for one in self._ids}
        self.bootstrap = ",".join(member.bootstrap for member in self.members.values())
        for member in self.members.values():
            member.start()
        wait_until(lambda: len(self.metadata().brokers) == len(self._ids), "all brokers are known")
        return self

    def __exit__(self, *_: object) -> None:
        for member in self.members.values():
            member.__exit__()
        self._zookeeper.close()
        shutil.rmtree(self.directory, ignore_errors=True)

    def cpu_seconds(self) -> float:
        return sum(member.cpu_seconds() for member in self.members.values())

    def rss_bytes(self, field: str = "VmRSS") -> int:
        return sum(member.rss_bytes(field) for member in self.members.values())

    @property
    def zookeeper(self) -> str:
        """The address of the ZooKeeper."""
        return self._zookeeper.connect

    def metadata(self) -> Any:
        """What librdkafka hears of the brokers and topics."""
        from confluent_kafka.admin import AdminClient

        return AdminClient({"bootstrap.servers": self.bootstrap}).list_topics(timeout=30)

    def create(self, topic: str, assignment: Mapping[int, Sequence[int]]) -> None:
        """Create a topic with these replicas, and wait until everybody leads."""
        from confluent_kafka.admin import AdminClient, NewTopic

        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        replicas = [list(assignment[number]) for number in sorted(assignment)]
        made = NewTopic(topic, len(replicas), replica_assignment=replicas, config={"min.insync.replicas": "1"})
        admin.create_topics([made], request_timeout=PATIENCE_S)[topic].result(PATIENCE_S)
        wait_until(lambda: self.is_led(topic, len(replicas)), f"{topic} is led")

    def is_led(self, topic: str, partitions: int, not_by: int = -1) -> bool:
        """Whether every partition has a leader, another one than the named."""
        found = self.metadata().topics.get(topic)  # None: the broker that answers has not heard of it yet
        if found is None or len(found.partitions) != partitions:
            return False
        return all(one.leader not in (-1, not_by) for one in found.partitions.values())

    def isr(self, topic: str) -> set[int]:
        """The in-sync replicas of partition 0."""
        return set(self.metadata().topics[topic].partitions[0].isrs)


class ReplicatedFloor(Floor):
    """benchmarks/floor_replication.py: a leader and two followers; costs are those of all three."""

    def __init__(self, base: Path) -> None:
        super().__init__(base)
        self._followers: list[subprocess.Popen[bytes]] = []

    def command(self) -> list[str]:
        module = [sys.executable, "-m", "benchmarks.floor_replication"]
        return [*module, "--port", str(self.port), "--directory", str(self.directory)]

    def start(self) -> None:
        super().start()
        for number in range(len(BROKERS) - 1):
            command = [*self.command(), "--follower", str(number)]
            self._followers.append(subprocess.Popen(command, cwd=ROOT))

    def stop(self) -> None:
        super().stop()
        for follower in self._followers:
            follower.kill()
            follower.wait()

    def cpu_seconds(self) -> float:
        ticks = 0
        for follower in self._followers:
            fields = Path(f"/proc/{follower.pid}/stat").read_text().rpartition(")")[2].split()
            ticks += sum(map(int, fields[11:13]))
        return super().cpu_seconds() + ticks / TICKS_PER_SECOND


def wait_until(condition: Callable[[], bool], what: str, *, pause_s: float = 0.01) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        if time.monotonic() > deadline:
            raise SystemExit(f"benchmarks: not in {PATIENCE_S} s: {what}")
        time.sleep(pause_s)


def replicated(base: Path, options: argparse.Namespace) -> Iterator[tuple[str, Figures]]:
    """Full speed and single messages with acks=all, to one replica and to three."""
    for replicas, _ in itertools.product((1, 3), range(options.rounds)):
        with Cluster(base) as cluster:
            case = {"topic": "t", "acks": "all", "size": 1024}
            cluster.create("t", {0: BROKERS[:replicas]})
            count = options.bytes // case["size"]
            yield f"produce {replicas}", Load(cluster, "produce", **case, count=count).run()
            yield f"latency {replicas}", Load(cluster, "latency", **case, count=options.messages).run()


def replicated_latency(base: Path, options: argparse.Namespace) -> Iterator[tuple[str, Figures]]:
    """Single messages to three replicas at two rates, beside the floor: what is ours, and what is the machine's."""
    for rate, _ in itertools.product(RATES, range(options.rounds)):
        case = {"topic": "t", "acks": "all", "size": 1024, "rate": rate, "count": options.messages}
        with ReplicatedFloor(base) as floor:
            yield f"floor at {rate}/s", Load(floor, "latency", **case).run()
        with Cluster(base) as cluster:
            cluster.create("t", {0: BROKERS})
            yield f"ottla at {rate}/s", Load(cluster, "latency", **case).run()


def catching_up(base: Path, options: argparse.Namespace) -> Iterator[tuple[str, Figures]]:
    """A follower has lost its disk; from its start until it is in sync. Its CPU is without the start of the process."""
    for _ in range(options.rounds):
        with Cluster(base) as cluster:
            cluster.create("t", {0: BROKERS})
            count = options.bytes // 1024
            Load(cluster, "produce", topic="t", acks="all", size=1024, count=count).run()
            follower = cluster.members[BROKERS[-1]]
            follower.stop()
            shutil.rmtree(follower.directory / "data")
            wait_until(lambda: BROKERS[-1] not in cluster.isr("t"), "it has left")
            leader = cluster.members[BROKERS[0]]
            before = leader.cpu_seconds()
            follower.start()
            began, started_cpu_s = time.monotonic(), follower.cpu_seconds()
            wait_until(lambda: BROKERS[-1] in cluster.isr("t"), "it is in sync")
            figures = {"seconds": time.monotonic() - began, "bytes": options.bytes}
            figures["leader_cpu_s"] = leader.cpu_seconds() - before
            figures["follower_cpu_s"] = follower.cpu_seconds() - started_cpu_s
            yield "catching up", figures


def killed_leader(base: Path, options: argparse.Namespace) -> Iterator[tuple[str, Figures]]:
    """A message every few milliseconds with acks=all; from SIGKILL to the next acknowledgement."""
    for _ in range(options.rounds):
        with Cluster(base) as cluster:
            cluster.create("t", {0: BROKERS})
            yield "killed leader", {"seconds": gap_s(cluster), "session_timeout_ms": SESSION_TIMEOUT_MS}


def gap_s(cluster: Cluster) -> float:
    """Kill the leader; how long nothing is acknowledged."""
    from confluent_kafka import Producer

    acknowledged: list[float] = []
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "linger.ms": 0, "acks": "all"})

    def told(error: object, _message: object) -> None:
        if error is None:
            acknowledged.append(time.monotonic())

    def produce_until(condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not condition():
            if time.monotonic() > deadline:
                raise SystemExit("benchmarks: nobody acknowledges any more")
            producer.produce("t", b"x" * 100, on_delivery=told)
            producer.poll(0.005)

    produce_until(lambda: len(acknowledged) > 100)
    cluster.members[BROKERS[0]].kill()
    killed = time.monotonic()
    producer.poll(0)  # what was answered before
    late = len(acknowledged)
    produce_until(lambda: len(acknowledged) > late)
    return acknowledged[late] - killed


def many_partitions(base: Path, options: argparse.Namespace) -> Iterator[tuple[str, Figures]]:
    """Two brokers with replicas of all; one is restarted, they idle, one partition is busy, the leader is killed."""
    for _ in range(options.rounds):
        with Cluster(base, BROKERS[:2]) as cluster:
            yield "many partitions", with_many_partitions(cluster, options.partitions, options.idle_s)


def with_many_partitions(cluster: Cluster, count: int, idle_s: float) -> Figures:
    """See `many_partitions`."""
    leader, follower = cluster.members.values()
    began = time.monotonic()
    cluster.create("t", dict.fromkeys(range(count), BROKERS[:2]))
    figures: Figures = {"partitions": count, "created_s": time.monotonic() - began}
    follower.stop()
    follower.start()
    wait_until(lambda: all_in_sync(cluster, count), "it is back")
    figures |= {"started_s": time.monotonic() - follower.started_at, "started_cpu_s": follower.cpu_seconds()}
    time.sleep(1)  # what was under way
    before = cluster.cpu_seconds()
    time.sleep(idle_s)
    figures |= {"idle_cpu_per_s": (cluster.cpu_seconds() - before) / idle_s / 2, "rss_bytes": leader.rss_bytes()}
    busy = Load(cluster, "latency", topic="t", acks="all", size=1024, rate=100, count=10 * int(idle_s)).run()
    figures |= {"busy_p50_ms": busy["p50_ms"], "busy_cpu_s": busy["cpu_s"] / busy["records"]}
    before = follower.cpu_seconds()
    leader.kill()
    killed = time.monotonic()
    wait_until(lambda: cluster.is_led("t", count, not_by=leader.id), "the other leads")
    figures |= {"failover_s": time.monotonic() - killed, "failover_cpu_s": follower.cpu_seconds() - before}
    return figures | {"session_timeout_ms": SESSION_TIMEOUT_MS}


def many_leaders(base: Path, options: argparse.Namespace) -> Iterator[tuple[str, Figures]]:
    """Three brokers, of which one leads all partitions and is killed: the controller, or another one."""
    for killed, _ in itertools.product(BROKERS[:2], range(options.rounds)):
        with Cluster(base) as cluster:
            assert cluster.metadata().controller_id == BROKERS[0]
            yield f"many leaders {killed}", with_many_leaders(cluster, killed, options.leaders)


def with_many_leaders(cluster: Cluster, killed: int, count: int) -> Figures:
    """See `many_leaders`. The time begins when the killed broker's registration is gone: its session has ended."""
    from kazoo.client import KazooClient

    others = [one for one in BROKERS if one != killed]
    replicas = {number: (killed, *(others if number % 2 else others[::-1])) for number in range(count)}
    cluster.create("t", replicas)
    time.sleep(2)  # what was under way
    before = cluster.cpu_seconds() - cluster.members[killed].cpu_seconds()
    zookeeper = KazooClient(cluster.zookeeper)
    zookeeper.start()
    try:
        leader = cluster.members.pop(killed)
        leader.kill()
        cluster.bootstrap = ",".join(member.bootstrap for member in cluster.members.values())
        wait_until(lambda: zookeeper.exists(f"/brokers/ids/{killed}") is None, "the session has ended")
        ended_s = time.monotonic()
        wait_until(lambda: cluster.is_led("t", count, not_by=killed), "the others lead", pause_s=0.05)
        figures: Figures = {"leaders": count, "seconds": time.monotonic() - ended_s}
        figures |= {"cpu_s": cluster.cpu_seconds() - before}
        leader.__exit__()
        return figures
    finally:
        zookeeper.stop()
        zookeeper.close()


def all_in_sync(cluster: Cluster, partitions: int) -> bool:
    """Whether both replicas of every partition are in sync."""
    found = cluster.metadata().topics["t"].partitions
    return len(found) == partitions and all(len(one.isrs) == 2 for one in found.values())


CASES: dict[str, Case] = {
    "replicated": replicated,
    "replicated-latency": replicated_latency,
    "catching-up": catching_up,
    "killed-leader": killed_leader,
    "many-partitions": many_partitions,
    "many-leaders": many_leaders,
}


if __name__ == "__main__":
    cases.run("cluster", __doc__, CASES, SIZES, cluster_report.table)
