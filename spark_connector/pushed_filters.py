"""Filters of a batch query that the source takes over: on topic, partition, offset and timestamp.

Filters on topic, partition and offset are exact: planning the ranges applies them completely. A filter on the timestamp
only moves the start (to the first record that is as late, by the broker's index): later records may be older, so Spark
evaluates this filter as well, and an upper limit on timestamps has no effect here.
"""

import datetime
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
)

from client.topic_partition import TopicPartition
from spark_connector.topic_offsets import Offsets

if TYPE_CHECKING:
    from spark_connector.offset_lookup import OffsetLookup

_MS: Final = datetime.timedelta(milliseconds=1)
_EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_NEVER_NULL: Final = ("topic", "partition", "offset", "timestamp", "timestampType")


class PushedFilters:
    """The restrictions by a query's filters: on partitions, on offsets, and a lower limit of the timestamp."""

    def __init__(self) -> None:
        self._tests: list[tuple[int, Callable[[Any], bool]]] = []
        self._from = 0
        self._until: float = math.inf
        self._since_ms: int | None = None

    def push(self, filters: list[Filter]) -> list[Filter]:
        """Take over supported filters. Return those that Spark must evaluate."""
        return [one for one in filters if not self._take(one)]

    def _take(self, one: Filter) -> bool:
        """Take over a filter if possible. Return whether Spark need not evaluate it."""
        path: tuple[str, ...] = getattr(one, "attribute", ())
        if len(path) != 1:
            return False
        name = path[0]
        if isinstance(one, IsNotNull):
            return name in _NEVER_NULL
        value = getattr(one, "value", None)
        if value is None:
            return False
        if name in ("topic", "partition"):
            return self._take_partition(name, one, value)
        if name == "offset":
            return self._take_offset(one, value)
        if name == "timestamp":
            self._take_timestamp(one, value)
        return False

    def _take_partition(self, name: str, one: Filter, value: Any) -> bool:
        test = _test(one, value)
        if test is not None:
            self._tests.append((0 if name == "topic" else 1, test))
        return test is not None

    def _take_offset(self, one: Filter, value: Any) -> bool:
        if isinstance(one, (EqualTo, EqualNullSafe)):
            self._from, self._until = max(self._from, value), min(self._until, value + 1)
        elif isinstance(one, GreaterThan):
            self._from = max(self._from, value + 1)
        elif isinstance(one, GreaterThanOrEqual):
            self._from = max(self._from, value)
        elif isinstance(one, LessThan):
            self._until = min(self._until, value)
        elif isinstance(one, LessThanOrEqual):
            self._until = min(self._until, value + 1)
        else:
            if isinstance(one, In) and (known := [offset for offset in value if offset is not None]):
                # The range also contains the offsets between them.
                self._from, self._until = max(self._from, min(known)), min(self._until, max(known) + 1)
            return False
        return True

    def _take_timestamp(self, one: Filter, value: Any) -> None:
        if isinstance(one, (EqualTo, EqualNullSafe, GreaterThan, GreaterThanOrEqual)):
            moment = value if value.tzinfo is not None else value.replace(tzinfo=datetime.UTC)
            since_ms = -(-(moment - _EPOCH) // _MS)
            self._since_ms = max(self._since_ms or 0, since_ms)

    async def narrowed(self, lookup: "OffsetLookup", start: Offsets, end: Offsets) -> tuple[Offsets, Offsets]:
        """Start and end offsets of the remaining partitions, with the filters applied."""
        kept = [partition for partition in start if partition in end and self._wants(partition)]
        start = {partition: max(start[partition], self._from) for partition in kept}
        end = {partition: int(min(end[partition], self._until)) for partition in kept}
        if self._since_ms is not None and self._since_ms > 0:
            todo = [partition for partition in kept if start[partition] < end[partition]]
            found = await lookup.at_or_after(dict.fromkeys(todo, self._since_ms))
            for partition, offset in found.items():
                start[partition] = end[partition] if offset is None else max(start[partition], offset)
        return start, end

    def _wants(self, partition: TopicPartition) -> bool:
        return all(test(partition[at]) for at, test in self._tests)


def _test(one: Filter, value: Any) -> Callable[[Any], bool] | None:
    if isinstance(one, (EqualTo, EqualNullSafe)):
        return lambda found: bool(found == value)
    if isinstance(one, In):
        return lambda found: found in value
    if isinstance(one, GreaterThan):
        return lambda found: bool(found > value)
    if isinstance(one, GreaterThanOrEqual):
        return lambda found: bool(found >= value)
    if isinstance(one, LessThan):
        return lambda found: bool(found < value)
    if isinstance(one, LessThanOrEqual):
        return lambda found: bool(found <= value)
    return None
