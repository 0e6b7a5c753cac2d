"""Follows the end of a topic: what is new since the last look, at most a number of records.

A look asks the leaders for the end offsets and reads the last records before them. Records that are more than a look
may show are skipped, and counted. Nobody can read them all: a tail that skips in one look after the other becomes a
sample, which looks less often and reads less, so that a topic that is written fast costs no more than a slow one.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from console.messages.cursor import Bounds
from console.messages.filters import RecordFilter
from console.messages.selection import Selection
from console.messages.stored_record import StoredRecord

PERIOD_S: Final = 0.25
"""Between two looks that show everything."""
MOST_IN_A_LOOK: Final = 100
SAMPLE_PERIOD_S: Final = 1.0
"""Between two looks that skip records."""
SAMPLE: Final = 10
"""Records that such a look decodes. With a filter it reads MOST_IN_A_LOOK: it shows only those that match."""


class Look(NamedTuple):
    """New records, oldest first, and how many offsets were skipped."""

    records: list[StoredRecord]
    skipped: int


class Tail:
    """The end of the partitions of a selection.

    `at`: what has been shown, by partition. `period_s`: how long to wait until the next look.
    """

    def __init__(self, selection: Selection, wanted: RecordFilter) -> None:
        self._log = selection.log
        self._wanted = wanted
        ends = {one: at.end for one, at in self._log.ranges.items()}
        self.at: Bounds = ends | selection.begin
        self.period_s = PERIOD_S
        self._is_behind = False

    async def look(self) -> Look:
        """Return what is new."""
        await self._log.refresh_ends()
        ranges = self._log.ranges
        new = sum(max(0, at.end - self.at.setdefault(one, at.end)) for one, at in ranges.items())
        is_too_much = new > MOST_IN_A_LOOK * self.period_s / PERIOD_S
        is_sample = is_too_much and self._is_behind
        self._is_behind = is_too_much
        self.period_s = SAMPLE_PERIOD_S if is_sample else PERIOD_S
        if is_sample and self._wanted.is_empty:
            return await self._sample()
        each = max(1, MOST_IN_A_LOOK // max(1, len(ranges)))
        skipped = 0
        for partition, at in ranges.items():
            begin = max(self.at[partition], at.end - each)
            skipped += begin - self.at[partition]
            self.at[partition] = begin
        if all(self.at[one] >= ranges.end for one, ranges in self._log.ranges.items()):
            return Look([], skipped)
        page = await self._log.newer(self.at, each, is_whole=True)
        self.at |= page.highs
        await self._wanted.prepare(page.records)
        return Look([one for one in page.records if self._wanted.matches(one)], skipped)

    async def _sample(self) -> Look:
        """Return the first records of the last batch of each partition: what is before them need not be decoded."""
        ranges = self._log.ranges
        new = {one: at.end - self.at[one] for one, at in ranges.items() if at.end > self.at[one]}
        found = await self._log.batches({one: ranges[one].end - 1 for one in new}, max(1, SAMPLE // len(new)))
        records = [one for one in found if one.offset >= self.at[one.partition]]
        self.at |= {one: ranges[one].end for one in new}
        await self._wanted.prepare(records)
        return Look(records, sum(new.values()) - len(records))
