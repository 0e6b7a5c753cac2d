"""A cluster in which each link can be cut: between two brokers, and from a broker to ZooKeeper or to clients.

Each broker reaches the three ZooKeepers through proxies of its own, and the others through the proxy before each one's
listener INTERNAL, which knows by the port of the other end who is calling. Clients use the proxy before CLIENT.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import psutil

from ottla.cluster.ports import free_ports
from ottla.cluster.registry_servers import RegistryServers
from registry.zookeeper.address import ZooKeeperAddress
from support.cluster import BrokerCluster
from support.cluster_security import PLAINTEXT
from support.tcp_proxy import TcpProxy

BROKERS = (0, 1, 2)


class InternalProxy(TcpProxy):
    """In front of a broker's listener for other brokers; connections of some of these may be refused."""

    def __init__(self, target_port: int, cluster: LinkedCluster) -> None:
        super().__init__("127.0.0.1", target_port)
        self._cluster = cluster
        self._refused: set[int] = set()
        self._of_broker: dict[int, set[asyncio.StreamWriter]] = {}

    def refuse(self, broker_id: int) -> None:
        """Close every connection of a broker, and refuse new ones until `admit`."""
        self._refused.add(broker_id)
        for writer in self._of_broker.pop(broker_id, set()):
            writer.transport.abort()

    def admit(self, broker_id: int) -> None:
        """Accept connections of a broker again."""
        self._refused.discard(broker_id)

    async def _serve(self, reader, writer):  # type: ignore[no-untyped-def]
        caller = await asyncio.to_thread(self._cluster.owner, writer.get_extra_info("peername")[1], self.port)
        if caller is None or caller in self._refused:
            return
        mine = self._of_broker.setdefault(caller, set())
        mine.add(writer)
        try:
            await super()._serve(reader, writer)
        finally:
            mine.discard(writer)


class LinkedCluster(BrokerCluster):
    """Brokers 0, 1 and 2 and a registry of their own: three ZooKeepers, or `ottla registry`."""

    listeners = ("INTERNAL", "CLIENT")

    def __init__(
        self, tmp_path: Path, overrides: Mapping[str, str], ensemble: RegistryServers, security: str = PLAINTEXT
    ) -> None:
        super().__init__(tmp_path, overrides, ensemble, security)
        self.ensemble = ensemble
        self._ports = dict(zip(BROKERS, zip(*[iter(free_ports(2 * len(BROKERS)))] * 2, strict=True), strict=True))
        self._internal = {broker_id: InternalProxy(ports[0], self) for broker_id, ports in self._ports.items()}
        self._client = {broker_id: TcpProxy("127.0.0.1", ports[1]) for broker_id, ports in self._ports.items()}
        address = ZooKeeperAddress.parse(self.connect)
        self._chroot = address.chroot
        self._zookeeper = {broker_id: [TcpProxy(*server) for server in address.servers] for broker_id in BROKERS}

    async def open(self, *broker_ids: int) -> None:
        """Start the proxies and the brokers."""
        for proxy in self._proxies():
            await proxy.start()
        await super().open(*broker_ids)

    async def close(self) -> None:
        """See BrokerCluster.close."""
        try:
            await super().close()
        finally:
            for proxy in self._proxies():
                await proxy.close()

    def _proxies(self) -> list[TcpProxy]:
        mine = [*self._internal.values(), *self._client.values()]
        return [*mine, *(proxy for proxies in self._zookeeper.values() for proxy in proxies)]

    def settings_of(self, broker_id: int) -> Mapping[str, str]:
        """Its proxies to the others."""
        internal, client = self._ports[broker_id]
        servers = ",".join(f"127.0.0.1:{proxy.port}" for proxy in self._zookeeper[broker_id])
        return {
            "zookeeper.connect": f"{servers}{self._chroot}",
            "listeners": f"INTERNAL://127.0.0.1:{internal},CLIENT://127.0.0.1:{client}",
            "advertised.listeners": (
                f"INTERNAL://127.0.0.1:{self._internal[broker_id].port},"
                f"CLIENT://127.0.0.1:{self._client[broker_id].port}"
            ),
        }

    def bootstrap(self, *broker_ids: int) -> str:
        """See BrokerCluster.bootstrap."""
        return ",".join(f"127.0.0.1:{self._client[one].port}" for one in broker_ids or BROKERS)

    def owner(self, port: int, to_port: int) -> int | None:
        """The broker whose connection to a port comes from a local port; None if the connection is already closed.

        Connections to different ports may have the same local port.
        """
        for broker_id, broker in self.brokers.items():
            with contextlib.suppress(psutil.Error):
                connections = psutil.Process(broker.pid).net_connections("tcp4")
                if any(one.raddr and (one.laddr.port, one.raddr.port) == (port, to_port) for one in connections):
                    return broker_id
        return None

    # -- links -------------------------------------------------------------------------------------------------------

    def cut_from_zookeeper(self, broker_id: int, *, silently: bool) -> None:
        """Disconnect a broker from ZooKeeper: refuse connections, or stop forwarding."""
        for proxy in self._zookeeper[broker_id]:
            if silently:
                proxy.stall()
            else:
                proxy.cut()

    async def heal_zookeeper(self, broker_id: int) -> None:
        """Reconnect a broker to ZooKeeper."""
        for proxy in self._zookeeper[broker_id]:
            proxy.drop()
            await proxy.heal()

    def cut_from_clients(self, broker_id: int) -> None:
        """Disconnect clients from a broker, except clients that do not use the proxy."""
        self._client[broker_id].cut()

    async def heal_clients(self, broker_id: int) -> None:
        """Reconnect clients to it."""
        await self._client[broker_id].heal()

    def cut_from_brokers(self, broker_id: int) -> None:
        """Cut the links between a broker and all others, both ways."""
        for other in self._internal.keys() - {broker_id}:
            self._internal[other].refuse(broker_id)
            self._internal[broker_id].refuse(other)

    def heal_brokers(self, broker_id: int) -> None:
        """Restore these links."""
        for other in self._internal.keys() - {broker_id}:
            self._internal[other].admit(broker_id)
            self._internal[broker_id].admit(other)


@contextlib.asynccontextmanager
async def linked_cluster(
    tmp_path: Path, ensemble: RegistryServers, *, security: str = PLAINTEXT, **overrides: str
) -> AsyncIterator[LinkedCluster]:
    """A cluster, ready; killed at the end. Settings have _ for each dot in their names."""
    named = {name.replace("_", "."): value for name, value in overrides.items()}
    cluster = LinkedCluster(tmp_path, named, ensemble, security)
    try:
        await cluster.open(*BROKERS)
        yield cluster
    finally:
        await cluster.close()
