"""Requests to other brokers, and to this one, over the inter-broker listener: one connection each, opened on first use.

Each component has its own `BrokerConnections`: a broker handles one request of a connection at a time, so an urgent
request must not be queued behind one that waits for a commit.
"""

from __future__ import annotations

from typing import TypeVar

from broker.cluster.metadata_cache import MetadataCache
from client.wire.node_connection import ConnectionOptions, NodeConnection
from protocol.message import Message

R = TypeVar("R", bound=Message)


class BrokerConnections:
    """Connections by broker id."""

    def __init__(self, metadata: MetadataCache, listener_name: str, options: ConnectionOptions) -> None:
        self._metadata = metadata
        self._listener_name = listener_name
        self._options = options
        self._nodes: dict[int, NodeConnection] = {}

    async def call(self, broker_id: int, request: Message, response: type[R], version: int) -> R:
        """Send a request and wait for its answer. Raises KafkaError: the broker may then have carried it out or not."""
        node = self._nodes.get(broker_id)
        if node is None:
            node = self._nodes[broker_id] = NodeConnection(
                f"broker {broker_id}",
                lambda: self._metadata.snapshot.address(broker_id, self._listener_name),
                self._options.open,
            )
        return await node.call(request, response, version)

    def close(self) -> None:
        """Close the connections, also those that are being opened; requests in flight fail."""
        for node in self._nodes.values():
            node.close("this broker is stopping")
        self._nodes.clear()
