"""What a handler knows about a request besides its body."""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from broker.network.connection import Connection
    from security.principal import Principal


class RequestContext:
    """Client, connection and version of one request. Handlers add what the answer's header and metrics need."""

    __slots__ = (
        "api_version",
        "audited",
        "began_s",
        "busy_s",
        "client_id",
        "connection",
        "correlation_id",
        "is_settled",
        "request_bytes",
        "throttle_ms",
    )

    def __init__(
        self,
        connection: Connection,
        api_version: int,
        correlation_id: int,
        client_id: str | None,
        request_bytes: int = 0,
        started_s: float = 0.0,
    ) -> None:
        """request_bytes: the size of the frame. started_s: when work on the request began, of `perf_counter`."""
        self.connection = connection
        self.api_version = api_version
        self.correlation_id = correlation_id
        self.client_id = client_id
        self.request_bytes = request_bytes
        self.throttle_ms = 0
        """How long the handler wants the connection to be throttled."""
        self.is_settled = False
        """Whether the handler has counted the request for the quotas of its client."""
        self.audited: set[object] | None = None
        """The decisions of this request that the audit log has; None if it has none."""
        self.busy_s = 0.0
        """Time that the event loop has worked on this request before the last `pause`."""
        self.began_s = started_s
        """When work on the request would have begun if it had never waited, of `perf_counter`."""

    def pause(self) -> None:
        """Stop counting time: the request waits."""
        self.busy_s = perf_counter() - self.began_s

    def resume(self) -> None:
        """Count time again."""
        self.began_s = perf_counter() - self.busy_s

    @property
    def worked_s(self) -> float:
        """Time that the event loop has worked on this request until now. Not to be read while the request waits."""
        return perf_counter() - self.began_s

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
