"""A cluster on a network: each broker and each ZooKeeper is on a host of its own, and links lose packets.

The clients are at the hub. So are the brokers at first, as `ottla cluster` knows the loopback interface only. They move
to their hosts by a restart (`on_host/sitecustomize.py`).
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from ottla.zookeeper.files import Peer, write_configuration
from ottla.zookeeper.server import ZooKeeperEnsemble, ZooKeeperServer
from support.soak.cluster import BROKERS, SoakCluster
from support.soak.cluster_nemesis import ClusterNemesis
from support.soak.network import OWN, Host, Network
from support.transfers.history import Partition

ZOOKEEPERS: Final = ("zookeeper-1", "zookeeper-2", "zookeeper-3")
_HERE: Final = Path(__file__).parent


def host_of(broker_id: int) -> str:
    """The name of a broker's host."""
    return f"broker-{broker_id}"


class HostedCluster(SoakCluster):
    """See `SoakCluster`. This process must have entered a network namespace of its own."""

    def __init__(self, directory: Path) -> None:
        self.network = Network([*map(host_of, BROKERS), *ZOOKEEPERS])
        self.network.__enter__()
        hosts = self.network.hosts
        ensemble = HostedEnsemble(directory / "zookeepers", [hosts[name] for name in ZOOKEEPERS])
        self._namespaces = directory / "namespaces.json"
        os.environ[OWN] = str(self._namespaces)
        super().__init__(directory, ensemble, [_HERE / "on_host", _HERE.parents[1]])

    def __exit__(self, *_: object) -> None:
        super().__exit__()
        self.network.__exit__()

    def move_brokers(self) -> None:
        """See `SoakCluster`."""
        hosts = {str(self.properties(one)): self.network.hosts[host_of(one)].namespace for one in BROKERS}
        self._namespaces.write_text(json.dumps(hosts))
        super().move_brokers()

    def settings_of(self, broker_id: int) -> Mapping[str, str]:
        """See `SoakCluster`. The ports differ, because the faults of the control API tell brokers by them."""
        address = self.network.hosts[host_of(broker_id)].address
        return {
            "listeners": f"PLAINTEXT://{address}:{9090 + broker_id}",
            "ottla.console.listener": f"{address}:8080",
            "ottla.console.open": "metrics",
        }

    def heal_links(self) -> None:
        """See `SoakCluster`."""
        self.network.heal()

    def nemesis(self, partitions: Callable[[], Sequence[Partition]], *parts: Any) -> ClusterNemesis:
        """See `SoakCluster`."""
        return PacketNemesis(self.network, self, partitions, *parts)


class HostedEnsemble(ZooKeeperEnsemble):
    """ZooKeepers, one on each of some hosts."""

    def __init__(self, data_dir: Path, hosts: Sequence[Host]) -> None:
        super().__init__(data_dir, nodes=len(hosts), sync=False)
        self._hosts = hosts

    def _configure(self) -> None:
        peers = [Peer(host.address, 2888, 3888) for host in self._hosts]
        self.servers = []
        for number, host in enumerate(self._hosts, 1):
            server = HostedZooKeeper(self.data_dir / f"node-{number}", host)
            write_configuration(server.folder, number, peers, listen=server.host, port=server.port, sync=False)
            self.servers.append(server)


class HostedZooKeeper(ZooKeeperServer):
    """One of them."""

    def __init__(self, folder: Path, host: Host) -> None:
        super().__init__(folder, 2181, host=host.address)
        self._on = host

    def command(self) -> list[str]:
        """See `ServerProcess`."""
        return self._on.command(super().command())


class PacketNemesis(ClusterNemesis):
    """Loses packets, too. What was sent over a connection meanwhile is sent again by the kernel, some seconds later."""

    def __init__(self, network: Network, *parts: Any) -> None:
        """parts: see ClusterNemesis."""
        super().__init__(*parts)
        self._network = network

    def ways(self) -> dict[Callable[[], None], int]:
        """See Nemesis."""
        return {
            self.part_brokers: 2,
            self.lose_one_direction: 3,
            self.part_from_brokers: 2,
            self.part_from_zookeepers: 2,
            self.lose_answers_of_zookeepers: 2,
            self.part_zookeepers: 2,
            self.split: 2,
            self.unplug_broker: 2,
            self.unplug_zookeeper: 1,
            **super().ways(),
        }

    def _broker(self) -> str:
        return host_of(self.any_broker())

    def _others(self, broker: str) -> list[str]:
        return [host_of(one) for one in BROKERS if host_of(one) != broker]

    def _lasts(self) -> None:
        self.for_a_while()
        self._network.heal()

    def part_brokers(self) -> None:
        """Two brokers do not reach each other."""
        one, other = self._rng.sample(BROKERS, 2)
        self._network.part([host_of(one)], [host_of(other)])
        self._lasts()

    def lose_one_direction(self) -> None:
        """What one broker sends to another one is lost; connections stay, and time out."""
        one, other = self._rng.sample(BROKERS, 2)
        self._network.lose(host_of(one), host_of(other))
        self._lasts()

    def part_from_brokers(self) -> None:
        """A broker reaches the ZooKeepers and clients, and no other broker."""
        broker = self._broker()
        self._network.part([broker], self._others(broker))
        self._lasts()

    def part_from_zookeepers(self) -> None:
        """A broker reaches the others and clients, and one or no ZooKeeper."""
        self._network.part([self._broker()], self._rng.sample(ZOOKEEPERS, self._rng.choice((2, 3))))
        self._lasts()

    def lose_answers_of_zookeepers(self) -> None:
        """A broker is heard by the ZooKeepers, and does not hear them."""
        broker = self._broker()
        for name in ZOOKEEPERS:
            self._network.lose(name, broker)
        self._lasts()

    def part_zookeepers(self) -> None:
        """A ZooKeeper, perhaps their leader, does not reach the others; brokers reach all."""
        one, *others = self._rng.sample(ZOOKEEPERS, 3)
        self._network.part([one], others)
        self._lasts()

    def split(self) -> None:
        """A broker and a ZooKeeper are on one side, all others on the other; clients reach both sides."""
        broker = self._broker()
        one, *others = self._rng.sample(ZOOKEEPERS, 3)
        self._network.part([broker, one], [*self._others(broker), *others])
        self._lasts()

    def unplug_broker(self) -> None:
        """A machine without a network."""
        self._network.unplug(self._broker())
        self._lasts()

    def unplug_zookeeper(self) -> None:
        """A machine without a network."""
        self._network.unplug(self._rng.choice(ZOOKEEPERS))
        self._lasts()
