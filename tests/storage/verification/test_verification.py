"""Verification of log directories: Kafka's are sound, what cannot be is told with its place."""

import contextlib
import shutil
import struct

import pytest

from broker.cluster.registry_access import REGISTRY_FILE, SESSION_FILE
from protocol.compression import CompressionType
from protocol.control_records import ControlRecordType, EndTransactionMarker, end_marker_batch
from protocol.record_batch import iter_batches
from storage.compaction.run import compact_log
from storage.directories.log_directory import LogDirectory
from storage.errors import LogDirLockedError
from storage.file_system import FileSystem
from storage.log.append import AppendOrigin
from storage.verification.lock import SharedLock
from storage.verification.report import Severity, VerificationReport
from storage.verification.verification import NotALogDirectoryError, ReadOnlyFileSystem, verify, verify_directory
from support.log_dirs import (
    BASE_TIME_MS,
    EXPECTED,
    LOG_DIRS,
    batch,
    copy_log_directory,
    open_log,
    read_batches,
    recorded_directory,
)

LOG_DIRECTORIES = ["broker-0", *(f"{where}/broker-{n}" for where in ("epochs", "unclean") for n in (1, 2))]
LOG = "0" * 20 + ".log"
INDEX = "0" * 20 + ".index"
TIME_INDEX = "0" * 20 + ".timeindex"
TXN_INDEX = "0" * 20 + ".txnindex"


def errors(path, **options):
    return [problem for problem in verify_directory(path, **options) if problem.severity is Severity.ERROR]


@pytest.fixture
def data(tmp_path):
    """A copy of the recorded log directory."""
    return copy_log_directory("broker-0", tmp_path / "data")


def delete_up_to(log, offset):
    """Delete the segments before an offset, and close the log."""
    log.update_high_watermark(log.log_end_offset)
    log.increment_log_start_offset(offset)
    log.delete_old_segments()
    log.close()
    for path in log.directory.glob("*.deleted"):
        path.unlink()


class TestSound:
    @pytest.mark.parametrize("name", LOG_DIRECTORIES)
    def test_directories_written_by_kafka(self, name):
        problems = verify_directory(LOG_DIRS / name)
        assert all("names partitions that are not here" in problem.message for problem in problems)

    @pytest.mark.parametrize("name", EXPECTED)
    def test_a_single_partition(self, name):
        assert verify_directory(recorded_directory(name)) == []

    def test_all_files_are_read_and_none_is_changed(self, data):
        before = {path: path.read_bytes() for path in data.rglob("*") if path.is_file()}
        report = VerificationReport()
        verify(data, report, deep=True, live=False)
        assert {path: path.read_bytes() for path in data.rglob("*") if path.is_file()} == before
        assert report.bytes == sum(path.stat().st_size for path in data.rglob("*.log"))
        assert report.segments == len(list(data.rglob("*.log")))
        assert report.partitions == sum(path.is_dir() for path in data.iterdir())
        assert report.records > 3000

    def test_directories_written_by_ottla(self, tmp_path):
        """Every kind of batch, over several segments, by a leader and by a follower of several batches at a time."""
        log = open_log(tmp_path / "t-0", segment_bytes=4096, index_interval_bytes=200, topic_id=bytes(range(16)))
        copy = open_log(
            tmp_path / "copy" / "t-0", segment_bytes=8192, index_interval_bytes=300, topic_id=bytes(range(16))
        )
        sequence = 0
        for number in range(120):
            codec = list(CompressionType)[number % 5]
            size = 1 + number % 7
            producer = (4711, 0, sequence) if number % 2 else (-1, -1, -1)
            sequence += size if number % 2 else 0
            values = [b"value %d" % each * 5 for each in range(size)]
            log.append_as_leader(
                batch(*values, codec=codec, producer=producer, timestamp=1_700_000_000_000 + number * (number % 5 - 1)),
                leader_epoch=number // 40,
            )
        log.update_high_watermark(log.log_end_offset)
        position = 0
        while (info := log.read(position, 3000, max_offset=log.log_end_offset)).records is not None:
            position = copy.append_as_follower(bytearray(info.records.to_bytes())).last_offset + 1
        for each in (log, copy):
            each.close()
            assert verify_directory(each.directory) == []
            assert len(each.segments) > 2

    def test_the_registry_belongs_to_a_log_directory(self, data):
        (data / SESSION_FILE).touch()
        for suffix in ("", "-wal", "-shm"):
            (data / f"{REGISTRY_FILE}{suffix}").touch()
        (data / SESSION_FILE).touch()
        assert all("not here" in problem.message for problem in verify_directory(data))

    def test_a_deleted_start(self, data):
        """Segments that retention has removed leave producers nobody can check, and no hole."""
        log = open_log(data / "transactional-0", segment_bytes=4096)
        delete_up_to(log, 100)
        assert log.segments[0].base_offset > 0
        (data / "log-start-offset-checkpoint").write_text("0\n1\ntransactional 0 100\n")
        assert verify_directory(data / "transactional-0") == []

    def test_offsets_of_more_than_32_bits(self, tmp_path):
        log = open_log(tmp_path / "t-0", topic_id=bytes(range(16)))
        log.skip_to(2**40)
        log.append_as_leader(batch("a"), 0)
        log.close()
        assert errors(log.directory) == []

    def test_a_start_that_was_deleted_in_the_midst_of_a_transaction(self, data):
        """The snapshots know where it began, the records that are left do not."""
        log = open_log(data / "t-0", segment_bytes=200, retention_ms=-1)
        for number in range(20):
            log.append_as_leader(batch("a" * 50, producer=(7, 0, number), transactional=True), 0)
        delete_up_to(log, 8)
        first, *later = sorted((data / "t-0").glob("*.snapshot"))
        assert later
        first.unlink()
        (data / "log-start-offset-checkpoint").write_text("0\n1\nt 0 8\n")
        assert errors(data / "t-0") == []


class TestChain:
    def test_a_lost_segment(self, data):
        for path in (data / "multi-segment-0").glob(f"{104:020d}.*"):
            path.unlink()
        (problem,) = errors(data)
        assert problem.message == "offsets 104 to 205 are in no segment: a segment is missing"
        assert problem.offset == 104

    def test_a_gap_in_a_compacted_log(self, data):
        for path in (data / "compacted-0").glob(f"{169:020d}.*"):
            path.unlink()
        assert errors(data) == []
        (data / "cleaner-offset-checkpoint").unlink()
        assert [one for one in verify_directory(data) if "/compacted-0" in one.path] == []  # the batches show it

    def test_one_missing_record_indicates_compaction(self, tmp_path):
        log = open_log(tmp_path / "t-0", topic_id=bytes(range(16)), cleanup_policy={"compact"}, retention_ms=-1)
        log.append_as_leader(batch("1", "2"), 0)
        log.roll()
        log.append_as_leader(batch("x", key=b"x"), 0)
        log.roll()
        log.append_as_leader(batch("y", key=b"y"), 0)
        log.commit_all()
        compact_log(log, 0, 2)
        log.close()
        for path in log.directory.glob(f"{2:020d}.*"):
            path.unlink()
        assert verify_directory(log.directory) == []

    def test_gaps_between_batches_indicate_compaction(self, tmp_path):
        log = open_log(tmp_path / "t-0", topic_id=bytes(range(16)), segment_bytes=300)
        for offset in (0, 2, 5, 9):
            log.append_as_follower(batch("x" * 60, base_offset=offset, leader_epoch=0))
        log.close()
        (problem,) = verify_directory(log.directory)
        assert problem.severity is Severity.WARNING, problem
        assert "offsets 1 to 1 are in no batch" in problem.message

    def test_segments_that_overlap(self, data):
        source = data / "multi-segment-0" / f"{104:020d}.log"
        shutil.copyfile(source, source.with_name(f"{103:020d}.log"))
        messages = [problem.message for problem in errors(data)]
        assert "it overlaps the previous segment, which ends with 103" in messages

    def test_an_index_without_a_log(self, data):
        (data / "grp-0" / f"{12:020d}.index").touch()
        (problem,) = errors(data)
        assert "the segment's log file is missing" in problem.message

    @pytest.mark.parametrize("suffix", [".index", ".timeindex"])
    def test_a_missing_index(self, suffix, data):
        (data / "grp-0" / ("0" * 20 + suffix)).unlink()
        (problem,) = errors(data)
        assert (problem.path, problem.message) == (str(data / "grp-0" / ("0" * 20 + suffix)), "the file is missing")

    @pytest.mark.parametrize("suffix", ["index", "timeindex"])
    def test_preallocated_space_after_the_entries_of_an_index(self, suffix, data):
        path = (data / "grp-0" / LOG).with_suffix(f".{suffix}")
        path.write_bytes(path.read_bytes() + bytes(1200))
        (problem,) = verify_directory(data / "grp-0")
        assert (problem.severity, problem.message) == (
            Severity.WARNING,
            "1200 bytes of zeros after the last entry",
        )

    def test_an_entry_of_the_largest_time_is_missing(self, data):
        path = data / "multi-segment-0" / TIME_INDEX
        path.write_bytes(path.read_bytes()[:-12])
        (problem,) = verify_directory(data / "multi-segment-0")
        assert problem.severity is Severity.WARNING
        assert "has no entry" in problem.message

    def test_a_directory_without_segments(self, data):
        for path in (data / "empty-0").iterdir():
            path.unlink()
        assert "the partition has no segment" in [problem.message for problem in errors(data)]

    def test_decreasing_leader_epochs_in_the_log(self, tmp_path):
        log = open_log(tmp_path / "t-0", topic_id=bytes(range(16)))
        log.append_as_follower(batch("a", base_offset=0, leader_epoch=5))
        log.append_as_follower(batch("b", base_offset=1, leader_epoch=5))
        log.close()
        path = log.directory / LOG
        data = path.read_bytes()
        size = len(data) // 2
        path.write_bytes(data[: size + 12] + struct.pack(">i", 4) + data[size + 16 :])
        assert "leader epoch 4 follows 5 in the log" in [problem.message for problem in errors(log.directory)]

    def test_offsets_below_the_first_epoch(self, data):
        (data / "start-offset-0" / "leader-epoch-checkpoint").write_text("0\n1\n0 61\n")
        assert errors(data) == []
        assert verify_directory(data / "start-offset-0") == []
        (data / "start-offset-0" / "leader-epoch-checkpoint").write_text("0\n1\n0 64\n")
        (problem,) = verify_directory(data / "start-offset-0")
        assert problem.severity is Severity.WARNING
        assert "offset 61 is below the first entry's, 64" in problem.message

    def test_a_snapshot_after_the_end(self, data):
        shutil.copyfile(data / "grp-0" / f"{12:020d}.snapshot", data / "grp-0" / f"{13:020d}.snapshot")
        (problem,) = errors(data)
        assert "above the log end offset 12" in problem.message

    def test_a_snapshot_of_another_log(self, data):
        shutil.copyfile(data / "idempotent-0" / f"{85:020d}.snapshot", data / "grp-0" / f"{12:020d}.snapshot")
        assert any("offsets at or above 12" in problem.message for problem in errors(data))

    @pytest.mark.parametrize(("field", "value"), [(2, 38), (3, 30), (4, 30), (1, 1), (5, 7), (6, 9), (7, 3), (0, 99)])
    def test_a_snapshot_that_contradicts_the_log(self, field, value, data):
        from storage.producers.snapshot import SnapshotEntry, decode_snapshot, encode_snapshot

        path = data / "idempotent-0" / f"{85:020d}.snapshot"
        entries = [list(entry) for entry in decode_snapshot(path.read_bytes(), "")]
        entries[0][field] = value
        path.write_bytes(encode_snapshot([SnapshotEntry(*entry) for entry in entries]))
        (problem,) = errors(data)
        assert problem.path == str(path)

    def test_an_open_transaction_is_in_every_snapshot(self, data):
        from storage.producers.snapshot import encode_snapshot

        (path,) = (data / "transactional-open-0").glob("*.snapshot")
        path.write_bytes(encode_snapshot([]))
        (problem,) = errors(data)
        assert "with an open transaction is missing" in problem.message


class TestLogDirectory:
    def test_foreign_files(self, data):
        (data / "notes.txt").touch()
        (data / "lost+found").mkdir()
        (data / "grp-0" / "notes.txt").touch()
        found = {problem.path: problem.message for problem in verify_directory(data)}
        assert found[str(data / "notes.txt")] == "not a file of a log directory"
        assert found[str(data / "lost+found")] == "not a partition directory"
        assert found[str(data / "grp-0" / "notes.txt")] == "not a file of a log"

    @pytest.mark.parametrize("name", ["registry.sqlite", "registry.sqlite-wal", "registry.sqlite-reserve"])
    def test_files_of_the_embedded_registry(self, name, data):
        before = verify_directory(data)
        (data / name).touch()
        assert verify_directory(data) == before

    @pytest.mark.parametrize("suffix", ["delete", "future", "stray"])
    def test_directories_of_deletions_moves_and_strays(self, suffix, data):
        (data / "grp-0").rename(data / f"grp-0.0123456789abcdef0123456789abcdef-{suffix}")
        found = {problem.path: problem for problem in verify_directory(data)}
        problem = found[str(data / f"grp-0.0123456789abcdef0123456789abcdef-{suffix}")]
        assert problem.severity is Severity.WARNING

    def test_an_unclean_shutdown_is_reported(self, data):
        (data / ".kafka_cleanshutdown").unlink()
        assert any("not stopped cleanly" in problem.message for problem in verify_directory(data))
        checkpoint = data / "replication-offset-checkpoint"
        checkpoint.write_bytes(checkpoint.read_bytes().replace(b"grp 3 12", b"grp 3 13"))
        assert errors(data) == []  # the start lowers it

    def test_a_path_that_is_neither_a_log_nor_a_log_directory(self, tmp_path):
        with pytest.raises(NotALogDirectoryError, match="neither a log directory"):
            verify_directory(tmp_path)

    def test_a_log_directory_named_as_a_partition(self, data):
        renamed = data.rename(data.with_name("kafka-0"))
        assert errors(renamed) == []
        report = VerificationReport()
        verify(renamed, report, deep=False, live=False)
        assert report.partitions == 33

    def test_checkpoint_entries_of_missing_partitions(self, data):
        for path in (data / "cleaner-offset-checkpoint", data / "log-start-offset-checkpoint"):
            path.unlink(missing_ok=True)
        for file in ("recovery-point-offset-checkpoint", "replication-offset-checkpoint"):
            (data / file).write_text("0\n5\n" + "".join(f"gone {number} 1\n" for number in range(5)))
        shown = "it names partitions that are not here: gone-0, gone-1, gone-2 and 2 more"
        assert [one.message for one in verify_directory(data)].count(shown) == 2

    def test_many_problems_are_counted_not_listed(self, data):
        path = data / "multi-segment-0" / LOG
        content = bytearray(path.read_bytes())
        for each in list(iter_batches(bytes(content))):
            content[each.position + 70] ^= 1
        path.write_bytes(content)
        report = VerificationReport()
        verify(data, report, deep=False, live=False)
        assert sum(problem.path == str(path) for problem in report.problems) == 20
        assert report.left_out == {str(path): 84}
        assert report.errors == 104


class TestLive:
    def test_states_that_a_running_broker_may_leave(self, data):
        grp = data / "grp-0"
        log = grp / LOG
        log.write_bytes(log.read_bytes() + log.read_bytes()[:40])
        for index in (INDEX, TIME_INDEX):
            (grp / index).write_bytes((grp / index).read_bytes() + bytes(1200))
        (grp / (LOG + ".deleted")).touch()
        (data / ".kafka_cleanshutdown").unlink()
        (data / "recovery-point-offset-checkpoint").write_bytes(b"")
        assert errors(data)
        assert verify_directory(data, live=True) == []

    def test_states_that_a_running_broker_does_not_leave(self, data):
        path = data / "multi-segment-0" / LOG
        path.write_bytes(path.read_bytes().replace(b"1", b"2", 1))
        assert [problem.path for problem in errors(data, live=True)] == [str(path)]

    @pytest.mark.parametrize("live", [True, False])
    def test_a_segment_deleted_during_the_verification(self, live, data):
        log = data / "multi-segment-0" / LOG

        class Retention(ReadOnlyFileSystem):
            def size(self, path):
                if path == str(log):
                    log.unlink()
                return super().size(path)

        with contextlib.nullcontext() if live else pytest.raises(FileNotFoundError):
            assert verify_directory(log.parent, fs=Retention(), live=live) == []

    def test_an_incomplete_segment_that_is_not_the_active_one(self, data):
        path = data / "multi-segment-0" / LOG
        path.write_bytes(path.read_bytes()[:-3])
        assert errors(data, live=True)


class TestLock:
    def test_a_directory_in_use(self, tmp_path):
        directory = LogDirectory(FileSystem(), tmp_path)
        directory.lock()
        with pytest.raises(LogDirLockedError), SharedLock(str(tmp_path)):
            pass
        directory.unlock()
        (tmp_path / ".lock").touch()
        with SharedLock(str(tmp_path)), SharedLock(str(tmp_path)), pytest.raises(LogDirLockedError):
            LogDirectory(FileSystem(), tmp_path).lock()
        LogDirectory(FileSystem(), tmp_path).lock()

    def test_a_directory_without_lock(self, tmp_path):
        with SharedLock(str(tmp_path)):
            pass
        assert list(tmp_path.iterdir()) == []


def test_an_unfinished_first_compaction(tmp_path):
    """No checkpoint tells of it; but nobody else leaves a segment without batches and without times."""
    log = open_log(tmp_path / "t-0", cleanup_policy={"compact"}, segment_bytes=100)
    for number in range(4):
        log.append_as_leader(batch("a", key=b"k", producer=(2, 0, number)), 0)
    log.append_as_leader(batch("c"), 0)
    log.commit_all()
    times = sorted(log.directory.glob("*.timeindex"))[:3]
    before = [path.read_bytes()[:12] for path in times]
    compact_log(log, 0, 4)
    log.close()
    assert [path.stat().st_size for path in sorted(log.directory.glob("*.log"))][:3] == [0, 0, 0]

    def found():
        return [each.message for each in verify_directory(tmp_path) if each.severity is Severity.ERROR]

    assert found() == []
    for path, entry in zip(times, before, strict=True):  # here there were batches, which got lost otherwise
        path.write_bytes(entry)
    assert sum("above the segment's last" in message for message in found()) == 3
    assert "offsets 0 to 0 are in no segment: a segment is missing" in found()


def test_the_indexes_of_a_compacted_segment(tmp_path):
    """Positions are those in the new segment, of which a part is still in memory when they are written."""
    log = open_log(tmp_path / "t-0", cleanup_policy={"compact"}, index_interval_bytes=200)
    for number in range(100):
        log.append_as_leader(batch("a" * 20, key=b"%d" % (number // 2)), 0)
    log.roll()
    log.append_as_leader(batch("c"), 0)
    log.commit_all()
    compact_log(log, 0, 100)
    log.close()
    (tmp_path / "cleaner-offset-checkpoint").write_text("0\n1\nt 0 100\n")
    data, entries = (tmp_path / "t-0" / LOG).read_bytes(), (tmp_path / "t-0" / INDEX).read_bytes()
    assert len(entries) > 8 * 10
    for offset, position in struct.iter_unpack(">ii", entries):
        (base_offset,) = struct.unpack_from(">q", data, position)
        assert base_offset == offset
    assert errors(tmp_path) == []


def test_a_snapshot_of_batches_removed_by_compaction(tmp_path):
    """It may stand within a segment: what a start took there."""
    log = open_log(tmp_path / "t-0", cleanup_policy={"compact"})
    log.append_as_leader(batch("a", producer=(2, 0, 0)), 0)
    log.producers.take_snapshot()
    log.append_as_leader(batch("b", producer=(2, 0, 1)), 0)
    log.roll()
    log.append_as_leader(batch("c"), 0)
    log.commit_all()
    compact_log(log, 0, 2)
    assert [each.base_offset for each in read_batches(log)] == [1, 2]
    log.close()
    (tmp_path / "cleaner-offset-checkpoint").write_text("0\n1\nt 0 2\n")
    assert f"{1:020d}.snapshot" in [path.name for path in log.directory.iterdir()]
    assert [each for each in verify_directory(tmp_path) if each.severity is Severity.ERROR] == []


@pytest.mark.parametrize("later", [False, True], ids=["the producer's last one", "another one follows"])
def test_the_aborted_transactions_of_a_compacted_log(later, tmp_path):
    """Their index says where they began, the batches that are left say it later, or no longer."""
    log = open_log(tmp_path / "t-0", cleanup_policy={"compact"})
    abort = end_marker_batch(
        EndTransactionMarker(ControlRecordType.ABORT, 0), producer_id=7, producer_epoch=0, timestamp=BASE_TIME_MS
    )
    for number in range(2):
        log.append_as_leader(batch("a", producer=(7, 0, number), transactional=True), 0)
    log.append_as_leader(abort, 0, origin=AppendOrigin.COORDINATOR)
    if later:
        log.append_as_leader(batch("b", producer=(7, 0, 2)), 0)
    log.roll()
    log.append_as_leader(batch("c"), 0)
    log.commit_all()
    compact_log(log, 0, log.segments[-1].base_offset)
    assert read_batches(log)[0].base_offset == (2 if later else 1)
    assert [each.first_offset for each in log.segments[0].txn_index.entries] == [0]
    log.close()
    (tmp_path / "cleaner-offset-checkpoint").write_text("0\n1\nt 0 3\n")
    assert errors(tmp_path) == []
