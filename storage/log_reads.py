"""Reads of logs that may wait for the disk, in other threads, so that the event loop goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import TypeVar

from storage.file_system import FileSystem
from storage.log.log import Log
from storage.log.lookup import Found
from storage.log.warm_up import WarmUp

T = TypeVar("T")

_AT_ONCE = 4
"""A read holds about one batch, or a few MiB, in memory. Four also leave threads for syncs and for records to send."""


class LogReads:
    """Runs reads in other threads, a few at a time. Call all methods on the event loop's thread."""

    def __init__(self, fs: FileSystem, at_once: int = _AT_ONCE) -> None:
        self._fs = fs
        self._turns = asyncio.Semaphore(at_once)

    async def run(self, read: Callable[[], T]) -> T:
        """Return the result of `read`, which must not use what the event loop's thread changes.

        A cancelled caller does not wait for the end of the read, but the next read does.
        """
        await self._turns.acquire()
        reading = asyncio.ensure_future(self._fs.run_blocking(read))
        reading.add_done_callback(self._ended)
        return await asyncio.shield(reading)

    def _ended(self, reading: asyncio.Future[T]) -> None:
        self._turns.release()
        if not reading.cancelled():
            reading.exception()  # the caller may be gone

    async def warm_up(self, reads: Iterable[WarmUp]) -> None:
        """Read what these reads need, one after the other."""
        for one in reads:
            await self.run(one.run)
            one.done()

    async def look_up(self, get_log: Callable[[], Log], timestamp: int | None) -> Found | None:
        """Find the first record whose timestamp is at least `timestamp`; None: the one with the largest timestamp.

        get_log: returns the log, or raises the reason why it may not be read. It is called again after the lookup: if
        the log has been replaced, truncated, compacted or renamed meanwhile, the lookup is repeated.

        Raises CorruptFileError, CorruptRecordError, LogDirIOError, and what `get_log` raises.
        """
        while True:
            log = get_log()
            lookup = log.prepare_lookup(timestamp)
            failure: Exception | None = None
            try:
                found = await self.run(lookup.run)
            except Exception as error:  # of any kind, if the files have changed during the lookup
                failure = error
            if get_log() is not log or lookup.is_outdated:
                continue
            if failure is None:
                lookup.done()
                return found
            if isinstance(failure, OSError):
                raise log.files.failed(failure) from failure
            raise failure
