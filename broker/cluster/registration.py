"""Joining the cluster: the cluster id, the broker id, and the registration that makes the broker live."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Sequence

from broker.errors import BrokerStartError
from broker.network.listener import Listener
from broker.settings.config import BrokerConfig
from protocol.uuid import random_uuid, uuid_to_string
from registry.errors import NodeExistsError, NoNodeError
from registry.interface import Create, Registry, Set, Stat
from registry.znodes.brokers import BrokerSequenceIdZnode, BrokerZnode, Endpoint
from registry.znodes.controller import ClusterIdZnode
from replication.inter_broker_protocol import InterBrokerProtocol

NO_ID = -1


class ClusterMembership:
    """A broker's steps in the registry before it serves."""

    def __init__(self, registry: Registry, config: BrokerConfig, now_ms: Callable[[], int], rng: random.Random) -> None:
        self._registry = registry
        self._config = config
        self._now_ms = now_ms
        self._random = rng

    async def cluster_id(self, stored: str | None) -> str:
        """Return the cluster id; the first broker chooses it. stored: the id in the log directories, if any.

        A new registry adopts the id of existing log directories: their cluster continues to exist.
        """
        path = ClusterIdZnode.path()
        try:
            data, _ = await self._registry.get(path)
        except NoNodeError:
            new = stored or uuid_to_string(random_uuid(self._random))
            try:
                await self._registry.create(path, ClusterIdZnode(id=new).encode(), make_parents=True)
            except NodeExistsError:
                data, _ = await self._registry.get(path)
            else:
                return new
        return ClusterIdZnode.decode(data, path).id

    async def broker_id(self, stored: int | None) -> int:
        """Return the broker id: the configured one, else that of the log directories, else the next generated one."""
        config = self._config
        if config.broker_id != NO_ID:
            return config.broker_id
        broker_id = stored
        if broker_id is None:
            if not config.broker_id_generation_enable:
                raise BrokerStartError("broker.id is not set and broker.id.generation.enable is false")
            stat = await self._registry.set(BrokerSequenceIdZnode.TEMPLATE, None)
            broker_id = config.reserved_broker_max_id + stat.version
        config.assign_broker_id(broker_id)
        return broker_id

    async def check_id_is_free(self, broker_id: int, end_own_session: Callable[[int], Awaitable[bool]]) -> None:
        """Raise BrokerStartError if a broker with this id is alive, or may be.

        A registration of an earlier run ends with its session: `end_own_session` ends that session if it can prove that
        it belonged to this broker. (Kafka's brokers exit then, and can start again when the session has expired.)
        """
        stat = await self._registry.exists(BrokerZnode.path(broker_id))
        if stat is None or stat.ephemeral_owner == self._registry.session_id:
            return
        if not await end_own_session(stat.ephemeral_owner):
            raise _taken(broker_id)

    async def register(self, broker_id: int, listeners: Sequence[Listener]) -> int:
        """Create the broker's ephemeral znode and return its czxid, the broker epoch.

        If the znode was created in this session already, by a transaction whose answer was lost, return its czxid.

        Raises BrokerStartError if another broker with the same id is alive; ConnectionLossError.
        """
        path = BrokerZnode.path(broker_id)
        znode = BrokerZnode(
            endpoints=tuple(
                Endpoint(listener.name, listener.security_protocol, listener.host, listener.port)
                for listener in listeners
            ),
            timestamp_ms=self._now_ms(),
            rack=self._config.broker_rack,
            jmx_port=self._config.ottla_jmx_port,
            version=5 if InterBrokerProtocol(self._config.inter_broker_protocol_version).has_features else 4,
        )
        try:
            results = await self._registry.multi([Create(path, None, ephemeral=True), Set(path, znode.encode())])
        except NodeExistsError:
            own = await self._registry.exists(path)
            if own is None or own.ephemeral_owner != self._registry.session_id:
                raise _taken(broker_id) from None
            return own.czxid
        stat = results[1]
        assert isinstance(stat, Stat)
        return stat.czxid


def _taken(broker_id: int) -> BrokerStartError:
    return BrokerStartError(
        f"a broker with id {broker_id} is registered already: every broker needs its own broker.id"
        " (a broker that has just died stays registered until its session expires, zookeeper.session.timeout.ms)"
    )
