"""The log directories of a broker: locks, meta.properties, and the handling of failures and full disks.

A directory that fails (I/O error, missing, read-only: `LogDirIOError.is_fatal`) goes offline until the next start; the
others stay online. The broker must stop when no directory is online. A full directory stays online: each write is
attempted and fails, and once a second the directory is checked for room. (Kafka treats a full disk as a failure.)

As with Kafka's LogDirFailureChannel, the code that gets an error only reports it. Failures are reported in any thread
and handled on the event loop, after the code that reported them has returned.
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
        """on_offline: called when a directory has failed. on_change: called when `next_check_s` or the result of
        `check_left` may have changed.
        """
        self.all = [LogDirectory(fs, path) for path in paths]
        self.on_refused: Callable[[], None] = lambda: None
        """Called for each write that is refused for lack of room, after the directory is marked as full."""
        self.on_room: Callable[[], None] = lambda: None
        """Called when a full directory has room again."""
        self._fs = fs
        self._now_ms = now_ms
        self._on_offline = on_offline
        self._on_change = on_change
        self._loop: asyncio.AbstractEventLoop | None = None
        self._next_check_s = 0.0
        fs.on_failure = self._report

    @property
    def online(self) -> list[LogDirectory]:
        """The directories that have not failed."""
        return [directory for directory in self.all if directory.is_online]

    def of(self, path: str) -> LogDirectory | None:
        """Return the log directory that is or contains `path`; None if there is none."""
        for directory in self.all:
            if path == str(directory.path) or path.startswith(f"{directory.path}/"):
                return directory
        return None

    def is_full(self, path: str) -> bool:
        """Return whether the log directory that contains `path` is full."""
        directory = self.of(path)
        return directory is not None and directory.is_full

    # -- locks and meta.properties ---------------------------------------------------------------------------------

    def lock(self) -> None:
        """Lock every online directory. Raises LogDirLockedError, AllLogDirsFailedError; then none is locked."""
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
        """Unlock all directories."""
        for directory in self.all:
            directory.unlock()

    def check_meta(self, broker_id: int | None) -> MetaProperties:
        """Return the merged `meta.properties` of the directories; a field is None if no file has it.

        Raises InconsistentBrokerIdError if a file has another broker id than `broker_id` (None: not known yet),
        InconsistentClusterIdError if files have different cluster ids, CorruptFileError, AllLogDirsFailedError.
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
        """Write the broker id and cluster id to all directories.

        Raises InconsistentBrokerIdError, InconsistentClusterIdError, AllLogDirsFailedError.
        """
        stored = self.check_meta(broker_id)
        if stored.cluster_id is not None and stored.cluster_id != cluster_id:
            raise InconsistentClusterIdError(
                f"the log directories belong to cluster {stored.cluster_id}, not to {cluster_id}: "
                "check that zookeeper.connect or the registry is the right one"
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
        """Handle reported failures on the running event loop from now on. Before this, callers handle them."""
        self._loop = asyncio.get_running_loop()

    def _report(self, failure: LogDirIOError) -> None:
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # the loop is closed: the broker has stopped
                self._loop.call_soon_threadsafe(self._take, failure)

    def _take(self, failure: LogDirIOError) -> None:
        directory = self.of(failure.path)
        if directory is None or not directory.is_online:
            return
        if failure.is_fatal:
            self.fail(directory, failure)
        elif failure.is_disk_full:
            if directory.write_refused(failure.extent):
                logger.error(
                    "log directory %s is full: writes are refused until there is room (%s)", directory.path, failure
                )
                self._next_check_s = asyncio.get_running_loop().time() + _ROOM_CHECK_INTERVAL_S
                self._on_change()
            self.on_refused()

    def fail(self, directory: LogDirectory, failure: LogDirIOError) -> None:
        """Take a directory offline after any kind of failure."""
        if directory.is_online:
            directory.go_offline(failure)
            logger.error(
                "log directory %s has failed and is offline until the next start: %s", directory.path, directory.failure
            )
            self._on_offline(directory)
            self._on_change()

    def check_left(self) -> None:
        """Raise AllLogDirsFailedError if no directory is online."""
        if not self.online:
            reasons = "; ".join(directory.failure for directory in self.all if directory.failure is not None)
            which = "the log directory has failed" if len(self.all) == 1 else "all log directories have failed"
            raise AllLogDirsFailedError(f"{which}: {reasons}")

    # -- full disks ------------------------------------------------------------------------------------------------

    @property
    def next_check_s(self) -> float | None:
        """Seconds until the next check of `look_for_room`; None if no directory is full."""
        if not any(directory.is_full for directory in self.all):
            return None
        return max(self._next_check_s - asyncio.get_running_loop().time(), 0.0)

    async def look_for_room(self) -> None:
        """Check once a second, off the event loop, whether full directories have room again."""
        if self.next_check_s != 0.0:
            return
        for directory in [directory for directory in self.online if directory.is_full]:
            if await self._fs.run_blocking(directory.has_room) and directory.is_online:
                logger.info("log directory %s has room again", directory.path)
                self.on_room()
        self._next_check_s = asyncio.get_running_loop().time() + _ROOM_CHECK_INTERVAL_S
