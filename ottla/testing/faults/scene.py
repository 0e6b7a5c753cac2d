"""What verbs act on: the brokers of a cluster, and the places where faults get into them."""

from __future__ import annotations

from collections.abc import Mapping

from broker.broker import Broker
from ottla.testing.faults.errors import FaultError
from ottla.testing.faults.network import NetworkFaults
from ottla.testing.faults.request_faults import RequestFaults
from ottla.testing.member import Environment, Member


class Scene:
    """The brokers of a cluster, and where faults get into them."""

    def __init__(self, members: Mapping[int, Member]) -> None:
        """members: the brokers by id. Each must have been given its parts by `prepare` before it started."""
        self.members = members
        self.requests = RequestFaults()
        """The requests to all brokers."""
        self.network = NetworkFaults()
        """The connections of all brokers."""

    def prepare(self, broker_id: int, environment: Environment) -> None:
        """Put the parts that have faults into what a broker is started with."""
        environment.network = self.network.network(broker_id, environment.network)
        environment.wrap_handler = self.requests.wrapper(broker_id)

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
