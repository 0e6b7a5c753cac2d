"""Conversion between batches (magic 2) and message sets (magic 0 and 1) for clients older than Kafka 0.11.

Up-conversion, on produce: the log has batches only, so a message set of an old client is converted to one batch. Its
messages get consecutive offsets, and timestamp -1 if they have none; a wrapper's codec is kept. Down-conversion, on
fetch: each batch is converted to single messages, or to a wrapper if it is compressed. Offsets are kept; headers,
producer ids and control batches are dropped. Sources: KIP-31, KIP-32, KIP-98, KIP-283 (down-conversion).
"""

from protocol.buffer import Buffer
from protocol.compression import CompressionType
from protocol.errors import InvalidRecordError, UnsupportedCompressionError
from protocol.message_set import LegacyMessage, MessageSetBuilder, iter_messages, iter_mixed
from protocol.record import NO_TIMESTAMP
from protocol.record_batch import (
    DECOMPRESSION_LIMIT,
    NO_PARTITION_LEADER_EPOCH,
    RecordBatch,
    TimestampType,
)
from protocol.record_batch_builder import RecordBatchBuilder


def up_convert(
    message_set: Buffer,
    *,
    base_offset: int = 0,
    compression: CompressionType | None = None,
    level: int | None = None,
    partition_leader_epoch: int = NO_PARTITION_LEADER_EPOCH,
    log_append_time: int | None = None,
    limit: int | None = DECOMPRESSION_LIMIT,
) -> bytearray:
    """Convert a produced message set of magic 0 or 1 to one batch; return empty bytes for an empty set.

    `compression` is the batch's codec; None keeps that of the wrapper. With `log_append_time`, the batch has type
    LogAppendTime and this timestamp. `limit` is the largest decompressed size of a wrapper.

    Raises CorruptRecordError for malformed bytes and wrong CRCs, also inside wrappers (DecompressedTooLargeError for a
    wrapper that is larger than the limit); InvalidRecordError for sets that Kafka refuses: messages of different magic,
    other messages with a wrapper, a timestamp type that only a broker may set.
    """
    first: LegacyMessage | None = None
    for message in iter_messages(message_set):
        message.check_crc()
        if log_append_time is None and message.timestamp_type is TimestampType.LOG_APPEND_TIME:
            raise InvalidRecordError("a producer may not set the timestamp type LogAppendTime")
        if first is None:
            first = message
            builder = RecordBatchBuilder(
                base_offset,
                message.compression if compression is None else compression,
                TimestampType.CREATE_TIME if log_append_time is None else TimestampType.LOG_APPEND_TIME,
                partition_leader_epoch=partition_leader_epoch,
                level=level,
                log_append_time=log_append_time,
            )
        elif message.magic != first.magic:
            raise InvalidRecordError(f"magic {message.magic} after magic {first.magic}")
        elif message.is_compressed or first.is_compressed:
            raise InvalidRecordError("several messages, but a wrapper must be the only message")
        for timestamp, key, value in message.contents(limit):
            if timestamp < NO_TIMESTAMP:
                raise InvalidRecordError(f"negative timestamp {timestamp}")
            builder.append(timestamp, key, value)
    return bytearray() if first is None else builder.build()


def down_convert(
    batches: Buffer, to_magic: int, first_offset: int = 0, *, limit: int | None = DECOMPRESSION_LIMIT
) -> bytes:
    """Convert the batches and messages of a log to a message set of magic `to_magic` (0 or 1).

    An incomplete element at the end is left out. In uncompressed batches, records before `first_offset`, the fetch
    offset, are left out, as old consumers do not skip them; compressed batches are converted completely. Elements of
    magic `to_magic` or less are not changed.

    Raises UnsupportedCompressionError for a zstd batch, as the old formats do not have zstd; CorruptRecordError and
    InvalidRecordError for malformed elements.
    """
    parts: list[Buffer] = []
    for element in iter_mixed(batches, partial=True):
        if element.is_control:
            continue
        if element.magic <= to_magic:
            parts.append(element.buffer)
        else:
            parts.append(_down_convert_one(element, to_magic, first_offset, limit))
    return b"".join(parts)


def _down_convert_one(
    element: RecordBatch | LegacyMessage, to_magic: int, first_offset: int, limit: int | None
) -> bytes:
    codec = element.compression
    if codec is CompressionType.ZSTD:
        raise UnsupportedCompressionError(f"a zstd batch cannot be converted to messages of magic {to_magic}")
    builder = MessageSetBuilder(to_magic, codec, element.timestamp_type, element.max_timestamp)
    for record in element.records(limit):
        if codec is not CompressionType.NONE or record.offset >= first_offset:
            if builder.count and record.offset <= builder.last_offset:
                raise InvalidRecordError(f"offset {record.offset} after offset {builder.last_offset}")
            builder.append(record.offset, record.timestamp, record.key, record.value)
    return builder.build()
