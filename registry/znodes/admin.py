"""Znodes under /admin. A client creates one of them as a request to the controller.

Partitions are (topic, partition) pairs, kept in the order of the JSON list.
"""

from __future__ import annotations

from registry.znodes.znode import Content, EmptyZnode, Znode, to_json


class AdminZnode(EmptyZnode):
    """Parent of the requests."""

    TEMPLATE = "/admin"


class DeleteTopicsZnode(EmptyZnode):
    """Parent of the topics to be deleted."""

    TEMPLATE = "/admin/delete_topics"

    @staticmethod
    def path() -> str:
        """The path."""
        return "/admin/delete_topics"


class DeleteTopicZnode(EmptyZnode):
    """A topic to be deleted; the node is removed after all replicas are deleted."""

    TEMPLATE = "/admin/delete_topics/{topic}"

    @staticmethod
    def path(topic: str) -> str:
        """Path for a topic."""
        return f"/admin/delete_topics/{topic}"


class ReassignPartitionsZnode(Znode):
    """A partition reassignment, as requested by tools before Kafka 2.4."""

    TEMPLATE = "/admin/reassign_partitions"

    partitions: dict[tuple[str, int], list[int]]

    @staticmethod
    def path() -> str:
        """The path."""
        return "/admin/reassign_partitions"

    def encode(self) -> bytes:
        """JSON in Kafka's order."""
        partitions = [
            {"topic": topic, "partition": partition, "replicas": replicas}
            for (topic, partition), replicas in self.partitions.items()
        ]
        return to_json({"version": 1, "partitions": partitions})

    @classmethod
    def decode(cls, data: bytes | None, path: str) -> ReassignPartitionsZnode:
        """Read version 1."""
        items = Content.parse(data, path).objects("partitions")
        return cls(partitions={_partition(item): item.integers("replicas") for item in items})


class PartitionsZnode(Znode):
    """A list of partitions: the content of several requests and notifications."""

    partitions: list[tuple[str, int]]

    def encode(self) -> bytes:
        """JSON in Kafka's order."""
        partitions = [{"topic": topic, "partition": partition} for topic, partition in self.partitions]
        return to_json({"version": 1, "partitions": partitions})

    @classmethod
    def decode(cls, data: bytes | None, path: str) -> PartitionsZnode:
        """Read version 1."""
        items = Content.parse(data, path).objects("partitions")
        return cls(partitions=[_partition(item) for item in items])


class PreferredReplicaElectionZnode(PartitionsZnode):
    """An election of preferred leaders for partitions, as requested by tools before Kafka 2.2."""

    TEMPLATE = "/admin/preferred_replica_election"

    @staticmethod
    def path() -> str:
        """The path."""
        return "/admin/preferred_replica_election"


def _partition(content: Content) -> tuple[str, int]:
    return content.string("topic"), content.integer("partition", 0)
