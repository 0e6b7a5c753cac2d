"""One broker: its parts, their start, their run and their stop.

A broker that is alone takes the same steps as any other broker: it registers, wins the controller election, and gets
its leaderships by encoded requests to its own listener. There is no standalone mode.

Every service is an `async def run()` in one TaskGroup: if one fails, the others are cancelled, the broker stops
cleanly, and `Broker.run` raises the exception.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from broker.authorization.access import Access
from broker.authorization.loading import guarded, load_access
from broker.authorization.registry_authorizer import RegistryAuthorizer
from broker.cluster.controlled_shutdown import ControlledShutdown
from broker.cluster.legacy07_view import Legacy07View
from broker.cluster.metadata_cache import MetadataCache, Snapshot
from broker.cluster.registration import ClusterMembership
from broker.cluster.registry_access import open_registry
from broker.cluster.session import ClusterSession
from broker.composition import Composition
from broker.console.server import ConsoleServer
from broker.controller.controller import Controller
from broker.first_commands import first_commands
from broker.full_log_dirs import FullLogDirs
from broker.log_dir_failures import LogDirFailures
from broker.metrics import BrokerMetrics
from broker.network.acceptor import Acceptor
from broker.network.connection import Connection
from broker.network.listener import PLAINTEXT, SASL_PROTOCOLS, Listener
from broker.network.listeners import Listeners
from broker.quotas.address_rates import AddressRates
from broker.quotas.rates import Window
from broker.requests.api_table import API_TABLE, Api, WrapHandler, unwrapped
from broker.requests.dispatcher import Dispatcher
from broker.requests.tasks import RequestTasks
from broker.services import Services
from broker.settings.config import BrokerConfig
from broker.settings.store import ConfigStore
from client.wire.backoff import Backoff
from client.wire.network import AsyncioNetwork, Network
from protocol.host_port import HostPort
from registry.embedded.store import EmbeddedStore
from registry.interface import Registry
from registry.znodes.tree import ensure_persistent_paths
from replication.inter_broker_protocol import InterBrokerProtocol
from security.sasl.scram import new_nonce
from storage.compaction.compactor import Compactor, ProcessCompactor
from storage.compaction.log_cleaner import LogCleaner
from storage.directories.log_directory import LogDirectory
from storage.errors import LoadingStoppedError
from storage.file_system import FileSystem
from storage.log.config import LogConfig
from storage.log_manager import LogManager

if TYPE_CHECKING:
    from broker.authentication.authentication import Authentication

logger = logging.getLogger(__name__)


def wall_clock_ms() -> int:
    """Milliseconds since 1970."""
    return time.time_ns() // 1_000_000


class Broker:
    """One broker. `await broker.run()` runs until `broker.stop()`; `async with broker:` runs it for a block.

    The broker runs in the event loop: a blocking client in the loop's thread waits forever. `ottla.testing` runs a
    broker in a thread of its own.
    """

    _running: asyncio.Task[None]
    """`run`, from `__aenter__` on."""
    _parts: Composition
    """How the parts are made, from the beginning of `run` on."""

    def __init__(
        self,
        config: BrokerConfig,
        *,
        network: Network | None = None,
        fs: FileSystem | None = None,
        store: EmbeddedStore | None = None,
        now_ms: Callable[[], int] = wall_clock_ms,
        rng: random.Random | None = None,
        new_compactor: Callable[[], Compactor] = ProcessCompactor,
        nonce: Callable[[], str] = new_nonce,
        wrap_handler: WrapHandler = unwrapped,
        apis: Sequence[Api] = API_TABLE,
    ) -> None:
        """Tests inject what can differ between two runs; several brokers of a test share a `store`.

        wrap_handler: returns the handler that answers an API's requests, given the API and the broker's own handler. It
        is called once for each API, at the start. Requests that authenticate a connection do not reach handlers.

        apis: the APIs and the versions that the broker serves and announces.
        """
        self.config = config
        self.metrics = BrokerMetrics()
        self.metadata = MetadataCache()
        self.services: Services | None = None
        """The parts, once the logs are loaded."""
        self.console: ConsoleServer | None = None
        self._network = network or AsyncioNetwork()
        self._tasks = asyncio.TaskGroup()  # entered by `run`
        self._request_tasks = RequestTasks(self._tasks)
        self._listeners = Listeners(config, self._network, self._request_tasks)
        self._fs = fs or FileSystem()
        self._store = store
        self._owns_store = store is None and not config.zookeeper_connect
        self._now_ms = now_ms
        self._random = rng or random.Random()
        self._backoff = Backoff(random=self._random)
        self._new_compactor = new_compactor
        self._nonce = nonce  # not of `rng`: it must not be predictable
        self._wrap_handler = wrap_handler
        self._apis = apis
        self._stopping = asyncio.Event()
        self._logs: LogManager | None = None
        self._access: Access | None = None
        self._ready = asyncio.Event()
        self._authentication: Authentication | None = None

    # -- for programs that embed a broker ----------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        self._running = asyncio.create_task(self.run())
        ready = asyncio.create_task(self._ready.wait())
        try:
            await asyncio.wait([self._running, ready], return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            self.stop()
            self._running.cancel()
            await asyncio.wait([self._running])
            raise
        finally:
            ready.cancel()
        if not self._ready.is_set():
            await self._running
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()
        await self._running

    @property
    def controller(self) -> Controller | None:
        """This broker's candidate for controller, once the logs are loaded."""
        return None if self.services is None else self.services.controller

    @property
    def acceptors(self) -> Mapping[str, Acceptor]:
        """The acceptors by listener name; empty before the listeners are bound."""
        return self._listeners.acceptors

    @property
    def bootstrap_servers(self) -> str:
        """The address for clients, host:port of the first listener for clients. The broker must be ready.

        The inter-broker listener is used only if there is no other listener.
        """
        listeners = self.config.advertised_listeners
        for_clients = [one for one in listeners if one.name not in self.config.broker_listener_names]
        return self._address((for_clients or listeners)[0])

    @property
    def first_commands(self) -> list[str]:
        """Shell commands to begin with. They use a listener without TLS and SASL if there is one."""
        open_to_all = (one for one in self.config.advertised_listeners if one.security_protocol == PLAINTEXT)
        listener = next(open_to_all, None)
        if listener is None:
            return first_commands(self.bootstrap_servers, has_security=True)
        return first_commands(self._address(listener))

    def options_of_clients(self) -> dict[str, Any]:
        """Return the options of clients in this broker: they connect to its inter-broker listener, as brokers do.

        The listeners must be bound.
        """
        listeners = self.config.advertised_listeners
        name = self.config.inter_broker_listener_name
        return {
            "bootstrap_servers": self._address(next(one for one in listeners if one.name == name)),
            "network": self._network,
            "random": self._random,
            "connection_security": self._parts.between_brokers,
        }

    def _address(self, listener: Listener) -> str:
        at = self.advertised(listener)
        return str(HostPort(at.host, at.port))

    @property
    def is_stopping(self) -> bool:
        """Whether `stop` has been called."""
        return self._stopping.is_set()

    def stop(self) -> None:
        """Start a clean stop; `run` returns when it is completed."""
        self._stopping.set()
        if self._logs is not None:
            self._logs.stop_loading()

    # -- life --------------------------------------------------------------------------------------------------------

    async def run(self, on_ready: Callable[[Broker], None] = lambda broker: None) -> None:
        """Start, serve until `stop`, and stop cleanly. Raises the error that prevented the start or ended a service."""
        self._listeners.prepare()
        self._parts = Composition(
            self.config,
            metadata=self.metadata,
            metrics=self.metrics,
            network=self._network,
            fs=self._fs,
            now_ms=self._now_ms,
            rng=self._random,
            backoff=self._backoff,
            apis=self._apis,
        )
        logs, cleaner = self._parts.logs(self._topic_config, self._new_compactor)
        logs.dirs.lock()
        try:
            await self._run_with_registry(logs, cleaner, on_ready)
        finally:
            logs.dirs.unlock()

    async def _run_with_registry(
        self, logs: LogManager, cleaner: LogCleaner, on_ready: Callable[[Broker], None]
    ) -> None:
        meta = logs.dirs.check_meta(None if self.config.broker_id < 0 else self.config.broker_id)
        access = await open_registry(self.config, self._store, self._fs, self._now_ms)
        registry = access.registry
        try:
            if not await self._connect(registry):
                return
            await ensure_persistent_paths(registry)
            membership = ClusterMembership(registry, self.config, self._now_ms, self._random)
            cluster_id = await membership.cluster_id(meta.cluster_id)
            broker_id = await membership.broker_id(meta.broker_id)
            directories = [str(directory.path) for directory in logs.dirs.online]
            session = ClusterSession(broker_id, access, membership, directories, self._backoff)
            await session.check_id_is_free()  # before this broker's id is written anywhere
            logs.dirs.write_meta(broker_id, cluster_id)
            session.remember()
            configs = ConfigStore(broker_id, self.config, registry, self._now_ms, self._backoff)
            self._configs = configs
            await configs.start()
            self._access = load_access(self.config, registry, self._now_ms, self._backoff)
            authorizer = None if self._access is None else self._access.authorizer
            if authorizer is not None:
                await authorizer.start()
            logs.recovery_threads = self.config.num_recovery_threads_per_data_dir
            logs.set_producer_id_expiration(self.config.producer_id_expiration_ms)
            if not await self._load(logs):
                return
            self.services = services = self._parts.services(
                broker_id, cluster_id, logs, cleaner, configs, access, self._access
            )
            self._follow_settings(services, configs)
            failures = self._watch_log_dirs(services, registry)
            try:
                await services.tokens.start()
                await self._bind(services)
                services.broker_epoch = await session.register(
                    [self.advertised(listener) for listener in self.config.advertised_listeners]
                )
                if InterBrokerProtocol(self.config.inter_broker_protocol_version).takes_producer_ids_at_start:
                    await services.producer_ids.take_block()
                await self._serve(services, session, failures, registry, on_ready)
            finally:
                if self.console is not None:
                    self.console.close()
                await self._listeners.close()
                services.replicas.close()
                await logs.shutdown(services.broker_epoch)
        finally:
            if self._access is not None:
                await self._access.authorizer.close()
            await access.close()

    async def _connect(self, registry: Registry) -> bool:
        """Open the session of the registry. Return False if the broker is stopped meanwhile."""
        connecting = asyncio.ensure_future(registry.start())
        stopping = asyncio.create_task(self._stopping.wait())
        try:
            await asyncio.wait([connecting, stopping], return_when=asyncio.FIRST_COMPLETED)
            if not connecting.done():
                logger.info("stopped before there was a session of the registry")
                return False
            await connecting
            return True
        finally:
            connecting.cancel()
            stopping.cancel()
            await asyncio.wait([connecting, stopping])

    async def _load(self, logs: LogManager) -> bool:
        """Load the logs. Return False if the broker is stopped meanwhile.

        Logs that are not recovered then are not marked as clean, and the next start recovers them.
        """
        self._logs = logs
        if self.is_stopping:
            logs.stop_loading()
        try:
            await logs.load()
        except LoadingStoppedError as stopped:
            logger.info("%s", stopped)
            return False
        return True

    def _follow_settings(self, services: Services, configs: ConfigStore) -> None:
        """Make parts follow the dynamic settings, the quotas and the stores of listeners."""
        config = self.config
        configs.entities.subscribe(services.quotas.config_changed)
        self._address_rates = AddressRates(
            Window(config.quota_window_num, config.quota_window_size_seconds), asyncio.get_running_loop().time
        )
        configs.entities.subscribe(self._address_rates.config_changed)
        configs.on_topic_changed = partial(self._topic_changed, services)
        configs.on_broker_changed = partial(self._settings_changed, services)
        configs.on_broker_loaded = self._listeners.use_new_stores
        configs.dynamic.check_listeners = self._listeners.check

    def _watch_log_dirs(self, services: Services, registry: Registry) -> LogDirFailures:
        registry_directory = self.config.log_dirs[0] if self._owns_store else None
        failures = LogDirFailures(services.broker_id, registry, registry_directory, self._backoff)

        def failed(directory: LogDirectory, keys: list[tuple[str, int]]) -> None:
            services.replicas.controller_requests.log_directory_failed(keys)
            failures.add(directory)

        services.logs.on_offline = failed
        requests, dirs = services.replicas.controller_requests, services.logs.dirs
        full = FullLogDirs(requests.can_hand_over, failures.tell_controller, asyncio.get_running_loop().time)

        def room() -> None:
            requests.begin_logs()
            full.has_room()

        dirs.on_refused, dirs.on_room = full.refused, room
        return failures

    async def _bind(self, services: Services) -> None:
        handlers = [(api, self._wrap_handler(api, guarded(api, services))) for api in self._apis]
        dispatcher = Dispatcher(handlers, self.metrics, self._request_tasks.start, services.quotas)
        await self._listeners.bind(dispatcher, await self._expect_logins(services, dispatcher), self._address_rates)
        if self.config.ottla_console_listener is not None:
            self.console = ConsoleServer(
                services, self, self.config.ottla_console_listener, self._listeners.console_tls
            )
            await self.console.bind()

    async def _expect_logins(
        self, services: Services, dispatcher: Dispatcher
    ) -> dict[str, Callable[[Connection], None]]:
        """Return what begins a connection of each SASL listener. Raises BrokerStartError."""
        listeners = [one.name for one in self.config.listeners if one.security_protocol in SASL_PROTOCOLS]
        if not listeners:
            return {}
        from broker.authentication.authentication import Authentication  # only brokers with SASL need it

        self._authentication = Authentication(
            self.config, services.scram_credentials, services.tokens, self._now_ms, self._nonce
        )
        begin: dict[str, Callable[[Connection], None]] = {
            name: self._authentication.of(name, dispatcher).begin for name in listeners
        }
        await self._authentication.start()
        return begin

    async def _serve(
        self,
        services: Services,
        session: ClusterSession,
        failures: LogDirFailures,
        registry: Registry,
        on_ready: Callable[[Broker], None],
    ) -> None:
        async def registered_anew(broker_epoch: int) -> None:
            services.broker_epoch = broker_epoch
            await services.configs.reload()  # changes during the old session were not seen
            if acls is not None:
                await acls.store.reload()
            await services.tokens.reload()
            services.peers.read_again()

        authorizer = None if services.access is None else services.access.authorizer
        acls = authorizer if isinstance(authorizer, RegistryAuthorizer) else None
        running: list[Coroutine[Any, Any, None]] = [
            session.run(registered_anew),
            services.controller.run(),
            services.configs.run(),
            services.tokens.run(),
            services.peers.run(),
            services.logs.run(),
            services.replicas.run(),
            services.coordination.run(),
            failures.run(),
            self._address_rates.run(),
            *self._listeners.services(),
        ]
        if self._authentication is not None:
            running += self._authentication.services()
        if acls is not None:
            running.append(acls.run())
        if self.config.log_cleaner_enable:
            running.append(services.cleaner.run())
        if self.console is not None:
            running += self.console.services_to_run()
        if self.config.ottla_zookeeper_legacy07_chroot:
            running.append(self._legacy07_view(services.broker_id, registry))
        async with self._tasks as tasks:
            services_running = [tasks.create_task(one) for one in running]
            announcing = tasks.create_task(self._announce(services.broker_id, on_ready))
            try:
                await self._stopping.wait()
                logger.info("broker %d is stopping", services.broker_id)
                if self._ready.is_set():
                    await ControlledShutdown(
                        services.broker_id,
                        self.config,
                        self.metadata,
                        self._parts.controller_connection(str(services.broker_id)),
                        lambda: services.broker_epoch,
                    ).run()
            finally:  # also if a service has failed: no request may arrive any more
                await self._listeners.close()
            for task in [announcing, *services_running]:
                task.cancel()
            self._request_tasks.cancel()

    def _legacy07_view(self, broker_id: int, registry: Registry) -> Coroutine[Any, Any, None]:
        address = self.advertised(self.config.advertised_listeners[0])
        return Legacy07View(
            broker_id,
            chroot=self.config.ottla_zookeeper_legacy07_chroot,
            host=address.host,
            port=address.port,
            registry=registry,
            metadata=self.metadata,
            now_ms=self._now_ms,
            backoff=self._backoff,
        ).run()

    async def _announce(self, broker_id: int, on_ready: Callable[[Broker], None]) -> None:
        """Call `on_ready` when the controller's metadata contains this broker and a controller."""

        def knows_us(snapshot: Snapshot) -> bool:
            return broker_id in snapshot.brokers and snapshot.controller_id >= 0

        while not await self.metadata.wait_until(knows_us, 60.0):
            logger.warning("no controller has sent metadata yet")
        self._ready.set()
        on_ready(self)

    # -- small parts -------------------------------------------------------------------------------------------------

    def advertised(self, listener: Listener) -> Listener:
        """Return the advertised address: the bound port for port 0, this machine's name for an empty host."""
        return self._listeners.advertised(listener)

    def _topic_changed(self, services: Services, topic: str) -> None:
        """Apply changed settings of a topic to its logs, and notify the controller, which may elect leaders now."""
        services.replicas.topic_config_changed(topic)
        services.controller.leaders_may_be_found()

    def _settings_changed(self, services: Services) -> None:
        """Apply changed dynamic settings of this broker to the parts that cache settings."""
        services.replicas.settings_changed()
        services.logs.set_producer_id_expiration(self.config.producer_id_expiration_ms)
        services.cleaner.settings_changed()
        services.controller.leaders_may_be_found()
        self._listeners.settings_changed()

    def _topic_config(self, topic: str) -> LogConfig:
        return self._configs.topic_config(topic)
