"""Znodes of consumers that keep their offsets in ZooKeeper, as far as Kafka 3.9 still knows them."""

from __future__ import annotations

from registry.znode import EmptyZnode, Znode, parse_integer, parse_text


class ConsumersZnode(EmptyZnode):
    """Parent of the groups."""

    TEMPLATE = "/consumers"


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
