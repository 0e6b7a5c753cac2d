"""A whole cluster on this machine: ZooKeeper (one node or three) and brokers, each a process of its own.

    data_dir/zookeeper/              see `zookeeper_server`
    data_dir/broker-<id>.properties  what `ottla broker` runs on: who kills a broker starts it again with this file
    data_dir/broker-<id>/            its log directory

Brokers are 1, 2, 3, …; the ports follow each other, or are any that are free. It starts ZooKeeper, then all brokers at
once; it stops the brokers one after the other, the last first, so that each hands over what it leads to those that are
left, then ZooKeeper. A process that ends by itself is told, and the rest goes on.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from broker.settings.properties import format_properties
from ottla.cluster.broker_child import BrokerChild
from ottla.cluster.ports import HOST
from ottla.cluster.process_output import ProcessOutput
from ottla.command_line.failure import CommandError
from ottla.zookeeper.server import ZooKeeperEnsemble, require_free

STOP_TIMEOUT_S = 120.0  # of one broker; without ZooKeeper it asks for a successor for some 100 s
_LOOK_S = 0.25  # how soon the end of a ZooKeeper is noticed
OWN_SETTINGS = (
    *("broker.id", "node.id", "listeners", "advertised.listeners", "log.dir", "log.dirs"),
    *("zookeeper.connect", "ottla.console.listener"),
)
"""What differs between the brokers, or is what holds them together."""


class LocalCluster:
    """ZooKeeper and brokers, from `start` to `stop`."""

    def __init__(
        self,
        data_dir: Path | None,
        *,
        brokers: int = 3,
        zookeeper_nodes: int = 1,
        port: int = 9092,
        zookeeper_port: int = 2181,
        console_port: int | None = 8080,
        settings: Mapping[str, str] | None = None,
        quiet: bool = False,
    ) -> None:
        """Without a directory the data is temporary. Ports are the first broker's, 0 for any that are free.

        `console_port` None is no console; `settings` go to every broker. Raises CommandError for settings that are
        the cluster's own.
        """
        for name in settings or {}:
            if name in OWN_SETTINGS:
                raise CommandError(f"--set {name}: each broker of the cluster has its own")
        self._is_temporary = data_dir is None
        self.data_dir = Path(tempfile.mkdtemp(prefix="ottla-cluster-")) if data_dir is None else data_dir.resolve()
        self.zookeeper = ZooKeeperEnsemble(self.data_dir / "zookeeper", nodes=zookeeper_nodes, port=zookeeper_port)
        names = [f"broker-{number}" for number in range(1, brokers + 1)]
        zookeepers = [f"zookeeper-{number}" for number in range(1, zookeeper_nodes + 1)]
        self.output = ProcessOutput([*names, *zookeepers], quiet=quiet)
        self.brokers = [
            BrokerChild(name, self.data_dir / f"{name}.properties", partial(self.output.said, name)) for name in names
        ]
        self.lost: list[str] = []  # processes that have ended by themselves, or had to be killed
        self._port = port
        self._console_port = console_port
        self._settings = dict(settings or {})
        self._stopping = False

    @property
    def bootstrap_servers(self) -> str:
        """Where clients connect to: host:port of every broker, once they are ready."""
        return ",".join(broker.facts["listening"].partition("://")[2] for broker in self.brokers)

    async def start(self) -> None:
        """Start everything and wait until clients are served. Raises CommandError with the reason; `stop` follows."""
        for _, listener, console in self._addresses():
            for port in filter(None, (listener, console)):
                require_free(port)
        await self.zookeeper.start()
        for broker, listener, console in self._addresses():
            console_address = "" if console is None else f"{HOST}:{console}"
            self._write_properties(broker, f"PLAINTEXT://{HOST}:{listener}", console_address)
        await asyncio.gather(*(broker.start() for broker in self.brokers))
        for broker in self.brokers:
            if not await broker.wait_ready():
                reason = broker.last_line.removeprefix("ottla: ")
                raise CommandError(f"{broker.name} ended {broker.end}: {reason}")
        for broker in self.brokers:
            # Where the system chose the ports, a broker that is started again keeps them.
            console_url = broker.facts.get("console", "")
            self._write_properties(broker, broker.facts["listening"], console_url.removeprefix("http://").rstrip("/"))

    async def watch(self) -> None:
        """Tell of every process that ends by itself. Returns when nothing is left."""
        await asyncio.gather(*(self._watch_broker(broker) for broker in self.brokers), self._watch_zookeeper())

    async def stop(self) -> None:
        """Stop the brokers, then ZooKeeper; temporary data goes. Idempotent."""
        self._stopping = True
        if any(server.is_running for server in self.zookeeper.servers):
            for broker in reversed(self.brokers):
                await self._stop_broker(broker)
        else:  # nobody can take over what they lead, and each asks for it until it gives up
            await asyncio.gather(*map(self._stop_broker, self.brokers))
        self.zookeeper.close()
        if self._is_temporary:
            shutil.rmtree(self.data_dir, ignore_errors=True)

    def kill(self) -> None:
        """End the brokers at once, whatever they are doing; `stop`, which waits for them, goes on."""
        for broker in self.brokers:
            broker.kill()

    async def _stop_broker(self, broker: BrokerChild) -> None:
        if not await broker.stop(STOP_TIMEOUT_S):
            self._note(broker.name, f"did not stop within {STOP_TIMEOUT_S:.0f} s and was killed")

    def _addresses(self) -> list[tuple[BrokerChild, int, int | None]]:
        """Every broker with its port and that of its console; 0 where the system chooses."""

        def nth(first: int, index: int) -> int:
            return first + index if first else 0

        console = self._console_port
        return [
            (broker, nth(self._port, index), None if console is None else nth(console, index))
            for index, broker in enumerate(self.brokers)
        ]

    def _write_properties(self, broker: BrokerChild, listener: str, console: str) -> None:
        replicas = min(len(self.brokers), 3)
        settings = {
            "broker.id": broker.name.removeprefix("broker-"),
            "listeners": listener,
            "log.dirs": str(self.data_dir / broker.name),
            "zookeeper.connect": self.zookeeper.connect,
            "ottla.console.listener": console,
            "default.replication.factor": str(replicas),
            "offsets.topic.replication.factor": str(replicas),
            "transaction.state.log.replication.factor": str(replicas),
            "transaction.state.log.min.isr": str(min(replicas, 2)),
            # Whoever stops after the controller soon asks the next one, on one machine as fast as it is.
            "controlled.shutdown.retry.backoff.ms": "500",
        }
        broker.properties.write_text(format_properties(settings | self._settings), encoding="utf-8")

    async def _watch_broker(self, broker: BrokerChild) -> None:
        await broker.wait()
        if not self._stopping:
            self._note(broker.name, f"has ended {broker.end}; the others go on")

    async def _watch_zookeeper(self) -> None:
        running = dict(enumerate(self.zookeeper.servers, 1))
        while running:
            for number, server in list(running.items()):
                if not server.is_running:
                    del running[number]
                    if self._stopping:
                        return
                    self._note(f"zookeeper-{number}", f"has ended: {server.last_words()}")
            await asyncio.sleep(_LOOK_S)

    def _note(self, name: str, what: str) -> None:
        self.lost.append(name)
        self.output.tell(name, what)
