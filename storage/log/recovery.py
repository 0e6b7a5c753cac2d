"""Recovery of a log that was not stopped cleanly, and the replay of batches into what is known of producers.

Segments from the recovery point on are read whole: every batch's checksum is checked, the indexes are built
again, and the log ends before the first batch that is not whole. What lies below the recovery point was synced
and is not read. A segment whose index is missing or cannot be is read, too, wherever it is.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from protocol.record_batch import RecordBatch
from storage.log.batch_scan import iter_headers
from storage.log.leader_epoch_cache import UNDEFINED_EPOCH
from storage.log.segment import LogSegment
from storage.log.segment_recovery import SegmentRecovery
from storage.producers.entry import BatchMetadata
from storage.producers.state import ProducerState

if TYPE_CHECKING:
    from storage.log.log import Log

logger = logging.getLogger(__name__)

_SEQUENCE_MASK = 0x7FFFFFFF


class Recovery:
    """The recovery of one log: which segments remain is in `segments` when `run` is done."""

    def __init__(self, log: Log, segments: list[LogSegment], damaged: set[int], reading: Callable[[int], None]) -> None:
        """damaged: base offsets of segments whose indexes are of no use. reading: called with sizes of what is read."""
        self._reading = reading
        self.segments = segments
        self._log = log
        self._damaged = damaged
        self._state: ProducerState | None = None  # of the producers, at the end of the segment before
        self._snapshots: set[int] = set()  # offsets of snapshots to write again
        self._end_offset = 0  # of the segment that was recovered last
        self._recovered = 0
        self._bytes_read = 0
        self._bytes_cut = 0

    def run(self, recovery_point: int | None, *, clean_shutdown: bool) -> None:
        """Recover the segments from the recovery point on (not after a clean stop), and those that are damaged.

        recovery_point: None where it is not known: everything is read then. Raises OSError.
        """
        log = self._log
        first = None if clean_shutdown else self._first_suspect(recovery_point or 0)
        for number in self._damaged_below(first):
            self._recover(number)
            self._sync(number)  # no flush will: it lies below the recovery point
        if first is not None:
            trusted = max(recovery_point or 0, self.segments[0].base_offset)
            self._snapshots = log.producers.remove_snapshots_above(trusted)
            self._recover_from(first, may_have_gaps=recovery_point is None or log.config.compacts)
            if self._end_offset <= (recovery_point or 0):
                self._sync(len(self.segments) - 1)  # the next start will not look at it when it has been rolled
        if self._recovered:
            log.name_changes += 1
            end_offset = self.segments[-1].next_offset() if first is None else self._end_offset
            logger.info(
                "%s: recovered %d of %d segments (%d bytes), cut %d bytes, log ends at offset %d",
                log.directory, self._recovered, len(self.segments), self._bytes_read, self._bytes_cut, end_offset,
            )  # fmt: skip

    def _first_suspect(self, recovery_point: int) -> int | None:
        """Number of the first segment with offsets from the recovery point on; the last one always may have some."""
        for number, following in enumerate(self.segments[1:]):
            if following.base_offset > recovery_point:
                return number
        return len(self.segments) - 1 if self.segments else None

    def _damaged_below(self, first: int | None) -> list[int]:
        below = enumerate(self.segments[:first])
        return [number for number, segment in below if segment.base_offset in self._damaged]

    def _recover_from(self, first: int, *, may_have_gaps: bool) -> None:
        """Recover segment after segment, to the first that is cut or does not follow the one before.

        One that begins below the end of the one before is of before a truncation. One that begins above it tells that
        the one before has lost its end, of which nobody would ever know, replicas least of all; unless the log has been
        compacted: then there are gaps. Kafka leaves gaps as they are.
        """
        number = first
        while number < len(self.segments):
            removed = self._recover(number)
            if removed:
                self._drop_behind(number, "the cut")
            elif number + 1 < len(self.segments):
                end, following = self._end_offset, self.segments[number + 1].base_offset
                if following < end:
                    self._drop_behind(number, f"offset {end}, where another one begins at {following},")
                elif following > end and not may_have_gaps:
                    self._drop_behind(number, f"the gap [{end}, {following})")
            self._note_producers(number)
            number += 1

    def _recover(self, number: int) -> int:
        segment = self.segments[number]
        if self._state is None or self._state.end_offset != segment.base_offset:
            self._state = _state_before(self._log, self.segments[:number], segment.base_offset)
        recovery = SegmentRecovery(self._log, segment, self._state, self._on_read)
        removed = recovery.run()
        self._end_offset = recovery.end_offset
        self._recovered += 1
        self._bytes_cut += removed
        return removed

    def _note_producers(self, number: int) -> None:
        """Snapshots where there were some, at the last two segments, and at the end: no start reads for them again."""
        state = self._state
        assert state is not None
        following = number + 1
        if following < len(self.segments):
            state.end_offset = self.segments[following].base_offset
        if following >= len(self.segments) - 2 or state.end_offset in self._snapshots:
            state.take_snapshot()
        self._log.producers.unsynced_snapshots += state.unsynced_snapshots
        state.unsynced_snapshots = []

    def _on_read(self, size: int) -> None:
        self._reading(size)
        self._bytes_read += size

    def _drop_behind(self, number: int, reason: str) -> None:
        """The log ends with this segment. Durably, lest what is dropped comes back behind what is appended now."""
        from storage.log import change as log_change

        log = self._log
        rest = self.segments[number + 1 :]
        self.segments = self.segments[: number + 1]
        if rest:
            logger.warning("%s: %d segments behind %s are removed", log.directory, len(rest), reason)
            log_change.remove_segments(log, tuple(rest[::-1]))
        self._sync(number)
        log.fs.sync_directory(str(log.directory))

    def _sync(self, number: int) -> None:
        for file in self.segments[number].files_to_sync():
            self._log.fs.fsync(file.fd)


def _state_before(log: Log, before: list[LogSegment], base_offset: int) -> ProducerState:
    """What was known of the producers at `base_offset`: from a snapshot and what follows it in earlier
    segments.
    """
    state = ProducerState(log.fs, str(log.directory), log.producers.expiration_ms)
    state.snapshots = [offset for offset in log.producers.snapshots if log.log_start_offset < offset <= base_offset]
    state.end_offset = -1
    state.truncate_and_reload(log.log_start_offset, base_offset, log.now_ms())
    for number, segment in enumerate(before):
        following = before[number + 1].base_offset if number + 1 < len(before) else base_offset
        if following > state.end_offset:
            _replay(segment, state, base_offset)
    state.end_offset = max(state.end_offset, base_offset)
    return state


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


def _segments_in_use(log: Log) -> list[LogSegment]:
    """Those that have offsets from the log start on. What is below was given up, and perhaps never synced."""
    following = [*log.base_offsets[1:], None]
    return [
        segment
        for segment, end in zip(log.segments, following, strict=True)
        if end is None or end > log.log_start_offset
    ]


def rebuild_leader_epochs(log: Log) -> None:
    """Read the epochs in every batch of the log: the file that should say so is unreadable.

    Written at once when all are known: half of them would be taken for the whole after a power cut.
    """
    found: list[tuple[int, int]] = []
    for segment in _segments_in_use(log):
        for header in iter_headers(segment.file, 0, segment.size):
            if header.leader_epoch > (found[-1][0] if found else UNDEFINED_EPOCH):
                found.append((header.leader_epoch, header.base_offset))
    log.leader_epochs.replace(found)


def complete_leader_epochs(log: Log) -> None:
    """Read the epochs of the log's first batches where the file begins behind them.

    Records were given up, the file said so, and a power cut has brought them back.
    """
    known = log.leader_epochs.entries
    first_known = known[0][1] if known else log.log_end_offset
    found: list[tuple[int, int]] = []
    for segment in _segments_in_use(log):
        if segment.base_offset >= first_known:
            break
        position = segment.translate(log.log_start_offset) if segment.base_offset < log.log_start_offset else (0, 0)
        for header in iter_headers(segment.file, position[0] if position else segment.size, segment.size):
            if header.base_offset >= first_known:
                break
            if header.leader_epoch > (found[-1][0] if found else UNDEFINED_EPOCH):
                found.append((header.leader_epoch, max(header.base_offset, log.log_start_offset)))
    log.leader_epochs.put_before(found)
