"""A whole cluster on this machine: a registry and brokers, each in its own process.

The registry is `ottla registry`, or ZooKeeper (one node or three, or one that runs already).

    data_dir/registry/               see `ottla.cluster.local_registry`
    data_dir/zookeeper/              see `ottla.zookeeper.server`
    data_dir/zookeeper.connect       see `ottla.cluster.cluster_registry`
    data_dir/broker-<id>.properties  the settings of a broker: `ottla broker FILE` starts a killed broker again
    data_dir/broker-<id>/            its log directory

Broker ids are 1, 2, 3, …. The ports are consecutive, or any free ports. The cluster starts the registry, then all
brokers at once; while `ottla registry` starts, their connections wait for it. The cluster stops the brokers one at a
time, the last one first, so that each broker hands over its partitions to the remaining ones; then it stops the
registry. If a process ends unexpectedly, the cluster reports it and continues.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from broker.settings.properties import format_properties
from ottla.cluster.broker_child import BrokerChild, bootstrap_servers
from ottla.cluster.cluster_registry import choose_registry, note_external
from ottla.cluster.external_zookeeper import ExternalZooKeeper, delete_chroot
from ottla.cluster.leftovers import PREFIX, DirectoryLocks, leftovers
from ottla.cluster.ports import HOST, free_ports
from ottla.cluster.process_output import ProcessOutput
from ottla.cluster.readiness import wait_ready
from ottla.cluster.registry_servers import require_free
from ottla.command_line.failure import CommandError

if TYPE_CHECKING:
    from ottla.testing.processes.process_faults import ProcessFaults
    from ottla.testing.processes.process_member import ProcessMember

STOP_TIMEOUT_S = 120.0  # of one broker; without a registry a broker requests new leaders for some 100 s
_LOOK_S = 0.25  # how soon the end of a registry is noticed
OWN_SETTINGS = (
    *("broker.id", "node.id", "listeners", "advertised.listeners", "log.dir", "log.dirs"),
    *("zookeeper.connect", "ottla.console.listener"),
)
"""Settings that differ between the brokers, or that connect them to each other."""


class LocalCluster:
    """A registry and brokers, from `start` to `stop`."""

    def __init__(
        self,
        data_dir: Path | None,
        *,
        brokers: int = 3,
        zookeeper: str | None = None,
        zookeeper_nodes: int | None = None,
        port: int = 9092,
        zookeeper_port: int = 2181,
        console_port: int | None = 8080,
        settings: Mapping[str, str] | None = None,
        control_port: int | None = None,
        quiet: bool = False,
    ) -> None:
        """Create a cluster; without `data_dir` its data is temporary.

        `port` and `console_port` are those of the first broker, 0 for any free ports; `console_port` None disables the
        consoles. `settings` apply to every broker. `zookeeper`: the address of a ZooKeeper that runs already.
        `zookeeper_nodes`: how many ZooKeeper servers to start. Without both, the registry is `ottla registry`.
        `control_port`: of the control API, which injects faults; 0 for a free port, None for no control API.

        Raises CommandError for a setting in OWN_SETTINGS, and for data of another kind of registry.
        """
        for name in settings or {}:
            if name in OWN_SETTINGS:
                raise CommandError(f"--set {name}: each broker of the cluster has its own value")
        self._is_temporary = data_dir is None
        self._locks: DirectoryLocks | None = None
        self.data_dir = Path(tempfile.mkdtemp(prefix=PREFIX)) if data_dir is None else data_dir.resolve()
        try:
            self.registry, self.registry_kind, self.registry_names = choose_registry(
                self.data_dir,
                is_temporary=self._is_temporary,
                zookeeper=zookeeper,
                zookeeper_nodes=zookeeper_nodes,
                port=zookeeper_port,
            )
        except Exception:
            self._delete_temporary_data()
            raise
        names = [f"broker-{number}" for number in range(1, brokers + 1)]
        self.output = ProcessOutput([*names, *self.registry_names], quiet=quiet)
        self.faults: ProcessFaults | None = None
        self._control_port = control_port
        self.brokers: Sequence[BrokerChild]
        if control_port is None:
            self.brokers = [
                BrokerChild(name, [str(self.properties(name))], partial(self.output.said, name)) for name in names
            ]
        else:
            self.faults = self._new_faults(names)
            self.brokers = [member.child for member in self.faults.members]
        self.lost: list[str] = []  # processes that ended unexpectedly or had to be killed
        self._port = port
        self._console_port = console_port
        # With a control API, brokers come back on their ports: the system must not give them to a connection meanwhile.
        self._kept_ports = free_ports(brokers) if control_port is not None and not port else []
        self._settings = dict(settings or {})
        self._stopping = False

    def properties(self, name: str) -> Path:
        """Return the file with the settings of the broker of this name."""
        return self.data_dir / f"{name}.properties"

    def _new_faults(self, names: list[str]) -> ProcessFaults:
        # The brokers' code and aiohttp.web take 0.2 s, which a cluster without a control API saves.
        from ottla.testing.processes.process_faults import ProcessFaults

        ids = dict(enumerate(names, 1))
        faults = ProcessFaults(
            {number: self.properties(name) for number, name in ids.items()},
            {number: self.data_dir / name for number, name in ids.items()},
            self.output.said,
        )
        for member in faults.members:
            member.on_changed = self._changed
        return faults

    @property
    def control_url(self) -> str:
        """The address of the control API; empty without one."""
        return "" if self.faults is None else self.faults.control.url

    @property
    def bootstrap_servers(self) -> str:
        """The bootstrap servers for clients: host:port of every broker. The brokers must be ready."""
        return bootstrap_servers(self.brokers)

    async def start(self) -> None:
        """Start all processes and wait until the brokers serve clients.

        Raises CommandError with the reason if one fails; call `stop` then, too.
        """
        for _, listener, console in self._addresses():
            for port in filter(None, (listener, console)):
                require_free(port)
        await self._serve_control()
        self.data_dir.mkdir(parents=True, exist_ok=True)
        await self.registry.start()
        for broker, listener, console in self._addresses():
            console_address = "" if console is None else f"{HOST}:{console}"
            self._write_properties(broker, f"PLAINTEXT://{HOST}:{listener}", console_address)
        if isinstance(self.registry, ExternalZooKeeper):
            await self._prepare_external(self.registry)
        members = [] if self.faults is None else self.faults.members
        await asyncio.gather(*(one.launch() for one in members) if members else (one.start() for one in self.brokers))
        await wait_ready(self.brokers, self._registry_ended())
        for member in members:
            member.launched()
        for broker in self.brokers:
            # If the system chose the ports, a restarted broker uses the same ports.
            console_url = broker.facts.get("console", "")
            self._write_properties(broker, broker.facts["listening"], console_url.removeprefix("http://").rstrip("/"))

    async def _prepare_external(self, registry: ExternalZooKeeper) -> None:
        if self._is_temporary:
            self._locks = DirectoryLocks.take(self.data_dir)
            for broker in self.brokers:
                broker.inherited = [self._locks.processes.fileno()]
            note_external(self.data_dir, registry)  # before the chroot exists: a later start may have to delete it
            await self._delete_leftovers(registry.hosts)
        await registry.prepare(self._any_properties, [self.data_dir / one.name for one in self.brokers])
        note_external(self.data_dir, registry)

    async def _delete_leftovers(self, hosts: str) -> None:
        """Delete what clusters on these servers have left behind whose commands were killed."""
        for found in leftovers():
            with contextlib.closing(found):
                if not found.connect.startswith(f"{hosts}/"):  # perhaps they do not run any more
                    continue
                if found.lock is None:
                    text = f"the command of another cluster was killed, and brokers of it still run: {found.data_dir}"
                else:
                    failure = await delete_chroot(found.connect, found.data_dir / self._any_properties.name)
                    if failure is None:
                        found.delete_data()
                    text = failure or f"{found.connect} is deleted: the command of its cluster was killed"
                self.output.tell(self.registry_kind, text)

    async def _serve_control(self) -> None:
        if self.faults is None or self._control_port is None:
            return
        try:
            await self.faults.control.bind(self._control_port)
        except OSError as error:
            reason = os.strerror(error.errno) if error.errno else error
            raise CommandError(f"cannot listen on {HOST}:{self._control_port}: {reason}") from None

    async def _registry_ended(self) -> str:
        """Wait until all servers of the registry have ended; return why."""
        while True:
            if not self.registry.is_running:
                return f"{self.registry_names[0]} ended: {self.registry.servers[0].last_words()}"
            await asyncio.sleep(_LOOK_S)

    async def watch(self) -> None:
        """Report every process that ends unexpectedly. Returns when no process is left.

        With a control API, it does not return: brokers that are stopped may be started again.
        """
        if self.faults is not None:
            await self._watch_registry()
            await asyncio.Event().wait()
        await asyncio.gather(*(self._watch_broker(broker) for broker in self.brokers), self._watch_registry())

    async def stop(self) -> None:
        """Stop the brokers, then the registry, and delete temporary data. Idempotent."""
        self._stopping = True
        if self.faults is not None:
            await self.faults.end_faults()
        if self.registry.is_running:
            for broker in reversed(self.brokers):
                await self._stop_broker(broker)
        else:  # without a registry no broker can hand over its partitions, and each tries until its timeout
            await asyncio.gather(*map(self._stop_broker, self.brokers))
        self.registry.close()
        if isinstance(self.registry, ExternalZooKeeper) and (
            failure := await self.registry.delete_own_chroot(self._any_properties)
        ):
            self._note(self.registry_kind, failure)
        self._delete_temporary_data()
        if self.faults is not None:
            self.faults.close()

    def _delete_temporary_data(self) -> None:
        if self._is_temporary:
            shutil.rmtree(self.data_dir, ignore_errors=True)
        if self._locks is not None:
            self._locks.close()

    def kill(self) -> None:
        """Kill the brokers at once; a running `stop`, which waits for them, continues."""
        for broker in self.brokers:
            broker.kill()

    async def _stop_broker(self, broker: BrokerChild) -> None:
        if not await broker.stop(STOP_TIMEOUT_S):
            self._note(broker.name, f"did not stop within {STOP_TIMEOUT_S:.0f} s and was killed")

    @property
    def _any_properties(self) -> Path:
        """A file with the settings of all brokers, such as the security towards ZooKeeper."""
        return self.properties("broker-1")

    def _addresses(self) -> list[tuple[BrokerChild, int, int | None]]:
        """Return every broker with its port and its console's port; 0 if the system chooses."""

        def nth(first: int, index: int) -> int:
            return first + index if first else 0

        console = self._console_port
        return [
            (
                broker,
                self._kept_ports[index] if self._kept_ports else nth(self._port, index),
                None if console is None else nth(console, index),
            )
            for index, broker in enumerate(self.brokers)
        ]

    def _write_properties(self, broker: BrokerChild, listener: str, console: str) -> None:
        replicas = min(len(self.brokers), 3)
        settings = {
            "broker.id": broker.name.removeprefix("broker-"),
            "listeners": listener,
            "log.dirs": str(self.data_dir / broker.name),
            "zookeeper.connect": self.registry.connect,
            "ottla.console.listener": console,
            "default.replication.factor": str(replicas),
            "offsets.topic.replication.factor": str(replicas),
            "transaction.state.log.replication.factor": str(replicas),
            "transaction.state.log.min.isr": str(min(replicas, 2)),
            # A broker that stops after the controller retries with the next one, which is elected fast on one machine.
            "controlled.shutdown.retry.backoff.ms": "500",
        }
        self.properties(broker.name).write_text(format_properties(settings | self._settings), encoding="utf-8")

    async def _watch_broker(self, broker: BrokerChild) -> None:
        await broker.wait()
        if not self._stopping:
            self._note(broker.name, f"has ended {broker.end}; the others continue")

    async def _watch_registry(self) -> None:
        running = dict(zip(self.registry_names, self.registry.servers, strict=True))
        while running:
            for name, server in list(running.items()):
                if not server.is_running:
                    del running[name]
                    if self._stopping:
                        return
                    self._note(name, f"has ended: {server.last_words()}")
            await asyncio.sleep(_LOOK_S)

    def _changed(self, member: ProcessMember) -> None:
        """Report a broker that has ended by itself; forget that when a fault is healed and it runs again."""
        name = member.child.name
        if member.failure is None:
            self.lost = [one for one in self.lost if one != name]
        elif not self._stopping:
            self._note(name, f"has ended {member.child.end}; the others continue")

    def _note(self, name: str, what: str) -> None:
        self.lost.append(name)
        self.output.tell(name, what)
