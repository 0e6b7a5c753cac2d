"""How long a consumer may believe that its session with ZooKeeper is alive.

Ephemeral nodes are a lock only as long as their session lives, and whoever is cut off from ZooKeeper does not hear of
its end: the servers end a session when they have heard nothing for its timeout, the client learns it when it is back.
Until then it would go on reading partitions that others own by now (Kafka 0.8's consumer does).

So there is a lease. A write that the servers have answered proves that they had the session when the write came, which
was after it was sent: the session cannot end before a whole timeout has passed since. The lease ends after two thirds
of that. What is left covers how sessions are counted in an ensemble: the leader hears from a follower who is alive
every half tick only, which is a quarter of the shortest timeout. A write, and not a read: a follower that has lost its
leader answers reads.

The clock goes on while the machine sleeps where the system has such a one (CLOCK_BOOTTIME): the servers' does, too.
"""

import time
from collections.abc import Callable
from typing import Final

LEASE_SHARE: Final = 2 / 3
# How often it is renewed: four times before it ends.
RENEWALS_PER_TIMEOUT: Final = 6


def clock_s() -> float:
    """Seconds that pass evenly, also while the machine sleeps where the system can tell."""
    boot = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if boot is None else time.clock_gettime(boot)


class SessionLease:
    """Valid until the session could have ended. Starts out as ended."""

    __slots__ = ("_ends_at_s", "now_s")

    def __init__(self, now_s: Callable[[], float] = clock_s) -> None:
        self.now_s = now_s
        self._ends_at_s = float("-inf")

    @property
    def is_valid(self) -> bool:
        """Whether the session is alive for certain."""
        return self.now_s() < self._ends_at_s

    def renew(self, sent_at_s: float, timeout_s: float) -> None:
        """A write that was sent at this time has been answered, in a session with this timeout."""
        self._ends_at_s = max(self._ends_at_s, sent_at_s + timeout_s * LEASE_SHARE)

    def end(self) -> None:
        """The session has ended."""
        self._ends_at_s = float("-inf")
