"""Copies of logs in other log directories: what is copied, how a copy follows its log, and how it takes its place."""

import asyncio
import contextlib
import logging
import random
import shutil

import pytest

from protocol.control_records import ControlRecordType, EndTransactionMarker, end_marker_batch
from storage.compaction_run import compact_log
from storage.errors import LogClosedError, LogDirIOError
from storage.file_system import FileSystem
from storage.log_append import AppendOrigin
from storage.log_config import LogConfig
from storage.log_copy import LogCopy, common_end
from storage.log_manager import LogManager
from storage.moved_from import MOVED_FROM
from storage.replica_places import ReplicaPlaces
from storage.verification import verify_directory
from support.counts import count
from support.cut_log import raw_batches
from support.log_dirs import BASE_TIME_MS, UnsyncedFileSystem, batch, read_records
from support.power_cut import Disk, PowerCutFileSystem

SETTINGS = {"segment_bytes": 500, "index_interval_bytes": 150, "file_delete_delay_ms": 0}
KEY = ("t", 0)
STEP = 300


@pytest.fixture(autouse=True)
def _quiet():
    logging.getLogger("storage").setLevel(logging.CRITICAL)
    yield
    logging.getLogger("storage").setLevel(logging.NOTSET)


def manager(root, fs=None, **settings):
    return LogManager(
        [root / "a", root / "b"],
        lambda topic: LogConfig().with_overrides(**SETTINGS | settings),
        fs=fs or UnsyncedFileSystem(),
        now_ms=lambda: BASE_TIME_MS,
        rng=random.Random(1),
    )


class Move:
    """A log in `a`, and its copy in `b`."""

    def __init__(self, root, fs=None, **settings):
        self.root = root
        for name in "ab":
            (root / name).mkdir(parents=True, exist_ok=True)
        self.logs = manager(root, fs() if fs else None, **settings)
        self.current = None
        self.future = None
        self.copy = None
        self.epoch = 3
        self.number = 0

    async def start(self):
        self.logs.dirs.lock()
        await self.logs.load()
        self.logs.preferred[KEY] = self.logs.dirs.all[0]
        self.current = self.logs.get_or_create(*KEY, b"T" * 16)
        return self

    def append(self, times=1, **options):
        for _ in range(times):
            self.number += 1
            self.current.append_as_leader(batch(b"%d" % self.number * 10, **options), self.epoch)
            self.current.commit_all()

    async def begin(self):
        self.future = await self.logs.futures.begin(self.current, self.logs.dirs.all[1])
        self.copy = LogCopy(self.logs, self.current, self.future)

    async def copy_all(self):
        while await self.copy.copy(STEP):
            assert self.future.log_end_offset <= self.current.log_end_offset
        assert self.copy.bytes_behind == 0

    async def finish(self):
        seen = []
        assert await self.copy.take_its_place(seen.append, STEP)
        assert seen == [self.future]
        assert self.logs.get(*KEY) is self.future


@pytest.fixture
async def move(tmp_path):
    made = await Move(tmp_path).start()
    yield made
    for log in made.logs.all_logs():
        log.release()
    made.logs.dirs.unlock()


def files(directory, suffix=".log"):
    return {path.name: path.read_bytes() for path in directory.glob(f"*{suffix}")}


# -- what is copied ----------------------------------------------------------------------------------------------------


async def test_the_copy_has_the_same_files(move):
    move.append(30)
    before = files(move.current.directory)
    epochs = move.current.leader_epochs.entries
    await move.begin()
    assert move.current.is_being_moved
    await move.copy_all()
    await move.finish()
    assert move.future.directory == move.root / "b" / "t-0"
    assert files(move.future.directory) == before
    assert len(before) > 5
    assert move.future.leader_epochs.entries == epochs
    assert not move.future.is_being_moved
    assert move.current.successor is move.future
    problems = [problem for problem in verify_directory(move.root / "b") if "meta.properties" not in str(problem)]
    assert [problem for problem in problems if "not stopped cleanly" not in str(problem)] == []


async def test_an_empty_log(move):
    await move.begin()
    await move.finish()
    assert (move.future.log_start_offset, move.future.log_end_offset) == (0, 0)
    move.current = move.future
    move.append()


async def test_what_is_appended_on_the_way(move):
    move.append(10)
    await move.begin()
    while await move.copy.copy(STEP):
        if move.number < 40:
            move.epoch += 1
            move.append(2)
    await move.finish()
    assert len(raw_batches(move.future)) == move.number
    assert move.future.leader_epochs.latest_epoch == move.epoch
    assert move.future.high_watermark == move.future.log_end_offset == move.number


async def test_an_epoch_without_records_is_copied_too(move):
    move.append(3)
    move.current.leader_epochs.assign(9, 3)
    await move.begin()
    await move.finish()
    assert move.future.leader_epochs.entries == [(3, 0), (9, 3)]
    await move.logs.flush(move.future)
    move.future.leader_epochs.load()
    assert move.future.leader_epochs.entries == [(3, 0), (9, 3)]


async def test_aborted_transactions_and_open_ones(move):
    for number in range(6):
        move.append(producer=(7, 0, number), transactional=True)
        marker = EndTransactionMarker(ControlRecordType.ABORT, 0)
        data = bytearray(end_marker_batch(marker, producer_id=7, producer_epoch=0, timestamp=BASE_TIME_MS))
        move.current.append_as_leader(data, 3, origin=AppendOrigin.COORDINATOR)
    move.append(producer=(8, 0, 0), transactional=True)
    move.append(3)
    aborted = [segment.txn_index.entries for segment in move.current.segments]
    await move.begin()
    await move.copy_all()
    await move.finish()
    assert [segment.txn_index.entries for segment in move.future.segments] == aborted
    assert sum(map(len, aborted)) == 6
    assert move.future.last_stable_offset == 12
    assert move.future.producers.has_ongoing_transaction(8)


async def test_what_is_known_of_producers_whose_records_are_gone(move):
    move.append(producer=(7, 2, 40))
    move.append(20)
    move.current.increment_log_start_offset(15)
    move.current.delete_old_segments()
    await move.begin()
    await move.copy_all()
    assert 7 not in move.future.producers.producers
    await move.finish()
    assert move.future.producers.producers[7].last_sequence == 40
    snapshot = move.future.producers.snapshot_path(move.future.log_end_offset)
    assert move.logs.fs.exists(snapshot)  # the next start knows it, too


async def test_a_compacted_log_with_gaps(tmp_path):
    move = await Move(tmp_path, cleanup_policy="compact").start()
    for number in range(40):
        move.append(key=b"%d" % (number % 3))
    compact_log(move.current, 0, move.current.segments[-1].base_offset)
    assert len(raw_batches(move.current)) < 15
    before = raw_batches(move.current)
    await move.begin()
    await move.copy_all()
    await move.finish()
    assert raw_batches(move.future) == before
    move.logs.dirs.unlock()


async def test_a_compacted_log_that_lacks_its_last_records(tmp_path):
    move = await Move(tmp_path, cleanup_policy="compact", delete_retention_ms=0).start()
    for key in (b"a", b"b"):
        move.append(key=key)
    move.current.append_as_leader(batch_of_tombstone(b"c"), 3)
    move.current.commit_all()
    move.current.roll()
    for _ in range(2):  # the first run marks the tombstone, the second one may remove it
        compact_log(move.current, 0, 3)
    await move.begin()
    await move.copy_all()
    await move.finish()
    assert move.future.log_end_offset == 3
    assert move.future.append_as_leader(batch(b"next"), 3).first_offset == 3
    move.logs.dirs.unlock()


def batch_of_tombstone(key):
    from protocol.record_batch_builder import RecordBatchBuilder

    builder = RecordBatchBuilder(0)
    builder.append(1, key, None)
    return builder.build()


async def test_a_running_compaction_is_given_up(move):
    from storage.compaction_run import CompactionRun

    move.append(20)
    run = CompactionRun(move.current)
    await move.begin()
    assert run.aborted == "it is moved to another log directory"
    run.end()


async def test_segments_are_deleted_in_the_copy_too(move):
    move.append(30)
    await move.begin()
    for _ in range(4):
        await move.copy.copy(STEP)
    copied = move.future.log_end_offset
    assert 8 < copied < 30
    move.current.increment_log_start_offset(copied - 1)
    await move.copy.copy(STEP)
    assert move.future.log_start_offset == copied - 1
    assert move.future.segments[0].base_offset > 0
    move.current.increment_log_start_offset(25)  # of which the copy has nothing yet
    await move.copy_all()
    assert (move.future.log_start_offset, move.future.log_end_offset) == (25, 30)
    await move.finish()


# -- truncations -------------------------------------------------------------------------------------------------------


async def test_a_truncated_log_has_a_truncated_copy(move):
    move.append(20)
    await move.begin()
    await move.copy_all()
    await move.logs.truncate_to(move.current, 12)
    move.epoch = 5
    move.append(1)
    await move.copy.copy(STEP)
    assert read_records(move.future) == read_records(move.current)
    move.append(12)
    await move.copy_all()
    await move.finish()
    values = [record.value for record in read_records(move.future)]
    assert values == [b"%d" % number * 10 for number in (*range(1, 13), *range(21, 34))]


async def test_a_log_that_begins_anew(move):
    move.append(20)
    await move.begin()
    await move.copy_all()
    await move.logs.truncate_fully_and_start_at(move.current, 50)
    move.append(2)
    await move.copy_all()
    assert (move.future.log_start_offset, move.future.log_end_offset) == (50, 52)
    await move.logs.truncate_fully_and_start_at(move.current, 40)  # and once more, further back
    move.append(3)
    await move.copy_all()
    await move.finish()
    assert [record.offset for record in read_records(move.future)] == [40, 41, 42]


async def test_a_truncation_that_the_copy_has_not_seen(move):
    """The copy was offline meanwhile: leader epochs tell where the two part."""
    move.append(10)
    move.epoch = 5
    move.append(10)
    await move.begin()
    await move.copy_all()
    await move.logs.truncate_to(move.current, 8)
    move.epoch = 6
    move.append(6)
    copy = LogCopy(move.logs, move.current, move.future)
    while await copy.copy(STEP):
        pass
    assert raw_batches(move.future) == raw_batches(move.current)


@pytest.mark.parametrize(
    ("current", "future", "end"),
    [
        ([(1, 0), (2, 10)], [(1, 0), (2, 10)], 15),
        ([(1, 0), (3, 10)], [(1, 0), (2, 10)], 10),
        ([(1, 0), (3, 8)], [(1, 0), (2, 10)], 8),
        ([(1, 0), (3, 12)], [(1, 0), (2, 10)], 10),
        ([(3, 0)], [(1, 0), (2, 10)], 0),
        ([], [(1, 0)], None),
        ([(1, 0)], [], None),
    ],
)
def test_common_end(current, future, end):
    class Side:
        def __init__(self, entries):
            from storage.leader_epoch_cache import LeaderEpochCache

            self.leader_epochs = LeaderEpochCache(None, "")
            self.leader_epochs._set(entries)

        def end_offset_for_epoch(self, epoch):
            return self.leader_epochs.end_offset_for(epoch, 15)

    assert common_end(Side(current), Side(future)) == end


async def test_no_swap_while_a_truncation_is_coming(move, monkeypatch):
    move.append(20)
    await move.begin()
    await move.copy_all()
    await move.logs.flush(move.current)
    written, go_on = asyncio.Event(), asyncio.Event()
    write = move.logs.checkpoints.write_recovery_points_of

    async def write_slowly(directory):
        if directory is move.logs.dirs.all[0]:
            written.set()
            await go_on.wait()
        return await write(directory)

    monkeypatch.setattr(move.logs.checkpoints, "write_recovery_points_of", write_slowly)
    truncating = asyncio.create_task(move.logs.truncate_to(move.current, 12))
    await written.wait()
    assert not await move.copy.take_its_place(pytest.fail, STEP)
    go_on.set()
    assert await truncating
    await move.copy_all()
    await move.finish()
    assert move.future.log_end_offset == 12


# -- syncing -----------------------------------------------------------------------------------------------------------


async def test_who_waits_for_the_old_log_waits_for_the_new_one(move):
    move.append(5)
    await move.begin()
    await move.copy_all()
    await move.finish()
    move.future.append_as_leader(batch(b"after"), 3)
    await move.logs.flush_up_to(move.current, 6)
    assert move.future.recovery_point == 6
    move.future.append_as_leader(batch(b"after"), 3)
    await move.logs.flush(move.current)
    assert move.future.recovery_point == 7
    with pytest.raises(LogClosedError):
        move.current.append_as_leader(batch(b"late"), 3)


async def test_a_flush_that_runs_is_waited_for(tmp_path):
    """And what it promises of the old log holds for the new one."""
    held, go_on = [], asyncio.Event()

    class Slow(UnsyncedFileSystem):
        async def run_blocking(self, work):
            if held:
                held.pop()
                await go_on.wait()
            return work()

    move = await Move(tmp_path, Slow).start()
    move.append(5)
    await move.begin()
    await move.copy_all()
    await move.logs.flush(move.future)
    held.append(True)
    flushing = asyncio.create_task(move.logs.flush_up_to(move.current, 5))
    await asyncio.sleep(0)
    finishing = asyncio.create_task(move.copy.take_its_place(lambda log: None, STEP))
    for _ in range(50):
        await asyncio.sleep(0)
    assert not finishing.done()
    assert move.logs.get(*KEY) is move.current
    go_on.set()
    assert await finishing
    await flushing
    assert move.future.recovery_point >= move.current.recovery_point == 5
    move.logs.dirs.unlock()


async def test_given_up(move):
    move.append(20)
    await move.begin()
    await move.copy.copy(STEP)
    move.copy.is_given_up = True
    assert await move.copy.copy(STEP) == 0
    assert not await move.copy.take_its_place(pytest.fail, STEP)
    await move.logs.futures.remove(KEY)
    assert move.logs.futures.logs == {}
    assert not move.current.is_being_moved
    assert [path.name.rpartition("-")[2] for path in (move.root / "b").glob("t-0*")] == ["delete"]


async def test_a_directory_of_that_name_is_in_the_way(move):
    (move.root / "b" / "t-0").mkdir()
    with pytest.raises(LogDirIOError, match="File exists"):
        await move.begin()
    assert move.logs.dirs.all[1].is_online
    assert not move.current.is_being_moved


async def test_checkpoints_of_both_directories(move):
    move.append(25)
    move.current.increment_log_start_offset(6)
    await move.begin()
    await move.copy_all()
    await move.finish()
    for name, offset in (
        ("recovery-point-offset-checkpoint", 25),
        ("replication-offset-checkpoint", 25),
        ("log-start-offset-checkpoint", None),
    ):
        assert (move.root / "a" / name).read_text() == "0\n0\n", name
        expected = "0\n0\n" if offset is None else f"0\n1\nt 0 {offset}\n"
        assert (move.root / "b" / name).read_text() == expected, name
    assert not (move.root / "b" / "t-0" / MOVED_FROM).exists()


# -- starts ------------------------------------------------------------------------------------------------------------


async def started(root, fs=None):
    logs = manager(root, fs)
    logs.dirs.lock()
    await logs.load()
    return logs


def stop(logs):
    for log in logs.all_logs():
        log.release()
    logs.dirs.unlock()


async def abandoned(move):
    """The process is gone: locks are let go of, nothing is written."""
    for log in move.logs.all_logs():
        log.release()
    move.logs.dirs.unlock()


async def test_a_copy_is_recovered_and_gone_on_with(move):
    move.append(30)
    await move.begin()
    for _ in range(5):
        await move.copy.copy(STEP)
    copied = move.future.log_end_offset
    await abandoned(move)
    last = max(files(move.future.directory))
    with (move.future.directory / last).open("ab") as file:
        file.write(b"half a batch")
    logs = await started(move.root)
    current, future = logs.get(*KEY), logs.futures.logs[KEY]
    assert (current.is_being_moved, future.log_end_offset) == (True, copied)
    copy = LogCopy(logs, current, future)
    while await copy.copy(STEP):
        pass
    assert await copy.take_its_place(lambda log: None, STEP)
    assert len(raw_batches(logs.get(*KEY))) == 30
    stop(logs)


async def test_both_have_the_name(move):
    """The stop came between the two renames."""
    move.append(10)
    await move.begin()
    await move.copy_all()
    await move.logs.futures.prepare(KEY)
    move.logs.futures.swap(KEY)
    move.current = move.future
    move.append(2)
    await abandoned(move)
    assert (move.root / "a" / "t-0").exists()
    assert (move.root / "b" / "t-0" / MOVED_FROM).read_text() == str(move.root / "a")
    logs = await started(move.root)
    assert logs.get(*KEY).directory == move.root / "b" / "t-0"
    assert logs.get(*KEY).log_end_offset == 12
    assert not (move.root / "a" / "t-0").exists()
    assert not (move.root / "b" / "t-0" / MOVED_FROM).exists()
    await logs.removals.run_due()
    assert list((move.root / "a").glob("t-0*")) == []
    stop(logs)


async def test_both_have_the_name_and_nobody_says_why(move, caplog):
    logging.getLogger("storage").setLevel(logging.NOTSET)
    move.append(10)
    await abandoned(move)
    shutil.copytree(move.root / "a" / "t-0", move.root / "b" / "t-0")
    logs = await started(move.root)
    assert logs.get(*KEY).directory == move.root / "a" / "t-0"
    assert (move.root / "b" / "t-0").exists()
    assert "is in two log directories" in caplog.text
    stop(logs)


async def test_a_note_about_another_directory_decides_nothing(move):
    move.append(10)
    await abandoned(move)
    shutil.copytree(move.root / "a" / "t-0", move.root / "b" / "t-0")
    (move.root / "b" / "t-0" / MOVED_FROM).write_text(str(move.root / "c"))
    logs = await started(move.root)
    assert logs.get(*KEY).directory == move.root / "a" / "t-0"
    stop(logs)


async def test_a_copy_without_its_log_is_left_alone(move, caplog):
    logging.getLogger("storage").setLevel(logging.NOTSET)
    move.append(10)
    await move.begin()
    await move.copy_all()
    await abandoned(move)
    shutil.rmtree(move.root / "a" / "t-0")
    logs = await started(move.root)
    assert (logs.logs, logs.futures.logs) == ({}, {})
    assert move.future.directory.exists()
    assert "a copy of a log that is nowhere" in caplog.text
    stop(logs)


async def test_two_copies(move):
    move.append(10)
    await move.begin()
    await move.copy_all()
    await abandoned(move)
    shutil.copytree(move.future.directory, move.root / "b" / f"t-0.{'0' * 32}-future")
    shutil.copytree(move.future.directory, move.root / "a" / f"t-0.{'1' * 32}-future")
    logs = await started(move.root)
    assert list(logs.futures.logs) == [KEY]
    assert len(list(move.root.glob("*/t-0.*-future"))) == 1
    stop(logs)


async def test_a_note_that_was_left_behind_goes_with_the_next_move(move):
    """Else both would have one after a stop in the midst of it."""
    move.append(10)
    (move.current.directory / MOVED_FROM).write_text(str(move.root / "b"))
    await move.begin()
    assert not (move.current.directory / MOVED_FROM).exists()


def test_a_directory_that_fails_while_it_is_decided(tmp_path):
    class Failing(FileSystem):
        def rename(self, source, target):
            raise OSError(5, "I/O error")

    for name in "ab":
        (tmp_path / name / "t-0").mkdir(parents=True)
    (tmp_path / "b" / "t-0" / MOVED_FROM).write_text(str(tmp_path / "a"))
    logs = manager(tmp_path, Failing())
    from storage.directory_loader import list_contents

    contents = {directory: list_contents(directory) for directory in logs.dirs.all}
    failed = []
    ReplicaPlaces(
        logs.fs, contents, logs.departures.put_aside_found, lambda directory, error: failed.append(directory)
    ).settle()
    assert failed == [logs.dirs.all[0]]
    assert [found.path for one in contents.values() for found in one.logs] == [tmp_path / "b" / "t-0"]
    assert (tmp_path / "b" / "t-0" / MOVED_FROM).exists()  # the other one is still there


# -- stops at every step -----------------------------------------------------------------------------------------------


async def moved_with_a_journal(root):
    """A log is moved with appends on the way; (file system, [(position, end, synced end)])."""
    for name in "ab":
        (root / name).mkdir(parents=True)
    fs = PowerCutFileSystem(root)
    move = await Move(root, lambda: fs).start()
    story = []

    def note():
        log = move.logs.get(*KEY)
        story.append((fs.position, log.log_end_offset, log.recovery_point))

    async def step(work):
        await work
        note()

    for _ in range(12):
        move.append(producer=(7, 0, move.number))
        note()
    await step(move.logs.flush(move.current))
    await step(move.logs.checkpoints.write_all_of(move.logs.dirs.all[0]))
    await step(move.begin())
    while await move.copy.copy(STEP):
        note()
        if move.number < 20:
            move.append(producer=(7, 0, move.number))
            note()
        if move.number == 16:
            await step(move.logs.flush(move.current))
    replaced = []

    def swapped(log):
        replaced.append(fs.position)
        move.current = log
        move.append(producer=(7, 0, move.number))

    assert await move.copy.take_its_place(swapped, STEP)
    note()
    for _ in range(3):
        move.append(producer=(7, 0, move.number))
        note()
    await step(move.logs.flush(move.current))
    await move.logs.removals.run_due()
    note()
    stop(move.logs)
    written = raw_batches(move.current)
    assert len(written) == move.number
    return fs, story, written


def check_start(root, written, least, most):
    """A start finds the log once, with all that must be there, and a move that was under way comes to its end."""

    async def main():
        logs = await started(root)
        log = logs.get(*KEY)
        if log is None:
            assert least == 0
            stop(logs)
            return
        found = raw_batches(log)
        assert least <= len(found) <= most, f"{least} <= {len(found)} <= {most}"
        assert found == written[: len(found)]
        assert len(list(root.glob("*/t-0"))) == 1
        if KEY in logs.futures.logs:
            copy = LogCopy(logs, log, logs.futures.logs[KEY])
            while await copy.copy(STEP):
                pass
            assert await copy.take_its_place(lambda log: None, STEP)
            log = logs.get(*KEY)
            assert log.directory == root / "b" / "t-0"
            assert raw_batches(log) == found
        log.append_as_leader(batch(b"more"), 9)
        assert await_all_clean(logs)
        await logs.shutdown()
        again = await started(root)
        assert again.get(*KEY).log_end_offset == len(found) + 1
        assert not list(root.glob("*/*-future"))
        stop(again)

    asyncio.run(main())


def await_all_clean(logs):
    return all(directory.is_online for directory in logs.dirs.all)


@pytest.mark.counted
@pytest.mark.timeout(600)
def test_the_power_is_cut_behind_every_operation(tmp_path):
    fs, story, written = asyncio.run(moved_with_a_journal(tmp_path / "run"))
    words = " ".join(text for text, _ in fs.journal)
    assert "-future to b/t-0" in words
    assert "a/t-0 to a/t-0." in words
    disk = Disk(fs)
    step, seeds = count(2, 1), count(1, 3)
    for position in range(0, len(fs.journal) + 1, step):
        disk.advance(position)
        least = max((synced for when, _, synced in story if when <= position), default=0)
        for seed in range(seeds):
            target = tmp_path / f"{position}-{seed}"
            disk.write_out((position, seed), target)
            for name in "ab":
                assert (target / name).is_dir()
            try:
                relocate(target, fs.root)
                check_start(target, written, least, len(written))
            except BaseException as error:
                error.add_note(f"behind operation {position} ({fs.journal[position - 1][0]}), seed {seed}")
                raise
            shutil.rmtree(target)


def relocate(target, root):
    """The disk has another mount point than that which was noted."""
    for note in target.glob(f"*/*/{MOVED_FROM}"):
        note.write_text(note.read_text().replace(str(root), str(target)))


class KilledError(BaseException):
    """SIGKILL: nothing of the process happens afterwards."""


class KilledFileSystem(UnsyncedFileSystem):
    """Ends the process in front of the operation number `at` that changes something; what was done is done."""

    def __init__(self, at):
        super().__init__()
        self.at = at
        self.done = 0
        self.what = ""

    def _next(self, what):
        self.done += 1
        if self.done >= self.at:
            self.what = self.what or what
            raise KilledError

    async def run_blocking(self, work):
        return work()

    def pwrite(self, fd, data, position):
        self._next("write")
        return super().pwrite(fd, data, position)

    def rename(self, source, target):
        self._next(f"rename {source}")
        super().rename(source, target)

    def remove(self, path):
        self._next(f"remove {path}")
        return super().remove(path)

    def make_directory(self, path):
        self._next(f"make {path}")
        return super().make_directory(path)


async def move_until_killed(root, at):
    """Move a log; what was appended before the end, and whether it came to that."""
    fs = KilledFileSystem(1 << 60)
    move = await Move(root, lambda: fs).start()
    move.append(12)
    fs.at, fs.done = at, 0
    done = 12
    try:
        await move.begin()
        while await move.copy.copy(STEP):
            if move.number < 18:
                move.append()
                done = move.number

        def swapped(log):
            move.current = log

        await move.copy.take_its_place(swapped, STEP)
        move.append()
        done = move.number
        return done, False, ""
    except KilledError:
        return done, True, fs.what
    finally:
        fs.at = 1 << 60
        with contextlib.suppress(Exception):
            await abandoned(move)


@pytest.mark.counted
@pytest.mark.timeout(600)
def test_a_kill_in_front_of_every_operation(tmp_path):
    at, killed, seen = 0, True, set()
    while killed:
        at += 1
        root = tmp_path / str(at)
        done, killed, what = asyncio.run(move_until_killed(root, at))
        seen.add(what.partition(" ")[0])
        try:
            written = [bytes(one) for one in expected_batches(root)]
            assert len(written) >= done
            check_start(root, written, done, done + 1)
        except BaseException as error:
            error.add_note(f"in front of operation {at}: {what}")
            raise
        shutil.rmtree(root)
    assert seen == {"", "write", "rename", "remove", "make"}
    assert at > 60


def expected_batches(root):
    """The batches of the longest copy that there is: all are beginnings of the same."""
    from protocol.record_batch import iter_batches

    longest = []
    for directory in root.glob("*/t-0*"):
        data = b"".join(content for _, content in sorted(files(directory).items()))
        found = [data[one.position : one.position + one.size_bytes] for one in iter_batches(data)]
        longest = max(longest, found, key=len)
    return longest
