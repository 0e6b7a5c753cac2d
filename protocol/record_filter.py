"""Records looked at just far enough to decide which of them stay, and the batch of those that do: compaction.

`scan_records` reads lengths, timestamps, offsets and keys of a batch's records and steps over the rest.
`retain_records` makes the batch that remains: what stays is copied as it stands. Only where the batch's base
timestamp changes (its first record is gone, or it gets a delete horizon) is each record's timestamp delta written
anew. The header keeps base offset, last offset, producer fields and base sequence, so that a compacted batch says the
same of its producer as the original one. Sources: KIP-98, KIP-534 (delete horizon) and what Kafka 3.9's own compacted
logs hold.
"""

from typing import Final, NamedTuple

from protocol.checksum import crc32c
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

_NULL_BIT: Final = 1  # lengths are zigzag: the negative ones are odd, and the sign stands in the first byte


class ScannedRecords(NamedTuple):
    """The records of one batch as parallel lists, an element a record.

    `data`: all of them, decompressed. `ends`: where each ends in it (it begins where the one before ends). `bodies`:
    where its timestamp delta stands; behind that nothing depends on the batch's header. `offsets` are absolute.
    """

    data: bytes
    ends: list[int]
    bodies: list[int]
    offsets: list[int]
    keys: list[bytes | None]
    tombstones: list[int]
    """Indexes of the records without value, not an element a record."""


def scan_records(batch: RecordBatch) -> ScannedRecords:
    """What a batch holds. Raises InvalidRecordError for records that do not fit their lengths or the declared count,
    CorruptRecordError and UnsupportedCompressionError where they cannot be unfolded. The CRC is not looked at.
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
            position += 1  # over the attributes, which have no meaning yet
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
    """The batch with only the records of the indexes in `keep` (ascending, at least one).

    delete_horizon_ms: the base timestamp that the batch gets, in ms, with the flag that says so (KIP-534); None: it
    has none, and its base timestamp is that of its first record.
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
    """The timestamp delta at `position`, and the position behind it."""
    number, position = data[position], position + 1
    if number > 0x7F:
        number, position = long_varint(data, position, number, 64)
    return number >> 1 ^ -(number & 1), position


def _copy(records: ScannedRecords, keep: list[int]) -> bytes:
    """The bytes of the kept records as they stand, neighbours in one piece."""
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
    """The kept records with the timestamp deltas `moved`; `deltas`: those that they have, and where these end."""
    data, ends = records.data, records.ends
    varints = VARINTS
    pieces: list[bytes] = []
    for index, new, (_, position) in zip(keep, moved, deltas, strict=True):
        delta = varints[new]
        body = data[position : ends[index]]
        pieces += (varints[1 + len(delta) + len(body)], b"\x00", delta, body)
    return b"".join(pieces)
