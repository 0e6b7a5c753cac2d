"""What this broker tells its own console, and no request of Kafka's protocol answers."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING

from broker.console.statistics import statistics, traffic
from broker.network.acceptor import Acceptor
from broker.services import Services
from console.inside import BrokerStatistics, Traffic

if TYPE_CHECKING:
    from broker.inspection.rebalances import Rebalances
    from broker.inspection.registry import RegistryTree
    from broker.inspection.replication import Replication
    from broker.inspection.storage import LogStorage


class BrokerInside:
    """Implements `console.inside.Inside` for one broker.

    What only the pages *Inside* show is imported when they ask: their models are pydantic's, which takes 100 ms.
    """

    def __init__(self, services: Services, acceptors: Mapping[str, Acceptor]) -> None:
        self._services = services
        self._acceptors = acceptors

    @property
    def broker_id(self) -> int:
        """See `Inside`."""
        return self._services.broker_id

    @cached_property
    def registry(self) -> RegistryTree:
        """See `Inside`."""
        from broker.inspection.registry import RegistryTree

        return RegistryTree(self._services.registry_access.registry)

    @cached_property
    def storage(self) -> LogStorage:
        """See `Inside`."""
        from broker.inspection.storage import LogStorage

        return LogStorage(self._services)

    @cached_property
    def replication(self) -> Replication:
        """See `Inside`."""
        from broker.inspection.replication import Replication

        return Replication(self._services)

    @cached_property
    def rebalances(self) -> Rebalances:
        """See `Inside`."""
        from broker.inspection.rebalances import Rebalances

        return Rebalances(self._services)

    def traffic(self) -> Traffic:
        """See `Inside`."""
        return traffic(self._services)

    def statistics(self) -> BrokerStatistics:
        """See `Inside`."""
        return statistics(self._services, self._acceptors)
