"""What changes a log's segments: rolling, truncation, retention, renaming; and the rare forms of an append.

Functions on a `Log`, kept apart so that `log.py` stays about appending and reading. A segment that goes is
taken out of the list first, then its files get the suffix `.deleted`, and are removed after
file.delete.delay.ms.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from protocol.errors import CorruptRecordError, InvalidRecordError
from protocol.record_batch import BATCH_HEADER_SIZE, LOG_OVERHEAD, MAGIC_OFFSET
from storage.errors import LogDirIOError
from storage.log.recovery import rebuild_producer_state
from storage.log.segment import SEGMENT_SUFFIXES, LogSegment, file_name

if TYPE_CHECKING:
    from storage.log.log import Log


# -- appends that are not one plain batch ----------------------------------------------------------


def up_convert(log: Log, records: memoryview) -> memoryview:
    """A batch of magic 2 from a message set of an old client; also answers what is too short for a batch.

    Raises InvalidRecordError, CorruptRecordError, UnsupportedCompressionError.
    """
    if len(records) <= MAGIC_OFFSET:
        raise InvalidRecordError(f"{len(records)} bytes hold no record batch")
    magic = records[MAGIC_OFFSET]
    if magic > 1:
        if magic == 2:
            raise CorruptRecordError(0, f"{len(records)} bytes are too few for a batch header")
        raise InvalidRecordError(f"unknown magic {magic}")
    from protocol import conversion

    converted = conversion.up_convert(records)
    if len(converted) < BATCH_HEADER_SIZE:
        raise InvalidRecordError("the message set is empty")
    return memoryview(converted)


def single_batch(records: memoryview, length: int) -> memoryview:
    """The one whole batch at the start of `records`; bytes of a further one, cut off, are left out.

    Raises CorruptRecordError, InvalidRecordError where there is more than one.
    """
    size = length + LOG_OVERHEAD
    if size < BATCH_HEADER_SIZE:
        raise CorruptRecordError(0, f"batch length {length}")
    if size > len(records):
        raise InvalidRecordError(f"batch of {size} bytes is cut off after {len(records)}")
    rest = records[size:]
    if len(rest) >= LOG_OVERHEAD:
        following = int.from_bytes(rest[8:12], "big", signed=True) + LOG_OVERHEAD
        if following <= len(rest):
            raise InvalidRecordError("more than one record batch for a partition")
    return records[:size]


# -- segments --------------------------------------------------------------------------------------


def new_segment(log: Log, base_offset: int) -> LogSegment:
    """Make the files of an empty segment. Raises LogDirIOError."""
    config = log.config
    directory = str(log.directory)
    log.name_changes += 1
    try:
        for suffix in SEGMENT_SUFFIXES:
            log.fs.remove(f"{directory}/{file_name(base_offset, suffix)}")
        segment = LogSegment(
            log.fs,
            directory,
            base_offset,
            index_interval_bytes=config.index_interval_bytes,
            max_index_bytes=config.segment_index_bytes,
            now_ms=log.now_ms(),
            roll_jitter_ms=config.roll_jitter_ms(log.random),
            create=True,
        )
        if config.preallocate:
            log.fs.ftruncate(segment.file.open().fd, config.segment_bytes)
        return segment
    except (OSError, LogDirIOError) as error:
        with contextlib.suppress(OSError):
            for suffix in SEGMENT_SUFFIXES:
                log.fs.remove(f"{directory}/{file_name(base_offset, suffix)}")
        if isinstance(error, LogDirIOError):
            raise
        raise log.fs.failed(directory, error) from error


def roll(log: Log, expected_offset: int) -> LogSegment:
    """Begin a new segment at `expected_offset` or the log end offset, whichever is larger.

    An empty active segment that begins there already stays. A producer snapshot of the same name goes with
    it: written first, so that a roll that fails (full disk) leaves the segments as they were. Raises LogDirIOError.
    """
    base_offset = max(expected_offset, log.log_end_offset)
    active = log.segments[-1]
    if active.size == 0 and active.base_offset == base_offset:
        return active
    assert base_offset > active.base_offset
    try:
        active.become_inactive()
    except OSError as error:
        raise log.fs.failed(log.directory, error) from error
    log.producers.end_offset = base_offset
    log.producers.take_snapshot()
    segment = new_segment(log, base_offset)
    log.set_segments((*log.segments, segment))
    if log.on_roll is not None:
        log.on_roll(log)
    return segment


def remove_segments(log: Log, segments: tuple[LogSegment, ...]) -> None:
    """Rename the files of segments that are no longer in the list, with their snapshots; they are removed
    later.

    In the order given: a power cut may keep the last ones, so that order is such that no gap can come of it.
    """
    paths: list[str] = []
    log.name_changes += 1
    try:
        for segment in segments:
            paths += segment.rename_deleted()
            snapshot = log.producers.remove_snapshot_of(segment.base_offset)
            if snapshot is not None:
                paths.append(snapshot)
    except OSError as error:
        raise log.fs.failed(log.directory, error) from error
    finally:
        remove_files(log, paths)


def remove_files(log: Log, paths: list[str]) -> None:
    if log.schedule_removal is not None:
        log.schedule_removal(paths, log.config.file_delete_delay_ms)
        return
    for path in paths:
        log.fs.remove(path)


# -- truncation ------------------------------------------------------------------------------------


def truncate_to(log: Log, offset: int) -> bool:
    """Remove the records from `offset` on; False if the log ends before."""
    if offset < 0:
        raise ValueError(f"cannot truncate to offset {offset}")
    if offset >= log.log_end_offset:
        # A leader that never appended may have left an epoch that begins at the end.
        log.leader_epochs.truncate_from_end(log.log_end_offset)
        return False
    if log.segments[0].base_offset > offset:
        truncate_fully_and_start_at(log, offset)
        return True
    log.abort_compaction("it is truncated")
    keep = tuple(segment for segment in log.segments if segment.base_offset <= offset)
    gone = log.segments[len(keep) :]
    log.set_segments(keep)
    remove_segments(log, gone[::-1])
    try:
        keep[-1].truncate_to(offset)
    except OSError as error:
        raise log.fs.failed(log.directory, error) from error
    _set_log_end_offset(log, offset)
    log.leader_epochs.truncate_from_end(offset)
    log.log_start_offset = min(log.log_start_offset, offset)
    rebuild_producer_state(log, offset)
    log.update_high_watermark(log.high_watermark)  # it cannot stay above the end, and the replay does not know it
    if log.on_truncate is not None:
        log.on_truncate(log)
    return True


def truncate_fully_and_start_at(log: Log, offset: int) -> None:
    """Remove every record; the log is empty and begins at `offset`."""
    log.abort_compaction("it is truncated")
    gone = log.segments
    remove_segments(log, gone[::-1])
    log.set_segments((new_segment(log, offset),))
    _set_log_end_offset(log, offset)
    log.leader_epochs.clear()
    log.producers.truncate_fully_and_start_at(offset)
    log.log_start_offset = offset
    log.update_high_watermark(offset)
    if log.on_truncate is not None:
        log.on_truncate(log)


def _set_log_end_offset(log: Log, offset: int) -> None:
    log.log_end_offset = offset
    log.truncations += 1
    log.recovery_point = min(log.recovery_point, offset)


# -- retention -------------------------------------------------------------------------------------


def delete_old_segments(log: Log) -> int:
    """Remove whole segments below the log start offset and, with cleanup.policy=delete, by size and age."""
    config = log.config
    deleted = delete_below_start(log)
    if not config.deletes:
        return deleted
    if config.retention_bytes >= 0 and log.size_bytes >= config.retention_bytes:
        excess = log.size_bytes - config.retention_bytes

        def too_much(segment: LogSegment, following: int | None) -> bool:
            nonlocal excess
            if segment.size > excess:
                return False
            excess -= segment.size
            return True

        deleted += _delete_while(log, too_much)
    if config.retention_ms >= 0:
        now_ms = log.now_ms()
        deleted += _delete_while(
            log, lambda segment, following: now_ms - segment.largest_timestamp > config.retention_ms
        )
    return deleted


def delete_below_start(log: Log) -> int:
    """Remove whole segments below the log start offset."""
    return _delete_while(log, lambda segment, following: following is not None and following <= log.log_start_offset)


def _delete_while(log: Log, condition: Callable[[LogSegment, int | None], bool]) -> int:
    """Remove the oldest segments for as long as `condition` (given the next base offset) holds for them.

    Nothing at or above the high watermark goes, nor an empty active segment; if all go a new one is made.
    """
    count = 0
    segments = log.segments
    for number, segment in enumerate(segments):
        following = segments[number + 1].base_offset if number + 1 < len(segments) else None
        end_offset = log.log_end_offset if following is None else following
        if following is None and segment.size == 0:
            break
        if log.high_watermark < end_offset or not condition(segment, following):
            break
        count += 1
    if count == 0:
        return 0
    if count == len(segments):
        roll(log, log.log_end_offset)
    gone, kept = log.segments[:count], log.segments[count:]
    log.set_segments(kept)
    log.increment_log_start_offset(kept[0].base_offset)
    remove_segments(log, gone)
    return count


def move_to(log: Log, directory: Path) -> None:
    """Rename the partition's directory; descriptors are opened anew where they are needed."""
    log.abort_compaction("its directory is renamed")
    try:
        log.fs.rename(str(log.directory), str(directory))
    except OSError as error:
        raise log.fs.failed(log.directory, error) from error
    before, log.directory = log.directory, directory
    for segment in log.segments:
        segment.move_to(str(directory))
    snapshots = log.producers.unsynced_snapshots
    log.producers.unsynced_snapshots = [path.replace(str(before), str(directory), 1) for path in snapshots]
    log.producers.directory = str(directory)
    log.leader_epochs.directory = str(directory)


def take_the_place_of(log: Log, current: Log) -> None:
    """`log` holds all records of `current`, in another log directory: it gets its name, and what it knows beside them.

    Raises LogDirIOError, and nothing has changed then. What cannot be written afterwards is written by the next flush.
    """
    from storage.log.loader import assign_topic_id

    active = log.segments[-1]
    try:
        active.txn_index.write_pending()  # what is only in memory is forgotten with the old paths
        active.offset_index.trim()
        active.time_index.trim()
    except OSError as error:
        raise log.fs.failed(log.directory, error) from error
    log.move_to(log.directory.parent / f"{log.topic}-{log.partition}")
    log.directory_unsynced = True
    with contextlib.suppress(LogDirIOError):
        log.leader_epochs.replace(current.leader_epochs.entries)
        if current.topic_id is not None:
            assign_topic_id(log, current.topic_id)
    log.increment_log_start_offset(log.update_high_watermark(current.log_start_offset))
    log.producers.take_over(current.producers)
    log.update_high_watermark(current.high_watermark)
    with contextlib.suppress(LogDirIOError):
        log.take_producer_snapshot()
    log.is_claimed = current.is_claimed
