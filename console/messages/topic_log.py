"""Reads some partitions of a topic at once: pages in both directions, in the order of timestamps.

A page is what `older` and `newer` make of bounds: an offset in each partition. The page after it begins where this one
ended, in each partition, so that no record is left out or shown twice; between partitions the order is that of
timestamps within a page. A partition whose leader does not answer in time is named, and the others are shown.
"""

from __future__ import annotations

import asyncio
import heapq
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from itertools import islice
from typing import Final, NamedTuple

from client.admin.admin import Admin
from client.consumer.offsets import EARLIEST, LATEST
from client.errors import KafkaError
from client.topic_partition import TopicPartition
from client.wire.metadata import TopicMetadata
from console.messages.cursor import Bounds
from console.messages.partition_log import Found, PartitionLog, Range
from console.messages.stored_record import StoredRecord
from protocol.errors import ProtocolError

TIMEOUT_S: Final = 6.0
"""How long leaders have to answer for one page."""
_AT_ONCE: Final = 8
_PAGE_BYTES: Final = 4 * 1024 * 1024
_MAX_BYTES: Final = 32 * 1024 * 1024
"""Bytes of batches that are read for one page, in all partitions."""
_MIN_PIECE: Final = 64 * 1024


class Page(NamedTuple):
    """Records, in the order in which they are shown, and the bounds of the pages before and after it."""

    records: list[StoredRecord]
    lows: Bounds
    """The first offset of the page in each partition: older records are before it."""
    highs: Bounds
    """The offset after the page in each partition."""


class TopicLog:
    """Partitions of a topic. `ranges` and `errors` are known after `open`: each partition is in one of them."""

    def __init__(self, admin: Admin, topic: TopicMetadata, partitions: Iterable[int], *, shows_all: bool) -> None:
        self.partitions = tuple(partitions)
        self.ranges: dict[int, Range] = {}
        self.errors: dict[int, str] = {}
        self._admin = admin
        self._topic = topic
        self._shows_all = shows_all
        self._max_bytes = max(_MIN_PIECE, _MAX_BYTES // max(1, len(self.partitions)))
        self._piece_bytes = max(_MIN_PIECE, min(1024 * 1024, _PAGE_BYTES // max(1, len(self.partitions))))

    async def open(self) -> None:
        """Ask all leaders for the offsets of their partitions."""
        starts, ends = await asyncio.gather(self.offsets(EARLIEST), self.offsets(LATEST))
        self.ranges = {one: Range(starts[one], max(starts[one], ends[one])) for one in starts if one in ends}

    async def refresh_ends(self) -> None:
        """Ask for the ends again."""
        for partition, end in (await self.offsets(LATEST)).items():
            known = self.ranges.get(partition, Range(end, end))
            self.ranges[partition] = Range(known.start, max(known.start, end))

    async def offsets(self, timestamp: int) -> Bounds:
        """Return the first offsets at or after a time, or EARLIEST or LATEST; the end if there is no such record."""
        by_leader: dict[int, list[int]] = {}
        for partition in self.partitions:
            by_leader.setdefault(self._topic.partitions[partition].leader, []).append(partition)
        found: Bounds = {}

        async def ask(partitions: list[int]) -> None:
            wanted = {TopicPartition(self._topic.name, one): timestamp for one in partitions}
            answer = await self._admin.list_offsets(wanted, read_committed=not self._shows_all)
            found.update({name.partition: one.offset for name, one in answer.items()})

        await asyncio.gather(*[self._guarded(part, partial(ask, part)) for part in by_leader.values()])
        for partition, offset in found.items():
            self.errors.pop(partition, None)
            if offset < 0 and partition in self.ranges:
                found[partition] = self.ranges[partition].end
        return found

    def log(self, partition: int) -> PartitionLog:
        """Return the log of one partition."""
        name = TopicPartition(self._topic.name, partition)
        return PartitionLog(
            self._admin, name, shows_all=self._shows_all, piece_bytes=self._piece_bytes, max_bytes=self._max_bytes
        )

    async def older(self, before: Bounds, limit: int, *, is_whole: bool = False) -> Page:
        """Return the newest records before these offsets, newest first. A partition without one: before its end.

        is_whole: `limit` is for each partition, not for all of them.
        """
        tops = {one: at.clamped(before.get(one, at.end)) for one, at in self.ranges.items()}
        found = await self._each(lambda one: self.log(one).last(limit, self.ranges[one].start, tops[one]))
        records = _newest({one: page.records for one, page in found.items()}, None if is_whole else limit)
        lows, shown = dict(tops), _by_partition(records)
        for partition, page in found.items():
            offsets = shown[partition]
            lows[partition] = page.low if len(offsets) == len(page.records) else min(offsets, default=tops[partition])
        return Page(records, lows, tops)

    async def newer(self, begin: Bounds, limit: int, *, is_whole: bool = False) -> Page:
        """Return the oldest records from these offsets on, oldest first. A partition without one: from its start.

        is_whole: as for `older`.
        """
        lows = {one: at.clamped(begin.get(one, at.start)) for one, at in self.ranges.items()}
        found = await self._each(lambda one: self.log(one).first(limit, lows[one], self.ranges[one].end))
        records = _oldest({one: page.records for one, page in found.items()}, None if is_whole else limit)
        highs, shown = dict(lows), _by_partition(records)
        for partition, page in found.items():
            offsets = shown[partition]
            all_shown = len(offsets) == len(page.records)
            highs[partition] = page.high if all_shown else max(offsets, default=lows[partition] - 1) + 1
        return Page(records, lows, highs)

    async def batches(self, at: Bounds, limit: int) -> list[StoredRecord]:
        """Return the first records of the batch with this offset in each partition, oldest first.

        limit: records of each partition. No others are decoded.
        """
        found = await self._each(lambda one: self.log(one).batch(limit, at[one], self.ranges[one].end), at)
        return _oldest({one: page.records for one, page in found.items()}, None)

    async def _each(
        self, read: Callable[[int], Awaitable[Found]], partitions: Iterable[int] | None = None
    ) -> dict[int, Found]:
        """Read partitions, by default all, a few at once of each leader."""
        found: dict[int, Found] = {}
        places = defaultdict[int, asyncio.Semaphore](lambda: asyncio.Semaphore(_AT_ONCE))

        async def read_one(partition: int) -> None:
            async with places[self._topic.partitions[partition].leader]:
                found[partition] = await read(partition)

        await asyncio.gather(*[self._guarded([one], partial(read_one, one)) for one in partitions or self.ranges])
        return found

    async def _guarded(self, partitions: list[int], work: Callable[[], Awaitable[None]]) -> None:
        """Do the work for some partitions, in a limited time. Their errors are kept."""
        try:
            async with asyncio.timeout(TIMEOUT_S):
                await work()
        except TimeoutError:
            leaders = sorted({self._topic.partitions[one].leader for one in partitions})
            text = f"broker {', '.join(map(str, leaders))} has not answered within {TIMEOUT_S:g} s"
            self.errors.update(dict.fromkeys(partitions, text))
        except (KafkaError, ProtocolError) as error:
            self.errors.update(dict.fromkeys(partitions, str(error)))


def _by_partition(records: list[StoredRecord]) -> defaultdict[int, list[int]]:
    """Return the offsets of the records of each partition."""
    offsets = defaultdict[int, list[int]](list)
    for one in records:
        offsets[one.partition].append(one.offset)
    return offsets


def _newest(records: dict[int, list[StoredRecord]], limit: int | None) -> list[StoredRecord]:
    """Return the newest records, newest first. In a partition the order is that of offsets."""
    streams = [reversed(one) for one in records.values()]
    return list(islice(heapq.merge(*streams, key=lambda one: (-one.timestamp, one.partition)), limit))


def _oldest(records: dict[int, list[StoredRecord]], limit: int | None) -> list[StoredRecord]:
    return list(islice(heapq.merge(*records.values(), key=lambda one: (one.timestamp, one.partition)), limit))
