"""The broker's listeners: an acceptor each, and the limits that they share."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Coroutine
from typing import Any

from broker.errors import BrokerStartError
from broker.network.acceptor import Acceptor
from broker.network.limits import ConnectionQuota, MemoryBudget
from broker.network.listener import Listener
from broker.requests.dispatcher import Dispatcher
from broker.requests.tasks import RequestTasks
from broker.settings.config import BrokerConfig
from client.wire.network import Network


class Listeners:
    """`acceptors` by name, once they are bound."""

    def __init__(self, config: BrokerConfig, network: Network, tasks: RequestTasks) -> None:
        self.acceptors: dict[str, Acceptor] = {}
        self._config = config
        self._network = network
        self._tasks = tasks
        self._hostname = ""

    async def bind(self, dispatcher: Dispatcher) -> None:
        """Bind all of them. Raises BrokerStartError naming the one for which that fails."""
        config = self._config
        loop = asyncio.get_running_loop()
        if any(not listener.host for listener in (*config.listeners, *config.advertised_listeners)):
            self._hostname = await asyncio.to_thread(socket.getfqdn)  # may ask a name server
        self._quota = ConnectionQuota(now_s=loop.time, call_later=loop.call_later)
        self.settings_changed()
        budget = MemoryBudget(config.queued_max_request_bytes)
        for listener in config.listeners:
            acceptor = Acceptor(
                listener.name,
                handle_frame=dispatcher.handle_frame,
                quota=self._quota,
                budget=budget,
                run_later=self._tasks.start,
                max_request_bytes=config.socket_request_max_bytes,
                max_idle_s=config.connections_max_idle_ms / 1000,
                send_buffer_bytes=config.socket_send_buffer_bytes,
                receive_buffer_bytes=self._receive_buffer_bytes(),
                backlog=config.socket_listen_backlog_size,
                is_exempt=len(config.listeners) > 1 and listener.name == config.inter_broker_listener_name,
            )
            self.acceptors[listener.name] = acceptor
            try:
                await acceptor.bind(self._network, listener.host, listener.port)
            except OSError as error:
                raise BrokerStartError(f"cannot listen on {listener}: {error.strerror or error}") from error

    def settings_changed(self) -> None:
        """Take over the limits, which may change while they are bound."""
        config = self._config
        self._quota.set_limits(
            max_connections=config.max_connections,
            max_per_ip=config.max_connections_per_ip,
            per_ip_overrides=config.max_connections_per_ip_overrides,
            creation_rate_per_s=config.max_connection_creation_rate,
        )

    def _receive_buffer_bytes(self) -> int:
        """The size that was asked for; -1, the system's own tuning, where none was.

        Kafka's default of 100 KiB switches that tuning off and costs a third more CPU on large requests. For sending it
        is the other way round: small steps stay in the processor's cache.
        """
        is_set = "socket.receive.buffer.bytes" in self._config.static
        return self._config.socket_receive_buffer_bytes if is_set else -1

    def advertised(self, listener: Listener) -> Listener:
        """The address that others connect to: the bound port for 0, this machine's name for an empty host."""
        acceptor = self.acceptors.get(listener.name)
        port = listener.port
        if port == 0 and acceptor is not None:
            port = acceptor.port
        return listener.at(listener.host or self._hostname, port)

    def services(self) -> list[Coroutine[Any, Any, None]]:
        """What runs while they accept."""
        return [acceptor.run() for acceptor in self.acceptors.values()]

    async def close(self) -> None:
        """Accept nothing more, and close the connections."""
        for acceptor in self.acceptors.values():
            await acceptor.close()
