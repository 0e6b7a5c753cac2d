"""Replaying batches: the state of the producers at an offset, from a snapshot and the batches that follow it."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Final

from protocol.errors import CorruptRecordError
from protocol.record_batch import RecordBatch
from storage.log.batch_scan import BatchHeader, iter_headers
from storage.log.segment import LogSegment
from storage.log.segments import LogSegments
from storage.producers.entry import BatchMetadata, ProducerEntry
from storage.producers.state import ProducerState, ReplayedProducers

RECALLED_ENTRIES: Final = 128
"""Entries of an offset index; each stands for index.interval.bytes of small batches, or for one larger batch."""
_SEQUENCE_MASK = 0x7FFFFFFF
_TRANSACTIONAL = 0x10
_CONTROL = 0x20


def replay(segment: LogSegment, state: ProducerState, end_offset: int) -> None:
    """Apply the batches of a segment to `state`, from the state's end offset up to `end_offset`.

    Only headers and control batches are read. Raises OSError, CorruptRecordError.
    """
    found = segment.translate(state.end_offset) if state.end_offset > segment.base_offset else (0, 0)
    if found is None:
        return
    for header in iter_headers(segment.file, found[0], segment.size):
        if header.base_offset >= end_offset:
            break
        if header.producer_id >= 0:
            if header.attributes & _CONTROL:
                data = segment.fs.pread(segment.file.open().fd, header.size, header.position)
                state.replay(RecordBatch(memoryview(data)))
            else:
                state.add_batch(
                    header.producer_id,
                    header.producer_epoch,
                    _metadata(header),
                    header.attributes & _TRANSACTIONAL != 0,
                    header.base_offset,
                )


def earlier_batches(segments: LogSegments, entry: ProducerEntry) -> list[BatchMetadata]:
    """Return batches of a producer's epoch before those that its entry has, oldest first: see `ProducerEntry.recall`.

    A client repeats what it had in flight, which is near: only the headers behind the last RECALLED_ENTRIES index
    entries are read, of two segments. Raises OSError.
    """
    end_offset = entry.batches[0].first_offset
    wanted = entry.producer_id, entry.producer_epoch
    found = []
    number = segments.number_of(end_offset)
    with contextlib.suppress(CorruptRecordError):  # what is behind it is not found
        for segment in segments[max(number - 1, 0) : number + 1]:
            position = segment.offset_index.position_before(end_offset, RECALLED_ENTRIES)
            for header in iter_headers(segment.file, position, segment.size):
                if header.base_offset >= end_offset:
                    break
                if (header.producer_id, header.producer_epoch) == wanted and not header.attributes & _CONTROL:
                    found.append(_metadata(header))
    return found


def _metadata(header: BatchHeader) -> BatchMetadata:
    last_sequence = (header.base_sequence + header.last_offset_delta) & _SEQUENCE_MASK
    return BatchMetadata(last_sequence, header.last_offset, header.last_offset_delta, header.max_timestamp)


def rebuild_producers(
    state: ProducerState, segments: Sequence[LogSegment], log_start_offset: int, end_offset: int, now_ms: int
) -> None:
    """Bring a log's producers to what they were at `end_offset`: newest snapshot, then the batches that follow it.

    Snapshots are written for the last two segments and at the end, so that the next start has nothing to replay. Raises
    OSError, CorruptRecordError, LogDirIOError.
    """
    state.truncate_and_reload(log_start_offset, end_offset, now_ms)
    if end_offset > state.end_offset:
        snapshot_at = {segment.base_offset for segment in segments[-2:]}
        for number, segment in enumerate(segments):
            following = segments[number + 1].base_offset if number + 1 < len(segments) else end_offset
            if following <= state.end_offset or segment.base_offset >= end_offset:
                continue
            state.end_offset = max(segment.base_offset, state.end_offset, log_start_offset)
            if segment.base_offset in snapshot_at and state.end_offset == segment.base_offset:
                state.take_snapshot_if_room()
            replay(segment, state, end_offset)
    state.end_offset = end_offset
    state.take_snapshot_if_room()


class ProducerReplay:
    """The replay for a truncation of a log to `end_offset`. Only `run` may be called in another thread.

    It reads headers from the newest snapshot on, 1 MiB at a time, and holds the state of the producers in memory. A
    replay is outdated if the files of the log have changed meanwhile.
    """

    def __init__(self, segments: LogSegments, log_start_offset: int, end_offset: int, now_ms: int) -> None:
        self._all = segments
        self._changes = segments.changes
        self._fs = segments.active.fs.for_one_thread()
        self._active = segments.active.view(self._fs)
        self._closed = segments.all[:-1]
        self._now_ms = now_ms
        self.end_offset = end_offset
        self.producers = ReplayedProducers(segments.files.producers, self._fs, log_start_offset)

    def run(self) -> None:
        """Replay. Raises OSError, CorruptRecordError."""
        views = [*(segment.view(self._fs) for segment in self._closed), self._active]
        kept = [view for view in views if view.base_offset <= self.end_offset]
        try:
            rebuild_producers(self.producers, kept, self.producers.log_start_offset, self.end_offset, self._now_ms)
        finally:
            for view in views:
                view.release()

    @property
    def is_outdated(self) -> bool:
        """Whether the files of the log have changed since, so that the result means nothing."""
        return self._all.changes != self._changes
