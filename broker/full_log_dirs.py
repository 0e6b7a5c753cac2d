"""Full log directories: other in-sync replicas become the leaders of the partitions in them.

Kafka takes a full directory offline, so its controller elects other leaders. Here the directory stays online, and the
broker uses the same notification: the controller sends LeaderAndIsr for all partitions of the broker, and elects other
leaders for those that the broker refuses with KAFKA_STORAGE_ERROR (see `replication.controller_requests`). The broker
follows them then.

The new leader's disk may be full, too. So a broker repeats the notification at most twice a minute, while writes are
refused: leadership moves until a replica has room, and does not move all the time if none has.
"""

from __future__ import annotations

from collections.abc import Callable

REPEAT_S = 30.0
CHECK_S = 1.0


class FullLogDirs:
    """Asks the controller to elect other leaders."""

    def __init__(self, can_hand_over: Callable[[], bool], ask: Callable[[], None], now_s: Callable[[], float]) -> None:
        """can_hand_over: whether a partition here could be led elsewhere. ask: notifies the controller."""
        self._can_hand_over = can_hand_over
        self._ask = ask
        self._now_s = now_s
        self._next_s = float("-inf")
        self._has_asked = False

    def refused(self) -> None:
        """A write was refused for lack of room."""
        now_s = self._now_s()
        if now_s < self._next_s:
            return
        if self._can_hand_over():
            self._next_s = now_s + REPEAT_S
            self._has_asked = True
            self._ask()
        else:
            self._next_s = now_s + CHECK_S  # a check looks at all partitions

    def has_room(self) -> None:
        """A directory has room again. Apache Kafka's controller sends the broker its partitions again only if asked."""
        if self._has_asked:
            self._has_asked = False
            self._next_s = float("-inf")
            self._ask()
