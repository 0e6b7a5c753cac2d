"""What the controller knows: brokers, topics, assignments, leaders. No I/O: the controller reads, this remembers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from protocol.uuid import ZERO_UUID
from registry.interface import ANY_VERSION, Check
from registry.znodes.brokers import BrokerZnode
from registry.znodes.controller import ControllerEpochZnode
from registry.znodes.topics import PartitionStateZnode, TopicZnode

TopicPartition = tuple[str, int]


class LiveBroker(NamedTuple):
    """A registered broker. Its epoch is the czxid of the registration: a restart has a new one."""

    id: int
    epoch: int
    znode: BrokerZnode


class Leadership(NamedTuple):
    """A partition's state znode, and its version, which is Kafka's partition epoch."""

    state: PartitionStateZnode
    partition_epoch: int


class ControllerContext:
    """The controller's picture of the cluster."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Forget everything: the next term begins by reading."""
        self.epoch = 0
        self.epoch_version = 0
        """Version of /controller_epoch: every write names it, so that a replaced controller can write nothing."""
        self.brokers: dict[int, LiveBroker] = {}
        self.topics: dict[str, TopicZnode] = {}
        self.leaderships: dict[TopicPartition, Leadership] = {}
        self.deleting: set[str] = set()
        """Topics that have a znode under /admin/delete_topics."""
        self.unreadable: set[TopicPartition] = set()
        """Partitions whose state znode breaks Kafka's rules: left alone until somebody has repaired it."""
        self.unreadable_topics: set[str] = set()
        self.offline_dirs: dict[int, set[TopicPartition]] = {}
        """By live broker: its replicas that are in log directories that have failed."""
        self.shutting_down: set[int] = set()
        """Live brokers that have asked to be relieved (ControlledShutdown): nobody is elected there any more."""
        self.stopped: dict[int, set[TopicPartition]] = {}
        """By live broker: replicas that it was told to stop, so that it hears no more of them in this life."""
        self.topic_versions: dict[str, int] = {}
        """Versions of the topics' znodes, which our own changes name."""

    def epoch_check(self) -> Check:
        """What makes a transaction fail where another controller has been elected."""
        return Check(ControllerEpochZnode.path(), self.epoch_version)

    def take_topic(self, topic: str, znode: TopicZnode, version: int = ANY_VERSION) -> None:
        """A topic is new or has changed. What was known of partitions that it has no more is forgotten."""
        known = self.topics.get(topic)
        is_other = known is not None and known.topic_id not in (None, znode.topic_id)
        self.topics[topic] = znode
        self.topic_versions[topic] = version
        self._forget_states(topic, lambda partition: is_other or partition not in znode.partitions)

    def topic_id(self, topic: str) -> bytes:
        """The topic's id, ZERO_UUID where it has none."""
        znode = self.topics.get(topic)
        return ZERO_UUID if znode is None or znode.topic_id is None else znode.topic_id

    def replicas(self, key: TopicPartition) -> list[int]:
        """The brokers that hold a partition, the preferred leader first."""
        return self.topics[key[0]].partitions[key[1]]

    def partitions_of(self, topic: str) -> list[TopicPartition]:
        """All partitions of a topic."""
        return [(topic, partition) for partition in sorted(self.topics[topic].partitions)]

    def all_partitions(self) -> Iterable[TopicPartition]:
        """Every partition of the cluster."""
        return (key for topic in self.topics for key in self.partitions_of(topic))

    def without_state(self) -> list[TopicPartition]:
        """Partitions that were assigned and never had a leader."""
        return [key for key in self.all_partitions() if key not in self.leaderships]  # unreadable ones included

    def with_losses(self) -> list[TopicPartition]:
        """Partitions whose leader is gone, or an in-sync replica; those that are being deleted need neither."""
        return [
            key
            for key, leadership in self.leaderships.items()
            if key[0] not in self.deleting and key not in self.unreadable and self._has_losses(key, leadership)
        ]

    def _has_losses(self, key: TopicPartition, leadership: Leadership) -> bool:
        state = leadership.state
        return not self.is_online(state.leader, key) or not all(self.is_online(one, key) for one in state.isr)

    def restarted(self, brokers: Mapping[int, LiveBroker], written: Mapping[TopicPartition, int]) -> set[int]:
        """Brokers that were restarted, and that nobody has taken out of the ISRs: there was no controller meanwhile.

        Whoever is in an ISR has been registered since before its state was written. One that registered later may have
        lost what was not synced; that counts where another replica was alive throughout, and has everything.

        brokers: those that are alive. written: the transaction that wrote the state, by partition.
        """
        found: set[int] = set()
        for key, transaction in written.items():
            alive = {one for one in self.leaderships[key].state.isr if one in brokers}
            late = {one for one in alive if brokers[one].epoch > transaction}
            if late != alive:
                found |= late
        return found

    def is_online(self, broker_id: int, key: TopicPartition) -> bool:
        """Whether a broker is alive and the log directory of its replica has not failed."""
        return broker_id in self.brokers and key not in self.offline_dirs.get(broker_id, ())

    def is_eligible(self, broker_id: int, key: TopicPartition) -> bool:
        """Whether a replica is online, and its broker not about to go."""
        return broker_id not in self.shutting_down and self.is_online(broker_id, key)

    def eligible_replicas(self, key: TopicPartition) -> list[int]:
        """The replicas of a partition that could lead it."""
        return [replica for replica in self.replicas(key) if self.is_eligible(replica, key)]

    def partition_exists(self, key: TopicPartition) -> bool:
        """Whether a topic's znode has this partition."""
        znode = self.topics.get(key[0])
        return znode is not None and key[1] in znode.partitions

    def is_reassigning(self, key: TopicPartition) -> bool:
        """Whether a partition is on its way to other replicas."""
        znode = self.topics[key[0]]
        return bool(znode.adding_replicas.get(key[1]) or znode.removing_replicas.get(key[1]))

    def reassigning(self) -> list[TopicPartition]:
        """All partitions that are on their way; deletion ends that."""
        return [
            (topic, partition)
            for topic, znode in self.topics.items()
            if topic not in self.deleting
            for partition in sorted({*znode.adding_replicas, *znode.removing_replicas})
            if self.is_reassigning((topic, partition))
        ]

    def led_by(self, broker_id: int) -> list[TopicPartition]:
        """The partitions that a broker leads and somebody else could."""
        return [
            key
            for key, leadership in self.leaderships.items()
            if leadership.state.leader == broker_id and key[0] not in self.deleting and len(self.replicas(key)) > 1
        ]

    def broker_gone(self, broker_id: int) -> None:
        """What was known of this life of a broker is of no use any more."""
        self.offline_dirs.pop(broker_id, None)
        self.shutting_down.discard(broker_id)
        self.stopped.pop(broker_id, None)

    def partitions_on(self, broker_id: int) -> list[TopicPartition]:
        """The partitions that a broker has a replica of."""
        return [key for key in self.all_partitions() if broker_id in self.replicas(key)]

    def forget(self, topic: str) -> None:
        """The topic does not exist any more."""
        self.topics.pop(topic, None)
        self.topic_versions.pop(topic, None)
        self.deleting.discard(topic)
        self._forget_states(topic, lambda partition: True)

    def _forget_states(self, topic: str, is_gone: Callable[[int], bool]) -> None:
        for key in [key for key in self.leaderships if key[0] == topic and is_gone(key[1])]:
            del self.leaderships[key]
        self.unreadable -= {key for key in self.unreadable if key[0] == topic and is_gone(key[1])}
        for keys in [*self.offline_dirs.values(), *self.stopped.values()]:
            keys -= {key for key in keys if key[0] == topic and is_gone(key[1])}

    def offline_replicas(self, key: TopicPartition) -> list[int]:
        """Replicas on brokers that are not alive or about to go, and in log directories that have failed."""
        return [replica for replica in self.replicas(key) if not self.is_eligible(replica, key)]
