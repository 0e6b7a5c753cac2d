"""The two trees for the group of a ZooKeeper consumer: that of Kafka 0.8 and later, and that of 0.7.

A rebalance is the same in both (`rebalance`). They differ in the registration of a consumer, in how brokers and
partitions are found, in the partitions' names, and in the nodes of owners and offsets (`offset_nodes`).

In 0.7's tree a partition belongs to a broker: `[broker]-[number]`. The brokers of today's cluster publish such a tree
(`ottla.zookeeper.legacy07.chroot`), in which a broker's partitions are those that it leads. So when the leader changes,
the partition's name changes, and two consumers with different views may claim one partition under two names. Therefore
a claim there has two locks, one for the name and one for the partition.
"""

import asyncio
import logging
import time
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from client.topic_partition import TopicPartition
from client.wire.security_options import PLAINTEXT
from client.zookeeper.tree import WatchedTree
from protocol.host_port import HostPort
from registry.interface import Registry
from registry.znodes.brokers import BrokerZnode
from registry.znodes.consumers import ConsumerOwnerZnode, ConsumerZnode
from registry.znodes.legacy07 import (
    LegacyBrokerTopicZnode,
    LegacyBrokerZnode,
    LegacyConsumerZnode,
    LegacyOwnerZnode,
    LegacyPartitionOwnerZnode,
    LegacyPartitionsZnode,
)
from registry.znodes.topics import TopicZnode

logger = logging.getLogger(__name__)


class Member(NamedTuple):
    """A consumer's subscription: topics with their numbers of threads, or one pattern with its number."""

    subscription: Mapping[str, int]
    pattern: str


class Layout(Protocol):
    """The format of a group's tree. Methods that decode raise ZnodeFormatError."""

    def registration(self, member: Member) -> bytes:
        """The content of a consumer's node among the ids."""

    def member(self, data: bytes, path: str) -> Member:
        """Decode the content of a consumer's node."""

    def address(self, data: bytes, path: str) -> HostPort | None:
        """The address of a broker's PLAINTEXT listener, from its node; None if it has none."""

    async def partitions(self, tree: WatchedTree, topic: str) -> dict[int, str]:
        """The names of a topic's partitions in the tree, by number, in the order of the assignment."""

    def owners(self, group: str, partition: TopicPartition, name: str) -> tuple[str, ...]:
        """The nodes that a consumer creates to own a partition."""


class TodaysLayout:
    """The tree of Kafka 0.8 and later. security_protocol: of the listeners to connect to."""

    def __init__(self, security_protocol: str = PLAINTEXT) -> None:
        self._security_protocol = security_protocol

    def registration(self, member: Member) -> bytes:
        """Version 1, with the time of the registration."""
        return ConsumerZnode(
            subscription=dict(member.subscription), pattern=member.pattern, timestamp_ms=time.time_ns() // 1_000_000
        ).encode()

    def member(self, data: bytes, path: str) -> Member:
        """Decode a consumer's node."""
        consumer = ConsumerZnode.decode(data, path)
        return Member(consumer.subscription, consumer.pattern)

    def address(self, data: bytes, path: str) -> HostPort | None:
        """The address of the first listener with the security protocol."""
        for endpoint in BrokerZnode.decode(data, path).endpoints:
            if endpoint.security_protocol == self._security_protocol and endpoint.host is not None:
                return HostPort(endpoint.host, endpoint.port)
        return None

    async def partitions(self, tree: WatchedTree, topic: str) -> dict[int, str]:
        """The partitions' numbers as names, in order."""
        path = TopicZnode.path(topic)
        data = await tree.data(path)
        return (
            {} if data is None else {number: str(number) for number in sorted(TopicZnode.decode(data, path).partitions)}
        )

    def owners(self, group: str, partition: TopicPartition, name: str) -> tuple[str, ...]:
        """The single owner node."""
        return (ConsumerOwnerZnode.path(group, *partition),)


class Legacy07Layout:
    """The tree of Kafka 0.7, as brokers publish it. A broker has one address there, whatever its protocol is."""

    def __init__(self, security_protocol: str = PLAINTEXT) -> None:
        self._warned: set[str] = set()

    def registration(self, member: Member) -> bytes:
        """Only the subscription."""
        return LegacyConsumerZnode(subscription=dict(member.subscription), pattern=member.pattern).encode()

    def member(self, data: bytes, path: str) -> Member:
        """Decode a consumer's node."""
        consumer = LegacyConsumerZnode.decode(data, path)
        return Member(consumer.subscription, consumer.pattern)

    def address(self, data: bytes, path: str) -> HostPort | None:
        """The broker's only address."""
        broker = LegacyBrokerZnode.decode(data, path)
        return HostPort(broker.host, broker.port)

    async def partitions(self, tree: WatchedTree, topic: str) -> dict[int, str]:
        """Broker partitions in the order of their names as text, as in 0.7: those of a broker are consecutive.

        The tree may change during the read. A broker whose count differs from the length of its list is left out; a
        partition that two brokers list gets the first name. A watch fires when the nodes are complete.
        """
        brokers = [name for name in await tree.children(f"/brokers/topics/{topic}") if name.isdigit()]
        listed = await asyncio.gather(*(self._of_broker(tree, topic, broker) for broker in brokers))
        names = {
            f"{broker}-{index}": number
            for broker, numbers in zip(brokers, listed, strict=True)
            for index, number in enumerate(numbers)
        }
        found: dict[int, str] = {}
        for name in sorted(names):
            found.setdefault(names[name], name)
        return found

    async def _of_broker(self, tree: WatchedTree, topic: str, broker: str) -> tuple[int, ...]:
        count_path, list_path = LegacyBrokerTopicZnode.path(topic, broker), LegacyPartitionsZnode.path(topic, broker)
        count, listed = await asyncio.gather(tree.data(count_path), tree.data(list_path))
        if count is None:
            return ()
        if listed is None:
            if count_path not in self._warned:
                self._warned.add(count_path)
                logger.warning(
                    "%s: %s does not exist yet, so the partitions of this broker are unknown", count_path, list_path
                )
            return ()
        numbers = LegacyPartitionsZnode.decode(listed, list_path).numbers
        return numbers if len(numbers) == LegacyBrokerTopicZnode.decode(count, count_path).partitions else ()

    def owners(self, group: str, partition: TopicPartition, name: str) -> tuple[str, ...]:
        """0.7's lock for the broker partition, and Ottla's own for the partition."""
        return (
            LegacyOwnerZnode.path(group, partition.topic, name),
            LegacyPartitionOwnerZnode.path(group, *partition),
        )


async def partition_names(registry: Registry, layout: Layout, topics: Sequence[str]) -> dict[TopicPartition, str]:
    """The current names of these topics' partitions. Raises ZnodeFormatError."""
    tree = WatchedTree(registry, lambda: None)
    try:
        return {
            TopicPartition(topic, number): name
            for topic in topics
            for number, name in (await layout.partitions(tree, topic)).items()
        }
    finally:
        tree.close()
