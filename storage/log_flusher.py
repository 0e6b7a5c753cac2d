"""Syncing logs off the event loop, one sync of a log at a time, and waiting until an offset is on disk.

A log that was moved to another directory has a successor, which holds the same records: a wait for the log becomes a
wait for its successor. While a log is being replaced, `holding` prevents syncs of it, so that no sync of the old log
confirms records that the new log does not have.
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
    """Sync logs. Call all methods on the event loop's thread."""

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
        """Return when all records below `offset` are on disk. Raises LogDirIOError, LogClosedError.

        Callers that arrive during a sync wait for its end; the next sync then serves all of them. If the log was
        truncated below `offset`, nothing is left to sync and the method returns: the partition's current leader
        decides what happened to the records.
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
        """Sync a log and ignore failures: the log's directory handles them, and other logs must still be synced."""
        try:
            await self.flush(log, offset)
        except (LogDirIOError, LogClosedError) as error:
            logger.debug("%r is not synced: %s", log, error)

    @contextlib.asynccontextmanager
    async def holding(self, log: Log) -> AsyncIterator[None]:
        """Wait for a running sync of the log to end, and prevent new ones inside the `async with` block."""
        while (running := self._busy.get(log)) is not None:
            await running.wait()
        done = self._busy[log] = asyncio.Event()
        try:
            yield
        finally:
            del self._busy[log]
            done.set()
