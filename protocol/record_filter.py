"""Filtering the records of a batch for compaction, without decoding them completely.

`scan_records` reads the lengths, offsets and keys of a batch's records and skips the rest. `retain_records` builds a
batch of the retained records, which are copied unchanged. Only if the batch's base timestamp changes (its first record
is removed, or it gets a delete horizon), the timestamp delta of each record is written again. The header keeps base
offset, last offset, producer fields and base sequence, so that a compacted batch leads to the same producer state.
Sources: KIP-98, KIP-534 (delete horizon) and logs compacted by Kafka 3.9.
"""

from typing import Final, NamedTuple

from crc32c import crc32c

from protocol.compression import compress
from protocol.errors import InvalidRecordError
from protocol.record import INT64_MAX, INT64_MIN, long_varint, wrap_int64
from protocol.record_batch import (
    ATTRIBUTES_OFFSET,
    BATCH_HEADER_SIZE,
    CRC_OFFSET,
    DELETE_HORIZON_FLAG,
    HEADER,
    LOG_APPEND_TIME_FLAG,
    LOG_OVERHEAD,
    RecordBatch,
)
from protocol.record_batch_builder import VARINTS

_NULL_BIT: Final = 1  # lengths are zigzag: negative ones are odd; this bit is in the first byte


class ScannedRecords(NamedTuple):
    """The records of one batch as parallel lists with one element per record.

    `data`: all records, decompressed. `ends`: the position in `data` at which each record ends; the next one begins
    there. `bodies`: the position of each record's timestamp delta; the bytes after the delta do not depend on the
    batch's header. `offsets` are absolute.
    """

    data: bytes
    ends: list[int]
    bodies: list[int]
    offsets: list[int]
    keys: list[bytes | None]
    tombstones: list[int]
    """Indexes of the records without value (not one element per record)."""


def scan_records(batch: RecordBatch) -> ScannedRecords:
    """Scan the records of a batch; the CRC is not checked.

    Raises InvalidRecordError if records contradict their lengths or the record count, CorruptRecordError and
    UnsupportedCompressionError if they cannot be decompressed.
    """
    data = bytes(batch.records_data()) if batch.record_count or len(batch.buffer) > BATCH_HEADER_SIZE else b""
    size = len(data)
    base_offset = batch.base_offset
    ends: list[int] = []
    bodies: list[int] = []
    offsets: list[int] = []
    keys: list[bytes | None] = []
    tombstones: list[int] = []
    position = index = 0
    try:
        for index in range(batch.record_count):
            number, position = data[position], position + 1
            if number > 0x7F:
                if data[position] < 0x80:
                    number, position = number & 0x7F | data[position] << 7, position + 1
                else:
                    number, position = long_varint(data, position, number)
            end = position + (number >> 1)
            if number & 1 or end > size:
                raise InvalidRecordError(f"record {index} ends beyond {size} bytes")
            position += 1  # skip the attributes, which are not used yet
            bodies.append(position)
            while data[position] > 0x7F:
                position += 1
            number, position = data[position + 1], position + 2
            if number > 0x7F:
                if data[position] < 0x80:
                    number, position = number & 0x7F | data[position] << 7, position + 1
                else:
                    number, position = long_varint(data, position, number)
            offsets.append(base_offset + (number >> 1 ^ -(number & 1)))
            number, position = data[position], position + 1
            if number > 0x7F:
                if data[position] < 0x80:
                    number, position = number & 0x7F | data[position] << 7, position + 1
                else:
                    number, position = long_varint(data, position, number)
            if number & _NULL_BIT:
                keys.append(None)
            else:
                start, position = position, position + (number >> 1)
                keys.append(data[start:position])
            if data[position] & _NULL_BIT:
                tombstones.append(index)
            if position >= end:
                raise InvalidRecordError(f"the key of record {index} ends at byte {position}, the record at {end}")
            ends.append(end)
            position = end
    except IndexError:
        raise InvalidRecordError(f"record {index} runs over the end of {size} bytes") from None
    if position != size:
        raise InvalidRecordError(f"{size - position} bytes are left after {batch.record_count} records")
    return ScannedRecords(data, ends, bodies, offsets, keys, tombstones)


def retain_records(
    batch: RecordBatch, records: ScannedRecords, keep: list[int], delete_horizon_ms: int | None
) -> bytearray:
    """Return a batch with only the records at the indexes `keep` (ascending, at least one).

    delete_horizon_ms: becomes the base timestamp, in ms, with the delete horizon flag (KIP-534). None: there is no
    delete horizon, and the base timestamp is that of the first record.
    """
    attributes = batch.attributes
    deltas = [_read_delta(records.data, records.bodies[index]) for index in keep]
    if attributes & LOG_APPEND_TIME_FLAG:
        max_timestamp = batch.max_timestamp
        timestamps = [max_timestamp] * len(keep)
    else:
        timestamps = [batch.base_timestamp + delta for delta, _ in deltas]
        if max(timestamps) > INT64_MAX or min(timestamps) < INT64_MIN:
            timestamps = [wrap_int64(timestamp) for timestamp in timestamps]
        max_timestamp = max(timestamps)
    if delete_horizon_ms is None:
        base_timestamp = timestamps[0]
    else:
        base_timestamp = delete_horizon_ms
        attributes |= DELETE_HORIZON_FLAG
    if base_timestamp == batch.base_timestamp and not attributes & LOG_APPEND_TIME_FLAG:
        payload = _copy(records, keep)
    else:
        payload = _move(records, keep, [timestamp - base_timestamp for timestamp in timestamps], deltas)
    codec = batch.compression
    if codec:
        payload = compress(codec, payload)
    buffer = bytearray(BATCH_HEADER_SIZE)
    buffer += payload
    HEADER.pack_into(
        buffer, 0, batch.base_offset, len(buffer) - LOG_OVERHEAD, batch.partition_leader_epoch, batch.magic, 0,
        attributes, batch.last_offset_delta, base_timestamp, max_timestamp, batch.producer_id, batch.producer_epoch,
        batch.base_sequence, len(keep),
    )  # fmt: skip
    with memoryview(buffer) as view:
        buffer[CRC_OFFSET:ATTRIBUTES_OFFSET] = crc32c(view[ATTRIBUTES_OFFSET:]).to_bytes(4, "big")
    return buffer


def _read_delta(data: bytes, position: int) -> tuple[int, int]:
    """Return the timestamp delta at `position`, and the position after it."""
    number, position = data[position], position + 1
    if number > 0x7F:
        number, position = long_varint(data, position, number, 64)
    return number >> 1 ^ -(number & 1), position


def _copy(records: ScannedRecords, keep: list[int]) -> bytes:
    """Return the bytes of the kept records unchanged; adjacent records are copied in one piece."""
    data, ends = records.data, records.ends
    pieces = []
    first = last = keep[0]
    for index in keep[1:]:
        if index != last + 1:
            pieces.append(data[ends[first - 1] if first else 0 : ends[last]])
            first = index
        last = index
    pieces.append(data[ends[first - 1] if first else 0 : ends[last]])
    return b"".join(pieces)


def _move(records: ScannedRecords, keep: list[int], moved: list[int], deltas: list[tuple[int, int]]) -> bytes:
    """Return the kept records with the timestamp deltas `moved`. deltas: the old deltas and their end positions."""
    data, ends = records.data, records.ends
    varints = VARINTS
    pieces: list[bytes] = []
    for index, new, (_, position) in zip(keep, moved, deltas, strict=True):
        delta = varints[new]
        body = data[position : ends[index]]
        pieces += (varints[1 + len(delta) + len(body)], b"\x00", delta, body)
    return b"".join(pieces)
