"""Recovery of one segment: check every batch, rebuild the indexes, and cut the file before the first invalid batch.

A log may have millions of small batches. So batches of format 2 have a fast loop: it reads large chunks, unpacks each
header once, parses a batch only if it has a producer id, and writes many index entries at a time. Other batches
(older formats, or not complete in one read) take the general path.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator

from crc32c import crc32c

from protocol.errors import CorruptRecordError, InvalidRecordError
from protocol.record import NO_TIMESTAMP
from protocol.record_batch import BATCH_HEADER_SIZE, HEADER, LOG_OVERHEAD, RecordBatch
from storage.log.batch_scan import BatchHeader, iter_valid_batches
from storage.log.leader_epoch_cache import LeaderEpochCache
from storage.log.segment import MAX_RELATIVE_OFFSET, LogSegment
from storage.producers.state import ProducerState

logger = logging.getLogger(__name__)

_CHUNK_BYTES = 2 << 20
_ENTRIES_AT_A_TIME = 4096
_NOT_SETTLED = -2


class SegmentRecovery:
    """The recovery of one segment. `state` has the producers before the segment; `run` advances it to the end."""

    def __init__(
        self,
        leader_epochs: LeaderEpochCache,
        segment: LogSegment,
        state: ProducerState,
        on_read: Callable[[int], None],
    ) -> None:
        """on_read: called with the size of each read before it; what it raises ends the recovery."""
        self._leader_epochs = leader_epochs
        self._segment = segment
        self._state = state
        self._on_read = on_read
        self._position = 0  # below it all batches are valid
        self._last_offset = segment.base_offset - 1
        self._settled_epoch = _NOT_SETTLED  # an epoch that agrees with the epoch file from here on
        self._last_entry = 0  # position
        self._last_timestamp = NO_TIMESTAMP  # in the time index
        self._offset_entries: list[tuple[int, int]] = []
        self._time_entries: list[tuple[int, int]] = []

    @property
    def end_offset(self) -> int:
        """The offset behind the last valid batch."""
        return self._last_offset + 1

    def run(self) -> int:
        """Recover the segment; returns how many bytes were cut. Raises OSError."""
        segment = self._segment
        segment.create_indexes()
        try:
            while self._position < segment.size:
                self._read_on()
        except (CorruptRecordError, InvalidRecordError) as error:
            logger.warning("%s: the log ends at byte %d: %s", segment.file.path, self._position, error)
        self._write_entries()
        removed = segment.size - self._position
        if removed:
            segment.fs.ftruncate(segment.file.open().fd, self._position)
            segment.size = self._position
        segment.bytes_since_index_entry = 0
        with self._unless_disk_is_full():
            segment.seal()
        return removed

    def _read_on(self) -> None:
        segment = self._segment
        size = min(_CHUNK_BYTES, segment.size - self._position)
        self._on_read(size)
        chunk = memoryview(segment.fs.pread(segment.file.open().fd, size, self._position))
        if self._take_batches(chunk):
            return
        for header, data in iter_valid_batches(segment.file, segment.size, self._position, on_read=self._on_read):
            self._take(header, data)
            if header.magic == 2:
                break

    def _take_batches(self, chunk: memoryview) -> bool:
        """Recover the whole batches of format 2 at the start of `chunk`. False if there is none."""
        segment, state = self._segment, self._state
        unpack = HEADER.unpack_from
        interval = segment.index_interval_bytes
        largest_offset = segment.base_offset + MAX_RELATIVE_OFFSET
        start = self._position
        last_offset, last_entry = self._last_offset, self._last_entry
        at, end = 0, len(chunk)
        try:
            while end - at >= BATCH_HEADER_SIZE:
                base, length, epoch, magic, crc, _, delta, _, timestamp, producer_id, _, _, _ = unpack(chunk, at)
                behind = at + LOG_OVERHEAD + length
                if magic != 2 or behind > end or length < BATCH_HEADER_SIZE - LOG_OVERHEAD:
                    break
                if crc32c(chunk[at + 21 : behind]) != crc:
                    raise CorruptRecordError(start + at, f"stored crc {crc} does not match the batch")
                offset = base + delta
                if not last_offset < offset <= largest_offset:
                    raise CorruptRecordError(start + at, f"offset {offset} follows {last_offset}")
                if producer_id >= 0:
                    # A control batch counts as valid only if its marker can be read.
                    aborted = state.replay(RecordBatch(chunk[at:behind]))
                    if aborted is not None:
                        segment.txn_index.append(aborted)
                if epoch != self._settled_epoch:
                    self._settle_epoch(epoch, base, offset)
                last_offset = offset
                if timestamp > segment.max_timestamp:
                    segment.max_timestamp, segment.offset_of_max_timestamp = timestamp, offset
                if start + at - last_entry > interval:
                    last_entry = start + at
                    self._add_entries(offset, last_entry)
                at = behind
        finally:
            self._position = start + at
            self._last_offset, self._last_entry = last_offset, last_entry
            state.end_offset = max(state.end_offset, last_offset + 1)
        return at > 0

    def _settle_epoch(self, epoch: int, first_offset: int, last_offset: int) -> None:
        if epoch >= 0:
            epochs = self._leader_epochs
            epochs.correct(epoch, first_offset, last_offset)
            self._settled_epoch = epoch if epoch == epochs.latest_epoch else _NOT_SETTLED

    def _take(self, header: BatchHeader, data: memoryview) -> None:
        """Recover one batch of any format."""
        segment, offset = self._segment, header.last_offset
        if not self._last_offset < offset <= segment.base_offset + MAX_RELATIVE_OFFSET:
            raise CorruptRecordError(header.position, f"offset {offset} follows {self._last_offset}")
        if header.magic == 2:
            aborted = self._state.replay(RecordBatch(data))
            if aborted is not None:
                segment.txn_index.append(aborted)
            self._settle_epoch(header.leader_epoch, header.base_offset, offset)
        self._last_offset = offset
        self._state.end_offset = max(self._state.end_offset, offset + 1)
        if header.max_timestamp > segment.max_timestamp:
            segment.max_timestamp, segment.offset_of_max_timestamp = header.max_timestamp, offset
        if header.position - self._last_entry > segment.index_interval_bytes:
            self._last_entry = header.position
            self._add_entries(offset, header.position)
        self._position = header.position + header.size

    def _add_entries(self, offset: int, position: int) -> None:
        segment = self._segment
        self._offset_entries.append((offset, position))
        if segment.max_timestamp > self._last_timestamp:
            self._last_timestamp = segment.max_timestamp
            self._time_entries.append((segment.max_timestamp, segment.offset_of_max_timestamp))
        if len(self._offset_entries) >= _ENTRIES_AT_A_TIME:
            self._write_entries()

    def _write_entries(self) -> None:
        """Write the collected entries."""
        with self._unless_disk_is_full():
            self._segment.offset_index.extend(self._offset_entries)
            self._segment.time_index.extend(self._time_entries)
        self._offset_entries, self._time_entries = [], []

    @contextlib.contextmanager
    def _unless_disk_is_full(self) -> Iterator[None]:
        """Leave out index entries that find no room, as an append does."""
        try:
            yield
        except OSError as error:
            if not self._segment.fs.failed(self._segment.file.path, error).is_disk_full:
                raise
