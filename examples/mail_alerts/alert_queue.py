"""Alerts that wait for a worker: at most so many, grouped by topic, the topics in turn.

So a storm of alerts of one topic does not hold up those of the others. Where the queue is full, `put` waits; the
listener container then pauses the partitions, and the alerts stay in Kafka.
"""

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from examples.mail_alerts.alert import Alert
from ottla import Acknowledgment, RebalanceListener, TopicPartition


class Waiting(NamedTuple):
    """An alert, and how to say that it has been dealt with."""

    alert: Alert
    acknowledgment: Acknowledgment


class AlertQueue(RebalanceListener):
    """`limit`: how many alerts wait at most, of all topics. As a listener of rebalances it forgets what others get."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._topics: dict[str, deque[Waiting]] = {}
        self._changed = asyncio.Condition()
        self.size = 0

    async def put(self, alert: Alert, acknowledgment: Acknowledgment) -> None:
        """Add it, as soon as there is room."""
        async with self._changed:
            await self._changed.wait_for(lambda: self.size < self._limit)
            self._topics.setdefault(alert.topic, deque()).append(Waiting(alert, acknowledgment))
            self.size += 1
            self._changed.notify_all()

    async def take(self) -> Waiting:
        """Return the oldest alert of the next topic; wait until there is one."""
        async with self._changed:
            await self._changed.wait_for(lambda: self.size > 0)
            topic = next(iter(self._topics))
            waiting = self._topics.pop(topic)
            found = waiting.popleft()
            if waiting:
                self._topics[topic] = waiting  # behind the others
            self.size -= 1
            self._changed.notify_all()
            return found

    async def on_partitions_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        """Others get these, so they are not for us any more; also where they are lost."""
        gone = set(partitions)
        async with self._changed:
            for topic, waiting in list(self._topics.items()):
                kept = deque(one for one in waiting if one.alert.source not in gone)
                self.size -= len(waiting) - len(kept)
                if kept:
                    self._topics[topic] = kept
                else:
                    del self._topics[topic]
            self._changed.notify_all()
