"""Appending as a leader: check one batch and assign its offsets.

The header and the checksum are checked; records only if the topic's settings require it (see `batch_validation`). Base
offset and leader epoch are patched in the caller's buffer; the checksum does not cover them.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from crc32c import crc32c

from protocol.buffer import Buffer
from protocol.control_records import EndTransactionMarker, read_end_marker
from protocol.errors import CorruptRecordError, InvalidRecordError
from protocol.record_batch import BATCH_HEADER_SIZE, HEADER, LOG_OVERHEAD, RecordBatch
from storage.errors import RecordBatchTooLargeError, RecordTooLargeError
from storage.log.append import AppendOrigin, LogAppendInfo
from storage.log.batch_validation import BatchRules, BatchValidation, ValidatedBatch, refuse
from storage.log.config import LogConfig
from storage.log.flush import Durability
from storage.log.leader_epoch_cache import LeaderEpochCache
from storage.log.offsets import LogOffsets
from storage.log.replay import earlier_batches
from storage.log.segments import LogSegments
from storage.producers.entry import BatchMetadata

_unpack_header = HEADER.unpack_from
_pack_leader_fields = struct.Struct(">qii").pack_into  # base offset, length, leader epoch
_TRANSACTIONAL = 0x10
_CONTROL = 0x20
_LOOK_INSIDE = 0x08  # the timestamp type LogAppendTime, which only a broker may set
_SEQUENCE_MASK = 0x7FFFFFFF


@dataclass(eq=False)
class LeaderAppends:
    """Appends batches to the log of a leader."""

    _segments: LogSegments
    _offsets: LogOffsets
    _leader_epochs: LeaderEpochCache
    _durability: Durability
    _full_validation: bool

    def __post_init__(self) -> None:
        self._producers = self._segments.files.producers
        self._now_ms = self._segments.files.now_ms
        self.configure(self._segments.files.config)

    def configure(self, config: LogConfig) -> None:
        """Use these settings from now on."""
        self._rules = BatchRules(config, full=self._full_validation)
        self._header_is_enough = self._rules.header_is_enough
        self._max_message_bytes = config.max_message_bytes
        self._segment_bytes = config.segment_bytes

    def append(self, records: Buffer | BatchValidation, leader_epoch: int, origin: AppendOrigin) -> LogAppendInfo:
        """Append one batch. Raises what `Log.append_as_leader` raises."""
        validation = None
        if type(records) is not memoryview or records.readonly:
            if isinstance(records, BatchValidation):
                validation, records = records, records.records
            else:
                records = memoryview(records if isinstance(records, bytearray) else bytearray(records))
        size = len(records)
        client = origin is AppendOrigin.CLIENT
        if size < BATCH_HEADER_SIZE or records[16] != 2:
            records = self._rules.up_convert_at_once(records, self._now_ms())
            size = len(records)
        (
            base_offset, length, _, _, crc, attributes, delta, _, max_timestamp,
            producer_id, producer_epoch, sequence, count,
        ) = _unpack_header(records)  # fmt: skip
        if length + LOG_OVERHEAD != size:
            records = single_batch(records, length)
            size = len(records)
        if (
            size > self._max_message_bytes
            or crc32c(records[21:]) != crc
            or (
                client
                and (
                    base_offset
                    or delta + 1 != count
                    or count <= 0
                    or attributes & _CONTROL
                    or sequence < 0 <= producer_id
                )
            )
        ):
            refuse(records, self._max_message_bytes, client=client)
        log_append_time = -1
        if not self._header_is_enough or attributes & _LOOK_INSIDE or attributes & 7 > 4:
            records, max_timestamp, log_append_time = self._look_inside(records, client, validation)
            size = len(records)
            length = size - LOG_OVERHEAD
        offsets = self._offsets
        first_offset = offsets.end
        last_offset = first_offset + delta

        marker: EndTransactionMarker | None = None
        if producer_id >= 0:
            if attributes & _CONTROL:
                marker = self._check_marker(records, producer_id, producer_epoch, first_offset)
            else:
                duplicate = self._check_producer(
                    producer_id, producer_epoch, sequence, delta, client, attributes & _TRANSACTIONAL != 0
                )
                if duplicate is not None:
                    return self._repeated(duplicate, size)
        if size > self._segment_bytes:
            raise RecordBatchTooLargeError(size, self._segment_bytes)
        segment = self._segments.for_append(size, first_offset, last_offset, max_timestamp)
        if leader_epoch != self._leader_epochs.latest_epoch and leader_epoch >= 0:
            self._leader_epochs.assign(leader_epoch, first_offset)
        _pack_leader_fields(records, 0, first_offset, length, leader_epoch)
        segment.append(records, size, last_offset, max_timestamp, last_offset)
        next_offset = last_offset + 1
        offsets.end = next_offset
        if marker is not None:
            self._end_transaction(producer_id, producer_epoch, marker, first_offset, max_timestamp)
        elif producer_id >= 0 and not attributes & _CONTROL:
            self._producers.add_batch(
                producer_id,
                producer_epoch,
                BatchMetadata((sequence + delta) & _SEQUENCE_MASK, last_offset, delta, max_timestamp),
                attributes & _TRANSACTIONAL != 0,
                first_offset,
            )
        self._producers.end_offset = next_offset
        durability = self._durability
        return LogAppendInfo(
            first_offset, last_offset, max_timestamp, log_append_time, offsets.start, size,
            False, next_offset - durability.recovery_point >= durability.flush_messages,
        )  # fmt: skip

    def _look_inside(self, records: memoryview, client: bool, validation: BatchValidation | None) -> ValidatedBatch:
        """Check the records, and convert the batch as the topic's settings say. Raises what `append` raises."""
        if validation is not None and validation.validated is not None:
            validated = validation.validated
        elif client:
            validated = self._rules.validate_at_once(records, self._now_ms())
        else:
            validated = self._rules.validate(records, self._now_ms(), client=False)
        if len(validated.records) > self._max_message_bytes:
            raise RecordTooLargeError(len(validated.records), self._max_message_bytes)
        return validated

    def _repeated(self, first: BatchMetadata, size: int) -> LogAppendInfo:
        """Return the result for a batch that repeats an earlier one: where the earlier one is."""
        return LogAppendInfo(
            first.first_offset, first.last_offset, first.timestamp, first.timestamp, self._offsets.start, size, True
        )

    def _check_producer(
        self, producer_id: int, producer_epoch: int, sequence: int, delta: int, client: bool, transactional: bool
    ) -> BatchMetadata | None:
        """The earlier batch that this one repeats, if any. Raises if the producer must not write the batch."""
        entry = self._producers.producers.get(producer_id)
        if entry is None:
            return None
        offset = self._offsets.end
        last_sequence = (sequence + delta) & _SEQUENCE_MASK
        if client:
            if entry.has_forgotten and entry.may_have_forgotten(producer_epoch, last_sequence):
                # On the event loop: rare, a few headers, and what was written before a restart is in the page cache.
                with self._segments.files.log_files.failing():
                    entry.recall(earlier_batches(self._segments, entry))
            duplicate = entry.find_duplicate(producer_epoch, sequence, last_sequence)
            if duplicate is not None:
                return duplicate
        entry.check_epoch(producer_epoch, offset)
        if client:
            entry.check_sequence(producer_epoch, sequence, offset)
        entry.check_transactional(transactional, offset)
        return None

    def _check_marker(
        self, records: memoryview, producer_id: int, producer_epoch: int, offset: int
    ) -> EndTransactionMarker | None:
        """The transaction marker in a control batch. Raises if a newer epoch has fenced its writer."""
        marker = read_end_marker(RecordBatch(records))
        if marker is not None:
            self._producers.check_marker(producer_id, producer_epoch, marker, offset)
        return marker

    def _end_transaction(
        self, producer_id: int, producer_epoch: int, marker: EndTransactionMarker, offset: int, timestamp: int
    ) -> None:
        completed = self._producers.add_marker(producer_id, producer_epoch, marker, offset, timestamp)
        if completed is not None:
            aborted = self._producers.complete(completed)
            if aborted is not None:
                self._segments.add_aborted(self._segments.active, aborted)


def single_batch(records: memoryview, length: int) -> memoryview:
    """The whole batch at the start of `records`, without the bytes of an incomplete second one.

    Raises CorruptRecordError, and InvalidRecordError if there is more than one batch.
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
