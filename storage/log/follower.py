"""Appending as a follower: what the leader wrote, byte for byte.

Offsets and leader epochs are those in the batches; sequences are not checked again, only noted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from protocol.record_batch import BATCH_HEADER_SIZE, LOG_OVERHEAD, RecordBatch, read_batch
from storage.errors import LogClosedError, OffsetsOutOfOrderError, UnexpectedAppendOffsetError
from storage.log import change as log_change
from storage.log.append import LogAppendInfo

if TYPE_CHECKING:
    from storage.log.log import Log


def append(log: Log, records: memoryview) -> LogAppendInfo:
    """Append the whole batches in `records`. Raises what `Log.append_as_follower` raises."""
    batches = whole_batches(records)
    if not batches:
        return LogAppendInfo(-1, -1, -1, -1, log.log_start_offset, 0)
    last_offset = max_timestamp = offset_of_max = -1
    for batch in batches:
        batch.check_crc()
        if batch.last_offset <= last_offset:
            raise OffsetsOutOfOrderError(f"offset {batch.last_offset} follows {last_offset}")
        last_offset = batch.last_offset
        if batch.max_timestamp > max_timestamp:
            max_timestamp, offset_of_max = batch.max_timestamp, last_offset
    first_offset = batches[0].base_offset
    if first_offset < log.log_end_offset:
        raise UnexpectedAppendOffsetError(first_offset, last_offset, log.log_end_offset)
    if log.closed:
        raise LogClosedError(f"{log.topic}-{log.partition} is closed")
    size = batches[-1].position + batches[-1].size_bytes
    segment = log.segment_for(size, first_offset, last_offset, max_timestamp)
    epochs = log.leader_epochs
    for batch in batches:
        if batch.partition_leader_epoch != epochs.latest_epoch and batch.partition_leader_epoch >= 0:
            epochs.assign(batch.partition_leader_epoch, batch.base_offset)
    segment.append(records[:size], size, last_offset, max_timestamp, offset_of_max)
    log.log_end_offset = last_offset + 1
    for batch in batches:
        aborted = log.producers.replay(batch)
        if aborted is not None:
            log.note_aborted(segment, aborted)
    flush_required = log.log_end_offset - log.recovery_point >= log.flush_messages
    return LogAppendInfo(
        first_offset, last_offset, max_timestamp, -1, log.log_start_offset, size, False, flush_required
    )


def skip_to(log: Log, offset: int) -> None:
    """The next record gets `offset`: what would lie between it and the end was compacted away. Raises LogDirIOError."""
    log_change.roll(log, offset)
    log.log_end_offset = log.producers.end_offset = offset


def whole_batches(records: memoryview) -> list[RecordBatch]:
    """The batches in what a leader sent; one that is cut off at the end is left out. Raises
    CorruptRecordError.
    """
    batches = []
    position = 0
    end = len(records)
    while end - position >= BATCH_HEADER_SIZE:
        size = int.from_bytes(records[position + 8 : position + 12], "big", signed=True) + LOG_OVERHEAD
        if position + size > end:
            break
        batch = read_batch(records[: position + max(size, 0)], position)
        batches.append(batch)
        position += size
    return batches
