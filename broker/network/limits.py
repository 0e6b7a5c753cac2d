"""Limits that all connections of a broker share: their number, and their memory.

The limits on connections are Kafka's. `max.connections.per.ip` closes the new connection. `max.connections` and
`max.connection.creation.rate` delay it: the kernel has accepted it already, so the broker does not read from it until
another connection closes or the rate allows it. `max.connections` does not apply to brokers on a separate listener.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

INT_MAX = 2**31 - 1

RECEIVE_BUFFERS_MANY_BYTES = 64 * 1024 * 1024
"""Above this total, a connection frees a large receive buffer as soon as it is empty."""
UNSENT_MANY_BYTES = 64 * 1024 * 1024
"""Bytes that sockets have not taken yet. Above this total, records are read from disk in small steps."""
READ_STEP_BYTES = 1024 * 1024
READ_STEP_UNDER_PRESSURE_BYTES = 64 * 1024


class Holdable(Protocol):
    """A connection, as the limits use it."""

    host: str
    closed: bool

    def hold(self) -> None:
        """Stop reading until `admit`."""

    def admit(self) -> None:
        """Start reading again."""

    def close(self, reason: str) -> None:
        """Close the connection and log the reason in one line."""


class ConnectionQuota:
    """Counts connections, and admits, holds or closes new ones."""

    def __init__(
        self,
        *,
        max_connections: int = INT_MAX,
        max_per_ip: int = INT_MAX,
        per_ip_overrides: Mapping[str, int] | None = None,
        creation_rate_per_s: int = INT_MAX,
        now_s: Callable[[], float],
        call_later: Callable[[float, Callable[[], None]], object],
    ) -> None:
        self.total = 0
        self._now_s = now_s
        self._call_later = call_later
        self._timer_is_set = False
        self._per_ip: dict[str, int] = {}
        self._waiting: dict[Holdable, None] = {}  # in order of arrival
        self._tokens = 0.0
        self._tokens_updated_s = now_s()
        self.set_limits(
            max_connections=max_connections,
            max_per_ip=max_per_ip,
            per_ip_overrides=per_ip_overrides or {},
            creation_rate_per_s=creation_rate_per_s,
        )
        self._tokens = self._rate_per_s

    def set_limits(
        self, *, max_connections: int, max_per_ip: int, per_ip_overrides: Mapping[str, int], creation_rate_per_s: int
    ) -> None:
        """Set new limits. Existing connections stay open; held ones may now be admitted."""
        self._max_connections = max_connections
        self._max_per_ip = max_per_ip
        self._per_ip_overrides = per_ip_overrides
        self._rate_per_s = float(creation_rate_per_s)  # a token bucket that holds one second's worth
        self._admit_waiting()

    def connected(self, connection: Holdable, *, is_exempt: bool = False) -> None:
        """Count a new connection; close or hold it if a limit requires it. is_exempt: never hold it."""
        self.total += 1
        count = self._per_ip[connection.host] = self._per_ip.get(connection.host, 0) + 1
        limit = self._per_ip_overrides.get(connection.host, self._max_per_ip)
        if count > limit:
            connection.close(f"more than {limit} connections from one address (max.connections.per.ip)")
            return
        if is_exempt:
            return
        connection.hold()
        self._waiting[connection] = None
        self._admit_waiting()

    def disconnected(self, connection: Holdable) -> None:
        """Forget a connection; admit a held one if the limits allow it."""
        self.total -= 1
        self._waiting.pop(connection, None)
        left = self._per_ip[connection.host] - 1
        if left:
            self._per_ip[connection.host] = left
        else:
            del self._per_ip[connection.host]
        self._admit_waiting()

    def _admit_waiting(self) -> None:
        waiting = self._waiting
        while waiting and self.total - len(waiting) < self._max_connections:
            if not self._take_token():
                self._try_again_later()
                return
            first = next(iter(waiting))
            del waiting[first]
            first.admit()

    def _try_again_later(self) -> None:
        if not self._timer_is_set and self._rate_per_s > 0:
            self._timer_is_set = True
            self._call_later(max(1.0 / self._rate_per_s, 0.001), self._timer_fired)

    def _timer_fired(self) -> None:
        self._timer_is_set = False
        self._admit_waiting()

    def _take_token(self) -> bool:
        now_s = self._now_s()
        earned = (now_s - self._tokens_updated_s) * self._rate_per_s
        self._tokens = min(self._rate_per_s, self._tokens + earned)
        self._tokens_updated_s = now_s
        if self._tokens < 1.0:
            return False
        self._tokens -= 1.0
        return True


class MemoryBudget:
    """Bytes that connections hold: requests in progress, receive buffers, and answers that sockets have not taken.

    `queued.max.request.bytes` limits the requests in progress, like Kafka's memory pool. While any of it is left, a
    request may be read whole, even beyond the limit. When nothing is left, connections wait before the body is read.
    They wait before the body, not within it: otherwise half-read requests could block each other forever.
    """

    def __init__(self, queued_max_request_bytes: int = -1) -> None:
        self.reserved_bytes = 0
        self.receive_bytes = 0
        self.unsent_bytes = 0
        self._limit_bytes = queued_max_request_bytes
        self._sizes: dict[Holdable, int] = {}
        self._waiting: dict[Holdable, int] = {}  # in order of arrival

    @property
    def receive_buffers_are_many(self) -> bool:
        """True while connections should free large receive buffers that are empty."""
        return self.receive_bytes > RECEIVE_BUFFERS_MANY_BYTES

    @property
    def read_step_bytes(self) -> int:
        """How many bytes of a record range to read and write in one step."""
        return READ_STEP_UNDER_PRESSURE_BYTES if self.unsent_bytes > UNSENT_MANY_BYTES else READ_STEP_BYTES

    def reserve(self, connection: Holdable, size: int) -> None:
        """Count a request of `size` bytes, or hold its connection until the limit allows it."""
        if self._has_room:
            self._sizes[connection] = size
            self.reserved_bytes += size
        else:
            connection.hold()
            self._waiting[connection] = size

    def release(self, connection: Holdable) -> None:
        """Release the memory of a request that is done, or whose connection is closed."""
        self._waiting.pop(connection, None)
        self.reserved_bytes -= self._sizes.pop(connection, 0)
        while self._waiting and self._has_room:
            waiting = next(iter(self._waiting))
            self.reserve(waiting, self._waiting.pop(waiting))
            waiting.admit()

    @property
    def _has_room(self) -> bool:
        return self._limit_bytes < 0 or self.reserved_bytes < self._limit_bytes
