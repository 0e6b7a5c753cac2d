"""What verbs act on: the brokers of a cluster, and the places where faults get into them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from broker.broker import Broker
from broker.requests.context import RequestContext
from ottla.testing.faults.clocks import SkewedClock
from ottla.testing.faults.disk_files import DiskRules
from ottla.testing.faults.errors import FaultError
from ottla.testing.faults.network import NetworkFaults
from ottla.testing.faults.request_faults import RequestFaults
from ottla.testing.member import Environment, Member
from ottla.testing.requests import CapturedRequests


class Scene:
    """The brokers of a cluster, and where faults get into them."""

    def __init__(self, members: Mapping[int, Member], call: Callable[..., Any]) -> None:
        """members: the brokers by id. Each must have been given its parts by `prepare` before it started.

        call: runs a coroutine function in the brokers' event loop, from another thread.
        """
        self.members = members
        self.requests = RequestFaults()
        """The requests to all brokers."""
        self.network = NetworkFaults()
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
        return self.network.opener(context.connection.host, context.connection.port) is not None

    def topic_name(self, broker_id: int, topic_id: bytes) -> str | None:
        """Return the name of a topic that a broker knows by this id."""
        broker = self.member(broker_id).broker
        return None if broker is None else broker.metadata.snapshot.topic_names.get(topic_id)

    def member(self, broker_id: int) -> Member:
        """Return a broker by its id. Raises FaultError for an unknown one."""
        try:
            return self.members[broker_id]
        except KeyError:
            known = ", ".join(map(str, sorted(self.members)))
            raise FaultError(f"broker={broker_id}: the cluster has no broker with this id; it has {known}") from None

    def running(self, broker_id: int) -> Broker:
        """Return a broker that runs. Raises FaultError."""
        broker = self.member(broker_id).broker
        if broker is None:
            raise FaultError(f"broker={broker_id}: the broker does not run")
        return broker
