"""Record batches of version 2: a view on the bytes of a batch, and the iteration over batches.

The 61-byte header (big-endian) precedes the records, which are one compressed block if the attributes have a codec:

    0  base offset            int64     |  23 last offset delta   int32
    8  batch length           int32     |  27 base timestamp      int64   (delete horizon if attribute bit 6)
    12 partition leader epoch int32     |  35 max timestamp       int64
    16 magic                  int8      |  43 producer id         int64
    17 crc                    uint32    |  51 producer epoch      int16
    21 attributes             int16     |  53 base sequence       int32
                                        |  57 record count        int32

The batch length is the number of bytes after it (from byte 12). The CRC-32C covers the bytes from the attributes on, so
a leader can set base offset and leader epoch without a new CRC. Attributes: bits 0-2 codec, 3 timestamp type,
4 transactional, 5 control, 6 delete horizon. One unpack reads the header; the records are decoded on demand. Sources:
KIP-98, KIP-534 (delete horizon), the protocol guide's page on record batches.
"""

import struct
from collections.abc import Iterator
from enum import IntEnum
from typing import Any, Final

from crc32c import crc32c

from protocol.buffer import Buffer
from protocol.compression import CompressionType, decompress
from protocol.errors import CorruptRecordError, InvalidRecordError, UnsupportedCompressionError
from protocol.record import INT32_MAX, INT64_MAX, R, Record, read_records_as

LOG_OVERHEAD: Final = 12
LENGTH_OFFSET: Final = 8
PARTITION_LEADER_EPOCH_OFFSET: Final = 12
MAGIC_OFFSET: Final = 16
CRC_OFFSET: Final = 17
ATTRIBUTES_OFFSET: Final = 21
MAX_TIMESTAMP_OFFSET: Final = 35
PRODUCER_ID_OFFSET: Final = 43
BATCH_HEADER_SIZE: Final = 61
MIN_BATCH_LENGTH: Final = BATCH_HEADER_SIZE - LOG_OVERHEAD
MAGIC_V2: Final = 2

COMPRESSION_MASK: Final = 0x07
LOG_APPEND_TIME_FLAG: Final = 0x08
TRANSACTIONAL_FLAG: Final = 0x10
CONTROL_FLAG: Final = 0x20
DELETE_HORIZON_FLAG: Final = 0x40

NO_PRODUCER_ID: Final = -1
NO_PRODUCER_EPOCH: Final = -1
NO_SEQUENCE: Final = -1
NO_PARTITION_LEADER_EPOCH: Final = -1

DECOMPRESSION_LIMIT: Final = 256 * 1024 * 1024
"""The largest decompressed size of a batch in bytes; a larger batch is corrupt. It is far above the batches of clients
and far below the memory of a machine.
"""

HEADER: Final = struct.Struct(">qiibIhiqqqhii")
_INT64: Final = struct.Struct(">q")
_INT32: Final = struct.Struct(">i")
_UINT32: Final = struct.Struct(">I")


def compression_of(attributes: int) -> CompressionType:
    """Return the codec of a batch or message. Raises UnsupportedCompressionError for an unknown number."""
    number = attributes & COMPRESSION_MASK
    try:
        return CompressionType(number)
    except ValueError:
        raise UnsupportedCompressionError(f"unknown compression type {number}") from None


class TimestampType(IntEnum):
    """Who sets a record's timestamp: the producer, or the broker when it appends."""

    CREATE_TIME = 0
    LOG_APPEND_TIME = 1


class RecordBatch:
    """A view on one batch: header fields as attributes, records decoded on demand.

    `buffer` is the whole batch with the 12 bytes of base offset and length; `position` is the batch's position in the
    buffer given to `iter_batches`. The fields are copies of the header: changes of the bytes do not change them.
    """

    __slots__ = (
        "attributes",
        "base_offset",
        "base_sequence",
        "base_timestamp",
        "batch_length",
        "buffer",
        "crc",
        "last_offset_delta",
        "magic",
        "max_timestamp",
        "partition_leader_epoch",
        "position",
        "producer_epoch",
        "producer_id",
        "record_count",
    )

    base_offset: int
    batch_length: int
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    def __init__(self, buffer: memoryview, position: int = 0) -> None:
        """`buffer` must be exactly one whole batch, as `iter_batches` and `read_batch` ensure."""
        self.buffer = buffer
        self.position = position
        (
            self.base_offset,
            self.batch_length,
            self.partition_leader_epoch,
            self.magic,
            self.crc,
            self.attributes,
            self.last_offset_delta,
            self.base_timestamp,
            self.max_timestamp,
            self.producer_id,
            self.producer_epoch,
            self.base_sequence,
            self.record_count,
        ) = HEADER.unpack_from(buffer)

    @property
    def last_offset(self) -> int:
        """The offset of the last record in the original batch (compaction may have removed the record)."""
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        """The offset after the batch."""
        return self.base_offset + self.last_offset_delta + 1

    @property
    def size_bytes(self) -> int:
        """The size of the whole batch, with the 12 bytes of base offset and length."""
        return self.batch_length + LOG_OVERHEAD

    @property
    def compression(self) -> CompressionType:
        """The codec; raises UnsupportedCompressionError for an unknown number."""
        return compression_of(self.attributes)

    @property
    def is_compressed(self) -> bool:
        """Whether the records are compressed."""
        return self.attributes & COMPRESSION_MASK != 0

    @property
    def timestamp_type(self) -> TimestampType:
        """CREATE_TIME (the producer's timestamps) or LOG_APPEND_TIME (one timestamp of the broker)."""
        return TimestampType.LOG_APPEND_TIME if self.attributes & LOG_APPEND_TIME_FLAG else TimestampType.CREATE_TIME

    @property
    def is_transactional(self) -> bool:
        """Whether the batch belongs to a transaction; also True for end markers."""
        return self.attributes & TRANSACTIONAL_FLAG != 0

    @property
    def is_control(self) -> bool:
        """Whether the batch has control records, which consumers do not return."""
        return self.attributes & CONTROL_FLAG != 0

    @property
    def has_producer_id(self) -> bool:
        """Whether an idempotent or transactional producer sent the batch."""
        return self.producer_id > NO_PRODUCER_ID

    @property
    def last_sequence(self) -> int:
        """The sequence number of the last record, -1 without sequence numbers; they wrap from 2^31-1 to 0."""
        if self.base_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return increment_sequence(self.base_sequence, self.last_offset_delta)

    @property
    def delete_horizon_ms(self) -> int | None:
        """The time in ms from which compaction may remove tombstones and markers; None if not set yet (KIP-534)."""
        return self.base_timestamp if self.attributes & DELETE_HORIZON_FLAG else None

    def check_crc(self) -> None:
        """Raise CorruptRecordError if the stored CRC-32C differs from that of the bytes."""
        computed = crc32c(self.buffer[ATTRIBUTES_OFFSET:])
        if computed != self.crc:
            raise CorruptRecordError(self.position, f"stored crc {self.crc}, computed crc {computed}")

    def records_data(self, limit: int | None = DECOMPRESSION_LIMIT) -> Buffer:
        """Return the decompressed bytes of the records; raises DecompressedTooLargeError for more than `limit`."""
        payload = self.buffer[BATCH_HEADER_SIZE:]
        if not self.attributes & COMPRESSION_MASK:
            return payload
        try:
            return decompress(self.compression, payload, limit)
        except CorruptRecordError as error:
            raise type(error)(self.position, error.reason) from None

    def records(self, limit: int | None = DECOMPRESSION_LIMIT) -> Iterator[Record]:
        """Decode the records one by one, after decompressing all of them to at most `limit` bytes.

        Raises CorruptRecordError if the compressed block cannot be decompressed, InvalidRecordError if a record is
        malformed or the record count is wrong, UnsupportedCompressionError for an unknown codec. The CRC is not
        checked.
        """
        return self.records_as(Record, (), limit)

    def records_as(
        self, kind: type[R], first_fields: tuple[Any, ...], limit: int | None = DECOMPRESSION_LIMIT
    ) -> Iterator[R]:
        """Like `records`, but yield records of type `kind`: a named tuple of `first_fields` and Record's fields."""
        if self.record_count < 0:
            raise InvalidRecordError(f"negative record count {self.record_count}")
        if self.base_offset > INT64_MAX - INT32_MAX or self.base_offset < INT32_MAX - INT64_MAX:
            raise InvalidRecordError(f"base offset {self.base_offset} leaves no room for the records")
        if self.record_count == 0 and len(self.buffer) == BATCH_HEADER_SIZE:
            return iter(())
        data = self.records_data(limit)
        if not isinstance(data, bytes):
            data = bytes(data)
        log_append_time = self.max_timestamp if self.attributes & LOG_APPEND_TIME_FLAG else None
        return read_records_as(
            kind, first_fields, data, self.record_count, self.base_offset, self.base_timestamp, log_append_time
        )

    def __repr__(self) -> str:
        return (
            f"RecordBatch(offsets={self.base_offset}..{self.last_offset}, position={self.position}, "
            f"size={self.size_bytes}, count={self.record_count}, epoch={self.partition_leader_epoch}, "
            f"attributes={self.attributes:#x}, producer={self.producer_id}/{self.producer_epoch}, "
            f"sequence={self.base_sequence})"
        )


def read_batch(buffer: Buffer, position: int = 0) -> RecordBatch:
    """Return the batch at `position`; raises CorruptRecordError if it is malformed, cut off or not of version 2."""
    return _batch_at(memoryview(buffer), position)


def iter_batches(buffer: Buffer, position: int = 0) -> Iterator[RecordBatch]:
    """Yield the batches in `buffer` from `position` to its end.

    Raises CorruptRecordError(position, reason) at the first batch that is malformed, cut off or not of version 2, after
    the earlier batches were yielded. The CRC is not checked, see `check_crc`.
    """
    view = memoryview(buffer)
    size = len(view)
    while position < size:
        batch = _batch_at(view, position)
        yield batch
        position += batch.batch_length + LOG_OVERHEAD


def _batch_at(view: memoryview, position: int) -> RecordBatch:
    remaining = len(view) - position
    if remaining < LOG_OVERHEAD:
        raise CorruptRecordError(position, f"{remaining} bytes are too few for a batch")
    length: int = _INT32.unpack_from(view, position + LENGTH_OFFSET)[0]
    if remaining > MAGIC_OFFSET and view[position + MAGIC_OFFSET] != MAGIC_V2:
        raise CorruptRecordError(position, f"magic {view[position + MAGIC_OFFSET]}, expected 2")
    if length < MIN_BATCH_LENGTH:
        raise CorruptRecordError(position, f"batch length {length} is less than the header's {MIN_BATCH_LENGTH} bytes")
    if length + LOG_OVERHEAD > remaining:
        raise CorruptRecordError(position, f"batch of {length + LOG_OVERHEAD} bytes is cut off after {remaining}")
    batch = RecordBatch(view[position : position + length + LOG_OVERHEAD], position)
    if batch.record_count < 0 or batch.last_offset_delta < 0:
        raise CorruptRecordError(
            position, f"record count {batch.record_count}, last offset delta {batch.last_offset_delta}"
        )
    return batch


def increment_sequence(sequence: int, increment: int) -> int:
    """Return `sequence` plus `increment`, which wraps from 2^31-1 to 0 as producers' sequence numbers do."""
    return (sequence + increment) & INT32_MAX


def set_base_offset(buffer: bytearray | memoryview, position: int, offset: int) -> None:
    """Set the base offset of the batch at `position` in place; the CRC does not cover it."""
    _INT64.pack_into(buffer, position, offset)


def set_partition_leader_epoch(buffer: bytearray | memoryview, position: int, epoch: int) -> None:
    """Set the leader epoch of the batch at `position` in place; the CRC does not cover it."""
    _INT32.pack_into(buffer, position + PARTITION_LEADER_EPOCH_OFFSET, epoch)


def set_max_timestamp(
    buffer: bytearray | memoryview, position: int, timestamp_type: TimestampType, timestamp: int
) -> None:
    """Set timestamp type and max timestamp of the whole batch at `position` in place, and update its CRC."""
    attributes: int = struct.unpack_from(">h", buffer, position + ATTRIBUTES_OFFSET)[0]
    if timestamp_type is TimestampType.LOG_APPEND_TIME:
        attributes |= LOG_APPEND_TIME_FLAG
    else:
        attributes &= ~LOG_APPEND_TIME_FLAG
    struct.pack_into(">h", buffer, position + ATTRIBUTES_OFFSET, attributes)
    _INT64.pack_into(buffer, position + MAX_TIMESTAMP_OFFSET, timestamp)
    update_crc(buffer, position)


def set_max_timestamp_log_append(buffer: bytearray | memoryview, position: int, timestamp: int) -> None:
    """Set the type LogAppendTime and the max timestamp of the batch at `position` in place, and update its CRC."""
    set_max_timestamp(buffer, position, TimestampType.LOG_APPEND_TIME, timestamp)


def update_crc(buffer: bytearray | memoryview, position: int) -> None:
    """Compute and store the CRC of the batch at `position`."""
    length: int = _INT32.unpack_from(buffer, position + LENGTH_OFFSET)[0]
    end = position + LOG_OVERHEAD + length
    with memoryview(buffer) as view:
        _UINT32.pack_into(view, position + CRC_OFFSET, crc32c(view[position + ATTRIBUTES_OFFSET : end]))
