"""Copying a log to its future log in another log directory, until the future log replaces it.

The future log has the same first batches as the log, in segments with the same base offsets. The copy follows the log:
appends, a new log start offset, and truncations. After a truncation, the latest leader epoch in both logs tells up to
which offset they are the same. Reads that the page cache cannot serve, and syncs, run off the event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from protocol.buffer import Buffer
from storage.errors import UnexpectedAppendOffsetError
from storage.log.file_records import FileRecords
from storage.log.leader_epoch_cache import UNDEFINED_EPOCH_OFFSET
from storage.log.log import Log

if TYPE_CHECKING:
    from storage.log_manager import LogManager

_LAST_LIMIT = 32 * 1024 * 1024
_SYNC_BYTES = 64 * 1024 * 1024


class LogCopy:
    """Copies the log `current` to the future log `future`. Call all methods on the event loop's thread."""

    def __init__(self, manager: LogManager, current: Log, future: Log) -> None:
        self.current = current
        self.future = future
        self._manager = manager
        self._key = (current.topic, current.partition)
        self.is_given_up = False
        """Set by the caller to end the copy; the future log is left unchanged."""
        self._unsynced_bytes = 0
        self._compared: int | None = None  # `current.truncations` at the last comparison of the two logs

    @property
    def is_over(self) -> bool:
        """Whether the copy has ended: it was given up, a log was removed, or the future log has replaced the log."""
        manager, key = self._manager, self._key
        return (
            self.is_given_up
            or manager.logs.get(key) is not self.current
            or manager.futures.logs.get(key) is not self.future
        )

    @property
    def bytes_behind(self) -> int:
        """The number of bytes left to copy. Raises LogDirIOError."""
        current, end = self.current, self.future.log_end_offset
        with current.files.failing():
            found = current.segments.hints.get(end) or current.segments.find(end)
        if found is None:
            return 0
        following = current.segments[current.segments.index(found[0]) + 1 :]
        return found[0].size - found[1] + sum(segment.size for segment in following)

    # -- copying ---------------------------------------------------------------------------------------------------

    async def copy(self, max_bytes: int) -> int:
        """Copy the next whole batches, at least one; return the number of bytes, 0 if there are none.

        Raises StorageError; ProtocolError if the log is damaged.
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
            if self.is_over or compared != self.current.durability.truncations:
                return 0
        try:
            return self._append(data)
        except UnexpectedAppendOffsetError as error:
            # The log start offset is within the first batch: the future log must begin at the batch's base offset.
            if error.last_offset < self.future.log_end_offset or self.future.size_bytes:
                raise
            compared = self._compared
            await self._manager.truncate_fully_and_start_at(self.future, error.first_offset)
            is_as_it_was = not self.is_over and compared == self.current.durability.truncations
            return self._append(data) if is_as_it_was else 0

    async def sync_some(self) -> None:
        """Sync the future log after every 64 MiB: with more unsynced data, the system delays all writes.

        Raises LogDirIOError, LogClosedError.
        """
        if self._unsynced_bytes >= _SYNC_BYTES:
            self._unsynced_bytes = 0
            await self._manager.flush(self.future)

    async def _align(self) -> None:
        """Truncate the future log to the batches that the log has, too: at first, and after truncations of the log."""
        current, future, manager = self.current, self.future, self._manager
        while not self.is_over and self._compared != current.durability.truncations:
            compared = current.durability.truncations
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
        """Return the next batches of one segment; None if there are none."""
        current, future = self.current, self.future
        end = current.log_end_offset
        if future.log_end_offset == end:
            return None
        records = current.read(future.log_end_offset, max_bytes, max_offset=end).records
        if records is None:
            future.skip_to(end)
        return records

    def _read_now(self, records: FileRecords) -> Buffer | None:
        with self.current.files.failing():
            return records.read_now(0, len(records))

    async def _read_later(self, records: FileRecords) -> Buffer:
        with self.current.files.failing():
            return await records.read_later(0, len(records))

    def _append(self, data: Buffer) -> int:
        current, future = self.current, self.future
        first_offset = int.from_bytes(data[:8], "big")
        base_offset = current.segments[current.segments.number_of(first_offset)].base_offset
        if future.segments.active.size and base_offset > future.segments.active.base_offset:
            future.roll(base_offset)
        size = future.append_as_follower(data).size_bytes
        self._unsynced_bytes += size
        self._follow()
        return size

    def _follow(self) -> None:
        """Set the future log's high watermark and log start offset to those of the log."""
        current, future = self.current, self.future
        future.update_high_watermark(current.high_watermark)
        start = min(current.log_start_offset, future.high_watermark)
        if start > future.log_start_offset:
            future.increment_log_start_offset(start)
            future.delete_below_start()

    # -- replacing the log -----------------------------------------------------------------------------------------

    async def replace_log(self, replaced: Callable[[Log], None], max_bytes: int) -> bool:
        """Copy the rest and replace the log by the future log. False if the log was truncated or one was removed.

        replaced: called with the future log in the same turn of the event loop as the replacement; the old log is
        closed then. max_bytes: limit of what is copied in one turn before it. Raises the exceptions of `copy`.
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
        """Copy new records and swap. Each attempt copies more bytes in the same turn of the event loop as the swap.

        If `max_bytes` is small because of a throttle, the first attempts fail.
        """
        futures, flusher = self._manager.futures, self._manager.flusher
        limit, start = 2 * max_bytes, self.future.log_start_offset
        while not self.is_over and self._compared == self.current.durability.truncations:
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
        """Copy the rest in this turn of the event loop. False if it is above `max_bytes` or not in the page cache."""
        if self.is_over or self._compared != self.current.durability.truncations:
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
    """Return the offset up to which both logs are the same, by their latest common leader epoch; None without one."""
    for epoch, _ in reversed(future.leader_epochs.entries):
        known, end = current.end_offset_for_epoch(epoch)
        if known == epoch and end != UNDEFINED_EPOCH_OFFSET:
            return min(end, future.end_offset_for_epoch(epoch)[1])
    return None
