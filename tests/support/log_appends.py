"""Appends of a history, as leader and follower: plain, idempotent, transactional, repeated, out of order, refused."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pytest
from crc32c import crc32c

from protocol.compression import CompressionType
from protocol.control_records import ControlRecordType, EndTransactionMarker, end_marker_batch
from protocol.errors import CorruptRecordError
from protocol.record_batch_builder import RecordBatchBuilder
from storage.errors import (
    OutOfOrderSequenceError,
    RecordBatchTooLargeError,
    RecordTooLargeError,
    RecordValidationError,
    UnexpectedAppendOffsetError,
)
from storage.log.append import AppendOrigin
from support.log_model import Batch, Model

if TYPE_CHECKING:
    from storage.log.config import LogConfig
    from storage.log.log import Log

PLAIN = (100, 200)  # producers that are idempotent
TRANSACTIONAL = (300, 400, 500)
KEYS = (b"a", b"b", b"c", b"d", b"a long key", b"")
MAX_MESSAGE_BYTES = 2000
LOG_APPEND_TIME = 0x08


class Appends:
    """The part of a `History` that appends."""

    log: Log
    model: Model
    config: LogConfig
    now: int
    made: int  # records so far: each value is another one

    # -- what to append ----------------------------------------------------------------------------

    def make(self, a: int, b: int, base: int, *, epoch: int | None = None, **producer: Any) -> Batch:
        """A batch as it must be on disk at `base`. a: number and sizes of its records; b: its irregularities."""
        codec = CompressionType.GZIP if b % 11 == 10 else CompressionType.NONE
        builder = RecordBatchBuilder(
            0,
            codec,
            producer_id=producer.get("producer", -1),
            producer_epoch=producer.get("producer_epoch", -1),
            base_sequence=producer.get("sequence", -1),
            transactional=producer.get("transactional", False),
        )
        timestamp = self.now + (0, 0, 0, -40, 25, 0, 0)[b % 7]
        records = []
        for number in range(producer.pop("count", a % 4 + 1)):
            self.made += 1
            key = None if b % 17 == 16 else KEYS[(a // 4 + number * (b % 3)) % len(KEYS)]
            value = None if (a + b) % 13 == 12 else b"%d." % self.made * (1 + a // 24)
            records.append((base + number, timestamp + number, key, value))
            builder.append(timestamp + number, key, value)
        return self.finished(builder.build(), base, self.model.epoch if epoch is None else epoch, records, **producer)

    def make_marker(self, base: int, marker: EndTransactionMarker, epoch: int, **producer: Any) -> Batch:
        data = end_marker_batch(
            marker,
            producer_id=producer["producer"],
            producer_epoch=producer["producer_epoch"],
            timestamp=self.now,
        )
        return self.finished(data, base, epoch, [(base, self.now, None, None)], marker=marker, **producer)

    def finished(self, data: bytearray, base: int, epoch: int, records: list[Any], **producer: Any) -> Batch:
        struct.pack_into(">q", data, 0, base)
        struct.pack_into(">i", data, 12, epoch)
        newest = max(timestamp for _, timestamp, _, _ in records)
        return Batch(bytes(data), base, records[-1][0], epoch, records, max_timestamp=newest, **producer)

    def stamped(self, batch: Batch) -> Batch:
        """The batch as a topic with LogAppendTime stores it."""
        data = bytearray(batch.data)
        data[22] |= LOG_APPEND_TIME
        struct.pack_into(">q", data, 35, self.now)
        struct.pack_into(">I", data, 17, crc32c(memoryview(data)[21:]))
        batch.data = bytes(data)
        batch.max_timestamp = self.now
        batch.records = [(offset, self.now, key, value) for offset, _, key, value in batch.records]
        return batch

    def lead(self, batch: Batch) -> None:
        """Append as the leader, and compare the outcome with the model."""
        client = batch.marker is None
        verdict: Any = self.model.verdict(batch)
        if client and self.config.compacts and any(key is None for _, _, key, _ in batch.records):
            verdict = RecordValidationError
        data = bytearray(batch.data)
        struct.pack_into(">qi4x", data, 0, 0, len(data) - 12)
        struct.pack_into(">i", data, 12, -1)
        if self.config.message_timestamp_type == "LogAppendTime":
            batch = self.stamped(batch)
        if verdict is None and len(data) > self.config.segment_bytes:
            verdict = RecordBatchTooLargeError
        origin = AppendOrigin.CLIENT if client else AppendOrigin.COORDINATOR
        if isinstance(verdict, type):
            with pytest.raises(verdict):
                self.log.append_as_leader(data, batch.epoch, origin=origin)
            return
        rolls = self.must_roll(len(data), batch.last, batch.max_timestamp)
        try:
            info = self.log.append_as_leader(data, batch.epoch, origin=origin)
        except OutOfOrderSequenceError:
            assert verdict is not None
            assert verdict.base in self.model.hidden
            return
        if verdict is not None:
            assert (info.duplicate, info.first_offset, info.last_offset) == (True, verdict.base, verdict.last)
            return
        assert (info.duplicate, info.first_offset, info.last_offset) == (False, batch.base, batch.last)
        assert (info.max_timestamp, info.size_bytes) == (batch.max_timestamp, len(batch.data))
        self.model.append(batch)
        assert (self.log.segments.base_offsets[-1] == batch.base) == rolls

    def must_roll(self, size: int, last: int, timestamp: int) -> bool:
        """Whether a batch begins a segment: the active one is empty there, full, too old or has a full index."""
        active = self.log.segments[-1]
        inside = [each for each in self.model.batches if each.base >= active.base_offset]
        if not inside and active.base_offset == self.model.end:
            return True
        if inside:
            # A segment is as old as its first append, of which the first batch is a part.
            first = active.rolling_timestamp
            assert first is None or first >= inside[0].max_timestamp
            waited = timestamp - (inside[0].max_timestamp if first is None else first)
        return (
            sum(len(each.data) for each in inside) + size > self.config.segment_bytes
            or (bool(inside) and waited > self.config.max_segment_ms)
            or last - active.base_offset > 0x7FFFFFFF
            or active.offset_index.is_full
            or active.time_index.is_full
        )

    def next_sequence(self, producer_id: int) -> tuple[int, int]:
        """The (epoch, sequence) with which a producer continues."""
        known = self.model.producers().get(producer_id)
        return (known.epoch, (known.last_sequence + 1) % (1 << 31)) if known else (0, 0)

    def of_producer(self, ids: Sequence[int], a: int, b: int, base: int, **more: Any) -> Batch:
        """A producer's batch: mostly its next one, else again, out of order, or of another epoch."""
        producer_id = ids[a % len(ids)]
        epoch, sequence = self.next_sequence(producer_id)
        count = a // 4 % 4 + 1
        kind = b % 16
        if kind in (8, 9, 10, 11):
            past = [each for each in self.model.history if each.producer == producer_id and each.marker is None]
            if past:
                again = past[max(len(past) - 1 - b // 16 % 7, 0)]
                epoch, sequence, count = again.producer_epoch, again.sequence, again.last - again.base + 1
        elif kind == 12:
            sequence = (sequence + 2) % (1 << 31)
        elif kind == 13:
            epoch, sequence = epoch + 1, b // 16 % 2
        elif kind == 14:
            epoch = max(epoch - 1, 0)
        elif kind == 15 and producer_id not in self.model.producers():
            sequence = (1 << 31) - 2
        return self.make(
            a, b // 16, base, producer=producer_id, producer_epoch=epoch, sequence=sequence, count=count, **more
        )

    def end_of(self, a: int, b: int, base: int, epoch: int) -> Batch:
        """A transaction marker, mostly of a transaction that is open."""
        producer_id = TRANSACTIONAL[a % len(TRANSACTIONAL)]
        known = self.model.producers().get(producer_id)
        marker = EndTransactionMarker(
            ControlRecordType.COMMIT if b % 2 else ControlRecordType.ABORT,
            max((known.coordinator_epoch if known else 0) + (-1, 0, 0, 0, 0, 0, 0, 1)[b // 2 % 8], 0),
        )
        producer_epoch = max((known.epoch if known else 0) + (-1, 0, 0, 0, 0, 0, 0, 1)[b // 16 % 8], 0)
        return self.make_marker(
            base, marker, epoch, producer=producer_id, producer_epoch=producer_epoch, transactional=True
        )

    # -- operations: appends -----------------------------------------------------------------------

    def nothing(self, a: int, b: int) -> None:
        pass

    def append(self, a: int, b: int) -> None:
        self.lead(self.make(a, b, self.model.end))

    def append_idempotent(self, a: int, b: int) -> None:
        self.lead(self.of_producer(PLAIN, a, b, self.model.end))

    def append_transactional(self, a: int, b: int) -> None:
        self.lead(self.of_producer(TRANSACTIONAL, a, b & 0x7F, self.model.end, transactional=b < 0xF0))

    def end_transaction(self, a: int, b: int) -> None:
        self.lead(self.end_of(a, b, self.model.end, self.model.epoch))

    def append_in_next_epoch(self, a: int, b: int) -> None:
        self.lead(self.make(a, 0, self.model.end, epoch=self.model.epoch + 1 + b % 2))

    def become_leader(self, a: int, b: int) -> None:
        """A new leader notes where its epoch begins before it appends."""
        self.log.leader_epochs.assign(self.model.epoch + 1, self.model.end)
        self.model.assign_epoch(self.model.epoch + 1, self.model.end)

    def append_as_follower(self, a: int, b: int) -> None:
        """One to three batches at once, offsets and epochs as the leader has them; some offsets may be missing."""
        base = self.model.end + (0, 0, 0, 0, 0, 1, 5, 0x7FFFFFF0 if a % 8 == 7 else 2)[b % 8]
        epoch = self.model.epoch
        batches: list[Batch] = []
        before = (list(self.model.batches), list(self.model.history))
        for number in range(b // 8 % 3 + 1):
            kind = (a + number * (b // 32)) % 5
            epoch += b == 0xEE
            if kind == 0:
                batch = self.of_producer(PLAIN, a // 5, 0, base, epoch=epoch)
            elif kind == 1:
                batch = self.of_producer(TRANSACTIONAL, a // 5, 0, base, epoch=epoch, transactional=True)
            elif kind == 2:
                batch = self.end_of(a // 5, b // 32 & 0x0F, base, epoch)
            else:
                batch = self.make(a // 5, b // 3, base, epoch=epoch)
            batches.append(batch)
            self.model.history.append(batch)  # what the next one goes on from
            base = batch.last + 1
        self.model.batches, self.model.history = before
        data = b"".join(each.data for each in batches)
        cut = batches[-1].data[: len(batches[-1].data) - 1 - a % 7] if b // 8 % 16 == 15 else b""
        info = self.log.append_as_follower(data + cut)
        assert (info.last_offset, info.size_bytes) == (batches[-1].last, len(data))
        for each in batches:
            self.model.append(each)

    def append_what_is_refused(self, a: int, b: int) -> None:
        data = bytearray(self.make(a, 0, 0, epoch=-1).data)
        kind = b % 4
        if kind == 0:
            data[17 + a % (len(data) - 17)] ^= 1 << b // 4 % 8
            with pytest.raises(CorruptRecordError):
                self.log.append_as_follower(data)
            with pytest.raises((CorruptRecordError, RecordBatchTooLargeError)):
                self.log.append_as_leader(data, self.model.epoch)
        elif kind == 1 and self.model.end:
            struct.pack_into(">q", data, 0, self.model.end - 1)
            with pytest.raises(UnexpectedAppendOffsetError):
                self.log.append_as_follower(data)
        elif kind == 2:
            builder = RecordBatchBuilder(0)
            builder.append(self.now, b"k", bytes(MAX_MESSAGE_BYTES))
            with pytest.raises(RecordTooLargeError):
                self.log.append_as_leader(builder.build(), self.model.epoch)
        elif kind == 3:
            builder = RecordBatchBuilder(0)
            builder.append(self.now, b"k", bytes(self.config.segment_bytes + 1))
            with pytest.raises((RecordBatchTooLargeError, RecordTooLargeError)):
                self.log.append_as_leader(builder.build(), self.model.epoch + 1)
