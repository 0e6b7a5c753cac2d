"""What this broker tells its own console, and no request of Kafka's protocol answers."""

from __future__ import annotations

from collections.abc import Mapping

from broker.console.statistics import statistics, traffic
from broker.inspection.rebalances import Rebalances
from broker.inspection.registry import RegistryTree
from broker.inspection.replication import Replication
from broker.inspection.storage import LogStorage
from broker.network.acceptor import Acceptor
from broker.services import Services
from console.inside import BrokerStatistics, Traffic


class BrokerInside:
    """Implements `console.inside.Inside` for one broker."""

    def __init__(self, services: Services, acceptors: Mapping[str, Acceptor]) -> None:
        self._services = services
        self._acceptors = acceptors
        self.registry = RegistryTree(services.registry_access.registry)
        self.storage = LogStorage(services)
        self.replication = Replication(services)
        self.rebalances = Rebalances(services)

    @property
    def broker_id(self) -> int:
        """See `Inside`."""
        return self._services.broker_id

    def traffic(self) -> Traffic:
        """See `Inside`."""
        return traffic(self._services)

    def statistics(self) -> BrokerStatistics:
        """See `Inside`."""
        return statistics(self._services, self._acceptors)
