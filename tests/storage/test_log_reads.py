"""Lookups in another thread, while the log changes."""

from __future__ import annotations

import asyncio
import shutil

import pytest

from protocol.errors import CorruptRecordError
from storage.errors import LogDirIOError
from storage.log.warm_up import ColdReadError
from storage.log_reads import LogReads
from support.log_dirs import BASE_TIME_MS, UnsyncedFileSystem, batch, open_log
from support.polling import until


class Meanwhile(UnsyncedFileSystem):
    """Does something to the log before the first read in another thread, and something after it."""

    def __init__(self):
        super().__init__()
        self.before = self.after = lambda: None
        self.reads = 0

    async def run_blocking(self, work):
        self.reads += 1
        before, after = self.before, self.after
        self.before = self.after = lambda: None
        before()
        try:
            return await super().run_blocking(work)
        finally:
            after()


@pytest.fixture
def fs():
    return Meanwhile()


@pytest.fixture
def log(tmp_path, fs):
    """Six segments of three batches, each of one record."""
    log = open_log(tmp_path / "t-0", fs=fs, segment_bytes=250, index_interval_bytes=50, retention_ms=-1)
    append(log, 18)
    assert len(log.segments) == 6
    return log


def append(log, count):
    for _ in range(count):
        log.append_as_leader(batch("a", timestamp=BASE_TIME_MS + log.log_end_offset), 0)
    log.update_high_watermark(log.log_end_offset)


def at(offset):
    return BASE_TIME_MS + offset, offset, 0


async def test_an_append_meanwhile_does_not_matter(log, fs):
    fs.before = lambda: append(log, 18)
    assert await LogReads(fs).look_up(lambda: log, None) == at(17)
    assert fs.reads == 1


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize(
    ("change", "timestamp", "expected"),
    [
        (lambda log: log.truncate_to(7), None, at(6)),
        (lambda log: log.truncate_to(17), None, at(16)),  # within the active segment
        (lambda log: log.truncate_fully_and_start_at(30), 0, None),
        (lambda log: log.increment_log_start_offset(9) and log.delete_old_segments(), 0, at(9)),
        (lambda log: log.move_to(log.directory.with_name("t-1")), 4, at(0)),
    ],
)
async def test_a_log_that_has_changed_is_read_again(log, fs, when, change, timestamp, expected):
    setattr(fs, when, lambda: change(log))
    assert await LogReads(fs).look_up(lambda: log, timestamp) == expected
    assert fs.reads == 2


async def test_the_log_may_be_replaced(log, fs, tmp_path):
    other = open_log(tmp_path / "other-0", fs=fs)
    current = [log]
    fs.after = lambda: current.__setitem__(0, other)
    assert await LogReads(fs).look_up(lambda: current[0], None) is None
    assert fs.reads == 2


async def test_errors_of_files_that_have_not_changed_are_raised(log, fs):
    path = log.directory / f"{15:020d}.log"
    data = bytearray(path.read_bytes())
    for position in range(0, len(data), len(data) // 3):
        data[position + 16] = 9  # the magic
    path.write_bytes(data)
    with pytest.raises(CorruptRecordError):
        await LogReads(fs).look_up(lambda: log, None)
    failures = []
    fs.on_failure = failures.append
    shutil.rmtree(log.directory)
    for timestamp in (0, None):
        with pytest.raises(LogDirIOError, match="No such file or directory"):
            await LogReads(fs).look_up(lambda: log, timestamp)
    assert len(failures) == 2


async def test_few_reads_at_once_even_if_their_callers_give_up():
    limit = 4

    class Endless(UnsyncedFileSystem):
        def __init__(self):
            super().__init__()
            self.begun = 0
            self.disk = asyncio.Event()

        async def run_blocking(self, work):
            self.begun += 1
            await self.disk.wait()
            return work()

    fs = Endless()
    reads = LogReads(fs)
    callers = [asyncio.create_task(reads.run(lambda number=number: number)) for number in range(3 * limit)]
    await until(lambda: fs.begun == limit, "some have begun")
    for caller in callers[: 2 * limit]:
        caller.cancel()
    await asyncio.wait(callers[: 2 * limit])
    assert fs.begun == limit
    fs.disk.set()
    assert await asyncio.gather(*callers[2 * limit :]) == list(range(2 * limit, 3 * limit))


async def test_timestamps_are_read_once(log, fs, tmp_path):
    log.close()
    log = open_log(tmp_path / "t-0", fs=fs, segment_bytes=250, retention_ms=-1)
    assert not log.segments[0].timestamp_known
    assert await LogReads(fs).look_up(lambda: log, None) == at(17)
    assert all(segment.timestamp_known for segment in log.segments[:-1])
    assert fs.descriptors.open_files <= 3, "a lookup closes its files"


async def test_a_segment_is_cold_until_it_was_read_and_after_a_minute(log, fs, tmp_path):
    log.close()
    now = [BASE_TIME_MS]
    log = open_log(tmp_path / "t-0", fs=fs, now_ms=lambda: now[0], retention_ms=-1)

    def read_now():
        return log.read(4, 1000, max_offset=18, may_wait=False)

    for _ in range(2):
        with pytest.raises(ColdReadError) as cold:
            read_now()
        await LogReads(fs).warm_up([cold.value.warm_up])
        log.read(4, 1000, max_offset=18)
        assert read_now().records is not None
        now[0] += 50_000
        assert read_now().records is not None
        now[0] += 60_001


async def test_a_log_that_changes_while_it_is_warmed_up(log, fs, tmp_path):
    log.close()
    log = open_log(tmp_path / "t-0", fs=fs, retention_ms=-1)
    with pytest.raises(ColdReadError) as cold:
        log.read(4, 1000, max_offset=18, may_wait=False)
    shutil.rmtree(log.directory)
    failures = []
    fs.on_failure = failures.append
    await LogReads(fs).warm_up([cold.value.warm_up])
    assert not failures
