"""What verbs act on: the brokers of a cluster, and the places where faults get into them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from broker.broker import Broker
from ottla.testing.faults.errors import FaultError
from ottla.testing.faults.request_faults import RequestFaults


class FaultyMember(Protocol):
    """One broker of a cluster that faults are injected into."""

    @property
    def broker(self) -> Broker | None:
        """The broker; None while it is stopped."""


class FaultyCluster(Protocol):
    """A cluster that faults are injected into."""

    @property
    def brokers(self) -> Mapping[int, FaultyMember]:
        """The brokers by id, also those that are stopped."""


class Scene:
    """A cluster, and where faults get into its brokers. The brokers must have been started with these parts."""

    def __init__(self, cluster: FaultyCluster) -> None:
        self.cluster = cluster
        self.requests = RequestFaults()
        """The handlers of all brokers: `requests.wrapper(broker_id)` is what they are started with."""

    def member(self, broker_id: int) -> FaultyMember:
        """Return a broker by its id. Raises FaultError for an unknown one."""
        try:
            return self.cluster.brokers[broker_id]
        except KeyError:
            known = ", ".join(map(str, sorted(self.cluster.brokers)))
            raise FaultError(f"broker={broker_id}: the cluster has no broker with this id; it has {known}") from None

    def running(self, broker_id: int) -> Broker:
        """Return a broker that runs. Raises FaultError."""
        broker = self.member(broker_id).broker
        if broker is None:
            raise FaultError(f"broker={broker_id}: the broker does not run")
        return broker
