"""All logs of a broker: their directories, loading, periodic work and shutdown.

Checkpoints hold each log's recovery point, log start offset and high watermark; they are written at intervals and on
a clean shutdown. After a log has rolled a segment, it is synced up to the new segment. Deleting a log renames its
directory; the files are removed later. Blocking work runs off the event loop, through the injected file system.

When a directory fails, its logs go offline too (see `log_directories`). `shutdown` does not mark a directory clean
that is full or has failed: recovery at the next start finds out what was not written.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING

from protocol.sentinels import UNKNOWN_BROKER_EPOCH
from storage.directories.checkpoints import TopicPartition
from storage.directories.delayed_deletes import DelayedDeletes
from storage.directories.future_logs import FutureLogs, is_future
from storage.directories.loader import DirectoryContents, DirectoryLoader, list_contents
from storage.directories.log_checkpoints import LogCheckpoints
from storage.directories.log_directories import LogDirectories
from storage.directories.log_directory import LogDirectory
from storage.directories.log_removal import LogRemoval
from storage.directories.replica_places import ReplicaPlaces
from storage.errors import CorruptFileError, LoadingStoppedError, LogDirIOError, StorageError
from storage.file_system import FileSystem
from storage.log.config import LONG_MAX, LogConfig
from storage.log.files import parse_directory_name
from storage.log.log import Log
from storage.log.truncations import LogTruncations
from storage.log_flusher import LogFlusher
from storage.log_opener import LogOpener
from storage.log_reads import LogReads
from storage.periodic_work import Job, PeriodicWork
from storage.producers.state import DEFAULT_PRODUCER_ID_EXPIRATION_MS

if TYPE_CHECKING:
    from storage.compaction.log_cleaner import LogCleaner

logger = logging.getLogger(__name__)

MAX_PREFERRED = 10_000
"""Limit of `LogManager.preferred`, above the number of partitions that a broker hosts. Without a limit, entries for
partitions that are never created would accumulate.
"""


class LogManager:
    """The logs of one broker by (topic, partition). Call all methods on the event loop's thread.

    Order of calls: `dirs.lock`, `dirs.check_meta`, `dirs.write_meta`, `load`, `run` as a task, and at last `shutdown`.
    """

    def __init__(
        self,
        log_dirs: Sequence[Path],
        config_of: Callable[[str], LogConfig],
        *,
        fs: FileSystem,
        now_ms: Callable[[], int],
        rng: random.Random,
        recovery_threads: int = 1,
        full_validation: bool = False,
        flush_scheduler_interval_ms: int = LONG_MAX,
        flush_offset_checkpoint_interval_ms: int = 60_000,
        flush_start_offset_checkpoint_interval_ms: int = 60_000,
        high_watermark_checkpoint_interval_ms: int = 5_000,
        retention_check_interval_ms: int = 300_000,
        producer_id_expiration_ms: int = DEFAULT_PRODUCER_ID_EXPIRATION_MS,
        producer_id_expiration_check_interval_ms: int = 600_000,
        initial_task_delay_ms: int | None = None,
    ) -> None:
        """log_dirs: at least one. config_of: returns the settings of a topic; called when its logs are loaded.

        initial_task_delay_ms: delay of the first retention, flush and checkpoints (None: their intervals).
        """
        self.fs = fs
        self.now_ms = now_ms
        self.rng = rng
        self.config_of = config_of
        self.logs: dict[TopicPartition, Log] = {}
        self.recovery_threads = recovery_threads
        self.opener = LogOpener(fs, now_ms, rng, config_of, producer_id_expiration_ms, full_validation)
        self._loading_stopped = Event()
        self._rolled: dict[Log, None] = {}
        """Logs whose earlier segments are to be synced, in the order of their rolls."""
        self.flusher = LogFlusher(fs)
        self.reads = LogReads(fs)
        self.validations = LogReads(fs, at_once=1)
        """Validations of large batches. One holds up to DECOMPRESSION_LIMIT in memory."""
        self.dirs = LogDirectories(
            fs, log_dirs, now_ms, on_offline=self._directory_failed, on_change=lambda: self._work.wake()
        )
        self.futures = FutureLogs(self)
        self.preferred: dict[TopicPartition, LogDirectory] = {}
        """The directories for partitions that have no log on this broker yet; see `prefer`."""
        self.checkpoints = LogCheckpoints(fs, self.dirs, self.all_logs)
        self.truncations = LogTruncations(self.dirs, self.checkpoints, self.flusher, self.reads)
        self.log_removal = LogRemoval(self)
        delay = initial_task_delay_ms
        self._work = PeriodicWork(
            [
                Job(flush_scheduler_interval_ms, self.flush_due_logs, delay),
                Job(flush_offset_checkpoint_interval_ms, self.checkpoints.write_recovery_points, delay),
                Job(flush_start_offset_checkpoint_interval_ms, self.checkpoints.write_log_start_offsets, delay),
                Job(high_watermark_checkpoint_interval_ms, self.checkpoints.write_high_watermarks),
                Job(retention_check_interval_ms, self.delete_old_segments, delay),
                Job(producer_id_expiration_check_interval_ms, self.expire_producers),
            ],
            self._do_urgent,
            self._next_urgent_s,
        )
        self.delayed_deletes = DelayedDeletes(fs, now_ms, self._work.wake)
        self.on_offline: Callable[[LogDirectory, list[TopicPartition]], None] = lambda directory, keys: None
        """Called when a directory has failed, with the partitions whose logs were in it."""
        self.cleaner: LogCleaner | None = None
        """Compacts the logs; None: no compaction. To be set before `load`."""

    # -- loading -----------------------------------------------------------------------------------

    async def load(self) -> None:
        """Load every log. Raises InconsistentTopicIdError, AllLogDirsFailedError, LoadingStoppedError.

        Logs are loaded off the event loop, for all directories at the same time, with
        num.recovery.threads.per.data.dir logs of a directory in parallel. If a log cannot be loaded, its directory goes
        offline, as in Kafka.
        """
        if self._loading_stopped.is_set():
            raise LoadingStoppedError("stopped before the logs were loaded")
        self.dirs.listen()
        contents: dict[LogDirectory, DirectoryContents] = {}
        for directory in self.dirs.online:
            with self._failing(directory):
                contents[directory] = list_contents(directory)
        ReplicaPlaces(self.fs, contents, self.log_removal.put_aside_found, self._fail).settle()
        loads = [self._load(directory, found) for directory, found in contents.items() if directory.is_online]
        for failure in await asyncio.gather(*loads, return_exceptions=True):
            if failure is not None:
                raise failure
        self.dirs.check_left()
        await self.futures.loaded()
        if self.cleaner is not None:
            await self.cleaner.load()

    def stop_loading(self) -> None:
        """Make a running or later `load` raise LoadingStoppedError soon. No directory is marked clean."""
        self._loading_stopped.set()

    @contextlib.contextmanager
    def _failing(self, directory: LogDirectory) -> Iterator[None]:
        """Take the directory offline if the block raises LogDirIOError, OSError or CorruptFileError."""
        try:
            yield
        except LogDirIOError as failure:
            self.dirs.fail(directory, failure)
        except OSError as error:
            self._fail(directory, error)
        except CorruptFileError as error:
            self.dirs.fail(directory, LogDirIOError(error.path, OSError(error.rule)))

    def _fail(self, directory: LogDirectory, error: OSError) -> None:
        self.dirs.fail(directory, LogDirIOError(directory.path, error))

    async def _load(self, directory: LogDirectory, contents: DirectoryContents) -> None:
        for deleted in contents.deleted:
            self.delayed_deletes.add([str(deleted.path)], self.config_of(deleted.key[0]).file_delete_delay_ms)
        loader = DirectoryLoader(
            directory,
            self.opener.load,
            fs=self.fs,
            now_ms=self.now_ms,
            threads=self.recovery_threads,
            stopped=self._loading_stopped,
        )
        with self._failing(directory):
            for log in await loader.run(contents.logs + contents.futures):
                if not directory.is_online:  # the directory has failed, but no log has raised
                    log.release()
                    continue
                log.update_high_watermark(contents.high_watermarks.get((log.topic, log.partition), 0))
                if is_future(log.directory):
                    self.futures.adopt(log)
                else:
                    self._adopt(log)

    def _adopt(self, log: Log) -> None:
        log.files.schedule_removal = self.delayed_deletes.add
        log.segments.on_roll = lambda: self.log_rolled(log)
        log.on_truncate = self._log_truncated
        self.logs[log.topic, log.partition] = log

    def _directory_failed(self, directory: LogDirectory) -> None:
        """Stop serving the directory's logs: release their descriptors and write nothing more."""
        keys = [key for key, log in self.logs.items() if log.directory.parent == directory.path]
        for key in keys:
            log = self.logs.pop(key)
            self._rolled.pop(log, None)
            log.release()
        self.futures.release_in(directory)
        self.delayed_deletes.forget(str(directory.path))
        if keys:
            logger.warning("%d logs are offline with %s", len(keys), directory.path)
        self.on_offline(directory, keys)

    def _log_truncated(self, log: Log) -> None:
        if self.cleaner is not None:
            self.cleaner.truncated(log)

    def log_rolled(self, log: Log) -> None:
        """Note that the log has rolled a segment: the earlier segments are synced soon."""
        self._rolled[log] = None
        self._work.wake()

    # -- logs --------------------------------------------------------------------------------------

    def all_logs(self) -> Iterator[Log]:
        """All logs, including the future logs (copies of a log in another directory)."""
        return chain(self.logs.values(), self.futures.logs.values())

    def get(self, topic: str, partition: int) -> Log | None:
        return self.logs.get((topic, partition))

    def get_or_create(
        self, topic: str, partition: int, topic_id: bytes | None = None, config: LogConfig | None = None
    ) -> Log:
        """Return the log of a partition; create it if there is none.

        A new log goes to the preferred directory (see `prefer`), else to the directory with the fewest logs; full
        directories are tried last. topic_id: 16 bytes, compared with that of an existing log. Raises
        InconsistentTopicIdError, LogDirIOError, AllLogDirsFailedError.
        """
        log = self.logs.get((topic, partition))
        if log is not None:
            if topic_id is not None:
                log.files.assign_topic_id(topic_id)
            log.is_claimed = True
            self.preferred.pop((topic, partition), None)
            return log
        name = f"{topic}-{partition}"
        if "/" in topic or parse_directory_name(name) != (topic, partition):
            raise ValueError(f"{name!r} is not a valid partition directory name")
        self.dirs.check_left()
        refused: LogDirIOError | None = None
        for directory in self._places_for((topic, partition)):
            path = directory.path / name
            is_new = not self.fs.exists(str(path))
            try:
                log = self.opener.begin(path, topic_id, config or self.config_of(topic))
            except LogDirIOError as error:
                logger.warning("%s cannot be created: %s", path, error)
                self.fs.failed(path, error.cause, extent=error.extent)
                if not (is_new and self.opener.is_removed(path)):
                    raise  # the log may exist here: it must not be created in a second directory
                refused = refused or error
                continue
            self._adopt(log)
            log.is_claimed = True
            self.preferred.pop((topic, partition), None)
            return log
        assert refused is not None
        raise refused

    def prefer(self, topic: str, partition: int, directory: LogDirectory) -> None:
        """Set the directory in which the partition's log will be created.

        Above MAX_PREFERRED entries the oldest one is removed.
        """
        key = (topic, partition)
        self.preferred.pop(key, None)  # keeps the entries in order of age
        self.preferred[key] = directory
        if len(self.preferred) > MAX_PREFERRED:
            del self.preferred[next(iter(self.preferred))]

    def _places_for(self, key: TopicPartition) -> list[LogDirectory]:
        online = self.dirs.online
        if len(online) == 1:
            return online  # fast path: called for each of the thousands of partitions of a large topic
        parents = (str(log.directory).rpartition(os.sep)[0] for log in self.all_logs())  # paths hash slowly
        counts = Counter(parents)
        preferred = self.preferred.get(key)
        return sorted(
            online,
            key=lambda directory: (directory is not preferred, directory.is_full, counts[str(directory.path)]),
        )

    async def delete(self, topic: str, partition: int) -> None:
        """Delete a log: rename its directory at once, remove the files after file.delete.delay.ms.

        The future log is deleted first: a start never takes a future log alone for the log. Raises LogDirIOError.
        """
        with contextlib.suppress(LogDirIOError):  # the future log's directory has failed
            await self.futures.remove((topic, partition))
        log = self.logs.get((topic, partition))
        if log is None:
            return
        parent = log.directory.parent
        self.log_removal.put_aside(log)
        del self.logs[topic, partition]
        await self.log_removal.finish(parent, (topic, partition))

    def replaced(self, old: Log, new: Log) -> None:
        """Serve the future log `new` instead of `old`, and release `old`."""
        self.forget_rolled(old)
        self._adopt(new)
        old.release()

    def forget_rolled(self, log: Log) -> None:
        """Cancel the sync after a roll, for a log that is deleted or replaced."""
        self._rolled.pop(log, None)

    async def truncate_to(self, log: Log, offset: int) -> bool:
        """See `LogTruncations.truncate_to`."""
        return await self.truncations.truncate_to(log, offset)

    async def truncate_fully_and_start_at(self, log: Log, offset: int) -> None:
        """See `LogTruncations.truncate_fully_and_start_at`."""
        await self.truncations.truncate_fully_and_start_at(log, offset)

    # -- periodic work -----------------------------------------------------------------------------

    async def run(self) -> None:
        """Do the periodic work until cancelled. Raises AllLogDirsFailedError if no directory is online."""
        await self._work.run()

    async def _do_urgent(self) -> None:
        self.dirs.check_left()
        while self._rolled:
            log = next(iter(self._rolled))
            del self._rolled[log]
            await self.flusher.try_to_flush(log, log.segments[-1].base_offset)
        await self.dirs.look_for_room()
        await self.delayed_deletes.run_due()

    def _next_urgent_s(self) -> float | None:
        next_removal = self.delayed_deletes.next_due_ms
        waits = [self.dirs.next_check_s, None if next_removal is None else max(next_removal - self.now_ms(), 0) / 1000]
        return min((wait for wait in waits if wait is not None), default=None)

    async def flush(self, log: Log, offset: int | None = None) -> None:
        """See `LogFlusher.flush`."""
        await self.flusher.flush(log, offset)

    async def flush_up_to(self, log: Log, offset: int) -> None:
        """See `LogFlusher.flush_up_to`."""
        await self.flusher.flush_up_to(log, offset)

    async def flush_due_logs(self) -> None:
        """Sync the logs whose last sync is at least flush.ms ago."""
        for log in list(self.logs.values()):
            if self.now_ms() - log.durability.last_flush_ms >= log.config.flush_ms:
                await self.flusher.try_to_flush(log)

    async def delete_old_segments(self) -> None:
        """Apply retention by log start offset, size and time to the logs that a partition has claimed.

        A log that is not claimed may belong to a topic that the registry does not know; its retention is unknown.
        """
        for log in list(self.logs.values()):
            if log.is_claimed and not log.closed and log.compaction is None:
                try:
                    log.delete_old_segments()
                except LogDirIOError as error:
                    logger.debug("%r: old segments are not deleted: %s", log, error)
                await asyncio.sleep(0)

    def set_producer_id_expiration(self, expiration_ms: int) -> None:
        """Set producer.id.expiration.ms for all logs, including those opened later."""
        self.opener.producer_id_expiration_ms = expiration_ms
        for log in self.all_logs():
            log.producers.expiration_ms = expiration_ms

    async def expire_producers(self) -> None:
        """Remove the state of producers that have not written for producer.id.expiration.ms."""
        now_ms = self.now_ms()
        for log in list(self.logs.values()):
            log.producers.remove_expired(now_ms)

    # -- stop --------------------------------------------------------------------------------------

    async def shutdown(self, broker_epoch: int = UNKNOWN_BROKER_EPOCH) -> None:
        """Sync and close every log, write the checkpoints and the clean shutdown files, and unlock the directories.

        A directory that fails during the shutdown, or is too full, gets no clean shutdown file: it is recovered at
        the next start. An offline directory is left unchanged.
        """
        for directory in self.dirs.online:
            logs = [log for log in self.all_logs() if log.directory.parent == directory.path]
            closed = [await self._close(log) for log in logs]
            written = directory.is_online and await self.checkpoints.write_all_of(directory)
            if written and all(closed) and directory.is_online:
                await self._mark_clean(directory, broker_epoch)
        self.dirs.unlock()

    async def _close(self, log: Log) -> bool:
        """Seal, sync and release a log. Return False if a write failed."""
        try:
            log.seal()
            await self.flush(log)
        except (OSError, StorageError) as error:
            logger.error("%s could not be closed cleanly: %s", log.directory, error)
            return False
        finally:
            log.release()
        return True

    async def _mark_clean(self, directory: LogDirectory, broker_epoch: int) -> None:
        try:
            await self.fs.run_blocking(lambda: directory.write_clean_shutdown(broker_epoch))
        except LogDirIOError:
            logger.exception("%s could not be marked as stopped cleanly", directory.path)
