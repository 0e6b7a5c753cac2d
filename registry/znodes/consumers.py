"""Znodes of the consumers that coordinate through ZooKeeper: Kafka's high-level consumer of 0.8.

A group has three parent nodes: its live consumers (`ids`, ephemeral), the owners of the partitions (`owners`,
ephemeral), and the offsets (`offsets`, persistent). A consumer has one or more threads; an owner is one of them.
"""

from __future__ import annotations

from typing import Self

from registry.errors import ZnodeFormatError
from registry.znodes.znode import Content, EmptyZnode, Znode, parse_integer, parse_text, to_json

STATIC = "static"
WHITE_LIST = "white_list"
BLACK_LIST = "black_list"
PATTERNS = (STATIC, WHITE_LIST, BLACK_LIST)
_MAX_THREADS = (1 << 31) - 1


class ConsumersZnode(EmptyZnode):
    """Parent of the groups."""

    TEMPLATE = "/consumers"


class ConsumerIdsZnode(EmptyZnode):
    """Parent of a group's consumers."""

    TEMPLATE = "/consumers/{group}/ids"

    @staticmethod
    def path(group: str) -> str:
        """Path for a group."""
        return f"/consumers/{group}/ids"


class ConsumerZnode(Znode):
    """A live consumer, ephemeral: its topics, with the number of threads for each.

    With a pattern, `subscription` has one key, a regular expression for the topics to consume (white list) or not to
    consume (black list).
    """

    TEMPLATE = "/consumers/{group}/ids/{consumer}"

    subscription: dict[str, int]
    pattern: str = STATIC
    timestamp_ms: int
    version: int = 1

    @staticmethod
    def path(group: str, consumer: str) -> str:
        """Path for a group and a consumer's id."""
        return f"/consumers/{group}/ids/{consumer}"

    def encode(self) -> bytes:
        """JSON in the order of Kafka's writer."""
        return to_json(
            {
                "version": self.version,
                "subscription": self.subscription,
                "pattern": self.pattern,
                "timestamp": str(self.timestamp_ms),
            }
        )

    @classmethod
    def decode(cls, data: bytes | None, path: str) -> ConsumerZnode:
        """Read version 1; the oldest nodes have no timestamp."""
        content = Content.parse(data, path)
        pattern = content.string("pattern")
        if pattern not in PATTERNS:
            content.fail("pattern", f"must be one of {', '.join(PATTERNS)}")
        subscription = thread_counts(content.object("subscription"))
        if pattern != STATIC and len(subscription) != 1:
            content.fail("subscription", "must be one regular expression with its number of threads")
        return cls(
            subscription=subscription,
            pattern=pattern,
            timestamp_ms=content.long_text("timestamp") if content.has("timestamp") else -1,
            version=content.integer("version", 1),
        )


def thread_counts(content: Content) -> dict[str, int]:
    """Read an object of topics with numbers of threads. Raises ZnodeFormatError."""
    return {topic: content.integer(topic, 1, _MAX_THREADS) for topic in content.names()}


class ThreadZnode(Znode):
    """The id of a thread of a consumer: the consumer's id, a hyphen and the thread's number."""

    thread: str

    def encode(self) -> bytes:
        """The thread's id as text."""
        return self.thread.encode()

    @classmethod
    def decode(cls, data: bytes | None, path: str) -> Self:
        """Read the thread's id."""
        return cls(thread=_thread_id(data, path))


class ConsumerOwnerZnode(ThreadZnode):
    """The thread that reads a partition, ephemeral."""

    TEMPLATE = "/consumers/{group}/owners/{topic}/{partition}"

    @staticmethod
    def path(group: str, topic: str, partition: int) -> str:
        """Path for a group and a partition."""
        return f"/consumers/{group}/owners/{topic}/{partition}"


def _thread_id(data: bytes | None, path: str) -> str:
    text = parse_text(data, path)
    consumer, hyphen, number = text.rpartition("-")
    if not consumer or not hyphen or not (number.isascii() and number.isdigit()):
        raise ZnodeFormatError(path, "must be the id of a consumer's thread: the consumer's id, a hyphen and a number")
    return text


class ConsumerOffsetZnode(Znode):
    """A group's offset in a partition, in decimal."""

    TEMPLATE = "/consumers/{group}/offsets/{topic}/{partition}"

    offset: int

    @staticmethod
    def path(group: str, topic: str, partition: int) -> str:
        """Path for a group and a partition."""
        return f"/consumers/{group}/offsets/{topic}/{partition}"

    def encode(self) -> bytes:
        """Decimal digits."""
        return b"%d" % self.offset

    @classmethod
    def decode(cls, data: bytes | None, path: str) -> ConsumerOffsetZnode:
        """Read decimal digits."""
        return cls(offset=parse_integer(parse_text(data, path), path, "the offset"))
