"""The view on one batch, the walk over many, patches in place, and what is refused."""

import struct

import pytest

from protocol.compression import CompressionType
from protocol.errors import CorruptRecordError, InvalidRecordError, UnsupportedCompressionError
from protocol.record import INT64_MAX, NO_HEADERS, Record, read_records
from protocol.record_batch import (
    BATCH_HEADER_SIZE,
    HEADER,
    TimestampType,
    increment_sequence,
    iter_batches,
    read_batch,
    set_base_offset,
    set_max_timestamp,
    set_max_timestamp_log_append,
    set_partition_leader_epoch,
    update_crc,
)
from protocol.record_batch_builder import RecordBatchBuilder, empty_batch
from support.batches import build, rows_of, some_rows


def patched(batch: bytearray, form: str, offset: int, value: int) -> bytearray:
    copy = bytearray(batch)
    struct.pack_into(form, copy, offset, value)
    return copy


def test_the_header_struct_is_61_bytes() -> None:
    assert HEADER.size == BATCH_HEADER_SIZE == 61


def test_iter_batches_walks_to_the_end_and_gives_positions() -> None:
    first, second = build(some_rows(3)), build(some_rows(2), base_offset=3)
    batches = list(iter_batches(b"junk" + first + second, 4))
    assert [(batch.position, batch.base_offset, batch.next_offset) for batch in batches] == [
        (4, 0, 3),
        (4 + len(first), 3, 5),
    ]
    assert [bytes(batch.buffer) for batch in batches] == [bytes(first), bytes(second)]
    assert [batch.size_bytes for batch in batches] == [len(first), len(second)]


def test_empty_data_has_no_batches() -> None:
    assert list(iter_batches(b"")) == []


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda batch: batch[:11], "too few"),
        (lambda batch: batch[:40], "cut off"),
        (lambda batch: batch[:-1], "cut off"),
        (lambda batch: batch + b"\x00", "too few"),
        (lambda batch: patched(batch, ">b", 16, 1), "magic 1"),
        (lambda batch: patched(batch, ">b", 16, 3), "magic 3"),
        (lambda batch: patched(batch, ">i", 8, 48), "less than"),
        (lambda batch: patched(batch, ">i", 8, -1), "less than"),
        (lambda batch: patched(batch, ">i", 8, 2**31 - 1), "cut off"),
        (lambda batch: patched(batch, ">i", 57, -1), "record count -1"),
        (lambda batch: patched(batch, ">i", 23, -1), "last offset delta -1"),
    ],
)
def test_iter_batches_errors(damage, reason) -> None:
    good = build(some_rows(3))
    batches = iter_batches(good + damage(good))
    assert next(batches).position == 0
    with pytest.raises(CorruptRecordError, match=reason) as caught:
        list(batches)
    assert caught.value.position in {len(good), 2 * len(good)}


def test_check_crc_covers_every_byte_from_the_attributes_on() -> None:
    good = build(some_rows(2))
    for position in range(len(good)):
        bad = bytearray(good)
        bad[position] ^= 0x40
        if position < 17:
            continue
        if position in range(23, 27) or position in range(57, 61):
            continue  # negative counts are refused before the checksum is looked at
        with pytest.raises(CorruptRecordError, match="computed crc"):
            read_batch(bad).check_crc()


def test_base_offset_and_epoch_are_set_without_the_crc() -> None:
    batch = b"12345" + build(some_rows(3))
    buffer = memoryview(bytearray(batch))
    set_base_offset(buffer, 5, 2**40)
    set_partition_leader_epoch(buffer, 5, 77)
    patched_batch = read_batch(buffer, 5)
    patched_batch.check_crc()
    assert (patched_batch.base_offset, patched_batch.partition_leader_epoch) == (2**40, 77)
    assert [record.offset for record in patched_batch.records()] == [2**40, 2**40 + 1, 2**40 + 2]


def test_log_append_time_gives_all_records_one_timestamp() -> None:
    first, second = build(some_rows(3)), build(some_rows(3))
    buffer = first + second
    set_max_timestamp_log_append(buffer, len(first), 42)
    batches = list(iter_batches(buffer))
    for batch in batches:
        batch.check_crc()
    assert batches[0].timestamp_type is TimestampType.CREATE_TIME
    assert batches[1].timestamp_type is TimestampType.LOG_APPEND_TIME
    assert {record.timestamp for record in batches[1].records()} == {42}
    set_max_timestamp(buffer, len(first), TimestampType.CREATE_TIME, batches[0].max_timestamp)
    assert buffer == first + second


def test_sequences_wrap_as_producers_count() -> None:
    assert increment_sequence(2**31 - 1, 1) == 0
    assert increment_sequence(2**31 - 3, 5) == 2
    builder = RecordBatchBuilder(producer_id=1, producer_epoch=0, base_sequence=2**31 - 2)
    for _ in range(4):
        builder.append(0, None, b"v")
    assert read_batch(builder.build()).last_sequence == 1
    assert read_batch(build(some_rows(4))).last_sequence == -1


def test_offsets_may_have_gaps_and_the_last_may_be_kept() -> None:
    builder = RecordBatchBuilder(10)
    builder.append(5, b"a", b"1", offset=12)
    builder.append(4, b"b", None)
    builder.append(3, b"c", b"3", offset=20)
    batch = read_batch(builder.build(last_offset=25))
    assert (batch.base_offset, batch.last_offset, batch.record_count) == (10, 25, 3)
    assert [record.offset for record in batch.records()] == [12, 13, 20]
    with pytest.raises(ValueError, match="offset 19"):
        RecordBatchBuilder(20).append(0, None, None, offset=19)
    with pytest.raises(ValueError, match="too far"):
        RecordBatchBuilder(0).append(0, None, None, offset=2**31)


def test_a_delete_horizon_is_the_base_of_the_timestamps() -> None:
    builder = RecordBatchBuilder(delete_horizon_ms=5000)
    builder.append(1000, b"k", None)
    builder.append(9000, b"k", None)
    batch = read_batch(builder.build())
    assert (batch.delete_horizon_ms, batch.base_timestamp, batch.max_timestamp) == (5000, 5000, 9000)
    assert [record.timestamp for record in batch.records()] == [1000, 9000]
    assert read_batch(build(some_rows(1))).delete_horizon_ms is None


def test_an_empty_batch_keeps_offsets_and_producer() -> None:
    batch = read_batch(
        empty_batch(
            7,
            11,
            max_timestamp=99,
            attributes=0x78 | CompressionType.LZ4,
            producer_id=3,
            producer_epoch=2,
            base_sequence=5,
        )
    )
    batch.check_crc()
    assert list(batch.records()) == []
    assert (batch.base_offset, batch.last_offset, batch.last_sequence) == (7, 11, 9)
    assert (batch.attributes, batch.base_timestamp, batch.max_timestamp, batch.size_bytes) == (
        0x38,
        -1,
        99,
        61,
    )


def test_a_builder_without_records_builds_nothing_and_builds_once() -> None:
    builder = RecordBatchBuilder()
    assert builder.build() == b""
    with pytest.raises(ValueError, match="already been built"):
        builder.build()


@pytest.mark.parametrize(
    "producer",
    [
        {"producer_id": 1},
        {"producer_id": 1, "producer_epoch": 0},
        {"transactional": True},
    ],
)
def test_a_producer_needs_id_epoch_and_sequence(producer) -> None:
    builder = RecordBatchBuilder(**producer)
    builder.append(0, None, b"v")
    with pytest.raises(ValueError, match=r"producer|sequence"):
        builder.build()


def test_timestamps_reach_over_the_whole_range() -> None:
    for timestamps in ([-1, INT64_MAX], [INT64_MAX, -1, 0], [INT64_MAX]):
        batch = read_batch(build([(timestamp, None, b"v", ()) for timestamp in timestamps]))
        assert [record.timestamp for record in batch.records()] == timestamps
        assert batch.max_timestamp == INT64_MAX
    for timestamp in (-2, INT64_MAX + 1):
        with pytest.raises(ValueError, match="timestamp"):
            RecordBatchBuilder().append(timestamp, None, b"v")


def test_size_estimate_is_the_uncompressed_size() -> None:
    builder = RecordBatchBuilder()
    assert builder.size_estimate == BATCH_HEADER_SIZE
    for timestamp, key, value, headers in some_rows(300):
        builder.append(timestamp, key, value, headers)
    estimate = builder.size_estimate
    assert builder.count == 300
    assert len(builder.build()) == estimate


def test_records_of_a_batch_that_is_a_slice_of_a_larger_buffer() -> None:
    rows = some_rows(100)
    for codec in CompressionType:
        buffer = memoryview(b"x" * 13 + build(rows, codec=codec) + b"y" * 5)
        batch = read_batch(buffer, 13)
        assert rows_of(batch.records()) == [(t, k, v, tuple(h)) for t, k, v, h in rows]


def record_bytes(body: bytes) -> bytes:
    return bytes((len(body) << 1,)) + body


GOOD = bytes.fromhex("00 00 00 02 6b 02 76 00")


@pytest.mark.parametrize(
    ("data", "count"),
    [
        (b"", 1),
        (record_bytes(GOOD), 2),
        (record_bytes(GOOD) * 2, 1),
        (record_bytes(GOOD)[:-1], 1),
        (b"\x01" + GOOD, 1),  # length -1
        (b"\x00", 1),
        (b"\xff\xff\xff\xff\x0f" + GOOD, 1),  # a giant negative length
        (b"\xff\xff\xff\xff\x1f" + GOOD, 1),  # 33 bits
        (b"\x80\x80\x80\x80\x80\x00" + GOOD, 1),  # six bytes
        (record_bytes(GOOD + b"\x00"), 1),  # a byte too many
        (b"\x12" + GOOD + record_bytes(GOOD), 2),  # a length that reaches into the next record
        (b"\x0e" + GOOD + record_bytes(GOOD), 2),  # a length that ends before the record
        (record_bytes(bytes.fromhex("00 00 8080808010 02 6b 02 76 00")), 1),  # offset delta of 33 bits
        (record_bytes(bytes.fromhex("00 8080808080808080800200 02 6b 02 76 00")), 1),  # timestamp delta of 65
        (record_bytes(bytes.fromhex("00 00 00 7e 6b 02 76 00")), 1),  # key beyond the record
        (record_bytes(bytes.fromhex("00 00 00 02 6b 7e 76 00")), 1),  # value beyond the record
        (record_bytes(bytes.fromhex("00 00 00 02 6b 02 76 01")), 1),  # -1 headers
        (record_bytes(bytes.fromhex("00 00 00 02 6b 02 76 02")), 1),  # a header that is not there
        (record_bytes(bytes.fromhex("00 00 00 02 6b 02 76 feffffff0f")), 1),  # 2^31-1 headers
        (record_bytes(bytes.fromhex("00 00 00 02 6b 02 76 02 01 01")), 1),  # header name null
        (record_bytes(bytes.fromhex("00 00 00 02 6b 02 76 02 04 61 01")), 1),  # header name beyond
        (record_bytes(bytes.fromhex("00 00 00 02 6b 02 76 02 02 61 04 61")), 1),  # header value beyond
    ],
)
def test_malformed_records_are_refused(data: bytes, count: int) -> None:
    with pytest.raises(InvalidRecordError):
        list(read_records(data, count, 0, 0))


def test_a_well_formed_record_by_hand() -> None:
    assert list(read_records(record_bytes(GOOD), 1, 10, 20)) == [Record(10, 20, b"k", b"v", NO_HEADERS)]
    varints = bytes.fromhex("00 ffffffffffffffffff01 ffffffff0f 01 01 00")
    assert list(read_records(record_bytes(varints), 1, 2**31, 0)) == [Record(0, -(2**63), None, None)]


def test_a_count_that_does_not_match_is_refused() -> None:
    batch = build(some_rows(3))
    for count in (0, 2, 4, 2**31 - 1):
        with pytest.raises(InvalidRecordError):
            list(read_batch(patched(batch, ">i", 57, count)).records())


def test_an_unknown_codec_is_refused() -> None:
    batch = patched(build(some_rows(1)), ">h", 21, 5)
    update_crc(batch, 0)
    view = read_batch(batch)
    view.check_crc()
    with pytest.raises(UnsupportedCompressionError, match="5"):
        list(view.records())


def test_a_batch_that_decompresses_to_too_much_is_refused() -> None:
    for codec in list(CompressionType)[1:]:
        batch = read_batch(build([(0, None, bytes(1_000_000), ())], codec=codec))
        assert len(list(batch.records(limit=1_000_100))) == 1
        with pytest.raises(CorruptRecordError, match="more than 999999 bytes"):
            list(batch.records(limit=999_999))
