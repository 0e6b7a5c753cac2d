"""The log cleaner: what it chooses, what it remembers, and what becomes of a run that something gets in the way of."""

import asyncio
import errno
import json
import logging
import math
import os
import signal
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest

from protocol.record_batch_builder import RecordBatchBuilder
from storage.compaction.cleanable import cleanable_range
from storage.compaction.compactor import InlineCompactor, ProcessCompactor
from storage.compaction.log_cleaner import LogCleaner
from storage.compaction.run import CompactionRun
from storage.directories.log_directories import LogDirectories
from storage.file_system import FileSystem
from support.faulty_disk import FaultyFileSystem
from support.log_dirs import BASE_TIME_MS, UnsyncedFileSystem, open_log, read_records
from support.loops import on_both_loops
from support.polling import until

SETTINGS = {"retention_ms": -1, "segment_bytes": 300, "cleanup_policy": ("compact",), "min_cleanable_dirty_ratio": 0.1}


def append(log, rounds=8, key=b"k", timestamp=BASE_TIME_MS):
    for number in range(rounds):
        builder = RecordBatchBuilder()
        builder.append(timestamp, key, b"%d" % number * 100)
        log.append_as_leader(builder.build(), 0)
    log.commit_all()


def values(log):
    return [(record.offset, record.value[:1]) for record in read_records(log)]


class Yard:
    """A log directory with a cleaner."""

    def __init__(self, root, new_compactor=None, fs=None, more=()):
        self.root = root
        self.fs = fs or UnsyncedFileSystem()
        self.now_ms = BASE_TIME_MS
        self.logs = {}
        self.dirs = LogDirectories(
            self.fs, [root, *more], lambda: self.now_ms, on_offline=lambda directory: None, on_change=lambda: None
        )
        self.settings = SimpleNamespace(
            log_cleaner_threads=1,
            log_cleaner_backoff_ms=1000,
            log_cleaner_dedupe_buffer_size=1 << 20,
            log_cleaner_io_buffer_load_factor=0.9,
            log_cleaner_io_buffer_size=1 << 16,
            log_cleaner_io_max_bytes_per_second=1e300,
        )
        self.cleaner = LogCleaner(
            self.logs,
            self.dirs,
            self.settings,
            fs=self.fs,
            now_ms=lambda: self.now_ms,
            new_compactor=new_compactor or (lambda: InlineCompactor(self.fs)),
        )

    def log(self, name="t", rounds=8, **settings):
        log = open_log(self.root / f"{name}-0", fs=self.fs, **(SETTINGS | settings))
        log.now_ms = lambda: self.now_ms
        log.on_truncate = self.cleaner.truncated
        append(log, rounds)
        log.is_claimed = True
        self.logs[name, 0] = log
        return log

    async def clean(self):
        """What one worker does until nothing is dirty."""
        await self.cleaner._clean_while_dirty(0)

    def leftovers(self):
        return [path.name for path in self.root.rglob("*") if path.suffix in (".cleaned", ".swap")]

    def checkpoint(self):
        return (self.root / "cleaner-offset-checkpoint").read_text()


async def test_a_log_is_compacted_and_its_checkpoint_written(tmp_path, caplog):
    caplog.set_level(logging.INFO)
    yard = Yard(tmp_path)
    log = yard.log()
    await yard.clean()
    assert values(log) == [(6, b"6"), (7, b"7")]
    assert yard.checkpoint() == "0\n1\nt 0 7\n"
    assert yard.cleaner.max_dirty_ratio == 0
    assert yard.cleaner.find_filthiest() is None
    assert "t-0: compacted [0, 7): 7 segments to 7" in caplog.text
    assert log.compaction is None
    again = Yard(tmp_path)
    again.logs["t", 0] = log
    await again.cleaner.load()
    assert again.cleaner.checkpoints == {("t", 0): 7}


async def test_the_busy_workers_share_the_rate(tmp_path):
    class Busy:
        def set_rate(self, bytes_per_second):
            rates.append(bytes_per_second)

    yard, rates = Yard(tmp_path), []
    yard.settings.log_cleaner_io_max_bytes_per_second = 900.0
    yard.cleaner._compactors |= {Busy(), Busy(), Busy()}
    await yard.clean()
    assert rates == []
    yard.log()
    await yard.clean()
    assert rates == [225.0] * 3 + [300.0] * 3  # beside one more, and after it


async def test_the_workers_share_the_memory(tmp_path):
    class Noting(InlineCompactor):
        async def run(self, job, swap):
            jobs.append(job)
            return await super().run(job, swap)

    jobs = []
    yard = Yard(tmp_path, lambda: Noting(yard.fs))
    yard.settings.log_cleaner_threads = 3
    yard.log("a")
    await yard.clean()
    yard.settings.log_cleaner_io_buffer_size = 1
    yard.settings.log_cleaner_dedupe_buffer_size = 1 << 50
    yard.log("b")
    await yard.clean()
    shared, bounded = jobs
    assert (shared.io_buffer_bytes, shared.dedupe_buffer_bytes) == ((1 << 16) // 3 // 2, (1 << 20) // 3)
    assert (bounded.io_buffer_bytes, bounded.dedupe_buffer_bytes) == (4096, 2**31 - 1)


async def test_the_filthiest_log_comes_first_and_others_wait_for_their_ratio(tmp_path):
    yard = Yard(tmp_path)
    yard.log("clean", cleanup_policy=("delete",))
    half = yard.log("half")
    full = yard.log("full")
    yard.log("tidy", min_cleanable_dirty_ratio=0.9)
    yard.cleaner.checkpoints.update({("half", 0): 4, ("tidy", 0): 4})
    assert yard.cleaner.find_filthiest()[0] is full
    assert yard.cleaner.max_dirty_ratio == 1
    await yard.clean()
    assert yard.cleaner.totals.runs == 2
    assert values(half) == [(6, b"6"), (7, b"7")]
    assert sorted(yard.cleaner.checkpoints.items()) == [(("full", 0), 7), (("half", 0), 7), (("tidy", 0), 4)]


@pytest.mark.parametrize(
    ("settings", "change", "first", "end"),
    [
        ({}, None, 0, 7),
        ({}, lambda log: setattr(log.offsets, "high_watermark", 5), 0, 5),
        ({}, lambda log: setattr(log.producers, "first_unstable_offset", 3), 0, 3),
        ({"min_compaction_lag_ms": 1000}, None, 0, 0),
        ({"min_compaction_lag_ms": 1000}, lambda log: setattr(log, "now_ms", lambda: BASE_TIME_MS + 2000), 0, 7),
        ({}, lambda log: log.increment_log_start_offset(2), 2, 7),
    ],
)
def test_how_far_a_log_can_be_compacted(settings, change, first, end, tmp_path):
    log = Yard(tmp_path).log(**settings)
    if change:
        change(log)
    found = cleanable_range(log)
    assert (found.first_dirty_offset, found.end_offset) == (first, end)
    log.close()


@pytest.mark.parametrize("compacted_before", range(8))
def test_how_much_of_a_log_is_dirty(compacted_before, tmp_path):
    log = Yard(tmp_path).log()
    sizes = [segment.size for segment in log.segments[:-1]]
    found = cleanable_range(log, compacted_before)
    assert (len(sizes), found.is_reset) == (7, False)
    assert found.clean_bytes == sum(sizes[:compacted_before])
    assert found.cleanable_bytes == sum(sizes[compacted_before:])
    log.close()


async def test_a_log_that_is_old_enough_is_compacted_whatever_its_ratio(tmp_path):
    yard = Yard(tmp_path)
    yard.log(min_cleanable_dirty_ratio=1, max_compaction_lag_ms=1000)
    assert yard.cleaner.find_filthiest() is None
    yard.now_ms += 1001
    assert yard.cleaner.find_filthiest()[1].overdue_ms == 1


@pytest.mark.parametrize("offset", [1, 7, 8])
async def test_a_truncated_log_is_dirty_again_from_its_active_segment_on(offset, tmp_path):
    yard = Yard(tmp_path)
    log = yard.log()
    await yard.clean()
    assert log.truncate_to(offset) is (offset < 8)
    assert yard.cleaner.checkpoints["t", 0] == min(log.segments.active.base_offset, 7)
    append(log)
    await yard.clean()
    assert values(log)[-1][1] == b"7"
    assert len(values(log)) == 2


async def test_a_checkpoint_beyond_the_log_means_nothing(tmp_path, caplog):
    yard = Yard(tmp_path)
    log = yard.log()
    yard.cleaner.checkpoints["t", 0] = 1000
    await yard.clean()
    assert "the cleaner checkpoint 1000 is outside the log (0 to 8)" in caplog.text
    assert len(values(log)) == 2


async def test_a_damaged_checkpoint_is_not_believed(tmp_path, caplog):
    yard = Yard(tmp_path)
    yard.log()
    (tmp_path / "cleaner-offset-checkpoint").write_text("0\n7\n")
    await yard.cleaner.load()
    assert yard.cleaner.checkpoints == {}
    assert "compacted from their start again" in caplog.text


@pytest.mark.parametrize(
    ("left", "beside", "expected"),
    [
        ("0\n1\nt 0 3\n", "0\n1\nt 0 5\n", 5),  # the stop came before the directory that the log has left was written
        ("0\n1\nt 0 5\n", None, None),  # of an earlier log of the name
        (None, "0\n2\ngone 1 9\nt 0 5\n", 5),  # a partition that is nowhere
        (None, None, None),
    ],
)
async def test_a_start_leaves_one_checkpoint_entry_in_the_directory_where_the_log_is(left, beside, expected, tmp_path):
    names = ("left", "beside")
    for name, text in zip(names, (left, beside), strict=True):
        (tmp_path / name).mkdir()
        if text is not None:
            (tmp_path / name / "cleaner-offset-checkpoint").write_text(text)
    yard = Yard(tmp_path / "beside", more=[tmp_path / "left"])
    yard.log()
    await yard.cleaner.load()
    assert yard.cleaner.checkpoints == ({} if expected is None else {("t", 0): expected})
    entries = {directory.path.name: directory.cleaner_offsets.read() for directory in yard.dirs.all}
    assert entries == {"left": {}, "beside": yard.cleaner.checkpoints}


async def test_the_entry_of_a_log_that_is_about_to_move_is_written_where_it_will_be(tmp_path):
    (tmp_path / "other").mkdir()
    yard = Yard(tmp_path / "here", more=[tmp_path / "other"])
    yard.log()
    yard.cleaner.checkpoints["t", 0] = 3
    _, other = yard.dirs.all
    await yard.cleaner.write_checkpoint(other, coming=("t", 0))
    assert other.cleaner_offsets.read() == {("t", 0): 3}
    await yard.cleaner.write_checkpoint(other)
    assert other.cleaner_offsets.read() == {}


async def test_a_deleted_log_leaves_the_checkpoint(tmp_path):
    yard = Yard(tmp_path)
    yard.log()
    await yard.clean()
    del yard.logs["t", 0]
    await yard.cleaner.gone_from(yard.dirs.all[0], ("t", 0))
    assert yard.checkpoint() == "0\n0\n"


class Interfering(InlineCompactor):
    """Calls `interfere` when the first group is on disk: before it is swapped in."""

    def __init__(self, fs, interfere):
        super().__init__(fs)
        self.interfere = interfere

    async def run(self, job, on_group):
        async def first(group):
            interfere, self.interfere = self.interfere, lambda: None
            interfere()
            await on_group(group)

        return await super().run(job, first)


@pytest.mark.parametrize("what", ["truncate", "truncate fully", "close", "rename", "policy", "retention"])
async def test_a_run_is_given_up(what, tmp_path, caplog):
    caplog.set_level(logging.INFO)

    def interfere():
        if what == "truncate":
            log.truncate_to(3)
        elif what == "truncate fully":
            log.truncate_fully_and_start_at(2)
        elif what == "close":
            log.close()
        elif what == "rename":
            log.move_to(tmp_path / "t-0.0123-delete")
        elif what == "retention":
            log.increment_log_start_offset(5)
            assert log.delete_old_segments() == 5
        else:
            log.config = log.config.with_overrides(cleanup_policy=("delete",))

    yard = Yard(tmp_path, lambda: Interfering(yard.fs, interfere))
    log = yard.log()
    await first_run(yard)
    assert "compaction aborted" in caplog.text
    assert log.compaction is None
    assert yard.cleaner.uncleanable == {}
    if what != "rename":  # those go with the directory
        assert yard.leftovers() == []
    if what == "truncate":
        assert values(log) == [(0, b"0"), (1, b"1"), (2, b"2")]
    elif what in ("policy", "retention"):
        assert len(values(log)) == {"policy": 8, "retention": 3}[what]


async def first_run(yard):
    """One run, and no further one."""
    found, yard.cleaner.find_filthiest = yard.cleaner.find_filthiest(), lambda: None
    compactor = yard.cleaner._new_compactor()
    await yard.cleaner._clean(CompactionRun(found[0]), *found, compactor)
    await compactor.close()


async def test_a_truncation_while_the_directory_is_synced_takes_the_staged_files_away(tmp_path):
    class Slow(UnsyncedFileSystem):
        async def run_blocking(self, work):
            if log.compaction is not None and log.compaction._staged is not None:
                assert list(log.directory.glob("*.swap"))
                log.truncate_to(4)
                assert not list(log.directory.glob("*.swap"))
            return work()

    yard = Yard(tmp_path, fs=Slow())
    log = yard.log()
    await first_run(yard)
    assert [value for value, _ in values(log)] == [0, 1, 2, 3]
    assert yard.leftovers() == []


async def test_damage_makes_a_log_uncleanable_and_no_other(tmp_path, caplog):
    yard = Yard(tmp_path)
    bad, good = yard.log("bad"), yard.log("good")
    path = bad.directory / "00000000000000000003.log"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    await yard.clean()
    await yard.clean()
    assert len(values(good)) == 2
    assert list(yard.cleaner.uncleanable) == [("bad", 0)]
    assert caplog.text.count("bad-0 cannot be compacted") == 1
    assert "stored crc" in caplog.text
    assert yard.cleaner.uncleanable_partitions(tmp_path) == 1
    assert yard.cleaner.uncleanable_partitions(tmp_path / "elsewhere") == 0
    assert yard.cleaner.uncleanable_bytes(tmp_path) == bad.size_bytes - bad.segments.active.size
    assert yard.leftovers() == []
    assert "good 0 7" in yard.checkpoint()


async def test_damage_that_hides_how_much_is_dirty_makes_a_log_uncleanable(tmp_path, caplog):
    yard = Yard(tmp_path)
    log = yard.log("bad", max_compaction_lag_ms=1)
    path = log.directory / "00000000000000000003.log"
    data = bytearray(path.read_bytes())
    data[8] = 0xFF  # a length that cannot be
    path.write_bytes(data)
    for segment in log.segments:
        segment.rolling_timestamp = None  # as after a start
    yard.now_ms += 10
    await yard.clean()
    assert list(yard.cleaner.uncleanable) == [("bad", 0)]
    assert "bad-0 cannot be compacted" in caplog.text


@pytest.mark.parametrize("when", ["looking", "reading", "writing"])
async def test_a_disk_that_fails_under_a_compaction_fails_the_directory(tmp_path, caplog, when):
    class Failing(FaultyFileSystem):
        def open(self, path, *, create=False):
            if when == "writing" and path.endswith(".cleaned"):
                self.broken[Path(path)] = errno.EIO
            return super().open(path, create=create)

    yard = Yard(tmp_path, fs=Failing())
    failures = []
    yard.fs.on_failure = failures.append
    log = yard.log(max_compaction_lag_ms=1 if when == "looking" else 1 << 60)
    for segment in log.segments:
        segment.rolling_timestamp = None
    yard.now_ms += 10
    if when != "writing":
        yard.fs.broken[log.directory] = errno.EIO
    await yard.clean()
    assert [failure.is_fatal for failure in failures] == [True]
    assert not yard.cleaner.uncleanable


async def test_a_full_disk_costs_nothing_but_time(tmp_path, caplog):
    class Full(UnsyncedFileSystem):
        full = True

        def pwrite(self, fd, data, position):
            if self.full and len(data) > 150:
                raise OSError(errno.ENOSPC, "No space left on device")
            return FileSystem.pwrite(fd, data, position)

    yard = Yard(tmp_path, fs=Full())
    yard.fs.full = False
    log = yard.log()
    log.config = log.config.with_overrides(segment_bytes=1 << 20)  # all in one group
    yard.fs.full = True
    await yard.clean()
    assert "t-0: the disk is too full for compaction" in caplog.text
    assert len(values(log)) == 8
    assert yard.leftovers() == []
    assert yard.cleaner.find_filthiest() is None
    yard.now_ms += 1000
    yard.fs.full = False
    await yard.clean()
    assert len(values(log)) == 2


async def test_readers_in_flight_are_not_disturbed(tmp_path):
    yard = Yard(tmp_path)
    log = yard.log()
    fetched = [log.read(offset, 1 << 20, max_offset=8).records for offset in range(8)]
    expected = [one.to_bytes() for one in fetched]
    await yard.clean()
    assert [one.to_bytes() for one in fetched] == expected
    assert log.read(0, 1 << 20, max_offset=8).records.to_bytes() == expected[6]


@on_both_loops
async def test_a_worker_that_is_killed_between_two_jobs_is_replaced(tmp_path, caplog):
    yard = Yard(tmp_path, ProcessCompactor)
    job, dirty = dirty_log(yard)
    compactor = ProcessCompactor()
    await yard.cleaner._clean(CompactionRun(job), job, dirty, compactor)
    first = compactor.pid
    os.kill(first, signal.SIGKILL)
    await until(lambda: compactor._process.returncode is not None, "the exit code is known")
    compactor.set_rate(1e9)
    job, dirty = dirty_log(yard, "u")
    await yard.cleaner._clean(CompactionRun(job), job, dirty, compactor)
    assert compactor.pid not in (None, first)
    await compactor.close()
    assert yard.cleaner.totals.runs == 2
    assert "the process for compaction has ended with exit code -9; it is started again" in caplog.text


@pytest.mark.parametrize("error", [RuntimeError("the handler is closed"), BrokenPipeError(), ConnectionResetError()])
async def test_a_write_to_a_worker_that_has_ended_is_a_failed_run_that_is_tried_again(error, tmp_path, caplog):
    """The end of a pipe may be known before the exit code is. What a write raises then depends on the event loop."""

    def write(data):
        raise error

    yard = Yard(tmp_path, ProcessCompactor)
    log, dirty = dirty_log(yard)
    compactor = ProcessCompactor()
    process = await compactor._start()
    process.stdin = SimpleNamespace(write=write, close=process.stdin.close)
    compactor.set_rate(1e9)
    await yard.cleaner._clean(CompactionRun(log), log, dirty, compactor)
    assert "compaction failed, it will be tried again: the process for compaction has ended with" in caplog.text
    assert (yard.cleaner.uncleanable, compactor.pid, yard.cleaner.totals.runs) == ({}, None, 0)
    await yard.cleaner._clean(CompactionRun(log), log, dirty, compactor)
    await compactor.close()
    assert yard.cleaner.totals.runs == 1
    assert len(values(log)) == 2


async def test_a_worker_is_told_the_rate_limit():
    compactor, written = ProcessCompactor(), []
    process = await compactor._start()
    stdin, process.stdin = process.stdin, SimpleNamespace(write=written.append)
    compactor.set_rate(1e6)
    compactor.set_rate(math.inf)
    assert [json.loads(line) for line in written] == [{"rate": 1e6}, {"rate": None}]
    process.stdin = stdin
    await compactor.close()


async def test_a_write_that_fails_later_is_a_failed_run_too(tmp_path, caplog):
    """asyncio tells it who reads what the process answers."""
    yard = Yard(tmp_path, ProcessCompactor)
    log, dirty = dirty_log(yard)
    compactor = ProcessCompactor()
    process = await compactor._start()
    process.stdout.set_exception(BrokenPipeError())
    await yard.cleaner._clean(CompactionRun(log), log, dirty, compactor)
    assert "compaction failed, it will be tried again: the process for compaction has ended with" in caplog.text
    assert (yard.cleaner.uncleanable, compactor.pid, yard.cleaner.totals.runs) == ({}, None, 0)


@on_both_loops
async def test_a_worker_that_is_killed_twice_has_its_own_exit_code(monkeypatch):
    """The exit code belongs to asyncio's child watcher; Popen.poll, which Process.kill calls, takes it away."""
    polled = []
    monkeypatch.setattr(subprocess.Popen, "poll", polled.append)
    compactor = ProcessCompactor()
    process = await compactor._start()
    compactor.kill()
    await compactor.close()
    assert polled == []
    assert process.returncode == -signal.SIGKILL


def dirty_log(yard, name="t"):
    log = yard.log(name)
    return log, cleanable_range(log)


async def test_a_process_that_is_killed_is_replaced(tmp_path, caplog):
    compactors = []

    class Killed(ProcessCompactor):
        async def run(self, job, on_group):
            compactors.append(self)

            async def kill_first(group):
                if len(compactors) == 1:
                    self.kill()
                await on_group(group)

            return await super().run(job, kill_first)

    yard = Yard(tmp_path, Killed)
    log = yard.log(rounds=60)
    await yard.clean()
    assert (
        "compaction failed, it will be tried again: the process for compaction has ended with exit code -9"
        in caplog.text
    )
    assert values(log)[-1] == (59, b"5")
    assert yard.leftovers() == []
    yard.now_ms += 1000
    await yard.clean()
    assert [offset for offset, _ in values(log)] == [58, 59]
    assert len(compactors) == 2


async def test_workers_compact_in_the_background_until_they_are_cancelled(tmp_path):
    yard = Yard(tmp_path, ProcessCompactor)
    log = yard.log()
    running = asyncio.create_task(yard.cleaner.run())
    await until(lambda: yard.cleaner.totals.runs == 1, "the log is compacted")
    assert len(values(log)) == 2
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert log.compaction is None
