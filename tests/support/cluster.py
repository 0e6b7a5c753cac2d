"""A cluster of brokers for tests: processes that share a chroot of the tests' ZooKeeper.

Brokers keep their port, directory and id over restarts, so that bootstrap addresses stay true. Their sessions time out
after a few seconds, so that a killed broker is missed soon.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
from collections.abc import AsyncIterator, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from client.admin.admin import Admin
from registry.errors import NoNodeError
from registry.zookeeper.address import ZooKeeperAddress
from registry.zookeeper.registry import ZooKeeperRegistry
from registry.zookeeper.security import UNSECURED
from registry.zookeeper.session import end_session
from support.broker import BrokerProcess
from support.broker_sessions import session_of
from support.cluster_security import PLAINTEXT, ClusterSecurity
from support.polling import until
from support.secured_zookeeper import SecuredEnsemble
from support.wire import WireClient
from support.zookeeper import new_chroot, shared_zookeeper

SESSION_TIMEOUT_MS = 4_000
"""ZooKeeper takes two of its ticks at least; those of the tests' servers are short."""


class Servers(Protocol):
    """Where znodes are: an ensemble, or one of the ports of its servers."""

    @property
    def connect(self) -> str:
        """The servers in the form of `zookeeper.connect`."""


class BrokerCluster:
    """Broker processes by id, and our own look at their tree."""

    listeners: tuple[str, ...] = ()
    """The names of the listeners; brokers use the first one. Empty: one listener with the name of its protocol."""

    def __init__(
        self,
        tmp_path: Path,
        overrides: Mapping[str, str],
        zookeeper: Servers | None = None,
        security: str = PLAINTEXT,
    ) -> None:
        """zookeeper: the servers, if not those that all tests share. security: a kind of `support.cluster_security`."""
        servers = zookeeper or shared_zookeeper()
        self.security = ClusterSecurity(security, tmp_path / "stores")
        self._listener, *others = self.listeners or (self.security.protocol,)
        self.connect = f"{servers.connect}{new_chroot()}"
        is_secured = isinstance(servers, SecuredEnsemble)
        self.zookeeper_settings: dict[str, str] = servers.settings if is_secured else {}
        """How brokers connect to the servers."""
        self._zookeeper_security = servers.security if is_secured else UNSECURED
        self.registry = ZooKeeperRegistry(ZooKeeperAddress.parse(self.connect), security=self._zookeeper_security)
        self.brokers: dict[int, BrokerProcess] = {}
        self._tmp_path = tmp_path
        self._overrides = {
            "zookeeper.connect": self.connect,
            "zookeeper.session.timeout.ms": str(SESSION_TIMEOUT_MS),
            "offsets.topic.num.partitions": "3",
            "transaction.state.log.num.partitions": "3",
            **self.zookeeper_settings,
            **self.security.of_brokers(self._listener, *others),
            **overrides,
        }

    # -- processes ---------------------------------------------------------------------------------------------------

    async def start(self, *broker_ids: int, **overrides: str) -> None:
        """Start new or stopped brokers at the same time, and wait until all are ready.

        `overrides` are settings of new ones (names have _ for each dot).
        """
        named = {name.replace("_", "."): value for name, value in overrides.items()}
        for broker_id in broker_ids:
            if broker_id not in self.brokers:
                settings = self._overrides | {"broker.id": str(broker_id)} | self.settings_of(broker_id) | named
                folder = self._tmp_path / f"broker-{broker_id}"
                self.brokers[broker_id] = BrokerProcess(folder, settings, listener=self._listener)
            await asyncio.to_thread(self.brokers[broker_id].launch)
        await asyncio.gather(*(asyncio.to_thread(self.brokers[one].wait_ready) for one in broker_ids))
        await self.acquainted(*broker_ids)

    async def acquainted(self, *broker_ids: int) -> None:
        """Wait until each of these brokers has the others in its metadata."""
        for broker_id in broker_ids:
            await until(partial(self._knows, broker_id, set(broker_ids)), f"broker {broker_id} knows the others")

    def settings_of(self, broker_id: int) -> Mapping[str, str]:
        """The settings of one broker."""
        return {}

    async def _knows(self, broker_id: int, others: set[int]) -> bool:
        async with Admin(**self.options(broker_id)) as admin:
            return others <= {broker.node_id for broker in (await admin.describe_cluster()).brokers}

    async def stop(self, broker_id: int) -> None:
        """SIGTERM, and wait: a clean stop."""
        code = await asyncio.to_thread(self.brokers[broker_id].stop)
        assert code == 0, self.brokers[broker_id].log_text()

    async def kill(self, broker_id: int) -> None:
        """SIGKILL, and wait. The session continues until it times out."""
        await asyncio.to_thread(self.brokers[broker_id].kill)

    async def kill_and_expire(self, broker_id: int) -> None:
        """SIGKILL, and end the session at once."""
        await self.kill(broker_id)
        await self.expire_session(broker_id)

    def pause(self, broker_id: int) -> None:
        """SIGSTOP."""
        self._signal(broker_id, signal.SIGSTOP)

    def resume(self, broker_id: int) -> None:
        """SIGCONT."""
        self._signal(broker_id, signal.SIGCONT)

    def _signal(self, broker_id: int, number: signal.Signals) -> None:
        process = self.brokers[broker_id].process
        assert process is not None
        process.send_signal(number)

    async def expire_session(self, broker_id: int) -> None:
        """End a broker's session as if it had timed out."""
        await self.end_session(session_of(self._tmp_path / f"broker-{broker_id}"))

    async def end_session(self, credentials: tuple[int, bytes]) -> None:
        """End the session of a broker or of another client as if it had timed out."""
        address = ZooKeeperAddress.parse(self.connect)
        assert await end_session(address, credentials, 10_000, self._zookeeper_security)

    async def close(self) -> None:
        """Kill all processes that still run."""
        for process in self.brokers.values():
            if process.process is not None and process.process.poll() is None:
                await asyncio.to_thread(process.kill)
        await self.registry.close()

    # -- what is there -----------------------------------------------------------------------------------------------

    def bootstrap(self, *broker_ids: int) -> str:
        """The bootstrap addresses of the given brokers, or of all."""
        return ",".join(self.brokers[one].bootstrap for one in broker_ids or self.brokers)

    def options(self, *broker_ids: int) -> dict[str, Any]:
        """The options of Ottla's clients for the given brokers, or for all."""
        return {"bootstrap_servers": self.bootstrap(*broker_ids), **self.security.of_clients()}

    def wire(self, broker_id: int) -> contextlib.AbstractAsyncContextManager[WireClient]:
        """A client of one broker on the level of frames."""
        return self.security.wire(self.brokers[broker_id].bootstrap)

    async def open(self, *broker_ids: int) -> None:
        """Add what brokers need in the registry, and start them."""
        await self.registry.start()
        await self.security.prepare(self.registry)
        await self.start(*broker_ids)

    async def znode(self, path: str) -> Any:
        """A znode's JSON; None if there is no node or no data."""
        try:
            data, _ = await self.registry.get(path)
        except NoNodeError:
            return None
        return None if data is None else json.loads(data)

    async def state(self, topic: str, partition: int = 0) -> Any:
        """A partition's state znode; {} if there is none."""
        return await self.znode(f"/brokers/topics/{topic}/partitions/{partition}/state") or {}

    async def until_led_by(self, leader: int, topic: str, partition: int = 0) -> None:
        """Wait until the state znode names this leader (-1: none)."""

        async def is_led() -> bool:
            return bool((await self.state(topic, partition)).get("leader") == leader)

        await until(is_led, f"{topic}-{partition} is led by {leader}")

    async def controller(self) -> int:
        """The controller's broker id; -1 if there is none."""
        znode = await self.znode("/controller")
        return -1 if znode is None else int(znode["brokerid"])

    async def live(self) -> set[int]:
        """The ids of the registered brokers."""
        try:
            return {int(name) for name in await self.registry.children("/brokers/ids")}
        except NoNodeError:
            return set()

    async def sessions(self) -> dict[int, int]:
        """The sessions of the registered brokers, by broker id."""
        found = {one: await self.registry.exists(f"/brokers/ids/{one}") for one in await self.live()}
        return {one: stat.ephemeral_owner for one, stat in found.items() if stat is not None}

    async def create_topic(
        self, topic: str, assignment: Mapping[int, Iterable[int]], configs: Mapping[str, str] | None = None
    ) -> None:
        """Create a topic with these replicas by partition, and wait for its leaders."""
        async with Admin(**self.options(*await self.live())) as admin:
            replicas = {partition: list(brokers) for partition, brokers in assignment.items()}
            await admin.create_topic(topic, assignment=replicas, configs=dict(configs or {}))

        async def is_led() -> bool:
            return all([(await self.state(topic, partition)).get("leader", -1) >= 0 for partition in assignment])

        await until(is_led, f"{topic} has leaders")


@contextlib.asynccontextmanager
async def broker_cluster(
    tmp_path: Path,
    brokers: int = 3,
    *,
    security: str = PLAINTEXT,
    zookeeper: Servers | None = None,
    **overrides: str,
) -> AsyncIterator[BrokerCluster]:
    """A cluster of brokers 0, 1, …, all ready; killed at the end. Settings have _ for each dot in their names.

    zookeeper: see BrokerCluster.
    """
    named = {name.replace("_", "."): value for name, value in overrides.items()}
    cluster = BrokerCluster(tmp_path, named, zookeeper, security)
    try:
        await cluster.open(*range(brokers))
        yield cluster
    finally:
        await cluster.close()
