"""What the controller knows: brokers, topics, assignments, leaders. No I/O: the controller reads, this remembers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from protocol.uuid import ZERO_UUID
from registry.broker_znodes import BrokerZnode
from registry.topic_znodes import PartitionStateZnode, TopicZnode

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
        return [key for key in self.all_partitions() if key not in self.leaderships]

    def without_live_leader(self) -> list[TopicPartition]:
        """Partitions whose leader is gone; those that are being deleted need none."""
        return [
            key
            for key, leadership in self.leaderships.items()
            if leadership.state.leader not in self.brokers and key[0] not in self.deleting
        ]

    def forget(self, topic: str) -> None:
        """The topic does not exist any more."""
        self.topics.pop(topic, None)
        self.deleting.discard(topic)
        for key in [key for key in self.leaderships if key[0] == topic]:
            del self.leaderships[key]

    def offline_replicas(self, key: TopicPartition) -> list[int]:
        """Replicas on brokers that are not alive."""
        return [replica for replica in self.replicas(key) if replica not in self.brokers]
