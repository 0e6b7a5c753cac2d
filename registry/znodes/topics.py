"""Znodes of topics: the replicas, the leader and the ISR of each partition."""

from __future__ import annotations

from typing import Any

from protocol.uuid import uuid_from_string, uuid_to_string
from registry.errors import ZnodeFormatError
from registry.znodes.java_order import mutable_map_order
from registry.znodes.znode import Content, EmptyZnode, Znode, parse_integer, to_json

LEADER_RECOVERED = 0
LEADER_RECOVERING = 1


class TopicsZnode(EmptyZnode):
    """Parent of all topics."""

    TEMPLATE = "/brokers/topics"


class TopicZnode(Znode):
    """A topic's replica assignment.

    Version 1 has the partitions only; version 2 adds the adding and removing replicas of a reassignment; version 3 adds
    the topic id, which is missing below inter.broker.protocol.version 2.8.
    """

    TEMPLATE = "/brokers/topics/{topic}"

    partitions: dict[int, list[int]]  # replicas by partition, the preferred leader first
    adding_replicas: dict[int, list[int]] = {}  # noqa: RUF012 - only partitions with adding replicas
    removing_replicas: dict[int, list[int]] = {}  # noqa: RUF012
    topic_id: bytes | None = None
    version: int = 3

    @staticmethod
    def path(topic: str) -> str:
        """Path for a topic."""
        return f"/brokers/topics/{topic}"

    def encode(self) -> bytes:
        """JSON in the order of Kafka's hash map in version 3; in the declared order in versions 1 and 2."""
        partitions = _by_partition(self.partitions)
        adding = {"adding_replicas": _by_partition(self.adding_replicas)}
        removing = {"removing_replicas": _by_partition(self.removing_replicas)}
        if self.version == 1:
            return to_json({"version": 1, "partitions": partitions})
        if self.version == 2:
            return to_json({"version": 2, "partitions": partitions, **adding, **removing})
        fields: dict[str, Any] = {"partitions": partitions}
        if self.topic_id is not None:
            fields["topic_id"] = uuid_to_string(self.topic_id)
        return to_json({**fields, **adding, **removing, "version": self.version})

    @classmethod
    def decode(cls, data: bytes | None, path: str) -> TopicZnode:
        """Read versions 1 to 3."""
        content = Content.parse(data, path)
        topic_id = None
        if content.has("topic_id"):
            try:
                topic_id = uuid_from_string(content.string("topic_id"))
            except ValueError as error:
                raise ZnodeFormatError(path, f"topic_id: {error}") from error
        return cls(
            partitions=_replicas(content, "partitions"),
            adding_replicas=_replicas(content, "adding_replicas"),
            removing_replicas=_replicas(content, "removing_replicas"),
            topic_id=topic_id,
            version=content.version(1, 3),
        )


class TopicPartitionsZnode(EmptyZnode):
    """Parent of a topic's partitions; the controller creates it when it first sees the topic."""

    TEMPLATE = "/brokers/topics/{topic}/partitions"

    @staticmethod
    def path(topic: str) -> str:
        """Path for a topic."""
        return f"/brokers/topics/{topic}/partitions"


class TopicPartitionZnode(EmptyZnode):
    """Parent of a partition's state."""

    TEMPLATE = "/brokers/topics/{topic}/partitions/{partition}"

    @staticmethod
    def path(topic: str, partition: int) -> str:
        """Path for a partition."""
        return f"/brokers/topics/{topic}/partitions/{partition}"


class PartitionStateZnode(Znode):
    """A partition's leader and in-sync replicas. The version of its stat is Kafka's partition epoch."""

    TEMPLATE = "/brokers/topics/{topic}/partitions/{partition}/state"

    leader: int  # -1: none
    leader_epoch: int
    isr: list[int]
    controller_epoch: int
    leader_recovery_state: int = LEADER_RECOVERED
    version: int = 1

    @staticmethod
    def path(topic: str, partition: int) -> str:
        """Path for a partition."""
        return f"/brokers/topics/{topic}/partitions/{partition}/state"

    def encode(self) -> bytes:
        """JSON in the order of Kafka's hash trie."""
        recovery = {}
        if self.leader_recovery_state != LEADER_RECOVERED:
            recovery = {"leader_recovery_state": self.leader_recovery_state}
        return to_json(
            {
                "controller_epoch": self.controller_epoch,
                "leader": self.leader,
                "version": self.version,
                **recovery,
                "leader_epoch": self.leader_epoch,
                "isr": self.isr,
            }
        )

    @classmethod
    def decode(cls, data: bytes | None, path: str) -> PartitionStateZnode:
        """Read version 1."""
        content = Content.parse(data, path)
        recovery = LEADER_RECOVERED
        if content.has("leader_recovery_state"):
            recovery = content.integer("leader_recovery_state", LEADER_RECOVERED, LEADER_RECOVERING)
        return cls(
            leader=content.integer("leader", -2),
            leader_epoch=content.integer("leader_epoch"),
            isr=content.integers("isr"),
            controller_epoch=content.integer("controller_epoch"),
            leader_recovery_state=recovery,
            version=content.version(1, 1),
        )


def _by_partition(replicas: dict[int, list[int]]) -> dict[str, list[int]]:
    """Return the JSON object of replicas by partition, in the order of Kafka's hash map."""
    texts = mutable_map_order(str(partition) for partition in replicas)
    return {text: list(replicas[int(text)]) for text in texts}


def _replicas(content: Content, name: str) -> dict[int, list[int]]:
    if not content.has(name):
        return {}
    nested = content.object(name)
    replicas = {}
    for text in nested.names():
        partition = parse_integer(text, content.path, f"each partition in {name}", 32)
        replicas[partition] = nested.integers(text)
    return replicas
