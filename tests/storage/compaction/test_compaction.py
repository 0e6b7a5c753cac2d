"""What compaction makes of batches, one by one; the map; and the process that does it."""

import errno
import json
import os
import random
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.compression import CompressionType
from protocol.control_records import ControlRecordType, EndTransactionMarker, end_marker_batch
from protocol.errors import InvalidRecordError
from protocol.message_set import MessageSetBuilder, iter_messages
from protocol.record_batch import RecordBatch, TimestampType
from protocol.record_batch_builder import RecordBatchBuilder
from protocol.record_filter import retain_records, scan_records
from storage.compaction.cleanable import cleanable_range
from storage.compaction.offset_map import OffsetMap
from storage.compaction.run import CompactionRun, compact_log
from storage.compaction.worker import Commands, Pace
from storage.log.append import AppendOrigin
from support.deadlines import DEADLINE_S
from support.log_dirs import BASE_TIME_MS, batch, open_log, read_batches, read_records

SETTINGS = {"retention_ms": -1, "cleanup_policy": ("compact",)}
HOUR_MS = 3_600_000


def log_of(tmp_path, *batches, **settings):
    """A log with these batches, rolled behind the last; each is bytes, or a pair with who appends it."""
    log = open_log(tmp_path / "t-0", **(SETTINGS | settings))
    for each in batches:
        data, origin = each if isinstance(each, tuple) else (each, AppendOrigin.CLIENT)
        log.append_as_leader(data, 0, origin=origin)
    log.roll()
    log.commit_all()
    return log


def compact(log, first_dirty=0, **options):
    return compact_log(log, first_dirty, cleanable_range(log).end_offset, **options)


def keyed(*pairs, codec=CompressionType.NONE, step=1, **of_batch):
    builder = RecordBatchBuilder(0, codec, **of_batch)
    for number, (key, value) in enumerate(pairs):
        builder.append(BASE_TIME_MS + number * step, key, value)
    return builder.build()


def transactional(sequence, *pairs, producer_id=7):
    return keyed(*pairs, producer_id=producer_id, producer_epoch=0, base_sequence=sequence, transactional=True)


def marker(committed, producer_id=7, producer_epoch=0):
    kind = ControlRecordType.COMMIT if committed else ControlRecordType.ABORT
    data = end_marker_batch(
        EndTransactionMarker(kind, 0), producer_id=producer_id, producer_epoch=producer_epoch, timestamp=BASE_TIME_MS
    )
    return data, AppendOrigin.COORDINATOR


def shape(log):
    """(base offset, last offset, record offsets) of every batch."""
    return [(each.base_offset, each.last_offset, [one.offset for one in each.records()]) for each in read_batches(log)]


# -- batches -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("codec", list(CompressionType))
@pytest.mark.parametrize("timestamp_type", list(TimestampType))
@pytest.mark.parametrize("horizon", [None, BASE_TIME_MS + HOUR_MS])
@pytest.mark.parametrize("keep", [[0, 1, 2], [1], [0, 2], [2]])
def test_a_batch_with_fewer_records_says_the_same_of_the_others(codec, timestamp_type, horizon, keep):
    builder = RecordBatchBuilder(
        40, codec, timestamp_type, 9, 3, 17, transactional=True, partition_leader_epoch=5, log_append_time=BASE_TIME_MS
    )
    for number in range(3):
        builder.append(
            BASE_TIME_MS + 1000 - 300 * number, b"k%d" % number * 40, None if number == 1 else b"v", [("h", b"x")]
        )
    batch = RecordBatch(memoryview(builder.build()))
    before = list(batch.records())
    smaller = RecordBatch(memoryview(retain_records(batch, scan_records(batch), keep, horizon)))
    smaller.check_crc()
    assert list(smaller.records()) == [before[index] for index in keep]
    assert (smaller.base_offset, smaller.last_offset, smaller.base_sequence, smaller.last_sequence) == (40, 42, 17, 19)
    assert (smaller.producer_id, smaller.producer_epoch, smaller.partition_leader_epoch) == (9, 3, 5)
    assert (smaller.compression, smaller.timestamp_type, smaller.is_transactional) == (codec, timestamp_type, True)
    assert smaller.delete_horizon_ms == horizon
    assert smaller.max_timestamp == max(before[index].timestamp for index in keep)
    if horizon is None:
        assert smaller.base_timestamp == before[keep[0]].timestamp


def test_scanning_finds_what_decoding_finds():
    rng = random.Random(5)
    builder = RecordBatchBuilder(1000)
    offset = 1000
    for _ in range(300):
        size = rng.choice([0, 1, 63, 64, 200, 9000])
        key = rng.choice([None, b"", rng.randbytes(size)])
        value = rng.choice([None, b"", rng.randbytes(size)])
        builder.append(rng.choice([0, BASE_TIME_MS]), key, value, offset=offset)
        offset += rng.choice([1, 1, 90, 20_000])
    batch = RecordBatch(memoryview(builder.build()))
    records, scanned = list(batch.records()), scan_records(batch)
    assert scanned.offsets == [record.offset for record in records]
    assert scanned.keys == [record.key for record in records]
    assert scanned.tombstones == [index for index, record in enumerate(records) if record.value is None]


@pytest.mark.parametrize("position", [0, 4])  # lengths of the record and of its key
def test_malformed_records_are_refused(position):
    data = keyed((b"key", b"value"), (b"key", b"value"))
    data[61 + position] = 0x7E
    with pytest.raises(InvalidRecordError):
        scan_records(RecordBatch(memoryview(data)))


# -- logs ----------------------------------------------------------------------------------------------


def test_offsets_stay_and_emptied_batches_go_but_the_last_of_the_range(tmp_path):
    log = log_of(tmp_path, keyed((b"a", b"1"), (b"b", b"1")), keyed((b"a", b"2")), keyed((b"a", b"3"), (b"c", b"1")))
    result = compact(log)
    assert shape(log) == [(0, 1, [1]), (3, 4, [3, 4])]
    assert (result.end_offset, result.stats.records_read, result.stats.records_written) == (5, 5, 3)
    log.append_as_leader(keyed((b"a", b"4"), (b"c", b"2")), 0)
    log.roll()
    log.commit_all()
    compact(log, 5)
    assert shape(log) == [(0, 1, [1]), (5, 6, [5, 6])]


def test_a_fetch_between_gets_the_next_record_there_is(tmp_path):
    log = log_of(tmp_path, *(keyed((b"a", b"%d" % number)) for number in range(6)), segment_bytes=140)
    compact(log)
    for offset in range(6):
        assert [record.offset for record in read_records(log, offset)] == [5]


def test_tombstones_go_in_the_first_compaction_after_their_horizon(tmp_path):
    log = log_of(tmp_path, keyed((b"a", b"1")), keyed((b"a", None), (b"b", b"1")), delete_retention_ms=HOUR_MS)
    now_ms = log.now_ms()
    compact(log)
    assert shape(log) == [(1, 2, [1, 2])]
    assert read_batches(log)[0].delete_horizon_ms == now_ms + HOUR_MS
    for later_ms, remaining in ((HOUR_MS - 1, [1, 2]), (HOUR_MS, [2])):
        log.now_ms = lambda later_ms=later_ms: now_ms + later_ms
        first_dirty = log.log_end_offset
        log.append_as_leader(keyed((b"c", b"1")), 0)
        log.roll()
        log.commit_all()
        compact(log, first_dirty)
        assert [record.offset for record in read_batches(log)[0].records()] == remaining


def test_records_without_a_key_go_and_are_counted(tmp_path):
    log = open_log(tmp_path / "t-0", retention_ms=-1)
    log.append_as_leader(keyed((None, b"1"), (b"a", b"1"), (None, None)), 0)
    log.config = log.config.with_overrides(cleanup_policy=("compact",))
    log.roll()
    log.commit_all()
    result = compact(log)
    assert shape(log) == [(0, 2, [1])]
    assert result.stats.invalid_records == 2


def test_the_last_batch_of_a_producer_stays_without_records(tmp_path):
    first = keyed((b"a", b"1"), (b"b", b"1"), producer_id=3, producer_epoch=2, base_sequence=0)
    last = keyed((b"a", b"2"), (b"b", b"2"), producer_id=3, producer_epoch=2, base_sequence=2)
    log = log_of(tmp_path, first, last, keyed((b"a", b"3"), (b"b", b"3")))
    compact(log)
    assert shape(log) == [(2, 3, []), (4, 5, [4, 5])]
    batch = read_batches(log)[0]
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence, batch.last_sequence) == (3, 2, 2, 3)
    log.release()
    for snapshot in log.directory.glob("*.snapshot"):
        snapshot.unlink()
    again = open_log(log.directory, clean=False, **SETTINGS)
    again.append_as_leader(keyed((b"a", b"4"), producer_id=3, producer_epoch=2, base_sequence=4), 0)
    again.close()


def test_the_last_batch_of_a_producer_stays_at_offset_zero_too(tmp_path):
    log = log_of(tmp_path, keyed((b"a", b"1"), producer_id=3, producer_epoch=2, base_sequence=0), keyed((b"a", b"2")))
    compact(log)
    assert shape(log) == [(0, 0, []), (1, 1, [1])]


def test_the_last_marker_of_a_producer_without_data_stays_without_its_record(tmp_path):
    """Markers of other epochs, and markers after the data of a producer, are removed at their horizon."""
    log = log_of(
        tmp_path,
        transactional(0, (b"k", b"1"), producer_id=8),
        marker(committed=True, producer_id=8),
        marker(committed=True, producer_id=8),
        marker(committed=False, producer_epoch=0),
        marker(committed=False, producer_epoch=2),
        delete_retention_ms=HOUR_MS,
    )
    del log.producers.producers[7]  # it has expired, so the next marker may have an older epoch
    for now_ms, batches in [
        (BASE_TIME_MS, [marker(committed=False, producer_epoch=1), (keyed((b"z", b"1")), AppendOrigin.CLIENT)]),
        (BASE_TIME_MS + HOUR_MS, [(keyed((b"z", b"2")), AppendOrigin.CLIENT)]),
    ]:
        log.now_ms = lambda now_ms=now_ms: now_ms
        for data, origin in batches:
            log.append_as_leader(data, 0, origin=origin)
        log.roll()
        log.commit_all()
        compact(log)
    assert shape(log) == [(0, 0, [0]), (1, 1, [1]), (5, 5, []), (7, 7, [7])]


def test_aborted_data_goes_at_once_and_its_marker_later(tmp_path):
    log = log_of(
        tmp_path,
        transactional(0, (b"a", b"1")),
        marker(committed=False),
        transactional(1, (b"b", b"1")),
        marker(committed=True),
        transactional(2, (b"c", b"1")),
        marker(committed=True),
        keyed((b"z", b"1")),
        delete_retention_ms=HOUR_MS,
    )
    assert len(log.segments[0].txn_index.entries) == 1
    compact(log)
    assert shape(log) == [(1, 1, [1]), (2, 2, [2]), (3, 3, [3]), (4, 4, [4]), (5, 5, [5]), (6, 6, [6])]
    assert [each.delete_horizon_ms for each in read_batches(log)] == [None] * 6
    assert len(log.segments[0].txn_index.entries) == 1  # the marker still had data in front of it
    now_ms = log.now_ms()

    def again():
        first_dirty = log.log_end_offset
        log.append_as_leader(keyed((b"z", b"2")), 0)
        log.roll()
        log.commit_all()
        compact(log, first_dirty)
        return shape(log)

    assert (1, 1, [1]) in again()
    assert read_batches(log)[0].delete_horizon_ms == now_ms + HOUR_MS
    assert log.segments[0].txn_index.entries == []
    log.now_ms = lambda: now_ms + HOUR_MS
    assert again()[0] == (2, 2, [2])
    assert {record.key for record in read_records(log)} == {b"b", b"c", b"z"}


def test_the_last_batch_of_the_range_stays_without_records(tmp_path):
    """It belongs to an aborted transaction of a producer that nobody knows any more: only the range keeps it."""
    log = log_of(tmp_path, keyed((b"a", b"1")), transactional(0, (b"b", b"1")))
    log.append_as_leader(marker(committed=False)[0], 0, origin=AppendOrigin.COORDINATOR)
    log.roll()
    log.commit_all()
    log.producers.producers.clear()
    assert compact_log(log, 0, 2).end_offset == 2
    assert shape(log) == [(0, 0, [0]), (1, 1, []), (2, 2, [2])]


def test_an_open_transaction_stops_compaction(tmp_path):
    log = log_of(tmp_path, keyed((b"a", b"1")), segment_bytes=200)
    log.append_as_leader(transactional(0, (b"a", b"2")), 0)
    log.roll()
    log.append_as_leader(keyed((b"a", b"3")), 0)
    log.roll()
    log.commit_all()
    assert cleanable_range(log).end_offset == 1


def test_a_small_map_takes_several_compactions(tmp_path):
    log = log_of(tmp_path, *(keyed(*((b"k%d" % key, b"%d" % number) for key in range(10))) for number in range(3)))
    end, runs = 0, 0
    while end < 30:
        result = compact_log(log, end, 30, dedupe_buffer_bytes=24 * 4, dedupe_load_factor=1.0)
        assert result.end_offset > end
        end, runs = result.end_offset, runs + 1
    assert runs == 8
    assert {record.key: record.offset for record in read_records(log)} == {b"k%d" % key: 20 + key for key in range(10)}


def test_small_segments_become_one_up_to_segment_bytes(tmp_path):
    log = log_of(tmp_path, *(keyed((b"%d" % key, b"v" * 100)) for key in range(10)), segment_bytes=200)
    assert len(log.segments) == 11
    log.config = log.config.with_overrides(segment_bytes=600)
    sizes = log.size_bytes
    compact(log)
    assert [segment.base_offset for segment in log.segments] == [0, 3, 6, 9, 10]
    assert log.size_bytes == sizes
    log.config = log.config.with_overrides(segment_bytes=1 << 20, segment_index_bytes=24)
    compact(log)
    assert max(segment.time_index.entries for segment in log.segments) <= 2


def test_the_age_of_a_segment_is_that_of_its_newest_source(tmp_path):
    log = log_of(tmp_path, *(keyed((b"%d" % key, b"v" * 100)) for key in range(3)), segment_bytes=200)
    for number, segment in enumerate(log.segments):
        os.utime(segment.file.path, (1_600_000_000 + number, 1_600_000_000 + number))
    log.config = log.config.with_overrides(segment_bytes=1 << 20)
    compact(log)
    assert log.files.fs.modified_ms(log.segments[0].file.path) == 1_600_000_002_000


def test_a_batch_of_which_everything_stays_is_what_it_was(tmp_path):
    """The producer's compression may be better than ours."""
    builder = RecordBatchBuilder(0, CompressionType.GZIP, level=1)
    for number in range(50):
        builder.append(BASE_TIME_MS, b"%d" % number, b"value " * number)
    data = builder.build()
    log = log_of(tmp_path, data)
    compact(log)
    assert (log.directory / f"{0:020d}.log").read_bytes() == data


def test_segments_come_together_as_far_as_the_index_reaches(tmp_path):
    log = open_log(tmp_path / "t-0", **SETTINGS)
    for offset in (0, 1, 2**32, 2**32 + 1):
        log.append_as_follower(batch("x", key=b"%d" % offset, base_offset=offset))
        log.roll()
    log.commit_all()
    compact(log)
    assert [segment.base_offset for segment in log.segments] == [0, 2**32, 2**32 + 2]


def test_snapshots_of_segments_that_went_go(tmp_path):
    log = log_of(tmp_path, *(keyed((b"%d" % key, b"v" * 100)) for key in range(3)), segment_bytes=200)
    log.config = log.config.with_overrides(segment_bytes=1 << 20)
    compact(log)
    assert sorted(path.name for path in log.directory.glob("*.snapshot")) == ["00000000000000000003.snapshot"]


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", [CompressionType.NONE, CompressionType.GZIP])
def test_messages_of_old_formats(magic, codec, tmp_path):
    log = open_log(tmp_path / "t-0", **SETTINGS)
    log.roll()
    builder = MessageSetBuilder(magic, codec)
    for offset, (key, value) in enumerate([(b"a", b"1"), (b"b", b"1"), (b"a", b"2"), (None, b"x"), (b"c", None)]):
        builder.append(offset, BASE_TIME_MS, key, value)
    log.release()
    (log.directory / "00000000000000000000.log").write_bytes(builder.build())
    log = open_log(log.directory, clean=False, **SETTINGS)
    assert log.log_end_offset == 5
    log.append_as_leader(keyed((b"b", b"2")), 0)
    log.roll()
    log.commit_all()
    result = compact(log)
    data = (log.directory / "00000000000000000000.log").read_bytes()
    batch_at = len(data) - len(keyed((b"b", b"2")))
    left = [record for message in iter_messages(data[:batch_at]) for record in message.records()]
    assert [(record.offset, record.key, record.value) for record in left] == [(2, b"a", b"2"), (4, b"c", None)]
    assert result.stats.invalid_records == 1
    assert [message.magic for message in iter_messages(data[:batch_at])] == [magic] * (1 if codec else 2)


@pytest.mark.parametrize(("age_ms", "left"), [(HOUR_MS, [b"a", b"c"]), (-HOUR_MS, [b"a"])])
def test_tombstones_of_old_formats_go_when_they_are_older_than_what_was_compacted_last(age_ms, left, tmp_path):
    log = open_log(tmp_path / "t-0", **SETTINGS, delete_retention_ms=10)
    log.append_as_leader(keyed((b"z", b"1")), 0)
    log.release()
    builder = MessageSetBuilder(1)
    for offset, (key, value) in enumerate([(b"a", b"1"), (b"c", None)], 1):
        builder.append(offset, BASE_TIME_MS, key, value)
    (log.directory / f"{1:020d}.log").write_bytes(builder.build())
    for base, time_ms in ((0, BASE_TIME_MS), (1, BASE_TIME_MS + age_ms)):
        os.utime(log.directory / f"{base:020d}.log", ns=(time_ms * 1_000_000, time_ms * 1_000_000))
    log = open_log(log.directory, clean=False, **SETTINGS, delete_retention_ms=10)
    log.roll()
    log.commit_all()
    compact(log, 1)
    messages = iter_messages((log.directory / f"{0:020d}.log").read_bytes()[len(keyed((b"z", b"1"))) :])
    assert [record.key for message in messages for record in message.records()] == left


def test_only_one_compaction_of_a_log_at_a_time(tmp_path):
    log = log_of(tmp_path, keyed((b"a", b"1")))
    run = CompactionRun(log)
    with pytest.raises(AssertionError):
        CompactionRun(log)
    run.end()
    CompactionRun(log).end()


# -- the map -------------------------------------------------------------------------------------------


@given(
    st.lists(st.tuples(st.binary(max_size=2), st.integers(0, 1 << 62)), max_size=300), st.sampled_from([0.5, 0.9, 1.0])
)
def test_the_map_is_a_dictionary(entries, load_factor):
    wanted = {}
    offsets = OffsetMap(24 * 400, load_factor)
    for number in range(0, len(entries), 7):
        some = entries[number : number + 7]
        if len(wanted.keys() | {key for key, _ in some}) >= offsets.capacity:
            break
        assert offsets.put_all([key for key, _ in some], [offset for _, offset in some])
        wanted.update(some)
        assert offsets.latest_offset == some[-1][1]
    assert offsets.entries == len(wanted)
    keys = [*wanted, b"not there", None]
    assert offsets.find_all(keys) == [*wanted.values(), -1, -1]


def test_a_map_of_full_buckets():
    """A key goes to the next bucket that has room, behind the last one to the first."""
    offsets = OffsetMap(24 * 192, 1.0)
    keys = [b"%d" % key for key in range(192)]
    assert offsets.put_all(keys, range(192))
    assert offsets.entries == offsets.capacity == 192
    assert offsets.find_all(keys) == list(range(192))


def test_a_digest_that_is_part_of_two_others_is_another_key():
    offsets = OffsetMap(24 * 10, 1.0)
    offsets._md5 = lambda key: SimpleNamespace(digest=lambda: key)
    keys = [b"-" * 8 + b"12345678", b"abcdefgh" + b"-" * 8, b"12345678abcdefgh"]
    assert offsets.put_all(keys, range(3))
    assert offsets.entries == 3
    assert offsets.find_all(keys) == [0, 1, 2]


def test_a_full_map_says_where_it_stopped():
    offsets = OffsetMap(24 * 10, 0.5)
    assert offsets.capacity == 5
    assert not offsets.put_all([b"%d" % key for key in range(8)], range(100, 108))
    assert (offsets.entries, offsets.latest_offset) == (5, 104)
    assert offsets.find_all([b"4", b"5"]) == [104, -1]


def test_a_map_full_to_the_brim_finds_everything():
    offsets = OffsetMap(24 * 64 * 5, 1.0)
    keys = [b"%d" % key for key in range(320)]
    assert offsets.put_all(keys, range(320))
    assert offsets.find_all(keys) == list(range(320))
    assert offsets.put_all([None, b"5"], [7, 8], start=100)


def test_the_map_is_no_larger_than_what_can_come():
    assert OffsetMap(1 << 40, 0.9, needed=100).capacity == 180


# -- the process ---------------------------------------------------------------------------------------


def worker_job(log):
    run = CompactionRun(log)
    job = run.job(0, cleanable_range(log).end_offset, io_buffer_bytes=4096)
    run.end()
    return job.to_json()


def start_worker():
    root = Path(__file__).resolve().parents[3]
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "storage.compaction.worker"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": str(root)},
    )


def test_a_worker_dies_with_its_broker_and_leaves_nothing(tmp_path):
    log = log_of(tmp_path, *(keyed((b"%d" % key, b"v" * 1000)) for key in range(100)))
    with start_worker() as worker:
        for command in ({"rate": 8192.0}, {"job": worker_job(log)}):
            worker.stdin.write(json.dumps(command).encode() + b"\n")
        worker.stdin.flush()
        worker.stdin.close()  # as the kernel does for a broker that is killed
        assert worker.wait(DEADLINE_S) == 0
        assert worker.stdout.read() == b""
    assert not list(log.directory.glob("*.cleaned"))


def test_a_worker_tells_of_files_that_it_cannot_read(tmp_path):
    log = log_of(tmp_path, keyed((b"a", b"v")), keyed((b"a", b"v")))
    job = worker_job(log)
    job["directory"] = str(tmp_path / "gone")
    with start_worker() as worker:
        output, _ = worker.communicate(json.dumps({"job": job}).encode() + b"\n", timeout=DEADLINE_S)
    (answer,) = [json.loads(line) for line in output.splitlines()]
    assert answer["error"]["errno"] == errno.ENOENT
    assert "gone" in answer["error"]["message"]


class FakeCommands(Commands):
    """Time passes only while commands are waited for."""

    def __init__(self, *commands):
        self.now_s = 100.0
        self.commands = list(commands)

    def next(self, timeout_s=0):
        if self.commands and self.commands[0][0] <= self.now_s + timeout_s:
            at, rate = self.commands.pop(0)
            self.now_s = max(self.now_s, at)
            return {"rate": rate}
        self.now_s += timeout_s
        return None


def test_the_pace_is_that_of_the_rate():
    commands = FakeCommands()
    pace = Pace(commands, lambda: commands.now_s)
    pace(10**9)
    assert commands.now_s == 100.0  # no limit yet
    pace.set_rate(1000.0)
    for _ in range(10):
        pace(500)
    assert commands.now_s == pytest.approx(105.0)
    commands.now_s += 60  # what was not used is not saved up
    pace(500)
    assert commands.now_s == pytest.approx(165.5)


def test_a_new_rate_is_for_what_is_being_waited_for_too():
    commands = FakeCommands((101.0, 10_000.0))
    pace = Pace(commands, lambda: commands.now_s)
    pace.set_rate(1000.0)
    pace(11_000)  # a second of it at the old rate
    assert commands.now_s == pytest.approx(102.0)
    pace.set_rate(None)
    pace(10**9)
    assert commands.now_s == pytest.approx(102.0)


def test_commands_are_whole_lines():
    reading, writing = os.pipe()
    commands = Commands(reading)
    assert commands.next() is None
    os.write(writing, b'{"rate": 1}\n{"ra')
    assert commands.next() == {"rate": 1}
    os.write(writing, b'te": 2}\n')
    assert commands.next(5) == {"rate": 2}
    os.close(writing)
    with pytest.raises(EOFError):
        commands.next()
    os.close(reading)
