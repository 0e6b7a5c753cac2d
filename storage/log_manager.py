"""All logs of a broker: where they lie, loading and stopping them, and the work that is done from time to
time.

Checkpoints say how far each log is synced, where it starts, and its high watermark; they are written at
intervals and on a clean stop. A log that was rolled is synced up to the new segment soon after. Deleting a
log renames its directory; the files go later. Everything that blocks leaves the event loop through the
injected file system.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from storage.checkpoints import TopicPartition
from storage.directory_loader import LogInDirectory, list_contents, open_logs
from storage.errors import InconsistentClusterIdError, StorageError
from storage.file_system import FileSystem
from storage.log import Log
from storage.log_config import LONG_MAX, LogConfig
from storage.log_directory import UNKNOWN_BROKER_EPOCH, LogDirectory
from storage.log_loader import DELETE_DIRECTORY_SUFFIX, assign_topic_id
from storage.meta_properties import MetaProperties, agreed
from storage.periodic_work import Job, PeriodicWork
from storage.producer_state import DEFAULT_PRODUCER_ID_EXPIRATION_MS
from storage.removals import Removals

logger = logging.getLogger(__name__)

_MAX_NAME = 255


class LogManager:
    """The logs of one broker by (topic, partition). All methods belong to the event loop's thread.

    Order of use: `lock`, `check_meta`, `write_meta`, `load`, `run` as a task, and at the end `shutdown`.
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
        """log_dirs: at least one. config_of: the settings of a topic, asked when its logs are loaded.

        initial_task_delay_ms: when retention, flush and checkpoints come first (None: after their intervals).
        """
        self.fs = fs
        self.now_ms = now_ms
        self.rng = rng
        self.config_of = config_of
        self.directories = [LogDirectory(fs, path) for path in log_dirs]
        self.logs: dict[TopicPartition, Log] = {}
        self.recovery_threads = recovery_threads
        self.full_validation = full_validation
        self.producer_id_expiration_ms = producer_id_expiration_ms
        self._rolled: set[Log] = set()
        self._flushing: dict[Log, asyncio.Event] = {}
        delay = initial_task_delay_ms
        self._work = PeriodicWork(
            [
                Job(flush_scheduler_interval_ms, self.flush_due_logs, delay),
                Job(flush_offset_checkpoint_interval_ms, self.checkpoint_recovery_points, delay),
                Job(flush_start_offset_checkpoint_interval_ms, self.checkpoint_log_start_offsets, delay),
                Job(high_watermark_checkpoint_interval_ms, self.checkpoint_high_watermarks),
                Job(retention_check_interval_ms, self.delete_old_segments, delay),
                Job(producer_id_expiration_check_interval_ms, self.expire_producers),
            ],
            self._do_urgent,
            self._next_urgent_s,
        )
        self.removals = Removals(fs, now_ms, self._work.wake)

    # -- to whom the directories belong ------------------------------------------------------------

    def lock(self) -> None:
        """Take every directory. Raises LogDirLockedError, LogDirIOError; none is held then."""
        try:
            for directory in self.directories:
                directory.lock()
        except Exception:
            self.unlock()
            raise

    def unlock(self) -> None:
        for directory in self.directories:
            directory.unlock()

    def check_meta(self, broker_id: int | None) -> MetaProperties:
        """What the directories' `meta.properties` say together (None where they say nothing).

        Raises InconsistentBrokerIdError if one belongs to a broker other than `broker_id` (None: not known
        yet), InconsistentClusterIdError if they belong to different clusters, CorruptFileError.
        """
        return agreed(((directory.path, directory.read_meta()) for directory in self.directories), broker_id)

    def write_meta(self, broker_id: int, cluster_id: str) -> None:
        """Make the directories this broker's.

        Raises InconsistentBrokerIdError, InconsistentClusterIdError.
        """
        stored = self.check_meta(broker_id)
        if stored.cluster_id is not None and stored.cluster_id != cluster_id:
            raise InconsistentClusterIdError(
                f"the log directories belong to cluster {stored.cluster_id}, not to {cluster_id}: "
                "was the broker pointed to another ZooKeeper or registry?"
            )
        wanted = MetaProperties(broker_id, cluster_id)
        for directory in self.directories:
            if directory.read_meta() != wanted:
                directory.write_meta(wanted, self.now_ms())

    # -- loading -----------------------------------------------------------------------------------

    async def load(self) -> None:
        """Load every log. Raises what `Log.open` raises.

        Clean directories are loaded here and now; recovery runs off the event loop, with
        num.recovery.threads.per.data.dir logs of a directory at a time.
        """
        for directory in self.directories:
            contents = list_contents(directory, self.logs)
            for deleted in contents.deleted:
                self.removals.add([str(deleted.path)], self.config_of(deleted.key[0]).file_delete_delay_ms)
            for log in await open_logs(directory, contents.logs, self._open, self.fs, self.recovery_threads):
                log.update_high_watermark(contents.high_watermarks.get((log.topic, log.partition), 0))
                self._adopt(log)

    def _open(self, found: LogInDirectory) -> Log:
        return Log.open(
            found.path,
            self.config_of(found.key[0]),
            fs=self.fs,
            now_ms=self.now_ms,
            recovery_point=found.recovery_point,
            log_start_offset=found.log_start_offset,
            clean_shutdown=found.clean,
            producer_id_expiration_ms=self.producer_id_expiration_ms,
            full_validation=self.full_validation,
            rng=self.rng,
        )

    def _adopt(self, log: Log) -> None:
        log.schedule_removal = self.removals.add
        log.on_roll = self._log_rolled
        self.logs[log.topic, log.partition] = log

    def _log_rolled(self, log: Log) -> None:
        self._rolled.add(log)
        self._work.wake()

    # -- logs --------------------------------------------------------------------------------------

    def get(self, topic: str, partition: int) -> Log | None:
        return self.logs.get((topic, partition))

    def get_or_create(
        self, topic: str, partition: int, topic_id: bytes | None = None, config: LogConfig | None = None
    ) -> Log:
        """The log of a partition; a new one goes to the directory that has the fewest.

        topic_id: 16 bytes, held against what is there. Raises InconsistentTopicIdError, LogDirIOError.
        """
        log = self.logs.get((topic, partition))
        if log is not None:
            if topic_id is not None:
                assign_topic_id(log, topic_id)
            return log
        counts = dict.fromkeys((directory.path for directory in self.directories), 0)
        for existing in self.logs.values():
            counts[existing.directory.parent] += 1
        parent = min(counts, key=counts.__getitem__)
        log = Log.open(
            parent / f"{topic}-{partition}",
            config or self.config_of(topic),
            fs=self.fs,
            now_ms=self.now_ms,
            clean_shutdown=True,
            topic_id=topic_id,
            producer_id_expiration_ms=self.producer_id_expiration_ms,
            full_validation=self.full_validation,
            rng=self.rng,
        )
        self._adopt(log)
        return log

    async def delete(self, topic: str, partition: int) -> None:
        """Delete a log: its directory is renamed at once, its files go after file.delete.delay.ms."""
        log = self.logs.pop((topic, partition), None)
        if log is None:
            return
        self._rolled.discard(log)
        parent = log.directory.parent
        suffix = f"-{partition}.{self.rng.getrandbits(128):032x}{DELETE_DIRECTORY_SUFFIX}"
        log.move_to(parent / f"{topic[: _MAX_NAME - len(suffix)]}{suffix}")
        log.release()
        self.removals.add([str(log.directory)], log.config.file_delete_delay_ms)
        # A topic of the same name may come: what the checkpoints say must not be said of that one.
        for directory in self.directories:
            if directory.path == parent:
                await self.fs.run_blocking(lambda: self.fs.sync_directory(str(parent)))
                await self._write_checkpoints(directory)

    # -- checkpoints -------------------------------------------------------------------------------

    def _logs_in(self, directory: LogDirectory) -> list[tuple[TopicPartition, Log]]:
        return [item for item in self.logs.items() if item[1].directory.parent == directory.path]

    async def checkpoint_recovery_points(self) -> None:
        """Write how far every log is synced. Raises LogDirIOError."""
        for directory in self.directories:
            offsets = {key: log.recovery_point for key, log in self._logs_in(directory)}
            await self._write(directory.recovery_points.write, offsets)

    async def checkpoint_log_start_offsets(self) -> None:
        """Write where logs start, of those that start within a segment. Raises LogDirIOError."""
        for directory in self.directories:
            await self._write(directory.log_start_offsets.write, self._log_start_offsets(directory))

    def _log_start_offsets(self, directory: LogDirectory) -> dict[TopicPartition, int]:
        return {
            key: log.log_start_offset
            for key, log in self._logs_in(directory)
            if log.log_start_offset > log.segments[0].base_offset
        }

    async def checkpoint_high_watermarks(self) -> None:
        """Write every log's high watermark. Raises LogDirIOError."""
        for directory in self.directories:
            offsets = {key: log.high_watermark for key, log in self._logs_in(directory)}
            await self._write(directory.high_watermarks.write, offsets)

    async def _write_checkpoints(self, directory: LogDirectory) -> None:
        logs = self._logs_in(directory)
        await self._write(directory.recovery_points.write, {key: log.recovery_point for key, log in logs})
        await self._write(directory.log_start_offsets.write, self._log_start_offsets(directory))
        await self._write(directory.high_watermarks.write, {key: log.high_watermark for key, log in logs})

    async def _write(
        self, write: Callable[[Mapping[TopicPartition, int]], None], offsets: dict[TopicPartition, int]
    ) -> None:
        await self.fs.run_blocking(lambda: write(offsets))

    # -- work from time to time --------------------------------------------------------------------

    async def run(self) -> None:
        """Do the periodic work while the broker runs. Raises LogDirIOError when a directory fails."""
        await self._work.run()

    async def _do_urgent(self) -> None:
        while self._rolled:
            log = self._rolled.pop()
            await self.flush(log, log.segments[-1].base_offset)
        await self.removals.run_due()

    def _next_urgent_s(self) -> float | None:
        next_removal = self.removals.next_due_ms
        return None if next_removal is None else max(next_removal - self.now_ms(), 0) / 1000

    async def flush(self, log: Log, offset: int | None = None) -> None:
        """Sync a log up to `offset` (default: its end) off the event loop, one sync at a time. Raises LogDirIOError."""
        while (running := self._flushing.get(log)) is not None:
            await running.wait()
        flush = log.prepare_flush(offset)
        if flush is None:
            return
        done = self._flushing[log] = asyncio.Event()
        try:
            await self.fs.run_blocking(flush.run)
            flush.done()
        finally:
            del self._flushing[log]
            done.set()

    async def flush_up_to(self, log: Log, offset: int) -> None:
        """Return when everything below `offset` is on disk. Raises LogDirIOError.

        Those who come while a sync runs wait for it, and the next one then serves them all.
        """
        while log.recovery_point < offset:
            running = self._flushing.get(log)
            if running is not None:
                await running.wait()
            else:
                await self.flush(log)

    async def flush_due_logs(self) -> None:
        """Sync the logs that flush.ms is over for. Raises LogDirIOError."""
        for log in list(self.logs.values()):
            if self.now_ms() - log.last_flush_ms >= log.config.flush_ms and not log.closed:
                await self.flush(log)

    async def delete_old_segments(self) -> None:
        """Retention: by start offset, size and time. Raises LogDirIOError."""
        for log in list(self.logs.values()):
            if not log.closed:
                log.delete_old_segments()
                await asyncio.sleep(0)

    def set_producer_id_expiration(self, expiration_ms: int) -> None:
        """Keep producers that do not write for this long, from now on."""
        self.producer_id_expiration_ms = expiration_ms
        for log in self.logs.values():
            log.producers.expiration_ms = expiration_ms

    async def expire_producers(self) -> None:
        """Forget producers that have not written for producer.id.expiration.ms."""
        now_ms = self.now_ms()
        for log in list(self.logs.values()):
            log.producers.remove_expired(now_ms)

    # -- stop --------------------------------------------------------------------------------------

    async def shutdown(self, broker_epoch: int = UNKNOWN_BROKER_EPOCH) -> None:
        """Clean stop: sync and close every log, write the checkpoints, leave the clean shutdown files,
        unlock.

        A directory that fails on the way gets no clean shutdown file: it is recovered at the next start.
        """
        for directory in self.directories:
            try:
                for _, log in self._logs_in(directory):
                    log.seal()
                    await self.flush(log)
                    log.release()
                await self._write_checkpoints(directory)
                await self.fs.run_blocking(partial(directory.write_clean_shutdown, broker_epoch))
            except (OSError, StorageError):
                logger.exception("%s could not be stopped cleanly", directory.path)
        self.unlock()
