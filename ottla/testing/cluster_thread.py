"""A cluster of brokers in one thread of this process, with one event loop and one registry.

Blocking clients (confluent-kafka, kafka-python) and asyncio clients can use it from every other thread: it does not
need the caller's event loop. Each broker behaves like a process of its own: it can be stopped, killed, paused and
started again on its port.
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import tempfile
import threading
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import Future
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import TYPE_CHECKING, Any, Final, ParamSpec, Self, TypeVar

from broker.cluster.registry_access import REGISTRY_FILE, SESSION_FILE
from broker.requests.api_table import API_TABLE
from ottla.testing import versions
from ottla.testing.cluster_topics import create_topic, delete_topic
from ottla.testing.faults.faults import Faults
from ottla.testing.member import Member, MemberState
from ottla.testing.own_chroot import OwnChroot
from ottla.testing.process_loop import ProcessLoop
from ottla.testing.requests import CapturedRequests
from registry.embedded.store import EmbeddedStore

if TYPE_CHECKING:
    from ottla.testing.faults.control import Control

P = ParamSpec("P")
T = TypeVar("T")

SETTINGS: Final = {
    "listeners": "PLAINTEXT://127.0.0.1:0",
    "ottla.console.listener": "",
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
}
"""Settings of a broker for tests that differ from Kafka's: a free port, no console, and nothing to wait for."""

CLUSTER_SETTINGS: Final = {
    # A session of the embedded registry expires only if its broker is killed or paused: no slow machine ends it.
    "zookeeper.session.timeout.ms": "1000",
    "controlled.shutdown.retry.backoff.ms": "500",
}
"""Further settings of the brokers of a cluster: a dead broker is noticed after a second."""

ON_ZOOKEEPER: Final = {"zookeeper.session.timeout.ms": "6000"}
"""Settings of a cluster on a ZooKeeper, where a slow machine does end sessions."""

MAX_REPLICAS: Final = 3
OWN_SETTINGS: Final = ("broker.id", "node.id", "log.dir", "log.dirs", "advertised.listeners")
"""Settings that a cluster gives each of its brokers."""
METADATA_TIMEOUT_S: Final = 60.0


class ClusterThread:
    """Brokers 1, 2, 3, … in a thread. A context manager, `with` and `async with`; or call `start` and `stop`.

    `start` may be called again after `stop`: with a `directory` the brokers then have their data again.
    """

    def __init__(
        self,
        brokers: int = 3,
        settings: Mapping[str, str] | None = None,
        *,
        settings_of: Mapping[int, Mapping[str, str]] | None = None,
        version: str | None = None,
        directory: Path | str | None = None,
    ) -> None:
        """settings: of every broker by Kafka's names, over `SETTINGS`. settings_of: of single brokers, by id.

        version: the Kafka release whose API versions the brokers have: see `versions`.

        directory: has a folder `broker-<id>` for each broker and the registry, and is kept; by default a temporary
        one, which `stop` removes. With `zookeeper.connect`, a cluster with a temporary directory has a chroot of its
        own below the one that is named, and `stop` deletes it.

        Raises ValueError for a number below 1, for a setting that the cluster chooses, and for an unknown version.
        """
        if brokers < 1:
            raise ValueError(f"a cluster needs at least one broker, not {brokers}")
        of_brokers = dict(settings_of or {})
        for name in (name for given in (settings or {}, *of_brokers.values()) for name in given):
            if name in OWN_SETTINGS:
                raise ValueError(f"{name} cannot be set here: each broker of the cluster has its own value")
        if unknown := of_brokers.keys() - set(range(1, brokers + 1)):
            raise ValueError(f"settings_of names broker {min(unknown)}; the brokers are 1 to {brokers}")
        session = ON_ZOOKEEPER if any(map(_names_zookeeper, (settings or {}, *of_brokers.values()))) else {}
        defaults = SETTINGS | _cluster_settings(brokers) | session
        common = defaults | release_settings(version) | dict(settings or {})
        of_each = {number: common | dict(of_brokers.get(number, {})) for number in range(1, brokers + 1)}
        self._prepare(directory, of_each, version)

    def _prepare(
        self, directory: Path | str | None, settings: Mapping[int, Mapping[str, str]], version: str | None
    ) -> None:
        self._settings = settings
        self._apis = API_TABLE if version is None else versions.apis_of(version)
        self._directory = directory
        self._running: contextlib.ExitStack | None = None
        self._members: dict[int, Member] = {}
        self._faults: Faults
        self._control: Control | None = None
        self._ended: Future[None]
        self._thread: threading.Thread
        self._loop: ProcessLoop
        self._stopping: asyncio.Event
        self._store: EmbeddedStore | None = None
        self._chroot: OwnChroot | None = None

    # -- what there is -------------------------------------------------------------------------------------------------

    @property
    def brokers(self) -> Mapping[int, Member]:
        """The brokers by id, also those that are stopped. Raises RuntimeError if the cluster does not run."""
        self._require_running()
        return MappingProxyType(self._members)

    @property
    def bootstrap_servers(self) -> str:
        """The addresses for clients, "host:port,…", of all brokers. Raises RuntimeError if the cluster does not run."""
        return ",".join(member.bootstrap_servers for member in self.brokers.values())

    @property
    def directory(self) -> Path:
        """The directory with the data. Raises RuntimeError if the cluster does not run."""
        self._require_running()
        return self._data

    @property
    def faults(self) -> Faults:
        """What can go wrong on command. Raises RuntimeError if the cluster does not run."""
        self._require_running()
        return self._faults

    def serve_control(self, port: int = 0) -> str:
        """Serve the control API until the cluster stops, and return its address, "http://127.0.0.1:PORT".

        With this, tests in other languages and `ottla faults` inject faults. port: 0 for any free port. A second call
        returns the same address. Raises OSError for a port in use.
        """
        return self.call(self._serve_control, port)

    async def _serve_control(self, port: int) -> str:
        from ottla.testing.faults.control import Control  # aiohttp.web takes 50 ms

        if self._control is None:
            control = Control(self._faults.scene, self._faults.engine)
            await control.bind(port)
            self._control = control
        return self._control.url

    @property
    def requests(self) -> CapturedRequests:
        """The requests that clients have sent. Raises RuntimeError if the cluster does not run."""
        return self.faults.scene.captured

    def _require_running(self) -> None:
        if self._running is None:
            raise RuntimeError(f"the {self._what} does not run: call start() or use it in a with statement")

    _what = "cluster"

    def _log_dirs(self, broker_id: int) -> Path:
        return self._data / f"broker-{broker_id}"

    # -- life ----------------------------------------------------------------------------------------------------------

    def start(self) -> Self:
        """Start the brokers, and return when they serve clients and know each other. Raises what prevents the start."""
        if self._running is not None:
            raise RuntimeError(f"the {self._what} runs already")
        ready: Future[None] = Future()
        self._ended = Future()
        self._chroot = OwnChroot.of(self._settings) if self._directory is None else None
        of_chroot = {} if self._chroot is None else self._chroot.settings
        with contextlib.ExitStack() as stack:
            if self._directory is None:
                self._data = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ottla-")))
            else:
                self._data = Path(self._directory)
            self._members = {
                broker_id: Member(
                    broker_id,
                    {"broker.id": str(broker_id), "log.dirs": str(self._log_dirs(broker_id))}
                    | dict(settings)
                    | of_chroot,
                    lambda: self._store,
                )
                for broker_id, settings in self._settings.items()
            }
            self._faults = Faults(self.call, self._members)
            for member in self._members.values():
                member.environment.apis = self._apis
            self._loop = ProcessLoop()
            self._thread = threading.Thread(target=self._run, args=(ready,), name=f"ottla-{self._what}", daemon=True)
            self._thread.start()
            stack.callback(self._end)
            ready.result()
            self._running = stack.pop_all()
        return self

    def stop(self) -> None:
        """Stop all brokers, and return when they have stopped. Raises the error that ended a broker before, if any."""
        if self._running is not None:
            running, self._running = self._running, None
            running.close()
            self._ended.result()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    async def __aenter__(self) -> Self:
        starting = asyncio.ensure_future(asyncio.to_thread(self.start))
        try:
            return await asyncio.shield(starting)
        except asyncio.CancelledError:  # the thread starts the brokers nevertheless
            with contextlib.suppress(Exception):
                await starting
                await asyncio.to_thread(self.stop)
            raise

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self.stop)

    # -- brokers -------------------------------------------------------------------------------------------------------

    def call(self, function: Callable[P, Coroutine[Any, Any, T]], *args: P.args, **named: P.kwargs) -> T:
        """Run a coroutine function on the cluster's event loop and return its result; raise what it raises.

        Call it in any thread but the cluster's. Raises RuntimeError if the cluster does not run.
        """
        self._require_running()
        if threading.current_thread() is self._thread:
            raise RuntimeError("call() in the cluster's own thread would wait forever: await the coroutine")
        return asyncio.run_coroutine_threadsafe(function(*args, **named), self._loop).result()

    def stop_broker(self, broker_id: int) -> None:
        """Stop a broker cleanly (SIGTERM): it hands over its partitions before."""
        self.call(self._member(broker_id).stop)

    def kill_broker(self, broker_id: int) -> None:
        """End a broker as SIGKILL does. Its registry session lives until `zookeeper.session.timeout.ms` has passed."""
        self.call(self._member(broker_id).kill)

    def start_broker(self, broker_id: int) -> None:
        """Start a stopped or killed broker again, on its port and with its data, and wait until it serves clients."""
        self.call(self._member(broker_id).start)

    def pause_broker(self, broker_id: int) -> None:
        """Pause a broker as SIGSTOP does: it accepts, reads and writes nothing. Its registry session then expires."""
        self.call(self._member(broker_id).pause)

    def resume_broker(self, broker_id: int) -> None:
        """Continue a paused broker (SIGCONT)."""
        self.call(self._member(broker_id).resume)

    def restore(self) -> None:
        """Heal all faults, continue paused brokers and start stopped ones, and wait until all know each other."""
        self.call(self._restore)

    def reset(self) -> None:
        """Replace the cluster by an empty one on the same ports: without topics, groups, ACLs, quotas or settings.

        All brokers are killed, their data and the registry are deleted, also in a directory that was named, and the
        brokers start again. On ZooKeeper, the chroot of the cluster is deleted; raises RuntimeError for a cluster with
        a directory there, as its chroot is the one that `zookeeper.connect` names.
        """
        self.call(self._reset)

    # -- topics --------------------------------------------------------------------------------------------------------

    def create_topic(
        self,
        name: str,
        *,
        partitions: int | None = None,
        replication_factor: int | None = None,
        configs: Mapping[str, str] | None = None,
    ) -> None:
        """Create a topic without a client, and wait until all brokers know its leaders.

        None: the brokers' default. Raises KafkaError if the brokers refuse the topic.
        """
        self.call(create_topic, self._members.values(), name, partitions, replication_factor, configs or {})

    def delete_topic(self, name: str) -> None:
        """Ask the controller to delete a topic; do not wait for it. Raises KafkaError for an unknown topic."""
        self.call(delete_topic, self._members.values(), name)

    def _member(self, broker_id: int) -> Member:
        self._require_running()
        if broker_id not in self._members:
            raise ValueError(f"there is no broker {broker_id}; the brokers are {', '.join(map(str, self._members))}")
        return self._members[broker_id]

    # -- in the thread -------------------------------------------------------------------------------------------------

    def _end(self) -> None:
        """Stop the brokers and wait for the end of the thread."""
        with contextlib.suppress(RuntimeError):  # its loop is closed: it has ended
            self._loop.call_soon_threadsafe(lambda: self._stopping.set())
        self._thread.join()

    def _run(self, ready: Future[None]) -> None:
        """Run the cluster in this thread until it ends; complete `ready` and `_ended`."""
        try:
            with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
                runner.run(self._serve(ready))
        except BaseException as error:
            (self._ended if ready.done() else ready).set_exception(error)
        else:
            self._ended.set_result(None)

    @property
    def _uses_zookeeper(self) -> bool:
        return any(map(_names_zookeeper, self._settings.values()))

    async def _serve(self, ready: Future[None]) -> None:
        self._stopping = asyncio.Event()
        if not self._uses_zookeeper:
            self._store = await EmbeddedStore.open(self._registry_file())
        try:
            await self._start_all()
            ready.set_result(None)
            await self._stopping.wait()
        except BaseExceptionGroup as group:
            raise group.exceptions[0] from None
        finally:
            await self._stop_all()
        for member in self._members.values():
            if member.failure is not None:
                raise member.failure

    def _registry_file(self) -> Path | None:
        """The registry's file. With a temporary directory it is in memory: nobody opens the data again."""
        if self._directory is None:
            return None
        self._data.mkdir(parents=True, exist_ok=True)
        return self._data / REGISTRY_FILE

    async def _start_all(self) -> None:
        """Start the brokers that are stopped, at the same time, and wait until all know each other."""
        async with asyncio.TaskGroup() as starting:
            for member in self._members.values():
                if member.state is MemberState.STOPPED:
                    starting.create_task(member.start())
        await self._acquainted()

    async def _restore(self) -> None:
        await self._faults.engine.heal_all()
        for member in self._members.values():
            if member.state is MemberState.PAUSED:
                await member.resume()
        await self._start_all()

    async def _reset(self) -> None:
        if self._uses_zookeeper and self._chroot is None:
            raise RuntimeError(
                "reset: zookeeper.connect names the chroot of this cluster, which may have data of others;"
                " without a directory, a cluster has a chroot of its own"
            )
        await self._faults.engine.heal_all()
        await self._kill_all()
        for member in self._members.values():
            member.forget_session()
        for path in (path for member in self._members.values() for path in map(Path, member.log_dirs)):
            shutil.rmtree(path, ignore_errors=True)
        await self._reset_registry()
        await self._start_all()

    async def _reset_registry(self) -> None:
        if self._chroot is not None:
            await self._chroot.delete()
        if self._store is not None:
            await self._store.close()
            for path in self._data.glob(f"{REGISTRY_FILE}*"):
                path.unlink()
            self._store = await EmbeddedStore.open(self._registry_file())

    async def _acquainted(self) -> None:
        """Wait until each broker is registered and has all the others in its metadata."""
        everybody = self._members.keys()
        for member in self._members.values():
            await member.until_registered()
        for member in self._members.values():
            if member.broker is not None:
                metadata = member.broker.metadata
                await metadata.wait_until(lambda snapshot: snapshot.brokers.keys() >= everybody, METADATA_TIMEOUT_S)

    async def _kill_all(self) -> None:
        """Kill what runs, all at the same time: none notices the end of another."""
        running = [one for one in self._members.values() if one.state in (MemberState.RUNNING, MemberState.PAUSED)]
        await asyncio.gather(*(member.kill() for member in running))

    async def _stop_all(self) -> None:
        """Stop what runs. Brokers whose data is kept hand over their partitions, one broker after the other."""
        self._faults.engine.forget_all()
        if self._control is not None:
            control, self._control = self._control, None
            await control.close()
        if self._directory is None:
            await self._kill_all()
        for member in reversed(self._members.values()):
            if member.state in (MemberState.RUNNING, MemberState.PAUSED):
                await member.stop()
            member.close()
        if self._store is not None:
            store, self._store = self._store, None
            await store.close()
        if self._chroot is not None and self._has_reached_zookeeper():
            await self._chroot.discard()

    def _has_reached_zookeeper(self) -> bool:
        """Return whether a broker has had a session; else there is nothing to delete, and nobody who would answer."""
        directories = (Path(path) for member in self._members.values() for path in member.log_dirs)
        return any((directory / SESSION_FILE).exists() for directory in directories)


def release_settings(version: str | None) -> dict[str, str]:
    """Return the settings of brokers that pretend to be a release; none without one. Raises ValueError."""
    return {} if version is None else versions.settings_of(version)


def _names_zookeeper(settings: Mapping[str, str]) -> bool:
    return bool(settings.get("zookeeper.connect", "").strip())


def _cluster_settings(brokers: int) -> dict[str, str]:
    replicas = str(min(brokers, MAX_REPLICAS))
    return CLUSTER_SETTINGS | {
        "default.replication.factor": replicas,
        "offsets.topic.replication.factor": replicas,
        "transaction.state.log.replication.factor": replicas,
        "transaction.state.log.min.isr": str(min(brokers, MAX_REPLICAS - 1)),
    }


def cluster(
    brokers: int = 3,
    settings: Mapping[str, str] | None = None,
    *,
    settings_of: Mapping[int, Mapping[str, str]] | None = None,
    version: str | None = None,
    directory: Path | str | None = None,
) -> ClusterThread:
    """Return a cluster for a `with` or `async with` statement; it starts when the block begins. See `ClusterThread`."""
    return ClusterThread(brokers, settings, settings_of=settings_of, version=version, directory=directory)
