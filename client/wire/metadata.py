"""A client's knowledge of a cluster: an immutable snapshot, replaced after every Metadata answer.

A Metadata answer contains only the requested topics, so a new snapshot is the old one with these topics replaced (or
removed, if the broker says that they do not exist) and with all brokers replaced.

A broker that was paused or disconnected may name old leaders. For a partition of the same topic id, the newest leader
epoch wins (KIP-320).
"""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from client.topic_partition import TopicPartition
from protocol.host_port import HostPort
from protocol.sentinels import NO_LEADER

if TYPE_CHECKING:
    from protocol.messages.metadata import MetadataResponse, MetadataResponseTopic

ZERO_ID = bytes(16)


class BrokerMetadata(NamedTuple):
    """One broker and its address for clients."""

    node_id: int
    host: str
    port: int
    rack: str | None

    @property
    def address(self) -> HostPort:
        """Where clients connect to."""
        return HostPort(self.host, self.port)


class PartitionMetadata(NamedTuple):
    """One partition. `leader` is -1 while there is none, `leader_epoch` -1 if the broker does not report it."""

    partition: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline_replicas: tuple[int, ...]
    error_code: int


class TopicMetadata(NamedTuple):
    """One topic, with its partitions by number. `topic_id` is 16 bytes, zero if the broker does not report it."""

    name: str
    topic_id: bytes
    is_internal: bool
    error_code: int
    partitions: Mapping[int, PartitionMetadata]


class Metadata:
    """A snapshot of a cluster's brokers and of all topics requested so far."""

    __slots__ = ("brokers", "cluster_id", "controller_id", "topics", "topics_by_id")

    def __init__(
        self,
        brokers: Mapping[int, BrokerMetadata] | None = None,
        topics: Mapping[str, TopicMetadata] | None = None,
        controller_id: int = -1,
        cluster_id: str | None = None,
    ) -> None:
        self.brokers: Mapping[int, BrokerMetadata] = brokers or {}
        self.topics: Mapping[str, TopicMetadata] = topics or {}
        self.controller_id = controller_id
        self.cluster_id = cluster_id
        self.topics_by_id: Mapping[bytes, TopicMetadata] = {
            topic.topic_id: topic for topic in self.topics.values() if topic.topic_id != ZERO_ID
        }

    def partition(self, partition: TopicPartition) -> PartitionMetadata | None:
        """A partition's metadata; None if it is unknown."""
        topic = self.topics.get(partition.topic)
        return None if topic is None else topic.partitions.get(partition.partition)

    def leader(self, partition: TopicPartition) -> int | None:
        """The node id of a partition's leader; None if there is none or it is unknown."""
        found = self.partition(partition)
        if found is None or found.leader == NO_LEADER or found.leader not in self.brokers:
            return None
        return found.leader

    def topic_ids_known(self, topics: Iterable[str]) -> bool:
        """Whether all these topics have an id (from brokers 2.8 and later; Fetch version 13 and later needs it)."""
        return all((known := self.topics.get(topic)) is not None and known.topic_id != ZERO_ID for topic in topics)

    def updated(self, response: "MetadataResponse", *, is_everything: bool = False) -> "Metadata":
        """The snapshot after an answer. `is_everything`: the request was for all topics, so there are no others."""
        topics = {} if is_everything else dict(self.topics)
        for answer in response.topics:
            topic = _topic(answer)
            if topic.partitions or topic.error_code == 0:
                topics[topic.name] = _newest(self.topics.get(topic.name), topic)
            else:
                topics.pop(topic.name, None)
        brokers = {
            broker.node_id: BrokerMetadata(broker.node_id, broker.host, broker.port, broker.rack)
            for broker in response.brokers
        }
        return Metadata(brokers, topics, response.controller_id, response.cluster_id)

    def with_leader(self, partition: TopicPartition, topic_id: bytes, leader: int, leader_epoch: int) -> "Metadata":
        """The snapshot with a leader that a broker has named in another answer (KIP-951).

        Unchanged if the topic has another id now, the broker is unknown, or a leader epoch as new as this one is known.
        """
        topic, known = self.topics.get(partition.topic), self.partition(partition)
        if topic is None or known is None or topic.topic_id != topic_id or leader not in self.brokers:
            return self
        if known.leader_epoch >= leader_epoch:
            return self
        led = known._replace(leader=leader, leader_epoch=leader_epoch)
        after = topic._replace(partitions={**topic.partitions, partition.partition: led})
        return Metadata(self.brokers, {**self.topics, topic.name: after}, self.controller_id, self.cluster_id)


def _newest(known: TopicMetadata | None, answered: TopicMetadata) -> TopicMetadata:
    """The answered topic, except for partitions with a newer leader epoch in the known topic."""
    if known is None or known.topic_id != answered.topic_id:
        return answered
    kept = {
        number: before
        for number, partition in answered.partitions.items()
        if (before := known.partitions.get(number)) is not None and before.leader_epoch > partition.leader_epoch
    }
    return answered._replace(partitions={**answered.partitions, **kept}) if kept else answered


def _topic(answer: "MetadataResponseTopic") -> TopicMetadata:
    partitions = {
        partition.partition_index: PartitionMetadata(
            partition.partition_index,
            partition.leader_id,
            partition.leader_epoch,
            tuple(partition.replica_nodes),
            tuple(partition.isr_nodes),
            tuple(partition.offline_replicas),
            partition.error_code,
        )
        for partition in answer.partitions
    }
    return TopicMetadata(
        answer.name or "",
        answer.topic_id,
        answer.is_internal,
        answer.error_code,
        dict(sorted(partitions.items())),
    )
