"""How long a consumer may assume that its session with ZooKeeper is alive.

Ephemeral nodes are a lock only as long as their session lives, and a disconnected consumer does not learn that its
session has ended: the servers end a session after its timeout without a message, and the client learns it when it
reconnects. Until then it would continue to read partitions that others own by now (as Kafka 0.8's consumer does).

So there is a lease. An answered write proves that the servers had the session when the write arrived, which was after
it was sent: the session cannot end before a whole timeout after the sending. The lease ends after two thirds of it. The
last third allows for the session tracking in an ensemble: the leader hears only every half tick from a live follower,
which is a quarter of the shortest timeout. The proof is a write, because a follower that has lost its leader still
answers reads.

If the system has such a clock (CLOCK_BOOTTIME), it also runs while the machine sleeps, as the servers' clocks do.
"""

import time
from collections.abc import Callable
from typing import Final

LEASE_SHARE: Final = 2 / 3
# Six renewals in a timeout: four before the lease ends.
RENEWALS_PER_TIMEOUT: Final = 6


def clock_s() -> float:
    """Seconds on a monotonic clock, which also runs while the machine sleeps if the system has such a clock."""
    boot = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if boot is None else time.clock_gettime(boot)


class SessionLease:
    """Valid until the session could have ended. Not valid at the start."""

    __slots__ = ("_ends_at_s", "now_s")

    def __init__(self, now_s: Callable[[], float] = clock_s) -> None:
        self.now_s = now_s
        self._ends_at_s = float("-inf")

    @property
    def is_valid(self) -> bool:
        """Whether the session is certainly alive."""
        return self.now_s() < self._ends_at_s

    def renew(self, sent_at_s: float, timeout_s: float) -> None:
        """Extend the lease: a write sent at this time was answered, in a session with this timeout."""
        self._ends_at_s = max(self._ends_at_s, sent_at_s + timeout_s * LEASE_SHARE)

    def end(self) -> None:
        """End the lease: the session has ended."""
        self._ends_at_s = float("-inf")
