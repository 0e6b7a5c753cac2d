"""Copying a log to its future log, in another log directory, until that takes its place.

The copy is a beginning of the log, batch for batch, in segments that begin where the log's do. It follows what happens
to the log meanwhile: appends, a new log start offset, and truncations, after which the latest leader epoch that both
know tells how far they are the same. Only reading what the page cache does not hold, and syncing, leave the event loop.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import Callable
from typing import TYPE_CHECKING

from protocol.buffer import Buffer
from storage.errors import UnexpectedAppendOffsetError
from storage.log import change as log_change
from storage.log import follower as log_follower
from storage.log import lookup as log_lookup
from storage.log.file_records import FileRecords
from storage.log.leader_epoch_cache import UNDEFINED_EPOCH_OFFSET
from storage.log.log import Log

if TYPE_CHECKING:
    from storage.log_manager import LogManager

_LAST_LIMIT = 32 * 1024 * 1024
_SYNC_BYTES = 64 * 1024 * 1024


class LogCopy:
    """`current`, a log, on its way to `future`. All methods belong to the event loop's thread."""

    def __init__(self, manager: LogManager, current: Log, future: Log) -> None:
        self.current = current
        self.future = future
        self._manager = manager
        self._key = (current.topic, current.partition)
        self.is_given_up = False
        """Set by who wants no more of it; the future log stays what it is."""
        self._unsynced_bytes = 0
        self._compared: int | None = None  # how often the log had been truncated when the two were compared last

    @property
    def is_over(self) -> bool:
        """Whether nothing is to be copied any more: one of the two is gone, or the copy has taken the place."""
        manager, key = self._manager, self._key
        return (
            self.is_given_up
            or manager.logs.get(key) is not self.current
            or manager.futures.logs.get(key) is not self.future
        )

    @property
    def bytes_behind(self) -> int:
        """How much is missing. Raises LogDirIOError."""
        current, end = self.current, self.future.log_end_offset
        try:
            found = current.hints.get(end) or log_lookup.find(current, end, current.segments)
        except OSError as error:
            raise current.fs.failed(current.directory, error) from error
        if found is None:
            return 0
        following = current.segments[current.segments.index(found[0]) + 1 :]
        return found[0].size - found[1] + sum(segment.size for segment in following)

    # -- copying ---------------------------------------------------------------------------------------------------

    async def copy(self, max_bytes: int) -> int:
        """Copy the next batches, whole ones, one at least; how many bytes that was, 0 where there are none.

        Raises StorageError, ProtocolError (the log is damaged).
        """
        await self._align()
        if self.is_over:
            return 0
        records = self._read(max_bytes)
        if records is None:
            self._follow()
            return 0
        data = self._read_now(records)
        if data is None:
            compared = self._compared
            data = await self._read_later(records)
            if self.is_over or compared != self.current.truncations:
                return 0
        try:
            return self._append(data)
        except UnexpectedAppendOffsetError as error:
            # The log starts within its first batch: the copy has to begin before.
            if error.last_offset < self.future.log_end_offset or self.future.size_bytes:
                raise
            compared = self._compared
            await self._manager.truncate_fully_and_start_at(self.future, error.first_offset)
            is_as_it_was = not self.is_over and compared == self.current.truncations
            return self._append(data) if is_as_it_was else 0

    async def sync_some(self) -> None:
        """Sync what has been copied, when it is much: else the system holds up whoever writes anything at last.

        Raises LogDirIOError, LogClosedError.
        """
        if self._unsynced_bytes >= _SYNC_BYTES:
            self._unsynced_bytes = 0
            await self._manager.flush(self.future)

    async def _align(self) -> None:
        """Let the copy be a beginning of the log: where the log was truncated, or the two have just met."""
        current, future, manager = self.current, self.future, self._manager
        while not self.is_over and self._compared != current.truncations:
            compared = current.truncations
            if future.size_bytes:
                end = common_end(current, future)
                if end is None:
                    await manager.truncate_fully_and_start_at(future, current.log_start_offset)
                else:
                    await manager.truncate_to(future, end)
            self._compared = compared
        is_beginning = future.log_start_offset <= current.log_start_offset <= future.log_end_offset
        if not self.is_over and not (is_beginning and future.log_end_offset <= current.log_end_offset):
            await manager.truncate_fully_and_start_at(future, current.log_start_offset)

    def _read(self, max_bytes: int) -> FileRecords | None:
        """The batches that come next, of one segment; None where there are none."""
        current, future = self.current, self.future
        end = current.log_end_offset
        if future.log_end_offset == end:
            return None
        max_bytes = min(max_bytes, current.config.segment_bytes)
        records = current.read(future.log_end_offset, max_bytes, max_offset=end).records
        if records is None:
            log_follower.skip_to(future, end)
        return records

    def _read_now(self, records: FileRecords) -> Buffer | None:
        try:
            return records.read_now(0, len(records))
        except OSError as error:
            raise self.current.fs.failed(self.current.directory, error) from error

    async def _read_later(self, records: FileRecords) -> Buffer:
        try:
            return await records.read_later(0, len(records))
        except OSError as error:
            raise self.current.fs.failed(self.current.directory, error) from error

    def _append(self, data: Buffer) -> int:
        current, future = self.current, self.future
        first_offset = int.from_bytes(data[:8], "big")
        base_offset = current.base_offsets[max(bisect_right(current.base_offsets, first_offset) - 1, 0)]
        if future.active_segment.size and base_offset > future.active_segment.base_offset:
            log_change.roll(future, base_offset)
        size = future.append_as_follower(data).size_bytes
        self._unsynced_bytes += size
        self._follow()
        return size

    def _follow(self) -> None:
        """Take over how far the log is committed, and where it starts."""
        current, future = self.current, self.future
        future.update_high_watermark(current.high_watermark)
        start = min(current.log_start_offset, future.high_watermark)
        if start > future.log_start_offset:
            future.increment_log_start_offset(start)
            log_change.delete_below_start(future)

    # -- the end ---------------------------------------------------------------------------------------------------

    async def take_its_place(self, replaced: Callable[[Log], None], max_bytes: int) -> bool:
        """Let the copy, which lacks little, be the log. False where the log was truncated or one of them is gone.

        replaced: called with the copy in the turn of the event loop in which it takes the place; old records are closed
        then. max_bytes: of what is copied in one turn before. Raises what `copy` raises.
        """
        manager, futures = self._manager, self._manager.futures
        await self._copy_what_is_there(max_bytes)
        await manager.flush(self.future)
        async with manager.flusher.holding(self.current):
            await self._copy_what_is_there(max_bytes)
            if self.is_over:
                return False
            await futures.prepare(self._key)
            if not await self._swap(replaced, max_bytes):
                return False
        await futures.retire(self.current, self.future)
        return True

    async def _copy_what_is_there(self, max_bytes: int) -> None:
        await self._align()
        end = self.current.log_end_offset
        while not self.is_over and self.future.log_end_offset < min(end, self.current.log_end_offset):
            await self.copy(max_bytes)
            await asyncio.sleep(0)

    async def _swap(self, replaced: Callable[[Log], None], max_bytes: int) -> bool:
        """Copy what has come meanwhile, and swap. With each try more is copied in the turn of the swap itself.

        `max_bytes` may be what a throttle allows: then the first tries fail.
        """
        futures, flusher = self._manager.futures, self._manager.flusher
        limit, start = 2 * max_bytes, self.future.log_start_offset
        while not self.is_over and self._compared == self.current.truncations:
            async with flusher.holding(self.future):
                if self._copy_now(limit):
                    is_started = self.future.log_start_offset == self.current.log_start_offset == start
                    is_synced = self.future.recovery_point >= self.current.recovery_point
                    if self._manager.truncations.is_coming(self.current) or not (is_started and is_synced):
                        return False
                    futures.swap(self._key)
                    replaced(self.future)
                    return True
            await self.copy(max(max_bytes, limit // 8))
            await asyncio.sleep(0)
            limit = min(limit * 2, _LAST_LIMIT)
        return False

    def _copy_now(self, max_bytes: int) -> bool:
        """Copy all that is missing in this turn of the event loop. False where that is too much, or not at hand."""
        if self.is_over or self._compared != self.current.truncations:
            return False
        copied = 0
        while copied < max_bytes and self.future.log_end_offset >= self.current.log_start_offset:
            records = self._read(max_bytes - copied)
            if records is None:
                self._follow()
                return self.future.log_end_offset == self.current.log_end_offset
            data = self._read_now(records)
            if data is None:
                return False
            copied += self._append(data)
        return False


def common_end(current: Log, future: Log) -> int | None:
    """Up to where a copy is what the log is: by the latest leader epoch that both know. None where there is none."""
    for epoch, _ in reversed(future.leader_epochs.entries):
        known, end = current.end_offset_for_epoch(epoch)
        if known == epoch and end != UNDEFINED_EPOCH_OFFSET:
            return min(end, future.end_offset_for_epoch(epoch)[1])
    return None
