"""Making a log durable: what to sync is gathered in the log's thread, synced anywhere, and noted afterwards.

The recovery point moves only when everything below it has reached the disk: the segments, their indexes, new
directory entries, producer snapshots, leader epochs and the topic id.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from storage.file_system import OpenFile
from storage.log.leader_epoch_cache import LeaderEpochCache
from storage.log.partition_metadata import PARTITION_METADATA
from storage.producers.snapshot import SNAPSHOT_SUFFIX

if TYPE_CHECKING:
    from storage.log.log import Log


class Flush:
    """One sync of a log up to `offset`. `run` blocks and touches only descriptors and paths it owns."""

    __slots__ = ("_directory", "_files", "_log", "_name_changes", "_parent", "_paths", "_truncations", "offset")

    def __init__(self, log: Log, offset: int, files: list[OpenFile], paths: list[str], directory: bool) -> None:
        self._log = log
        self._truncations = log.truncations
        self.offset = offset
        self._files = files
        self._paths = paths
        self._directory = str(log.directory) if directory else None
        self._name_changes = log.name_changes
        self._parent = str(log.directory.parent) if log.directory_unsynced else None

    def run(self) -> None:
        """Sync everything. Raises LogDirIOError.

        An fsync that fails is never tried again, and it is fatal for the directory, also where the reason is a full
        disk: the kernel has dropped what it could not write (delayed allocation), and says so only once.
        """
        fs = self._log.fs
        try:
            for file in self._files:
                fs.fsync(file.fd)
            for path in self._paths:
                fs.sync_path(path)
            if self._directory is not None:
                fs.sync_directory(self._directory)
            if self._parent is not None:
                fs.sync_directory(self._parent)
        except OSError as error:
            raise fs.failed(self._log.directory, error, lost_writes=True) from error

    def done(self) -> None:
        """Move the recovery point: to be called in the log's thread after `run` succeeded."""
        log = self._log
        if self._directory is not None:
            log.synced_name_changes = self._name_changes
        if self._parent is not None:
            log.directory_unsynced = False
        # After a truncation other records may stand where those stood that were synced.
        if log.truncations == self._truncations:
            log.recovery_point = max(log.recovery_point, self.offset)
        log.last_flush_ms = log.now_ms()

    def failed(self) -> None:
        """The small files are still to be synced: to be called in the log's thread after `run` failed."""
        log = self._log
        for path in self._paths:
            if path == log.leader_epochs.path:
                log.leader_epochs.dirty = True
            elif path.endswith(SNAPSHOT_SUFFIX):
                log.producers.unsynced_snapshots.append(path)


def prepare(log: Log, offset: int) -> Flush | None:
    """The sync that makes everything below `offset` durable; None if it is already.

    What a full disk has kept from being written is written first. Raises LogDirIOError.
    """
    epochs: LeaderEpochCache = log.leader_epochs
    start = log.recovery_point
    small_files = epochs.dirty or log.producers.unsynced_snapshots
    if offset <= start and not small_files and not log.directory_unsynced and not log.names_unsynced:
        return None
    if epochs.unwritten:
        epochs.write()
    files: list[OpenFile] = []
    segments = log.segments
    try:
        for number, segment in enumerate(segments):
            is_active = number + 1 == len(segments)
            following = log.log_end_offset + 1 if is_active else segments[number + 1].base_offset
            # One that ends at the recovery point may have been rolled since: its time index got an entry. And an active
            # segment that a truncation has emptied counts.
            if following < start or (segment.base_offset >= offset and not (is_active and offset >= following - 1)):
                continue
            files += segment.files_to_sync()
    except OSError as error:
        raise log.fs.failed(log.directory, error) from error
    paths = log.producers.unsynced_snapshots
    log.producers.unsynced_snapshots = []
    if epochs.dirty:
        paths = [*paths, epochs.path]
        epochs.dirty = False
    if log.directory_unsynced:
        paths = [*paths, f"{log.directory}/{PARTITION_METADATA}"]
    return Flush(log, offset, files, paths, log.names_unsynced or bool(paths))
