"""What verbs act on: the brokers of a cluster, and the places where faults get into them.

Brokers may be in this process (`Scene`), or each in its own process. Then the verbs for what happens within a
broker are applied in each of these processes, to a `BrokerScene` with this broker alone.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, Protocol

from broker.broker import Broker
from broker.requests.context import RequestContext
from ottla.testing.faults.broker_operations import OPERATIONS
from ottla.testing.faults.clocks import SkewedClock
from ottla.testing.faults.disk_files import DiskRules
from ottla.testing.faults.errors import FaultError
from ottla.testing.faults.network import NetworkFaults
from ottla.testing.faults.openers import Openers
from ottla.testing.faults.request_faults import RequestFaults
from ottla.testing.member import Environment, Member, MemberState
from ottla.testing.requests import CapturedRequest, CapturedRequests, chooser


class ClusterMember(Protocol):
    """A broker of a cluster, in this process or in another one. See `Member`."""

    @property
    def id(self) -> int: ...
    @property
    def state(self) -> MemberState: ...
    @property
    def failure(self) -> BaseException | None: ...
    @property
    def log_dirs(self) -> list[str]: ...
    @property
    def bootstrap_servers(self) -> str: ...
    async def start(self) -> None: ...
    async def stop(self) -> None: ...
    async def kill(self) -> None: ...
    async def pause(self) -> None: ...
    async def resume(self) -> None: ...


class ClusterScene(ABC):
    """The brokers of a cluster as processes that start, stop and answer questions."""

    members: Mapping[int, ClusterMember]
    """By id."""

    def member(self, broker_id: int) -> ClusterMember:
        """Return a broker by its id. Raises FaultError for an unknown one."""
        require_known(broker_id, self.members)
        return self.members[broker_id]

    @abstractmethod
    async def ask(self, broker_id: int, operation: str, *arguments: Any) -> Any:
        """Run one of `OPERATIONS` in a broker that runs. Raises FaultError."""

    @abstractmethod
    async def requests_seen(self, chosen: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Return captured requests as JSON. chosen: the options of `requests.chooser`."""


class HasBroker(Protocol):
    """A broker in this process."""

    @property
    def id(self) -> int: ...
    @property
    def log_dirs(self) -> list[str]: ...
    @property
    def broker(self) -> Broker | None: ...


class BrokerScene:
    """Brokers of this process, and where faults get into them."""

    def __init__(
        self, local: Mapping[int, HasBroker], call: Callable[..., Any], openers: Openers | None = None
    ) -> None:
        """local: the brokers by id. Each must have been given its parts by `prepare` before it started.

        call: runs a coroutine function in the brokers' event loop, from another thread. openers: the connections that
        brokers open; by default those of this process.
        """
        self.local = local
        self.known: Iterable[int] = local.keys()
        """The ids of all brokers of the cluster."""
        self.requests = RequestFaults()
        """The requests to all brokers."""
        self.network = NetworkFaults(openers)
        """The connections of all brokers."""
        self.captured = CapturedRequests(call, self.is_of_broker)
        """The requests that clients have sent."""
        self.disks: dict[int, DiskRules] = {}
        """The disk of each broker."""
        self.clocks: dict[int, SkewedClock] = {}
        """The clock of each broker."""

    def prepare(self, broker_id: int, environment: Environment) -> None:
        """Put the parts that have faults into what a broker is started with."""
        environment.network = self.network.network(broker_id, environment.network)
        with_faults = self.requests.wrapper(broker_id)
        captured = self.captured.wrapper(broker_id, environment.now_ms, partial(self.topic_name, broker_id))
        environment.wrap_handler = lambda api, handler: captured(api, with_faults(api, handler))
        self.disks[broker_id] = disk = DiskRules()
        environment.fs = disk.file_system
        self.clocks[broker_id] = clock = SkewedClock(environment.now_ms)
        environment.now_ms = clock.now_ms

    def is_of_broker(self, context: RequestContext) -> bool:
        """Return whether a broker has sent a request."""
        connection = context.connection
        return self.network.opener(connection.host, connection.port, connection.acceptor.port) is not None

    def topic_name(self, broker_id: int, topic_id: bytes) -> str | None:
        """Return the name of a topic that a broker knows by this id."""
        broker = self.local[broker_id].broker
        return None if broker is None else broker.metadata.snapshot.topic_names.get(topic_id)

    def require(self, *broker_ids: int | None) -> None:
        """Raise FaultError for an id that no broker of the cluster has."""
        for broker_id in broker_ids:
            if broker_id is not None:
                require_known(broker_id, self.known)

    def chosen(self, broker_id: int | None) -> list[int]:
        """Return the ids of the brokers of this process that are meant; None: all. Raises FaultError."""
        self.require(broker_id)
        return list(self.local) if broker_id is None else [broker_id]

    def running(self, broker_id: int) -> Broker:
        """Return a broker that runs. Raises FaultError."""
        self.require(broker_id)
        broker = self.local[broker_id].broker
        if broker is None:
            raise FaultError(f"broker={broker_id}: the broker does not run")
        return broker


class Scene(BrokerScene, ClusterScene):
    """A cluster whose brokers are all in one thread of this process."""

    def __init__(self, members: Mapping[int, Member], call: Callable[..., Any]) -> None:
        """See `BrokerScene`."""
        super().__init__(members, call)
        self.members = members

    async def ask(self, broker_id: int, operation: str, *arguments: Any) -> Any:
        """See `ClusterScene`."""
        return await OPERATIONS[operation](self.running(broker_id), *arguments)

    async def requests_seen(self, chosen: Mapping[str, Any]) -> list[dict[str, Any]]:
        """See `ClusterScene`."""
        return await seen_as_json(self.captured, chosen)


def require_known(broker_id: int, known: Iterable[int]) -> None:
    """Raise FaultError for an id that no broker has."""
    if broker_id not in known:
        listed = ", ".join(map(str, sorted(known)))
        raise FaultError(f"broker={broker_id}: the cluster has no broker with this id; it has {listed}")


async def seen_as_json(captured: CapturedRequests, chosen: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return captured requests as JSON. chosen: the options of `requests.chooser`."""
    return [_as_json(one) for one in await captured.chosen(chooser(**chosen))]


def _as_json(one: CapturedRequest) -> dict[str, Any]:
    return {
        "number": one.number,
        "broker": one.broker,
        "api": one.api,
        "version": one.version,
        "client_id": one.client_id,
        "topics": sorted(one.topics),
        "size_bytes": one.size_bytes,
        "received_ms": one.received_ms,
        "error": None if one.error_code is None else one.error_code.name,
        "is_over": one.is_over,
    }
