"""Requests to other brokers, and to ourselves, over the inter-broker listener: a connection each, opened when needed.

Whoever uses one has it for itself: a broker looks at one request of a connection at a time, so what has to be quick
must not queue behind what waits for a commit.
"""

from __future__ import annotations

import asyncio
from typing import TypeVar

from broker.cluster.metadata_cache import MetadataCache
from broker.errors import RequestError
from client.errors import KafkaError
from client.wire.connection import Connection
from client.wire.network import Network
from protocol.error_codes import ErrorCode
from protocol.message import Message

R = TypeVar("R", bound=Message)

CALL_ERRORS = (KafkaError, OSError, RequestError)
"""What `BrokerConnections.call` raises: whether the request was carried out is unknown then."""


class BrokerConnections:
    """Connections by broker id."""

    def __init__(
        self,
        metadata: MetadataCache,
        network: Network,
        *,
        listener_name: str,
        client_id: str,
        request_timeout_s: float,
    ) -> None:
        self._metadata = metadata
        self._network = network
        self._listener_name = listener_name
        self._client_id = client_id
        self._request_timeout_s = request_timeout_s
        self._connections: dict[int, Connection] = {}
        self._opening: dict[int, asyncio.Lock] = {}

    async def call(self, broker_id: int, request: Message, response: type[R], version: int) -> R:
        """Send a request and wait for its answer. Raises CALL_ERRORS, BROKER_NOT_AVAILABLE for an unknown broker."""
        async with self._opening.setdefault(broker_id, asyncio.Lock()):
            connection = await self._open(broker_id)
        return await connection.call(request, response, version)

    async def _open(self, broker_id: int) -> Connection:
        node = self._metadata.snapshot.node(broker_id, self._listener_name)
        if node is None:
            raise RequestError(ErrorCode.BROKER_NOT_AVAILABLE, f"broker {broker_id} is not there")
        known = self._connections.get(broker_id)
        if known is not None:
            if not known.is_closed and (known.host, known.port) == (node.host, node.port):
                return known
            known.abort("the broker is somewhere else now")
            del self._connections[broker_id]
        opened = await Connection.open(
            node.host,
            node.port,
            network=self._network,
            client_id=self._client_id,
            request_timeout_s=self._request_timeout_s,
        )
        self._connections[broker_id] = opened
        return opened

    def close(self) -> None:
        """Drop the connections; what is under way fails."""
        for connection in self._connections.values():
            connection.abort("the broker is stopping")
        self._connections.clear()
