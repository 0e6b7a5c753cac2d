"""What the controller knows: brokers, topics, assignments, leaders. No I/O: the controller reads the registry."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from protocol.uuid import ZERO_UUID
from registry.interface import ANY_VERSION, Check
from registry.znodes.brokers import BrokerZnode
from registry.znodes.controller import ControllerEpochZnode
from registry.znodes.topics import PartitionStateZnode, TopicZnode

TopicPartition = tuple[str, int]


class LiveBroker(NamedTuple):
    """A registered broker. Its epoch is the czxid of the registration: a restarted broker has a new one."""

    id: int
    epoch: int
    znode: BrokerZnode


class Leadership(NamedTuple):
    """A partition's state znode and its version, which is Kafka's partition epoch."""

    state: PartitionStateZnode
    partition_epoch: int


class ControllerContext:
    """The cluster as the controller knows it."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Forget everything: the next term reads it again."""
        self.epoch = 0
        self.epoch_version = 0
        """Version of /controller_epoch. Every write checks it, so that a replaced controller can write nothing."""
        self.brokers: dict[int, LiveBroker] = {}
        self.topics: dict[str, TopicZnode] = {}
        self.leaderships: dict[TopicPartition, Leadership] = {}
        self.deleting: set[str] = set()
        """Topics that have a znode under /admin/delete_topics."""
        self.unreadable: set[TopicPartition] = set()
        """Partitions with an invalid state znode: not changed until it is repaired."""
        self.unreadable_topics: set[str] = set()
        self.offline_dirs: dict[int, set[TopicPartition]] = {}
        """By live broker: its replicas in failed log directories."""
        self.shutting_down: set[int] = set()
        """Live brokers that have sent ControlledShutdown: they are not elected any more."""
        self.stopped: dict[int, set[TopicPartition]] = {}
        """By live broker: replicas that it was told to stop. It is sent nothing about them until it registers again."""
        self.topic_versions: dict[str, int] = {}
        """Versions of the topics' znodes; this controller's changes name them."""
        self._names: dict[bytes, str] = {}
        """The topics' names, by topic id."""
        self._to_complete: dict[str, None] = {}
        """The topics that may have partitions without a state, in the order in which they were found."""

    def epoch_check(self) -> Check:
        """Return the operation that fails a transaction if another controller has been elected."""
        return Check(ControllerEpochZnode.path(), self.epoch_version)

    def take_topic(self, topic: str, znode: TopicZnode, version: int = ANY_VERSION) -> None:
        """Adopt a new or changed topic.

        Forget the states of partitions that it no longer has; the states of all, if the topic id has changed.
        """
        known = self.topics.get(topic)
        if known is not None:
            is_other = known.topic_id not in (None, znode.topic_id)
            kept = () if is_other else znode.partitions.keys()
            self._forget_states(topic, known.partitions.keys() - kept)
            self._forget_id(known)
        self.topics[topic] = znode
        self.topic_versions[topic] = version
        if znode.topic_id is not None:
            self._names[znode.topic_id] = topic
        self._to_complete[topic] = None

    def topic_id(self, topic: str) -> bytes:
        """Return the topic's id; ZERO_UUID if it has none."""
        znode = self.topics.get(topic)
        return ZERO_UUID if znode is None or znode.topic_id is None else znode.topic_id

    def topic_name(self, topic_id: bytes) -> str | None:
        """Return the name of the topic with this id; None if there is none."""
        return self._names.get(topic_id)

    def replicas(self, key: TopicPartition) -> list[int]:
        """Return the replicas of a partition, the preferred leader first."""
        return self.topics[key[0]].partitions[key[1]]

    def partitions_of(self, topic: str) -> list[TopicPartition]:
        """All partitions of a topic."""
        return [(topic, partition) for partition in sorted(self.topics[topic].partitions)]

    def all_partitions(self) -> Iterable[TopicPartition]:
        """Every partition of the cluster."""
        return (key for topic in self.topics for key in self.partitions_of(topic))

    def without_state(self) -> list[TopicPartition]:
        """Return partitions that are assigned but have never had a leader, unreadable ones included.

        Called after every event, so topics that have all their states are not looked at again.
        """
        found: list[TopicPartition] = []
        for topic in list(self._to_complete):
            missing = [key for key in self.partitions_of(topic) if key not in self.leaderships]
            if missing:
                found += missing
            else:
                del self._to_complete[topic]
        return found

    def with_losses(self) -> list[TopicPartition]:
        """Return partitions with an offline leader or in-sync replica, except those that are being deleted."""
        return [
            key
            for key, leadership in self.leaderships.items()
            if key[0] not in self.deleting and key not in self.unreadable and self._has_losses(key, leadership)
        ]

    def _has_losses(self, key: TopicPartition, leadership: Leadership) -> bool:
        state = leadership.state
        return not self.is_online(state.leader, key) or not all(self.is_online(one, key) for one in state.isr)

    def restarted(self, brokers: Mapping[int, LiveBroker], written: Mapping[TopicPartition, int]) -> set[int]:
        """Return brokers that have restarted while there was no controller, and are therefore still in ISRs.

        A broker in an ISR registered before the state was written. A broker that has registered later may have lost
        unsynced records. It counts only if another in-sync replica was alive throughout, and so has all records.

        brokers: the live brokers. written: by partition, the transaction that wrote its state.
        """
        found: set[int] = set()
        for key, transaction in written.items():
            alive = {one for one in self.leaderships[key].state.isr if one in brokers}
            late = {one for one in alive if brokers[one].epoch > transaction}
            if late != alive:
                found |= late
        return found

    def is_online(self, broker_id: int, key: TopicPartition) -> bool:
        """Return whether the broker is alive and the log directory of its replica has not failed."""
        return broker_id in self.brokers and key not in self.offline_dirs.get(broker_id, ())

    def is_eligible(self, broker_id: int, key: TopicPartition) -> bool:
        """Return whether a replica is online and its broker is not shutting down."""
        return broker_id not in self.shutting_down and self.is_online(broker_id, key)

    def eligible_replicas(self, key: TopicPartition) -> list[int]:
        """Return the replicas of a partition that could lead it."""
        return [replica for replica in self.replicas(key) if self.is_eligible(replica, key)]

    def partition_exists(self, key: TopicPartition) -> bool:
        """Return whether the topic's znode has this partition."""
        znode = self.topics.get(key[0])
        return znode is not None and key[1] in znode.partitions

    def is_reassigning(self, key: TopicPartition) -> bool:
        """Return whether a reassignment of the partition is in progress."""
        znode = self.topics[key[0]]
        return bool(znode.adding_replicas.get(key[1]) or znode.removing_replicas.get(key[1]))

    def reassigning(self) -> list[TopicPartition]:
        """Return all partitions with a reassignment in progress, except those of topics that are being deleted."""
        return [
            (topic, partition)
            for topic, znode in self.topics.items()
            if topic not in self.deleting
            for partition in sorted({*znode.adding_replicas, *znode.removing_replicas})
            if self.is_reassigning((topic, partition))
        ]

    def led_by(self, broker_id: int) -> list[TopicPartition]:
        """Return the partitions with several replicas that a broker leads."""
        return [
            key
            for key, leadership in self.leaderships.items()
            if leadership.state.leader == broker_id and key[0] not in self.deleting and len(self.replicas(key)) > 1
        ]

    def broker_removed(self, broker_id: int) -> None:
        """Forget what belonged to the broker's registration, which has ended."""
        self.offline_dirs.pop(broker_id, None)
        self.shutting_down.discard(broker_id)
        self.stopped.pop(broker_id, None)

    def partitions_on(self, broker_id: int) -> list[TopicPartition]:
        """Return the partitions that have a replica on the broker."""
        return [key for key in self.all_partitions() if broker_id in self.replicas(key)]

    def forget(self, topic: str) -> None:
        """Forget a topic that no longer exists."""
        znode = self.topics.pop(topic, None)
        self.topic_versions.pop(topic, None)
        self.deleting.discard(topic)
        self._to_complete.pop(topic, None)
        if znode is not None:
            self._forget_states(topic, znode.partitions)
            self._forget_id(znode)

    def forget_state(self, key: TopicPartition) -> None:
        """Forget the state of a partition, whose znode does not exist."""
        self.leaderships.pop(key, None)
        self.unreadable.discard(key)
        if key[0] in self.topics:
            self._to_complete[key[0]] = None

    def _forget_states(self, topic: str, partitions: Iterable[int]) -> None:
        replicas = [*self.offline_dirs.values(), *self.stopped.values()]
        for partition in partitions:
            key = (topic, partition)
            self.leaderships.pop(key, None)
            self.unreadable.discard(key)
            for keys in replicas:
                keys.discard(key)

    def _forget_id(self, znode: TopicZnode) -> None:
        if znode.topic_id is not None:
            self._names.pop(znode.topic_id, None)

    def offline_replicas(self, key: TopicPartition) -> list[int]:
        """Return replicas in failed log directories, and on brokers that are not alive or are shutting down."""
        return [replica for replica in self.replicas(key) if not self.is_eligible(replica, key)]
