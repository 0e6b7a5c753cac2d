"""Which offsets a batch reads, and how they are divided: pure functions, on offsets by partition.

The rules are those that Spark's documentation states for its Kafka source.
"""

import math
from collections.abc import Iterable, Mapping

from pyspark.sql.datasource import InputPartition

from client.topic_partition import TopicPartition
from spark_connector.topic_offsets import Offsets


class OffsetRange(InputPartition):
    """The offsets of one partition that one task reads: from `start` up to `end`, which is not read."""

    def __init__(self, topic: str, partition: int, start: int, end: int) -> None:
        self.topic = topic
        self.partition = partition
        self.start = start
        self.end = end

    @property
    def topic_partition(self) -> TopicPartition:
        """The partition's name."""
        return TopicPartition(self.topic, self.partition)

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition} [{self.start}, {self.end})"


def ranges_of(start: Mapping[TopicPartition, int], end: Mapping[TopicPartition, int]) -> list[OffsetRange]:
    """What lies between, of every partition that is in both and has anything."""
    return [
        OffsetRange(*partition, start[partition], end[partition])
        for partition in sorted(end)
        if partition in start and start[partition] < end[partition]
    ]


def divided(ranges: list[OffsetRange], *, minimum: int | None, max_records: int | None) -> list[OffsetRange]:
    """Large ranges in parts: of at most `max_records` offsets; of all, if that makes fewer than `minimum`, in
    proportion to their sizes.
    """
    sizes = [one.end - one.start for one in ranges]
    counts = [1 if max_records is None else math.ceil(size / max_records) for size in sizes]
    if minimum is not None and sum(counts) < minimum:
        total = sum(sizes)
        # A range gives at most one part an offset.
        wanted = [min(size, max(1, round(minimum * size / total))) for size in sizes]
        counts = [max(pair) for pair in zip(counts, wanted, strict=True)]
        counts = _raised(counts, sizes, minimum)
    return [part for one, count in zip(ranges, counts, strict=True) for part in _parts(one, count)]


def _raised(counts: list[int], sizes: list[int], minimum: int) -> list[int]:
    """One more for whichever has the largest parts, until there are enough: rounding may leave too few."""
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
    """Where to end so that about `most` offsets are read: each partition gives in proportion to what it has.

    One that would give less than one offset gives one, so that none is forgotten: the sum may be a little above.
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
    """How many offsets there are to read."""
    return sum(max(0, end - start.get(partition, end)) for partition, end in latest.items())


def losses(start: Mapping[TopicPartition, int], end: Mapping[TopicPartition, int]) -> list[str]:
    """What has gone since a stream was at `start`, in words: partitions, and ends of logs that are now before it."""
    found = []
    for partition, offset in sorted(start.items()):
        if partition not in end:
            found.append(f"partition {partition}, read up to offset {offset}, is gone")
        elif end[partition] < offset:
            found.append(f"partition {partition} ends at offset {end[partition]}, and was read up to {offset} before")
    return found
