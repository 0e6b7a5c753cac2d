"""The znodes of Kafka 0.7, which had no replicas, and additional znodes of Ottla.

In 0.7 a partition belongs to a broker. Its name is `<broker>-<partition>`; each broker numbers its partitions of a
topic from 0. All content is text, except the subscriptions. All nodes are ephemeral, except the offsets. An offset in
0.7 is a byte position in that broker's log, not the number of a record; Ottla's consumers write the record's number.

    /brokers/ids/[broker]                               host-millis:host:port
    /brokers/topics/[topic]/[broker]                    number of partitions
    /consumers/[group]/ids/[consumer]                   {"topic":threads,...}
    /consumers/[group]/owners/[topic]/[broker-partition]    the consumer's thread, as a lock
    /consumers/[group]/offsets/[topic]/[broker-partition]   position in bytes

A current partition has its own number, and its leader may change; then the name of its broker partition changes, too.
Ottla keeps the mapping in these nodes, which clients of 0.7 do not read:

    /brokers/partitions/[topic]/[broker]                    current numbers of the broker's partitions, in order
    /consumers/[group]/partition_owners/[topic]/[partition]    the consumer's thread, as a lock
    /consumers/[group]/partition_offsets/[topic]/[partition]   {"broker_partition":"29-0","offset":17}
"""

from __future__ import annotations

import re
from typing import NamedTuple, Self

from registry.errors import ZnodeFormatError
from registry.znodes.brokers import BrokerIdsZnode, BrokersZnode
from registry.znodes.consumers import (
    BLACK_LIST,
    STATIC,
    WHITE_LIST,
    ConsumerIdsZnode,
    ConsumersZnode,
    ThreadZnode,
    thread_counts,
)
from registry.znodes.topics import TopicsZnode
from registry.znodes.znode import Content, EmptyZnode, Znode, parse_integer, parse_text, to_json

# A consumer with a pattern writes *threads*regex or !threads!regex instead of the JSON object.
_MARKERS = {WHITE_LIST: "*", BLACK_LIST: "!"}

__all__ = ["BrokerIdsZnode", "BrokersZnode", "ConsumerIdsZnode", "ConsumersZnode", "TopicsZnode"]


class BrokerPartition(NamedTuple):
    """The name of a partition in 0.7: the broker, and the partition's number on this broker."""

    broker: int
    partition: int

    def __str__(self) -> str:
        return f"{self.broker}-{self.partition}"

    @classmethod
    def parse(cls, text: str, path: str) -> BrokerPartition:
        """Read "29-5". Raises ZnodeFormatError."""
        if re.fullmatch(r"[0-9]{1,10}-[0-9]{1,10}", text) is None:
            raise ZnodeFormatError(path, f"{text!r} must be a broker's id, a hyphen and the number of its partition")
        broker, _, partition = text.partition("-")
        return cls(int(broker), int(partition))


class LegacyBrokerZnode(Znode):
    """A live broker, ephemeral: the creator of the node (host and time in ms), host and port."""

    TEMPLATE = "/brokers/ids/{broker}"

    creator: str
    host: str
    port: int

    @staticmethod
    def path(broker: int) -> str:
        """Path for a broker's id."""
        return f"/brokers/ids/{broker}"

    def encode(self) -> bytes:
        """Text, separated by colons."""
        return f"{self.creator}:{self.host}:{self.port}".encode()

    @classmethod
    def decode(cls, data: bytes | None, path: str) -> LegacyBrokerZnode:
        """Read the text. An IPv6 address is not possible, as 0.7 splits the text at every colon."""
        parts = parse_text(data, path).split(":")
        if len(parts) != 3 or not all(parts):
            raise ZnodeFormatError(path, "must be host-millis:host:port")
        port = parse_integer(parts[2], path, "the port", 32)
        if not 0 < port < 65536:
            raise ZnodeFormatError(path, "the port must be from 1 to 65535")
        return cls(creator=parts[0], host=parts[1], port=port)


class LegacyTopicZnode(EmptyZnode):
    """Parent of the brokers that have partitions of a topic."""

    TEMPLATE = "/brokers/topics/{topic}"


class LegacyBrokerTopicZnode(Znode):
    """The number of partitions of a topic on a broker, ephemeral; their numbers start at 0."""

    TEMPLATE = "/brokers/topics/{topic}/{broker}"

    partitions: int

    @staticmethod
    def path(topic: str, broker: int | str) -> str:
        """Path for a topic and a broker."""
        return f"/brokers/topics/{topic}/{broker}"

    def encode(self) -> bytes:
        """Decimal digits."""
        return b"%d" % self.partitions

    @classmethod
    def decode(cls, data: bytes | None, path: str) -> LegacyBrokerTopicZnode:
        """Read decimal digits."""
        return cls(partitions=_not_negative(data, path, "the number of partitions", 32))


class LegacyPartitionsZnode(Znode):
    """The current numbers of a broker's partitions of a topic, ephemeral; the first is that of broker partition 0."""

    TEMPLATE = "/brokers/partitions/{topic}/{broker}"

    numbers: tuple[int, ...]

    @staticmethod
    def path(topic: str, broker: int | str) -> str:
        """Path for a topic and a broker."""
        return f"/brokers/partitions/{topic}/{broker}"

    def encode(self) -> bytes:
        """Decimal numbers, separated by commas."""
        return ",".join(map(str, self.numbers)).encode()

    @classmethod
    def decode(cls, data: bytes | None, path: str) -> LegacyPartitionsZnode:
        """Read the numbers."""
        texts = parse_text(data, path).split(",")
        numbers = tuple(parse_integer(text, path, "the number of a partition", 32) for text in texts)
        if min(numbers) < 0 or len(set(numbers)) < len(numbers):
            raise ZnodeFormatError(path, "must be different partition numbers, separated by commas")
        return cls(numbers=numbers)


class LegacyConsumerZnode(Znode):
    """A live consumer, ephemeral: topics with the number of threads for each, or one regular expression."""

    TEMPLATE = "/consumers/{group}/ids/{consumer}"

    subscription: dict[str, int]
    pattern: str = STATIC

    @staticmethod
    def path(group: str, consumer: str) -> str:
        """Path for a group and a consumer's id."""
        return f"/consumers/{group}/ids/{consumer}"

    def encode(self) -> bytes:
        """A JSON object, or the expression after its markers."""
        if self.pattern == STATIC:
            return to_json(self.subscription)
        marker = _MARKERS[self.pattern]
        ((regex, threads),) = self.subscription.items()
        return f"{marker}{threads}{marker}{regex}".encode()

    @classmethod
    def decode(cls, data: bytes | None, path: str) -> LegacyConsumerZnode:
        """Read either form; regular expressions exist since 0.7.1."""
        if data is not None and data[:1] in (b"*", b"!"):
            return cls._decode_pattern(parse_text(data, path), path)
        return cls(subscription=thread_counts(Content.parse(data, path)))

    @classmethod
    def _decode_pattern(cls, text: str, path: str) -> LegacyConsumerZnode:
        marker = text[0]
        number, found, regex = text[1:].partition(marker)
        threads = parse_integer(number, path, "the number of threads", 32)
        if not found or threads < 1:
            raise ZnodeFormatError(path, f"must be {marker}threads{marker}regex, with at least one thread")
        pattern = next(name for name, mark in _MARKERS.items() if mark == marker)
        return cls(subscription={regex: threads}, pattern=pattern)


class LegacyOwnerZnode(ThreadZnode):
    """The thread that reads a broker partition, ephemeral. The node is a lock: its creator holds it."""

    TEMPLATE = "/consumers/{group}/owners/{topic}/{broker_partition}"

    @staticmethod
    def path(group: str, topic: str, partition: BrokerPartition | str) -> str:
        """Path for a group and a broker's partition."""
        return f"/consumers/{group}/owners/{topic}/{partition}"

    @classmethod
    def decode(cls, data: bytes | None, path: str) -> Self:
        """Read the thread's id."""
        _check_name(path)
        return super().decode(data, path)


class LegacyOffsetZnode(Znode):
    """A group's position in a broker's partition, in bytes from the start of its log."""

    TEMPLATE = "/consumers/{group}/offsets/{topic}/{broker_partition}"

    position: int

    @staticmethod
    def path(group: str, topic: str, partition: BrokerPartition | str) -> str:
        """Path for a group and a broker's partition."""
        return f"/consumers/{group}/offsets/{topic}/{partition}"

    def encode(self) -> bytes:
        """Decimal digits."""
        return b"%d" % self.position

    @classmethod
    def decode(cls, data: bytes | None, path: str) -> LegacyOffsetZnode:
        """Read decimal digits."""
        _check_name(path)
        return cls(position=_not_negative(data, path, "the position", 64))


class LegacyPartitionOwnerZnode(ThreadZnode):
    """The thread that reads a current partition, ephemeral: a lock that does not depend on the partition's leader."""

    TEMPLATE = "/consumers/{group}/partition_owners/{topic}/{partition}"

    @staticmethod
    def path(group: str, topic: str, partition: int) -> str:
        """Path for a group and a partition."""
        return f"/consumers/{group}/partition_owners/{topic}/{partition}"


class LegacyPartitionOffsetZnode(Znode):
    """A group's offset in a current partition, and the broker partition whose node has the same offset.

    One transaction writes both nodes: if the broker partition's node has the same mzxid as this node, its offset is
    that of this partition.
    """

    TEMPLATE = "/consumers/{group}/partition_offsets/{topic}/{partition}"

    broker_partition: str
    offset: int

    @staticmethod
    def path(group: str, topic: str, partition: int) -> str:
        """Path for a group and a partition."""
        return f"/consumers/{group}/partition_offsets/{topic}/{partition}"

    def encode(self) -> bytes:
        """A JSON object."""
        return to_json({"broker_partition": self.broker_partition, "offset": self.offset})

    @classmethod
    def decode(cls, data: bytes | None, path: str) -> LegacyPartitionOffsetZnode:
        """Read the object."""
        content = Content.parse(data, path)
        name, offset = content.string("broker_partition"), content.long("offset")
        if offset < 0:
            content.fail("offset", "must not be negative")
        return cls(broker_partition=str(BrokerPartition.parse(name, path)), offset=offset)


def _not_negative(data: bytes | None, path: str, what: str, bits: int) -> int:
    value = parse_integer(parse_text(data, path), path, what, bits)
    if value < 0:
        raise ZnodeFormatError(path, f"{what} must not be negative")
    return value


def _check_name(path: str) -> None:
    BrokerPartition.parse(path.rpartition("/")[2], path)
