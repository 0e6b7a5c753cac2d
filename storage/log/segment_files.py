"""Creating, opening and removing the files of a log's segments.

A segment that is removed gets the suffix `.deleted` at once; its files go after file.delete.delay.ms.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from random import Random

from storage.errors import LogDirIOError
from storage.log.config import LogConfig
from storage.log.files import LogFiles
from storage.log.segment import SEGMENT_SUFFIXES, LogSegment, file_name
from storage.producers.state import ProducerState


@dataclass(slots=True)
class SegmentFiles:
    """Creates, opens and removes segments of one log, with the topic's settings (`config`).

    A segment has a producer snapshot of the same name, which is removed with it.
    """

    log_files: LogFiles
    producers: ProducerState
    config: LogConfig
    random: Random
    now_ms: Callable[[], int]

    def open(self, base_offset: int, *, suffix: str = "", create: bool = False) -> LogSegment:
        """The segment whose files exist (with `create`: whose empty files are created). Raises OSError, LogDirIOError.

        suffix: what the name of the `.log` file has after `.log`.
        """
        config = self.config
        return LogSegment(
            self.log_files.fs,
            str(self.log_files.directory),
            base_offset,
            index_interval_bytes=config.index_interval_bytes,
            max_index_bytes=config.segment_index_bytes,
            now_ms=self.now_ms(),
            roll_jitter_ms=config.roll_jitter_ms(self.random),
            create=create,
            suffix=suffix,
        )

    def create(self, base_offset: int) -> LogSegment:
        """Create an empty segment. Raises LogDirIOError; then no file of it is left."""
        files = self.log_files
        files.name_changes += 1
        try:
            with files.failing():
                self._remove_files(base_offset)
                segment = self.open(base_offset, create=True)
                if self.config.preallocate:
                    files.fs.ftruncate(segment.file.open().fd, self.config.segment_bytes)
                return segment
        except LogDirIOError:
            with contextlib.suppress(OSError):
                self._remove_files(base_offset)
            raise

    def _remove_files(self, base_offset: int) -> None:
        for suffix in SEGMENT_SUFFIXES:
            self.log_files.fs.remove(f"{self.log_files.directory}/{file_name(base_offset, suffix)}")

    def remove(self, segments: Iterable[LogSegment]) -> None:
        """Rename the files of segments that the log no longer has; they are removed later. Raises LogDirIOError.

        The order is that given. A power cut may keep the last ones, so choose an order that leaves no gap.
        """
        paths: list[str] = []
        self.log_files.name_changes += 1
        try:
            with self.log_files.failing():
                for segment in segments:
                    paths += segment.rename_deleted()
                    snapshot = self.producers.remove_snapshot_of(segment.base_offset)
                    if snapshot is not None:
                        paths.append(snapshot)
        finally:
            self.remove_later(paths)

    def remove_later(self, paths: list[str]) -> None:
        """Remove files after file.delete.delay.ms."""
        self.log_files.schedule_removal(paths, self.config.file_delete_delay_ms)
