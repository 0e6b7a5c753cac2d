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
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from storage.checkpoints import TopicPartition
from storage.errors import (
    InconsistentBrokerIdError,
    InconsistentClusterIdError,
    InvalidLogDirectoryNameError,
    StorageError,
)
from storage.file_system import FileSystem
from storage.log import Log
from storage.log_config import LONG_MAX, LogConfig
from storage.log_directory import UNKNOWN_BROKER_EPOCH, LogDirectory
from storage.log_loader import (
    DELETE_DIRECTORY_SUFFIX,
    FUTURE_DIRECTORY_SUFFIX,
    STRAY_DIRECTORY_SUFFIX,
    assign_topic_id,
    parse_directory_name,
)
from storage.meta_properties import MetaProperties
from storage.producer_state import DEFAULT_PRODUCER_ID_EXPIRATION_MS
from storage.removals import Removals

logger = logging.getLogger(__name__)

_MAX_NAME = 255
_LONGEST_SLEEP_S = 3600.0


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
        self._wake = asyncio.Event()
        self._rolled: set[Log] = set()
        self._flushing: dict[Log, asyncio.Event] = {}
        self.removals = Removals(fs, now_ms, self._wake.set)
        self._jobs: list[tuple[int, Callable[[], Awaitable[None]]]] = [
            (flush_scheduler_interval_ms, self.flush_due_logs),
            (flush_offset_checkpoint_interval_ms, self.checkpoint_recovery_points),
            (flush_start_offset_checkpoint_interval_ms, self.checkpoint_log_start_offsets),
            (high_watermark_checkpoint_interval_ms, self.checkpoint_high_watermarks),
            (retention_check_interval_ms, self.delete_old_segments),
            (producer_id_expiration_check_interval_ms, self.expire_producers),
        ]
        self._initial_task_delay_ms = initial_task_delay_ms
        self._without_delay = (self.checkpoint_high_watermarks, self.expire_producers)

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
        merged = MetaProperties(broker_id, None)
        for directory in self.directories:
            stored = directory.read_meta()
            if stored is None:
                continue
            if stored.broker_id is not None:
                if merged.broker_id is not None and merged.broker_id != stored.broker_id:
                    raise InconsistentBrokerIdError(
                        f"{directory.path} belongs to broker {stored.broker_id}, "
                        f"this is broker {merged.broker_id}: set broker.id to the "
                        "former, or remove what another broker left there"
                    )
                merged.broker_id = stored.broker_id
            if stored.cluster_id is not None:
                if merged.cluster_id is not None and merged.cluster_id != stored.cluster_id:
                    raise InconsistentClusterIdError(
                        f"{directory.path} belongs to cluster {stored.cluster_id}, "
                        f"another log directory to cluster {merged.cluster_id}"
                    )
                merged.cluster_id = stored.cluster_id
        return merged

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
            clean = directory.take_clean_shutdown()
            recovery_points = directory.recovery_points.read()
            log_start_offsets = directory.log_start_offsets.read()
            high_watermarks = directory.high_watermarks.read()
            work: list[Callable[[], Log]] = []
            for path in directory.partition_directories():
                try:
                    topic_partition = parse_directory_name(path.name)
                except InvalidLogDirectoryNameError as error:
                    logger.warning("%s", error)
                    continue
                if path.name.endswith(DELETE_DIRECTORY_SUFFIX):
                    self.removals.add([str(path)], self.config_of(topic_partition[0]).file_delete_delay_ms)
                elif path.name.endswith((FUTURE_DIRECTORY_SUFFIX, STRAY_DIRECTORY_SUFFIX)):
                    logger.warning("%s: a log that was being moved, or that Kafka put aside; it is ignored", path)
                elif topic_partition in self.logs:
                    logger.error("%s is in two log directories: %s is ignored", path.name, path)
                else:
                    work.append(self._opener(path, topic_partition, recovery_points, log_start_offsets, clean))
            logs = [open_log() for open_log in work] if clean else await self._recover(directory, work)
            for log in logs:
                log.update_high_watermark(high_watermarks.get((log.topic, log.partition), 0))
                self._adopt(log)

    def _opener(
        self,
        path: Path,
        topic_partition: TopicPartition,
        recovery_points: Mapping[TopicPartition, int],
        log_start_offsets: Mapping[TopicPartition, int],
        clean: bool,
    ) -> Callable[[], Log]:
        config = self.config_of(topic_partition[0])
        return lambda: Log.open(
            path,
            config,
            fs=self.fs,
            now_ms=self.now_ms,
            recovery_point=recovery_points.get(topic_partition, 0),
            log_start_offset=log_start_offsets.get(topic_partition, 0),
            clean_shutdown=clean,
            producer_id_expiration_ms=self.producer_id_expiration_ms,
            full_validation=self.full_validation,
            rng=self.rng,
        )

    async def _recover(self, directory: LogDirectory, work: list[Callable[[], Log]]) -> list[Log]:
        if work:
            logger.info("%s was not stopped cleanly: recovering %d logs", directory.path, len(work))
        logs: list[Log] = []
        pending = list(reversed(work))

        async def worker() -> None:
            while pending:
                logs.append(await self.fs.run_blocking(pending.pop()))

        async with asyncio.TaskGroup() as group:
            for _ in range(min(self.recovery_threads, len(work))):
                group.create_task(worker())
        return logs

    def _adopt(self, log: Log) -> None:
        log.schedule_removal = self.removals.add
        log.on_roll = self._log_rolled
        self.logs[log.topic, log.partition] = log

    def _log_rolled(self, log: Log) -> None:
        self._rolled.add(log)
        self._wake.set()

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
        loop = asyncio.get_running_loop()
        delay = self._initial_task_delay_ms
        due = [
            loop.time() + (interval if delay is None or job in self._without_delay else delay) / 1000
            for interval, job in self._jobs
        ]
        while True:
            await self._flush_rolled()
            await self.removals.run_due()
            for number, (interval, job) in enumerate(self._jobs):
                if due[number] <= loop.time():
                    await job()
                    due[number] = loop.time() + interval / 1000
            next_removal = self.removals.next_due_ms
            wait = min(*due, loop.time() + _LONGEST_SLEEP_S) - loop.time()
            if next_removal is not None:
                wait = min(wait, max(next_removal - self.now_ms(), 0) / 1000)
            try:
                async with asyncio.timeout(max(wait, 0.001)):
                    await self._wake.wait()
            except TimeoutError:
                pass
            self._wake.clear()

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

    async def _flush_rolled(self) -> None:
        while self._rolled:
            log = self._rolled.pop()
            await self.flush(log, log.segments[-1].base_offset)

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
