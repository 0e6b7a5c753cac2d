"""One broker of a cluster in this process: its runs, and what is injected into each of them."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from broker.broker import Broker, wall_clock_ms
from broker.requests.api_table import API_TABLE, Api, WrapHandler, unwrapped
from broker.settings.config import BrokerConfig
from client.wire.network import AsyncioNetwork, Network
from ottla.testing.process_files import ProcessFiles
from ottla.testing.process_loop import Process, ProcessLoop
from registry.embedded.session import EmbeddedRegistry
from registry.embedded.store import EmbeddedStore
from registry.errors import RegistryError
from registry.znodes.brokers import BrokerZnode
from storage.file_system import FileSystem

logger = logging.getLogger(__name__)

_LOOK_S: Final = 0.005
"""How often a registration that is expected soon is looked for."""


@dataclass
class Environment:
    """What is injected into each run of a broker. A change acts at the next start."""

    network: Network = field(default_factory=AsyncioNetwork)
    fs: Callable[[], FileSystem] = FileSystem
    """Makes the file system of one run: a class without parameters, or a function."""
    now_ms: Callable[[], int] = wall_clock_ms
    wrap_handler: WrapHandler = unwrapped
    apis: Sequence[Api] = API_TABLE


class MemberState(Enum):
    """What a broker of a cluster does."""

    STOPPED = "stopped"
    STARTING = "starting"
    RUNNING = "running"
    PAUSED = "paused"
    STOPPING = "stopping"


class Member:
    """One broker of a `ClusterThread`. The methods that are coroutines run on the loop of the cluster.

    It keeps its port over restarts: while it is stopped, sockets that do not listen hold its ports.
    """

    def __init__(self, broker_id: int, settings: Mapping[str, str], store: Callable[[], EmbeddedStore | None]) -> None:
        """settings: of this broker, with `log.dirs` and `listeners`. store: returns the registry that brokers share."""
        self.id = broker_id
        self.environment = Environment()
        self.broker: Broker | None = None
        """The broker; None while it is stopped."""
        self.state = MemberState.STOPPED
        self.failure: BaseException | None = None
        """The error that has ended the last run; None if it was stopped or killed, or still runs."""
        self._settings = dict(settings)
        self._store = store
        self._servers: str | None = None
        self._held_ports: list[socket.socket] = []
        self._is_closed = False
        self._process: Process
        self._files: ProcessFiles
        self._running: asyncio.Task[None]
        self._old_session: int | None = None
        """The registry session of the last run if the broker was killed: it lives until its timeout."""

    @property
    def settings(self) -> Mapping[str, str]:
        """The settings of the next start, by Kafka's names."""
        return self._settings

    @property
    def log_dirs(self) -> list[str]:
        """The log directories."""
        return [path.strip() for path in self._settings["log.dirs"].split(",")]

    @property
    def bootstrap_servers(self) -> str:
        """The clients' address, "host:port", also while the broker is stopped. Raises RuntimeError before a start."""
        if self._servers is None:
            raise RuntimeError(f"broker {self.id} has not been started: its port is not known")
        return self._servers

    @property
    def session(self) -> EmbeddedRegistry | None:
        """The session with the embedded registry; None while the broker does not run, or if it uses ZooKeeper."""
        services = None if self.broker is None else self.broker.services
        registry = None if services is None else services.registry_access.registry
        return registry if isinstance(registry, EmbeddedRegistry) else None

    # -- life --------------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Start the broker, and wait until it serves clients. Raises the error that prevents the start."""
        self._require(MemberState.STOPPED)
        config = BrokerConfig.load(overrides=self._settings)
        self.failure = None
        self.state = MemberState.STARTING
        try:
            await self._end_old_session()
            self._release_ports()
            self._process = Process(f"broker {self.id}")
            self._files = ProcessFiles(self.environment.fs())
            broker = self.broker = self._new_broker(config)
            ready = asyncio.get_running_loop().create_future()
            self._running = asyncio.get_running_loop().create_task(
                self._run(broker, ready), name=f"broker {self.id}", context=self._process.context
            )
            await asyncio.wait([self._running, ready], return_when=asyncio.FIRST_COMPLETED)
        except BaseException:
            await self._abort_start()
            raise
        if not ready.done():
            await self._ended()
            raise self.failure or RuntimeError(f"broker {self.id} was stopped while it started")
        self._remember_ports(broker)
        self.state = MemberState.RUNNING

    def _new_broker(self, config: BrokerConfig) -> Broker:
        environment = self.environment
        return Broker(
            config,
            network=environment.network,
            fs=self._files.fs,
            store=self._store(),
            now_ms=environment.now_ms,
            wrap_handler=environment.wrap_handler,
            apis=environment.apis,
        )

    async def _run(self, broker: Broker, ready: asyncio.Future[None]) -> None:
        try:
            await broker.run(lambda _: ready.set_result(None))
        except asyncio.CancelledError:
            pass
        except BaseException as error:
            self.failure = error
            if ready.done():
                logger.exception("broker %d has ended", self.id)
        finally:
            if self.state is MemberState.RUNNING:  # by itself
                self._forget()

    async def _abort_start(self) -> None:
        if self.broker is not None:
            self._running.cancel()
            await asyncio.wait([self._running])
        self._forget()

    def _forget(self) -> None:
        self.broker = None
        self.state = MemberState.STOPPED
        self._hold_ports()

    async def _ended(self) -> None:
        """Wait until the current run has ended."""
        await asyncio.wait([self._running])
        await self._files.until_quiet()
        self._forget()

    async def stop(self) -> None:
        """Stop the broker cleanly (SIGTERM), and wait until it has stopped."""
        if self.state is MemberState.PAUSED:
            await self.resume()
        broker = self._require(MemberState.RUNNING)
        self.state = MemberState.STOPPING
        broker.stop()
        await self._ended()

    async def kill(self) -> None:
        """End the broker as SIGKILL does, and wait until nothing of it is left.

        It hands over nothing, flushes nothing and leaves no mark of a clean shutdown. The system closes its
        connections. Its registry session lives until its timeout (`zookeeper.session.timeout.ms`).
        """
        if self.state is MemberState.PAUSED:
            self._loop.resume(self._process)
        broker = self._require(MemberState.RUNNING, MemberState.PAUSED)
        self.state = MemberState.STOPPING
        self._files.kill()
        if (session := self.session) is not None:
            self._old_session = session.session_id or self._old_session
            session.disconnect()
        self._running.cancel()
        for acceptor in broker.acceptors.values():
            await acceptor.close()
        await self._ended()

    async def pause(self) -> None:
        """Pause the broker as SIGSTOP does. Its registry session is lost when its timeout has passed."""
        self._require(MemberState.RUNNING)
        self.state = MemberState.PAUSED
        self._loop.pause(self._process)
        if (session := self.session) is not None:
            session.disconnect()
        await asyncio.sleep(0)  # callbacks of this turn of the loop have run

    async def resume(self) -> None:
        """Continue a paused broker (SIGCONT)."""
        self._require(MemberState.PAUSED)
        self.state = MemberState.RUNNING
        if (session := self.session) is not None:
            session.reconnect()
        self._loop.resume(self._process)

    @property
    def _loop(self) -> ProcessLoop:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, ProcessLoop)
        return loop

    def _require(self, *states: MemberState) -> Broker:
        """Return the broker. Raises RuntimeError if it is in another state."""
        if self.state not in states:
            raise RuntimeError(
                f"broker {self.id} is {self.state.value}, it must be {' or '.join(state.value for state in states)}"
            )
        return self.broker  # type: ignore[return-value]  # None only if the state is STOPPED

    async def until_registered(self) -> None:
        """Wait until the broker is registered in its present session: one that was paused may have lost its session."""
        path = BrokerZnode.path(self.id)
        while (session := self.session) is not None:
            with contextlib.suppress(RegistryError):  # the session has expired; the broker opens another one
                stat = await session.exists(path)
                if stat is not None and stat.ephemeral_owner == session.session_id:
                    return
            await asyncio.sleep(_LOOK_S)

    # -- registry and ports ------------------------------------------------------------------------------------------

    async def _end_old_session(self) -> None:
        """Do what a restarted broker does that can prove that a session is its own: end the session."""
        store, session_id, self._old_session = self._store(), self._old_session, None
        if store is not None and session_id is not None:
            with contextlib.suppress(RegistryError):  # it has ended already
                await store.end_session(session_id)

    def forget_session(self) -> None:
        """Forget the session of the last run: the registry does not have it any more."""
        self._old_session = None

    def _remember_ports(self, broker: Broker) -> None:
        """Let the next start use the ports that the system has chosen."""
        self._servers = broker.bootstrap_servers
        listeners = broker.config.listeners
        self._settings["listeners"] = ",".join(
            f"{one.name}://{one.host}:{broker.acceptors[one.name].port}" for one in listeners
        )

    def _hold_ports(self) -> None:
        """Bind the ports of the stopped broker, so that the system gives them to nobody else."""
        self._release_ports()
        if self._servers is None or self._is_closed:
            return
        for host, port in re.findall(r"://\[?([^,]*?)\]?:(\d+)", self._settings["listeners"]):
            one = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                one.bind((host, int(port)))
            except OSError:  # the next start reports it if it still matters
                one.close()
            else:
                self._held_ports.append(one)

    def _release_ports(self) -> None:
        for one in self._held_ports:
            one.close()
        self._held_ports.clear()

    def close(self) -> None:
        """Give up the ports: the broker will not be started again."""
        self._is_closed = True
        self._release_ports()
