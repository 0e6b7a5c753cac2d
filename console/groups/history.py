"""The lag of a group during the last half hour, and when it will have caught up.

The history is bounded: a sample every `SAMPLE_S` seconds for `KEPT_S`, of at most `MAX_PARTITIONS` partitions. It does
no I/O; times are those of the caller.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from typing import Final, NamedTuple

from client.topic_partition import TopicPartition

SAMPLE_S: Final = 10
KEPT_S: Final = 1800
MAX_PARTITIONS: Final = 500
_WINDOW_MS: Final = 300_000
"""Rates are those of the last five minutes,"""
_SHORTEST_MS: Final = 5_000
"""and unknown for a shorter time than this."""
_KEEPS_UP_MS: Final = 30_000
"""A group that has read everything that is older than this keeps up: groups commit every few seconds."""
_MISSING: Final = -1


class Status(StrEnum):
    """How a group is doing on a partition, best first."""

    CAUGHT_UP = "caught-up"
    KEEPING_UP = "keeping-up"
    CATCHING_UP = "catching-up"
    UNKNOWN = "unknown"
    FALLING_BEHIND = "falling-behind"
    STALLED = "stalled"


_ORDER: Final = tuple(Status)


class Position(NamedTuple):
    """A partition at one time; None is unknown."""

    at_ms: int
    committed: int | None
    end: int | None


class Estimate(NamedTuple):
    """How fast a partition is written and read, in records per second, and when the group has caught up."""

    status: Status
    consumed_per_s: float | None = None
    produced_per_s: float | None = None
    behind_s: float | None = None
    """How long ago the log ended at the committed offset; None if that is not in the history."""
    caught_up_in_s: float | None = None


class _Sample(NamedTuple):
    at_ms: int
    offsets: array[int]
    """Committed offset and log end offset of each partition."""


class LagHistory:
    """Samples of one group."""

    def __init__(self) -> None:
        self._index: dict[TopicPartition, int] = {}
        self._samples: deque[_Sample] = deque(maxlen=KEPT_S // SAMPLE_S)
        self._latest: _Sample | None = None

    def add(self, at_ms: int, offsets: Mapping[TopicPartition, tuple[int | None, int | None]]) -> None:
        """Add a reading: committed offset and log end offset of each partition. Only one in `SAMPLE_S` is kept."""
        for partition in sorted(offsets):
            if partition not in self._index and len(self._index) < MAX_PARTITIONS:
                self._index[partition] = len(self._index)
        row = array("q", [_MISSING]) * (2 * len(self._index))
        for partition, (committed, end) in offsets.items():
            if (at := self._index.get(partition)) is not None:
                row[2 * at] = _MISSING if committed is None else committed
                row[2 * at + 1] = _MISSING if end is None else end
        sample = _Sample(at_ms, row)
        self._latest = sample
        if not self._samples or at_ms - self._samples[-1].at_ms >= (SAMPLE_S - 1) * 1000:
            self._samples.append(sample)
        while self._samples[0].at_ms < at_ms - KEPT_S * 1000:
            self._samples.popleft()

    @property
    def times_ms(self) -> list[int]:
        """The times of the samples, the latest reading last."""
        return [one.at_ms for one in self._all()]

    def positions(self, partition: TopicPartition) -> list[Position]:
        """Return a partition at these times; an empty list for a partition that is not in the history."""
        at = self._index.get(partition)
        return [] if at is None else [_position(sample, at) for sample in self._all()]

    def lags(self, partition: TopicPartition) -> list[int | None]:
        """Return the lag on a partition at these times."""
        return [_lag(one) for one in self.positions(partition)]

    def total_lags(self, partitions: Iterable[TopicPartition]) -> list[int]:
        """Return the sum of the lags on these partitions at these times."""
        places = [self._index[one] for one in partitions if one in self._index]
        return [sum(_lag(_position(sample, at)) or 0 for at in places) for sample in self._all()]

    def estimate(self, partition: TopicPartition) -> Estimate | None:
        """Return the rates of a partition, and when the group has caught up; None if the lag is not known."""
        positions = [one for one in self.positions(partition) if one.committed is not None and one.end is not None]
        if not positions or positions[-1] != (self._position_now(partition)):
            return None
        return _estimate([(one.at_ms, one.committed or 0, one.end or 0) for one in positions])

    def _position_now(self, partition: TopicPartition) -> Position | None:
        return None if self._latest is None else _position(self._latest, self._index[partition])

    def _all(self) -> Iterator[_Sample]:
        yield from self._samples
        if self._latest is not None and self._latest is not self._samples[-1]:
            yield self._latest


def combined(estimates: Iterable[Estimate]) -> Estimate | None:
    """Return the estimate of a group: it has caught up when all partitions have, and the worst one decides."""
    found = list(estimates)
    if not found:
        return None
    status = max((one.status for one in found), key=_ORDER.index)
    times = [one.caught_up_in_s for one in found if one.caught_up_in_s is not None]
    return Estimate(
        status,
        _sum(one.consumed_per_s for one in found),
        _sum(one.produced_per_s for one in found),
        None if any(one.behind_s is None for one in found) else max(one.behind_s or 0 for one in found),
        max(times) if status is Status.CATCHING_UP and times else None,
    )


def _sum(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _position(sample: _Sample, at: int) -> Position:
    if 2 * at >= len(sample.offsets):
        return Position(sample.at_ms, None, None)
    committed, end = sample.offsets[2 * at : 2 * at + 2]
    return Position(sample.at_ms, None if committed < 0 else committed, None if end < 0 else end)


def _lag(position: Position) -> int | None:
    if position.committed is None or position.end is None:
        return None
    return max(position.end - position.committed, 0)


def _estimate(points: list[tuple[int, int, int]]) -> Estimate:
    """points: time, committed offset and log end offset, oldest first; at least one."""
    now_ms, committed, end = points[-1]
    lag = end - committed
    consumed, produced = _rates(points)
    reached = [at_ms for at_ms, _, then in points if then <= committed]
    behind_s = (now_ms - reached[-1]) / 1000 if reached else None
    if lag <= 0:
        return Estimate(Status.CAUGHT_UP, consumed, produced, 0.0, 0.0)
    if behind_s is not None and behind_s * 1000 <= _KEEPS_UP_MS:
        return Estimate(Status.KEEPING_UP, consumed, produced, behind_s)
    if consumed is None or produced is None:
        return Estimate(Status.UNKNOWN, None, None, behind_s)
    if consumed > produced:
        return Estimate(Status.CATCHING_UP, consumed, produced, behind_s, lag / (consumed - produced))
    status = Status.FALLING_BEHIND if consumed > 0 else Status.STALLED
    return Estimate(status, consumed, produced, behind_s)


def _rates(points: list[tuple[int, int, int]]) -> tuple[float | None, float | None]:
    """Return records per second, read and written, since the last time that an offset went back (a reset)."""
    first = last = points[-1]
    for point in reversed(points[:-1]):
        if point[1] > first[1] or point[2] > first[2] or last[0] - point[0] > _WINDOW_MS:
            break
        first = point
    passed_ms = last[0] - first[0]
    if passed_ms < _SHORTEST_MS:
        return None, None
    return (last[1] - first[1]) * 1000 / passed_ms, (last[2] - first[2]) * 1000 / passed_ms
