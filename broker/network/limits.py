"""Limits that all connections of a broker share: their number, and their memory.

The limits on connections are Kafka's. `max.connections.per.ip` closes the new connection. `max.connections` and
`max.connection.creation.rate`, of the broker and of a listener, delay it: the kernel has accepted it already, so the
broker does not read from it until another connection closes or the rate allows it. As in Kafka, the connections of a
listener are admitted one after the other, and a rate delays each by one sample of the window at most. The quota of an
address (`connection_creation_rate`) holds a connection for that time and then closes it. The limits of the broker do
not apply to brokers on a separate listener.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple, Protocol

from broker.quotas.address_rates import AddressRates
from broker.quotas.rates import INT_MAX, SampledRate, Window

DEFAULT_WINDOW: Final = Window(11, 1.0)

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


class ListenerLimits(NamedTuple):
    """The limits of one listener, which apply beside those of the broker."""

    max_connections: int = INT_MAX
    creation_rate_per_s: int = INT_MAX


class ConnectionCounter(Protocol):
    """What an acceptor tells of its connections."""

    def connected(self, connection: Holdable, *, is_exempt: bool = False) -> None:
        """Count a new connection; close or hold it if a limit requires it."""

    def disconnected(self, connection: Holdable) -> None:
        """Forget a connection."""


class _Line:
    """The connections of one listener: those that are open, and those that wait, in order of arrival."""

    def __init__(self, window: Window) -> None:
        self.open = 0
        self.waiting: dict[Holdable, None] = {}
        self.limits = ListenerLimits()
        self.is_exempt = False
        self.rate = SampledRate(window, INT_MAX)
        self.first_is_counted = False
        self.due_s = 0.0
        """When the first may be admitted, once it is counted."""
        self.has_timer = False


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
        window: Window = DEFAULT_WINDOW,
        address_rates: AddressRates | None = None,
    ) -> None:
        """window: of the rates of listeners. address_rates: the quotas of addresses."""
        self.total = 0
        self._now_s = now_s
        self._call_later = call_later
        self._window = window
        self._address_rates = address_rates
        self._per_ip: dict[str, int] = {}
        self._lines: dict[str, _Line] = {}
        self._held_to_close: set[Holdable] = set()
        self._rate = SampledRate(window, INT_MAX)
        self.set_limits(
            max_connections=max_connections,
            max_per_ip=max_per_ip,
            per_ip_overrides=per_ip_overrides or {},
            creation_rate_per_s=creation_rate_per_s,
        )

    def set_limits(
        self,
        *,
        max_connections: int,
        max_per_ip: int,
        per_ip_overrides: Mapping[str, int],
        creation_rate_per_s: int,
        of_listeners: Mapping[str, ListenerLimits] | None = None,
    ) -> None:
        """Set new limits. Existing connections stay open; held ones may now be admitted."""
        self._max_connections = max_connections
        self._max_per_ip = max_per_ip
        self._per_ip_overrides = per_ip_overrides
        self._rate.quota = creation_rate_per_s
        for name, limits in (of_listeners or {}).items():
            line = self._line(name)
            line.limits = limits
            line.rate.quota = limits.creation_rate_per_s
        now_s = self._now_s()
        for line in self._lines.values():
            if line.first_is_counted:
                line.due_s = min(line.due_s, now_s + self._throttle_s(line, now_s))
        self._admit_waiting()

    def of_listener(self, name: str) -> ConnectionCounter:
        """Return the counter of one listener's connections."""
        return _ListenerQuota(self, name)

    def connected(self, connection: Holdable, *, is_exempt: bool = False, listener: str = "") -> None:
        """Count a new connection; close or hold it if a limit requires it.

        is_exempt: the limits of the broker on the number and rate of connections do not apply to its listener.
        """
        self.total += 1
        count = self._per_ip[connection.host] = self._per_ip.get(connection.host, 0) + 1
        line = self._line(listener)
        line.is_exempt = is_exempt
        limit = self._per_ip_overrides.get(connection.host, self._max_per_ip)
        if count > limit:
            line.open += 1
            connection.close(f"more than {limit} connections from one address (max.connections.per.ip)")
            return
        connection.hold()
        line.waiting[connection] = None
        self._admit_waiting()

    def disconnected(self, connection: Holdable, *, listener: str = "") -> None:
        """Forget a connection; admit held ones if the limits allow it."""
        self.total -= 1
        line = self._line(listener)
        if connection in self._held_to_close:
            self._held_to_close.discard(connection)
        elif connection in line.waiting:
            if next(iter(line.waiting)) is connection:
                line.first_is_counted = False
            del line.waiting[connection]
        else:
            line.open -= 1
        left = self._per_ip[connection.host] - 1
        if left:
            self._per_ip[connection.host] = left
        else:
            del self._per_ip[connection.host]
        self._admit_waiting()

    def _line(self, listener: str) -> _Line:
        line = self._lines.get(listener)
        if line is None:
            line = self._lines[listener] = _Line(self._window)
        return line

    def _admit_waiting(self) -> None:
        for line in self._lines.values():
            while line.waiting and self._may_go_on(line):
                first = next(iter(line.waiting))
                del line.waiting[first]
                line.first_is_counted = False
                self._admit(first, line)

    def _may_go_on(self, line: _Line) -> bool:
        """Whether the first connection that waits may be admitted. It counts in the rates when it becomes the first."""
        now_s = self._now_s()
        if not line.first_is_counted:
            line.first_is_counted = True
            for rate in self._rates(line):
                rate.record(1, now_s)
            line.due_s = now_s + self._throttle_s(line, now_s)
        if now_s < line.due_s:
            self._try_again_later(line, line.due_s - now_s)
            return False
        if line.open >= line.limits.max_connections:
            return False
        return line.is_exempt or sum(one.open for one in self._lines.values()) < self._max_connections

    def _rates(self, line: _Line) -> list[SampledRate]:
        """Return the rates that are limited for a listener."""
        rates = [line.rate] if line.is_exempt else [line.rate, self._rate]
        return [rate for rate in rates if rate.quota != INT_MAX]

    def _throttle_s(self, line: _Line, now_s: float) -> float:
        throttle_s = max((rate.throttle_s(now_s) for rate in self._rates(line)), default=0.0)
        return min(throttle_s, self._window.sample_s)

    def _admit(self, connection: Holdable, line: _Line) -> None:
        """Serve a connection, unless its address has too many: then it is held for a while and closed."""
        rates = self._address_rates
        throttle_s = rates.throttle_s(connection.host) if rates is not None and rates.is_active else 0.0
        if not throttle_s:
            line.open += 1
            connection.admit()
            return
        self._held_to_close.add(connection)

        def close() -> None:
            if connection in self._held_to_close:
                connection.close("too many new connections from its address (connection_creation_rate)")

        self._call_later(throttle_s, close)

    def _try_again_later(self, line: _Line, seconds: float) -> None:
        if line.has_timer:
            return
        line.has_timer = True

        def fired() -> None:
            line.has_timer = False
            self._admit_waiting()

        self._call_later(seconds, fired)


class _ListenerQuota:
    """The connections of one listener."""

    def __init__(self, quota: ConnectionQuota, listener: str) -> None:
        self._quota = quota
        self._listener = listener

    def connected(self, connection: Holdable, *, is_exempt: bool = False) -> None:
        """See `ConnectionQuota.connected`."""
        self._quota.connected(connection, is_exempt=is_exempt, listener=self._listener)

    def disconnected(self, connection: Holdable) -> None:
        """See `ConnectionQuota.disconnected`."""
        self._quota.disconnected(connection, listener=self._listener)


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
