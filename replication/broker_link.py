"""A connection to another broker that is opened when it is needed, and anew where the broker is somewhere else now."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from client.errors import KafkaError
from client.wire.connection import Connection
from client.wire.network import Network
from protocol.message import Message

R = TypeVar("R", bound=Message)

Endpoint = tuple[str, int]
"""Host and port."""


class BrokerUnknownError(Exception):
    """Nobody has told us where the broker is."""


LINK_ERRORS = (KafkaError, OSError, BrokerUnknownError)
"""What `BrokerLink.call` raises: whether the request was carried out is unknown then."""


class BrokerLink:
    """One connection, for one task."""

    def __init__(
        self,
        name: str,
        endpoint: Callable[[], Endpoint | None],
        *,
        network: Network,
        client_id: str,
        request_timeout_s: float,
        negotiates: bool = False,
    ) -> None:
        """name: of the broker, for messages. endpoint: where it is now, None where that is not known.

        negotiates: ask for versions at each new connection, for calls that leave theirs open.
        """
        self._name = name
        self._endpoint = endpoint
        self._network = network
        self._client_id = client_id
        self._request_timeout_s = request_timeout_s
        self._negotiates = negotiates
        self._connection: Connection | None = None

    async def call(self, request: Message, response: type[R], version: int) -> R:
        """Send a request and wait for its answer. Raises LINK_ERRORS."""
        return await (await self.open()).call(request, response, version)

    async def open(self) -> Connection:
        """The connection, open; kept only where negotiation succeeds. Raises LINK_ERRORS.

        For one task at a time.
        """
        endpoint = self._endpoint()
        if endpoint is None:
            raise BrokerUnknownError(f"{self._name} is not known to be alive")
        connection = self._connection
        if connection is not None:
            if not connection.is_closed and (connection.host, connection.port) == endpoint:
                return connection
            self.close()
        opened = await Connection.open(
            *endpoint,
            network=self._network,
            client_id=self._client_id,
            request_timeout_s=self._request_timeout_s,
            connect_timeout_s=self._request_timeout_s,
        )
        if self._negotiates:
            try:
                await opened.negotiate()
            except BaseException:
                opened.abort()
                raise
        self._connection = opened
        return opened

    def close(self) -> None:
        """Drop the connection; what is under way fails."""
        if self._connection is not None:
            self._connection.abort("closed by this side")
            self._connection = None
