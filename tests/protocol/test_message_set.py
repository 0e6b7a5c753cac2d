"""Message sets of magic 0 and 1: Kafka's frames, other clients' bytes, wrappers, and what is refused."""

import gzip
import json
import struct
from zlib import crc32

import pytest
from aiokafka.record.legacy_records import LegacyRecordBatch as AiokafkaBatch
from aiokafka.record.legacy_records import LegacyRecordBatchBuilder as AiokafkaBuilder
from hypothesis import given, settings
from hypothesis import strategies as st

from protocol.compression import CompressionType, compress
from protocol.errors import CorruptRecordError, InvalidRecordError, UnsupportedCompressionError
from protocol.message_set import MessageSetBuilder, iter_messages, iter_mixed, read_message
from protocol.record import Record
from protocol.record_batch import RecordBatch, TimestampType
from support.batches import build, some_rows
from support.counts import count
from support.kafka_python import LegacyRecordBatch as KafkaPythonBatch
from support.kafka_python import LegacyRecordBatchBuilder as KafkaPythonBuilder
from support.reference import REFERENCE

OLD_CODECS = list(CompressionType)[:4]
Rows = list[tuple[int, int, bytes | None, bytes | None]]


def build_set(magic: int, rows: Rows, codec: CompressionType = CompressionType.NONE) -> bytes:
    builder = MessageSetBuilder(magic, codec)
    for row in rows:
        builder.append(*row)
    return builder.build()


def read_all(message_set: bytes) -> Rows:
    rows: Rows = []
    for message in iter_messages(message_set):
        message.check_crc()
        rows += [(r.offset, r.timestamp, r.key, r.value) for r in message.records()]
    return rows


def some(magic: int, number: int = 5) -> Rows:
    return [
        (10 + 2 * i, 1000 + i if magic else -1, None if i == 2 else b"k%d" % i, None if i == 3 else b"v" * i)
        for i in range(number)
    ]


def wrapper(magic: int, inner: bytes | None, offset: int, attributes: int = 1, timestamp: int = 7) -> bytes:
    head = struct.pack(">bb", magic, attributes) + (struct.pack(">q", timestamp) if magic else b"")
    packed = None if inner is None else compress(CompressionType(attributes & 7), inner, magic=magic)
    body = head + struct.pack(">ii", -1, -1 if packed is None else len(packed)) + (packed or b"")
    return struct.pack(">qiI", offset, len(body) + 4, crc32(body)) + body


def produce_frames() -> dict[int, bytes]:
    frames = {}
    for line in (REFERENCE / "wire" / "version-sweep.jsonl").read_text().splitlines():
        frame = json.loads(line)
        if frame["api_key"] == 0 and frame["direction"] == "request" and frame["api_version"] in (0, 2):
            data = bytes.fromhex(frame["frame"])
            # one topic of that name and one partition: behind them the set's size and the set
            at = data.index(b"sweep", 20) + 5 + 4 + 4
            size = int.from_bytes(data[at : at + 4], "big")
            frames[frame["api_version"]] = data[at + 4 : at + 4 + size]
    return frames


def test_the_recorded_produce_requests() -> None:
    frames = produce_frames()
    assert [message.magic for message in iter_messages(frames[0])] == [0]
    assert [message.magic for message in iter_messages(frames[2])] == [1]
    assert read_all(frames[0]) == [(0, -1, b"k0", b"sweep v0")]
    assert read_all(frames[2]) == [(0, 1_700_000_000_000, b"k0", b"sweep v2")]
    assert build_set(0, read_all(frames[0])) == frames[0]
    assert build_set(1, read_all(frames[2])) == frames[2]


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", OLD_CODECS)
def test_round_trip(magic: int, codec: CompressionType) -> None:
    message_set = build_set(magic, some(magic), codec)
    assert read_all(message_set) == some(magic)
    messages = list(iter_messages(message_set))
    assert len(messages) == (5 if codec is CompressionType.NONE else 1)
    assert messages[-1].last_offset == 18
    assert messages[-1].next_offset == 19
    assert messages[-1].max_timestamp == (1004 if magic else -1)
    assert sum(message.size_bytes for message in messages) == len(message_set)
    assert all(message.compression is codec and not message.is_control for message in messages)


def test_inner_offsets_are_absolute_in_magic_0_and_relative_in_magic_1() -> None:
    inner = [struct.unpack_from(">q", first_inner_message(magic), 0)[0] for magic in (0, 1)]
    assert inner == [10, 0]


def first_inner_message(magic: int) -> bytes:
    """The first message inside a wrapper, unfolded by another's hand."""
    message = read_message(build_set(magic, some(magic), CompressionType.GZIP))
    assert message.value is not None
    return gzip.decompress(message.value)


@pytest.mark.parametrize(
    ("magic", "codec"),
    # aiokafka has no lz4 for magic 0
    [(magic, codec) for magic in (0, 1) for codec in OLD_CODECS if (magic, codec) != (0, CompressionType.LZ4)],
)
def test_aiokafka_in_both_directions(magic: int, codec: CompressionType) -> None:
    rows: Rows = [(i, 1000 + i if magic else -1, b"key", b"value %d" % i * 9) for i in range(20)]
    builder = AiokafkaBuilder(magic, int(codec), 1 << 20)
    for offset, timestamp, key, value in rows:
        builder.append(offset, timestamp if magic else None, key, value)
    assert read_all(bytes(builder.build())) == rows
    ours = build_set(magic, rows, codec)
    batches = [ours] if codec else [bytes(message.buffer) for message in iter_messages(ours)]
    theirs = [record for batch in batches for record in AiokafkaBatch(batch, magic)]
    assert all(AiokafkaBatch(batch, magic).validate_crc() for batch in batches)
    assert [(r.offset, r.timestamp if magic else -1, r.key, r.value) for r in theirs] == rows


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", OLD_CODECS[:2])
@given(
    fields=st.lists(
        st.tuples(st.integers(0, 2**62), st.none() | st.binary(max_size=50), st.none() | st.binary(max_size=90)),
        min_size=1,
        max_size=20,
    )
)
@pytest.mark.counted
@settings(max_examples=count(25, 500))
def test_kafka_python_in_both_directions(magic: int, codec: CompressionType, fields: list) -> None:
    rows: Rows = [(i, timestamp if magic else -1, key, value) for i, (timestamp, key, value) in enumerate(fields)]
    builder = KafkaPythonBuilder(magic, int(codec), 1 << 20)
    for offset, timestamp, key, value in rows:
        builder.append(offset, timestamp=timestamp, key=key, value=value)
    assert read_all(bytes(builder.build())) == rows
    ours = build_set(magic, rows, codec)
    batches = [ours] if codec else [bytes(message.buffer) for message in iter_messages(ours)]
    theirs = [record for batch in batches for record in KafkaPythonBatch(batch, magic)]
    assert [(r.offset, r.timestamp if magic else -1, r.key, r.value) for r in theirs] == rows


def test_log_append_time_of_the_wrapper_applies_to_all_messages() -> None:
    builder = MessageSetBuilder(1, CompressionType.GZIP, TimestampType.LOG_APPEND_TIME, 99)
    for row in some(1):
        builder.append(*row)
    message = read_message(builder.build())
    assert message.timestamp_type is TimestampType.LOG_APPEND_TIME
    assert {record.timestamp for record in message.records()} == {99}
    inner = build_set(1, some(1))
    assert {r.timestamp for r in read_message(wrapper(1, inner, 18, 1 | 8, 55)).records()} == {55}


def test_a_wrapper_of_offset_0_leaves_the_offsets_inside() -> None:
    inner = build_set(1, [(0, 1, b"a", b"b"), (1, 2, b"c", b"d")])
    assert [record.offset for record in read_message(wrapper(1, inner, 0)).records()] == [0, 1]
    assert [record.offset for record in read_message(wrapper(1, inner, 101)).records()] == [100, 101]


@pytest.mark.parametrize(
    ("message_set", "reason"),
    [
        (wrapper(0, b"", 1), "no messages"),
        (wrapper(1, None, 1), "without a value"),
        (wrapper(1, build_set(1, some(1)), 5), "wrapper of offset 5"),
        (wrapper(1, build_set(0, some(0)), 18), "magic 0 in a wrapper of magic 1"),
        (wrapper(0, build_set(1, some(1)), 18), "magic 1 in a wrapper of magic 0"),
        (wrapper(0, build_set(0, some(0), CompressionType.GZIP), 18), "inside a wrapper"),
        (wrapper(1, build_set(1, some(1)), 18, 4), "zstd"),
    ],
)
def test_invalid_wrappers_are_refused(message_set: bytes, reason: str) -> None:
    message = read_message(message_set)
    message.check_crc()
    with pytest.raises(InvalidRecordError, match=reason):
        message.records()


def test_offsets_inside_that_overflow_wrap_around() -> None:
    """As in Kafka, which renumbers the records anyhow; nothing but an int64 may come out."""
    inner = build_set(1, [(2**62, 1, None, b"a")]) + build_set(1, [(-(2**62), 1, None, b"b")])
    offsets = [record.offset for record in read_message(wrapper(1, inner, 2**62)).records()]
    assert offsets == [-(2**62), 2**62]


def test_corruption_inside_a_wrapper() -> None:
    inner = bytearray(build_set(1, some(1)))
    inner[-1] ^= 1
    message = read_message(wrapper(1, bytes(inner), 18))
    assert len(message.records()) == 5
    with pytest.raises(CorruptRecordError, match="crc"):
        list(message.contents())
    contents = message.contents()
    assert [next(contents)[0] for _ in range(4)] == [record.timestamp for record in message.records()[:4]]  # not all
    with pytest.raises(CorruptRecordError, match="cut off"):
        read_message(wrapper(1, bytes(inner[:-1]), 18)).records()
    with pytest.raises(CorruptRecordError, match="more than 50 bytes"):
        message.records(50)
    with pytest.raises(UnsupportedCompressionError):
        read_message(wrapper(1, b"", 1)[:17] + b"\x07" + wrapper(1, b"", 1)[18:]).records()


@pytest.mark.parametrize("magic", [0, 1])
def test_damage_is_refused(magic: int) -> None:
    good = build_set(magic, [(1, 2, b"key", b"value")])
    for length in range(1, len(good)):
        with pytest.raises(CorruptRecordError):
            list(iter_messages(good + good[:length]))
    for position in range(12, len(good)):
        bad = bytearray(good)
        bad[position] ^= 0x10
        with pytest.raises(CorruptRecordError):
            read_message(bad).check_crc()
    with pytest.raises(CorruptRecordError, match="magic 2"):
        read_message(build(some_rows(1)))
    with pytest.raises(CorruptRecordError, match="less than"):
        read_message(good[:8] + b"\x00\x00\x00\x0d" + good[12:])


def test_a_message_must_be_filled_by_key_and_value() -> None:
    body = build_set(0, [(0, -1, b"k", b"v")])[16:] + b"\x00"
    message_set = struct.pack(">qiI", 0, len(body) + 4, crc32(body)) + body
    with pytest.raises(CorruptRecordError, match="key and value end at byte 28 of 29"):
        read_message(message_set)


def test_a_log_that_holds_all_formats() -> None:
    parts = [
        build_set(0, some(0)),
        build_set(1, some(1), CompressionType.GZIP),
        bytes(build(some_rows(3), 50)),
    ]
    whole = b"".join(parts)
    elements = list(iter_mixed(whole))
    assert [element.magic for element in elements] == [0] * 5 + [1, 2]
    assert b"".join(bytes(element.buffer) for element in elements) == whole
    assert isinstance(elements[-1], RecordBatch)
    with pytest.raises(CorruptRecordError):
        list(iter_mixed(whole[:-1]))
    for length in range(len(whole) - len(parts[2]), len(whole)):
        assert len(list(iter_mixed(whole[:length], partial=True))) == 6
    with pytest.raises(CorruptRecordError, match="magic 9"):
        list(iter_mixed(whole + b"\x00" * 16 + b"\x09"))


def test_builder_errors() -> None:
    with pytest.raises(ValueError, match="magic"):
        MessageSetBuilder(2)
    with pytest.raises(UnsupportedCompressionError):
        MessageSetBuilder(1, CompressionType.ZSTD)
    builder = MessageSetBuilder(1)
    builder.append(5, 0, None, None)
    with pytest.raises(ValueError, match="offset 5"):
        builder.append(5, 0, None, None)
    assert MessageSetBuilder(1, CompressionType.GZIP).build() == b""


def test_records_of_a_single_message() -> None:
    assert read_message(build_set(1, [(4, 5, None, b"")])).records() == [Record(4, 5, None, b"")]
