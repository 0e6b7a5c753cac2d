"""What is synced, when, and by whom: the recovery point moves behind it and never before."""

import asyncio
import errno
import random
from threading import Event

import pytest

from protocol.control_records import ControlRecordType, EndTransactionMarker, end_marker_batch
from storage.errors import LogDirIOError
from storage.file_system import FileSystem
from storage.log.append import AppendOrigin
from storage.log.config import LogConfig
from storage.log_manager import LogManager
from support.deadlines import DEADLINE_S
from support.log_dirs import BASE_TIME_MS, batch, open_log, read_records


class SyncedFileSystem(FileSystem):
    """Notes what is synced, by the end of its path; may block or fail there."""

    def __init__(self):
        super().__init__()
        self.synced = []
        self.gate = None
        self.failure = None
        self.waiting = Event()
        self._paths = {}

    def open(self, path, *, create=False):
        handle = super().open(path, create=create)
        self._paths[handle.fd] = path
        return handle

    def fsync(self, fd):
        self._sync(self._paths[fd])

    def sync_path(self, path):
        self._sync(path)

    def _sync(self, path):
        if self.gate is not None:
            self.waiting.set()
            assert self.gate.wait(DEADLINE_S)
        if self.failure is not None:
            raise OSError(self.failure, "injected")
        self.synced.append(path)

    def take(self, root):
        """What was synced since the last time, relative to `root`."""
        synced, self.synced = self.synced, []
        return sorted(path.removeprefix(f"{root}/") for path in synced)


@pytest.fixture
def fs():
    return SyncedFileSystem()


def manager(path, fs, **settings):
    return LogManager(
        [path],
        lambda topic: LogConfig().with_overrides(**settings),
        fs=fs,
        now_ms=lambda: BASE_TIME_MS,
        rng=random.Random(1),
    )


FILES = ["t-0/{:020d}.index", "t-0/{:020d}.log", "t-0/{:020d}.timeindex"]


def files(base):
    return [name.format(base) for name in FILES]


def test_the_first_flush_syncs_everything_that_is_new(tmp_path, fs):
    log = open_log(tmp_path / "t-0", fs=fs, topic_id=b"T" * 16)
    log.append_as_leader(batch("a"), 0)
    fs.take(tmp_path)
    log.flush()
    small = ["t-0/leader-epoch-checkpoint", "t-0/partition.metadata"]
    assert fs.take(tmp_path) == sorted([*files(0), *small, "t-0", str(tmp_path)])
    assert log.recovery_point == 1
    log.append_as_leader(batch("a"), 0)
    log.flush()
    assert fs.take(tmp_path) == files(0), "no name has changed"
    log.flush()
    assert fs.take(tmp_path) == []


def test_an_epoch_without_records_is_not_synced(tmp_path, fs):
    """A clean stop of thousands of leaders that got no record syncs nothing."""
    log = open_log(tmp_path / "t-0", fs=fs)
    log.flush()
    log.leader_epochs.assign(1, 0)
    fs.take(tmp_path)
    log.flush()
    assert fs.take(tmp_path) == []
    log.append_as_leader(batch("a"), 1)
    log.flush()
    assert "t-0/leader-epoch-checkpoint" in fs.take(tmp_path)
    log.leader_epochs.assign(2, 1)  # this replaces a file with an epoch that has records
    log.flush()
    assert "t-0/leader-epoch-checkpoint" in fs.take(tmp_path)


def test_a_roll_syncs_earlier_segments_and_the_directory(tmp_path, fs):
    log = open_log(tmp_path / "t-0", fs=fs)
    log.append_as_leader(batch("a"), 0)
    log.flush()
    log.append_as_leader(batch("b"), 0)
    log.roll()
    log.append_as_leader(batch("c"), 0)
    fs.take(tmp_path)
    log.flush(2)
    assert fs.take(tmp_path) == sorted([*files(0), "t-0", f"t-0/{2:020d}.snapshot"])
    assert log.recovery_point == 2
    log.flush()
    assert fs.take(tmp_path) == files(0) + files(2)
    log.append_as_leader(batch("d"), 0)
    log.flush()
    assert fs.take(tmp_path) == files(2)


def test_a_roll_adds_to_indexes_that_are_synced(tmp_path, fs):
    log = open_log(tmp_path / "t-0", fs=fs)
    for number in range(2):
        log.append_as_leader(batch("a", timestamp=BASE_TIME_MS + number), 0)
    log.flush()
    fs.take(tmp_path)
    log.roll()
    log.flush()
    assert f"t-0/{0:020d}.timeindex" in fs.take(tmp_path), "the entry of the largest timestamp"


def test_a_first_aborted_transaction_makes_a_file(tmp_path, fs):
    log = open_log(tmp_path / "t-0", fs=fs)
    log.append_as_leader(batch("a", producer=(7, 0, 0), transactional=True), 0)
    log.flush()
    fs.take(tmp_path)
    marker = EndTransactionMarker(ControlRecordType.ABORT, 0)
    data = end_marker_batch(marker, producer_id=7, producer_epoch=0, timestamp=BASE_TIME_MS)
    log.append_as_leader(data, 0, origin=AppendOrigin.COORDINATOR)
    log.flush()
    assert fs.take(tmp_path) == sorted([*files(0), "t-0", f"t-0/{0:020d}.txnindex"])


def test_removed_segments_are_synced_with_the_next_flush(tmp_path, fs):
    log = open_log(tmp_path / "t-0", fs=fs, retention_bytes=0, segment_bytes=100)
    for _ in range(3):
        log.append_as_leader(batch("a" * 20), 0)
    log.update_high_watermark(3)
    log.flush()
    fs.take(tmp_path)
    assert log.delete_old_segments() == 3
    log.flush()
    assert "t-0" in fs.take(tmp_path)
    log.flush()
    assert fs.take(tmp_path) == []


def test_an_emptied_segment_is_synced(tmp_path, fs):
    log = open_log(tmp_path / "t-0", fs=fs, segment_bytes=100)
    for _ in range(3):
        log.append_as_leader(batch("a" * 20), 0)
    log.flush()
    fs.take(tmp_path)
    log.truncate_to(1)
    assert log.recovery_point == 1
    log.flush()
    synced = fs.take(tmp_path)
    assert set(files(1)) < set(synced)
    assert "t-0" in synced


@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC])
@pytest.mark.parametrize("where", [0, 1, 3])
def test_a_failed_sync_keeps_the_recovery_point(tmp_path, fs, where, error):
    log = open_log(tmp_path / "t-0", fs=fs, topic_id=b"T" * 16)
    log.append_as_leader(batch("a"), 0)
    sync, left = fs._sync, [where]

    def fail_later(path):
        left[0] -= 1
        fs.failure = error if left[0] < 0 else None
        sync(path)

    fs._sync = fail_later
    failures = []
    fs.on_failure = failures.append
    with pytest.raises(LogDirIOError):
        log.flush()
    assert log.recovery_point == 0
    assert [(failure.cause.errno, failure.is_fatal) for failure in failures] == [(error, True)]


async def until(condition):
    async with asyncio.timeout(DEADLINE_S):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.005)


async def test_a_blocked_disk_does_not_block_appends(tmp_path, fs):
    """fsync of one log, and of the checkpoints, hangs: the loop serves appends and reads, of that very log, too."""
    logs = manager(tmp_path, fs, segment_bytes=200)
    logs.dirs.lock()
    await logs.load()
    log, other = logs.get_or_create("t", 0), logs.get_or_create("t", 1)
    log.append_as_leader(batch("first"), 0)
    fs.gate = Event()
    flushing = [
        asyncio.create_task(work) for work in (logs.flush(log), logs.checkpoints.write_recovery_points(), logs.run())
    ]
    try:
        await until(fs.waiting.is_set)
        for number in range(20):
            for each in (log, other):
                each.append_as_leader(batch(f"value {number}"), 0)
                assert read_records(each)[-1].value == b"value %d" % number
            await asyncio.sleep(0)
        assert len(log.segments) > 3
        assert not any(task.done() for task in flushing)
        assert (log.recovery_point, other.recovery_point) == (0, 0)
    finally:
        fs.gate.set()
    await asyncio.gather(*flushing[:2])
    await until(lambda: log.recovery_point == log.segments[-1].base_offset)
    flushing[2].cancel()
    await asyncio.gather(flushing[2], return_exceptions=True)
    logs.dirs.unlock()


async def test_logs_are_synced_in_the_order_in_which_they_rolled(tmp_path, fs):
    """Not in the order of their addresses, which is another one in each run."""
    logs = manager(tmp_path, fs)
    logs.dirs.lock()
    await logs.load()
    order = random.Random(1).sample(range(20), 20)
    for partition in order:
        log = logs.get_or_create("t", partition)
        log.append_as_leader(batch("a"), 0)
        log.roll()
    fs.take(tmp_path)
    running = asyncio.create_task(logs.run())
    await until(lambda: log.recovery_point == 1)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    synced = [path.removeprefix(f"{tmp_path}/t-") for path in fs.synced if path.endswith(f"/{0:020d}.log")]
    assert [int(path.partition("/")[0]) for path in synced] == order
    logs.dirs.unlock()


async def test_checkpoints_are_written_one_at_a_time(tmp_path, fs):
    """Two at once would take each other's temporary file away; the newest is the one that stays."""
    logs = manager(tmp_path, fs)
    logs.dirs.lock()
    await logs.load()
    log = logs.get_or_create("t", 0)
    await logs.flush(log)
    fs.gate = Event()
    first = asyncio.create_task(logs.checkpoints.write_recovery_points())
    await until(fs.waiting.is_set)
    log.append_as_leader(batch("a"), 0)
    log.durability.recovery_point = 1
    second = asyncio.create_task(logs.checkpoints.write_recovery_points())
    await asyncio.sleep(0)
    fs.gate.set()
    await asyncio.gather(first, second)
    assert logs.dirs.all[0].recovery_points.read() == {("t", 0): 1}
    assert logs.dirs.all[0].is_online
    logs.dirs.unlock()


async def test_the_clean_shutdown_marker_is_removed_durably_before_loading(tmp_path, fs):
    logs = manager(tmp_path / "a" / "b", fs)
    logs.dirs.lock()
    await logs.load()
    await logs.shutdown()
    assert {str(tmp_path), f"{tmp_path}/a"} <= set(fs.synced), "the new directory's own name"
    fs.take(tmp_path)
    logs = manager(tmp_path / "a" / "b", fs)
    await logs.load()
    assert logs.dirs.all[0].clean
    assert fs.take(tmp_path)[:1] == ["a/b"]


async def test_a_truncation_is_durable_when_it_returns(tmp_path, fs):
    logs = manager(tmp_path, fs, segment_bytes=200)
    logs.dirs.lock()
    await logs.load()
    log = logs.get_or_create("t", 0)
    for _ in range(10):
        log.append_as_leader(batch("a"), 0)
    await logs.flush(log)
    await logs.checkpoints.write_recovery_points()
    fs.take(tmp_path)
    assert await logs.truncate_to(log, 5)
    assert logs.dirs.all[0].recovery_points.read() == {("t", 0): 5}
    synced = fs.synced
    assert synced.index(f"{tmp_path}/recovery-point-offset-checkpoint.tmp") < synced.index(log.segments[-1].file.path)
    assert synced[-1] == f"{tmp_path}/t-0"
    assert not await logs.truncate_to(log, 5)
    await logs.truncate_fully_and_start_at(log, 40)
    assert (log.log_start_offset, log.log_end_offset, log.recovery_point) == (40, 40, 40)
    assert logs.dirs.all[0].recovery_points.read() == {("t", 0): 0}
    logs.dirs.unlock()
