"""Conversion between batches (magic 2) and message sets (magic 0 and 1) for clients older than Kafka 0.11.

Up, on produce: the log holds batches only, so what an old client sends becomes one batch: its messages get
consecutive offsets, and timestamp -1 if they have none; a wrapper's codec is kept. Down, on fetch: each batch
becomes single messages, or a wrapper if it is compressed; offsets stay, headers, producer ids and control
batches go. Sources: KIP-31, KIP-32, KIP-98, KIP-283 (down-conversion).
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
    """One batch of all messages of a produced message set of magic 0 or 1; empty for an empty set.

    `compression` is the batch's codec; None keeps that of the wrapper. With `log_append_time` that is the
    timestamp of all records and the batch of type LogAppendTime. `limit` bounds what a wrapper may unfold to.

    Raises CorruptRecordError for malformed bytes and wrong CRCs (inside wrappers as well), InvalidRecordError
    for what Kafka refuses: messages of different magic, more messages beside a wrapper, a timestamp type that
    only a broker may set.
    """
    messages = list(iter_messages(message_set))
    source = CompressionType.NONE
    for message in messages:
        message.check_crc()
        if message.magic != messages[0].magic:
            raise InvalidRecordError(f"magic {message.magic} behind magic {messages[0].magic}")
        if log_append_time is None and message.timestamp_type is TimestampType.LOG_APPEND_TIME:
            raise InvalidRecordError("a producer may not set the timestamp type LogAppendTime")
        if message.is_compressed:
            source = message.compression
    if source is not CompressionType.NONE and len(messages) > 1:
        raise InvalidRecordError(f"{len(messages)} messages where a wrapper must stand alone")
    builder = RecordBatchBuilder(
        base_offset,
        source if compression is None else compression,
        TimestampType.CREATE_TIME if log_append_time is None else TimestampType.LOG_APPEND_TIME,
        partition_leader_epoch=partition_leader_epoch,
        level=level,
        log_append_time=log_append_time,
    )
    for message in messages:
        for record in message.records(limit, check_crc=True):
            if record.timestamp < NO_TIMESTAMP:
                raise InvalidRecordError(f"negative timestamp {record.timestamp}")
            builder.append(record.timestamp, record.key, record.value)
    return builder.build()


def down_convert(
    batches: Buffer, to_magic: int, first_offset: int = 0, *, limit: int | None = DECOMPRESSION_LIMIT
) -> bytes:
    """A message set of magic `to_magic` (0 or 1) of what a log holds, be it batches or older messages.

    An element cut off at the end is left out. Records before `first_offset`, the offset a client asked for,
    are left out of uncompressed batches, as old consumers do not skip them there; compressed batches stay
    whole. Elements of `to_magic` or less pass unchanged.

    Raises UnsupportedCompressionError for a zstd batch, which old formats have not, CorruptRecordError and
    InvalidRecordError for malformed ones.
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
        raise UnsupportedCompressionError(f"a zstd batch cannot become messages of magic {to_magic}")
    builder = MessageSetBuilder(to_magic, codec, element.timestamp_type, element.max_timestamp)
    for record in element.records(limit):
        if codec is not CompressionType.NONE or record.offset >= first_offset:
            if builder.count and record.offset <= builder.last_offset:
                raise InvalidRecordError(f"offset {record.offset} behind offset {builder.last_offset}")
            builder.append(record.offset, record.timestamp, record.key, record.value)
    return builder.build()
