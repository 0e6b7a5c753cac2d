"""The offsets that a batch reads, and their division into ranges: pure functions on offsets by partition.

The rules are those in Spark's documentation of its Kafka source.
"""

import math
from collections.abc import Iterable, Mapping

from pyspark.sql.datasource import InputPartition

from client.topic_partition import TopicPartition
from spark_connector.topic_offsets import Offsets


class OffsetRange(InputPartition):
    """The offsets of one partition that one task reads: from `start` up to `end` (exclusive)."""

    def __init__(self, topic: str, partition: int, start: int, end: int) -> None:
        self.topic = topic
        self.partition = partition
        self.start = start
        self.end = end

    @property
    def topic_partition(self) -> TopicPartition:
        """The partition of the range."""
        return TopicPartition(self.topic, self.partition)

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition} [{self.start}, {self.end})"


def ranges_of(start: Mapping[TopicPartition, int], end: Mapping[TopicPartition, int]) -> list[OffsetRange]:
    """The non-empty ranges between `start` and `end`, of the partitions that are in both."""
    return [
        OffsetRange(*partition, start[partition], end[partition])
        for partition in sorted(end)
        if partition in start and start[partition] < end[partition]
    ]


def divided(ranges: list[OffsetRange], *, minimum: int | None, max_records: int | None) -> list[OffsetRange]:
    """Split large ranges into parts of at most `max_records` offsets; if there are fewer than `minimum` parts, split
    all ranges in proportion to their sizes.
    """
    sizes = [one.end - one.start for one in ranges]
    counts = [1 if max_records is None else math.ceil(size / max_records) for size in sizes]
    if minimum is not None and sum(counts) < minimum:
        total = sum(sizes)
        # A range has at most one part per offset.
        wanted = [min(size, max(1, round(minimum * size / total))) for size in sizes]
        counts = [max(pair) for pair in zip(counts, wanted, strict=True)]
        counts = _raised(counts, sizes, minimum)
    return [part for one, count in zip(ranges, counts, strict=True) for part in _parts(one, count)]


def _raised(counts: list[int], sizes: list[int], minimum: int) -> list[int]:
    """Add parts to the ranges with the largest parts up to `minimum`, as rounding may give too few."""
    counts = list(counts)
    while sum(counts) < min(minimum, sum(sizes)):
        largest = max(range(len(counts)), key=lambda at: sizes[at] / counts[at])
        counts[largest] += 1
    return counts


def _parts(one: OffsetRange, count: int) -> Iterable[OffsetRange]:
    size = one.end - one.start
    for at in range(count):
        yield OffsetRange(
            one.topic, one.partition, one.start + size * at // count, one.start + size * (at + 1) // count
        )


def limited(start: Mapping[TopicPartition, int], latest: Mapping[TopicPartition, int], most: int) -> Offsets:
    """End offsets so that about `most` offsets are read, from each partition in proportion to its backlog.

    A partition whose share is below one offset gets one, so that none starves; the sum may be a little above `most`.
    """
    sizes = {partition: max(0, end - start.get(partition, end)) for partition, end in latest.items()}
    total = sum(sizes.values())
    if total <= most:
        return dict(latest)
    ends = {}
    for partition, end in latest.items():
        share = most * sizes[partition] / total
        count = math.floor(share) if share >= 1 else math.ceil(share)
        ends[partition] = min(end, start.get(partition, end) + count)
    return ends


def count(start: Mapping[TopicPartition, int], latest: Mapping[TopicPartition, int]) -> int:
    """The number of offsets to read."""
    return sum(max(0, end - start.get(partition, end)) for partition, end in latest.items())


def losses(start: Mapping[TopicPartition, int], end: Mapping[TopicPartition, int]) -> list[str]:
    """Data lost since a stream was at `start`, as texts: missing partitions, and logs that now end before `start`."""
    found = []
    for partition, offset in sorted(start.items()):
        if partition not in end:
            found.append(f"partition {partition}, read up to offset {offset}, is gone")
        elif end[partition] < offset:
            found.append(f"partition {partition} ends at offset {end[partition]}, and was read up to {offset} before")
    return found
