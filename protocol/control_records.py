"""Control records: what a transaction coordinator writes into the partitions of a transaction to end it.

A control batch holds one record. Key: int16 version 0, int16 type. Value of an end marker: int16 version 0,
int32 epoch of the coordinator that wrote it. Readers take longer keys and values and higher versions, and
skip types that they do not know. Source: KIP-98.
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
    """Type in a control record's key; KRaft's own types count as UNKNOWN here."""

    ABORT = 0
    COMMIT = 1
    UNKNOWN = -1


class EndTransactionMarker(NamedTuple):
    """The end of a transaction in one partition."""

    type: ControlRecordType
    coordinator_epoch: int

    @property
    def committed(self) -> bool:
        """True for a commit, False for an abort."""
        return self.type is ControlRecordType.COMMIT


def encode_control_key(record_type: ControlRecordType) -> bytes:
    """The key of a control record; ValueError for UNKNOWN."""
    if record_type is ControlRecordType.UNKNOWN:
        raise ValueError("an unknown control record type has no key")
    return _KEY.pack(0, record_type)


def decode_control_key(key: bytes | None) -> ControlRecordType:
    """The type in a control record's key; InvalidRecordError for a short key or a negative version."""
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
    """Key and value of the control record that ends a transaction."""
    return encode_control_key(marker.type), _END_MARKER.pack(0, marker.coordinator_epoch)


def decode_end_marker(record: Record) -> EndTransactionMarker | None:
    """The marker in a control record; None for control records of other types.

    Raises InvalidRecordError where key or value are too short or of a negative version.
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
    """The marker that a control batch holds; None where it holds none (compaction may have emptied it)."""
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
    """The control batch that ends a producer's transaction in one partition."""
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
