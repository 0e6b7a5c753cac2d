"""What a broker of Ottla tells the console that it serves, and no request of Kafka's protocol answers.

`console/` defines this interface and imports nothing of the broker; `broker/console/inside.py` implements it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from console.inspection.rebalances import RebalanceInspection
    from console.inspection.registry import RegistryInspection
    from console.inspection.replication import ReplicationInspection
    from console.inspection.storage import StorageInspection


class Traffic(NamedTuple):
    """Counters of one broker since its start."""

    requests: int
    produced_bytes: int
    fetched_bytes: int


class ApiStatistics(NamedTuple):
    """The requests of one API since the broker's start: counts, bytes, and seconds until the answer.

    `p99_seconds` is the upper bound of the bucket with the 99th percentile; None if it is slower than all bounds.
    """

    api: str
    requests: int
    errors: int
    request_bytes: int
    response_bytes: int
    mean_seconds: float
    p99_seconds: float | None


class BrokerStatistics(NamedTuple):
    """What a broker counts. `connections` are those that are open now, by listener."""

    connections: dict[str, int]
    rejected_frames: int
    delayed_fetches: int
    delayed_produces: int
    apis: list[ApiStatistics]


class Inside(Protocol):
    """One broker, as its own console sees it."""

    @property
    def broker_id(self) -> int:
        """The id of the broker."""

    @property
    def registry(self) -> RegistryInspection:
        """The tree in ZooKeeper, or in the embedded registry."""

    @property
    def storage(self) -> StorageInspection:
        """The files of the broker's logs."""

    @property
    def replication(self) -> ReplicationInspection:
        """How far replicas are."""

    @property
    def rebalances(self) -> RebalanceInspection:
        """What happens in groups."""

    def traffic(self) -> Traffic:
        """Return the counters for charts. It is called every ten seconds, for an hour after somebody has looked."""

    def statistics(self) -> BrokerStatistics:
        """Return the network and request statistics."""
