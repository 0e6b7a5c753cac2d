"""What a handler knows about a request besides its body."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from broker.network.connection import Connection
    from security.principal import Principal


class RequestContext:
    """Client, connection and version of one request. Handlers add what the answer's header and metrics need."""

    __slots__ = ("api_version", "client_id", "connection", "correlation_id", "throttle_ms")

    def __init__(self, connection: Connection, api_version: int, correlation_id: int, client_id: str | None) -> None:
        self.connection = connection
        self.api_version = api_version
        self.correlation_id = correlation_id
        self.client_id = client_id
        self.throttle_ms = 0

    @property
    def listener_name(self) -> str:
        """The listener of the client's connection: answers name brokers by their addresses on that listener."""
        return self.connection.acceptor.name

    @property
    def principal(self) -> Principal:
        """The user of the client's connection."""
        return self.connection.principal

    @property
    def client_address(self) -> str:
        """The client's IP address."""
        return self.connection.host
