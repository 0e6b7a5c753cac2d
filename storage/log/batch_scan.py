"""Iterate over the batches of a segment file by their headers, without reading the records.

Batches of magic 2 and messages of the older formats (magic 0 and 1, in directories that old brokers wrote) share the
first 17 bytes: offset, length, (epoch or crc), magic. In the older formats the offset of a compressed message set is
that of its *last* message.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeAlias

from crc32c import crc32c

from protocol.errors import CorruptRecordError
from protocol.record_batch import BATCH_HEADER_SIZE, HEADER, LOG_OVERHEAD
from storage.file_system import CachedFile

_SCAN_BYTES = 8192  # a little more than index.interval.bytes: most lookups are one read
_CHUNK_BYTES = 1 << 20

_PREFIX = struct.Struct(">qi4xb6xi")  # base offset, length, magic, last offset delta
_PREFIX_PAD = bytes(_PREFIX.size)
_MIN_SIZE = LOG_OVERHEAD + 14  # the smallest message of magic 0
_MESSAGE_TIMESTAMP = struct.Struct(">q")


class BatchHeader(NamedTuple):
    """The header of one batch in a file: `position` and `size` in bytes, timestamps in ms."""

    position: int
    size: int
    base_offset: int
    last_offset: int
    magic: int
    attributes: int
    leader_epoch: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    last_offset_delta: int


Pread: TypeAlias = Callable[[int, int, int], bytes | bytearray]
"""(descriptor, length, position) → the bytes. Raises OSError."""


def find_batch(
    file: CachedFile, position: int, end: int, offset: int, pread: Pread | None = None
) -> tuple[int, int] | None:
    """(position, size) of the first batch from `position` on whose last offset is at least `offset`.

    The search ends at byte `end`. pread: instead of the file system's. Raises CorruptRecordError if a length is
    impossible.
    """
    unpack = _PREFIX.unpack_from
    pread = pread or file.fs.pread
    while position < end:
        data = pread(file.open().fd, _SCAN_BYTES if end - position > _SCAN_BYTES else end - position, position)
        available = len(data)
        if available < _SCAN_BYTES:
            data = data + _PREFIX_PAD
            fits = available - _MIN_SIZE
            if fits < 0:
                return None
        else:
            fits = available - _PREFIX.size
        at = 0
        while at <= fits:
            base_offset, length, magic, delta = unpack(data, at)
            if (base_offset + delta if magic >= 2 else base_offset) >= offset:
                return position + at, length + LOG_OVERHEAD
            if length < _MIN_SIZE - LOG_OVERHEAD:
                raise CorruptRecordError(position + at, f"batch length {length}")
            at += length + LOG_OVERHEAD
        position += at
    return None


def parse_header(data: bytes | memoryview, at: int, position: int) -> BatchHeader:
    """The header at index `at` of `data`, from byte `position` of the file. `data` must contain the whole header.

    Raises CorruptRecordError if the magic or the length is impossible.
    """
    length, magic = struct.unpack_from(">i4xb", data, at + 8)
    if magic == 2:
        if length < BATCH_HEADER_SIZE - LOG_OVERHEAD:
            raise CorruptRecordError(position, f"batch length {length}")
        fields = HEADER.unpack_from(data, at)
        return BatchHeader(
            position, length + LOG_OVERHEAD, fields[0], fields[0] + fields[6], 2, fields[5],
            fields[2], fields[8], fields[9], fields[10], fields[11], fields[6],
        )  # fmt: skip
    if magic not in (0, 1):
        raise CorruptRecordError(position, f"unknown magic {magic}")
    if length < _MIN_SIZE - LOG_OVERHEAD + 8 * magic:
        raise CorruptRecordError(position, f"message length {length}")
    offset = _MESSAGE_TIMESTAMP.unpack_from(data, at)[0]
    timestamp = _MESSAGE_TIMESTAMP.unpack_from(data, at + 18)[0] if magic == 1 else -1
    attributes = data[at + 17]
    return BatchHeader(position, length + LOG_OVERHEAD, offset, offset, magic, attributes, -1, timestamp, -1, -1, -1, 0)


def iter_headers(file: CachedFile, position: int, end: int) -> Iterator[BatchHeader]:
    """The headers of the whole batches in [position, end). Raises CorruptRecordError at an impossible header."""
    while position + _MIN_SIZE <= end:
        data = file.fs.pread(file.open().fd, min(_SCAN_BYTES * 8, end - position), position)
        at = 0
        while at + BATCH_HEADER_SIZE <= len(data) or (position + len(data) == end and at + _MIN_SIZE <= len(data)):
            if len(data) - at < BATCH_HEADER_SIZE:
                data += bytes(BATCH_HEADER_SIZE)
            header = parse_header(data, at, position + at)
            if header.position + header.size > end:
                return
            yield header
            at += header.size
            if position + at >= end:
                return
        if at == 0:
            return
        position += at


def iter_valid_batches(
    file: CachedFile,
    end: int,
    position: int = 0,
    *,
    chunk_bytes: int = _CHUNK_BYTES,
    on_read: Callable[[int], None] | None = None,
) -> Iterator[tuple[BatchHeader, memoryview]]:
    """Each batch from `position` up to byte `end`, with its bytes. The checksums are checked.

    A read has `chunk_bytes`, or the size of one batch if that is larger; `on_read` is called with the size before it.
    Raises CorruptRecordError at the first batch that is cut off, malformed or has a wrong checksum.
    """
    for header, batch in iter_whole_batches(file, end, position, chunk_bytes=chunk_bytes, on_read=on_read):
        check_crc(header, batch)
        yield header, batch


def iter_whole_batches(
    file: CachedFile,
    end: int,
    position: int = 0,
    *,
    chunk_bytes: int = _CHUNK_BYTES,
    on_read: Callable[[int], None] | None = None,
) -> Iterator[tuple[BatchHeader, memoryview]]:
    """Like `iter_valid_batches`, without a check of the checksums."""
    chunk = b""
    start = position  # position of the chunk in the file

    def read(size: int) -> bytes:
        if on_read is not None:
            on_read(size)
        return file.fs.pread(file.open().fd, size, position)

    while position < end:
        at = position - start
        if len(chunk) - at < BATCH_HEADER_SIZE and start + len(chunk) < end:
            chunk, start, at = read(min(chunk_bytes, end - position)), position, 0
        if len(chunk) - at < _MIN_SIZE:
            raise CorruptRecordError(position, f"{len(chunk) - at} bytes are too few for a batch")
        padded = chunk if len(chunk) - at >= BATCH_HEADER_SIZE else chunk[at:] + bytes(BATCH_HEADER_SIZE)
        header = parse_header(padded, at if padded is chunk else 0, position)
        if position + header.size > end:
            raise CorruptRecordError(position, f"batch of {header.size} bytes is cut off after {end - position}")
        if at + header.size > len(chunk):
            chunk, start, at = read(max(min(chunk_bytes, end - position), header.size)), position, 0
        if len(chunk) - at < header.size:
            raise CorruptRecordError(position, "the file is shorter than it was")
        batch = memoryview(chunk)[at : at + header.size]
        yield header, batch
        position += header.size


def check_crc(header: BatchHeader, batch: memoryview) -> None:
    """Raise CorruptRecordError if the stored checksum does not match the bytes."""
    if header.magic == 2:
        stored = struct.unpack_from(">I", batch, 17)[0]
        computed = crc32c(batch[21:])
    else:
        stored = struct.unpack_from(">I", batch, 12)[0]
        computed = zlib.crc32(batch[16:])
    if stored != computed:
        raise CorruptRecordError(header.position, f"stored crc {stored}, computed crc {computed}")
