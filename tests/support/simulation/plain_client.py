"""A simulated client that sends plain requests: it finds their receivers and retries nothing by itself.

A request may have been carried out although no answer arrived, so the caller decides what to do next.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from client.errors import KafkaError
from client.wire.connection import Connection
from protocol.error_codes import ErrorCode
from protocol.message import Message
from protocol.messages.find_coordinator import FindCoordinatorRequest
from protocol.messages.join_group import JoinGroupRequest
from protocol.messages.sync_group import SyncGroupRequest
from support.simulation.cluster import SimulatedCluster

GROUP, TRANSACTION = 0, 1
REQUEST_TIMEOUT_S = 3.0
JOIN_TIMEOUT_S = 12.0
CONNECT_TIMEOUT_S = 1.0
ELSEWHERE = (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE)


class UnansweredError(Exception):
    """No answer arrived: the request may have been executed, or may be later."""


class NowhereError(Exception):
    """No broker is known that could answer."""


class PlainClient:
    """A client on a machine of its own."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        process, self._network, self.random = cluster.client_network()
        self.name = process.host
        self._cluster = cluster
        self._connections: dict[int, Connection] = {}
        self._coordinators: dict[tuple[int, str], int] = {}
        self.strike: Callable[[int], None] = lambda broker_id: None
        """Called with the broker that is about to be asked as a coordinator: something may happen to it."""

    def coordinator_of(self, kind: int, key: str) -> int | None:
        """The known coordinator of a key."""
        return self._coordinators.get((kind, key))

    def forget(self, kind: int, key: str) -> None:
        """Forget the coordinator, so that it is looked up again."""
        self._coordinators.pop((kind, key), None)

    def ask_coordinator(self, kind: int, key: str) -> Callable[[Message, int], Any]:
        """A function that sends a request to the coordinator of a key. Raises UnansweredError and NowhereError."""

        async def ask(request: Message, version: int) -> Any:
            broker_id = self._coordinators.get((kind, key))
            if broker_id is None:
                broker_id = await self.find(kind, key)
            self.strike(broker_id)
            try:
                return await self._ask(broker_id, request, version)
            except (UnansweredError, NowhereError):
                self.forget(kind, key)
                raise

        return ask

    async def find(self, kind: int, key: str) -> int:
        """Ask any broker who coordinates a key. Raises NowhereError."""
        broker_id = self.random.choice(list(self._cluster.hosts))
        try:
            answer = await self._ask(broker_id, FindCoordinatorRequest(key_type=kind, coordinator_keys=[key]), 4)
        except UnansweredError as error:
            raise NowhereError(str(error)) from None
        found = answer.coordinators[0]
        if found.error_code:
            raise NowhereError(ErrorCode(found.error_code).name)
        self._coordinators[kind, key] = found.node_id
        return int(found.node_id)

    async def ask_leader(self, topic: str, partition: int, request: Message, version: int) -> Any:
        """Send a request to the leader of a partition, as the registry knows it."""
        state = self._cluster.state(topic, partition)
        if state is None or state.leader < 0:
            raise NowhereError(f"{topic}-{partition} has no leader")
        return await self._ask(state.leader, request, version)

    async def _ask(self, broker_id: int, request: Message, version: int) -> Any:
        connection = self._connections.get(broker_id)
        if connection is None or connection.is_closed:
            host = self._cluster.hosts[broker_id]
            name, _, port = host.address.rpartition(":")
            try:
                connection = await Connection.open(
                    name,
                    int(port),
                    network=self._network,
                    client_id=self.name,
                    request_timeout_s=REQUEST_TIMEOUT_S,
                    connect_timeout_s=CONNECT_TIMEOUT_S,
                )
            except KafkaError as error:
                raise NowhereError(str(error)) from None
            self._connections[broker_id] = connection
        waits = isinstance(request, (JoinGroupRequest, SyncGroupRequest))
        try:
            return await connection.request(request, version, timeout_s=JOIN_TIMEOUT_S if waits else None)
        except KafkaError as error:
            raise UnansweredError(f"{type(request).__name__} to {connection.host}: {error}") from None

    async def pause(self, least_s: float = 0.02, most_s: float = 0.3) -> None:
        """Wait for a short time."""
        await asyncio.sleep(self.random.uniform(least_s, most_s))

    def close(self) -> None:
        """Close all connections."""
        for connection in self._connections.values():
            connection.abort()
