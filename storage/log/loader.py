"""Loading a log: which files there are, what a crash left behind, and the state that the files do not hold.

After a clean stop the segments are taken as they are: nothing is read but sizes, the end of the last segment
and the newest producer snapshot. After any other stop the segments from the recovery point on are read, cut
at the first batch that is not whole, and their indexes built again; what lies below the recovery point was
synced and is not read.

Leftovers: `.deleted` and `.cleaned` files go; a `.swap` file is a finished compaction of which only the last
step is missing: it replaces the segments that it covers, unless a `.cleaned` file below shows that it was not
finished.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from protocol.errors import CorruptRecordError
from storage.errors import (
    CorruptFileError,
    InconsistentTopicIdError,
    InvalidLogDirectoryNameError,
    LogDirIOError,
)
from storage.index.offset_index import OffsetIndex
from storage.index.time_index import TimeIndex
from storage.log import partition_metadata
from storage.log import recovery as log_recovery
from storage.log.batch_scan import iter_headers
from storage.log.segment import (
    DELETED_SUFFIX,
    INDEX_SUFFIX,
    LOG_SUFFIX,
    SEGMENT_SUFFIXES,
    TIME_INDEX_SUFFIX,
    LogSegment,
)

if TYPE_CHECKING:
    from storage.log.log import Log

logger = logging.getLogger(__name__)

CLEANED_SUFFIX = ".cleaned"
SWAP_SUFFIX = ".swap"
DELETE_DIRECTORY_SUFFIX = "-delete"
FUTURE_DIRECTORY_SUFFIX = "-future"
STRAY_DIRECTORY_SUFFIX = "-stray"

_SEGMENT_FILE = re.compile(r"(\d{20})(\.[a-z]+)(\.[a-z]+)?")
_DELETE_DIRECTORY = re.compile(r"(\S+)-(\S+)\.(\S+)-(?:delete|future|stray)")


def parse_directory_name(name: str) -> tuple[str, int]:
    """(topic, partition) of `<topic>-<partition>` or `<topic>-<partition>.<id>-delete`.

    Raises InvalidLogDirectoryNameError.
    """
    match = _DELETE_DIRECTORY.fullmatch(name)
    topic, dash, partition = (name.rpartition(".")[0] if match else name).rpartition("-")
    if not dash or not topic or not partition.isascii() or not partition.isdigit():
        raise InvalidLogDirectoryNameError(name)
    return topic, int(partition)


def load(
    log: Log,
    recovery_point: int | None,
    log_start_offset: int,
    *,
    clean_shutdown: bool,
    topic_id: bytes | None,
    reading: Callable[[int], None],
) -> None:
    """Fill a `Log` from its directory. Raises what `Log.open` raises."""
    try:
        try:
            _load(log, recovery_point, log_start_offset, clean_shutdown, topic_id, reading)
        except BaseException:
            for segment in log.segments:
                segment.release()
            raise
    except CorruptRecordError as error:  # below the recovery point: what was synced is not as it was
        raise CorruptFileError(log.directory, str(error)) from error
    except OSError as error:
        raise LogDirIOError(log.directory, error) from error


def _load(
    log: Log,
    recovery_point: int | None,
    log_start_offset: int,
    clean_shutdown: bool,
    topic_id: bytes | None,
    reading: Callable[[int], None],
) -> None:
    from storage.log import change as log_change

    directory = str(log.directory)
    log.directory_unsynced = log.fs.make_directory(directory)
    log.log_start_offset = log_start_offset
    _load_topic_id(log, topic_id)
    epochs_lost = _load_leader_epochs(log)
    files = _finish_interrupted_work(log)
    log.producers.list_snapshots()
    segments = _open_segments(log, files)
    log.segments = tuple(segments)  # until it is known which of them remain
    damaged = {segment.base_offset for segment in segments if not _indexes_fit(segment)}
    if segments and segments[-1].base_offset not in damaged and not _ends_fit(segments[-1]):
        logger.warning("%s: the indexes at %d are garbage", directory, segments[-1].base_offset)
        damaged.add(segments[-1].base_offset)
    recovery = log_recovery.Recovery(log, segments, damaged, reading)
    recovery.run(recovery_point, clean_shutdown=clean_shutdown)
    segments = recovery.segments
    if segments:
        end_offset = segments[-1].next_offset()
        if end_offset < log_start_offset:
            logger.warning(
                "%s: log end offset %d is below log start offset %d: all segments are removed",
                directory, end_offset, log_start_offset,
            )  # fmt: skip
            log_change.remove_segments(log, tuple(segments[::-1]))
            log.leader_epochs.clear()
            segments = []
    if not segments:
        segments = [log_change.new_segment(log, log_start_offset)]
        end_offset = log_start_offset
    log.set_segments(tuple(segments))
    log.log_end_offset = end_offset
    log.recovery_point = end_offset if clean_shutdown else min(recovery_point or 0, end_offset)
    if epochs_lost:
        log_recovery.rebuild_leader_epochs(log)
    log.leader_epochs.truncate_from_end(end_offset)
    log.log_start_offset = max(log_start_offset, segments[0].base_offset)
    log.leader_epochs.truncate_from_start(log_start_offset)
    if not clean_shutdown:
        log_recovery.complete_leader_epochs(log)
    log.producers.list_snapshots()
    log.producers.remove_stray_snapshots({segment.base_offset for segment in segments})
    log.producers.end_offset = -1  # nothing loaded yet
    log_recovery.rebuild_producer_state(log, end_offset)
    log.update_high_watermark(log.log_start_offset)


def _load_topic_id(log: Log, topic_id: bytes | None) -> None:
    stored = partition_metadata.read_topic_id(log.fs, str(log.directory))
    if stored is not None and topic_id is not None and stored != topic_id:
        raise InconsistentTopicIdError(
            f"{log.directory} belongs to topic id {stored.hex()}, not to {topic_id.hex()} of the same name"
        )
    log.topic_id = stored or topic_id
    if stored is None and topic_id is not None:
        partition_metadata.write_topic_id(log.fs, str(log.directory), topic_id)
        log.directory_unsynced = True


def assign_topic_id(log: Log, topic_id: bytes) -> None:
    """Give a log without topic id its id. Raises InconsistentTopicIdError if it has another one."""
    if log.topic_id != topic_id:
        _load_topic_id(log, topic_id)


def _load_leader_epochs(log: Log) -> bool:
    """True if the file is unreadable and must be rebuilt."""
    try:
        log.leader_epochs.load()
    except CorruptFileError as error:
        logger.warning("%s: leader epochs are read from the log again", error)
        return True
    return False


# -- files -----------------------------------------------------------------------------------------


def _finish_interrupted_work(log: Log) -> dict[int, set[str]]:
    """Remove leftovers and finish swaps; base offset → suffixes of the segment files that are there then."""
    names = _segment_files(log)
    cleaned = [base for base, suffix in names if suffix.endswith(CLEANED_SUFFIX)]
    first_cleaned = min(cleaned, default=None)
    swaps = []
    for base, suffix in names:
        if suffix.endswith((DELETED_SUFFIX, CLEANED_SUFFIX, ".tmp")):
            _remove(log, base, suffix)
        elif suffix.endswith(SWAP_SUFFIX):
            if first_cleaned is not None and base >= first_cleaned:
                _remove(log, base, suffix)
            else:
                swaps.append((base, suffix))
    if swaps:
        _finish_swap(log, swaps)
    files: dict[int, set[str]] = {}
    for base, suffix in _segment_files(log):
        if suffix in SEGMENT_SUFFIXES:
            files.setdefault(base, set()).add(suffix)
    return files


def _segment_files(log: Log) -> list[tuple[int, str]]:
    """(base offset, suffixes) of every file that is named as a segment's is."""
    found = []
    for entry in log.fs.list_directory(str(log.directory)):
        match = _SEGMENT_FILE.fullmatch(entry.name)
        if match:
            found.append((int(match[1]), match[2] + (match[3] or "")))
        elif entry.name.endswith((DELETED_SUFFIX, ".tmp")):
            log.fs.remove(entry.path)
    return sorted(found)


def _remove(log: Log, base: int, suffix: str) -> None:
    log.fs.remove(f"{log.directory}/{base:020d}{suffix}")


def _finish_swap(log: Log, swaps: list[tuple[int, str]]) -> None:
    """Put finished compacted segments in the place of those that they cover.

    As long as a `.log.swap` is there, this can begin anew after a crash; so it loses its suffix first, when the old
    segments are gone: the indexes beside it are then taken as they are.
    """
    first, end = None, 0
    replaced = set()
    for base, suffix in swaps:
        if suffix == LOG_SUFFIX + SWAP_SUFFIX:
            segment = _segment(log, base, SWAP_SUFFIX)
            last = base - 1
            for header in iter_headers(segment.file, 0, segment.size):
                last = header.last_offset
            segment.release()
            replaced.add(base)
            first = base if first is None else min(first, base)
            end = max(end, last + 1)
    for base, suffix in _segment_files(log):
        if suffix in SEGMENT_SUFFIXES and first is not None and (first <= base < end or base in replaced):
            _remove(log, base, suffix)
    for base, suffix in sorted(swaps, key=lambda swap: (swap[0], swap[1] != LOG_SUFFIX + SWAP_SUFFIX)):
        path = f"{log.directory}/{base:020d}{suffix}"
        log.fs.rename(path, path.removesuffix(SWAP_SUFFIX))
    logger.info("%s: finished the replacement of segments [%s, %d)", log.directory, first, end)


def _segment(log: Log, base_offset: int, suffix: str = "") -> LogSegment:
    config = log.config
    return LogSegment(
        log.fs,
        str(log.directory),
        base_offset,
        index_interval_bytes=config.index_interval_bytes,
        max_index_bytes=config.segment_index_bytes,
        now_ms=log.now_ms(),
        roll_jitter_ms=config.roll_jitter_ms(log.random),
        suffix=suffix,
    )


def _open_segments(log: Log, files: dict[int, set[str]]) -> list[LogSegment]:
    """The segments of the files, ascending; index files without a log are removed."""
    segments = []
    for base, suffixes in sorted(files.items()):
        if LOG_SUFFIX not in suffixes:
            logger.warning("%s: index files at %d have no log and are removed", log.directory, base)
            for suffix in suffixes:
                _remove(log, base, suffix)
            continue
        segments.append(_segment(log, base))
    return segments


def _indexes_fit(segment: LogSegment) -> bool:
    """Whether both indexes exist and are whole entries long, and the transaction index can be read."""
    for suffix, width in ((INDEX_SUFFIX, OffsetIndex.ENTRY.size), (TIME_INDEX_SUFFIX, TimeIndex.ENTRY.size)):
        try:
            if segment.fs.size(segment.path(suffix)) % width:
                return False
        except FileNotFoundError:
            return False
    try:
        _ = segment.txn_index
    except CorruptFileError:
        return False
    return True


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
