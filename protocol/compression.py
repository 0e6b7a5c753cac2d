"""The codecs of record batches and message sets: gzip, snappy, lz4, zstd.

The formats, as written by the Java client:

    gzip    one gzip member (several consecutive members are also read)
    snappy  xerial framing: magic (82 "SNAPPY" 00), int32 version 1, int32 compatible version 1, then blocks
            of int32 length and raw snappy of at most 32 KiB; raw snappy without framing is also read
    lz4     one LZ4 frame of independent 64 KiB blocks (Java refuses linked ones). In messages of magic 0 the
            frame header's checksum also covers the frame's magic number: an old bug that is part of the format
            (KIP-57)
    zstd    one zstd frame; Java's frames do not have their content size

Decompression has a limit, because a few bytes can decompress to gigabytes. The libraries are imported at first use:
together they take 3 ms and 2 MB, and many brokers and clients do not compress.
The ranges of levels are those of Kafka's compression.*.level (KIP-390).
"""

import struct
import zlib
from collections.abc import Sequence
from enum import IntEnum
from typing import Final

from protocol.buffer import Buffer
from protocol.errors import CorruptRecordError, DecompressedTooLargeError, UnsupportedCompressionError


class CompressionType(IntEnum):
    """The number of a codec in the attributes of a batch or message."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4

    @property
    def config_name(self) -> str:
        """The name in a producer's settings: none, gzip, snappy, lz4, zstd."""
        return self.name.lower()

    @classmethod
    def from_config_name(cls, name: str) -> "CompressionType":
        """Return the codec of a name; "uncompressed", used by topics, is NONE. Raises ValueError for other names."""
        if name == "uncompressed":
            return cls.NONE
        for codec in cls:
            if codec.name.lower() == name:
                return codec
        raise ValueError(f"unknown compression name {name!r}")


LEVELS: Final[dict[CompressionType, Sequence[int]]] = {
    CompressionType.GZIP: (-1, *range(1, 10)),
    CompressionType.LZ4: range(1, 18),
    CompressionType.ZSTD: range(-131072, 23),
}
"""The valid levels of each codec, with Kafka's -1 for gzip's own default."""

_GZIP_WBITS: Final = 31
_XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
_XERIAL_HEADER: Final = _XERIAL_MAGIC + b"\x00\x00\x00\x01\x00\x00\x00\x01"
_XERIAL_BLOCK: Final = 32 * 1024
_SNAPPY_MAX_RATIO: Final = 22  # a copy element of three bytes decompresses to at most 64
_LZ4_MAGIC: Final = b"\x04\x22\x4d\x18"
_LZ4_DESCRIPTOR: Final = b"\x60\x40"  # version 1, independent blocks without checksums; 64 KiB at most each
_LZ4_BLOCK: Final = 64 * 1024
_LZ4_MAX_RATIO: Final = 255
_LZ4_FAST_LEVEL: Final = 9  # Kafka's default level; it selects the fast compressor, not level 9
_ZSTD_DEFAULT_LEVEL: Final = 3
_ZSTD_MAGIC: Final = b"\x28\xb5\x2f\xfd"
_ZSTD_MAX_RATIO: Final = 32 * 1024  # a block of four bytes can decompress to 128 KiB
_ZSTD_PIECE: Final = 2 * 1024


def compress(codec: CompressionType, data: Buffer, level: int | None = None, *, magic: int = 2) -> bytes:
    """Compress `data` in the format of a batch, or of a message with `magic` 0 or 1.

    level: None is the codec's default; snappy ignores it. Raises ValueError for a level outside the codec's range.
    """
    if level is not None and codec in LEVELS and level not in LEVELS[codec]:
        raise ValueError(f"{codec.config_name} has no compression level {level}")
    match codec:
        case CompressionType.GZIP:
            return zlib.compress(data, -1 if level is None else level, _GZIP_WBITS)
        case CompressionType.SNAPPY:
            return _snappy_compress(data)
        case CompressionType.LZ4:
            return _lz4_compress(data, level, broken_checksum=magic == 0)
        case CompressionType.ZSTD:
            from zstandard import ZstdCompressor

            return ZstdCompressor(_ZSTD_DEFAULT_LEVEL if level is None else level).compress(data)
        case _:
            return bytes(data)


def decompress(codec: CompressionType, data: Buffer, limit: int | None = None, *, magic: int = 2) -> bytes | memoryview:
    """Decompress `data`; for NONE return a view on it.

    Raises CorruptRecordError (position 0) if `data` is not valid for the codec or is cut off, DecompressedTooLargeError
    if it decompresses to more than `limit` bytes. Bytes after the compressed stream are ignored, as in Kafka.
    """
    match codec:
        case CompressionType.GZIP:
            return _gzip_decompress(data, limit)
        case CompressionType.SNAPPY:
            return _snappy_decompress(data, limit)
        case CompressionType.LZ4:
            return _lz4_decompress(data, limit, ignore_checksum=magic == 0)
        case CompressionType.ZSTD:
            return _zstd_decompress(data, limit)
        case CompressionType.NONE:
            return memoryview(data)
        case _:
            raise UnsupportedCompressionError(f"unknown compression type {codec}")


def _too_large(codec: str, limit: int | None) -> DecompressedTooLargeError:
    return DecompressedTooLargeError(0, f"{codec} data decompresses to more than {limit} bytes")


def _gzip_decompress(data: Buffer, limit: int | None) -> bytes:
    parts: list[bytes] = []
    total = 0
    rest: Buffer = data
    while True:
        stream = zlib.decompressobj(_GZIP_WBITS)
        try:
            # max_length 0 means no limit, so the limit is one byte more than allowed.
            part = stream.decompress(rest, 0 if limit is None else limit - total + 1)
        except zlib.error as error:
            raise CorruptRecordError(0, f"gzip: {error}") from None
        total += len(part)
        if limit is not None and total > limit:
            raise _too_large("gzip", limit)
        if not stream.eof:
            raise CorruptRecordError(0, "gzip: data is cut off")
        parts.append(part)
        rest = stream.unused_data
        if not rest.startswith(b"\x1f\x8b"):
            return part if len(parts) == 1 else b"".join(parts)


def _snappy_compress(data: Buffer) -> bytes:
    from cramjam import snappy

    parts: list[Buffer] = [_XERIAL_HEADER]
    view = memoryview(data)
    for start in range(0, len(view), _XERIAL_BLOCK):
        block = bytes(snappy.compress_raw(view[start : start + _XERIAL_BLOCK]))
        parts += (len(block).to_bytes(4, "big"), block)
    return b"".join(parts)


def _snappy_decompress(data: Buffer, limit: int | None) -> bytes:
    view = memoryview(data)
    if bytes(view[:8]) != _XERIAL_MAGIC:
        return _snappy_block(view, limit, limit)
    size = len(view)
    if size < len(_XERIAL_HEADER):
        raise CorruptRecordError(0, "snappy: framing header is cut off")
    parts: list[bytes] = []
    total = 0
    position = len(_XERIAL_HEADER)
    while position < size:
        # Streams may be concatenated: the next stream's header follows instead of a block length.
        if bytes(view[position : position + 8]) == _XERIAL_MAGIC:
            position += len(_XERIAL_HEADER)
            continue
        if size - position < 4:
            raise CorruptRecordError(0, "snappy: block length is cut off")
        length = int.from_bytes(view[position : position + 4], "big", signed=True)
        position += 4
        if not 0 <= length <= size - position:
            raise CorruptRecordError(0, f"snappy: block of {length} bytes, {size - position} are left")
        part = _snappy_block(view[position : position + length], None if limit is None else limit - total, limit)
        parts.append(part)
        total += len(part)
        position += length
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _snappy_block(block: memoryview, room: int | None, limit: int | None) -> bytes:
    from cramjam import DecompressionError, snappy

    try:
        length = snappy.decompress_raw_len(block)
        if room is not None and length > room:
            raise _too_large("snappy", limit)
        # The library allocates the length in the block, so a length that is not possible in the format is refused.
        if length > _SNAPPY_MAX_RATIO * len(block) + 64:
            raise CorruptRecordError(0, f"snappy: {len(block)} bytes cannot decompress to {length}")
        return bytes(snappy.decompress_raw(block))
    except DecompressionError as error:
        raise CorruptRecordError(0, f"snappy: {error}") from None


def _lz4_compress(data: Buffer, level: int | None, *, broken_checksum: bool) -> bytes:
    from cramjam import lz4

    checksum = _xxh32(_LZ4_MAGIC + _LZ4_DESCRIPTOR if broken_checksum else _LZ4_DESCRIPTOR) >> 8 & 0xFF
    parts: list[Buffer] = [_LZ4_MAGIC, _LZ4_DESCRIPTOR, bytes((checksum,))]
    view = memoryview(data)
    for start in range(0, len(view), _LZ4_BLOCK):
        block = view[start : start + _LZ4_BLOCK]
        if level is None or level == _LZ4_FAST_LEVEL:
            packed = bytes(lz4.compress_block(block, store_size=False))
            if len(packed) < len(block):
                parts += (len(packed).to_bytes(4, "little"), packed)
            else:
                parts += ((len(block) | 0x80000000).to_bytes(4, "little"), block)
        else:
            parts += _lz4_leveled_blocks(bytes(block), level)
    parts.append(b"\x00\x00\x00\x00")
    return b"".join(parts)


def _lz4_leveled_blocks(data: bytes, level: int) -> list[Buffer]:
    """Return the lengths and bytes of the blocks for at most 64 KiB of `data`."""
    from cramjam import lz4

    # The library supports levels for frames only, so the blocks are taken from a frame, without their checksums.
    stream = lz4.Compressor(level=level, content_checksum=False, block_linked=False)
    stream.compress(data)
    frame = bytes(stream.finish())
    checksum_size = 4 if frame[4] & 0x10 else 0
    position = _lz4_descriptor_end(memoryview(frame)) + 1
    parts: list[Buffer] = []
    while word := int.from_bytes(frame[position : position + 4], "little"):
        end = position + 4 + (word & 0x7FFFFFFF)
        parts.append(frame[position:end])
        position = end + checksum_size
    return parts


def _lz4_decompress(data: Buffer, limit: int | None, *, ignore_checksum: bool) -> bytes:
    from cramjam import DecompressionError, lz4

    view = memoryview(data)
    descriptor_end = _lz4_descriptor_end(view)
    end, bound = _lz4_walk(view, descriptor_end)
    frame: Buffer = view[:end]
    if ignore_checksum:
        copy = bytearray(frame)
        copy[descriptor_end] = _xxh32(bytes(view[4:descriptor_end])) >> 8 & 0xFF
        frame = copy
    try:
        if limit is None or bound <= limit:
            return bytes(lz4.decompress(frame))
        output = bytearray(limit)
        length = lz4.decompress_into(frame, output)
    except DecompressionError as error:
        if "whole buffer" in str(error):
            raise _too_large("lz4", limit) from None
        raise CorruptRecordError(0, f"lz4: {error}") from None
    return bytes(memoryview(output)[:length])


def _lz4_descriptor_end(view: memoryview) -> int:
    """Check magic number and version of a frame; return the end of its descriptor, the position of its checksum."""
    if bytes(view[:4]) != _LZ4_MAGIC:
        raise CorruptRecordError(0, "lz4: the frame magic is missing")
    if len(view) < 7:
        raise CorruptRecordError(0, "lz4: frame header is cut off")
    flags = view[4]
    if flags >> 6 != 1:
        raise CorruptRecordError(0, f"lz4: unsupported frame version {flags >> 6}")
    if flags & 0x01:
        raise CorruptRecordError(0, "lz4: frame needs a dictionary")
    end = 6 + (8 if flags & 0x08 else 0)
    if end >= len(view):
        raise CorruptRecordError(0, "lz4: frame header is cut off")
    return end


def _lz4_walk(view: memoryview, descriptor_end: int) -> tuple[int, int]:
    """Return the end of the frame and an upper bound of its decompressed size, from its block lengths."""
    flags = view[4]
    block_size = 1 << (2 * (view[5] >> 4 & 0x07) + 8)
    position = descriptor_end + 1
    size = len(view)
    bound = 0
    while True:
        if size - position < 4:
            raise CorruptRecordError(0, "lz4: frame is cut off")
        length = int.from_bytes(view[position : position + 4], "little")
        position += 4
        if length == 0:
            break
        if length & 0x80000000:
            length &= 0x7FFFFFFF
            bound += length
        else:
            bound += min(block_size, length * _LZ4_MAX_RATIO)
        position += length + (4 if flags & 0x10 else 0)
        if position > size:
            raise CorruptRecordError(0, f"lz4: block of {length} bytes is cut off")
    position += 4 if flags & 0x04 else 0
    if position > size:
        raise CorruptRecordError(0, "lz4: frame is cut off")
    return position, bound


def _xxh32(data: bytes) -> int:
    """Return xxHash32 with seed 0 of fewer than 16 bytes, which is sufficient for a frame header."""
    mask = 0xFFFFFFFF
    value = 374761393 + len(data)
    whole = len(data) // 4
    for word in struct.unpack_from(f"<{whole}I", data):
        value = (value + word * 3266489917) & mask
        value = ((value << 17 | value >> 15) * 668265263) & mask
    for byte in data[whole * 4 :]:
        value = (value + byte * 374761393) & mask
        value = ((value << 11 | value >> 21) * 2654435761) & mask
    value = ((value ^ value >> 15) * 2246822519) & mask
    value = ((value ^ value >> 13) * 3266489917) & mask
    return value ^ value >> 16


def _zstd_decompress(data: Buffer, limit: int | None) -> bytes:
    from zstandard import ZstdDecompressor, ZstdError, frame_content_size

    parts: list[bytes] = []
    total = 0
    rest = memoryview(data)
    try:
        while True:
            size = frame_content_size(rest)
            if limit is not None and total + size > limit:
                raise _too_large("zstd", limit)
            stream = ZstdDecompressor().decompressobj()
            # One call decompresses its whole input. If the input could decompress to more than the limit, it is
            # passed in small pieces.
            piece = len(rest) if limit is None or len(rest) * _ZSTD_MAX_RATIO <= limit else _ZSTD_PIECE
            position = 0
            while not stream.eof:
                if position >= len(rest):
                    raise CorruptRecordError(0, "zstd: data is cut off")
                part = stream.decompress(rest[position : position + piece])
                position += piece
                total += len(part)
                if limit is not None and total > limit:
                    raise _too_large("zstd", limit)
                parts.append(part)
            rest = rest[min(position, len(rest)) - len(stream.unused_data) :]
            if bytes(rest[:4]) != _ZSTD_MAGIC:
                return parts[0] if len(parts) == 1 else b"".join(parts)
    except ZstdError as error:
        raise CorruptRecordError(0, f"zstd: {error}") from None
