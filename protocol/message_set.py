"""Message sets: the record formats before batches, magic 0 (Kafka 0.8) and 1 (0.10), which old clients still send.

A set is a sequence of messages:

    0  offset      int64     |  16 magic       int8
    8  size        int32     |  17 attributes  int8: bits 0-2 codec, bit 3 timestamp type (magic 1)
    12 crc         uint32    |  18 timestamp   int64, ms; magic 1 only
                             |     key         int32 length, negative for null, and bytes
                             |     value       int32 length, negative for null, and bytes

The size is the number of bytes after it; the CRC-32 (zlib's) covers the bytes from the magic on. A message with a codec
is a wrapper: its value is a compressed message set without further wrappers, and its offset is that of the last message
inside. The offsets inside a wrapper are absolute in magic 0, and relative to the first message in magic 1 (KIP-31). The
timestamp of a wrapper with LogAppendTime is the timestamp of all messages inside (KIP-32). Source: the protocol guide's
page on old message formats.
"""

import struct
from collections.abc import Iterator
from typing import Final
from zlib import crc32

from protocol.buffer import Buffer
from protocol.compression import CompressionType, compress, decompress
from protocol.errors import CorruptRecordError, InvalidRecordError, UnsupportedCompressionError
from protocol.record import NO_TIMESTAMP, Record, wrap_int64
from protocol.record_batch import (
    COMPRESSION_MASK,
    DECOMPRESSION_LIMIT,
    LENGTH_OFFSET,
    LOG_APPEND_TIME_FLAG,
    LOG_OVERHEAD,
    MAGIC_OFFSET,
    MAGIC_V2,
    RecordBatch,
    TimestampType,
    compression_of,
    read_batch,
)

MIN_MESSAGE_SIZE: Final = (14, 22)
"""The smallest size field of a message of magic 0 and 1: without key and value."""
MESSAGE_ATTRIBUTES_OFFSET: Final = 17

_HEADER: Final = struct.Struct(">qiIbb")
_LOG_HEADER: Final = struct.Struct(">qi")
_INT32: Final = struct.Struct(">i")
_INT64: Final = struct.Struct(">q")


class LegacyMessage:
    """A view on one message of magic 0 or 1, which may be a wrapper. The attributes have the names of `RecordBatch`.

    `buffer` is the whole message with offset and size, `position` its position in the containing buffer. `key` and
    `value` are views. The timestamp is -1 in magic 0.
    """

    __slots__ = (
        "attributes",
        "buffer",
        "crc",
        "key",
        "magic",
        "offset",
        "position",
        "size",
        "timestamp",
        "value",
    )

    offset: int
    size: int
    crc: int
    magic: int
    attributes: int
    timestamp: int

    def __init__(self, buffer: memoryview, position: int = 0) -> None:
        """`buffer` must be one message of at least the smallest size, as `read_message` ensures.

        Raises CorruptRecordError if key and value do not fill the message exactly.
        """
        self.buffer = buffer
        self.position = position
        self.timestamp = NO_TIMESTAMP
        self.offset, self.size, self.crc, self.magic, self.attributes = _HEADER.unpack_from(buffer)
        end = _HEADER.size
        if self.magic:
            self.timestamp = _INT64.unpack_from(buffer, end)[0]
            end += 8
        self.key, end = self._field(end)
        self.value, end = self._field(end)
        if end != len(buffer):
            raise CorruptRecordError(position, f"key and value end at byte {end} of {len(buffer)}")

    def _field(self, start: int) -> tuple[memoryview | None, int]:
        if start + 4 > len(self.buffer):
            raise CorruptRecordError(self.position, "key or value length is cut off")
        length: int = _INT32.unpack_from(self.buffer, start)[0]
        start += 4
        if length < 0:
            return None, start
        if start + length > len(self.buffer):
            raise CorruptRecordError(self.position, f"key or value of {length} bytes is cut off")
        return self.buffer[start : start + length], start + length

    @property
    def last_offset(self) -> int:
        """The message's offset; for a wrapper, that of the last message inside."""
        return self.offset

    @property
    def next_offset(self) -> int:
        """The offset after the message."""
        return self.offset + 1

    @property
    def size_bytes(self) -> int:
        """The size of the whole message, with the 12 bytes of offset and size."""
        return self.size + LOG_OVERHEAD

    @property
    def compression(self) -> CompressionType:
        """The codec; raises UnsupportedCompressionError for an unknown number."""
        return compression_of(self.attributes)

    @property
    def is_compressed(self) -> bool:
        """Whether the message is a wrapper."""
        return self.attributes & COMPRESSION_MASK != 0

    @property
    def timestamp_type(self) -> TimestampType:
        """CREATE_TIME or LOG_APPEND_TIME; CREATE_TIME in magic 0, which has no timestamps."""
        if self.magic and self.attributes & LOG_APPEND_TIME_FLAG:
            return TimestampType.LOG_APPEND_TIME
        return TimestampType.CREATE_TIME

    @property
    def max_timestamp(self) -> int:
        """The timestamp; for a wrapper, producers set the largest timestamp inside."""
        return self.timestamp

    @property
    def is_control(self) -> bool:
        """Always False: control records exist in batches only."""
        return False

    def check_crc(self) -> None:
        """Raise CorruptRecordError if the stored CRC-32 differs from that of the bytes."""
        computed = crc32(self.buffer[MAGIC_OFFSET:])
        if computed != self.crc:
            raise CorruptRecordError(self.position, f"stored crc {self.crc}, computed crc {computed}")

    def records(self, limit: int | None = DECOMPRESSION_LIMIT) -> list[Record]:
        """Return the message, or the messages in the wrapper, with absolute offsets.

        limit: the largest decompressed size of a wrapper. Raises CorruptRecordError for malformed bytes,
        InvalidRecordError for an invalid wrapper (empty, with another magic, a wrapper or an offset above its own
        inside, zstd), UnsupportedCompressionError for an unknown codec.
        """
        if not self.is_compressed:
            return [Record(self.offset, self.timestamp, _copy(self.key), _copy(self.value))]
        messages = list(self._inner_messages(limit))
        base = 0
        # Some producers always send wrappers with offset 0: then the offsets inside are used unchanged.
        if self.magic and self.offset:
            last = messages[-1].offset
            self._check_last(last)
            base = self.offset - last
        appended = self.timestamp_type is TimestampType.LOG_APPEND_TIME
        return [
            Record(
                wrap_int64(base + message.offset),
                self.timestamp if appended else message.timestamp,
                _copy(message.key),
                _copy(message.value),
            )
            for message in messages
        ]

    def contents(self, limit: int | None = DECOMPRESSION_LIMIT) -> Iterator[tuple[int, Buffer | None, Buffer | None]]:
        """Yield (timestamp, key, value) of the message, or of each message in the wrapper.

        One at a time: as objects, small messages need 15 times their bytes. Raises what `records` raises, and
        CorruptRecordError for a wrong CRC in the wrapper.
        """
        if not self.is_compressed:
            yield self.timestamp, self.key, self.value
            return
        appended = self.timestamp_type is TimestampType.LOG_APPEND_TIME
        last = 0
        for message in self._inner_messages(limit):
            message.check_crc()
            yield self.timestamp if appended else message.timestamp, message.key, message.value
            last = message.offset
        self._check_last(last)

    def _check_last(self, last: int) -> None:
        """Check the offset of a wrapper, given the offset of the last message inside. Raises InvalidRecordError."""
        if self.magic and self.offset and self.offset < last:
            raise InvalidRecordError(f"wrapper of offset {self.offset} holds a message of offset {last}")

    def _inner_messages(self, limit: int | None) -> "Iterator[LegacyMessage]":
        if self.value is None:
            raise InvalidRecordError("wrapper message without a value")
        codec = self.compression
        if codec is CompressionType.ZSTD:
            raise InvalidRecordError(f"zstd in a message of magic {self.magic}")
        try:
            data = decompress(codec, self.value, limit, magic=self.magic)
            if not data:
                raise InvalidRecordError("wrapper message that holds no messages")
            for message in iter_messages(data):
                if message.magic != self.magic:
                    raise InvalidRecordError(f"magic {message.magic} in a wrapper of magic {self.magic}")
                if message.is_compressed:
                    raise InvalidRecordError("wrapper message inside a wrapper message")
                yield message
        except CorruptRecordError as error:
            raise type(error)(self.position, f"in the wrapper: {error.reason}") from None

    def __repr__(self) -> str:
        return (
            f"LegacyMessage(offset={self.offset}, position={self.position}, size={self.size_bytes}, "
            f"magic={self.magic}, attributes={self.attributes:#x}, timestamp={self.timestamp})"
        )


def _copy(field: memoryview | None) -> bytes | None:
    return None if field is None else bytes(field)


def read_message(buffer: Buffer, position: int = 0) -> LegacyMessage:
    """Return the message at `position`; raises CorruptRecordError if it is malformed, cut off or not magic 0 or 1."""
    view = memoryview(buffer)
    remaining = len(view) - position
    if remaining <= MAGIC_OFFSET:
        raise CorruptRecordError(position, f"{remaining} bytes are too few for a message")
    magic = view[position + MAGIC_OFFSET]
    if magic > 1:
        raise CorruptRecordError(position, f"magic {magic}, expected 0 or 1")
    size: int = _INT32.unpack_from(view, position + LENGTH_OFFSET)[0]
    if size < MIN_MESSAGE_SIZE[magic]:
        raise CorruptRecordError(position, f"message size {size} is less than {MIN_MESSAGE_SIZE[magic]}")
    if size + LOG_OVERHEAD > remaining:
        raise CorruptRecordError(position, f"message of {size + LOG_OVERHEAD} bytes is cut off after {remaining}")
    return LegacyMessage(view[position : position + size + LOG_OVERHEAD], position)


def iter_messages(buffer: Buffer, position: int = 0) -> Iterator[LegacyMessage]:
    """Yield the messages in `buffer` from `position` to its end; wrappers are not opened.

    Raises CorruptRecordError(position, reason) at the first message that is malformed or cut off. CRCs are not checked,
    see `check_crc`.
    """
    view = memoryview(buffer)
    size = len(view)
    while position < size:
        message = read_message(view, position)
        yield message
        position += message.size + LOG_OVERHEAD


def iter_mixed(buffer: Buffer, position: int = 0, *, partial: bool = False) -> Iterator[RecordBatch | LegacyMessage]:
    """Yield batches and messages of every magic: a log that an old Kafka has begun may have both.

    With `partial`, an incomplete element at the end, as after a read of limited size, ends the iteration; without it,
    and for malformed elements, CorruptRecordError is raised.
    """
    view = memoryview(buffer)
    size = len(view)
    while position < size:
        if partial:
            remaining = size - position
            if remaining <= MAGIC_OFFSET:
                return
            length: int = _INT32.unpack_from(view, position + LENGTH_OFFSET)[0]
            if length + LOG_OVERHEAD > remaining:
                return
        element: RecordBatch | LegacyMessage
        if position + MAGIC_OFFSET < size and view[position + MAGIC_OFFSET] < MAGIC_V2:
            element = read_message(view, position)
        else:
            element = read_batch(view, position)
        yield element
        position += element.size_bytes


class MessageSetBuilder:
    """Builds a message set of magic 0 or 1: single messages, or, with a codec, one wrapper with all messages.

    With TimestampType.LOG_APPEND_TIME, every message has the timestamp `log_append_time`.
    """

    __slots__ = (
        "_compression",
        "_first_offset",
        "_level",
        "_log_append_time",
        "_magic",
        "_max_timestamp",
        "_parts",
        "_timestamp_type",
        "count",
        "last_offset",
    )

    def __init__(
        self,
        magic: int,
        compression: CompressionType = CompressionType.NONE,
        timestamp_type: TimestampType = TimestampType.CREATE_TIME,
        log_append_time: int = NO_TIMESTAMP,
        level: int | None = None,
    ) -> None:
        """Raise ValueError for a magic other than 0 and 1, UnsupportedCompressionError for zstd."""
        if magic not in (0, 1):
            raise ValueError(f"message sets have magic 0 or 1, not {magic}")
        if compression is CompressionType.ZSTD:
            raise UnsupportedCompressionError(f"zstd does not exist in messages of magic {magic}")
        self._magic = magic
        self._compression = compression
        self._timestamp_type = timestamp_type
        self._log_append_time = log_append_time
        self._level = level
        self._parts: list[bytes] = []
        self._first_offset = self.last_offset = -1
        self._max_timestamp = NO_TIMESTAMP
        self.count = 0

    def append(self, offset: int, timestamp: int, key: Buffer | None, value: Buffer | None) -> None:
        """Append a message; raises ValueError if the offset is not above the last one."""
        if self.count == 0:
            self._first_offset = offset
        elif offset <= self.last_offset:
            raise ValueError(f"offset {offset} after offset {self.last_offset}")
        if self._timestamp_type is TimestampType.LOG_APPEND_TIME:
            timestamp = self._log_append_time
        self.last_offset = offset
        self._max_timestamp = max(self._max_timestamp, timestamp)
        self.count += 1
        if self._compression and self._magic:
            offset -= self._first_offset
        self._parts.append(self._encode(offset, timestamp, CompressionType.NONE, key, value))

    def build(self) -> bytes:
        """Return the message set; empty bytes without messages."""
        messages = b"".join(self._parts)
        if not self._compression or not messages:
            return messages
        packed = compress(self._compression, messages, self._level, magic=self._magic)
        return self._encode(self.last_offset, self._max_timestamp, self._compression, None, packed)

    def _encode(
        self, offset: int, timestamp: int, codec: CompressionType, key: Buffer | None, value: Buffer | None
    ) -> bytes:
        attributes = int(codec)
        if self._magic:
            if self._timestamp_type is TimestampType.LOG_APPEND_TIME:
                attributes |= LOG_APPEND_TIME_FLAG
            head = struct.pack(">bbq", self._magic, attributes, timestamp)
        else:
            head = struct.pack(">bb", self._magic, attributes)
        body = b"".join(
            (
                head,
                _INT32.pack(-1 if key is None else len(key)),
                b"" if key is None else key,
                _INT32.pack(-1 if value is None else len(value)),
                b"" if value is None else value,
            )
        )
        return b"".join((_LOG_HEADER.pack(offset, len(body) + 4), crc32(body).to_bytes(4, "big"), body))
