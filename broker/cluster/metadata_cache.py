"""What this broker knows about the cluster: brokers, topics, leaders. Every API answers from it.

Each UpdateMetadata from the controller replaces the snapshot, so code that holds a snapshot sees a consistent cluster.
A partition state is kept in the form in which it was received (`UpdateMetadataPartitionState`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from protocol.host_port import HostPort
from protocol.messages.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
)
from protocol.uuid import ZERO_UUID

LEADER_DURING_DELETE = -2
"""The leader in UpdateMetadata of a partition whose topic is being deleted."""


class Node(NamedTuple):
    """A broker with its address on one listener."""

    id: int
    host: str
    port: int
    rack: str | None


class TopicMetadata(NamedTuple):
    """One topic: its id and its partitions by number."""

    name: str
    topic_id: bytes
    partitions: Mapping[int, UpdateMetadataPartitionState]


class Snapshot:
    """The cluster at one moment; immutable."""

    __slots__ = ("brokers", "controller_id", "topic_names", "topics")

    def __init__(
        self,
        controller_id: int,
        brokers: Mapping[int, UpdateMetadataBroker],
        topics: Mapping[str, TopicMetadata],
        topic_names: Mapping[bytes, str],
    ) -> None:
        self.controller_id = controller_id
        self.brokers = brokers
        self.topics = topics
        self.topic_names = topic_names
        """By topic id."""

    def nodes(self, listener_name: str) -> list[Node]:
        """Return the live brokers that have this listener."""
        nodes = (self.node(broker_id, listener_name) for broker_id in self.brokers)
        return [node for node in nodes if node is not None]

    def node(self, broker_id: int, listener_name: str) -> Node | None:
        """Return one broker with its address on a listener; None if it is not alive or has no such listener."""
        broker = self.brokers.get(broker_id)
        if broker is None:
            return None
        for endpoint in broker.endpoints:
            if endpoint.listener == listener_name:
                return Node(broker.id, endpoint.host, endpoint.port, broker.rack)
        return None

    def address(self, broker_id: int, listener_name: str) -> HostPort | None:
        """The address of a broker's listener; None if the broker is not alive or has no such listener."""
        node = self.node(broker_id, listener_name)
        return None if node is None else HostPort(node.host, node.port)

    def partition(self, topic: str, partition: int) -> UpdateMetadataPartitionState | None:
        """Return one partition's state; None if it is unknown."""
        metadata = self.topics.get(topic)
        return None if metadata is None else metadata.partitions.get(partition)


EMPTY = Snapshot(-1, MappingProxyType({}), MappingProxyType({}), MappingProxyType({}))


class MetadataCache:
    """Holds the current snapshot and wakes code that waits for a change."""

    def __init__(self) -> None:
        self.snapshot = EMPTY
        self._waiting: set[asyncio.Future[None]] = set()

    def update(self, request: UpdateMetadataRequest) -> set[tuple[str, int]]:
        """Replace the snapshot by what the controller sends. Return the partitions that were deleted."""
        old = self.snapshot
        topics = dict(old.topics)
        topic_names = dict(old.topic_names)
        deleted: set[tuple[str, int]] = set()
        changed: dict[str, tuple[bytes, dict[int, UpdateMetadataPartitionState]]] = {}
        for topic, topic_id, state in partition_states(request):
            if topic not in changed:
                known = topics.get(topic)
                if topic_id == ZERO_UUID and known is not None:
                    topic_id = known.topic_id  # requests before v7 carry none
                changed[topic] = (topic_id, dict(known.partitions) if known is not None else {})
            partitions = changed[topic][1]
            if state.leader == LEADER_DURING_DELETE:
                partitions.pop(state.partition_index, None)
                deleted.add((topic, state.partition_index))
            else:
                partitions[state.partition_index] = state
        for topic, (topic_id, partitions) in changed.items():
            known = topics.pop(topic, None)
            if known is not None:
                topic_names.pop(known.topic_id, None)
            if partitions:
                in_order = dict(sorted(partitions.items()))
                topics[topic] = TopicMetadata(topic, topic_id, in_order)
                if topic_id != ZERO_UUID:
                    topic_names[topic_id] = topic
        brokers = {broker.id: broker for broker in request.live_brokers}
        self.snapshot = Snapshot(request.controller_id, brokers, topics, topic_names)
        for waiting in self._waiting:
            if not waiting.done():
                waiting.set_result(None)
        return deleted

    async def wait_until(self, holds: Callable[[Snapshot], bool], timeout_s: float) -> bool:
        """Wait until the snapshot satisfies `holds`. Return False if the timeout expired first."""
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + timeout_s
        while not holds(self.snapshot):
            left_s = deadline_s - loop.time()
            if left_s <= 0:
                return False
            changed: asyncio.Future[None] = loop.create_future()
            self._waiting.add(changed)
            try:
                await asyncio.wait_for(changed, left_s)
            except TimeoutError:
                return holds(self.snapshot)
            finally:
                self._waiting.discard(changed)
        return True


def partition_states(
    request: UpdateMetadataRequest,
) -> list[tuple[str, bytes, UpdateMetadataPartitionState]]:
    """Return (topic, topic id, state) of every partition. Versions of the request group them differently."""
    flat = [(state.topic_name, ZERO_UUID, state) for state in request.ungrouped_partition_states]
    grouped = [
        (topic.topic_name, topic.topic_id, state) for topic in request.topic_states for state in topic.partition_states
    ]
    return flat + grouped
