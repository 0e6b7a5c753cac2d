"""The coordinator of a group or a transactional id.

FindCoordinator names it, for many keys at once from version 4 on (KIP-699). A coordinator moves with the leadership of
a partition, so it is looked up again when an answer says that it has moved, or when the connection is lost.
"""

import asyncio
from collections.abc import Sequence
from enum import IntEnum
from typing import Final

from client.errors import ClosedError, KafkaError, error_for
from client.wire.cluster import Cluster
from client.wire.connection import Connection
from protocol.error_codes import ErrorCode
from protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse

_FIRST_VERSION_WITH_KEYS: Final = 4
_MOVED: Final = frozenset((ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE))


class CoordinatorType(IntEnum):
    """The type of a coordinator, with FindCoordinator's numbers."""

    GROUP = 0
    TRANSACTION = 1


async def find_coordinators(
    cluster: Cluster, kind: CoordinatorType, keys: Sequence[str]
) -> dict[str, int | KafkaError]:
    """The node id of each key's coordinator, or the error for the key. Raises if no broker can be reached."""
    connection = await cluster.any_connection()
    version = connection.common_version(FindCoordinatorRequest)
    label = "group" if kind is CoordinatorType.GROUP else "transactional id"
    found: dict[str, int | KafkaError] = {}
    if version >= _FIRST_VERSION_WITH_KEYS:
        request = FindCoordinatorRequest(key_type=int(kind), coordinator_keys=list(keys))
        response = await connection.call(request, FindCoordinatorResponse, version)
        for one in response.coordinators:
            error = error_for(one.error_code, one.error_message, context=f"{label} {one.key}")
            found[one.key] = error if one.error_code else one.node_id
        return found
    for key in keys:
        request = FindCoordinatorRequest(key=key, key_type=int(kind))
        response = await connection.call(request, FindCoordinatorResponse, version)
        error = error_for(response.error_code, response.error_message, context=f"{label} {key}")
        found[key] = error if response.error_code else response.node_id
    return found


async def find_coordinator(cluster: Cluster, kind: CoordinatorType, key: str) -> int:
    """The node id of one key's coordinator, a broker in the metadata. Raises the broker's error."""
    found = (await find_coordinators(cluster, kind, [key]))[key]
    if isinstance(found, KafkaError):
        raise found
    if found not in cluster.metadata.brokers:
        await cluster.refresh([])
    return found


class Coordinator:
    """The coordinator of one key, on a separate connection.

    It is separate because a broker answers a connection's requests in turn: a heartbeat must not wait behind a Fetch
    (a long poll), nor a Fetch behind a JoinGroup that waits for other members.
    """

    def __init__(self, cluster: Cluster, kind: CoordinatorType, key: str) -> None:
        self._cluster = cluster
        self._kind = kind
        self._key = key
        self._connection: Connection | None = None
        self._lock = asyncio.Lock()
        self._closed = False

    async def connection(self) -> Connection:
        """The connection to the coordinator, which is looked up if it is unknown or the connection is lost.

        Raises CoordinatorNotAvailableError and other errors of the lookup, ConnectionLostError, ClosedError.
        """
        async with self._lock:
            if self._connection is None or self._connection.is_closed:
                node_id = await find_coordinator(self._cluster, self._kind, self._key)
                opened = await self._cluster.open_own(node_id)
                if self._closed:
                    opened.abort()
                    raise ClosedError("this client has been closed")
                self._connection = opened
            return self._connection

    def forget_if_moved(self, error: KafkaError) -> None:
        """Forget the coordinator if the error says that it has moved."""
        if error.code in _MOVED:
            self.forget()

    def forget(self) -> None:
        """Forget the coordinator: the next call of `connection` looks it up again."""
        if self._connection is not None:
            self._connection.abort("the coordinator has moved")
            self._connection = None

    async def close(self) -> None:
        """Close the connection, also one that is being opened."""
        self._closed = True
        if self._connection is not None:
            await self._connection.close()
