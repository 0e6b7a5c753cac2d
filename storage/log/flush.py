"""Making a log durable: collect what to sync in the log's thread, sync it in any thread, then move the recovery point.

The recovery point moves only when everything below it has reached the disk: segments, indexes, directory entries,
producer snapshots, leader epochs and the topic id.
"""

from __future__ import annotations

from dataclasses import dataclass

from storage.file_system import OpenFile
from storage.log.leader_epoch_cache import LeaderEpochCache
from storage.log.offsets import LogOffsets
from storage.log.partition_metadata import PARTITION_METADATA
from storage.log.segments import LogSegments
from storage.producers.snapshot import SNAPSHOT_SUFFIX


@dataclass(eq=False)
class Durability:
    """How much of a log is on disk."""

    _segments: LogSegments
    _offsets: LogOffsets
    leader_epochs: LeaderEpochCache
    recovery_point: int
    """Everything below this offset is synced."""
    truncations: int = 0
    """How often the log was truncated: what was being synced at that time may be gone."""

    def __post_init__(self) -> None:
        self.files = self._segments.files.log_files
        self._producers = self._segments.files.producers
        self._now_ms = self._segments.files.now_ms
        self.last_flush_ms = self._now_ms()
        self.flush_messages = self._segments.files.config.flush_messages
        """flush.messages: an append that leaves at least as many offsets unsynced asks for a flush."""

    def truncated_to(self, offset: int) -> None:
        """The log ends at `offset` now."""
        self.truncations += 1
        self.recovery_point = min(self.recovery_point, offset)

    def prepare(self, offset: int) -> Flush | None:
        """The sync that makes everything below `offset` durable; None if it is durable already.

        Small files that a full disk kept from being written are written first. Raises LogDirIOError.
        """
        files, epochs, snapshots = self.files, self.leader_epochs, self._producers.unsynced_snapshots
        is_directory_unsynced, are_names_unsynced = files.is_directory_unsynced, files.are_names_unsynced
        epochs_changed = epochs.is_unsynced_below(offset)
        small_files = epochs_changed or snapshots
        if offset <= self.recovery_point and not small_files and not is_directory_unsynced and not are_names_unsynced:
            return None
        if epochs_changed and epochs.unwritten:
            epochs.write()
        with files.failing():
            to_sync = self._segment_files(offset)
        paths = snapshots
        self._producers.unsynced_snapshots = []
        if epochs_changed:
            paths = [*paths, epochs.path]
            epochs.changed_from = None
        if is_directory_unsynced:
            paths = [*paths, f"{files.directory}/{PARTITION_METADATA}"]
        return Flush(self, offset, to_sync, paths, are_names_unsynced or bool(paths))

    def _segment_files(self, offset: int) -> list[OpenFile]:
        """The files of the segments with records between the recovery point and `offset`. Raises OSError."""
        start, end_offset = self.recovery_point, self._offsets.end
        files: list[OpenFile] = []
        segments = self._segments.all
        for number, segment in enumerate(segments):
            is_active = number + 1 == len(segments)
            following = end_offset + 1 if is_active else segments[number + 1].base_offset
            # A segment that ends at the recovery point may have been rolled since, which wrote a time index entry. An
            # active segment that a truncation has emptied counts, too.
            if following < start or (segment.base_offset >= offset and not (is_active and offset >= following - 1)):
                continue
            files += segment.files_to_sync(is_active=is_active)
        return files

    def flushed(self, offset: int, truncations: int) -> None:
        """Everything below `offset` was synced, of the log as it was after so many truncations."""
        if self.truncations == truncations:  # else other records may stand there now
            self.recovery_point = max(self.recovery_point, offset)
        self.last_flush_ms = self._now_ms()

    def not_flushed(self, paths: list[str]) -> None:
        """The sync of small files has failed: they are still to be synced."""
        for path in paths:
            if path == self.leader_epochs.path:
                self.leader_epochs.mark_changed(0)
            elif path.endswith(SNAPSHOT_SUFFIX):
                self._producers.unsynced_snapshots.append(path)


class Flush:
    """One sync of a log up to `offset`. `run` blocks; it uses only descriptors and paths that do not change."""

    def __init__(
        self, durability: Durability, offset: int, files: list[OpenFile], paths: list[str], directory: bool
    ) -> None:
        """paths: of small files. directory: whether to sync the names in the log's directory."""
        log_files = durability.files
        self.offset = offset
        self._durability = durability
        self._truncations = durability.truncations
        self._files = files
        self._paths = paths
        self._directory = str(log_files.directory) if directory else None
        self._name_changes = log_files.name_changes
        self._parent = str(log_files.directory.parent) if log_files.is_directory_unsynced else None

    def run(self) -> None:
        """Sync everything. Raises LogDirIOError.

        An fsync that fails is not tried again, and it is fatal for the directory, even if the disk is full: the kernel
        has dropped what it could not write (delayed allocation), and says so only once.
        """
        files = self._durability.files
        fs = files.fs
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
            raise files.failed(error, lost_writes=True) from error

    def done(self) -> None:
        """Move the recovery point. Call it in the log's thread after `run` succeeded."""
        files = self._durability.files
        if self._directory is not None:
            files.synced_name_changes = self._name_changes
        if self._parent is not None:
            files.is_directory_unsynced = False
        self._durability.flushed(self.offset, self._truncations)

    def failed(self) -> None:
        """Note that the small files are still to be synced. Call it in the log's thread after `run` failed."""
        self._durability.not_flushed(self._paths)
