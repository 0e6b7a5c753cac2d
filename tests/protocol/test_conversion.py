"""Up and down between batches and message sets."""

import pytest

from protocol.compression import CompressionType
from protocol.control_records import ControlRecordType, EndTransactionMarker, end_marker_batch
from protocol.conversion import down_convert, up_convert
from protocol.errors import CorruptRecordError, InvalidRecordError, UnsupportedCompressionError
from protocol.message_set import MessageSetBuilder, iter_messages
from protocol.record import Record
from protocol.record_batch import TimestampType, iter_batches, read_batch, set_max_timestamp_log_append
from support.batches import build, rows_of, some_rows
from support.reference import REFERENCE

OLD_CODECS = list(CompressionType)[:4]
LOGS = sorted((REFERENCE / "log-dirs").glob("*/**/*.log"))


def message_set(magic: int, codec: CompressionType, first: int = 0, number: int = 6) -> bytes:
    builder = MessageSetBuilder(magic, codec)
    for i in range(number):
        builder.append(first + i, 500 - i, None if i == 1 else b"k%d" % i, None if i == 2 else b"value" * i)
    return builder.build()


def messages_of(data: bytes) -> list[Record]:
    records = []
    for message in iter_messages(data):
        message.check_crc()
        records += message.records()
    return records


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", OLD_CODECS)
def test_up_makes_one_batch_with_new_offsets_and_the_same_codec(magic: int, codec: CompressionType) -> None:
    source = message_set(magic, codec, first=3)
    batch = read_batch(up_convert(source, base_offset=900, partition_leader_epoch=4))
    batch.check_crc()
    assert (batch.base_offset, batch.last_offset, batch.record_count) == (900, 905, 6)
    assert (batch.compression, batch.partition_leader_epoch) == (codec, 4)
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (-1, -1, -1)
    assert batch.max_timestamp == (500 if magic else -1)
    records = list(batch.records())
    assert [record.offset for record in records] == list(range(900, 906))
    assert rows_of(records) == rows_of(messages_of(source))
    assert all(record.timestamp == (500 - i if magic else -1) for i, record in enumerate(records))


def test_up_to_another_codec_and_to_log_append_time() -> None:
    batch = read_batch(
        up_convert(message_set(1, CompressionType.GZIP), compression=CompressionType.ZSTD, log_append_time=77)
    )
    assert batch.compression is CompressionType.ZSTD
    assert batch.timestamp_type is TimestampType.LOG_APPEND_TIME
    assert {record.timestamp for record in batch.records()} == {77}
    assert up_convert(b"") == b""


def test_up_conversion_errors() -> None:
    wrapped, single = message_set(1, CompressionType.GZIP), message_set(1, CompressionType.NONE)
    with pytest.raises(InvalidRecordError, match="only message"):
        up_convert(wrapped + wrapped)
    with pytest.raises(InvalidRecordError, match="only message"):
        up_convert(wrapped + single)
    with pytest.raises(InvalidRecordError, match="magic 0 after magic 1"):
        up_convert(single + message_set(0, CompressionType.NONE))
    with pytest.raises(CorruptRecordError, match="crc"):
        up_convert(single[:-1] + b"\x00")
    with pytest.raises(CorruptRecordError, match="magic 2"):
        up_convert(build(some_rows(1)))
    builder = MessageSetBuilder(1, timestamp_type=TimestampType.LOG_APPEND_TIME, log_append_time=5)
    builder.append(0, 0, None, b"v")
    with pytest.raises(InvalidRecordError, match="LogAppendTime"):
        up_convert(builder.build())
    builder = MessageSetBuilder(1)
    builder.append(0, -2, None, b"v")
    with pytest.raises(InvalidRecordError, match="negative timestamp"):
        up_convert(builder.build())


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", OLD_CODECS)
def test_down_keeps_offsets_and_codec_and_drops_headers(magic: int, codec: CompressionType) -> None:
    batches = build(some_rows(20), 100, codec) + build(some_rows(5), 300, codec)
    converted = down_convert(batches, magic)
    messages = list(iter_messages(converted))
    assert {message.magic for message in messages} == {magic}
    assert {message.compression for message in messages} == {codec}
    assert len(messages) == (25 if codec is CompressionType.NONE else 2)
    assert messages[-1].offset == 304
    wanted = [record for batch in iter_batches(batches) for record in batch.records()]
    assert messages_of(converted) == [
        Record(record.offset, record.timestamp if magic else -1, record.key, record.value) for record in wanted
    ]


def test_down_begins_at_the_offset_asked_for_where_nothing_is_compressed() -> None:
    plain = down_convert(build(some_rows(10), 100), 1, 104)
    assert [record.offset for record in messages_of(plain)] == list(range(104, 110))
    packed = down_convert(build(some_rows(10), 100, CompressionType.LZ4), 1, 104)
    assert [record.offset for record in messages_of(packed)] == list(range(100, 110))
    assert down_convert(build(some_rows(3), 100), 1, 103) == b""


def test_down_leaves_out_control_batches_and_what_is_cut_off() -> None:
    marker = end_marker_batch(
        EndTransactionMarker(ControlRecordType.COMMIT, 0),
        producer_id=1,
        producer_epoch=0,
        timestamp=5,
        base_offset=2,
    )
    batches = build(some_rows(2)) + marker + build(some_rows(2), 3)
    assert [record.offset for record in messages_of(down_convert(batches, 1))] == [0, 1, 3, 4]
    assert [record.offset for record in messages_of(down_convert(batches[:-1], 1))] == [0, 1]
    assert down_convert(marker, 1) == b""


def test_down_from_zstd_is_refused() -> None:
    with pytest.raises(UnsupportedCompressionError, match="zstd"):
        down_convert(build(some_rows(1), 0, CompressionType.ZSTD), 1)


def test_down_of_log_append_time() -> None:
    for codec in (CompressionType.NONE, CompressionType.GZIP):
        batch = build(some_rows(3), 0, codec)
        set_max_timestamp_log_append(batch, 0, 4242)
        converted = down_convert(batch, 1)
        for message in iter_messages(converted):
            assert message.timestamp_type is TimestampType.LOG_APPEND_TIME
            assert message.timestamp == 4242
        assert {record.timestamp for record in messages_of(converted)} == {4242}


def test_down_passes_older_messages_and_converts_magic_1_to_0() -> None:
    old, newer = message_set(0, CompressionType.NONE), message_set(1, CompressionType.GZIP, 6)
    assert down_convert(old + newer, 1, first_offset=3) == old + newer
    converted = down_convert(old + newer, 0)
    assert converted[: len(old)] == old
    assert [(message.magic, message.offset) for message in iter_messages(converted)][-1] == (0, 11)
    assert [record.offset for record in messages_of(converted)] == list(range(12))


@pytest.mark.parametrize("path", LOGS, ids=lambda path: f"{path.parent.name}-{path.stem.lstrip('0')}")
def test_every_recorded_log_goes_down_and_up_again(path) -> None:
    data = path.read_bytes()
    batches = [batch for batch in iter_batches(data) if not batch.is_control]
    if any(batch.compression is CompressionType.ZSTD for batch in batches):
        with pytest.raises(UnsupportedCompressionError):
            down_convert(data, 1)
        return
    wanted = [record for batch in batches for record in batch.records()]
    for magic in (0, 1):
        records = messages_of(down_convert(data, magic))
        assert [(r.offset, r.key, r.value) for r in records] == [(r.offset, r.key, r.value) for r in wanted]
        if magic:
            assert [record.timestamp for record in records] == [record.timestamp for record in wanted]
    for batch in batches:
        if batch.timestamp_type is TimestampType.CREATE_TIME:
            again = read_batch(up_convert(down_convert(bytes(batch.buffer), 1), base_offset=batch.base_offset))
            assert [(r.timestamp, r.key, r.value) for r in again.records()] == [
                (r.timestamp, r.key, r.value) for r in batch.records()
            ]
