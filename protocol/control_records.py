"""Control records: the markers that end a transaction in its partitions, on behalf of the transaction coordinator.

A control batch has one record. Key: int16 version 0, int16 type. Value of an end marker: int16 version 0, int32
coordinator epoch. Readers accept longer keys and values and higher versions, and skip unknown types. Source: KIP-98.
"""

import struct
from enum import IntEnum
from typing import Final, NamedTuple

from protocol.errors import InvalidRecordError
from protocol.record import Record
from protocol.record_batch import NO_PARTITION_LEADER_EPOCH, RecordBatch
from protocol.record_batch_builder import RecordBatchBuilder

_KEY: Final = struct.Struct(">hh")
_END_MARKER: Final = struct.Struct(">hi")


class ControlRecordType(IntEnum):
    """The type in a control record's key; KRaft's types are UNKNOWN here."""

    ABORT = 0
    COMMIT = 1
    UNKNOWN = -1


class EndTransactionMarker(NamedTuple):
    """The end of a transaction in one partition."""

    type: ControlRecordType
    coordinator_epoch: int

    @property
    def committed(self) -> bool:
        """Whether the transaction was committed; False: it was aborted."""
        return self.type is ControlRecordType.COMMIT


def encode_control_key(record_type: ControlRecordType) -> bytes:
    """Return the key of a control record; raises ValueError for UNKNOWN."""
    if record_type is ControlRecordType.UNKNOWN:
        raise ValueError("an unknown control record type has no key")
    return _KEY.pack(0, record_type)


def decode_control_key(key: bytes | None) -> ControlRecordType:
    """Return the type in a control record's key; raises InvalidRecordError for a short key or a negative version."""
    if key is None or len(key) < _KEY.size:
        raise InvalidRecordError(f"control record key of {0 if key is None else len(key)} bytes, {_KEY.size} needed")
    version, number = _KEY.unpack_from(key)
    if version < 0:
        raise InvalidRecordError(f"control record key of version {version}")
    try:
        return ControlRecordType(number)
    except ValueError:
        return ControlRecordType.UNKNOWN


def encode_end_marker(marker: EndTransactionMarker) -> tuple[bytes, bytes]:
    """Return the key and value of the control record that ends a transaction."""
    return encode_control_key(marker.type), _END_MARKER.pack(0, marker.coordinator_epoch)


def decode_end_marker(record: Record) -> EndTransactionMarker | None:
    """Return the marker in a control record; None for control records of other types.

    Raises InvalidRecordError if key or value is too short or has a negative version.
    """
    record_type = decode_control_key(record.key)
    if record_type is ControlRecordType.UNKNOWN:
        return None
    value = record.value
    if value is None or len(value) < _END_MARKER.size:
        raise InvalidRecordError(f"end marker of {0 if value is None else len(value)} bytes, {_END_MARKER.size} needed")
    version, epoch = _END_MARKER.unpack_from(value)
    if version < 0:
        raise InvalidRecordError(f"end marker of version {version}")
    return EndTransactionMarker(record_type, epoch)


def read_end_marker(batch: RecordBatch) -> EndTransactionMarker | None:
    """Return the marker in a control batch; None if there is none (compaction may have removed it)."""
    for record in batch.records():
        return decode_end_marker(record)
    return None


def end_marker_batch(
    marker: EndTransactionMarker,
    *,
    producer_id: int,
    producer_epoch: int,
    timestamp: int,
    base_offset: int = 0,
    partition_leader_epoch: int = NO_PARTITION_LEADER_EPOCH,
) -> bytearray:
    """Return the control batch that ends a producer's transaction in one partition."""
    builder = RecordBatchBuilder(
        base_offset,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        transactional=True,
        control=True,
        partition_leader_epoch=partition_leader_epoch,
    )
    key, value = encode_end_marker(marker)
    builder.append(timestamp, key, value)
    return builder.build()
