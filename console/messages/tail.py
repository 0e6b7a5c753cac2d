"""Follows the end of a topic: what is new since the last look, at most a number of records.

A look asks the leaders for the end offsets and reads the last records before them. So a topic that is written fast
costs no more than a slow one: records that are more than a look may show are skipped, and counted.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from console.messages.cursor import Bounds
from console.messages.filters import RecordFilter
from console.messages.selection import Selection
from console.messages.stored_record import StoredRecord

PERIOD_S: Final = 0.25
MOST_IN_A_LOOK: Final = 100


class Look(NamedTuple):
    """New records, oldest first, and how many offsets were skipped."""

    records: list[StoredRecord]
    skipped: int


class Tail:
    """The end of the partitions of a selection. `at`: what has been shown, by partition."""

    def __init__(self, selection: Selection, wanted: RecordFilter) -> None:
        self._log = selection.log
        self._wanted = wanted
        ends = {one: at.end for one, at in self._log.ranges.items()}
        self.at: Bounds = ends | selection.begin

    async def look(self) -> Look:
        """Return what is new."""
        await self._log.refresh_ends()
        each = max(1, MOST_IN_A_LOOK // max(1, len(self._log.ranges)))
        skipped = 0
        for partition, ranges in self._log.ranges.items():
            position = self.at.setdefault(partition, ranges.end)
            begin = max(position, ranges.end - each)
            skipped += begin - position
            self.at[partition] = begin
        if all(self.at[one] >= ranges.end for one, ranges in self._log.ranges.items()):
            return Look([], skipped)
        page = await self._log.newer(self.at, each, is_whole=True)
        self.at |= page.highs
        await self._wanted.prepare(page.records)
        return Look([one for one in page.records if self._wanted.matches(one)], skipped)
