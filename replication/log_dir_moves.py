"""Moves of replicas between the log directories of this broker (KIP-113).

`alter` names the directory of a replica: a copy of its log is created there, and replaces the log when it is complete.
Readers and writers of the partition are not affected. A move is given up if a request names a third directory, or the
one that holds the replica. A move continues after a restart, and after the controller has stopped and named the replica
again.

`num.replica.alter.log.dirs.threads` replicas are copied at the same time (if it is not set, as many as there are log
directories), in the order of their names: one completed move is worth more than two half-completed ones.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from client.wire.backoff import Backoff, Retries
from protocol.errors import ProtocolError
from replication.errors import (
    LogDirNotFoundError,
    LogDirOfflineError,
    NotLeaderOrFollowerError,
    ReplicaNotAvailableError,
    TopicNameTooLongError,
)
from replication.log_dir_move import LogDirMove
from replication.partition import Partition
from replication.replication_quota import ReplicationQuota
from storage.directories.log_directory import LogDirectory
from storage.directories.log_removal import MAX_NAME
from storage.errors import StorageError
from storage.log.log import Log

if TYPE_CHECKING:
    from replication.replica_manager import ReplicaManager

logger = logging.getLogger(__name__)

Key = tuple[str, int]

_FUTURE_SUFFIX_SIZE = len(f".{'0' * 32}-future")


class MoveSettings(Protocol):
    """The settings that moves use."""

    num_replica_alter_log_dirs_threads: int | None


class LogDirMoves:
    """All moves of one broker."""

    def __init__(
        self,
        replicas: ReplicaManager,
        settings: MoveSettings,
        quota: ReplicationQuota,
        rate: Callable[[], float],
        now_s: Callable[[], float],
        backoff: Backoff,
    ) -> None:
        """quota: measures what all moves copy. rate: allowed bytes per second."""
        self.moves: dict[Key, LogDirMove] = {}
        self._replicas = replicas
        self._settings = settings
        self._quota = quota
        self._rate = rate
        self._now_s = now_s
        self._backoff = backoff
        self._news: dict[int, asyncio.Event] = {}

    # -- requests --------------------------------------------------------------------------------------------------

    async def alter(self, topic: str, partition: int, path: str) -> None:
        """Move a replica to the log directory `path`. On return, the move has begun.

        If this broker does not have the replica yet, it will be created in `path`; ReplicaNotAvailableError or
        UnknownTopicOrPartitionError is raised. Raises LogDirNotFoundError, LogDirOfflineError (also if any other
        directory is offline: the replica may have a copy there), TopicNameTooLongError, StorageError.
        """
        key = (topic, partition)
        if len(f"{topic}-{partition}") + _FUTURE_SUFFIX_SIZE > MAX_NAME:
            raise TopicNameTooLongError(f"replicas of {topic} cannot be moved: the topic name is too long")
        directory = self._directory(path)
        async with self._replicas.controller_requests.one_at_a_time:
            found = self._replicas.partitions.get(key)
            if found is not None and found.is_offline:
                raise LogDirOfflineError(f"the log directory of {topic}-{partition} is offline")
            log = None if found is None else found.log
            if found is None or log is None:
                self._replicas.logs.prefer(topic, partition, directory)
                self._check_exists(key)
                raise ReplicaNotAvailableError(f"this broker has no replica of {topic}-{partition} yet")
            await self._move(found, directory)

    def _directory(self, path: str) -> LogDirectory:
        for directory in self._replicas.logs.dirs.all:
            if str(directory.path.absolute()) == str(Path(path)):
                if not directory.is_online:
                    raise LogDirOfflineError(f"the log directory {path} is offline")
                return directory
        raise LogDirNotFoundError(f"{path} is not a log directory of this broker")

    def _check_exists(self, key: Key) -> None:
        try:
            self._replicas.partition(*key)
        except NotLeaderOrFollowerError as error:
            raise ReplicaNotAvailableError(str(error)) from error

    async def _move(self, partition: Partition, directory: LogDirectory) -> None:
        logs, key = self._replicas.logs, (partition.topic, partition.partition)
        future = logs.futures.logs.get(key)
        if future is not None and future.directory.parent != directory.path:
            logger.info("%s-%d: the move to %s is given up", *key, future.directory.parent)
            await self.stop(key)
            await logs.futures.remove(key)
        current = partition.log
        if current is None:  # its directory has failed during the wait
            raise LogDirOfflineError(f"the log directory of {key[0]}-{key[1]} is offline")
        if current.directory.parent == directory.path:
            return
        if key not in logs.futures.logs:
            if len(logs.dirs.online) < len(logs.dirs.all):
                raise LogDirOfflineError(f"{key[0]}-{key[1]} may have a copy in a log directory that is offline")
            await self._finish(key)
            await logs.futures.begin(current, directory)
            logger.info("%s-%d is moved from %s to %s", *key, current.directory.parent, directory.path)
        self.start(partition)

    def start(self, partition: Partition) -> None:
        """Continue the move of a partition, if it has one."""
        key = (partition.topic, partition.partition)
        current, future = partition.log, self._replicas.logs.futures.logs.get(key)
        if current is None or future is None:
            return
        move = self.moves.get(key)
        if move is None or move.copy.is_over:
            self.moves[key] = LogDirMove(
                partition, current, future, self._replicas.logs, self._now_s, Retries(self._backoff)
            )
            self._wake()

    def drop(self, key: Key) -> LogDirMove | None:
        """Stop a move without waiting. Its copy stays, and the move may continue later."""
        move = self.moves.pop(key, None)
        if move is not None:
            move.give_up()
        return move

    async def stop(self, key: Key) -> None:
        """Stop a move. On return, no worker uses the two logs, and a replaced log is removed."""
        move = self.drop(key)
        if move is not None:
            await move.until_idle()

    async def _finish(self, key: Key) -> None:
        """If the previous move has completed, wait until its worker has finished."""
        move = self.moves.get(key)
        if move is not None and move.copy.is_over:
            await move.until_idle()

    def config_changed(self, key: Key, log: Log) -> None:
        """Apply changed settings of the topic to the copy, too."""
        future = self._replicas.logs.futures.logs.get(key)
        if future is not None:
            future.config = log.config

    # -- the workers -----------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Move replicas until cancelled."""
        count = self._settings.num_replica_alter_log_dirs_threads or len(self._replicas.logs.dirs.all)
        async with asyncio.TaskGroup() as tasks:
            for number in range(count):
                self._news[number] = asyncio.Event()
                tasks.create_task(self._work(self._news[number]))

    def _wake(self) -> None:
        for news in self._news.values():
            news.set()

    async def _work(self, news: asyncio.Event) -> None:
        while True:
            news.clear()
            now_s = self._now_s()
            waiting = [move for move in self.moves.values() if not move.is_taken]
            ready = [move for move in waiting if move.delayed_until_s <= now_s]
            if ready:
                await self._carry_on(min(ready, key=lambda move: move.key))
                continue
            delay_s = min((move.delayed_until_s - now_s for move in waiting), default=None)
            try:
                async with asyncio.timeout(delay_s):
                    await news.wait()
            except TimeoutError:
                pass

    async def _carry_on(self, move: LogDirMove) -> None:
        key, future = move.key, move.copy.future
        try:
            is_done = await move.carry_on(self._quota, self._rate)
        except (StorageError, ProtocolError) as error:
            level = move.retries.log_level(logging.WARNING)
            logger.log(level, "%s-%d cannot be moved to %s yet: %s", *key, future.directory.parent, error)
            move.delay()
            is_over = move.copy.is_over
        except Exception:
            logger.exception("%s-%d: the move failed; it is not retried until the controller sends a new state", *key)
            move.give_up()
            is_over = True
        else:
            is_over = True
            if is_done:
                logger.info("%s-%d has been moved to %s", *key, future.directory.parent)
        if is_over and self.moves.get(key) is move:
            del self.moves[key]
