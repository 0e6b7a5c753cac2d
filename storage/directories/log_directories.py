"""The log directories of a broker: whose they are, which of them can be used, and what becomes of one that fails.

A directory that fails (I/O error, gone, read-only: `LogDirIOError.is_fatal`) goes offline alone and stays so until
the next start; when none is left the broker has to stop. A full directory stays online: writes to it are refused,
each of them tries, and once a second somebody looks whether there is room again (as in Kafka's LogDirFailureChannel,
the one who meets a failure only says so; Kafka takes a full disk for a failed one).

Failures are heard in any thread and dealt with on the event loop, after whoever has met them is done.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Sequence
from pathlib import Path

from storage.directories.log_directory import LogDirectory
from storage.directories.meta_properties import MetaProperties, agreed
from storage.errors import AllLogDirsFailedError, InconsistentClusterIdError, LogDirIOError
from storage.file_system import FileSystem

logger = logging.getLogger(__name__)

_ROOM_CHECK_INTERVAL_S = 1.0


class LogDirectories:
    """`all` in the order of log.dirs, and `online`: those that have not failed."""

    def __init__(
        self,
        fs: FileSystem,
        paths: Sequence[Path],
        now_ms: Callable[[], int],
        *,
        on_offline: Callable[[LogDirectory], None],
        on_change: Callable[[], None],
    ) -> None:
        """on_offline: a directory has failed. on_change: `next_check_s` or `all_failed` may have changed."""
        self.all = [LogDirectory(fs, path) for path in paths]
        self.on_room: Callable[[], None] = lambda: None
        """Called when a directory that was full has room again."""
        self._fs = fs
        self._now_ms = now_ms
        self._on_offline = on_offline
        self._on_change = on_change
        self._loop: asyncio.AbstractEventLoop | None = None
        self._next_check_s = 0.0
        fs.on_failure = self._hear

    @property
    def online(self) -> list[LogDirectory]:
        """Those that can be used."""
        return [directory for directory in self.all if directory.is_online]

    def of(self, path: str) -> LogDirectory | None:
        """The directory that `path` is, or is in."""
        for directory in self.all:
            if path == str(directory.path) or path.startswith(f"{directory.path}/"):
                return directory
        return None

    # -- to whom they belong ---------------------------------------------------------------------------------------

    def lock(self) -> None:
        """Take every directory that can be used. Raises LogDirLockedError, AllLogDirsFailedError; none is held then."""
        try:
            for directory in self.all:
                try:
                    directory.lock()
                except LogDirIOError as failure:
                    self.fail(directory, failure)
            self.check_left()
        except Exception:
            self.unlock()
            raise

    def unlock(self) -> None:
        """Let go of all."""
        for directory in self.all:
            directory.unlock()

    def check_meta(self, broker_id: int | None) -> MetaProperties:
        """What the directories' `meta.properties` say together (None where they say nothing).

        Raises InconsistentBrokerIdError if one belongs to a broker other than `broker_id` (None: not known
        yet), InconsistentClusterIdError if they belong to different clusters, CorruptFileError,
        AllLogDirsFailedError.
        """
        stored = []
        for directory in self.online:
            try:
                stored.append((directory.path, directory.read_meta()))
            except LogDirIOError as failure:
                self.fail(directory, failure)
        self.check_left()
        return agreed(stored, broker_id)

    def write_meta(self, broker_id: int, cluster_id: str) -> None:
        """Make the directories this broker's.

        Raises InconsistentBrokerIdError, InconsistentClusterIdError, AllLogDirsFailedError.
        """
        stored = self.check_meta(broker_id)
        if stored.cluster_id is not None and stored.cluster_id != cluster_id:
            raise InconsistentClusterIdError(
                f"the log directories belong to cluster {stored.cluster_id}, not to {cluster_id}: "
                "was the broker pointed to another ZooKeeper or registry?"
            )
        wanted = MetaProperties(broker_id, cluster_id)
        for directory in self.online:
            try:
                if directory.read_meta() != wanted:
                    directory.write_meta(wanted, self._now_ms())
            except LogDirIOError as failure:
                self.fail(directory, failure)
        self.check_left()

    # -- failures --------------------------------------------------------------------------------------------------

    def listen(self) -> None:
        """Deal with failures on this event loop from now on; until then those who call see to them."""
        self._loop = asyncio.get_running_loop()

    def _hear(self, failure: LogDirIOError) -> None:
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody is served any more
                self._loop.call_soon_threadsafe(self._take, failure)

    def _take(self, failure: LogDirIOError) -> None:
        directory = self.of(failure.path)
        if directory is None or not directory.is_online:
            return
        if failure.is_fatal:
            self.fail(directory, failure)
        elif failure.is_disk_full and directory.write_refused(failure.extent):
            logger.error(
                "log directory %s is full: writes are refused until there is room (%s)", directory.path, failure
            )
            self._next_check_s = asyncio.get_running_loop().time() + _ROOM_CHECK_INTERVAL_S
            self._on_change()

    def fail(self, directory: LogDirectory, failure: LogDirIOError) -> None:
        """Take a directory offline, whatever the failure is."""
        if directory.is_online:
            directory.go_offline(failure)
            logger.error(
                "log directory %s has failed, it is offline until the next start: %s", directory.path, directory.failure
            )
            self._on_offline(directory)
            self._on_change()

    def check_left(self) -> None:
        """Raise AllLogDirsFailedError where no directory is left."""
        if not self.online:
            reasons = "; ".join(directory.failure for directory in self.all if directory.failure is not None)
            which = "the log directory has failed" if len(self.all) == 1 else "all log directories have failed"
            raise AllLogDirsFailedError(f"{which}: {reasons}")

    # -- full disks ------------------------------------------------------------------------------------------------

    @property
    def next_check_s(self) -> float | None:
        """In how many seconds `look_for_room` has something to do; None while nothing is full."""
        if not any(directory.is_full for directory in self.all):
            return None
        return max(self._next_check_s - asyncio.get_running_loop().time(), 0.0)

    async def look_for_room(self) -> None:
        """Look whether full directories have room again, once a second, off the event loop."""
        if self.next_check_s != 0.0:
            return
        for directory in [directory for directory in self.online if directory.is_full]:
            if await self._fs.run_blocking(directory.has_room) and directory.is_online:
                logger.info("log directory %s has room again", directory.path)
                self.on_room()
        self._next_check_s = asyncio.get_running_loop().time() + _ROOM_CHECK_INTERVAL_S
