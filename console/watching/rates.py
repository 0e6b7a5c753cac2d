"""Rates of the last hour, in bounded lists: of the cluster, between two snapshots; of one broker, from its counters."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Final, NamedTuple

from client.topic_partition import TopicPartition
from console.inside import Traffic
from console.watching.snapshot import Snapshot

KEPT_MS: Final = 3_600_000
MAX_POINTS: Final = 720
_GAP_MS: Final = 60_000
"""If nobody looked for longer, the line of a chart is interrupted."""


class Point(NamedTuple):
    """Rates per second that end at a time (ms since the epoch); None: not known."""

    time_ms: int
    values: tuple[float | None, ...]


class Rates:
    """The points of the last hour."""

    def __init__(self, width: int) -> None:
        """width: how many values a point has."""
        self._nothing = (None,) * width
        self._points: deque[Point] = deque(maxlen=MAX_POINTS)

    @property
    def points(self) -> tuple[Point, ...]:
        """The points, oldest first."""
        return tuple(self._points)

    def add(self, before_ms: int, point: Point) -> None:
        """Add the rates between two times."""
        if point.time_ms - before_ms > _GAP_MS:
            self._points.append(Point(before_ms + 1, self._nothing))
        self._points.append(point)
        while self._points[0].time_ms < point.time_ms - KEPT_MS:
            self._points.popleft()


def cluster_rates(before: Snapshot, after: Snapshot) -> Point:
    """Return records and bytes appended to topics that are not internal, per second.

    Partitions that only one of the snapshots knows do not count, so the rate is that of the brokers that answered.
    Bytes are the growth of the leaders' logs; deleted segments do not count.
    """
    seconds = max(after.time_ms - before.time_ms, 1) / 1000

    def is_counted(partition: TopicPartition) -> bool:
        topic, old = after.topics.get(partition.topic), before.topics.get(partition.topic)
        return topic is not None and old is not None and topic.topic_id == old.topic_id and not topic.is_internal

    def grown(old: Mapping[TopicPartition, int], new: Mapping[TopicPartition, int]) -> float:
        return sum(max(0, value - old[one]) for one, value in new.items() if one in old and is_counted(one)) / seconds

    records = grown(before.ends, after.ends) if after.ends or not after.topics else None
    return Point(after.time_ms, (records, grown(before.sizes, after.sizes) if after.disks else None))


def traffic_rates(before: tuple[int, Traffic], after: tuple[int, Traffic]) -> Point:
    """Return requests, bytes produced and bytes fetched per second, between two readings with their times."""
    seconds = max(after[0] - before[0], 1) / 1000
    return Point(after[0], tuple(max(0, new - old) / seconds for old, new in zip(before[1], after[1], strict=True)))
