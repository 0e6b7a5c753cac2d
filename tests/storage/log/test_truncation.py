"""Truncation, the log start offset, retention, the high watermark, flush."""

import errno
import os
import shutil

import pytest

from protocol.control_records import ControlRecordType, EndTransactionMarker, end_marker_batch
from storage.errors import LogDirIOError, OffsetOutOfRangeError
from storage.file_system import FileSystem
from storage.log.append import AppendOrigin
from support.faulty_disk import FaultyFileSystem
from support.log_dirs import BASE_TIME_MS, batch, look_up, open_log, read_records

SIZE = len(batch("v00"))


@pytest.fixture
def log(tmp_path):
    """Batches of one record, 5 a segment: offsets 0..22, epoch n from offset 8n; odd ones of producer 7."""
    log = open_log(tmp_path / "t-0", segment_bytes=5 * SIZE, index_interval_bytes=1, now_ms=BASE_TIME_MS)
    for number in range(23):
        producer = (7, 0, number // 2) if number % 2 else (-1, -1, -1)
        log.append_as_leader(batch(f"v{number:02}", timestamp=BASE_TIME_MS + number, producer=producer), number // 8)
    assert [segment.base_offset for segment in log.segments] == [0, 5, 10, 15, 20]
    log.update_high_watermark(23)
    return log


def values(log):
    return [record.value.decode() for record in read_records(log)]


def expected(start, end):
    return [f"v{number:02}" for number in range(start, end)]


def prepared(log, offset):
    """The replay that another thread has done for a truncation."""
    replay = log.prepare_truncation(offset)
    if replay is not None:
        replay.run()
    return replay


@pytest.mark.parametrize("replayed", [lambda log, offset: None, prepared], ids=["here", "before"])
@pytest.mark.parametrize("offset", range(24))
def test_truncation(log, offset, replayed):
    log.flush()
    assert log.truncate_to(offset, replayed(log, offset)) is (offset < 23)
    assert values(log) == expected(0, offset)
    assert log.log_end_offset == log.high_watermark == log.recovery_point == offset
    assert log.segments.active.base_offset <= offset
    assert log.leader_epochs.entries == [(n, 8 * n) for n in range(3) if 8 * n < offset]
    known = log.producers.producers.get(7)
    assert (known.last_sequence if known else -1) == offset // 2 - 1
    assert log.size_bytes == offset * SIZE
    if offset:
        assert look_up(log, None) == (BASE_TIME_MS + offset - 1, offset - 1, (offset - 1) // 8)
        newest = [segment.max_timestamp for segment in log.segments if segment.size]
        assert newest[-1] == BASE_TIME_MS + offset - 1  # what retention goes by
    log.append_as_leader(batch("new", timestamp=BASE_TIME_MS + 100), 5)
    assert values(log) == [*expected(0, offset), "new"]
    assert look_up(log, BASE_TIME_MS + 50)[1] == offset
    log.close()
    log = open_log(log.directory, now_ms=BASE_TIME_MS)
    assert values(log) == [*expected(0, offset), "new"]
    assert look_up(log, BASE_TIME_MS + 50)[1] == offset


@pytest.mark.parametrize("offset", range(23))
@pytest.mark.parametrize("damaged", [False, True], ids=["", "damaged"])
def test_a_replay_before_the_truncation_leaves_the_same_files(log, tmp_path, offset, damaged):
    log.flush()
    shutil.copytree(log.directory, tmp_path / "copy" / "t-0")
    copy = open_log(tmp_path / "copy" / "t-0", segment_bytes=5 * SIZE, index_interval_bytes=1, now_ms=BASE_TIME_MS)
    copy.update_high_watermark(23)
    for one in (log, copy):
        if damaged:
            for path in sorted(one.directory.glob("*.snapshot"))[1:]:
                path.write_bytes(b"damaged")
    log.truncate_to(offset, prepared(log, offset))
    copy.truncate_to(offset)

    def files(one):
        return {path.name: path.read_bytes() for path in one.directory.glob("*.snapshot")}

    assert files(log) == files(copy)
    state, expected_state = log.producers, copy.producers
    assert state.snapshots == expected_state.snapshots
    assert state.last_snapshot_offset == expected_state.last_snapshot_offset
    assert state.end_offset == expected_state.end_offset
    entries = [{key: one.to_snapshot() for key, one in each.producers.items()} for each in (state, expected_state)]
    assert entries[0] == entries[1]


def test_a_replay_is_repeated_if_the_files_have_changed_since(log):
    outdated = prepared(log, 17)
    log.truncate_to(12)
    for number in range(12, 20):
        log.append_as_leader(batch("new", producer=(8, 0, number - 12)), 2)
    assert outdated.is_outdated
    log.truncate_to(17, outdated)
    assert log.producers.producers[8].last_sequence == 4


@pytest.mark.parametrize(
    "change",
    [
        lambda log: log.truncate_to(3),
        lambda log: log.truncate_fully_and_start_at(50),
        lambda log: log.delete_old_segments(),
        lambda log: log.roll(),
    ],
    ids=["truncate", "begin again", "delete", "roll"],
)
def test_a_disk_that_fails_under_a_change_fails_the_directory(tmp_path, change):
    fs = FaultyFileSystem()
    failures = []
    fs.on_failure = failures.append
    log = open_log(tmp_path / "t-0", segment_bytes=200, now_ms=BASE_TIME_MS, fs=fs)
    for number in range(8):
        log.append_as_leader(batch(f"v{number}", timestamp=BASE_TIME_MS + number), 0)
    log.update_high_watermark(8)
    log.increment_log_start_offset(6)
    fs.broken[log.directory] = errno.EIO
    with pytest.raises(LogDirIOError) as failed:
        change(log)
    assert failed.value.is_fatal
    assert failures


def test_truncation_below_the_start(log):
    log.increment_log_start_offset(12)
    log.delete_old_segments()
    assert log.truncate_to(3)
    assert (log.log_start_offset, log.log_end_offset, values(log)) == (3, 3, [])
    assert log.append_as_leader(batch("new"), 9).first_offset == 3


def test_a_decided_transaction_stays_decided(tmp_path):
    """A truncation above the high watermark replays transactions: those that ended below it hold nothing back."""
    log = open_log(tmp_path / "t-0")
    log.append_as_leader(batch("a", producer=(1, 0, 0), transactional=True), 0)
    marker = EndTransactionMarker(ControlRecordType.COMMIT, 0)
    end = end_marker_batch(marker, producer_id=1, producer_epoch=0, timestamp=BASE_TIME_MS)
    log.append_as_leader(end, 0, origin=AppendOrigin.COORDINATOR)
    log.update_high_watermark(2)
    log.append_as_leader(batch("b", "c"), 0)
    log.append_as_leader(batch("d"), 0)
    assert log.truncate_to(4)
    assert log.last_stable_offset == log.high_watermark == 2


def test_negative_offsets(log):
    with pytest.raises(ValueError, match="-1"):
        log.truncate_to(-1)


def test_truncate_fully(log):
    log.truncate_fully_and_start_at(100)
    assert (log.log_start_offset, log.high_watermark, log.log_end_offset) == (100, 100, 100)
    assert log.leader_epochs.entries == []
    assert log.producers.producers == {}
    assert sorted(file.name for file in log.directory.iterdir() if file.stem.isdigit()) == [
        f"{100:020d}{suffix}" for suffix in (".index", ".log", ".timeindex")
    ]
    assert log.append_as_leader(batch("new"), 3).first_offset == 100
    log.truncate_fully_and_start_at(100)
    assert values(log) == []


class TestStartOffset:
    def test_records_below_are_deleted_and_segments_follow(self, log):
        assert log.increment_log_start_offset(12)
        assert not log.increment_log_start_offset(12)
        assert not log.increment_log_start_offset(5)
        assert values(log) == expected(12, 23)
        assert log.leader_epochs.entries == [(1, 12), (2, 16)]
        assert log.delete_old_segments() == 2
        assert [segment.base_offset for segment in log.segments] == [10, 15, 20]
        assert log.log_start_offset == 12
        assert not list(log.directory.glob("00000000000000000005*"))
        log.close()
        assert values(open_log(log.directory, log_start_offset=12)) == expected(12, 23)

    def test_not_above_the_high_watermark(self, log):
        log.update_high_watermark(7)
        with pytest.raises(OffsetOutOfRangeError):
            log.increment_log_start_offset(8)
        assert log.increment_log_start_offset(7)

    def test_up_to_the_end(self, log):
        assert log.increment_log_start_offset(23)
        assert values(log) == []
        log.delete_old_segments()
        assert log.append_as_leader(batch("new"), 3).first_offset == 23
        assert values(log) == ["new"]


class TestRetention:
    def set(self, log, **settings):
        log.config = log.config.with_overrides(**settings)

    @pytest.mark.parametrize(
        ("limit", "start"), [(23, 0), (22, 0), (18, 5), (17, 5), (13, 10), (3, 20), (0, 23), (-1, 0)]
    )
    def test_by_size(self, log, limit, start):
        self.set(log, retention_bytes=limit * SIZE, retention_ms=-1)
        log.delete_old_segments()
        assert log.log_start_offset == log.segments[0].base_offset == start
        assert values(log) == expected(start, 23)

    @pytest.mark.parametrize(("age", "start"), [(4, 0), (5, 5), (10, 10), (22, 20), (23, 23)])
    def test_by_time(self, log, age, start):
        """A segment goes when its newest record is too old: the first one's is of BASE_TIME_MS + 4."""
        self.set(log, retention_ms=1000)
        log.now_ms = lambda: BASE_TIME_MS + 1000 + age
        log.delete_old_segments()
        assert log.log_start_offset == start
        assert values(log) == expected(start, 23)

    def test_not_above_the_high_watermark(self, log):
        self.set(log, retention_bytes=0, retention_ms=-1)
        log.update_high_watermark(12)
        assert log.delete_old_segments() == 2
        assert log.segments[0].base_offset == 10

    def test_compacted_topics_keep_old_segments(self, log):
        self.set(log, retention_bytes=0, cleanup_policy={"compact"})
        assert log.delete_old_segments() == 0
        self.set(log, cleanup_policy={"compact", "delete"})
        assert log.delete_old_segments() > 0

    def test_an_empty_log_is_kept(self, tmp_path):
        log = open_log(tmp_path / "e-0", retention_ms=0, retention_bytes=0)
        assert log.delete_old_segments() == 0

    def test_files_are_removed_after_a_delay(self, log):
        scheduled = []
        log.files.schedule_removal = lambda paths, delay: scheduled.append((paths, delay))
        self.set(log, retention_bytes=0, retention_ms=-1, file_delete_delay_ms=77)
        log.delete_old_segments()
        ((paths, delay),) = scheduled
        assert delay == 77
        assert len([path for path in paths if path.endswith(".log.deleted")]) == 5
        assert any(path.endswith(".snapshot.deleted") for path in paths)
        assert all(os.path.exists(path) for path in paths)  # noqa: PTH110


def test_the_high_watermark_stays_within_the_log(log):
    assert log.update_high_watermark(99) == 23
    log.increment_log_start_offset(10)
    assert log.update_high_watermark(3) == 10
    assert log.high_watermark == 10


class FailingFileSystem(FileSystem):
    """Writes to files with one of the suffixes fail: none of the data, or half of it, is written."""

    suffixes = ()
    partial = False

    def __init__(self):
        super().__init__()
        self.paths = {}
        self.synced = []

    def open(self, path, *, create=False):
        handle = super().open(path, create=create)
        self.paths[handle.fd] = path
        return handle

    def pwrite(self, fd, data, position):
        if self.suffixes and self.paths[fd].endswith(self.suffixes):
            if self.partial and len(data) > 20:
                return os.pwrite(fd, memoryview(data)[:20], position)
            raise OSError(errno.ENOSPC, "No space left on device")
        return os.pwrite(fd, data, position)

    def fsync(self, fd):
        if self.suffixes == ("fsync",):
            raise OSError(errno.EIO, "Input/output error")
        self.synced.append(self.paths.get(fd, "?"))

    def sync_path(self, path):
        self.synced.append(path)


class TestFullDisk:
    @pytest.mark.parametrize("partial", [False, True])
    def test_a_failed_append_changes_nothing(self, tmp_path, partial):
        fs = FailingFileSystem()
        log = open_log(tmp_path / "t-0", fs=fs, now_ms=BASE_TIME_MS)
        log.append_as_leader(batch("a", producer=(7, 0, 0)), 0)
        fs.suffixes, fs.partial = (".log",), partial
        for append in (log.append_as_leader, lambda data, _: log.append_as_follower(data)):
            with pytest.raises(LogDirIOError) as failed:
                append(batch("b", producer=(7, 0, 1), base_offset=0 if append == log.append_as_leader else 1), 0)
            assert str(failed.value).endswith("No space left on device")
            assert log.log_end_offset == 1
        assert (log.directory / f"{0:020d}.log").stat().st_size == log.size_bytes
        fs.suffixes = ()
        log.append_as_leader(batch("b", producer=(7, 0, 1)), 0)
        assert values(log) == ["a", "b"]

    def test_an_index_that_cannot_grow_makes_lookups_slower_not_wrong(self, tmp_path):
        fs = FailingFileSystem()
        log = open_log(tmp_path / "t-0", fs=fs, index_interval_bytes=1, segment_bytes=2000)
        for number in range(20):
            fs.suffixes = (".index", ".timeindex") if 5 <= number < 15 else ()
            log.append_as_leader(batch(f"v{number:02}"), 0)
        entries = log.segments.active.offset_index.absolute_entries()
        assert [offset for offset, _ in entries] == [1, 2, 3, 4, 15, 16, 17, 18, 19]
        assert values(log) == expected(0, 20)
        assert [read_records(log, offset)[0].offset for offset in range(20)] == list(range(20))

    def test_a_roll_that_fails(self, tmp_path):
        class NoNewFiles(FileSystem):
            full = False

            def open(self, path, *, create=False):
                if create and self.full:
                    raise OSError(errno.ENOSPC, "No space left on device")
                return super().open(path, create=create)

        fs = NoNewFiles()
        log = open_log(tmp_path / "t-0", fs=fs, segment_bytes=2 * SIZE)
        log.append_as_leader(batch("v00"), 0)
        log.append_as_leader(batch("v01"), 0)
        fs.full = True
        with pytest.raises(LogDirIOError):
            log.append_as_leader(batch("v02"), 0)
        assert values(log) == expected(0, 2)
        fs.full = False
        log.append_as_leader(batch("v02"), 0)
        assert values(log) == expected(0, 3)
        assert len(log.segments) == 2


class TestFlush:
    def names(self, fs):
        found = [path.rpartition("/")[2] for path in fs.synced]
        fs.synced.clear()
        return found

    def test_a_flush_syncs_the_segments_up_to_its_offset(self, tmp_path):
        fs = FailingFileSystem()
        log = open_log(tmp_path / "t-0", fs=fs, topic_id=b"x" * 16, segment_bytes=3 * SIZE)
        for number in range(4):
            log.append_as_leader(batch(f"v{number:02}"), 0)
        assert log.recovery_point == 0
        log.flush(3)
        assert log.recovery_point == 3
        assert self.names(fs) == [
            *(f"{0:020d}{suffix}" for suffix in (".log", ".index", ".timeindex")),
            f"{3:020d}.snapshot",
            "leader-epoch-checkpoint",
            "partition.metadata",
            log.directory.name,
            tmp_path.name,
        ]
        log.flush()
        # The first again: it may have been rolled after it was synced, which gives its time index an entry.
        suffixes = (".log", ".index", ".timeindex")
        assert self.names(fs) == [f"{base:020d}{suffix}" for base in (0, 3) for suffix in suffixes]
        log.append_as_leader(batch("v04"), 0)
        log.flush()
        assert self.names(fs) == [f"{3:020d}{suffix}" for suffix in suffixes]
        assert log.recovery_point == 5
        assert log.prepare_flush() is None
        log.append_as_leader(batch("v05"), 0)
        flush = log.prepare_flush()
        log.append_as_leader(batch("v06"), 0)
        flush.run()
        assert log.recovery_point == 5
        flush.done()
        assert log.recovery_point == 6

    def test_a_failed_sync_does_not_move_the_recovery_point(self, tmp_path):
        fs = FailingFileSystem()
        log = open_log(tmp_path / "t-0", fs=fs)
        log.append_as_leader(batch("a"), 0)
        fs.suffixes = ("fsync",)
        with pytest.raises(LogDirIOError):
            log.flush()
        assert log.recovery_point == 0

    def test_a_truncation_during_a_sync(self, log):
        flush = log.prepare_flush()
        flush.run()
        log.truncate_to(7)
        for number in range(3):
            log.append_as_leader(batch(f"new{number}"), 3)
        flush.done()
        assert log.recovery_point == 0  # other records stand where those stood that were synced
        log.flush()
        assert log.recovery_point == 10

    def test_flush_messages(self, tmp_path):
        log = open_log(tmp_path / "t-0", flush_messages=3)
        outcomes = [log.append_as_leader(batch("a"), 0).flush_required for _ in range(4)]
        assert outcomes == [False, False, True, True]
        log.flush()
        assert not log.append_as_follower(batch("a", base_offset=4)).flush_required


def test_a_directory_that_disappears(tmp_path):
    log = open_log(tmp_path / "t-0")
    log.append_as_leader(batch("a"), 0)
    for segment in log.segments:
        segment.release()
    shutil.rmtree(log.directory)
    for use in (
        lambda: log.append_as_leader(batch("a"), 0),
        lambda: log.append_as_follower(batch("a", base_offset=1)),
        lambda: log.read(0, 100, max_offset=1),
        log.roll,
    ):
        with pytest.raises(LogDirIOError, match="No such file or directory"):
            use()
    assert log.log_end_offset == 1
