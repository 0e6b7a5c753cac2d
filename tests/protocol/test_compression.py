"""The codecs: what they write, what they read of others, and what they refuse."""

import gzip
import zlib

import cramjam
import pytest
import zstandard
from aiokafka import codec as aiokafka_codec

from protocol.compression import LEVELS, CompressionType, _xxh32, compress, decompress
from protocol.errors import CorruptRecordError
from support.kafka_python import codec as kafka_codec

CODECS = list(CompressionType)[1:]
NOISE = zlib.compress(bytes(range(256)) * 3)[2:200]
SAMPLES = [
    b"",
    b"x",
    NOISE,
    b"abc" * 5000,
    b"".join(b"%d;" % i for i in range(30_000)),
    bytes(200_000),
    NOISE * 700,
]


@pytest.mark.parametrize("codec", CompressionType)
@pytest.mark.parametrize("sample", range(len(SAMPLES)))
def test_round_trip(codec: CompressionType, sample: int) -> None:
    data = SAMPLES[sample]
    packed = compress(codec, data)
    for given in (packed, bytearray(packed), memoryview(packed)):
        assert bytes(decompress(codec, given)) == data
    assert bytes(decompress(codec, packed, len(data))) == data
    assert compress(codec, memoryview(b"pp" + data)[2:]) == packed


@pytest.mark.parametrize("codec", LEVELS)
def test_levels(codec: CompressionType) -> None:
    data = b"".join(b"%d is %x of %o;" % (i % 97, i * i, i) for i in range(3000))
    levels = sorted({LEVELS[codec][0], LEVELS[codec][1], LEVELS[codec][-1], 1, 5, 9})
    sizes = {}
    for level in levels:
        packed = compress(codec, data, level)
        assert decompress(codec, packed) == data
        sizes[level] = len(packed)
    assert sizes[max(levels)] < sizes[1]
    for level in (
        LEVELS[codec][-1] + 1,
        LEVELS[codec][0] - 1,
        0 if codec is not CompressionType.ZSTD else 23,
    ):
        with pytest.raises(ValueError, match="level"):
            compress(codec, data, level)


def test_level_9_of_lz4_is_its_fast_default() -> None:
    assert compress(CompressionType.LZ4, SAMPLES[4], 9) == compress(CompressionType.LZ4, SAMPLES[4])


def test_names() -> None:
    assert [codec.config_name for codec in CompressionType] == ["none", "gzip", "snappy", "lz4", "zstd"]
    assert CompressionType.from_config_name("uncompressed") is CompressionType.NONE
    assert CompressionType.from_config_name("zstd") is CompressionType.ZSTD
    with pytest.raises(ValueError, match="producer"):
        CompressionType.from_config_name("producer")


@pytest.mark.parametrize("data", SAMPLES[1:])
def test_aiokafka_reads_ours_and_we_read_its(data: bytes) -> None:
    pairs = [
        (CompressionType.GZIP, aiokafka_codec.gzip_encode, aiokafka_codec.gzip_decode),
        (CompressionType.SNAPPY, aiokafka_codec.snappy_encode, aiokafka_codec.snappy_decode),
        (CompressionType.LZ4, aiokafka_codec.lz4_encode, aiokafka_codec.lz4_decode),
        (CompressionType.ZSTD, aiokafka_codec.zstd_encode, aiokafka_codec.zstd_decode),
    ]
    for codec, encode, decode in pairs:
        assert bytes(decode(compress(codec, data))) == data
        assert decompress(codec, bytes(encode(data))) == data


def test_kafka_python_reads_ours_and_we_read_its() -> None:
    for data in SAMPLES[1:]:
        assert kafka_codec.gzip_decode(compress(CompressionType.GZIP, data)) == data
        assert decompress(CompressionType.GZIP, kafka_codec.gzip_encode(data)) == data


def test_gzip_with_several_members_and_with_trailing_garbage() -> None:
    packed = gzip.compress(b"one ") + gzip.compress(b"two")
    assert decompress(CompressionType.GZIP, packed) == b"one two"
    assert decompress(CompressionType.GZIP, packed + b"\x00rubbish") == b"one two"
    with pytest.raises(CorruptRecordError, match="more than 6"):
        decompress(CompressionType.GZIP, packed, 6)


def test_snappy_is_framed_in_blocks_of_32_kib_as_java_frames_it() -> None:
    packed = compress(CompressionType.SNAPPY, SAMPLES[4])
    assert packed[:16] == b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01"
    position, sizes = 16, []
    while position < len(packed):
        length = int.from_bytes(packed[position : position + 4], "big")
        sizes.append(cramjam.snappy.decompress_raw_len(packed[position + 4 : position + 4 + length]))
        position += 4 + length
    assert set(sizes[:-1]) == {32 * 1024}
    assert sum(sizes) == len(SAMPLES[4])


def test_bare_snappy_and_repeated_frames_are_read() -> None:
    data = SAMPLES[3]
    assert decompress(CompressionType.SNAPPY, bytes(cramjam.snappy.compress_raw(data))) == data
    framed = compress(CompressionType.SNAPPY, data)
    assert decompress(CompressionType.SNAPPY, framed + framed) == data + data


def test_a_snappy_length_beyond_the_formats_means_is_not_allocated() -> None:
    with pytest.raises(CorruptRecordError, match="cannot decompress"):
        decompress(CompressionType.SNAPPY, b"\xff\xff\xff\xff\x0f0")


def test_lz4_has_java_frames_of_independent_64_kib_blocks() -> None:
    for level in (None, 1, 12):
        packed = compress(CompressionType.LZ4, SAMPLES[5], level)
        assert packed[:6] == bytes.fromhex("04224d186040")
        assert bytes(cramjam.lz4.decompress(packed)) == SAMPLES[5]


def test_lz4_reads_other_frames() -> None:
    for options in ({"block_linked": True}, {"content_checksum": True, "block_linked": True, "level": 9}):
        stream = cramjam.lz4.Compressor(**options)
        stream.compress(SAMPLES[4])
        packed = bytes(stream.finish())
        assert decompress(CompressionType.LZ4, packed) == SAMPLES[4]
        assert decompress(CompressionType.LZ4, packed, len(SAMPLES[4])) == SAMPLES[4]
        assert decompress(CompressionType.LZ4, packed + b"rubbish") == SAMPLES[4]


def test_lz4_of_magic_0_has_the_old_header_checksum() -> None:
    data = b"data" * 10
    old = compress(CompressionType.LZ4, data, magic=0)
    new = compress(CompressionType.LZ4, data, magic=1)
    assert new[:7] == bytes.fromhex("04224d18604082")
    assert old[6] == _xxh32(old[:6]) >> 8 & 0xFF != new[6]
    assert old[:6] + old[7:] == new[:6] + new[7:]
    assert decompress(CompressionType.LZ4, old, magic=0) == data
    assert decompress(CompressionType.LZ4, new, magic=0) == data
    with pytest.raises(CorruptRecordError):
        decompress(CompressionType.LZ4, old, magic=1)


def test_xxhash() -> None:
    assert [_xxh32(data) for data in (b"", b"a", b"abc")] == [0x02CC5D05, 0x550D7456, 0x32D153FF]
    # A frame that says its content size has a longer header, whose checksum the library checks.
    new = compress(CompressionType.LZ4, b"data" * 10)
    descriptor = bytes.fromhex("6840") + (40).to_bytes(8, "little")
    sized = new[:4] + descriptor + bytes((_xxh32(descriptor) >> 8 & 0xFF,)) + new[7:]
    assert decompress(CompressionType.LZ4, sized) == b"data" * 10
    wrong = sized[:14] + bytes((sized[14] ^ 1,)) + sized[15:]
    assert decompress(CompressionType.LZ4, wrong, magic=0) == b"data" * 10
    with pytest.raises(CorruptRecordError):
        decompress(CompressionType.LZ4, wrong)


def test_zstd_frames_with_and_without_content_size() -> None:
    data = SAMPLES[4]
    sized = zstandard.ZstdCompressor().compress(data)
    unsized = zstandard.ZstdCompressor(write_content_size=False).compress(data)
    assert zstandard.frame_content_size(unsized) == -1
    for packed in (sized, unsized, sized + unsized, unsized + b"rubbish"):
        count = 2 if packed == sized + unsized else 1
        assert decompress(CompressionType.ZSTD, packed) == data * count
        assert decompress(CompressionType.ZSTD, packed, len(data) * count) == data * count
        with pytest.raises(CorruptRecordError, match="more than"):
            decompress(CompressionType.ZSTD, packed, len(data) * count - 1)


@pytest.mark.parametrize("codec", CODECS)
def test_decompression_bombs_are_refused_before_they_expand(codec: CompressionType) -> None:
    bomb = compress(codec, bytes(30_000_000))
    with pytest.raises(CorruptRecordError, match="more than 100000 bytes"):
        decompress(codec, bomb, 100_000)


@pytest.mark.parametrize("codec", CODECS)
def test_truncated_data_is_refused(codec: CompressionType) -> None:
    packed = compress(codec, SAMPLES[3])
    whole = SAMPLES[3]
    for length in range(0, len(packed), max(1, len(packed) // 300)):
        # Snappy framing has no end mark: that blocks are gone shows only in the record count.
        try:
            assert decompress(codec, packed[:length]) != whole
            assert codec is CompressionType.SNAPPY
        except CorruptRecordError:
            pass
