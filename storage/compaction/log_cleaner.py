"""The log cleaner: chooses the logs to compact, runs the workers, and keeps the checkpoints.

Each of the `log.cleaner.threads` workers compacts the log with the largest dirty ratio, then the next one. A log
qualifies if its dirty ratio is above min.cleanable.dirty.ratio or a record has been dirty for longer than
max.compaction.lag.ms. If no log qualifies, the worker pauses for log.cleaner.backoff.ms. The offset up to which a log
is compacted is in `cleaner-offset-checkpoint` of its log directory; after a restart, compaction continues there.

A log that cannot be compacted (damaged data) is marked as uncleanable until the next start. If the disk is full, the
run ends, its files are removed, and the log is tried again after the pause. If a log is truncated, closed or deleted,
or its topic is no longer compacted, its run is aborted (`CompactionRun.abort`).
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from protocol.errors import CorruptRecordError
from storage.compaction.cleanable import CleanableRange, cleanable_range
from storage.compaction.cleaned_segment import remove_all_cleaned
from storage.compaction.compaction import CleanedGroup, CompactionResult
from storage.compaction.compactor import CompactionProcessError, Compactor
from storage.compaction.run import CompactionRun
from storage.directories.checkpoints import TopicPartition
from storage.directories.log_directories import LogDirectories
from storage.directories.log_directory import LogDirectory
from storage.errors import (
    CompactionAbortedError,
    CorruptFileError,
    LogDirIOError,
    StorageError,
    UncleanableLogError,
)
from storage.file_system import FileSystem
from storage.log.log import Log

logger = logging.getLogger(__name__)

_MAX_MAP_BYTES = 0x7FFFFFFF  # of one worker
_MIN_IO_BYTES = 4096
_SHORTEST_PAUSE_S = 0.01  # log.cleaner.backoff.ms may be 0
_LONGEST_PAUSE_S = 3600.0
_DISK_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})


class CleanerSettings(Protocol):
    """The cleaner's broker settings. They are read again for every run, so that changes take effect."""

    log_cleaner_threads: int
    log_cleaner_backoff_ms: int
    log_cleaner_dedupe_buffer_size: int
    log_cleaner_io_buffer_load_factor: float
    log_cleaner_io_buffer_size: int
    log_cleaner_io_max_bytes_per_second: float


@dataclass(slots=True)
class CleanerTotals:
    """Sums over all runs since the start."""

    runs: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    records_read: int = 0
    records_written: int = 0
    invalid_records: int = 0
    seconds: float = 0.0


class LogCleaner:
    """Compacts the logs of a broker. Call all methods on the event loop's thread."""

    def __init__(
        self,
        logs: Mapping[TopicPartition, Log],
        dirs: LogDirectories,
        settings: CleanerSettings,
        *,
        fs: FileSystem,
        now_ms: Callable[[], int],
        new_compactor: Callable[[], Compactor],
    ) -> None:
        """logs: a live mapping of the broker's logs. new_compactor: creates the compactor of a worker."""
        self._logs = logs
        self._dirs = dirs
        self._settings = settings
        self._fs = fs
        self._now_ms = now_ms
        self._new_compactor = new_compactor
        self._compactors: set[Compactor] = set()
        self._changed = asyncio.Event()
        self._news = asyncio.Event()  # set when settings change, then replaced by a new one
        self._writing = asyncio.Lock()
        self._not_before_ms: dict[TopicPartition, int] = {}
        self._unwritten: set[LogDirectory] = set()
        self.checkpoints: dict[TopicPartition, int] = {}
        """The offset up to which each log is compacted."""
        self.uncleanable: dict[TopicPartition, str] = {}
        """The logs that cannot be compacted, and the reasons."""
        self.totals = CleanerTotals()
        self.is_running = False
        """Whether `run` has been called; it is not called without log.cleaner.enable."""
        self.max_dirty_ratio = 0.0
        """The largest dirty ratio at the last `find_filthiest`, 0 to 1."""
        self.last_run_ms = now_ms()
        """The time of the last `find_filthiest`."""

    # -- checkpoints -------------------------------------------------------------------------------

    async def load(self) -> None:
        """Read the checkpoints. Entries for logs that are not in the same directory are removed from the files.

        A broker that stopped during a move leaves an entry in both directories. A damaged file is ignored: its logs are
        compacted from their start again.
        """
        for directory in self._dirs.online:
            try:
                offsets = directory.cleaner_offsets.read()
            except CorruptFileError as error:
                logger.warning("%s: its logs are compacted from their start again", error)
                continue
            self.checkpoints |= {key: offset for key, offset in offsets.items() if self._is_in(directory, key)}
            if self._offsets_of(directory) != offsets:
                await self.write_checkpoint(directory)

    def truncated(self, log: Log) -> None:
        """Lower the checkpoint of a truncated log: new records are dirty, at least from the active segment."""
        key = (log.topic, log.partition)
        base_offset = log.segments.active.base_offset
        if self.checkpoints.get(key, 0) > base_offset:
            self.checkpoints[key] = base_offset
            self._write_soon(log)

    async def gone_from(self, directory: LogDirectory, key: TopicPartition) -> None:
        """Remove the entry of a log that was deleted or moved to another directory from the checkpoint of `directory`.

        A later log of the same name must not count as compacted. For a moved log the state in memory is kept.
        """
        if key not in self._logs:
            self.uncleanable.pop(key, None)
            self._not_before_ms.pop(key, None)
            if self.checkpoints.pop(key, None) is None:
                return
        elif key not in self.checkpoints:
            return
        if directory.is_online:
            await self.write_checkpoint(directory)

    def _is_in(self, directory: LogDirectory, key: TopicPartition) -> bool:
        log = self._logs.get(key)
        return log is not None and log.directory.parent == directory.path

    def _offsets_of(self, directory: LogDirectory) -> dict[TopicPartition, int]:
        """Return the entries of a directory's checkpoint."""
        return {key: offset for key, offset in self.checkpoints.items() if self._is_in(directory, key)}

    def _write_soon(self, log: Log) -> None:
        directory = self._dirs.of(str(log.directory))
        if directory is not None:
            self._unwritten.add(directory)
            self._changed.set()

    async def write_checkpoint(self, directory: LogDirectory, *, coming: TopicPartition | None = None) -> None:
        """Write the checkpoint of a directory. If the disk is full, the old file stays; then more is compacted again.

        coming: a log that is about to be moved to the directory; its entry is written, too.
        """
        async with self._writing:
            self._unwritten.discard(directory)
            offsets = self._offsets_of(directory)
            if coming in self.checkpoints:
                offsets[coming] = self.checkpoints[coming]
            try:
                await self._fs.run_blocking(lambda: directory.cleaner_offsets.write(offsets))
            except LogDirIOError as error:
                logger.debug("%s is not written: %s", directory.cleaner_offsets.path, error)

    # -- the workers -------------------------------------------------------------------------------

    def settings_changed(self) -> None:
        """Apply changed settings: start or end workers, and set the rate at once."""
        self._share_rate()
        self._changed.set()
        self._news.set()
        self._news = asyncio.Event()

    async def run(self) -> None:
        """Run the workers until cancelled."""
        self.is_running = True
        workers: dict[int, asyncio.Task[None]] = {}
        async with asyncio.TaskGroup() as group:
            while True:
                for number in range(self._settings.log_cleaner_threads):
                    if number not in workers or workers[number].done():
                        workers[number] = group.create_task(self._work(number))
                await self._changed.wait()
                self._changed.clear()
                for directory in list(self._unwritten):
                    await self.write_checkpoint(directory)

    async def _work(self, number: int) -> None:
        """Run one worker until its number is no longer below log.cleaner.threads."""
        while number < self._settings.log_cleaner_threads:
            await self._clean_while_dirty(number)
            await self._pause()

    async def _pause(self) -> None:
        """Wait for log.cleaner.backoff.ms; a change of the setting takes effect during the wait."""
        loop = asyncio.get_running_loop()
        start = loop.time()
        while True:
            left = start + max(self._settings.log_cleaner_backoff_ms / 1000, _SHORTEST_PAUSE_S) - loop.time()
            if left <= 0:
                return
            try:
                async with asyncio.timeout(min(left, _LONGEST_PAUSE_S)):
                    await self._news.wait()
            except TimeoutError:
                pass

    async def _clean_while_dirty(self, number: int) -> None:
        compactor: Compactor | None = None
        try:
            while number < self._settings.log_cleaner_threads and (found := self.find_filthiest()) is not None:
                log, dirty = found
                run = CompactionRun(log)
                if compactor is None:
                    compactor = self._new_compactor()
                    self._compactors.add(compactor)
                    self._share_rate()
                await self._clean(run, log, dirty, compactor)
            self._delete_old_segments()
        finally:
            if compactor is not None:
                self._compactors.discard(compactor)
                self._share_rate()
                await compactor.close()

    def _share_rate(self) -> None:
        """Divide log.cleaner.io.max.bytes.per.second among the busy workers."""
        rate = max(self._settings.log_cleaner_io_max_bytes_per_second, 1.0)
        for compactor in self._compactors:
            compactor.set_rate(rate / len(self._compactors))

    def _delete_old_segments(self) -> None:
        """Apply retention to the compacted logs that a partition has claimed."""
        for log in list(self._logs.values()):
            if log.is_claimed and log.config.compacts and log.compaction is None and not log.closed:
                try:
                    log.delete_old_segments()
                except LogDirIOError as error:
                    logger.debug("%r: old segments are not deleted: %s", log, error)

    # -- the choice --------------------------------------------------------------------------------

    def find_filthiest(self) -> tuple[Log, CleanableRange] | None:
        """Return the log to compact next, and its range; None if no log qualifies."""
        now_ms = self._now_ms()
        self.last_run_ms = now_ms
        candidates: list[tuple[Log, CleanableRange]] = []
        ratio = 0.0
        for key, log in self._logs.items():
            if not log.is_claimed or not log.config.compacts or log.compaction is not None or log.closed:
                continue
            if log.is_being_moved or key in self.uncleanable:
                continue
            dirty = self._cleanable(key, log, now_ms)
            if dirty is None:
                continue
            ratio = max(ratio, dirty.dirty_ratio)
            is_due = dirty.dirty_ratio > log.config.min_cleanable_dirty_ratio or dirty.overdue_ms > 0
            if is_due and dirty.cleanable_bytes and self._not_before_ms.get(key, 0) <= now_ms:
                candidates.append((log, dirty))
        self.max_dirty_ratio = ratio
        return max(candidates, key=lambda candidate: candidate[1].dirty_ratio, default=None)

    def _cleanable(self, key: TopicPartition, log: Log, now_ms: int) -> CleanableRange | None:
        """Return the cleanable range of a log; None if the log cannot be read."""
        checkpoint = self.checkpoints.get(key)
        try:
            dirty = cleanable_range(log, checkpoint, now_ms)
        except (CorruptRecordError, CorruptFileError) as error:
            self._mark_uncleanable(key, str(error))
            return None
        except (OSError, LogDirIOError) as error:
            if isinstance(error, OSError):
                self._fs.failed(log.directory, error)
            return None
        if dirty.is_reset:
            if not log.config.deletes:
                logger.warning(
                    "%s-%d: the cleaner checkpoint %s is outside the log (%d to %d): the whole log is dirty",
                    *key, checkpoint, log.log_start_offset, log.log_end_offset,
                )  # fmt: skip
            self.checkpoints[key] = dirty.first_dirty_offset
            self._write_soon(log)
        return dirty

    def uncleanable_partitions(self, path: Path) -> int:
        """Return the number of uncleanable logs in a log directory."""
        logs = (self._logs.get(key) for key in self.uncleanable)
        return sum(log is not None and log.directory.parent == path for log in logs)

    def uncleanable_bytes(self, path: Path) -> int:
        """Return the cleanable bytes of the uncleanable logs in a log directory."""
        total = 0
        for key in self.uncleanable:
            log = self._logs.get(key)
            if log is not None and log.directory.parent == path:
                with contextlib.suppress(OSError, StorageError, CorruptRecordError):
                    total += cleanable_range(log, self.checkpoints.get(key), self._now_ms()).cleanable_bytes
        return total

    # -- one run -----------------------------------------------------------------------------------

    async def _clean(self, run: CompactionRun, log: Log, dirty: CleanableRange, compactor: Compactor) -> None:
        """Compact one log and handle failures."""
        key = (log.topic, log.partition)
        settings = self._settings
        workers = max(settings.log_cleaner_threads, 1)
        path = str(log.directory)
        began = time.monotonic()
        run.on_abort = compactor.kill
        try:
            job = run.job(
                dirty.first_dirty_offset,
                dirty.end_offset,
                dedupe_buffer_bytes=min(settings.log_cleaner_dedupe_buffer_size // workers, _MAX_MAP_BYTES),
                dedupe_load_factor=settings.log_cleaner_io_buffer_load_factor,
                io_buffer_bytes=max(settings.log_cleaner_io_buffer_size // workers // 2, _MIN_IO_BYTES),
            )
            result = await compactor.run(job, lambda group: self._swap(run, log, group))
            run.done()
            self.checkpoints[key] = result.end_offset
            self._record(log, dirty, result, time.monotonic() - began)
            directory = self._dirs.of(path)
            if directory is not None and directory.is_online:
                await self.write_checkpoint(directory)
        except Exception as error:
            self._failed(run, log, error)
        finally:
            # Abort the job before its files are removed: it may still be writing.
            run.on_abort = None
            if run.is_unfinished:
                await compactor.close()
                with contextlib.suppress(OSError):
                    await self._fs.run_blocking(lambda: remove_all_cleaned(self._fs, path))
            run.end()

    async def _swap(self, run: CompactionRun, log: Log, group: CleanedGroup) -> None:
        if not log.config.compacts:
            run.abort("the topic is no longer compacted")
        run.stage(group)
        directory = str(log.directory)
        await self._fs.run_blocking(lambda: self._fs.sync_directory(directory))
        run.swap()
        await self._fs.run_blocking(lambda: self._fs.sync_directory(directory))

    def _failed(self, run: CompactionRun, log: Log, error: Exception) -> None:
        key = (log.topic, log.partition)
        if run.aborted is not None or isinstance(error, CompactionAbortedError):
            logger.info("%s-%d: compaction aborted: %s", *key, run.aborted or error)
            return
        self._not_before_ms[key] = self._now_ms() + max(self._settings.log_cleaner_backoff_ms, 1)
        if isinstance(error, UncleanableLogError):
            self._mark_uncleanable(key, str(error))
        elif isinstance(error, LogDirIOError):
            logger.warning("%s-%d: compaction failed: %s", *key, error)
        elif isinstance(error, OSError) and error.errno in _DISK_FULL:
            logger.warning("%s-%d: the disk is too full for compaction: %s", *key, error)
        elif isinstance(error, OSError):
            logger.warning("%s-%d: compaction failed: %s", *key, error)
            self._fs.failed(log.directory, error)
        elif isinstance(error, CompactionProcessError):
            logger.warning("%s-%d: compaction failed, it will be tried again: %s", *key, error)
        else:
            logger.error("%s-%d: compaction failed unexpectedly", *key, exc_info=error)
            self._mark_uncleanable(key, f"{type(error).__name__}: {error}")

    def _mark_uncleanable(self, key: TopicPartition, reason: str) -> None:
        self.uncleanable[key] = reason
        logger.error("%s-%d cannot be compacted until the next start: %s", *key, reason)

    def _record(self, log: Log, dirty: CleanableRange, result: CompactionResult, seconds: float) -> None:
        stats, totals = result.stats, self.totals
        totals.runs += 1
        totals.bytes_read += stats.bytes_read
        totals.bytes_written += stats.bytes_written
        totals.records_read += stats.records_read
        totals.records_written += stats.records_written
        totals.invalid_records += stats.invalid_records
        totals.seconds += seconds
        logger.info(
            "%s-%d: compacted [%d, %d): %d segments to %d, %.1f MB to %.1f MB, %d records to %d, in %.1f s, "
            "map %.0f%% full%s",
            log.topic, log.partition, dirty.first_dirty_offset, result.end_offset, stats.segments_read,
            stats.segments_written, stats.bytes_read / 1e6, stats.bytes_written / 1e6, stats.records_read,
            stats.records_written, seconds, 100 * stats.map_utilization,
            f"; {stats.invalid_records} records without a key were removed" if stats.invalid_records else "",
        )  # fmt: skip
