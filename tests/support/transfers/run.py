"""One seeded run: its topics, clients, readers and faults, and its history."""

from __future__ import annotations

import dataclasses
import random
import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka.admin import AdminClient, NewTopic

from support.deadlines import DEADLINE_S
from support.transfers.client import FAST, STOP, Client, Plan
from support.transfers.client_process import LIBRDKAFKA_ENDS, ClientProcess
from support.transfers.feeder import Feeder, PlainFeeder
from support.transfers.history import History, Partition
from support.transfers.journal import read_journals
from support.transfers.nemesis import Nemesis
from support.transfers.reading import AnyReader, ReaderThread, committed_offsets, rest_of
from support.transfers.transferer import Transferer

BROKER = {
    "auto.create.topics.enable": "false",
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.num.partitions": "3",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "50",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "500",
}


@dataclass(frozen=True)
class Scene:
    """Where a run takes place, and what may happen there."""

    servers: str
    nemesis: Callable[..., Nemesis]
    """Makes one from its last four arguments."""
    strikes: Sequence[int] = (0, 1, 2, 3)
    """How many faults there may be."""
    replicas: int = 1
    topic_configs: Mapping[str, str] = field(default_factory=dict)
    protocols: Sequence[str] = ("classic",)
    """The protocols of groups (`group.protocol`)."""


class Run:
    """All random choices come from the seed. `directory` is its own; journals stay there."""

    def __init__(self, seed: int, scene: Scene, directory: Path) -> None:
        self.seed = seed
        self.directory = directory
        self.done: list[str] = []
        self.partitions: list[Partition] = []
        self._rng = random.Random(seed)
        self._scene = scene
        self._servers = scene.servers
        self._name = directory.name
        self._admin = AdminClient({"bootstrap.servers": self._servers, **FAST})
        self._clients: list[ClientProcess] = []
        self._counts: dict[str, int] = {}
        self._looked_at: dict[Path, int] = {}
        """How much of each journal is in `_committed`: the number of committed transactions."""
        self._committed = 0
        self._groups: dict[str, list[Partition]] = {}
        directory.mkdir()

    def history(self) -> History:
        """Run it, and return the history."""
        topics = self._create_topics()
        partitions = self.partitions = [partition for part in topics.values() for partition in part]
        readers = self._readers(partitions)
        try:
            self._start_clients(topics)
            self._strike()
            self._stop_clients()
            rest = rest_of(self._admin, self._servers, partitions)
            for reader in readers:
                reader.finish({partition: one.end for partition, one in rest.items()})
        finally:
            for client in self._clients:
                client.resume()
                client.kill()
            for reader in readers:
                reader.stop()
        history = read_journals(sorted(self.directory.glob("*.jsonl")))
        history.rest = rest
        for group, sources in self._groups.items():
            history.offsets |= committed_offsets(self._servers, group, sources)
        return history

    def _create_topics(self) -> dict[str, list[Partition]]:
        """Records go from `in` to `middle` and from there to `out`."""
        rng = self._rng
        topics = {f"{self._name}-{part}": rng.randint(1, 3) for part in ("in", "middle", "out")}
        configs = [{"segment.bytes": str(rng.choice((8_000, 20_000, 1_000_000)))} for _ in topics]
        new = [
            NewTopic(name, number, self._scene.replicas, config={**config, **self._scene.topic_configs})
            for (name, number), config in zip(topics.items(), configs, strict=True)
        ]
        for created in self._admin.create_topics(new).values():
            created.result(DEADLINE_S)
        return {name: [(name, number) for number in range(count)] for name, count in topics.items()}

    def _readers(self, partitions: list[Partition]) -> list[AnyReader]:
        wanders = random.Random(f"{self.seed} wanders")
        there = (self._servers, self.directory, partitions)
        return [
            ReaderThread("committed", *there, committed=True),
            ReaderThread("uncommitted", *there, committed=False),
            ReaderThread("wanderer", *there, committed=wanders.random() < 0.8, wanders=wanders),
        ]

    # -- clients -----------------------------------------------------------------------------------------------------

    def _start_clients(self, topics: dict[str, list[Partition]]) -> None:
        rng = self._rng
        first, middle, out = topics.values()
        for number in range(rng.randint(1, 2)):
            self._start(Feeder, self._plan(f"feeder{number}", [*first, *(out if number else [])]))
        if rng.random() < 0.5:
            self._start(PlainFeeder, self._plan("plain", [*first, *middle]))
        self._start_group("near", first, [*middle, *out])
        self._start_group("far", middle, out)

    def _start_group(self, name: str, sources: list[Partition], targets: list[Partition]) -> None:
        """Either one member with all partitions, or several members that share them."""
        subscribes = self._rng.random() < 0.5
        group = f"{self._name}-{name}"
        self._groups[group] = sources
        protocol = self._rng.choice(self._scene.protocols)
        for number in range(self._rng.randint(1, 2) if subscribes else 1):
            plan = self._plan(f"{name}{number}", targets)
            self._start(
                Transferer,
                dataclasses.replace(
                    plan, sources=tuple(sources), group=group, subscribes=subscribes, protocol=protocol
                ),
            )

    def _plan(self, name: str, targets: list[Partition]) -> Plan:
        rng = self._rng
        return Plan(
            name=name,
            seed=str(self.seed),
            servers=self._servers,
            directory=self.directory,
            transactional_id=f"{self._name}-{name}",
            timeout_ms=rng.choice((1000, 1000, 3000)),
            targets=tuple(targets),
            abort_chance=rng.choice((0.0, 0.2, 0.5)),
            usurps_chance=rng.choice((0.0, 0.0, 0.1)),
            compression=rng.choice(("none", "none", "lz4", "zstd")),
        )

    def _start(self, kind: type[Client], plan: Plan) -> ClientProcess:
        number = self._counts[plan.name] = self._counts.get(plan.name, 0) + 1
        process = ClientProcess(kind, dataclasses.replace(plan, name=f"{plan.name}.{number}"))
        self._clients.append(process)
        return process

    def _restart(self, old: ClientProcess) -> ClientProcess:
        return self._start(old.kind, dataclasses.replace(old.plan, name=old.plan.name.rpartition(".")[0]))

    # -- what happens ------------------------------------------------------------------------------------------------

    def _strike(self) -> None:
        chance = random.Random(f"{self.seed} nemesis")
        nemesis = self._scene.nemesis(chance, self._clients, self._restart, self._transactions)
        self.done = nemesis.done
        nemesis.strike(self._rng.choice(self._scene.strikes))

    def _transactions(self) -> int:
        """The number of committed transactions so far."""
        for path in self.directory.glob("*.jsonl"):
            with path.open("rb") as file:
                file.seek(self._looked_at.get(path, 0))
                lines = file.read()
            whole = lines.rfind(b"\n") + 1
            self._looked_at[path] = self._looked_at.get(path, 0) + whole
            self._committed += lines.count(b'"committed"]', 0, whole)
        return self._committed

    def _stop_clients(self) -> None:
        (self.directory / STOP).touch()
        for client in self._clients:
            client.resume()
            code = client.join()
            assert code in (0, -signal.SIGKILL, *LIBRDKAFKA_ENDS), (
                f"{client.plan.name} ended with {code}: {self._output(client)}"
            )

    def _output(self, client: ClientProcess) -> str:
        path = self.directory / f"{client.plan.name}.out"
        return path.read_text() if path.exists() else ""
