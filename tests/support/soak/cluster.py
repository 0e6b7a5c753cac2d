"""The cluster of a long run: three broker processes with a control API for faults, on three ZooKeepers of its own.

How they reach each other, and what goes wrong there, is in `support.soak.hosts` and `support.soak.proxies`.
"""

from __future__ import annotations

import asyncio
import contextlib
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import psutil
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from ottla import Admin, TopicPartition
from ottla.errors import KafkaError
from ottla.zookeeper.server import ZooKeeperEnsemble
from support.deadlines import DEADLINE_S
from support.polling import until_blocking
from support.process_cluster import ProcessCluster, RefusedError
from support.transfers.client import FAST
from support.transfers.history import Partition
from support.transfers.nemesis import Nemesis
from support.transfers.run import BROKER

BROKERS = (1, 2, 3)
SETTINGS = {
    **BROKER,
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "zookeeper.session.timeout.ms": "4000",
    "replica.lag.time.max.ms": "3000",
    "replica.socket.timeout.ms": "3000",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": "2000",
    "group.consumer.min.heartbeat.interval.ms": "200",
    "group.consumer.heartbeat.interval.ms": "400",
}
PATIENCE_S = 5 * DEADLINE_S


class SoakCluster(ProcessCluster, ABC):
    """Use it in a `with` statement. Afterwards `brokers.log` in its directory has the brokers' warnings and errors."""

    def __init__(self, directory: Path, ensemble: ZooKeeperEnsemble, paths: Sequence[Path] = ()) -> None:
        """ensemble: not started. paths: where the brokers' Python looks for modules, besides Ottla's."""
        self.directory = directory
        self.ensemble = ensemble
        asyncio.run(self._start_ensemble())
        self.connect = f"{ensemble.connect}/soak"
        settings = [word for pair in SETTINGS.items() for word in ("--set", "=".join(pair))]
        where = ("--zookeeper", self.connect, "--data-dir", directory / "brokers")
        super().__init__(*where, "--quiet", "--console", *settings, paths=paths)

    async def _start_ensemble(self) -> None:
        await self.ensemble.start()
        await self.ensemble.wait()

    def __enter__(self) -> SoakCluster:
        super().__enter__()
        try:
            self.move_brokers()
        except BaseException:
            self.__exit__()
            raise
        self.bootstrap_servers = ",".join(map(self.address, BROKERS))
        self.admin = AdminClient({"bootstrap.servers": self.bootstrap_servers, **FAST})
        return self

    def __exit__(self, *_: object) -> None:
        try:
            super().__exit__()
        finally:
            (self.directory / "brokers.log").write_text(self.command.text + self.command.errors)
            self.ensemble.close()

    def move_brokers(self) -> None:
        """Restart all brokers with their own settings."""
        for broker_id in BROKERS:
            with self.properties(broker_id).open("a") as file:  # the last value of a setting counts
                file.writelines(f"{name}={value}\n" for name, value in self.settings_of(broker_id).items())
            self.inject("restart", broker=broker_id)

    @abstractmethod
    def settings_of(self, broker_id: int) -> Mapping[str, str]:
        """How a broker reaches others, and they it."""

    @abstractmethod
    def nemesis(self, partitions: Callable[[], Sequence[Partition]], *parts: Any) -> Nemesis:
        """The faults of one round. partitions: those of the round. parts: see Nemesis."""

    @abstractmethod
    def heal_links(self) -> None:
        """End all faults of links that the control API does not know."""

    def properties(self, broker_id: int) -> Path:
        """The file with the settings of a broker."""
        return self.directory / "brokers" / f"broker-{broker_id}.properties"

    def log_dir(self, broker_id: int) -> Path:
        """The log directory of a broker."""
        return self.directory / "brokers" / f"broker-{broker_id}"

    def processes(self) -> dict[int, psutil.Process]:
        """The processes of the brokers that run, by broker id."""
        found = {}
        for process in psutil.Process(self.command.process.pid).children(recursive=True):
            words = " ".join(process.cmdline())
            for broker_id in BROKERS:
                if f"broker-{broker_id}.properties" in words:
                    found[broker_id] = process
        return found

    def consoles(self) -> dict[int, str]:
        """The addresses of the brokers' consoles, by broker id."""
        found = {}
        for broker_id in BROKERS:
            text = self.properties(broker_id).read_text()
            found[broker_id] = text.rpartition("ottla.console.listener=")[2].partition("\n")[0].replace("\\:", ":")
        return found

    # -- after faults ------------------------------------------------------------------------------------------------

    def heal(self) -> None:
        """End all faults, let everything run again, and wait until all replicas are in sync."""
        self.heal_links()
        for server in self.ensemble.servers:
            if server.is_running:
                server.resume()
            else:
                server.start()
        asyncio.run(self.ensemble.wait())
        self.ask("DELETE", "/faults")
        until_blocking(lambda: self._still_broken() == [], "every replica is in sync", PATIENCE_S)

    def _still_broken(self) -> list[str]:
        for broker_id, state in self.states().items():
            if state == "stopped":
                self.try_inject("start", broker=broker_id)
        return self.out_of_sync()

    def out_of_sync(self) -> list[str]:
        """What is not as it should be: every broker runs, every partition has a leader and all its replicas in sync."""
        try:
            if (present := self.present()) != set(BROKERS):
                return [f"only {present} are there; states: {self.states()}"]
            topics = self.admin.list_topics(timeout=DEADLINE_S).topics
        except KafkaException as error:
            return [str(error)]
        return [
            f"{name}-{number}: leader {one.leader}, replicas {one.replicas}, in sync {one.isrs}"
            for name, topic in topics.items()
            for number, one in topic.partitions.items()
            if not (one.leader in BROKERS and set(one.isrs) == set(one.replicas))
        ]

    def try_inject(self, verb: str, **options: Any) -> Any:
        """Inject a fault; None if the cluster is not in a state for it: a broker that does not run, …."""
        try:
            return self.inject(verb, **options)
        except RefusedError:
            return None

    def end(self, told: Any) -> None:
        """Heal a fault, unless it is over."""
        if told is not None:
            try:
                self.ask("DELETE", f"/faults/{told['id']}")
            except RefusedError:
                return

    # -- replicas ----------------------------------------------------------------------------------------------------

    def reassign(self, targets: Mapping[Partition, Sequence[int]]) -> None:
        """Move partitions to these replicas; nothing happens if the controller is away."""
        moves = {TopicPartition(*one): replicas for one, replicas in targets.items()}
        self._try(lambda admin: admin.alter_partition_reassignments(moves))

    def elect_preferred_leaders(self, partitions: Iterable[Partition]) -> None:
        """Let the preferred replicas lead that are in sync; nothing happens if the controller is away."""
        chosen = [TopicPartition(*one) for one in partitions]
        self._try(lambda admin: admin.elect_leaders(chosen))

    def _try(self, action: Callable[[Admin], Awaitable[object]]) -> None:
        async def act() -> None:
            async with Admin(bootstrap_servers=self.bootstrap_servers) as admin:
                await action(admin)

        with contextlib.suppress(KafkaError, OSError):
            asyncio.run(act())

    def restore(self, targets: Mapping[Partition, Sequence[int]]) -> None:
        """Heal everything, and move partitions until they have these replicas, all in sync."""
        self.heal()

        def is_restored() -> bool:
            self.reassign(targets)
            if self.out_of_sync():
                return False
            return all(self._replicas(one) == list(wanted) for one, wanted in targets.items())

        until_blocking(is_restored, f"the replicas are {dict(targets)}", PATIENCE_S)

    def _replicas(self, partition: Partition) -> list[int]:
        topic, number = partition
        return list(self.admin.list_topics(topic, DEADLINE_S).topics[topic].partitions[number].replicas)

    def check_replicas(self, partitions: list[Partition]) -> None:
        """Wait until all replicas of these partitions are equal, byte by byte."""
        for topic, number in partitions:
            until_blocking(
                lambda where=f"{topic}-{number}": len({self._content(one, where) for one in BROKERS}) == 1,
                f"the replicas of {topic}-{number} are equal",
            )

    def _content(self, broker_id: int, partition: str) -> bytes:
        return b"".join(path.read_bytes() for path in sorted((self.log_dir(broker_id) / partition).glob("*.log")))
