"""Loading a log from its directory.

After a clean stop only file sizes, the end of the last segment and the newest producer snapshot are read. After any
other stop the segments from the recovery point on are recovered; see `storage.log.recovery`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass

from protocol.errors import CorruptRecordError
from storage.errors import CorruptFileError, LogDirIOError
from storage.index.offset_index import OffsetIndex
from storage.index.time_index import TimeIndex
from storage.log.batch_scan import iter_headers
from storage.log.epoch_recovery import complete_leader_epochs
from storage.log.leader_epoch_cache import LeaderEpochCache
from storage.log.leftovers import Leftovers, segments_among
from storage.log.offsets import LogOffsets
from storage.log.recovery import Recovery
from storage.log.replay import rebuild_producers
from storage.log.segment import INDEX_SUFFIX, LOG_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX, LogSegment
from storage.log.segment_files import SegmentFiles
from storage.log.segments import LogSegments

logger = logging.getLogger(__name__)


@dataclass(eq=False)
class LogLoader:
    """Loads one log, or begins a new one."""

    _segment_files: SegmentFiles
    _leader_epochs: LeaderEpochCache
    _reading: Callable[[int], None]
    """Called with the size of what recovery is about to read; what it raises ends the load."""

    def __post_init__(self) -> None:
        self._files = self._segment_files.log_files
        self._producers = self._segment_files.producers

    def load(
        self, recovery_point: int | None, log_start_offset: int, *, clean_shutdown: bool, topic_id: bytes | None
    ) -> tuple[LogSegments, LogOffsets]:
        """Fill the parts that were given; returns the others. Raises what `Log.open` raises."""
        opened: list[LogSegment] = []
        try:
            try:
                return self._load(opened, recovery_point, log_start_offset, clean_shutdown, topic_id)
            except BaseException:
                for segment in opened:
                    segment.release()
                raise
        except CorruptRecordError as error:  # below the recovery point: synced records are damaged
            raise CorruptFileError(self._files.directory, str(error)) from error
        except OSError as error:
            raise LogDirIOError(self._files.directory, error) from error

    def _load(
        self,
        opened: list[LogSegment],
        recovery_point: int | None,
        log_start_offset: int,
        clean_shutdown: bool,
        topic_id: bytes | None,
    ) -> tuple[LogSegments, LogOffsets]:
        files, epochs = self._files, self._leader_epochs
        names = self._names()
        files.load_topic_id(topic_id)
        epochs_lost = self._load_leader_epochs()
        if Leftovers(self._segment_files).clear(names):
            names = files.names()
        suffixes = segments_among(names)
        self._producers.find_snapshots(names)
        opened += self._open_segments(suffixes)
        blank, damaged = self._check_indexes(opened, suffixes)
        recovery = Recovery(self._segment_files, epochs, list(opened), blank, damaged, log_start_offset, self._reading)
        recovery.run(recovery_point, clean_shutdown=clean_shutdown)
        if recovery.recovered:
            self._producers.find_snapshots(files.names())
        remaining, end_offset = self._from_start(recovery.segments, log_start_offset)
        opened += remaining
        segments = LogSegments(self._segment_files, remaining)
        epochs.drop_from_end(end_offset)
        start = max(log_start_offset, remaining[0].base_offset)
        offsets = LogOffsets(start, start, end_offset)
        epochs.truncate_from_start(log_start_offset)
        if epochs_lost or not clean_shutdown:
            complete_leader_epochs(epochs, segments, offsets, file_is_lost=epochs_lost)
        self._load_producers(segments, offsets)
        return segments, offsets

    def _names(self) -> list[str]:
        """The names of the files in the directory, which is created if it is missing."""
        try:
            return self._files.names()
        except FileNotFoundError:
            self._files.make_directory()
            return []

    def _load_leader_epochs(self) -> bool:
        """True if the file is unreadable and must be rebuilt."""
        try:
            self._leader_epochs.load()
        except CorruptFileError as error:
            logger.warning("%s: the leader epochs are read from the log instead", error)
            return True
        return False

    def _open_segments(self, suffixes: dict[int, set[str]]) -> list[LogSegment]:
        """The segments of the files, ascending; index files without a log are removed."""
        segments = []
        for base, found in sorted(suffixes.items()):
            if LOG_SUFFIX not in found:
                logger.warning("%s: index files at %d have no log and are removed", self._files.directory, base)
                for suffix in found:
                    self._files.fs.remove(f"{self._files.directory}/{base:020d}{suffix}")
                continue
            segments.append(self._segment_files.open(base))
        return segments

    def _check_indexes(self, segments: list[LogSegment], suffixes: dict[int, set[str]]) -> tuple[set[int], set[int]]:
        """Base offsets of the segments without a byte in any file, and of those whose indexes cannot be used."""
        blank, damaged = set(), set()
        for segment in segments:
            size = _size_of_indexes(segment, suffixes[segment.base_offset])
            if size is None:
                damaged.add(segment.base_offset)
            elif segment.size + size == 0:
                blank.add(segment.base_offset)
        if segments and (last := segments[-1].base_offset) not in blank | damaged and not _ends_fit(segments[-1]):
            logger.warning("%s: the last entries of the indexes at %d are invalid", self._files.directory, last)
            damaged.add(last)
        return blank, damaged

    def _from_start(self, segments: list[LogSegment], log_start_offset: int) -> tuple[list[LogSegment], int]:
        """The segments and the log end offset; a new segment if there is none, or if all end below the log start."""
        if segments:
            end_offset = segments[-1].next_offset()
            if end_offset >= log_start_offset:
                return segments, end_offset
            logger.warning(
                "%s: log end offset %d is below log start offset %d: all segments are removed",
                self._files.directory, end_offset, log_start_offset,
            )  # fmt: skip
            self._segment_files.remove(segments[::-1])
            self._leader_epochs.clear()
        return [self._segment_files.create(log_start_offset)], log_start_offset

    def _load_producers(self, segments: LogSegments, offsets: LogOffsets) -> None:
        producers = self._producers
        producers.remove_stray_snapshots(set(segments.base_offsets))
        producers.end_offset = -1  # nothing is loaded
        rebuild_producers(producers, segments.all, offsets.start, offsets.end, self._segment_files.now_ms())
        producers.high_watermark_updated(offsets.high_watermark)


def _size_of_indexes(segment: LogSegment, suffixes: set[str]) -> int | None:
    """Bytes of the indexes. None if one is missing, is not whole entries long, or cannot be read."""
    total = 0
    for suffix, width in ((INDEX_SUFFIX, OffsetIndex.ENTRY.size), (TIME_INDEX_SUFFIX, TimeIndex.ENTRY.size)):
        if suffix not in suffixes:
            return None
        size = segment.fs.size(segment.path(suffix))
        if size % width:
            return None
        total += size
    if TXN_INDEX_SUFFIX in suffixes:
        try:
            total += len(segment.txn_index.entries)
        except CorruptFileError:
            return None
    return total


def _ends_fit(segment: LogSegment) -> bool:
    """Whether the last entries of both indexes can be: the end of the log is looked for from there."""
    offsets, times = segment.offset_index, segment.time_index
    if offsets.last_offset < segment.base_offset or times.last_offset < segment.base_offset:
        return False
    if not offsets.entries:
        return True
    position = offsets.lookup(offsets.last_offset)
    try:
        header = next(iter_headers(segment.file, position, segment.size), None) if position >= 0 else None
    except CorruptRecordError:
        return False
    return header is not None and segment.base_offset <= header.base_offset <= offsets.last_offset
