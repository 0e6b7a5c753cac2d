"""Checks the observations of one reader against the final contents: skips, steps back, and the end.

A reader of committed data never passes an offset whose fate is open, so what is committed in the end before the offset
of a record that it got is what it must have got before. The same holds for uncommitted data: what is in the log before
a record was there first.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping

from support.transfers.anomaly import Anomaly, Kind, anomaly
from support.transfers.history import End, Partition, Poll, Reader, Record, Reset, Rest, Seek


def check_reader(reader: Reader, rest: Mapping[Partition, Rest]) -> Iterator[Anomaly]:
    """The anomalies of one reader."""
    follower = Follower(reader, rest)
    for event in reader.events:
        if isinstance(event, Seek):
            follower.position[event.partition] = event.offset
        elif isinstance(event, Poll):
            for record in event.records:
                yield from follower.take(record)
        elif isinstance(event, End):
            yield from follower.skipped(event.partition, event.offset)
            follower.ends[event.partition] = event.offset
        elif isinstance(event, Reset):
            yield anomaly(Kind.POLL_RESET, "no such offset", event.partition, operations=[reader.name])
    if reader.follows:
        for partition in follower.position:
            last = follower.ends.get(partition, 0)
            if last < rest[partition].end:
                yield anomaly(
                    Kind.UNFINISHED_READ,
                    f"it has read to {last} of {rest[partition].end}",
                    partition,
                    offsets=[last],
                    operations=[reader.name],
                )


class Follower:
    """The position of a reader."""

    def __init__(self, reader: Reader, rest: Mapping[Partition, Rest]) -> None:
        self.name = reader.name
        self.position: dict[Partition, int] = {}
        self.ends: dict[Partition, int] = {}
        self._values = {
            partition: one.committed if reader.committed else one.everything for partition, one in rest.items()
        }
        self._offsets = {partition: sorted(values) for partition, values in self._values.items()}

    def take(self, record: Record) -> Iterator[Anomaly]:
        """Process a record that the reader received."""
        partition, offset, value = record
        position = self.position[partition]
        if offset < position:
            yield anomaly(
                Kind.NONMONOTONIC_POLL,
                f"the next one is {position}",
                partition,
                offsets=[offset],
                values=[value],
                operations=[self.name],
            )
        yield from self.skipped(partition, offset)
        self.position[partition] = offset + 1

    def skipped(self, partition: Partition, offset: int) -> Iterator[Anomaly]:
        """Advance the reader to an offset: the records before it are skipped."""
        offsets = self._offsets[partition]
        first = self.position[partition]
        between = offsets[bisect_left(offsets, first) : bisect_left(offsets, offset)]
        if between:
            values = self._values[partition]
            yield anomaly(
                Kind.POLL_SKIP,
                f"from {first} to {offset}",
                partition,
                offsets=between,
                values=[values[one] for one in between],
                operations=[self.name],
            )
