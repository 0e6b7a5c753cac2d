"""What a read returns: ranges, limits, bounds, holes; and lookups by timestamp."""

import random

import pytest

from protocol.errors import CorruptRecordError
from protocol.record_batch_builder import RecordBatchBuilder
from storage.errors import LogClosedError, OffsetOutOfRangeError
from storage.file_system import CachedFile, FileSystem
from support.log_dirs import (
    BASE_TIME_MS,
    batch,
    copy_directory,
    iter_whole,
    look_up,
    open_log,
    read_batches,
    read_records,
)


@pytest.fixture
def log(tmp_path):
    """Nine batches of 1, 2, 3, 1, 2, 3… records, three a segment: offsets 0..17."""
    log = open_log(tmp_path / "t-0", index_interval_bytes=1)
    offset = 0
    for number in range(9):
        count = number % 3 + 1
        log.append_as_leader(batch(*[f"v{offset + n}" for n in range(count)], timestamp=BASE_TIME_MS + offset), 0)
        offset += count
        if count == 3 and number < 8:
            log.roll()
    assert log.log_end_offset == 18
    assert [segment.base_offset for segment in log.segments] == [0, 6, 12]
    return log


def test_a_read_at_the_end_of_what_is_visible_is_continued_there(log):
    """A reader at the end of the log, or of what is committed, asks for the next offset again and again."""
    for visible in (13, 15, 18):
        assert offsets(log.read(visible, 1000, max_offset=visible)) == []
        first = log.append_as_leader(batch("more"), 0).first_offset
        assert offsets(log.read(visible, 1000, max_offset=first + 1))[0][0] == visible


def sizes(log):
    return [each.size_bytes for each in read_batches(log)]


def offsets(info):
    if info.records is None:
        return []
    return [(each.base_offset, each.last_offset) for each in iter_whole(info.records.to_bytes())]


@pytest.mark.parametrize(
    ("offset", "max_offset", "expected"),
    [
        (0, 18, [(0, 0), (1, 2), (3, 5)]),  # one segment a read
        (2, 18, [(1, 2), (3, 5)]),  # the whole batch that holds the offset
        (5, 18, [(3, 5)]),
        (6, 18, [(6, 6), (7, 8), (9, 11)]),
        (0, 3, [(0, 0), (1, 2)]),
        (0, 6, [(0, 0), (1, 2), (3, 5)]),
        (12, 13, [(12, 12)]),
        (13, 15, [(13, 14)]),
        (0, 0, []),
        (7, 3, []),
        (18, 18, []),
        (15, 99, [(15, 17)]),
    ],
)
def test_ranges(log, offset, max_offset, expected):
    for _ in range(2):  # from the index, and from remembered positions
        assert offsets(log.read(offset, 1 << 20, max_offset=max_offset)) == expected


def test_the_range_ends_at_max_bytes_but_the_first_batch_is_complete(log):
    first, second, third = sizes(log)[:3]
    whole = log.read(0, 1 << 20, max_offset=18).records.to_bytes()
    for max_bytes in (0, 1, first, first + 1, first + second, first + second + third, 10_000):
        info = log.read(0, max_bytes, max_offset=18)
        assert info.records.to_bytes() == whole[: max(max_bytes, first)]
        assert not info.first_batch_incomplete
    for max_bytes in (1, first - 1, first):
        info = log.read(0, max_bytes, max_offset=18, min_one_message=False)
        assert info.records.to_bytes() == whole[:max_bytes]
        assert info.first_batch_incomplete == (max_bytes < first)
    info = log.read(0, 0, max_offset=18, min_one_message=False)
    assert info.records is None
    assert info.first_batch_incomplete


def test_the_first_batch_is_complete_when_a_read_continues_at_a_remembered_end(log):
    end, size = log.log_end_offset, log.size_bytes
    assert log.read(end, 1, max_offset=end).records is None
    for value in ("longer than the second", "second"):
        log.append_as_leader(batch(value), 0)
    first, second = sizes(log)[-2:]
    assert size + first + second == log.size_bytes
    assert len(log.read(end, 1, max_offset=end + 2).records) == first
    assert log.read(end, 1, max_offset=end + 2, min_one_message=False).first_batch_incomplete


def test_offsets_outside_of_the_log(log):
    for offset in (-1, 19, 1000):
        with pytest.raises(OffsetOutOfRangeError) as out:
            log.read(offset, 100, max_offset=18)
        assert (out.value.offset, out.value.log_start_offset, out.value.log_end_offset) == (offset, 0, 18)
    log.update_high_watermark(18)
    log.increment_log_start_offset(7)
    with pytest.raises(OffsetOutOfRangeError):
        log.read(6, 100, max_offset=18)
    assert offsets(log.read(7, 1 << 20, max_offset=18)) == [(7, 8), (9, 11)]


def test_cached_records_are_read_at_once(tmp_path):
    fs, data = FileSystem(), bytes(range(100)) * 2000
    (tmp_path / "f").write_bytes(data)
    file = fs.open(str(tmp_path / "f"))
    for position, length in ((0, 100), (50, 1000), (0, len(data)), (len(data) - 30, 100), (len(data), 10)):
        assert fs.pread_now(file.fd, length, position) == data[position : position + length]


def test_records_are_lazy_and_sliced(log):
    records = log.read(0, 1 << 20, max_offset=18).records
    whole = records.to_bytes()
    assert len(records) == len(whole)
    assert records.read(10, 20) == whole[10:30]
    assert records.read(len(whole) - 5, 20) == whole[-5:]
    assert records.read(len(whole), 20) == b""
    first = sizes(log)[0]
    assert log.read(0, first, max_offset=18).records.read(5, first) == whole[5:first]  # the file goes on


def test_a_tail_reader_sees_every_batch(tmp_path):
    log = open_log(tmp_path / "t-0", segment_bytes=500)
    position = 0
    for number in range(60):
        assert log.read(position, 1 << 20, max_offset=log.log_end_offset).records is None
        log.append_as_leader(batch(f"{number}"), 0)
        info = log.read(position, 1 << 20, max_offset=log.log_end_offset)
        assert offsets(info) == [(number, number)]
        position = number + 1
    assert len(log.segments) > 5


def test_a_reader_behind_the_high_watermark(tmp_path):
    log = open_log(tmp_path / "t-0", segment_bytes=400)
    random.seed(1)
    position = 0
    for number in range(50):
        log.append_as_leader(batch(f"{number}"), 0)
        log.update_high_watermark(max(log.high_watermark, number - random.randrange(5)))
        while position < log.high_watermark:
            found = offsets(log.read(position, 1 << 20, max_offset=log.high_watermark))
            assert found[0][0] == position
            position = found[-1][1] + 1
            assert position <= log.high_watermark
    assert position == log.high_watermark


def test_reads_survive_roll_deletion_and_eviction(tmp_path):
    log = open_log(tmp_path / "t-0", fs=FileSystem(max_open_files=4), segment_bytes=200, retention_ms=0)
    for number in range(50):
        log.append_as_leader(batch(f"{number}" * 30), 0)
    in_flight = [log.read(number, 1 << 20, max_offset=50).records for number in range(40)]
    log.update_high_watermark(50)
    assert log.delete_old_segments() > 30
    for number, records in enumerate(in_flight):
        found = [record.value for each in iter_whole(records.to_bytes()) for record in each.records()]
        assert f"{number}".encode() * 30 in found
    assert log.files.fs.descriptors.open_files <= 5


def test_open_files_are_limited(tmp_path):
    fs = FileSystem(max_open_files=3)
    files = [CachedFile(fs, str(tmp_path / f"{number}"), create=True) for number in range(10)]
    for file in files[:5]:
        file.open()
        file.used = False
    assert [file.handle is not None for file in files[:5]] == [False, False, True, True, True]
    files[2].used = True  # a second chance
    files[5].open()
    assert [file.handle is not None for file in files[:6]] == [False, False, True, False, True, True]
    files[4].release()
    files[6].open()
    files[7].open()
    assert fs.descriptors.open_files == sum(file.handle is not None for file in files) == 3


def test_gaps_left_by_compaction(tmp_path):
    log = open_log(copy_directory("compacted-0", tmp_path), cleanup_policy={"compact"})
    known = [each.base_offset for each in read_batches(log)]
    last = [each.last_offset for each in read_batches(log)]
    for offset in range(log.log_end_offset):
        info = log.read(offset, 1 << 20, max_offset=log.log_end_offset)
        expected = next(start for start, end in zip(known, last, strict=True) if end >= offset)
        assert offsets(info)[0][0] == expected


def test_read_while_the_index_is_sparse(tmp_path):
    """Many small batches between two index entries, and batches larger than one step of the scan."""
    log = open_log(tmp_path / "t-0", index_interval_bytes=100_000)
    rng = random.Random(5)
    for number in range(300):
        log.append_as_leader(batch("x" * rng.choice([1, 10, 9000]), key=b"%d" % number), 0)
    for number in rng.sample(range(300), 100):
        assert read_records(log, number)[0].offset == number
    for limit in rng.sample(range(300), 50):
        assert offsets(log.read(0, 1 << 30, max_offset=limit))[-1:] == ([(limit - 1, limit - 1)] if limit else [])


def test_an_invalid_length_is_an_error_not_an_endless_loop(log):
    path = log.directory / f"{0:020d}.log"
    data = bytearray(path.read_bytes())
    data[8:12] = (-12).to_bytes(4, "big", signed=True)
    path.write_bytes(data)
    log = open_log(log.directory)
    with pytest.raises(CorruptRecordError):
        log.read(1, 100, max_offset=18)


def test_a_closed_log_takes_no_appends(log):
    log.close()
    with pytest.raises(LogClosedError):
        log.append_as_leader(batch("x"), 0)
    with pytest.raises(LogClosedError):
        log.append_as_follower(batch("x", base_offset=18))
    log.close()


class TestTimestamps:
    def test_lookup_is_exact(self, log):
        log.leader_epochs.assign(3, 6)
        for offset in range(18):
            assert look_up(log, BASE_TIME_MS + offset) == (BASE_TIME_MS + offset, offset, 0)
        assert look_up(log, 0) == (BASE_TIME_MS, 0, 0)
        assert look_up(log, BASE_TIME_MS + 18) is None
        assert look_up(log, None) == (BASE_TIME_MS + 17, 17, 0)

    def test_lookups_equal_a_scan_with_decreasing_timestamps(self, tmp_path):
        rng = random.Random(11)
        log = open_log(tmp_path / "t-0", segment_bytes=700, index_interval_bytes=100)
        times = []
        for _ in range(80):
            builder = RecordBatchBuilder()
            for _ in range(rng.randrange(1, 4)):
                times.append(BASE_TIME_MS + len(times) + rng.choice([0, 0, 0, -50, 30]))
                builder.append(times[-1], None, b"x" * rng.randrange(60))
            log.append_as_leader(builder.build(), 2)
        log.update_high_watermark(log.log_end_offset)
        for start in (0, 25):
            log.increment_log_start_offset(start)
            for wanted in range(BASE_TIME_MS - 60, BASE_TIME_MS + len(times) + 40):
                expected = next((o for o in range(start, len(times)) if times[o] >= wanted), None)
                found = look_up(log, wanted)
                assert (found and found[1]) == expected
        largest = max(times)
        assert look_up(log, None) == (largest, times.index(largest), 2)

    def test_an_empty_log(self, tmp_path):
        log = open_log(tmp_path / "t-0")
        assert look_up(log, 5) is None
        assert look_up(log, None) is None

    def test_after_a_restart(self, log):
        log.close()
        log = open_log(log.directory)
        assert look_up(log, BASE_TIME_MS + 7) == (BASE_TIME_MS + 7, 7, 0)
        assert look_up(log, None) == (BASE_TIME_MS + 17, 17, 0)
