"""Syncing logs off the event loop: one sync of a log at a time, and those who wait for an offset to be on disk.

A log that has moved to another directory meanwhile has a successor, which holds its records, too: who waits for the
one waits for the other. Whoever replaces a log keeps it from being synced for that moment (`holding`), so that
nothing is promised of the one that the other does not keep.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator

from storage.errors import LogClosedError, LogDirIOError
from storage.file_system import FileSystem
from storage.log.log import Log

logger = logging.getLogger(__name__)


class LogFlusher:
    """Syncs logs. All methods belong to the event loop's thread."""

    def __init__(self, fs: FileSystem) -> None:
        self._fs = fs
        self._busy: dict[Log, asyncio.Event] = {}

    async def flush(self, log: Log, offset: int | None = None) -> None:
        """Sync a log up to `offset` (default: its end). Raises LogDirIOError, LogClosedError."""
        async with self.holding(log):
            if log.successor is None:
                await self._flush(log, offset)
                return
        await self.flush(log.successor, offset)

    async def _flush(self, log: Log, offset: int | None) -> None:
        if log.closed:
            raise LogClosedError(f"{log.topic}-{log.partition} is closed")
        flush = log.prepare_flush(offset)
        if flush is None:
            return
        try:
            await self._fs.run_blocking(flush.run)
            flush.done()
        except BaseException:
            flush.failed()
            raise

    async def flush_up_to(self, log: Log, offset: int) -> None:
        """Return when everything below `offset` is on disk. Raises LogDirIOError, LogClosedError.

        Those who come while a sync runs wait for it, and the next one then serves them all. Where the log was truncated
        meanwhile nothing is left to sync: whoever leads the partition now tells what became of the records.
        """
        while True:
            while log.successor is not None:
                log = log.successor
            if not log.recovery_point < offset <= log.log_end_offset:
                return
            running = self._busy.get(log)
            if running is not None:
                await running.wait()
            else:
                await self.flush(log)

    async def try_to_flush(self, log: Log, offset: int | None = None) -> None:
        """Sync a log. One that cannot be synced is the business of its directory, and keeps nobody else."""
        try:
            await self.flush(log, offset)
        except (LogDirIOError, LogClosedError) as error:
            logger.debug("%r is not synced: %s", log, error)

    @contextlib.asynccontextmanager
    async def holding(self, log: Log) -> AsyncIterator[None]:
        """Wait for the sync of a log that is under way, and keep others from beginning one."""
        while (running := self._busy.get(log)) is not None:
            await running.wait()
        done = self._busy[log] = asyncio.Event()
        try:
            yield
        finally:
            del self._busy[log]
            done.set()
