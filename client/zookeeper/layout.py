"""The two trees in which a ZooKeeper consumer can have its group: that of Kafka 0.8 and later, and that of 0.7.

A rebalance is the same in both (zookeeper_rebalance). They differ in what a consumer registers, in how brokers and
partitions are found, in the names that partitions have, and in the nodes of owners and offsets (zookeeper_offsets).

In 0.7's tree a partition is a broker's: `[broker]-[number]`. Of today's cluster brokers publish such a tree
(`ottla.zookeeper.legacy07.chroot`), in which a broker's partitions are those that it leads. Leaders change, so a
partition's name does, too, and two consumers that see different leaders may claim one partition under two names.
Therefore a claim there has two locks, one for the name and one for the partition.
"""

import asyncio
import logging
import time
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from client.topic_partition import TopicPartition
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
    """What a consumer wants: topics with numbers of threads, or one pattern with its number."""

    subscription: Mapping[str, int]
    pattern: str


class Layout(Protocol):
    """What a group needs to know of its tree. `decode`s raise ZnodeFormatError."""

    def registration(self, member: Member) -> bytes:
        """The content of a consumer's node among the ids."""

    def member(self, data: bytes, path: str) -> Member:
        """Read such a node."""

    def address(self, data: bytes, path: str) -> HostPort | None:
        """Where a broker listens for plain text, from its node; None where it does not."""

    async def partitions(self, tree: WatchedTree, topic: str) -> dict[int, str]:
        """The names that a topic's partitions have in the tree, by their numbers, in the order of the assignment."""

    def owners(self, group: str, partition: TopicPartition, name: str) -> tuple[str, ...]:
        """The nodes that a consumer creates to own a partition."""


class TodaysLayout:
    """The tree of Kafka 0.8 and later."""

    def registration(self, member: Member) -> bytes:
        """Version 1, with the time of the registration."""
        return ConsumerZnode(
            subscription=dict(member.subscription), pattern=member.pattern, timestamp_ms=time.time_ns() // 1_000_000
        ).encode()

    def member(self, data: bytes, path: str) -> Member:
        """Read a consumer's node."""
        consumer = ConsumerZnode.decode(data, path)
        return Member(consumer.subscription, consumer.pattern)

    def address(self, data: bytes, path: str) -> HostPort | None:
        """That of the first listener in plain text."""
        for endpoint in BrokerZnode.decode(data, path).endpoints:
            if endpoint.security_protocol == "PLAINTEXT" and endpoint.host is not None:
                return HostPort(endpoint.host, endpoint.port)
        return None

    async def partitions(self, tree: WatchedTree, topic: str) -> dict[int, str]:
        """Their numbers, in order."""
        path = TopicZnode.path(topic)
        data = await tree.data(path)
        return (
            {} if data is None else {number: str(number) for number in sorted(TopicZnode.decode(data, path).partitions)}
        )

    def owners(self, group: str, partition: TopicPartition, name: str) -> tuple[str, ...]:
        """One node."""
        return (ConsumerOwnerZnode.path(group, *partition),)


class Legacy07Layout:
    """The tree of Kafka 0.7, as brokers publish it."""

    def __init__(self) -> None:
        self._warned: set[str] = set()

    def registration(self, member: Member) -> bytes:
        """The subscription alone."""
        return LegacyConsumerZnode(subscription=dict(member.subscription), pattern=member.pattern).encode()

    def member(self, data: bytes, path: str) -> Member:
        """Read a consumer's node."""
        consumer = LegacyConsumerZnode.decode(data, path)
        return Member(consumer.subscription, consumer.pattern)

    def address(self, data: bytes, path: str) -> HostPort | None:
        """The only one."""
        broker = LegacyBrokerZnode.decode(data, path)
        return HostPort(broker.host, broker.port)

    async def partitions(self, tree: WatchedTree, topic: str) -> dict[int, str]:
        """Broker partitions in the order of their names as text, which is 0.7's: those of a broker stand together.

        The view may change during the read. A broker whose count differs from the length of its list is left out; a
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
        """0.7's lock on the broker partition, and our own on the partition."""
        return (
            LegacyOwnerZnode.path(group, partition.topic, name),
            LegacyPartitionOwnerZnode.path(group, *partition),
        )


async def partition_names(registry: Registry, layout: Layout, topics: Sequence[str]) -> dict[TopicPartition, str]:
    """The names that the partitions of these topics have now. Raises ZnodeFormatError."""
    tree = WatchedTree(registry, lambda: None)
    try:
        return {
            TopicPartition(topic, number): name
            for topic in topics
            for number, name in (await layout.partitions(tree, topic)).items()
        }
    finally:
        tree.close()
