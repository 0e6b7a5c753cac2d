"""What a leader accepts, refuses and makes of a batch, and the order of producers' sequences."""

import random
import struct

import pytest

from protocol.compression import CompressionType
from protocol.control_records import ControlRecordType, EndTransactionMarker, end_marker_batch
from protocol.errors import CorruptRecordError, InvalidRecordError, UnsupportedCompressionError
from protocol.message_set import MessageSetBuilder
from protocol.record_batch import TimestampType, read_batch, set_max_timestamp, update_crc
from protocol.record_batch_builder import empty_batch
from storage.errors import (
    InvalidProducerEpochError,
    InvalidTimestampError,
    InvalidTxnStateError,
    OffsetsOutOfOrderError,
    OutOfOrderSequenceError,
    RecordBatchTooLargeError,
    RecordTooLargeError,
    RecordValidationError,
    TransactionCoordinatorFencedError,
    UnexpectedAppendOffsetError,
)
from storage.file_system import FileSystem
from storage.log.append import AppendOrigin
from storage.log.replay import RECALLED_ENTRIES
from storage.producers.state import ProducerState
from support.log_dirs import BASE_TIME_MS, RECORDED_NOW_MS, batch, look_up, open_log, read_batches, read_records


@pytest.fixture
def log(tmp_path):
    return open_log(tmp_path / "topic-a-3")


def names(directory):
    return sorted(file.name for file in directory.iterdir())


def test_a_new_log(log):
    assert (log.topic, log.partition) == ("topic-a", 3)
    assert (log.log_start_offset, log.high_watermark, log.log_end_offset, log.recovery_point) == (0, 0, 0, 0)
    assert names(log.directory) == [f"{0:020d}{suffix}" for suffix in (".index", ".log", ".timeindex")]
    assert log.read(0, 100, max_offset=0).records is None


def test_offsets_and_epoch_are_patched_in_the_callers_buffer(log):
    data = batch("a", "b", "c")
    log.append_as_leader(memoryview(data), 4)
    second = batch("d")
    info = log.append_as_leader(memoryview(second), 4)
    assert (info.first_offset, info.last_offset, info.record_count) == (3, 3, 1)
    assert read_batch(second).base_offset == 3
    assert read_batch(second).partition_leader_epoch == 4
    assert [record.value for record in read_records(log)] == [b"a", b"b", b"c", b"d"]
    assert bytes(data + second) == (log.directory / f"{0:020d}.log").read_bytes()
    assert log.leader_epochs.entries == [(4, 0)]


def test_read_only_buffers_are_copied(log):
    data = bytes(batch("a"))
    log.append_as_leader(batch("x"), 0)
    log.append_as_leader(data, 0)
    assert data == bytes(batch("a"))
    assert log.log_end_offset == 2


def corrupt(position, value=0xFF):
    data = batch("abc")
    data[position] ^= value
    return data


def with_crc(data):
    update_crc(data, 0)
    return data


def patched(offset, form, value):
    data = batch("abc", "def")
    struct.pack_into(form, data, offset, value)
    return with_crc(data)


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (corrupt(70), CorruptRecordError),
        (corrupt(18), CorruptRecordError),
        (batch("a", base_offset=5), InvalidRecordError),
        (patched(23, ">i", 2), InvalidRecordError),  # last offset delta
        (patched(57, ">i", 3), InvalidRecordError),  # record count
        (patched(57, ">i", 0), InvalidRecordError),
        (patched(21, ">h", 0x20), InvalidRecordError),  # control batch
        (patched(43, ">q", 7), InvalidRecordError),  # producer id without sequence
        (patched(21, ">h", 0x08), InvalidTimestampError),  # LogAppendTime
        (patched(21, ">h", 5), UnsupportedCompressionError),
        (batch("a") + batch("b"), InvalidRecordError),
        (batch("a")[:-1], InvalidRecordError),
        (batch("a")[:30], CorruptRecordError),
        (bytearray(10), InvalidRecordError),
        (bytearray(), InvalidRecordError),
        (with_crc(corrupt(16, 1)), InvalidRecordError),  # magic 3
    ],
)
def test_refused_batches_do_not_change_the_log(log, data, error):
    log.append_as_leader(batch("first"), 0)
    before = (log.log_end_offset, log.size_bytes)
    with pytest.raises(error):
        log.append_as_leader(data, 1)
    assert (log.log_end_offset, log.size_bytes) == before
    log.append_as_leader(batch("next"), 0)
    assert [record.value for record in read_records(log)] == [b"first", b"next"]


def test_a_refusal_names_the_reason(log):
    for data, reason in (
        (patched(57, ">i", 3), "record count 3 does not fit last offset delta 1"),
        (patched(21, ">h", 0x20), "control records"),
        (patched(43, ">q", 7), "sequence number -1 with producer id 7"),
    ):
        with pytest.raises(InvalidRecordError, match=reason):
            log.append_as_leader(data, 0)


def test_truncated_bytes_after_the_batch_are_ignored(log):
    log.append_as_leader(batch("a") + batch("b")[:40], 0)
    assert [record.value for record in read_records(log)] == [b"a"]


def test_size_limits(tmp_path):
    log = open_log(tmp_path / "t-0", max_message_bytes=200, segment_bytes=150)
    with pytest.raises(RecordTooLargeError) as too_large:
        log.append_as_leader(batch("x" * 200), 0)
    assert (too_large.value.size, too_large.value.limit) == (len(batch("x" * 200)), 200)
    with pytest.raises(RecordBatchTooLargeError):
        log.append_as_leader(batch("x" * 100), 5)
    assert log.leader_epochs.entries == []
    log.append_as_leader(batch("x"), 0)


class TestCompactedTopics:
    def test_every_record_needs_a_key(self, tmp_path):
        log = open_log(tmp_path / "t-0", cleanup_policy={"compact"})
        with pytest.raises(RecordValidationError) as refused:
            log.append_as_leader(batch("a", "b", key=None), 0)
        assert [index for index, _ in refused.value.record_errors] == [0, 1]
        log.append_as_leader(batch("a", codec=CompressionType.ZSTD), 0)
        with pytest.raises(RecordValidationError):
            log.append_as_leader(batch("a", key=None, codec=CompressionType.GZIP), 0)
        assert log.log_end_offset == 1

    def test_records_that_do_not_parse_are_corrupt(self, tmp_path):
        log = open_log(tmp_path / "t-0", cleanup_policy={"compact"})
        data = batch("abc")
        data[61] = 0x7F
        with pytest.raises(CorruptRecordError):
            log.append_as_leader(with_crc(data), 0)


class TestTimestamps:
    @pytest.mark.parametrize(
        ("settings", "timestamp", "allowed"),
        [
            ({}, 0, True),
            ({}, RECORDED_NOW_MS * 2, True),
            ({"message_timestamp_before_max_ms": 1000}, RECORDED_NOW_MS - 1000, True),
            ({"message_timestamp_before_max_ms": 1000}, RECORDED_NOW_MS - 1001, False),
            ({"message_timestamp_before_max_ms": 1000}, -1, True),
            ({"message_timestamp_after_max_ms": 1000}, RECORDED_NOW_MS + 1000, True),
            ({"message_timestamp_after_max_ms": 1000}, RECORDED_NOW_MS + 1001, False),
            (
                {"message_timestamp_after_max_ms": 1, "message_timestamp_type": "LogAppendTime"},
                RECORDED_NOW_MS + 9,
                True,
            ),
        ],
    )
    def test_limits(self, tmp_path, settings, timestamp, allowed):
        log = open_log(tmp_path / "t-0", **settings)
        if allowed:
            log.append_as_leader(batch("a", timestamp=timestamp), 0)
        else:
            with pytest.raises(InvalidTimestampError) as refused:
                log.append_as_leader(batch("a", timestamp=timestamp), 0)
            assert refused.value.record_errors[0][0] == 0

    def test_the_oldest_timestamp_is_checked(self, tmp_path):
        log = open_log(tmp_path / "t-0", message_timestamp_before_max_ms=1000)
        with pytest.raises(InvalidTimestampError) as refused:
            log.append_as_leader(batch("a", "b", "c", timestamp=RECORDED_NOW_MS, step=-600), 0)
        assert [index for index, _ in refused.value.record_errors] == [2]

    @pytest.mark.parametrize(
        ("sent", "compression_type", "codec"),
        [
            (CompressionType.NONE, "producer", CompressionType.NONE),
            (CompressionType.LZ4, "producer", CompressionType.LZ4),
            (CompressionType.LZ4, "gzip", CompressionType.GZIP),
        ],
    )
    def test_log_append_time(self, tmp_path, sent, compression_type, codec):
        log = open_log(tmp_path / "t-0", message_timestamp_type="LogAppendTime", compression_type=compression_type)
        info = log.append_as_leader(batch("a", "b", timestamp=5, codec=sent), 0)
        assert info.log_append_time == info.max_timestamp == RECORDED_NOW_MS
        (stored,) = read_batches(log)
        stored.check_crc()
        assert stored.timestamp_type is TimestampType.LOG_APPEND_TIME
        assert stored.compression is codec
        assert [record.timestamp for record in stored.records()] == [RECORDED_NOW_MS] * 2
        assert look_up(log, RECORDED_NOW_MS) == (RECORDED_NOW_MS, 0, 0)

    @pytest.mark.parametrize("settings", [{}, {"cleanup_policy": ("compact",)}, {"compression_type": "lz4"}])
    def test_create_time(self, tmp_path, settings):
        log = open_log(tmp_path / "t-0", **settings)
        info = log.append_as_leader(batch("a", "b", timestamp=5), 0)
        assert (info.log_append_time, info.max_timestamp) == (-1, 6)

    def test_a_producer_must_not_set_append_time(self, tmp_path):
        log = open_log(tmp_path / "t-0", message_timestamp_type="LogAppendTime")
        data = batch("a")
        set_max_timestamp(data, 0, TimestampType.LOG_APPEND_TIME, 1)
        with pytest.raises(InvalidTimestampError):
            log.append_as_leader(data, 0)


class TestCompression:
    @pytest.mark.parametrize("wanted", ["gzip", "snappy", "lz4", "zstd", "uncompressed"])
    @pytest.mark.parametrize("sent", list(CompressionType))
    def test_the_timestamp_type_of_the_topic_applies(self, tmp_path, wanted, sent):
        log = open_log(tmp_path / "t-0", compression_type=wanted)
        values = [f"value {number}" * 20 for number in range(30)]
        log.append_as_leader(batch(*values, codec=sent, producer=(5, 0, 0)), 0)
        info = log.append_as_leader(batch("x", codec=sent, producer=(5, 0, 30)), 0)
        first, second = read_batches(log)
        assert (info.first_offset, second.base_sequence, second.producer_id) == (30, 30, 5)
        assert first.compression is CompressionType.from_config_name(wanted)
        first.check_crc()
        assert [record.value.decode() for record in first.records()] == values
        assert [record.timestamp for record in first.records()] == [BASE_TIME_MS + n for n in range(30)]

    def test_producer_keeps_the_bytes(self, tmp_path):
        log = open_log(tmp_path / "t-0")
        data = batch("a" * 100, codec=CompressionType.SNAPPY)
        log.append_as_leader(memoryview(data), 0)
        assert (log.directory / f"{0:020d}.log").read_bytes() == bytes(data)

    def test_the_size_after_recompression_is_checked(self, tmp_path):
        log = open_log(tmp_path / "t-0", compression_type="uncompressed", max_message_bytes=500)
        with pytest.raises(RecordTooLargeError):
            log.append_as_leader(batch("a" * 1000, codec=CompressionType.ZSTD), 0)
        assert log.log_end_offset == 0


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", [CompressionType.NONE, CompressionType.GZIP])
def test_message_sets_of_old_clients_become_batches(tmp_path, magic, codec):
    log = open_log(tmp_path / "t-0")
    log.append_as_leader(batch("first"), 0)
    builder = MessageSetBuilder(magic, codec)
    for number in range(3):
        builder.append(number, BASE_TIME_MS + number, b"k", b"v%d" % number)
    info = log.append_as_leader(memoryview(bytearray(builder.build())), 0)
    assert (info.first_offset, info.last_offset) == (1, 3)
    records = read_records(log, 1)
    assert [record.value for record in records] == [b"v0", b"v1", b"v2"]
    assert [record.timestamp for record in records] == [BASE_TIME_MS + n if magic else -1 for n in range(3)]
    with pytest.raises((InvalidRecordError, CorruptRecordError)):
        log.append_as_leader(bytearray(17), 0)


def test_full_validation_checks_every_record(tmp_path):
    data = batch("abc", codec=CompressionType.GZIP)
    data[75] ^= 0xFF
    with_crc(data)
    trusting = open_log(tmp_path / "t-0")
    trusting.append_as_leader(bytearray(data), 0)
    strict = open_log(tmp_path / "t-1", full_validation=True)
    with pytest.raises(CorruptRecordError):
        strict.append_as_leader(bytearray(data), 0)
    strict.append_as_leader(batch("abc", "def"), 0)


class TestIdempotence:
    """Steps are (epoch, first sequence, count) and what is expected: an offset, a duplicate's, or an error."""

    @pytest.mark.parametrize(
        "steps",
        [
            [((0, 0, 1), 0), ((0, 1, 3), 1), ((0, 4, 1), 4)],
            [((0, 0, 2), 0), ((0, 0, 2), "duplicate of 0"), ((0, 2, 1), 2)],
            # Only the last five batches are known.
            [*(((0, n, 1), n) for n in range(6)), ((0, 1, 1), "duplicate of 1"), ((0, 0, 1), OutOfOrderSequenceError)],
            [((0, 0, 2), 0), ((0, 0, 1), OutOfOrderSequenceError), ((0, 1, 1), OutOfOrderSequenceError)],
            [((0, 0, 1), 0), ((0, 2, 1), OutOfOrderSequenceError), ((0, 1, 1), 1)],
            # Nothing is known of the producer: it may begin anywhere.
            [((3, 17, 1), 0), ((3, 18, 1), 1)],
            # A new epoch begins with 0, an old one is fenced.
            [((0, 0, 1), 0), ((1, 1, 1), OutOfOrderSequenceError), ((1, 0, 1), 1)],
            [((0, 0, 1), 0), ((1, 0, 1), 1), ((0, 1, 1), InvalidProducerEpochError)],
            [((1, 0, 1), 0), ((0, 0, 1), InvalidProducerEpochError), ((1, 0, 1), "duplicate of 0")],
            # Sequences wrap.
            [((0, 2**31 - 2, 2), 0), ((0, 0, 1), 2)],
            [((0, 2**31 - 2, 3), 0), ((0, 1, 1), 3), ((0, 2**31 - 2, 3), "duplicate of 0")],
        ],
    )  # fmt: skip
    @pytest.mark.parametrize("restart", [None, "clean", "unclean"])
    def test_sequences(self, tmp_path, steps, restart):
        log = open_log(tmp_path / "t-0", now_ms=BASE_TIME_MS)
        for (epoch, sequence, count), outcome in steps:
            data = batch(*["v"] * count, producer=(7, epoch, sequence))
            if isinstance(outcome, type):
                with pytest.raises(outcome):
                    log.append_as_leader(data, 0)
                continue
            info = log.append_as_leader(data, 0)
            if isinstance(outcome, str):
                assert info.duplicate
                assert info.record_count == 0
                assert f"duplicate of {info.first_offset}" == outcome
                assert info.last_offset == info.first_offset + count - 1
            else:
                assert not info.duplicate
                assert (info.first_offset, info.last_offset) == (outcome, outcome + count - 1)
        end = log.log_end_offset
        last = log.producers.producers[7].to_snapshot()
        if restart == "clean":
            log.close()
        if restart is not None:
            log = open_log(tmp_path / "t-0", clean=restart == "clean", now_ms=BASE_TIME_MS)
            assert log.log_end_offset == end
        assert log.producers.producers[7].to_snapshot() == last

    def test_a_duplicate_of_the_last_batch_is_known_after_a_restart(self, tmp_path):
        log = open_log(tmp_path / "t-0", now_ms=BASE_TIME_MS)
        log.append_as_leader(batch("a", "b", producer=(7, 0, 0)), 0)
        log.close()
        log = open_log(tmp_path / "t-0", now_ms=BASE_TIME_MS)
        info = log.append_as_leader(batch("a", "b", producer=(7, 0, 0)), 0)
        assert (info.duplicate, info.first_offset, info.last_offset) == (True, 0, 1)

    @pytest.mark.parametrize("segment_bytes", [1 << 30, 250], ids=["one segment", "a segment for two batches"])
    def test_a_batch_missing_from_the_snapshot_is_found_in_the_log(self, tmp_path, segment_bytes):
        log = open_log(tmp_path / "t-0", now_ms=BASE_TIME_MS, segment_bytes=segment_bytes)
        for number in range(10, 15):
            log.append_as_leader(batch("a", "b", producer=(8, 0, 2 * number)), 0)
            log.append_as_leader(batch("a", "b", producer=(7, 0, 2 * number)), 0)
        log.close()
        log = open_log(tmp_path / "t-0", now_ms=BASE_TIME_MS, segment_bytes=segment_bytes)
        for number in (13, 14):
            info = log.append_as_leader(batch("a", "b", producer=(7, 0, 2 * number)), 0)
            assert (info.duplicate, info.first_offset) == (True, 4 * (number - 10) + 2)
        assert log.log_end_offset == 20

    def test_a_batch_that_was_never_written_does_not_count_as_written_after_a_restart(self, tmp_path):
        """The first batches of a producer were refused, later ones were accepted, and the refused ones are repeated."""
        log = open_log(tmp_path / "t-0", now_ms=BASE_TIME_MS)
        log.append_as_leader(batch("c", "d", producer=(7, 0, 2)), 0)
        log.close()
        log = open_log(tmp_path / "t-0", now_ms=BASE_TIME_MS)
        with pytest.raises(OutOfOrderSequenceError):
            log.append_as_leader(batch("a", "b", producer=(7, 0, 0)), 0)

    def test_a_repeated_batch_is_looked_for_behind_a_number_of_index_entries(self, tmp_path):
        log = open_log(tmp_path / "t-0", now_ms=BASE_TIME_MS, index_interval_bytes=1)
        for sequence in range(3):
            log.append_as_leader(batch("a", producer=(7, 0, sequence)), 0)
        for sequence in range(RECALLED_ENTRIES - 1):
            log.append_as_leader(batch("b", producer=(8, 0, sequence)), 0)
        log.append_as_leader(batch("a", producer=(7, 0, 3)), 0)
        log.close()
        log = open_log(tmp_path / "t-0", now_ms=BASE_TIME_MS, index_interval_bytes=1)
        assert log.append_as_leader(batch("a", producer=(7, 0, 2)), 0).first_offset == 2
        with pytest.raises(OutOfOrderSequenceError):
            log.append_as_leader(batch("a", producer=(7, 0, 0)), 0)

    def test_a_corrupt_batch_ends_the_search_for_a_repeated_one(self, tmp_path):
        log = open_log(tmp_path / "t-0", now_ms=BASE_TIME_MS, index_interval_bytes=1)
        for sequence in range(4):
            log.append_as_leader(batch("a", producer=(7, 0, sequence)), 0)
        size = log.size_bytes // 4
        log.close()
        with (tmp_path / "t-0" / f"{0:020d}.log").open("r+b") as file:
            file.seek(size + 8)
            file.write(bytes(4))  # the length of the second batch
        log = open_log(tmp_path / "t-0", now_ms=BASE_TIME_MS, index_interval_bytes=1)
        with pytest.raises(OutOfOrderSequenceError):
            log.append_as_leader(batch("a", producer=(7, 0, 2)), 0)

    def test_what_a_producer_repeats_after_a_restart(self, tmp_path):
        log = open_log(tmp_path / "t-0", now_ms=BASE_TIME_MS)
        for number in range(10, 16):
            log.append_as_leader(batch("a", "b", producer=(7, 0, 2 * number)), 0)
        log.close()
        log = open_log(tmp_path / "t-0", now_ms=BASE_TIME_MS)

        def again(number: int) -> bool:
            return log.append_as_leader(batch("a", "b", producer=(7, 0, 2 * number)), 0).duplicate

        assert again(15)
        assert all(again(number) for number in (11, 14))
        for number in (4, 10):  # never written, and one of more than five
            with pytest.raises(OutOfOrderSequenceError):
                again(number)
        with pytest.raises(OutOfOrderSequenceError):
            again(17)
        with pytest.raises(OutOfOrderSequenceError):  # part of what is known: no client does that
            log.append_as_leader(batch("b", producer=(7, 0, 31)), 0)
        with pytest.raises(OutOfOrderSequenceError):
            log.append_as_leader(batch("a", "b", producer=(7, 0, 29)), 0)
        with pytest.raises(OutOfOrderSequenceError):  # as far behind as ahead
            log.append_as_leader(batch("b", producer=(7, 0, 30 + 2**30)), 0)
        assert log.log_end_offset == 12
        assert not again(16)
        assert again(12)
        with pytest.raises(OutOfOrderSequenceError):  # five newer ones are known
            again(11)
        log.append_as_leader(batch("a", producer=(7, 1, 0)), 0)
        with pytest.raises(InvalidProducerEpochError):
            again(13)

    def test_nothing_is_forgotten_of_an_epoch_that_begins_after_the_snapshot(self, tmp_path):
        log = open_log(tmp_path / "t-0", now_ms=BASE_TIME_MS)
        log.append_as_leader(batch("a", producer=(7, 0, 0)), 0)
        log.close()
        log = open_log(tmp_path / "t-0", now_ms=BASE_TIME_MS)
        log.append_as_leader(batch("a", producer=(7, 1, 0)), 0)
        with pytest.raises(OutOfOrderSequenceError):
            log.append_as_leader(batch("a", producer=(7, 1, 2**31 - 1)), 0)

    def test_a_truncation_removes_snapshots_at_the_log_start_and_above_the_log_end(self, tmp_path):
        state = ProducerState(FileSystem(), str(tmp_path))
        for state.end_offset in (4, 5, 6, 9, 10):
            state.take_snapshot()
        state.truncate_and_reload(5, 9, BASE_TIME_MS)
        assert state.snapshots == [6, 9]
        assert names(tmp_path) == [f"{offset:020d}.snapshot" for offset in (6, 9)]

    def test_producers_expire(self, tmp_path):
        log = open_log(tmp_path / "t-0", now_ms=BASE_TIME_MS)
        log.append_as_leader(batch("a", producer=(8, 0, 0), transactional=True), 0)
        log.append_as_leader(batch("a", producer=(7, 0, 0)), 0)
        log.producers.remove_expired(BASE_TIME_MS + 86_400_000 - 1)
        assert set(log.producers.producers) == {7, 8}
        log.producers.remove_expired(BASE_TIME_MS + 86_400_000)
        assert set(log.producers.producers) == {8}
        assert not log.append_as_leader(batch("a", producer=(7, 0, 44)), 0).duplicate


def marker(committed, producer=(7, 0), coordinator_epoch=0):
    kind = ControlRecordType.COMMIT if committed else ControlRecordType.ABORT
    return end_marker_batch(
        EndTransactionMarker(kind, coordinator_epoch),
        producer_id=producer[0],
        producer_epoch=producer[1],
        timestamp=BASE_TIME_MS,
    )


def end_transaction(log, committed, **options):
    return log.append_as_leader(marker(committed, **options), 0, origin=AppendOrigin.COORDINATOR)


class TestTransactions:
    @pytest.fixture
    def log(self, tmp_path):
        return open_log(tmp_path / "t-0", now_ms=BASE_TIME_MS)

    def test_last_stable_offset(self, log):
        log.append_as_leader(batch("plain"), 0)
        log.append_as_leader(batch("a", producer=(7, 0, 0), transactional=True), 0)
        log.append_as_leader(batch("b", producer=(8, 0, 0), transactional=True), 0)
        log.append_as_leader(batch("plain"), 0)
        assert log.last_stable_offset == 0
        log.update_high_watermark(4)
        assert (log.high_watermark, log.last_stable_offset) == (4, 1)
        end_transaction(log, committed=True)
        log.update_high_watermark(4)  # the marker at 4 is not replicated yet
        assert log.last_stable_offset == 1
        log.update_high_watermark(5)
        assert log.last_stable_offset == 2
        end_transaction(log, committed=False, producer=(8, 0))
        log.update_high_watermark(6)
        assert log.last_stable_offset == 6
        assert [tuple(entry) for entry in log.segments[0].txn_index.entries] == [(8, 2, 5, 6)]
        assert read_batches(log)[-1].is_control

    def test_readers_get_aborted_transactions(self, log):
        for round_ in range(10):
            log.append_as_leader(batch("a", producer=(7, 0, round_), transactional=True), 0)
            end_transaction(log, committed=round_ % 2 == 0)
        log.roll()
        log.append_as_leader(batch("b", producer=(8, 0, 0), transactional=True), 0)
        log.append_as_leader(batch("a", producer=(7, 0, 10), transactional=True), 0)
        log.roll()
        end_transaction(log, committed=False)
        log.update_high_watermark(log.log_end_offset)
        assert log.last_stable_offset == 20

        def aborted(offset, **options):
            info = log.read(offset, options.pop("max_bytes", 1 << 20), max_offset=20, include_aborted=True)
            return [entry.first_offset for entry in info.aborted_transactions]

        assert aborted(0) == [2, 6, 10, 14, 18]
        assert aborted(15) == [14, 18]
        assert aborted(16) == [18]
        assert aborted(20) == []
        info = log.read(20, 1 << 20, max_offset=log.log_end_offset, include_aborted=True)
        assert [entry.first_offset for entry in info.aborted_transactions] == [21]
        assert log.read(0, 100, max_offset=20).aborted_transactions is None

    def test_a_transaction_of_several_batches_begins_at_the_first(self, log):
        for sequence in range(3):
            log.append_as_leader(batch("a", producer=(7, 0, sequence), transactional=True), 0)
        end_transaction(log, committed=False)
        log.update_high_watermark(4)
        assert log.last_stable_offset == 4
        assert [tuple(entry) for entry in log.segments[0].txn_index.entries] == [(7, 0, 3, 4)]

    def test_the_rules_of_markers(self, log):
        log.append_as_leader(batch("a", producer=(7, 1, 0), transactional=True), 0)
        with pytest.raises(InvalidTxnStateError):
            log.append_as_leader(batch("a", producer=(7, 1, 1)), 0)
        with pytest.raises(InvalidProducerEpochError):
            end_transaction(log, committed=True)
        end_transaction(log, committed=True, producer=(7, 1), coordinator_epoch=5)
        with pytest.raises(TransactionCoordinatorFencedError):
            end_transaction(log, committed=True, producer=(7, 1), coordinator_epoch=4)
        assert log.log_end_offset == 2
        with pytest.raises(InvalidRecordError):
            log.append_as_leader(marker(True), 0)
        # A marker without a transaction here changes nothing for readers.
        end_transaction(log, committed=False, producer=(9, 0))
        assert log.segments[0].txn_index.entries == []

    @pytest.mark.parametrize("first", [0, 1])
    @pytest.mark.parametrize("clean", [True, False])
    def test_open_transactions_survive_a_restart(self, log, tmp_path, clean, first):
        for _ in range(first):
            log.append_as_leader(batch("x"), 0)
        log.append_as_leader(batch("a", producer=(7, 0, 0), transactional=True), 0)
        log.roll()
        log.append_as_leader(batch("y"), 0)
        if clean:
            log.close()
        log = open_log(tmp_path / "t-0", clean=clean, now_ms=BASE_TIME_MS)
        log.update_high_watermark(first + 2)
        assert log.last_stable_offset == first
        end_transaction(log, committed=False)
        log.update_high_watermark(first + 3)
        assert log.last_stable_offset == first + 3
        assert log.segments[-1].txn_index.entries[0].first_offset == first


class TestFollower:
    def test_batches_are_appended_unchanged(self, log):
        data = b"".join(
            [
                bytes(batch("a", "b", base_offset=10, leader_epoch=2, producer=(7, 0, 5))),
                bytes(batch("c", base_offset=12, leader_epoch=2)),
                bytes(batch("d", base_offset=20, leader_epoch=4, timestamp=BASE_TIME_MS - 5)),
            ]
        )
        info = log.append_as_follower(data + bytes(batch("e", base_offset=21))[:50])
        assert (info.first_offset, info.last_offset, info.size_bytes) == (10, 20, len(data))
        assert log.log_end_offset == 21
        assert log.leader_epochs.entries == [(2, 10), (4, 20)]
        assert log.producers.producers[7].last_sequence == 6
        assert [record.offset for record in read_records(log)] == [10, 11, 12, 20]
        assert (log.directory / f"{0:020d}.log").read_bytes() == data

    def test_invalid_batches_are_refused(self, log):
        log.append_as_follower(batch("a", "b", base_offset=0))
        before = log.size_bytes
        for data, error in [
            (batch("a", base_offset=1), UnexpectedAppendOffsetError),
            (batch("a", base_offset=5) + batch("b", base_offset=5), OffsetsOutOfOrderError),
            (batch("a", base_offset=5) + corrupt(70), CorruptRecordError),
        ]:
            with pytest.raises(error):
                log.append_as_follower(data)
        assert log.append_as_follower(b"").first_offset == -1
        assert (log.log_end_offset, log.size_bytes) == (2, before)

    def test_a_batch_without_records_is_appended(self, log):
        """Compaction has emptied it at the leader."""
        log.append_as_follower(batch("a"))
        log.append_as_follower(bytes(empty_batch(1, 4, max_timestamp=BASE_TIME_MS)))
        assert (log.log_end_offset, log.size_bytes) == (5, len(batch("a")) + 61)

    def test_a_new_segment_begins_at_the_batchs_offset(self, tmp_path):
        log = open_log(tmp_path / "t-0", segment_bytes=200)
        log.append_as_follower(batch("a" * 80, base_offset=3))
        log.append_as_follower(batch("b" * 80, base_offset=9))
        assert [segment.base_offset for segment in log.segments] == [0, 9]

    @pytest.mark.parametrize(("before", "bases"), [([], [0, 8, 9]), ([bytes(batch("before"))], [0, 3, 8, 9])])
    def test_batches_of_a_larger_segment_are_appended_to_several(self, tmp_path, before, bases):
        """segment.bytes was larger when the leader wrote them; one batch is larger than a segment is now."""
        sent = [
            bytes(batch("a", base_offset=3, leader_epoch=2, timestamp=BASE_TIME_MS + 5)),
            bytes(batch("b", base_offset=4, leader_epoch=2, producer=(7, 0, 5))),
            bytes(batch("c" * 300, base_offset=8, leader_epoch=3)),
            bytes(batch("d", base_offset=9, leader_epoch=4, timestamp=BASE_TIME_MS - 5)),
        ]
        segment_bytes = len(sent[0] + sent[1])
        log = open_log(tmp_path / "t-0", segment_bytes=segment_bytes)
        for data in before:
            log.append_as_follower(data)
        info = log.append_as_follower(b"".join(sent) + bytes(batch("e", base_offset=11))[:50])
        assert (info.first_offset, info.last_offset, info.size_bytes) == (3, 9, sum(map(len, sent)))
        assert (info.max_timestamp, log.log_end_offset) == (BASE_TIME_MS + 5, 10)
        assert [segment.base_offset for segment in log.segments] == bases
        files = [log.directory / f"{base:020d}.log" for base in bases]
        assert [file.read_bytes() for file in files] == [*before, sent[0] + sent[1], sent[2], sent[3]]
        assert log.segments[-3].offset_of_max_timestamp == 3
        assert log.leader_epochs.entries[-3:] == [(2, 3), (3, 8), (4, 9)]
        assert log.producers.producers[7].last_sequence == 5
        log.close()
        again = open_log(log.directory, segment_bytes=segment_bytes)
        assert [record.offset for record in read_records(again)][-4:] == [3, 4, 8, 9]

    def test_a_batch_that_is_larger_than_a_segment_is_the_first_of_a_log(self, tmp_path):
        log = open_log(tmp_path / "t-0", segment_bytes=200)
        log.append_as_follower(batch("a" * 300, base_offset=3))
        log.append_as_follower(batch("b", base_offset=4))
        assert [segment.base_offset for segment in log.segments] == [0, 4]


class TestRolling:
    def test_by_size(self, tmp_path):
        size = len(batch("x"))
        log = open_log(tmp_path / "t-0", segment_bytes=3 * size)
        for _ in range(7):
            log.append_as_leader(batch("x"), 0)
        assert [segment.base_offset for segment in log.segments] == [0, 3, 6]
        assert log.size_bytes == 7 * size
        assert [file for file in names(log.directory) if file.endswith("snapshot")] == [
            f"{offset:020d}.snapshot" for offset in (3, 6)
        ]

    def test_by_time_of_the_records(self, tmp_path):
        log = open_log(tmp_path / "t-0", segment_ms=1000)
        for age in (0, 1000, 1001, 1500, 2002):
            log.append_as_leader(batch("x", timestamp=BASE_TIME_MS + age), 0)
        assert [segment.base_offset for segment in log.segments] == [0, 2, 4]

    def test_by_time_of_the_records_before_a_restart(self, tmp_path):
        open_log(tmp_path / "t-0").append_as_leader(batch("x"), 0)
        log = open_log(tmp_path / "t-0", segment_ms=1000)
        for age in (1000, 1001):
            log.append_as_leader(batch("x", timestamp=BASE_TIME_MS + age), 0)
        assert [segment.base_offset for segment in log.segments] == [0, 2]

    def test_by_the_clock_if_records_have_no_timestamps(self, tmp_path):
        clock = [RECORDED_NOW_MS]
        log = open_log(tmp_path / "t-0", segment_ms=1000, now_ms=lambda: clock[0])
        for wait in (0, 900, 200, 500):
            clock[0] += wait
            log.append_as_leader(batch("x", timestamp=-1), 0)
        assert [segment.base_offset for segment in log.segments] == [0, 2]

    def test_by_a_full_index(self, tmp_path):
        log = open_log(tmp_path / "t-0", segment_index_bytes=36, index_interval_bytes=1)
        for number in range(12):
            log.append_as_leader(batch("x", timestamp=BASE_TIME_MS + number), 0)
        # The time index takes 3 entries, of which one is kept for the roll.
        assert [segment.base_offset for segment in log.segments] == [0, 3, 6, 9]

    def test_by_offsets_beyond_the_index_range(self, tmp_path):
        log = open_log(tmp_path / "t-0", index_interval_bytes=0)
        for base_offset in (0, 2**31 - 1, 2**31, 2**32):
            log.append_as_follower(batch("x", base_offset=base_offset))
        assert [segment.base_offset for segment in log.segments] == [0, 2**31, 2**32]
        assert [each.base_offset for each in read_batches(log)] == [0, 2**31 - 1, 2**31, 2**32]

    def test_jitter_comes_from_the_given_source(self, tmp_path):
        log = open_log(tmp_path / "t-0", segment_ms=1000, segment_jitter_ms=900)
        log.segments.files.random = random.Random(3)
        log.append_as_leader(batch("x"), 0)
        jitter = log.roll().roll_jitter_ms
        assert jitter == random.Random(3).randint(0, 900)

    def test_a_loaded_segment_has_a_jitter(self, tmp_path):
        log = open_log(tmp_path / "t-0")
        log.append_as_leader(batch("x"), 0)
        log.close()
        jitter = open_log(tmp_path / "t-0", segment_ms=1000, segment_jitter_ms=900).segments[0].roll_jitter_ms
        assert jitter == random.Random(0).randint(0, 900)

    def test_a_jitter_is_no_longer_than_the_segment_lives(self, tmp_path):
        """More, and every batch would roll the segment, however young."""
        log = open_log(tmp_path / "t-0", segment_ms=1, segment_jitter_ms=10**9)
        log.append_as_leader(batch("x"), 0)
        assert log.roll().roll_jitter_ms <= 1
        log.append_as_leader(batch("y"), 0)
        log.close()
        log = open_log(tmp_path / "t-0", segment_ms=1, segment_jitter_ms=10**9)
        assert all(segment.roll_jitter_ms <= 1 for segment in log.segments)

    def test_an_empty_segment_is_not_rolled(self, tmp_path):
        log = open_log(tmp_path / "t-0")
        assert log.roll() is log.segments[0]
        log.append_as_leader(batch("x"), 0)
        assert log.roll() is log.roll()
        assert [segment.base_offset for segment in log.segments] == [0, 1]
