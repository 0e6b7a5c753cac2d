"""A full disk: what finds no room is refused and undone, or kept for later; nothing is lost, and it goes on."""

import asyncio
import errno
import os
import random
import resource
import subprocess
import sys

import pytest

from protocol.control_records import ControlRecordType, EndTransactionMarker, end_marker_batch
from storage.errors import LogDirIOError
from storage.file_system import FileSystem
from storage.log.append import AppendOrigin
from storage.log.config import LogConfig
from storage.log_manager import LogManager
from support.broker import ROOT
from support.counts import count
from support.deadlines import DEADLINE_S
from support.faulty_disk import FaultyFileSystem
from support.log_dirs import BASE_TIME_MS, RECORDED_NOW_MS, batch, look_up, open_log, read_batches, read_records

TOPIC_ID = b"T" * 16
SETTINGS = {"segment_bytes": 1500, "index_interval_bytes": 100, "file_delete_delay_ms": 0}


def values(log):
    return [record.value for record in read_records(log)]


def contents(log):
    """Every batch: offset, leader epoch, checksum."""
    return [(each.base_offset, each.partition_leader_epoch, each.crc) for each in read_batches(log)]


def lookups(log):
    """Every offset is found by offset and by timestamp, whatever the indexes hold."""
    for record in read_records(log):
        found = log.read(record.offset, 1, max_offset=log.log_end_offset).records
        assert found is not None
        assert look_up(log, record.timestamp)[1] <= record.offset


def picture(log):
    """What an append must not change where it is refused: an empty segment more does no harm."""
    return (
        log.log_end_offset,
        log.size_bytes,
        log.producers.end_offset,
        {entry.producer_id: list(entry.batches) for entry in log.producers.producers.values()},
        [entry for segment in log.segments for entry in segment.txn_index.entries],
    )


def history(number):
    """The appends of a log by number: (batch, leader epoch, origin), with transactions, aborted or not."""
    epoch = number // 20
    if number % 4 == 3:
        return end_marker(committed=number % 8 == 3), epoch, AppendOrigin.COORDINATOR
    size = 3 if number % 4 == 2 else 1 + number % 3
    records = [b"%d.%d" % (number, i) + b"x" * (number * 13 % 90) for i in range(size)]
    if number % 4 == 2:
        return batch(*records, producer=(9, 0, number // 4 * 3), transactional=True), epoch, AppendOrigin.CLIENT
    return batch(*records), epoch, AppendOrigin.CLIENT


def end_marker(*, committed):
    marker = EndTransactionMarker(ControlRecordType.COMMIT if committed else ControlRecordType.ABORT, 0)
    return end_marker_batch(marker, producer_id=9, producer_epoch=0, timestamp=BASE_TIME_MS)


def refused(log, records, epoch, origin):
    """Append, and return why it was refused: None if it was not. The log is then what it was, but for its epochs."""
    before = picture(log)
    try:
        log.append_as_leader(records, epoch, origin=origin)
    except LogDirIOError as error:
        assert picture(log) == before
        return error
    return None


class PiecemealFileSystem(FileSystem):
    """The kernel takes seven bytes at a time."""

    def pwrite(self, fd, data, position):
        return super().pwrite(fd, memoryview(data)[:7], position)


def test_partial_writes_are_completed(tmp_path):
    log = open_log(tmp_path / "t-0", fs=PiecemealFileSystem())
    written = bytearray()
    for number in range(3):
        written += (data := batch("x" * 50, base_offset=number))
        log.append_as_follower(data)
    log.flush()
    assert (log.directory / f"{0:020d}.log").read_bytes() == written


@pytest.mark.counted
def test_at_whatever_byte_the_disk_is_full(tmp_path):
    """Appends until the disk is full at some byte; room comes in small pieces; what was refused is tried again.

    Refused appends leave the log as it was, and the log that comes out is the same as on a large disk: in memory, after
    a clean stop, and after a crash in the middle of it.
    """
    appends = 40
    large = open_log(tmp_path / "large" / "t-0", **SETTINGS)
    for number in range(appends):
        records, epoch, origin = history(number)
        large.append_as_leader(records, epoch, origin=origin)
    expected = contents(large)
    refusals = 0
    rng = random.Random(7)
    for capacity in range(200, 9000, count(400, 29)):
        root = tmp_path / str(capacity)
        fs = FaultyFileSystem(root, capacity)
        crash_at = rng.randrange(appends)
        try:
            log = open_log(root / "t-0", fs=fs, **SETTINGS)
        except LogDirIOError:
            fs.capacity += 4000
            log = open_log(root / "t-0", fs=fs, **SETTINGS)
        for number in range(appends):
            while (refusal := refused(log, *history(number))) is not None:
                assert refusal.is_disk_full
                assert not refusal.is_fatal
                refusals += 1
                fs.capacity += rng.randrange(1, 400)
            if number == crash_at:
                capacity_now, fs.capacity = fs.capacity, None
                log.release()
                log = open_log(root / "t-0", fs=fs, clean=False, **SETTINGS)
                fs.capacity = capacity_now
        assert contents(log) == expected
        lookups(log)
        fs.capacity = None
        epochs = log.leader_epochs.entries
        log.close()
        log = open_log(root / "t-0", clean=True, **SETTINGS)
        assert contents(log) == expected
        assert log.leader_epochs.entries == epochs == large.leader_epochs.entries
        aborted = [one for segment in log.segments for one in segment.txn_index.entries]
        assert aborted == [one for segment in large.segments for one in segment.txn_index.entries]
        lookups(log)
        log.release()
    large.release()
    assert refusals > 100


@pytest.mark.parametrize("interval_bytes", [100, 10_000])  # with entries in each index, and with none
def test_a_log_is_recovered_on_a_full_disk(tmp_path, interval_bytes):
    """There is room for no byte of an index. What is left out of a segment is written before it counts as synced."""
    settings = SETTINGS | {"index_interval_bytes": interval_bytes}
    fs = FaultyFileSystem()
    log = open_log(tmp_path / "t-0", fs=fs, **settings)
    for number in range(40):
        log.append_as_leader(*history(number)[:2], origin=history(number)[2])
    expected, ages = contents(log), [segment.largest_timestamp for segment in log.segments]
    log.release()
    fs.full.add(log.directory)
    log = open_log(log.directory, fs=fs, clean=False, recovery_point=0, **settings)
    assert contents(log) == expected
    lookups(log)
    assert fs.refused > 0
    with pytest.raises(LogDirIOError):
        log.flush()
    assert log.recovery_point == 0
    fs.full.clear()
    log.flush()
    log.release()
    log = open_log(log.directory, fs=fs, clean=False, recovery_point=log.log_end_offset, **settings)
    assert contents(log) == expected
    assert [segment.largest_timestamp for segment in log.segments] == ages
    lookups(log)
    log.release()


def test_an_idempotent_producer_retries(tmp_path):
    fs = FaultyFileSystem(tmp_path, None)
    log = open_log(tmp_path / "t-0", fs=fs)
    log.append_as_leader(batch("a", producer=(5, 0, 0)), 0)
    fs.capacity = fs.used() + 30
    for _ in range(3):
        with pytest.raises(LogDirIOError, match="No space left"):
            log.append_as_leader(batch("b", producer=(5, 0, 1)), 0)
    assert log.segments[-1].file.fs.size(log.segments[-1].file.path) == log.size_bytes  # what was half written is gone
    fs.capacity = None
    assert not log.append_as_leader(batch("b", producer=(5, 0, 1)), 0).duplicate
    assert log.append_as_leader(batch("b", producer=(5, 0, 1)), 0).duplicate
    assert values(log) == [b"a", b"b"]


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG])
def test_kinds_of_full_disks(tmp_path, number):
    fs = FaultyFileSystem(tmp_path, 100)
    fs.full_errno = number
    log = open_log(tmp_path / "t-0", fs=fs)
    with pytest.raises(LogDirIOError) as refused:
        log.append_as_leader(batch("x" * 200), 0)
    assert refused.value.is_disk_full
    assert refused.value.extent == (0, len(batch("x" * 200)))


def test_too_many_open_files_is_not_a_disk_error(tmp_path):
    error = LogDirIOError(tmp_path, OSError(errno.EMFILE, "too many"))
    assert not error.is_disk_full
    assert not error.is_fatal
    assert LogDirIOError(tmp_path, OSError(errno.EIO, "broken")).is_fatal
    assert LogDirIOError(tmp_path, OSError(errno.ENOSPC, "full"), lost_writes=True).is_fatal


def test_index_entries_without_space_are_omitted(tmp_path):
    class NoIndexes(FaultyFileSystem):
        def _room(self, path):
            return 0 if path.endswith("index") else None

    fs = NoIndexes(tmp_path, None)
    fs_open = FaultyFileSystem()
    open_log(tmp_path / "t-0", fs=fs_open).release()
    log = open_log(tmp_path / "t-0", fs=fs, index_interval_bytes=1)
    for number in range(50):
        log.append_as_leader(batch(str(number)), 0)
    assert log.segments[-1].offset_index.entries == 0
    assert len(values(log)) == 50
    lookups(log)


@pytest.mark.parametrize("room", [0, 5, 20])  # for nothing; for empty files; for a part of the snapshot
def test_a_roll_without_space_keeps_the_segments(tmp_path, room):
    fs = FaultyFileSystem(tmp_path, None)
    log = open_log(tmp_path / "t-0", fs=fs)
    log.append_as_leader(batch("a", producer=(1, 0, 0)), 0)
    fs.capacity = fs.used() + room
    before = sorted(path.name for path in (tmp_path / "t-0").iterdir())
    for _ in range(3):
        with pytest.raises(LogDirIOError):
            log.roll()
    assert len(log.segments) == 1
    assert sorted(path.name for path in (tmp_path / "t-0").iterdir()) == before
    fs.capacity = None
    log.roll()
    assert len(log.segments) == 2


def test_a_leader_epoch_without_space_is_written_later(tmp_path):
    fs = FaultyFileSystem(tmp_path, None)
    log = open_log(tmp_path / "t-0", fs=fs)
    log.append_as_leader(batch("a"), 1)
    log.flush()
    fs.capacity = fs.used()
    log.leader_epochs.assign(2, 1)  # leading begins
    assert log.leader_epochs.latest_epoch == 2
    log.flush()  # epoch 2 has no record
    fs.capacity = None
    log.append_as_leader(batch("b"), 2)
    fs.capacity = fs.used()
    with pytest.raises(LogDirIOError):
        log.flush()
    assert log.recovery_point == 1
    fs.capacity = None
    log.flush()
    assert (tmp_path / "t-0" / "leader-epoch-checkpoint").read_text() == "0\n2\n1 0\n2 1\n"
    log.release()


def test_the_recovery_point_waits_for_what_could_not_be_written(tmp_path):
    fs = FaultyFileSystem(tmp_path, None)
    log = open_log(tmp_path / "t-0", fs=fs)
    log.append_as_leader(batch("a", producer=(9, 0, 0), transactional=True), 0)
    log.append_as_leader(end_marker(committed=False), 0, origin=AppendOrigin.COORDINATOR)
    log.append_as_leader(batch("b", producer=(9, 0, 1), transactional=True), 0)
    log.flush()
    marker = end_marker(committed=False)
    fs.capacity = fs.used() + len(marker)
    log.append_as_leader(marker, 0, origin=AppendOrigin.COORDINATOR)
    assert [one.first_offset for one in log.segments[-1].txn_index.entries] == [0, 2]  # readers hear of it
    point = log.recovery_point
    with pytest.raises(LogDirIOError):
        log.flush()
    assert log.recovery_point == point
    fs.capacity = None
    log.flush()
    assert log.recovery_point == 4
    log.release()
    again = open_log(tmp_path / "t-0", clean=True)  # nothing is built again
    assert [one.first_offset for one in again.segments[-1].txn_index.entries] == [0, 2]
    again.release()


# -- all logs of a broker ----------------------------------------------------------------------------------------------


def manager(fs, *paths, settings=None, **options):
    return LogManager(
        paths,
        lambda topic: LogConfig().with_overrides(**settings or {}),
        fs=fs,
        now_ms=lambda: RECORDED_NOW_MS,
        rng=random.Random(1),
        **options,
    )


async def until(condition):
    async with asyncio.timeout(DEADLINE_S):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.005)


async def test_a_full_disk_gets_space_again(tmp_path, caplog):
    caplog.set_level("INFO")
    fs = FaultyFileSystem(tmp_path, None)
    logs = manager(fs, tmp_path / "a", high_watermark_checkpoint_interval_ms=10)
    logs.dirs.lock()
    await logs.load()
    rooms = []
    logs.dirs.on_room = lambda: rooms.append(1)
    log = logs.get_or_create("t", 0, TOPIC_ID)
    log.append_as_leader(batch("a"), 0)
    running = asyncio.create_task(logs.run())
    checkpoint = tmp_path / "a" / "replication-offset-checkpoint"
    await until(checkpoint.exists)
    kept = checkpoint.read_text()
    fs.capacity = fs.used()
    for _ in range(5):
        with pytest.raises(LogDirIOError):
            log.append_as_leader(batch("b"), 0)
    await until(lambda: logs.dirs.all[0].is_full)
    assert logs.dirs.all[0].is_online
    log.update_high_watermark(1)
    refused = fs.refused
    await until(lambda: fs.refused > refused + 5)  # checkpoints, and looking for room
    assert checkpoint.read_text() == kept  # the old one stays
    assert not list((tmp_path / "a").glob("*.tmp"))
    assert values(log) == [b"a"]
    assert not rooms
    fs.capacity = None
    await until(lambda: rooms)
    assert not logs.dirs.all[0].is_full
    log.append_as_leader(batch("b"), 0)
    log.update_high_watermark(2)
    await until(lambda: checkpoint.read_text() == "0\n1\nt 0 2\n")
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    await logs.shutdown()
    assert (tmp_path / "a" / ".kafka_cleanshutdown").exists()
    assert not list((tmp_path / "a").glob(".ottla*"))
    assert caplog.text.count("is full") == 1
    assert caplog.text.count("has room again") == 1


async def test_the_space_check_asks_for_the_size_of_the_refused_write(tmp_path):
    """A few free bytes are none, nor does it help that small writes work where a large one does not."""
    fs = FaultyFileSystem(tmp_path, None)
    logs = manager(fs, tmp_path / "a")
    logs.dirs.lock()
    await logs.load()
    log = logs.get_or_create("t", 0)
    fs.capacity = fs.used() + 100_000
    with pytest.raises(LogDirIOError):
        log.append_as_leader(batch(os.urandom(150_000)), 0)
    await until(lambda: logs.dirs.all[0].is_full)
    directory = logs.dirs.all[0]
    assert not directory.has_room()
    log.append_as_leader(batch("small"), 0)
    assert not directory.has_room()
    fs.capacity += 60_000
    assert directory.has_room()
    assert not directory.is_full
    log.append_as_leader(batch(os.urandom(150_000)), 0)
    await logs.shutdown()


async def test_a_stop_on_a_full_disk_is_not_marked_clean_and_loses_nothing(tmp_path):
    fs = FaultyFileSystem(tmp_path, None)
    logs = manager(fs, tmp_path / "a")
    logs.dirs.lock()
    await logs.load()
    for partition in range(2):
        data = batch("a", timestamp=RECORDED_NOW_MS, producer=(1, 0, 0))
        logs.get_or_create("t", partition, TOPIC_ID).append_as_leader(data, 0)
    fs.capacity = fs.used()
    await logs.shutdown()
    assert not (tmp_path / "a" / ".kafka_cleanshutdown").exists()
    fs.capacity = None
    logs = manager(fs, tmp_path / "a")
    logs.dirs.lock()
    await logs.load()
    for partition in range(2):
        assert values(logs.get("t", partition)) == [b"a"]
        assert 1 in logs.get("t", partition).producers.producers
    await logs.shutdown()


async def test_a_start_after_a_crash_leaves_out_what_finds_no_room(tmp_path):
    """Snapshots and index entries: producers are replayed from the log, and lookups read a little more of it.

    Only the last entry of each time index is needed; recovery has freed at least a block for it.
    """

    class Full(FaultyFileSystem):
        is_full = False

        def _room(self, path):
            return 0 if self.is_full and path.endswith((".index", ".snapshot.tmp")) else None

    fs = Full(tmp_path, None)
    settings = {"index_interval_bytes": 100}
    logs = manager(fs, tmp_path / "a", settings=settings)
    logs.dirs.lock()
    await logs.load()
    log = logs.get_or_create("t", 0, TOPIC_ID)
    for sequence in range(60):
        data = batch("a" * 50, timestamp=RECORDED_NOW_MS + sequence, producer=(1, 0, sequence))
        log.append_as_leader(data, 0)
        if sequence == 30:
            log.segments.roll(log.log_end_offset)
    expected = contents(log)
    for full in (True, True, False):
        log.release()
        logs.dirs.unlock()
        fs.is_full = full
        refused_before = fs.refused
        logs = manager(fs, tmp_path / "a", settings=settings)
        logs.dirs.lock()
        await logs.load()
        assert (fs.refused > refused_before) is full
        log = logs.get("t", 0)
        assert contents(log) == expected
        assert all((segment.offset_index.entries == 0) is full for segment in log.segments)
        assert log.producers.producers[1].last_sequence == 59
        lookups(log)
    await logs.shutdown()
    assert (tmp_path / "a" / ".kafka_cleanshutdown").exists()


async def test_one_log_that_cannot_be_closed_makes_the_shutdown_unclean(tmp_path):
    class NoSnapshots(FaultyFileSystem):
        def _room(self, path):
            return 0 if ".snapshot" in path and "/t-0/" in path else None

    fs = NoSnapshots(tmp_path, None)
    logs = manager(fs, tmp_path / "a", tmp_path / "b")
    logs.dirs.lock()
    await logs.load()
    for partition in range(2):
        data = batch("a", timestamp=RECORDED_NOW_MS, producer=(1, 0, 0))
        logs.get_or_create("t", partition, TOPIC_ID).append_as_leader(data, 0)
    await logs.shutdown()
    assert (tmp_path / "a" / "recovery-point-offset-checkpoint").exists()
    assert not (tmp_path / "a" / ".kafka_cleanshutdown").exists()
    assert (tmp_path / "b" / ".kafka_cleanshutdown").exists()


async def test_a_log_is_created_in_a_directory_with_space(tmp_path):
    fs = FaultyFileSystem(tmp_path / "a", None)
    logs = manager(fs, tmp_path / "a", tmp_path / "b")
    logs.dirs.lock()
    await logs.load()
    fs.capacity = fs.used()
    for partition in range(3):
        assert logs.get_or_create("t", partition, TOPIC_ID).directory.parent == tmp_path / "b"
    assert not list((tmp_path / "a").glob("t-*"))
    fs.root, fs.capacity = tmp_path, 0
    with pytest.raises(LogDirIOError, match="No space"):
        logs.get_or_create("t", 3, TOPIC_ID)
    assert logs.get("t", 3) is None
    assert not list(tmp_path.glob("?/t-3"))
    fs.capacity = None
    logs.get_or_create("t", 3, TOPIC_ID)
    await logs.shutdown()


def test_a_limit_on_file_sizes(tmp_path):
    """EFBIG from the kernel: RLIMIT_FSIZE, in a process of its own.

    It writes no bytecode (-B): Python leaves a file that is cut off at the limit, and fails wherever it is imported.
    """
    code = f"""
import resource, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, {resource.getrlimit(resource.RLIMIT_FSIZE)[1]}))
sys.path[:0] = [{str(ROOT)!r}, {str(ROOT / "tests")!r}]
from pathlib import Path
from storage.errors import LogDirIOError
from storage.file_system import FileSystem
from support.log_dirs import batch, open_log, read_records
log = open_log(Path({str(tmp_path)!r}) / "t-0", fs=FileSystem())
count = 0
try:
    while True:
        log.append_as_leader(batch("x" * 700), 0)
        count += 1
except LogDirIOError as error:
    assert error.is_disk_full, error
assert count == 20_000 // len(batch("x" * 700)), count
assert log.segments[-1].file.fs.size(log.segments[-1].file.path) == log.size_bytes
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.getrlimit(resource.RLIMIT_FSIZE)[1],) * 2)
log.append_as_leader(batch("y"), 0)
assert [r.value for r in read_records(log)] == [b"x" * 700] * count + [b"y"]
log.close()
"""
    subprocess.run([sys.executable, "-B", "-c", code], check=True, timeout=DEADLINE_S)
