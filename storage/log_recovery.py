"""Recovery of a log that was not stopped cleanly, and the replay of batches into what is known of producers.

Segments from the recovery point on are read whole: every batch's checksum is checked, the indexes are built
again, and the log ends before the first batch that is not whole. What lies below the recovery point was synced
and is not read. A segment whose index is missing or cannot be is read, too, wherever it is.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from protocol.errors import CorruptRecordError, InvalidRecordError
from protocol.record_batch import RecordBatch
from storage.batch_scan import iter_headers, iter_valid_batches
from storage.log_segment import MAX_RELATIVE_OFFSET, LogSegment
from storage.producer_entry import BatchMetadata
from storage.producer_state import ProducerState

if TYPE_CHECKING:
    from storage.log import Log

logger = logging.getLogger(__name__)

_SEQUENCE_MASK = 0x7FFFFFFF


def recover(log: Log, segments: list[LogSegment], recovery_point: int | None, damaged: set[int]) -> list[LogSegment]:
    """Recover the segments from `recovery_point` on (None: none) and those with damaged indexes.

    Returns the segments that remain: behind one that had to be cut nothing does.
    """
    from storage import log_change

    recovered = 0
    cut = 0
    state: ProducerState | None = None
    for number, segment in enumerate(segments):
        following = segments[number + 1].base_offset if number + 1 < len(segments) else None
        suspect = recovery_point is not None and (following is None or following > recovery_point)
        if not suspect and segment.base_offset not in damaged:
            state = None
            continue
        if state is None:
            state = _state_before(log, segments[:number], segment.base_offset)
        removed = recover_segment(log, segment, state)
        recovered += 1
        cut += removed
        if removed and suspect:
            rest = segments[number + 1 :]
            if rest:
                logger.warning("%s: %d segments behind the cut are removed", log.directory, len(rest))
                log_change.remove_segments(log, tuple(rest))
            segments = segments[: number + 1]
            break
    if recovered:
        logger.info(
            "%s: recovered %d of %d segments, cut %d bytes, log ends at offset %d",
            log.directory, recovered, len(segments), cut, segments[-1].next_offset(),
        )  # fmt: skip
    return segments


def _state_before(log: Log, before: list[LogSegment], base_offset: int) -> ProducerState:
    """What was known of the producers at `base_offset`: from a snapshot and what follows it in earlier
    segments.
    """
    state = ProducerState(log.fs, str(log.directory), log.producers.expiration_ms)
    state.list_snapshots()
    state.end_offset = -1
    state.truncate_and_reload(log.log_start_offset, base_offset, log.now_ms())
    for number, segment in enumerate(before):
        following = before[number + 1].base_offset if number + 1 < len(before) else base_offset
        if following > state.end_offset:
            _replay(segment, state, base_offset)
    return state


def recover_segment(log: Log, segment: LogSegment, state: ProducerState) -> int:
    """Read every batch, build the indexes again, cut what is not whole; how many bytes were cut.

    `state` is that of the producers before the segment and is moved on to its end.
    """
    segment.create_indexes()
    txn_index = segment.txn_index
    valid = 0
    last_entry = 0
    last_offset = segment.base_offset - 1
    try:
        for header, data in iter_valid_batches(segment.file, segment.size):
            if not last_offset < header.last_offset <= segment.base_offset + MAX_RELATIVE_OFFSET:
                raise CorruptRecordError(header.position, f"offset {header.last_offset} follows {last_offset}")
            aborted = None
            if header.magic == 2:
                # The marker in a control batch is read before the batch counts as valid.
                aborted = state.replay(RecordBatch(data))
                if header.leader_epoch > log.leader_epochs.latest_epoch:
                    log.leader_epochs.assign(header.leader_epoch, header.base_offset)
            last_offset = header.last_offset
            if header.max_timestamp > segment.max_timestamp:
                segment.max_timestamp, segment.offset_of_max_timestamp = header.max_timestamp, last_offset
            if valid - last_entry > segment.index_interval_bytes:
                segment.offset_index.append(last_offset, valid)
                segment.time_index.maybe_append(segment.max_timestamp, segment.offset_of_max_timestamp)
                last_entry = valid
            if aborted is not None:
                txn_index.append(aborted)
            valid += header.size
    except (CorruptRecordError, InvalidRecordError) as error:
        logger.warning("%s: the log ends at byte %d: %s", segment.file.path, valid, error)
    removed = segment.size - valid
    if removed:
        segment.fs.ftruncate(segment.file.open().fd, valid)
        segment.size = valid
    segment.bytes_since_index_entry = 0
    segment.time_index.maybe_append(segment.max_timestamp, segment.offset_of_max_timestamp)
    segment.seal()
    return removed


def _replay(segment: LogSegment, state: ProducerState, end_offset: int) -> None:
    """Take the batches of a segment from the state's end offset up to `end_offset` into account, by their
    headers.
    """
    found = segment.translate(state.end_offset) if state.end_offset > segment.base_offset else (0, 0)
    if found is None:
        return
    for header in iter_headers(segment.file, found[0], segment.size):
        if header.base_offset >= end_offset:
            break
        if header.producer_id >= 0:
            if header.attributes & 0x20:
                data = segment.fs.pread(segment.file.open().fd, header.size, header.position)
                state.replay(RecordBatch(memoryview(data)))
            else:
                last_sequence = (header.base_sequence + header.last_offset_delta) & _SEQUENCE_MASK
                metadata = BatchMetadata(
                    last_sequence, header.last_offset, header.last_offset_delta, header.max_timestamp
                )
                state.add_batch(
                    header.producer_id,
                    header.producer_epoch,
                    metadata,
                    header.attributes & 0x10 != 0,
                    header.base_offset,
                )
        state.end_offset = header.last_offset + 1


def rebuild_producer_state(log: Log, end_offset: int) -> None:
    """Bring the producers to what they were at `end_offset`: newest snapshot, then what follows it in the
    log.

    Snapshots are written on the way at the last two segments, and at the end: the next start needs no replay.
    """
    state = log.producers
    state.truncate_and_reload(log.log_start_offset, end_offset, log.now_ms())
    if end_offset > state.end_offset:
        segments = log.segments
        snapshot_at = {segment.base_offset for segment in segments[-2:]}
        for number, segment in enumerate(segments):
            following = segments[number + 1].base_offset if number + 1 < len(segments) else end_offset
            if following <= state.end_offset or segment.base_offset >= end_offset:
                continue
            state.end_offset = max(segment.base_offset, state.end_offset, log.log_start_offset)
            if segment.base_offset in snapshot_at and state.end_offset == segment.base_offset:
                state.take_snapshot()
            _replay(segment, state, end_offset)
    state.end_offset = end_offset
    state.take_snapshot()


def rebuild_leader_epochs(log: Log) -> None:
    """Read the epochs in every batch of the log: the file that should say so is unreadable."""
    log.leader_epochs.clear()
    for segment in log.segments:
        for header in iter_headers(segment.file, 0, segment.size):
            if header.leader_epoch > log.leader_epochs.latest_epoch:
                log.leader_epochs.assign(header.leader_epoch, header.base_offset)
