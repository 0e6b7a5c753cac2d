"""The broker's listeners: an acceptor for each, and their common limits."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any

from broker.errors import BrokerStartError
from broker.network.acceptor import Acceptor
from broker.network.connection import Connection
from broker.network.host_limits import HostLimits
from broker.network.limits import ConnectionQuota, ListenerLimits, MemoryBudget
from broker.network.listener import TLS_PROTOCOLS, Listener
from broker.quotas.address_rates import AddressRates
from broker.quotas.rates import INT_MAX, Window
from broker.requests.dispatcher import Dispatcher
from broker.requests.tasks import RequestTasks
from broker.settings.config import BrokerConfig
from broker.settings.console_checks import check_has_effect
from broker.settings.listener_settings import ListenerSettings
from client.wire.network import Network
from storage.setting import ConfigError

if TYPE_CHECKING:
    from broker.network.listener_tls import ListenerTls


CONSOLE = "console"
"""The name of the console among the listeners that have TLS. Names of other listeners are in upper case."""


class Listeners:
    """The listeners of one broker. `acceptors`: by name, once they are bound.

    New certificates of the console are a matter of this class, too.
    """

    def __init__(self, config: BrokerConfig, network: Network, tasks: RequestTasks) -> None:
        self.acceptors: dict[str, Acceptor] = {}
        self._config = config
        self._network = network
        self._tasks = tasks
        self._hostname = ""
        self._tls: dict[str, ListenerTls] = {}
        self._host_limits = HostLimits()

    def prepare(self) -> None:
        """Read the key stores of TLS listeners. Raises ConfigError."""
        for listener in self._config.listeners:
            if listener.security_protocol in TLS_PROTOCOLS:
                from broker.network.listener_tls import ListenerTls  # ssl costs a plain broker 10 ms

                self._tls[listener.name] = ListenerTls(
                    listener,
                    self._config.of_listener(listener.name),
                    is_between_brokers=listener.name == self._config.inter_broker_listener_name,
                )

        address = self._config.ottla_console_listener
        if self._config.console_has_tls and address is not None:
            from broker.network.listener_tls import ListenerTls  # as above

            console = Listener(CONSOLE, *address, security_protocol="SSL")
            self._tls[CONSOLE] = ListenerTls(console, self._config.of_console())

    @property
    def console_tls(self) -> ListenerTls | None:
        """TLS of the console; None if it has none."""
        return self._tls.get(CONSOLE)

    async def bind(
        self,
        dispatcher: Dispatcher,
        begin: Mapping[str, Callable[[Connection], None]],
        address_rates: AddressRates | None = None,
    ) -> None:
        """Bind all listeners. Raises BrokerStartError with the name of one that cannot be bound.

        begin: by listener, what is called for each new connection: a listener of SASL expects it to authenticate.
        """
        config = self._config
        loop = asyncio.get_running_loop()
        if any(not listener.host for listener in (*config.listeners, *config.advertised_listeners)):
            self._hostname = await asyncio.to_thread(socket.getfqdn)  # may ask a name server
        self._quota = ConnectionQuota(
            now_s=loop.time,
            call_later=loop.call_later,
            window=Window(config.quota_window_num, config.quota_window_size_seconds),
            address_rates=address_rates,
        )
        try:
            await self._host_limits.use(config.max_connections_per_ip_overrides)
        except ConfigError as error:
            raise BrokerStartError(str(error)) from None
        self._set_limits()
        self.prepare()  # once more: now with the dynamic settings of the registry
        for tls in self._tls.values():
            tls.log_weaknesses()
        budget = MemoryBudget(config.queued_max_request_bytes)
        for listener in config.listeners:
            acceptor = Acceptor(
                listener.name,
                handle_frame=dispatcher.handle_frame,
                quota=self._quota.of_listener(listener.name),
                budget=budget,
                run_later=self._tasks.start,
                max_request_bytes=config.socket_request_max_bytes,
                max_idle_s=config.connections_max_idle_ms / 1000,
                send_buffer_bytes=config.socket_send_buffer_bytes,
                receive_buffer_bytes=self._receive_buffer_bytes(),
                backlog=config.socket_listen_backlog_size,
                is_exempt=len(config.listeners) > 1 and listener.name == config.inter_broker_listener_name,
                begin=begin.get(listener.name, lambda connection: None),
                tls=self._tls.get(listener.name),
            )
            self.acceptors[listener.name] = acceptor
            try:
                await acceptor.bind(self._network, listener.host, listener.port)
            except OSError as error:
                raise BrokerStartError(f"cannot listen on {listener}: {error.strerror or error}") from error

    def settings_changed(self) -> None:
        """Apply changed limits to the bound listeners."""
        self._host_limits.changed(self._config.max_connections_per_ip_overrides, self._tasks.start, self._set_limits)
        self._set_limits()

    def _set_limits(self) -> None:
        config = self._config
        self._quota.set_limits(
            max_connections=config.max_connections,
            max_per_ip=config.max_connections_per_ip,
            per_ip_overrides=self._host_limits.by_address,
            creation_rate_per_s=config.max_connection_creation_rate,
            of_listeners={listener.name: self._limits_of(listener.name) for listener in config.listeners},
        )

    def check(self, after: BrokerConfig) -> None:
        """Raise ConfigError if the running listeners cannot use these settings."""
        for name, tls in self._tls.items():
            tls.check(_settings_of(name, after))
        if self.console_tls is None:
            check_has_effect(after.prefixed)

    def use_new_stores(self) -> None:
        """Use changed key stores and trust stores for new connections."""
        for name, tls in self._tls.items():
            tls.use_stores_of(_settings_of(name, self._config))

    def _limits_of(self, listener: str) -> ListenerLimits:
        """Return the limits that are set for this listener by its prefix; those of the broker are not its defaults."""
        settings = self._config.of_listener(listener)

        def limit(setting: str) -> int:
            name, value = settings.lookup(setting)
            return value if name != setting and isinstance(value, int) else INT_MAX

        return ListenerLimits(limit("max.connections"), limit("max.connection.creation.rate"))

    def _receive_buffer_bytes(self) -> int:
        """Return the configured size; -1, for the system's automatic tuning, if it is not set.

        Kafka's default of 100 KiB disables that tuning, which costs a third more CPU for large requests. For sending,
        the default is better: small steps stay in the processor's cache.
        """
        is_set = "socket.receive.buffer.bytes" in self._config.static
        return self._config.socket_receive_buffer_bytes if is_set else -1

    def advertised(self, listener: Listener) -> Listener:
        """Return the address that clients use: the bound port instead of 0, this machine's name for an empty host."""
        acceptor = self.acceptors.get(listener.name)
        port = listener.port
        if port == 0 and acceptor is not None:
            port = acceptor.port
        return listener.at(listener.host or self._hostname, port)

    def services(self) -> list[Coroutine[Any, Any, None]]:
        """Return the work to run while the listeners accept connections."""
        watching = [tls.watch_files() for tls in self._tls.values()]
        return [*(acceptor.run() for acceptor in self.acceptors.values()), *watching]

    async def close(self) -> None:
        """Stop accepting, and close all connections."""
        for acceptor in self.acceptors.values():
            await acceptor.close()


def _settings_of(name: str, config: BrokerConfig) -> ListenerSettings:
    return config.of_console() if name == CONSOLE else config.of_listener(name)
