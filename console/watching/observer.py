"""When snapshots are taken, and what is kept of them: the newest one, rates of the last hour, the latest changes.

A snapshot is taken when somebody looks, at most every five seconds, and rarer if the cluster takes long to answer. All
that look share it. The counters of a broker that serves its own console are read every ten seconds until an hour after
the last look. A console that nobody looks at does nothing.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable
from typing import Final

from client.admin.admin import Admin
from console.inside import Inside, Traffic
from console.watching.changes import Change, changes
from console.watching.rates import KEPT_MS, Point, Rates, cluster_rates, traffic_rates
from console.watching.snapshot import Snapshot, take_snapshot

PERIOD_MS: Final = 5_000
SLOW_FACTOR: Final = 10
"""A snapshot that takes a second is taken at most every ten seconds."""
MAX_CHANGES: Final = 200
TRAFFIC_PERIOD_S: Final = 10.0


def now_ms() -> int:
    """Return the time, in ms since the epoch."""
    return time.time_ns() // 1_000_000


class Observer:
    """What the console has seen of the cluster."""

    def __init__(self, clock: Callable[[], int] = now_ms, traffic_period_s: float = TRAFFIC_PERIOD_S) -> None:
        """clock: ms since the epoch."""
        self._clock = clock
        self._traffic_period_s = traffic_period_s
        self._one_at_a_time = asyncio.Lock()
        self._snapshot: Snapshot | None = None
        self._next_ms = 0
        self._rates = Rates(2)
        self._traffic_rates = Rates(3)
        self._traffic: tuple[int, Traffic] | None = None
        self._changes: deque[Change] = deque(maxlen=MAX_CHANGES)
        self._looked_ms = 0
        self._timer: asyncio.TimerHandle | None = None

    @property
    def rates(self) -> tuple[Point, ...]:
        """Records and bytes per second that were appended to the cluster's topics."""
        return self._rates.points

    @property
    def traffic_rates(self) -> tuple[Point, ...]:
        """Requests, bytes produced and bytes fetched per second of the broker that serves this console."""
        return self._traffic_rates.points

    @property
    def changes(self) -> list[Change]:
        """The latest changes, newest first."""
        return list(reversed(self._changes))

    async def look(self, admin: Admin, inside: Inside | None) -> Snapshot:
        """Return a recent snapshot. Raises KafkaError if no broker answers."""
        self._looked_ms = self._clock()
        if inside is not None and self._timer is None:
            self._read_traffic(inside)
        async with self._one_at_a_time:
            if self._snapshot is not None and self._clock() < self._next_ms:
                return self._snapshot
            started_ms = self._clock()
            taken = await take_snapshot(admin, started_ms)
            self._next_ms = started_ms + max(PERIOD_MS, SLOW_FACTOR * (self._clock() - started_ms))
            self._keep(taken)
            return taken

    def _keep(self, taken: Snapshot) -> None:
        before = self._snapshot
        self._snapshot = taken
        if before is not None:
            self._rates.add(before.time_ms, cluster_rates(before, taken))
            self._changes.extend(changes(before, taken))

    def _read_traffic(self, inside: Inside) -> None:
        now = self._clock()
        if now - self._looked_ms > KEPT_MS:
            self._timer = None
            return
        before, self._traffic = self._traffic, (now, inside.traffic())
        if before is not None:
            self._traffic_rates.add(before[0], traffic_rates(before, self._traffic))
        self._timer = asyncio.get_running_loop().call_later(self._traffic_period_s, self._read_traffic, inside)

    def close(self) -> None:
        """Stop reading counters."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
