"""Decode a `.log` file: its batches and, on request, their records, one dictionary for each.

The file is read batch by batch, so a segment of any size needs only the memory of its largest batch. An error
becomes an entry of type "corrupt" with its position in bytes. A batch with a wrong checksum is yielded, and
reading continues after it; after an invalid length no further batch can be found. Zeros up to the end of the
file are preallocated space, not corruption.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, Final

from protocol.control_records import ControlRecordType, decode_control_key, decode_end_marker
from protocol.errors import InvalidRecordError, ProtocolError
from protocol.internal_records import decode_record, is_internal, text_of
from protocol.message_set import LegacyMessage, read_message
from protocol.record import Record
from protocol.record_batch import LENGTH_OFFSET, LOG_OVERHEAD, MAGIC_OFFSET, MAGIC_V2, RecordBatch, read_batch

Entry = dict[str, Any]
CHUNK_SIZE: Final = 1024 * 1024
_CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")


def corrupt(position: int, reason: str) -> Entry:
    """Return the entry for an error at a position (in bytes) of a file."""
    return {"type": "corrupt", "position": position, "reason": reason}


def dump_segment(path: Path, *, records: bool, topic: str | None = None) -> Iterator[Entry]:
    """Yield the entries of a segment file, with the records decoded as records of `topic`.

    The default topic is that of the directory's name. Raises OSError.
    """
    topic = topic or path.resolve().parent.name.rpartition("-")[0]
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        position = 0
        next_offset = -1
        while position < size:
            head = os.pread(file.fileno(), MAGIC_OFFSET + 1, position)
            length = int.from_bytes(head[LENGTH_OFFSET:LOG_OVERHEAD], "big", signed=True)
            end = position + LOG_OVERHEAD + length
            if len(head) > MAGIC_OFFSET and not any(head) and _only_zeros(file, position, size):
                yield {"type": "padding", "position": position, "size": size - position}
                return
            if len(head) <= MAGIC_OFFSET or end > size or length < 0:
                yield corrupt(position, _broken_length(size - position, length))
                return
            data = os.pread(file.fileno(), end - position, position)
            try:
                batch = read_batch(data) if head[MAGIC_OFFSET] == MAGIC_V2 else read_message(data)
            except ProtocolError as error:
                yield corrupt(position, _reason(error))
                return
            yield from _dump_batch(batch, position, topic, records)
            first = batch.base_offset if isinstance(batch, RecordBatch) else batch.offset
            if first < next_offset and isinstance(batch, RecordBatch):
                yield corrupt(position, f"base offset {first} where {next_offset} or more was expected")
            next_offset = batch.next_offset
            position = end


def _broken_length(left: int, length: int) -> str:
    if left <= MAGIC_OFFSET:
        return f"{left} bytes are too few for a batch"
    if length < 0:
        return f"batch length {length} is negative"
    return f"batch of {length + LOG_OVERHEAD} bytes is cut off after {left}"


def _only_zeros(file: BinaryIO, position: int, size: int) -> bool:
    while position < size:
        chunk = os.pread(file.fileno(), CHUNK_SIZE, position)
        if chunk.count(0) != len(chunk):
            return False
        position += len(chunk) or size
    return True


def _reason(error: ProtocolError) -> str:
    """Return the broken rule without the position in the batch; the caller has the position in the file."""
    return str(getattr(error, "reason", error))


def _dump_batch(batch: RecordBatch | LegacyMessage, position: int, topic: str, records: bool) -> Iterator[Entry]:
    entry = _batch_entry(batch, position) if isinstance(batch, RecordBatch) else _message_entry(batch, position)
    problem = None
    try:
        batch.check_crc()
    except ProtocolError as error:
        problem = _reason(error)
    entry["valid"] = problem is None
    yield entry
    if problem is not None:
        yield corrupt(position, problem)
        return
    if not records:
        return
    try:
        for index, record in enumerate(batch.records()):
            yield _record_entry(batch, index, record, topic)
    except ProtocolError as error:
        yield corrupt(position, _reason(error))


def _batch_entry(batch: RecordBatch, position: int) -> Entry:
    codec = batch.attributes & 7
    return {
        "type": "batch",
        "position": position,
        "size": batch.size_bytes,
        "base_offset": batch.base_offset,
        "last_offset": batch.last_offset,
        "count": batch.record_count,
        "max_timestamp": batch.max_timestamp,
        "timestamp_type": _timestamp_type(batch),
        "partition_leader_epoch": batch.partition_leader_epoch,
        "producer_id": batch.producer_id,
        "producer_epoch": batch.producer_epoch,
        "base_sequence": batch.base_sequence,
        "last_sequence": batch.last_sequence,
        "transactional": batch.is_transactional,
        "control": batch.is_control,
        "delete_horizon_ms": batch.delete_horizon_ms,
        "magic": batch.magic,
        "compression": _CODECS[codec] if codec < len(_CODECS) else f"unknown ({codec})",
        "crc": batch.crc,
    }


def _message_entry(message: LegacyMessage, position: int) -> Entry:
    return {
        "type": "message",
        "position": position,
        "size": message.size_bytes,
        "offset": message.offset,
        "max_timestamp": message.max_timestamp,
        "timestamp_type": _timestamp_type(message),
        "magic": message.magic,
        "compression": _CODECS[message.compression],
        "crc": message.crc,
    }


def _timestamp_type(batch: RecordBatch | LegacyMessage) -> str:
    return "LogAppendTime" if batch.timestamp_type else "CreateTime"


def _record_entry(batch: RecordBatch | LegacyMessage, index: int, record: Record, topic: str) -> Entry:
    entry: Entry = {
        "type": "record",
        "offset": record.offset,
        "timestamp": record.timestamp,
        "key_size": -1 if record.key is None else len(record.key),
        "value_size": -1 if record.value is None else len(record.value),
        "headers": [[name, text_of(value)] for name, value in record.headers],
    }
    if isinstance(batch, RecordBatch):
        has_sequence = batch.base_sequence >= 0
        # Computed from the offset, because compaction removes records from the middle of a batch.
        entry["sequence"] = (
            (batch.base_sequence + record.offset - batch.base_offset) & 0x7FFFFFFF if has_sequence else -1
        )
        if batch.is_control:
            entry["control"] = _control(record)
            return entry
    decoded = decode_record(topic, record.key, record.value) if is_internal(topic) else None
    if decoded is None:
        decoded = text_of(record.key), text_of(record.value)
    entry["key"], entry["value"] = decoded
    return entry


def _control(record: Record) -> dict[str, Any]:
    """Return the type of a control record, and the coordinator epoch of a transaction marker."""
    try:
        marker = decode_end_marker(record)
        if marker is not None:
            return {"type": marker.type.name, "coordinator_epoch": marker.coordinator_epoch}
        kind = decode_control_key(record.key)
    except InvalidRecordError:
        kind = ControlRecordType.UNKNOWN
    return {"type": kind.name}
