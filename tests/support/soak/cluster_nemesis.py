"""The faults of a whole cluster, in an order that a seed gives: processes, links, disks, clocks, sessions, replicas.

Most go through the control API of `ottla cluster --control-port`. Each lasts until some transactions are committed, or
until those that wait give up; often the next one strikes before all replicas are in sync again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from support.soak.cluster import BROKERS, SoakCluster
from support.transfers.client_process import ClientProcess
from support.transfers.history import Partition
from support.transfers.nemesis import Nemesis


class ClusterNemesis(Nemesis):
    """Strikes brokers, ZooKeepers, links between brokers, disks, clocks and replicas, and clients."""

    def __init__(self, cluster: SoakCluster, partitions: Callable[[], Sequence[Partition]], *parts: Any) -> None:
        """partitions: those of the run. parts: see Nemesis."""
        super().__init__(*parts)
        self._cluster = cluster
        self._partitions = partitions

    def ways(self) -> dict[Callable[[], None], int]:
        """See Nemesis."""
        return {
            self.kill_broker: 4,
            self.pause_broker: 3,
            self.restart_all: 1,
            self.cut_link: 2,
            self.silence_link: 2,
            self.silence_one_direction: 2,
            self.isolate_broker: 2,
            self.cut_clients: 1,
            self.step_clock: 2,
            self.fill_disk: 2,
            self.fail_fsync: 2,
            self.slow_disk: 1,
            self.delay_replication: 1,
            self.expire_session: 2,
            self.kill_zookeeper: 2,
            self.pause_quorum: 1,
            self.move_controller: 1,
            self.move_leaders: 2,
            self.elect_preferred_leaders: 2,
            self.reassign: 3,
            **super().ways(),
        }

    def strike(self, times: int) -> None:
        """See Nemesis. At the end the cluster is whole."""
        super().strike(times)
        self._cluster.heal()
        self.let_go_on(20)

    def _deserted(self) -> list[ClientProcess]:
        """Every client that has ended: a round is long, and the load must not fade away."""
        return [each for each in self._clients if not each.lives and not each.has_successor]

    def any_broker(self) -> int:
        """One of them."""
        return self._rng.choice(BROKERS)

    def _link(self) -> dict[str, int]:
        broker, peer = self._rng.sample(BROKERS, 2)
        return {"broker": broker, "peer": peer}

    def for_a_while(self, *faults: tuple[str, dict[str, Any]]) -> None:
        """Inject faults, let clients go on, end the faults, and half the time wait until all are in sync."""
        told = [self._cluster.try_inject(verb, **options) for verb, options in faults]
        self.let_go_on(30)
        self.pause(self._rng.choice((0.5, 2.0, 8.0)))  # the last one outlasts sessions and replica.lag.time.max.ms
        for one in told:
            self._cluster.end(one)
        if self._rng.random() < 0.5:
            self._cluster.heal()

    # -- brokers and ZooKeepers --------------------------------------------------------------------------------------

    def kill_broker(self) -> None:
        """SIGKILL."""
        self.for_a_while(("kill", {"broker": self.any_broker()}))

    def pause_broker(self) -> None:
        """SIGSTOP, and SIGCONT."""
        self.for_a_while(("pause", {"broker": self.any_broker()}))

    def restart_all(self) -> None:
        """A rolling restart."""
        for broker_id in self._rng.sample(BROKERS, len(BROKERS)):
            self._cluster.heal()
            self._cluster.try_inject("restart", broker=broker_id)
            self.let_go_on(10)

    def expire_session(self) -> None:
        """The ZooKeeper session of a broker ends."""
        self.for_a_while(("expire_session", {"broker": self.any_broker()}))

    def kill_zookeeper(self) -> None:
        """One of three."""
        server = self._rng.choice(self._cluster.ensemble.servers)
        server.kill()
        self.for_a_while()
        if not server.is_running:
            server.start()

    def pause_quorum(self) -> None:
        """Two ZooKeepers of three stand still: nothing is decided, and sessions may expire."""
        servers = self._rng.sample(self._cluster.ensemble.servers, 2)
        for server in servers:
            server.pause()
        self.let_go_on(30)
        self.pause(8.0)
        for server in servers:
            server.resume()

    # -- links -------------------------------------------------------------------------------------------------------

    def cut_link(self) -> None:
        """Two brokers refuse each other."""
        self.for_a_while(("refuse", self._link()))

    def silence_link(self) -> None:
        """Between two brokers nothing arrives."""
        self.for_a_while(("blackhole", self._link()))

    def silence_one_direction(self) -> None:
        """An asymmetric partition."""
        self.for_a_while(("blackhole", self._link() | {"direction": self._rng.choice(("to", "from"))}))

    def isolate_broker(self) -> None:
        """A broker reaches ZooKeeper and clients, and no other broker."""
        self.for_a_while(*self.isolation(self.any_broker()))

    def isolation(self, broker: int) -> list[tuple[str, dict[str, Any]]]:
        """The faults after which a broker reaches no other one."""
        return [("blackhole", {"broker": broker, "peer": one}) for one in BROKERS if one != broker]

    def cut_clients(self) -> None:
        """A broker is not there for clients, and is for the others."""
        self.for_a_while(("refuse", {"broker": self.any_broker()}))

    # -- clocks and disks --------------------------------------------------------------------------------------------

    def step_clock(self) -> None:
        """A clock steps by up to an hour, and back."""
        offset_s = self._rng.choice((-3600.0, -30.0, -1.0, 1.0, 30.0, 3600.0))
        self.for_a_while(("skew_clock", {"broker": self.any_broker(), "offset_s": offset_s}))

    def fill_disk(self) -> None:
        """ENOSPC, at once or some bytes later."""
        room = self._rng.choice((0, 1, 100, 5_000))
        self.for_a_while(("fill_disk", {"broker": self.any_broker(), "room_bytes": room}))

    def fail_fsync(self) -> None:
        """EIO: the log directory is offline, and the broker ends."""
        self.for_a_while(("fail_disk", {"broker": self.any_broker(), "operation": "fsync"}))

    def slow_disk(self) -> None:
        """Every fsync and read takes longer."""
        self.for_a_while(("slow_disk", {"broker": self.any_broker(), "delay_s": 0.2}))

    def delay_replication(self) -> None:
        """A follower fetches late."""
        self.for_a_while(("delay_replication", {"follower": self.any_broker(), "delay_s": 0.5}))

    # -- replicas ----------------------------------------------------------------------------------------------------

    def move_controller(self) -> None:
        """Another broker becomes the controller."""
        self.for_a_while(("move_controller", {}))

    def move_leaders(self) -> None:
        """Other in-sync replicas lead."""
        where = self._partitions()
        chosen = self._rng.sample(where, min(3, len(where)))
        self.for_a_while(*(("move_leader", {"topic": topic, "partition": number}) for topic, number in chosen))

    def elect_preferred_leaders(self) -> None:
        """Each partition is led by its preferred replica again."""
        self._cluster.elect_preferred_leaders(self._partitions())
        self.for_a_while()

    def reassign(self) -> None:
        """A replica is removed from some partitions, and comes back; preferred leaders change."""
        where = self._partitions()
        chosen = self._rng.sample(where, min(3, len(where)))
        self._cluster.reassign({one: self._rng.sample(BROKERS, 2) for one in chosen})
        self.for_a_while()
        self._cluster.restore({one: self._rng.sample(BROKERS, 3) for one in chosen})
