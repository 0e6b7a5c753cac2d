"""Goes through a topic and picks the records that match, in steps that leave time for others, up to a limit.

Where it stops it can be continued: it knows an offset in each partition, and none is looked at twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Final

from console.messages.cursor import Bounds
from console.messages.filters import RecordFilter
from console.messages.selection import Selection
from console.messages.stored_record import StoredRecord

_ROUND: Final = 2000
"""Records of each partition that are read at once."""
_SLICE_S: Final = 0.02
"""How long the event loop is busy with records before others have a turn."""


class Scan:
    """One pass. `at`: where it is; `scanned`, `matched`: how many records; `is_complete`: there are no more."""

    def __init__(self, selection: Selection, wanted: RecordFilter, *, limit: int, max_scanned: int) -> None:
        self.at: Bounds = dict(selection.begin)
        self.scanned = 0
        self.matched = 0
        self.is_complete = False
        self._selection = selection
        self._wanted = wanted
        self._limit = limit
        self._max_scanned = max_scanned

    def is_over(self) -> bool:
        """Return whether the end or a limit is reached."""
        return self.is_complete or self.matched >= self._limit or self.scanned >= self._max_scanned

    async def steps(self) -> AsyncIterator[list[StoredRecord]]:
        """Yield the records that match, again and again, also none; until `is_over`."""
        log, is_newer = self._selection.log, self._selection.is_newer
        while not self.is_over():
            size = min(_ROUND, self._max_scanned)
            page = await (log.newer if is_newer else log.older)(self.at, size, is_whole=True)
            bounds = page.highs if is_newer else page.lows
            before = page.lows if is_newer else page.highs
            self.at = dict(before)
            await self._wanted.prepare(page.records)
            async for found in self._matching(page.records):
                yield found
                if self.is_over():
                    return
            self.at = bounds
            last = {one: at.end if is_newer else at.start for one, at in log.ranges.items()}
            readable = [one for one in bounds if one not in log.errors]
            self.is_complete = all(bounds[one] == last[one] for one in readable)
            if bounds == before and not page.records:
                self.is_complete = True

    async def _matching(self, records: list[StoredRecord]) -> AsyncIterator[list[StoredRecord]]:
        """Yield what matches after each slice of time."""
        loop = asyncio.get_running_loop()
        is_newer = self._selection.is_newer
        found: list[StoredRecord] = []
        begun = loop.time()
        for record in records:
            self.at[record.partition] = record.offset + 1 if is_newer else record.offset
            self.scanned += 1
            if self._wanted.matches(record):
                self.matched += 1
                found.append(record)
            if self.is_over():
                break
            if loop.time() - begun >= _SLICE_S:
                yield found
                found = []
                await asyncio.sleep(0)
                begun = loop.time()
        yield found
