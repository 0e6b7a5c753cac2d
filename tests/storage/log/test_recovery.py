"""Starts after a crash: torn tails, lost and wrong indexes, leftovers; and what is not read at all."""

import contextlib
import random
import shutil
import struct
from pathlib import Path

import pytest

from protocol.errors import CorruptRecordError
from storage.errors import CorruptFileError, InconsistentTopicIdError, InvalidLogDirectoryNameError
from storage.file_system import FileSystem
from storage.log.batch_scan import iter_headers, iter_valid_batches
from storage.log.files import parse_directory_name
from support.log_dirs import BASE_TIME_MS, batch, copy_directory, iter_whole, look_up, open_log, read_records

TINY = {"segment_bytes": 200, "index_interval_bytes": 50}
SMALL = {"segment_bytes": 600, "index_interval_bytes": 100}


def make(directory, count=40, **options):
    log = open_log(directory, **{**SMALL, **options})
    for number in range(count):
        # Every second batch is of producer 7.
        producer = (7, 0, number // 2) if number % 2 else (-1, -1, -1)
        log.append_as_leader(batch(f"value {number}", timestamp=BASE_TIME_MS + number, producer=producer), 1)
    return log


def contents(directory, *suffixes):
    return {file.name: file.read_bytes() for file in directory.iterdir() if not suffixes or file.suffix in suffixes}


def values(log):
    return [record.value.decode() for record in read_records(log)]


def reopen(directory, **options):
    return open_log(directory, **{**SMALL, "clean": False, "now_ms": BASE_TIME_MS, **options})


@pytest.fixture
def directory(tmp_path):
    log = make(tmp_path / "t-0", now_ms=BASE_TIME_MS)
    log.flush()
    assert len(log.segments) > 5
    return log.directory


def test_nothing_is_lost_by_a_kill(directory):
    log = reopen(directory)
    assert values(log) == [f"value {number}" for number in range(40)]
    assert log.producers.producers[7].last_sequence == 19
    assert log.leader_epochs.entries == [(1, 0)]
    log.append_as_leader(batch("more", producer=(7, 0, 20)), 1)


def test_recovery_rebuilds_the_same_indexes(directory):
    log = open_log(directory, **SMALL)
    log.close()
    before = contents(directory, ".log", ".index", ".timeindex")
    for file in directory.glob("*index"):
        file.write_bytes(b"\x01" * 40)
    reopen(directory).close()
    assert contents(directory, ".log", ".index", ".timeindex") == before


@pytest.mark.parametrize("damage", ["cut", "zeros", "garbage", "flip"])
def test_an_incomplete_tail_is_truncated_after_the_last_complete_batch(tmp_path, damage):
    """At every byte of the last batch."""
    directory = make(tmp_path / "t-0", count=10, now_ms=BASE_TIME_MS).directory
    last = sorted(directory.glob("*.log"))[-1]
    data = last.read_bytes()
    size = len(batch("value 9", producer=(7, 0, 4)))
    complete = values(reopen(directory))
    for keep in range(len(data) - size, len(data)):
        copy = tmp_path / "copy" / "t-0"
        shutil.rmtree(copy.parent, ignore_errors=True)
        shutil.copytree(directory, copy)
        torn = data[:keep]
        if damage == "zeros":
            torn += bytes(len(data) - keep + 100)
        elif damage == "garbage":
            torn += random.Random(keep).randbytes(len(data) - keep + 10)
        elif damage == "flip":
            if keep == len(data) - size:
                continue
            torn = data[: keep - 1] + bytes([data[keep - 1] ^ 0x40]) + data[keep:]
            in_patched_fields = keep - (len(data) - size) <= 16  # no checksum covers offset, length and epoch
            if in_patched_fields:
                continue
        if torn.startswith(data):
            continue  # the zeros are what was there
        (copy / last.name).write_bytes(torn)
        log = reopen(copy)
        assert values(log) == complete[:-1]
        assert (copy / last.name).stat().st_size == len(data) - size
        log.append_as_leader(batch("again"), 1)
        assert values(log) == [*complete[:-1], "again"]


def test_nothing_is_kept_after_a_damaged_batch(directory):
    middle = sorted(directory.glob("*.log"))[2]
    base = int(middle.stem)
    data = bytearray(middle.read_bytes())
    data[70] ^= 1
    middle.write_bytes(data)
    log = reopen(directory)
    assert log.log_end_offset == base
    assert values(log) == [f"value {number}" for number in range(base)]
    assert not [file for file in directory.iterdir() if file.suffix == ".deleted"]
    assert max(int(file.stem) for file in directory.glob("*.snapshot")) <= base


class CountingFileSystem(FileSystem):
    """Notes which files were read from."""

    def __init__(self):
        super().__init__()
        self.paths = {}
        self.read = set()
        self.synced = []

    def open(self, path, *, create=False):
        handle = super().open(path, create=create)
        self.paths[handle.fd] = path
        return handle

    def pread(self, fd, size, position):
        self.read.add(self.paths.get(fd, "").rpartition("/")[2])
        return FileSystem.pread(fd, size, position)

    def fsync(self, fd):
        self.synced.append(self.paths.get(fd, ""))
        FileSystem.fsync(fd)


def test_below_the_recovery_point_nothing_is_read(directory):
    bases = sorted(int(file.stem) for file in directory.glob("*.log"))
    fs = CountingFileSystem()
    log = reopen(directory, recovery_point=bases[-2], fs=fs)
    logs_read = {name for name in fs.read if name.endswith(".log")}
    assert logs_read == {f"{base:020d}.log" for base in bases[-2:]}
    assert log.recovery_point == bases[-2]
    assert log.log_end_offset == 40


def test_a_clean_start_reads_only_the_end(directory):
    open_log(directory, **SMALL).close()
    last = max(file.name for file in directory.glob("*.log"))
    fs = CountingFileSystem()
    log = open_log(directory, **SMALL, fs=fs, now_ms=BASE_TIME_MS)
    assert {name for name in fs.read if name.endswith(".log")} == {last}
    assert log.recovery_point == log.log_end_offset == 40


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
@pytest.mark.parametrize("damage", ["missing", "odd size"])
def test_damaged_indexes_are_rebuilt(directory, suffix, damage, clean):
    open_log(directory, **SMALL).close()
    before = contents(directory, ".index", ".timeindex")
    victim = sorted(directory.glob(f"*{suffix}"))[1]
    if damage == "missing":
        victim.unlink()
    else:
        victim.write_bytes(b"12345")
    log = reopen(directory, clean=clean, recovery_point=1000)
    assert len(values(log)) == 40
    log.close()
    assert contents(directory, ".index", ".timeindex") == before


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
@pytest.mark.parametrize("content", [b"\xff" * 48, b"\x00\x00\x00\x01\x00\x00\x00\x11" * 3, b"\x80" + b"\x00" * 23])
def test_garbage_in_the_last_indexes_is_detected_after_a_clean_stop(directory, suffix, content):
    open_log(directory, **SMALL).close()
    before = contents(directory, ".index", ".timeindex")
    victim = max(directory.glob(f"*{suffix}"))
    victim.write_bytes(content)
    log = reopen(directory, clean=True)
    assert log.log_end_offset == 40
    log.append_as_leader(batch("more"), 1)
    assert values(log) == [*(f"value {number}" for number in range(40)), "more"]
    log.close()
    if suffix == ".index":
        after = contents(directory, ".index", ".timeindex")
        assert after[victim.name][: len(before[victim.name])] == before[victim.name]


def test_preallocated_indexes_of_a_running_kafka(tmp_path):
    """Kafka fills the indexes of an active segment with zeros up to segment.index.bytes."""
    directory = copy_directory("multi-segment-0", tmp_path)
    before = contents(directory)
    last = sorted(directory.glob("*.log"))[-1].stem
    for suffix, size in ((".index", 10485760), (".timeindex", 10485756)):
        with (directory / f"{last}{suffix}").open("r+b") as file:
            file.truncate(size)
    log = open_log(directory, segment_bytes=16384, index_interval_bytes=512)
    assert log.segments.active.offset_index.entries * 8 == len(before[f"{last}.index"])
    assert log.segments.active.time_index.entries * 12 == len(before[f"{last}.timeindex"])
    assert log.read(690, 10, max_offset=700).records is not None
    log.close()
    assert contents(directory) == before


class TestLeftovers:
    def test_deleted_cleaned_and_temporary_files_are_removed(self, directory):
        base = "00000000000000000003"
        for name in (
            f"{base}.log.deleted",
            f"{base}.index.deleted",
            f"{base}.snapshot.deleted",
            f"{base}.log.cleaned",
            f"{base}.timeindex.cleaned",
            "leader-epoch-checkpoint.tmp",
        ):
            (directory / name).write_bytes(b"x")
        before = values(open_log(directory, **SMALL))
        names = [file.name for file in directory.iterdir()]
        assert not [name for name in names if name.endswith(("deleted", "cleaned", "tmp"))]
        assert len(before) == 40

    @pytest.mark.parametrize("name", ["notes-about-this-partition.md", "000000000000000000070.snapshot"])
    def test_foreign_files_are_left_alone(self, name, directory):
        (directory / name).write_bytes(b"x")
        log = open_log(directory, clean=False, **SMALL)
        assert len(values(log)) == 40
        assert (directory / name).read_bytes() == b"x"

    def test_an_index_without_a_log_is_removed(self, directory):
        (directory / "00000000000000000999.index").write_bytes(b"")
        log = open_log(directory, **SMALL)
        assert log.log_end_offset == 40
        assert not (directory / "00000000000000000999.index").exists()

    def test_a_finished_compaction_replaces_its_segments(self, directory):
        """The .swap files replace the segments that they cover."""
        bases = sorted(int(file.stem) for file in directory.glob("*.log"))
        merged = b"".join((directory / f"{base:020d}.log").read_bytes() for base in bases[:3])
        first = f"{bases[0]:020d}"
        (directory / f"{first}.log.swap").write_bytes(merged)
        (directory / f"{first}.index.swap").write_bytes(b"")
        (directory / f"{first}.timeindex.swap").write_bytes(b"")
        log = open_log(directory, **SMALL)
        assert [segment.base_offset for segment in log.segments] == [bases[0], *bases[3:]]
        assert len(values(log)) == 40
        assert not list(directory.glob("*.swap"))

    def test_the_log_file_of_a_finished_compaction_takes_its_name_before_its_indexes_do(self, directory):
        """As long as there is a `.log.swap`, the next start removes what is in its place: an index, too."""

        class Noting(FileSystem):
            renamed = ()

            def rename(self, source, target):
                if source.endswith(".swap"):
                    self.renamed += (target.rpartition("/")[2],)
                super().rename(source, target)

        first, second = [file.stem for file in sorted(directory.glob("*.log"))[:2]]
        for base in (first, second):
            shutil.copy(directory / f"{base}.log", directory / f"{base}.log.swap")
            (directory / f"{base}.index.swap").write_bytes(b"")
        noting = Noting()
        assert len(values(open_log(directory, fs=noting, **SMALL))) == 40
        assert noting.renamed == (f"{first}.log", f"{first}.index", f"{second}.log", f"{second}.index")

    def test_a_start_without_leftovers_looks_at_the_directory_once(self, directory):
        class Counting(FileSystem):
            lists = 0

            def list_directory(self, path):
                self.lists += 1
                return super().list_directory(path)

        counting = Counting()
        open_log(directory, fs=counting, **SMALL).close()
        once = counting.lists
        for leftover in ("00000000000000000003.log.deleted", "00000000000000000003.log.cleaned", "x.tmp"):
            (directory / leftover).write_bytes(b"x")
            counting.lists = 0
            open_log(directory, fs=counting, **SMALL).close()
            assert counting.lists == once + 1

    def test_an_unfinished_compaction_is_discarded(self, directory):
        first = sorted(directory.glob("*.log"))[0].stem
        (directory / f"{first}.log.swap").write_bytes(b"")
        (directory / f"{first}.log.cleaned").write_bytes(b"")
        log = open_log(directory, **SMALL)
        assert len(values(log)) == 40
        assert not [*directory.glob("*.swap"), *directory.glob("*.cleaned")]

    def test_a_finished_and_a_later_unfinished_compaction(self, directory):
        """Groups are compacted one after the other: the first is in place but for its name, the second half written."""
        bases = sorted(int(file.stem) for file in directory.glob("*.log"))
        merged = b"".join((directory / f"{base:020d}.log").read_bytes() for base in bases[:3])
        (directory / f"{bases[0]:020d}.log.swap").write_bytes(merged)
        (directory / f"{bases[3]:020d}.log.cleaned").write_bytes(b"x")
        (directory / f"{bases[4]:020d}.log.swap").write_bytes(b"x")
        log = open_log(directory, **SMALL)
        assert [segment.base_offset for segment in log.segments] == [bases[0], *bases[3:]]
        assert len(values(log)) == 40
        assert not [*directory.glob("*.swap"), *directory.glob("*.cleaned")]

    def test_an_unfinished_roll(self, directory):
        """The new segment's files are there, or some of them, and nothing else happened."""
        (directory / f"{40:020d}.log").write_bytes(b"")
        log = reopen(directory)
        assert (log.log_end_offset, log.segments.active.base_offset) == (40, 40)
        log.append_as_leader(batch("x"), 1)
        assert len(values(log)) == 41


class TestSmallFiles:
    @pytest.mark.parametrize("clean", [True, False])
    @pytest.mark.parametrize("content", [b"", b"\x00" * 56, b"garbage", b"\x00\x01\x00\x00\x00\x00\x00\x00\x00\x00"])
    def test_a_corrupt_snapshot_is_skipped(self, directory, content, clean):
        open_log(directory, **SMALL, now_ms=BASE_TIME_MS).close()
        snapshots = sorted(directory.glob("*.snapshot"))
        for snapshot in snapshots[-2:]:
            snapshot.write_bytes(content)
        log = reopen(directory, clean=clean)
        assert log.producers.producers[7].last_sequence == 19
        log.close()
        assert reopen(directory, clean=True).producers.producers[7].last_sequence == 19

    def test_lost_snapshots(self, directory):
        open_log(directory, **SMALL).close()
        for snapshot in directory.glob("*.snapshot"):
            snapshot.unlink()
        assert reopen(directory, clean=True).producers.producers[7].last_sequence == 19

    @pytest.mark.parametrize("clean", [True, False])
    @pytest.mark.parametrize("content", [b"", b"0\n", b"0\n3\n0 0\n", b"7\n0\n", b"0\n1\nx y\n"])
    def test_corrupt_leader_epochs_are_rebuilt_from_the_log(self, directory, content, clean):
        log = open_log(directory, **SMALL)
        log.append_as_leader(batch("in another epoch"), 4)
        log.close()
        (directory / "leader-epoch-checkpoint").write_bytes(content)
        assert reopen(directory, clean=clean).leader_epochs.entries == [(1, 0), (4, 40)]

    def test_all_leader_epochs_are_read_again_if_a_segment_between_is_recovered_too(self, tmp_path):
        log = open_log(tmp_path / "t-0", now_ms=BASE_TIME_MS)
        for epoch in range(4):
            log.append_as_leader(batch("value"), epoch)
            log.roll()
        log.close()
        (log.directory / "leader-epoch-checkpoint").write_bytes(b"")
        (log.directory / f"{1:020d}.index").unlink()
        assert reopen(log.directory, clean=True).leader_epochs.entries == [(0, 0), (1, 1), (2, 2), (3, 3)]

    def test_a_corrupt_file_of_leader_epochs_is_replaced_if_no_batch_has_an_epoch(self, tmp_path):
        log = open_log(tmp_path / "t-0")
        log.append_as_follower(batch("value"))
        log.close()
        (log.directory / "leader-epoch-checkpoint").write_bytes(b"")
        reopen(log.directory, clean=True).release()
        assert (log.directory / "leader-epoch-checkpoint").read_bytes() == b"0\n0\n"

    def test_corrupt_leader_epochs_begin_at_the_log_start(self, tmp_path):
        log = open_log(tmp_path / "t-0", now_ms=BASE_TIME_MS)
        log.append_as_leader(batch("a", "b", "c"), 1)
        log.close()
        (log.directory / "leader-epoch-checkpoint").write_bytes(b"")
        assert reopen(log.directory, clean=True, log_start_offset=1).leader_epochs.entries == [(1, 1)]

    def test_topic_ids(self, tmp_path):
        log = open_log(tmp_path / "t-0", topic_id=b"A" * 16)
        assert (log.directory / "partition.metadata").read_text() == ("version: 0\ntopic_id: QUFBQUFBQUFBQUFBQUFBQQ")
        assert open_log(log.directory).topic_id == b"A" * 16
        with pytest.raises(InconsistentTopicIdError):
            open_log(log.directory, topic_id=b"B" * 16)
        (log.directory / "partition.metadata").write_bytes(b"")
        assert open_log(log.directory).topic_id is None
        (log.directory / "partition.metadata").write_bytes(b"version: 1\ntopic_id: x")
        with pytest.raises(CorruptFileError):
            open_log(log.directory)


def test_a_log_that_ends_before_its_start_offset_restarts_there(directory):
    log = reopen(directory, log_start_offset=55)
    assert (log.log_start_offset, log.log_end_offset, log.size_bytes) == (55, 55, 0)
    assert log.producers.producers == {}
    assert log.append_as_leader(batch("x"), 2).first_offset == 55


def test_old_message_formats_in_the_log(tmp_path):
    """A directory from before Kafka 0.11: messages of magic 1, found by offset and recovered."""
    from protocol.message_set import MessageSetBuilder

    log = open_log(tmp_path / "t-0")
    log.close()
    data = b""
    for offset in range(30):
        builder = MessageSetBuilder(1)
        builder.append(offset, BASE_TIME_MS + offset, b"k", b"v%d" % offset)
        data += bytes(builder.build())
    (log.directory / f"{0:020d}.log").write_bytes(data + b"torn")
    log = open_log(log.directory, clean=False, index_interval_bytes=50)
    assert log.log_end_offset == 30
    assert log.size_bytes == len(data)
    times = log.segments[0].time_index
    assert (times.last_timestamp, times.last_offset) == (BASE_TIME_MS + 29, 29)
    assert look_up(log, BASE_TIME_MS + 12) == (BASE_TIME_MS + 12, 12, -1)
    size = len(data) // 30
    records = log.read(29, 1000, max_offset=30).records
    assert struct.unpack(">q", records.read(0, 8)) == (29,)
    assert len(log.read(0, 1 << 20, max_offset=3).records) <= 3 * (size + 1)
    log.append_as_leader(batch("new", producer=(7, 0, 5)), 3)
    log.append_as_leader(batch("newer", producer=(8, 0, 6)), 3)
    assert log.log_end_offset == 32
    (log.directory / "leader-epoch-checkpoint").unlink()
    recovered = open_log(log.directory, clean=False, now_ms=BASE_TIME_MS)
    last_sequences = {number: entry.last_sequence for number, entry in recovered.producers.producers.items()}
    assert last_sequences == {7: 5, 8: 6}
    assert recovered.leader_epochs.entries == [(3, 30)]


@pytest.mark.parametrize("clean", [True, False], ids=["clean", "unclean"])
@pytest.mark.parametrize("epoch", [1, 2])
def test_an_epoch_without_records_that_the_file_still_has_gives_way_to_a_record(tmp_path, epoch, clean):
    """The start does not write the file, so the next record does."""
    log = make(tmp_path / "t-0", count=3)
    log.leader_epochs.assign(3, 3)  # it led without a record
    log.close()
    file = log.directory / "leader-epoch-checkpoint"
    log = reopen(log.directory, clean=True)
    assert (log.leader_epochs.entries, file.read_text()) == ([(1, 0)], "0\n2\n1 0\n3 3\n")
    leader = make(tmp_path / "leader-0", count=3)
    leader.append_as_leader(batch("of an earlier epoch"), epoch)
    log.append_as_follower(leader.read(3, 1000, max_offset=4).records.read(0, 1000))
    expected = [(1, 0), (2, 3)] if epoch == 2 else [(1, 0)]
    assert log.leader_epochs.entries == expected
    assert "3 3" not in file.read_text().splitlines()
    if clean:
        log.close()
    assert reopen(log.directory, clean=clean).leader_epochs.entries == expected


@pytest.mark.parametrize("clean", [True, False])
def test_the_age_of_a_segment_is_that_of_its_first_batch(directory, clean):
    """Whoever has just appended knows it; a start reads it when somebody asks."""
    log = reopen(directory, clean=clean)
    for segment in log.segments:
        assert segment.first_batch_timestamp == BASE_TIME_MS + segment.base_offset
    log.roll()
    assert log.segments.active.first_batch_timestamp is None
    log.append_as_leader(batch("new", timestamp=BASE_TIME_MS + 99), 1)
    assert log.segments.active.first_batch_timestamp == BASE_TIME_MS + 99
    log.release()


@pytest.mark.parametrize("size", [0, 8])
def test_an_empty_log_is_recovered_unless_its_files_are_empty(tmp_path, size):
    class Opened(FileSystem):
        def open(self, path, *, create=False):
            opened.append(path.rpartition(".")[2])
            return super().open(path, create=create)

    log = open_log(tmp_path / "t-0", **SMALL)
    log.close()
    (log.directory / f"{0:020d}.index").write_bytes(b"\1" * size)
    opened = []
    log = reopen(log.directory, fs=Opened(), recovery_point=0)
    assert (opened != []) == (size > 0)
    assert (log.log_end_offset, len(log.segments)) == (0, 1)
    assert (log.directory / f"{0:020d}.index").read_bytes() == b""
    assert log.files.are_names_unsynced  # the directory may not be on disk
    assert log.append_as_leader(batch("first"), 1).first_offset == 0
    log.close()
    assert values(reopen(log.directory, clean=True)) == ["first"]


@pytest.mark.parametrize(
    ("torn", "recovery_point", "is_synced"), [(b"", 3, False), (b"\0" * 30, 3, True), (b"", 5, True)]
)
def test_a_log_that_ends_at_or_before_the_recovery_point_is_synced(tmp_path, torn, recovery_point, is_synced):
    """The next start would not look at it once it is rolled. An empty segment at the recovery point is looked at."""

    class Noting(FileSystem):
        synced = ()

        def fsync(self, fd):
            self.synced += (str(Path(f"/proc/self/fd/{fd}").readlink()),)
            super().fsync(fd)

    log = make(tmp_path / "t-0", count=3)
    log.roll()
    log.flush()
    log.release()
    path = log.directory / f"{3:020d}.log"
    path.write_bytes(torn)
    noting = Noting()
    log = reopen(log.directory, fs=noting, recovery_point=recovery_point)
    assert (log.log_end_offset, path.stat().st_size) == (3, 0)
    assert (str(path) in noting.synced) == is_synced
    log.release()


def test_a_batch_larger_than_the_recovery_buffer(tmp_path):
    log = make(tmp_path / "t-0", count=4, segment_bytes=1 << 30, max_message_bytes=4_000_000)
    log.append_as_leader(batch("x" * 3_000_000, producer=(9, 0, 0)), 4)
    log.append_as_leader(batch("last", producer=(9, 0, 1)), 4)
    size = log.size_bytes
    (log.directory / "leader-epoch-checkpoint").unlink()
    log = reopen(log.directory, segment_bytes=1 << 30)
    assert (log.log_end_offset, log.size_bytes) == (6, size)
    assert log.producers.producers[9].last_sequence == 1
    assert log.leader_epochs.entries == [(1, 0), (4, 4)]


@pytest.mark.parametrize("chunk_bytes", [61, 200, 1000])
def test_batches_are_the_same_for_any_recovery_buffer(tmp_path, chunk_bytes):
    log = make(tmp_path / "t-0", segment_bytes=1 << 30)
    file, size = log.segments[0].file, log.segments[0].size
    read = []
    found = [
        (header.position, bytes(data))
        for header, data in iter_valid_batches(file, size, chunk_bytes=chunk_bytes, on_read=read.append)
    ]
    assert b"".join(data for _, data in found) == (log.directory / f"{0:020d}.log").read_bytes()
    assert [position for position, _ in found] == [each.position for each in iter_headers(file, 0, size)]
    assert sum(read) >= size
    log.files.fs.ftruncate(file.open().fd, size - 10)
    with pytest.raises(CorruptRecordError, match="shorter than it was"):
        list(iter_valid_batches(file, size, chunk_bytes=chunk_bytes))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("topic-0", ("topic", 0)),
        ("a-b-c-12", ("a-b-c", 12)),
        ("a.b-3.0123abcd-delete", ("a.b", 3)),
        ("a-3.x-future", ("a", 3)),
        ("topic", None),
        ("-1", None),
        ("topic-", None),
        ("topic-x", None),
    ],
)
def test_names_of_directories(name, expected):
    if expected is None:
        with pytest.raises(InvalidLogDirectoryNameError):
            parse_directory_name(name)
    else:
        assert parse_directory_name(name) == expected


class TestWhatAPowerCutLeaves:
    """Parts of a log that do not belong together. (tests/storage/log/test_power_cut.py makes them by chance.)"""

    @pytest.fixture
    def directory(self, tmp_path):
        log = open_log(tmp_path / "t-0", **TINY)
        for number in range(10):
            log.append_as_leader(batch(f"value {number}", producer=(7, 0, number)), 3)
        log.flush()
        log.release()
        return log.directory

    def reopen(self, directory, **options):
        return open_log(directory, **{**TINY, "clean": False, "now_ms": BASE_TIME_MS, **options})

    def lose_the_end(self, directory, number):
        """The last batch of segment `number` never reached the disk. Returns its offset."""
        file = sorted(directory.glob("*.log"))[number]
        data = file.read_bytes()
        end = len(data) - len(batch("value 0", producer=(7, 0, 0)))
        file.write_bytes(data[:end])
        return int(sorted(directory.glob("*.log"))[number + 1].stem) - 1

    def test_segments_after_a_lost_end_are_removed(self, directory):
        lost = self.lose_the_end(directory, 2)
        log = self.reopen(directory, recovery_point=0)
        assert log.log_end_offset == lost
        assert values(log) == [f"value {number}" for number in range(lost)]
        assert log.producers.producers[7].last_sequence == lost - 1

    @pytest.mark.parametrize(
        ("recovery_point", "policy"),
        [(None, "delete"), (0, "compact"), (0, "compact,delete"), (8, "delete")],
        ids=["nothing is known", "compacted", "compacted and deleted", "below the recovery point"],
    )
    def test_a_gap_that_compaction_may_have_left_is_kept(self, directory, recovery_point, policy):
        lost = self.lose_the_end(directory, 1)
        log = self.reopen(directory, recovery_point=recovery_point, cleanup_policy=policy)
        assert log.log_end_offset == 10
        assert values(log) == [f"value {number}" for number in range(10) if number != lost]

    def test_segments_of_before_a_truncation_are_removed(self, directory):
        """They came back, and the one before them holds what was appended after it."""
        bases = sorted(int(file.stem) for file in directory.glob("*.log"))
        first = directory / f"{bases[0]:020d}.log"
        data = b"".join(bytes(batch(f"new {n}", base_offset=n, leader_epoch=4)) for n in range(bases[1] + 1))
        first.write_bytes(data)
        log = self.reopen(directory, recovery_point=0)
        assert values(log) == [f"new {number}" for number in range(bases[1] + 1)]
        assert [segment.base_offset for segment in log.segments] == [0]
        assert log.leader_epochs.entries == [(4, 0)]

    def test_snapshots_after_the_recovery_point_are_rebuilt(self, directory):
        """One of them came back: it knows a producer whose records were lost."""
        from storage.producers.snapshot import SnapshotEntry, encode_snapshot

        stale = [SnapshotEntry(66, 0, 5, 5, 0, BASE_TIME_MS, -1, -1)]
        snapshots = sorted(int(file.stem) for file in directory.glob("*.snapshot"))
        for offset in snapshots:
            (directory / f"{offset:020d}.snapshot").write_bytes(encode_snapshot(stale))
        log = self.reopen(directory, recovery_point=0)
        assert set(log.producers.producers) == {7}
        log.release()
        log = self.reopen(directory, recovery_point=snapshots[-1])
        assert set(log.producers.producers) == {7}
        assert snapshots[-2:] == log.producers.snapshots[-3:-1]

    @pytest.mark.parametrize(
        ("stored", "right"),
        [
            ("0\n2\n3 0\n5 4\n", [(3, 0)]),
            ("0\n1\n5 4\n", [(3, 0)]),
            ("0\n1\n2 0\n", [(2, 0), (3, 4)]),
            ("0\n2\n3 0\n9 1", [(3, 0)]),
        ],
        ids=["of records that are lost", "begins too late", "lacks an epoch", "cut within a number"],
    )
    def test_leader_epochs_match_the_batches(self, directory, stored, right):
        if right[0][0] == 2:
            for file in directory.glob("*.log"):
                data = bytearray(file.read_bytes())
                for each in iter_whole(bytes(data)):
                    if each.base_offset < 4:
                        data[each.position + 15] = 2
                file.write_bytes(data)
        (directory / "leader-epoch-checkpoint").write_text(stored)
        assert self.reopen(directory, recovery_point=0).leader_epochs.entries == right

    def test_leader_epochs_are_complete_after_an_interrupted_rebuild(self, tmp_path):
        class Recording(FileSystem):
            def replace_file(self, path, data, *, sync=False):
                if path.endswith("leader-epoch-checkpoint"):
                    written.append(bytes(data))
                super().replace_file(path, data, sync=sync)

        written = []
        directory = tmp_path / "t-0"
        log = open_log(directory, **SMALL)
        for epoch in range(1, 6):
            for _ in range(3):
                log.append_as_leader(batch(f"of epoch {epoch}"), epoch)
        right, end = log.leader_epochs.entries, log.log_end_offset
        log.release()
        file = directory / "leader-epoch-checkpoint"
        file.write_bytes(b"")
        self.reopen(directory, recovery_point=end - 1, fs=Recording()).release()
        assert written
        for content in written:
            file.write_bytes(content)
            log = self.reopen(directory, recovery_point=end - 1)
            assert log.leader_epochs.entries == right
            log.release()

    def test_records_below_a_lost_start_offset_have_their_epochs(self, directory):
        """The log start moved on, its checkpoint never reached the disk, the epochs did."""
        (directory / "leader-epoch-checkpoint").write_text("0\n1\n3 6\n")
        assert self.reopen(directory, recovery_point=10).leader_epochs.entries == [(3, 0)]

    @pytest.mark.parametrize("known", ["3 2", "3 5"])
    def test_records_without_epochs_below_a_lost_start_offset_have_none(self, known, tmp_path):
        """They are of before Kafka 0.11, or of a leader that had not been told its epoch."""
        log = open_log(tmp_path / "t-0", **TINY)
        for offset, epoch in enumerate([-1, 2, 3, -1, 3, 3]):
            log.append_as_follower(batch("x", base_offset=offset, leader_epoch=epoch))
        log.flush()
        log.release()
        (log.directory / "leader-epoch-checkpoint").write_text(f"0\n1\n{known}\n")
        assert self.reopen(log.directory, recovery_point=6).leader_epochs.entries == [(2, 1), (3, 2)]

    @pytest.mark.parametrize("content", [b"version: 0\ntop", b"version: 0\ntopic_id: QUFB", b"\x00" * 43, b"vers"])
    def test_an_incomplete_topic_id_counts_as_none(self, directory, content):
        (directory / "partition.metadata").write_bytes(content)
        log = self.reopen(directory)
        assert log.topic_id is None
        log.release()
        assert self.reopen(directory, topic_id=b"A" * 16).topic_id == b"A" * 16
        assert self.reopen(directory).topic_id == b"A" * 16

    def test_damage_below_the_recovery_point_is_reported(self, directory):
        """Nobody reads there, unless the snapshots are gone as well."""
        for snapshot in directory.glob("*.snapshot"):
            snapshot.unlink()
        first = sorted(directory.glob("*.log"))[0]
        first.write_bytes(bytes(first.stat().st_size))
        with pytest.raises(CorruptFileError, match="t-0"):
            self.reopen(directory, recovery_point=10)


class TestSwaps:
    """A start that finishes a swap is itself interrupted at every step, and the next start finishes it."""

    @pytest.mark.parametrize("done", range(14))
    def test_an_interrupted_recovery_can_be_repeated(self, directory, done):
        bases = sorted(int(file.stem) for file in directory.glob("*.log"))
        before = values(open_log(directory, **SMALL))
        for group in (bases[:2], bases[2:4]):
            merged = b"".join((directory / f"{base:020d}.log").read_bytes() for base in group)
            (directory / f"{group[0]:020d}.log.swap").write_bytes(merged)
            (directory / f"{group[0]:020d}.index.swap").write_bytes(b"")
            (directory / f"{group[0]:020d}.timeindex.swap").write_bytes(b"")

        class Stopping(FileSystem):
            left = done

            def _count(self):
                self.left -= 1
                if self.left < 0:
                    raise RuntimeError("power")

            def rename(self, source, target):
                self._count()
                super().rename(source, target)

            def remove(self, path):
                self._count()
                return super().remove(path)

        with contextlib.suppress(RuntimeError):
            open_log(directory, fs=Stopping(), **SMALL)
        fs = CountingFileSystem()
        log = open_log(directory, fs=fs, **SMALL)
        assert values(log) == before
        assert [segment.base_offset for segment in log.segments] == [bases[0], bases[2], *bases[4:]]
        assert not list(directory.glob("*.swap"))
