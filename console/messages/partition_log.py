"""Reads one partition in pieces: forwards from an offset, or the last records before one.

Offsets have holes: control records, compaction, aborted transactions. So the last n records before an offset are
looked for in a window, which moves down and grows until they are found.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from itertools import islice
from typing import Final, NamedTuple

from client.admin.admin import Admin
from client.topic_partition import TopicPartition
from console.messages.stored_record import ABORTED, StoredRecord, records_of
from protocol.message_set import LegacyMessage
from protocol.record_batch import RecordBatch

MAX_PIECES: Final = 400
"""Fetches for one page of one partition."""
_MAX_WINDOW: Final = 100_000
"""Offsets."""
_MAX_WINDOW_PIECES: Final = 64


class Range(NamedTuple):
    """The offsets of a partition: the first one, and the one after the last one that is shown."""

    start: int
    end: int

    def clamped(self, offset: int) -> int:
        """Return the nearest offset that is not outside."""
        return max(self.start, min(offset, self.end))


class Found(NamedTuple):
    """Records in the order of their offsets, and the offsets from `low` to before `high` that were looked at."""

    records: list[StoredRecord]
    low: int
    high: int


class Piece(NamedTuple):
    """The records of one Fetch, the offset after them, and the bytes that were read."""

    records: list[StoredRecord]
    next_offset: int
    size_bytes: int


class PartitionLog:
    """One partition. `shows_all`: also records of aborted and open transactions."""

    def __init__(
        self, admin: Admin, partition: TopicPartition, *, shows_all: bool, piece_bytes: int, max_bytes: int
    ) -> None:
        """piece_bytes: of one Fetch. max_bytes: fewer records than wanted are returned if these have more."""
        self._admin = admin
        self._partition = partition
        self._shows_all = shows_all
        self._piece_bytes = piece_bytes
        self._max_bytes = max_bytes

    async def pieces(self, start: int, end: int) -> AsyncIterator[Piece]:
        """Yield the records from `start` to before `end`, and those before `start` in its batch."""
        offset = start
        while offset < end:
            piece = await self._piece(offset, end)
            if piece is None:
                return
            yield piece._replace(next_offset=min(piece.next_offset, end))
            offset = piece.next_offset

    async def first(self, wanted: int, start: int, end: int) -> Found:
        """Return the first records from `start` on, at most `wanted`."""
        found: list[StoredRecord] = []
        high, left, size = start, MAX_PIECES, 0
        async for piece in self.pieces(start, end):
            found += [one for one in piece.records if start <= one.offset < end]
            high, left, size = piece.next_offset, left - 1, size + piece.size_bytes
            if len(found) >= wanted or not left or size >= self._max_bytes:
                break
        else:
            high = max(start, end)
        if len(found) > wanted:
            high = found[wanted - 1].offset + 1
        return Found(found[:wanted], start, high)

    async def batch(self, wanted: int, offset: int, end: int) -> Found:
        """Return the first records of the batch with this offset, at most `wanted`: no others are decoded."""
        piece = await self._piece(offset, end, most=wanted, piece_bytes=1)  # a Fetch has at least one batch
        records = [] if piece is None else piece.records
        return Found(records, min((one.offset for one in records), default=offset), end)

    async def last(self, wanted: int, start: int, end: int) -> Found:
        """Return the last records before `end`, at most `wanted`."""
        found: list[StoredRecord] = []
        low, window, left, size = end, wanted, MAX_PIECES, 0
        while low > start and len(found) < wanted and left > 0 and size < self._max_bytes:
            bottom = max(start, low - window)
            records, used, size_bytes = await self._window(bottom, low, start)
            left -= used
            size += 0 if records is None else size_bytes
            if records is None:  # the records are large
                window = max(1, window // 4)
                continue
            if records:
                bottom = max(start, min(bottom, records[0].batch.base_offset))
            found = records + found
            low = bottom
            window = min(2 * window, _MAX_WINDOW)
        if len(found) > wanted:
            low = found[-wanted].offset
        return Found(found[-wanted:], low, end)

    async def _window(self, bottom: int, top: int, start: int) -> tuple[list[StoredRecord] | None, int, int]:
        """Return the records between two offsets, those before in the same batch, the number of fetches, and the bytes.

        The records are None if the window has too many fetches, and can be made smaller.
        """
        records: list[StoredRecord] = []
        used = size = 0
        async for piece in self.pieces(bottom, top):
            used += 1
            size += piece.size_bytes
            records += [one for one in piece.records if start <= one.offset < top]
            is_large = used >= _MAX_WINDOW_PIECES or size >= self._max_bytes
            if is_large and piece.next_offset < top and top - bottom > 1:
                return None, used, size
        return records, max(used, 1), size

    async def _piece(
        self, offset: int, end: int, *, most: int | None = None, piece_bytes: int | None = None
    ) -> Piece | None:
        """Return what one Fetch finds before `end`; None if there is nothing.

        most: decode no more records.

        States of transactions are known for certain up to the last stable offset, which the first Fetch ends at.
        """
        for read_committed in (True, False) if self._shows_all else (True,):
            found = await self._admin.read_log(
                self._partition, offset, max_bytes=piece_bytes or self._piece_bytes, read_committed=read_committed
            )
            if not found.batches:
                continue
            found = found._replace(batches=[one for one in found.batches if _begin(one) < end])
            decoded = records_of(found, self._partition.partition, read_committed=read_committed)
            records = list(islice((one for one in decoded if self._shows_all or one.state != ABORTED), most))
            size = sum(one.size_bytes for one in found.batches)
            return Piece(records, found.batches[-1].next_offset, size)
        return None


def _begin(batch: RecordBatch | LegacyMessage) -> int:
    return batch.offset if isinstance(batch, LegacyMessage) else batch.base_offset
