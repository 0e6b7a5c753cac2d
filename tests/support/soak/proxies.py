"""A cluster on the loopback interface, with proxies between brokers and ZooKeepers for the faults of those links."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ottla.zookeeper.server import ZooKeeperEnsemble
from support.soak.cluster import BROKERS, SoakCluster
from support.soak.cluster_nemesis import ClusterNemesis
from support.soak.zookeeper_links import ZooKeeperLinks
from support.transfers.history import Partition


class ProxiedCluster(SoakCluster):
    """See `SoakCluster`."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory, ZooKeeperEnsemble(directory / "zookeepers", nodes=3, sync=False))
        self.links = ZooKeeperLinks(self.connect, BROKERS)

    def __enter__(self) -> ProxiedCluster:
        self.links.__enter__()
        super().__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        super().__exit__()
        self.links.__exit__()

    def settings_of(self, broker_id: int) -> Mapping[str, str]:
        """See `SoakCluster`."""
        return {"zookeeper.connect": self.links.connect(broker_id)}

    def heal_links(self) -> None:
        """See `SoakCluster`."""
        self.links.heal()

    def nemesis(self, partitions: Callable[[], Sequence[Partition]], *parts: Any) -> ClusterNemesis:
        """See `SoakCluster`."""
        return ProxiedNemesis(self.links, self, partitions, *parts)


class ProxiedNemesis(ClusterNemesis):
    """Strikes the links to ZooKeepers, too."""

    def __init__(self, links: ZooKeeperLinks, *parts: Any) -> None:
        """parts: see ClusterNemesis."""
        super().__init__(*parts)
        self._links = links

    def ways(self) -> dict[Callable[[], None], int]:
        """See Nemesis."""
        return {self.unplug_broker: 2, self.cut_from_zookeeper: 2, self.silence_zookeeper: 2, **super().ways()}

    def unplug_broker(self) -> None:
        """A machine without a network."""
        broker = self.any_broker()
        self._links.silence(broker, answers_only=False)
        self.for_a_while(*self.isolation(broker), ("blackhole", {"broker": broker}))
        self._links.heal()

    def cut_from_zookeeper(self) -> None:
        """The ZooKeepers refuse a broker, which reaches the others and clients."""
        self._links.cut(self.any_broker())
        self.for_a_while()
        self._links.heal()

    def silence_zookeeper(self) -> None:
        """A broker hears nothing from the ZooKeepers; what it sends arrives at once, or when it hears of them again."""
        self._links.silence(self.any_broker(), answers_only=self._rng.random() < 0.5)
        self.for_a_while()
        self._links.heal()
