"""Appending as a follower: the leader's batches, byte for byte.

Offsets and leader epochs are those in the batches. Sequence numbers are recorded without a check.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from operator import attrgetter

from protocol.record_batch import BATCH_HEADER_SIZE, LOG_OVERHEAD, RecordBatch, read_batch
from storage.errors import OffsetsOutOfOrderError, UnexpectedAppendOffsetError
from storage.log.append import LogAppendInfo
from storage.log.flush import Durability
from storage.log.leader_epoch_cache import LeaderEpochCache
from storage.log.offsets import LogOffsets
from storage.log.segments import LogSegments

_MAX_TIMESTAMP = attrgetter("max_timestamp")


@dataclass(slots=True)
class FollowerAppends:
    """Appends a leader's batches to the log of a follower."""

    _segments: LogSegments
    _offsets: LogOffsets
    _leader_epochs: LeaderEpochCache
    _durability: Durability

    def append(self, records: memoryview) -> LogAppendInfo:
        """Append the whole batches in `records`. Raises what `Log.append_as_follower` raises."""
        offsets = self._offsets
        batches = whole_batches(records)
        if not batches:
            return LogAppendInfo(-1, -1, -1, -1, offsets.start, 0)
        last_offset = -1
        for batch in batches:
            batch.check_crc()
            if batch.last_offset <= last_offset:
                raise OffsetsOutOfOrderError(f"offset {batch.last_offset} follows {last_offset}")
            last_offset = batch.last_offset
        first_offset = batches[0].base_offset
        if first_offset < offsets.end:
            raise UnexpectedAppendOffsetError(first_offset, last_offset, offsets.end)
        size = batches[-1].position + batches[-1].size_bytes
        segment_bytes = self._segments.segment_bytes
        if size <= segment_bytes:
            max_timestamp = self._append(records[:size], batches)
        else:
            max_timestamp = max(
                self._append(records[part[0].position : part[-1].position + part[-1].size_bytes], part)
                for part in _parts(batches, segment_bytes)
            )
        flush_required = offsets.end - self._durability.recovery_point >= self._durability.flush_messages
        return LogAppendInfo(first_offset, last_offset, max_timestamp, -1, offsets.start, size, False, flush_required)

    def _append(self, records: memoryview, batches: list[RecordBatch]) -> int:
        """Append these batches, whose bytes are `records`, to one segment; return their largest timestamp."""
        newest = batches[0] if len(batches) == 1 else max(batches, key=_MAX_TIMESTAMP)
        size, last_offset, max_timestamp = len(records), batches[-1].last_offset, newest.max_timestamp
        segment = self._segments.for_append(size, batches[0].base_offset, last_offset, max_timestamp)
        epochs = self._leader_epochs
        if epochs.unwritten:
            epochs.write_if_room()
        for batch in batches:
            if batch.partition_leader_epoch != epochs.latest_epoch and batch.partition_leader_epoch >= 0:
                epochs.assign(batch.partition_leader_epoch, batch.base_offset)
        segment.append(records, size, last_offset, max_timestamp, newest.last_offset)
        self._offsets.end = last_offset + 1
        for batch in batches:
            aborted = self._segments.files.producers.replay(batch)
            if aborted is not None:
                self._segments.add_aborted(segment, aborted)
        return max_timestamp


def _parts(batches: list[RecordBatch], segment_bytes: int) -> Iterator[list[RecordBatch]]:
    """The batches in parts that fit into a segment: segment.bytes may have been larger when the leader wrote them.

    A batch that is larger than segment.bytes is a part of its own.
    """
    part: list[RecordBatch] = []
    size = 0
    for batch in batches:
        if part and size + batch.size_bytes > segment_bytes:
            yield part
            part, size = [], 0
        part.append(batch)
        size += batch.size_bytes
    yield part


def whole_batches(records: memoryview) -> list[RecordBatch]:
    """The batches in a leader's response; one that is cut off at the end is left out. Raises CorruptRecordError."""
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
