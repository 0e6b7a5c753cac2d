"""Copies of logs in other log directories: what is copied, how a copy follows its log and takes its place."""

import asyncio
import errno

import pytest

from protocol.control_records import ControlRecordType, EndTransactionMarker, end_marker_batch
from storage.compaction.run import compact_log
from storage.directories.log_copy import LogCopy, common_end
from storage.directories.moved_from import MOVED_FROM
from storage.errors import LogClosedError, LogDirIOError
from storage.log.append import AppendOrigin
from storage.log.config import LogConfig
from storage.verification.verification import verify_directory
from support.cut_log import raw_batches
from support.log_dirs import BASE_TIME_MS, UnsyncedFileSystem, batch, read_records
from support.log_move import KEY, STEP, Move, files
from support.power_cut import PowerCutFileSystem

pytestmark = pytest.mark.usefixtures("quiet_storage")


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


async def test_records_appended_during_the_copy(move):
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


async def test_state_of_producers_whose_records_are_deleted(move):
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


async def test_a_compacted_log_that_lacks_its_last_records(move):
    move.append(3)
    move.current.skip_to(10)
    move.current.commit_all()
    await move.begin()
    await move.copy_all()
    assert move.future.log_end_offset == 10
    await move.finish()
    assert move.future.append_as_leader(batch(b"next"), 3).first_offset == 10
    assert [record.offset for record in read_records(move.future)] == [0, 1, 2, 10]


async def test_segments_begin_at_the_offsets_of_the_log_for_any_current_settings(move):
    move.append(20)
    before = files(move.current.directory)
    move.current.config = LogConfig().with_overrides(segment_bytes=100_000)
    await move.begin()
    await move.copy_all()
    assert files(move.future.directory) == before
    assert len(before) > 3


async def test_segments_are_split_if_segment_bytes_is_smaller_than_they_are(move):
    move.append(20)
    before = raw_batches(move.current)
    await move.begin()
    move.future.segments.configure(LogConfig().with_overrides(segment_bytes=len(before[0]) + 1))
    while await move.copy.copy(1000):
        pass
    await move.finish()
    assert raw_batches(move.future) == before
    assert [segment.base_offset for segment in move.future.segments] == list(range(20))


async def test_the_checkpoint_entry_of_an_earlier_log_is_reset(move):
    move.append(3)
    move.logs.dirs.all[1].recovery_points.write({KEY: 1000})
    await move.begin()
    assert move.logs.dirs.all[1].recovery_points.read() == {KEY: 0}


async def test_a_clean_stop_closes_the_copy(move):
    move.append(3)
    await move.begin()
    await move.copy_all()
    await move.logs.shutdown()
    assert move.future.closed
    directory = move.logs.dirs.all[1]
    assert directory.recovery_points.read() == {KEY: 3}
    assert directory.take_clean_shutdown()


async def test_a_directory_with_a_copy_is_valid(move):
    move.append(3)
    await move.begin()
    await move.copy_all()
    await move.logs.checkpoints.write_all_of(move.logs.dirs.all[1])
    problems = [str(problem) for problem in verify_directory(move.root / "b")]
    assert any("being moved here" in text for text in problems)
    assert not any("are not here" in text for text in problems)


async def test_files_scheduled_for_removal_are_removed_from_the_new_directory(move):
    move.append(30)
    await move.begin()
    await move.copy_all()
    move.current.increment_log_start_offset(20)
    await move.copy.copy(STEP)
    assert list(move.future.directory.glob("*.deleted"))
    await move.finish()
    await move.logs.delayed_deletes.run_due()
    assert not list((move.root / "b" / "t-0").glob("*.deleted"))


async def test_a_running_compaction_is_aborted(move):
    from storage.compaction.run import CompactionRun

    move.append(20)
    run = CompactionRun(move.current)
    await move.begin()
    assert run.aborted == "it is moved to another log directory"
    run.end()


async def test_segments_are_deleted_in_the_copy(move):
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


async def test_records_are_deleted_during_the_last_sync_of_the_copy(move, monkeypatch):
    move.append(20)
    await move.begin()
    await move.copy_all()
    prepare = move.logs.futures.prepare

    async def delete_and_prepare(key):
        await prepare(key)
        move.append(5)
        move.current.increment_log_start_offset(23)

    monkeypatch.setattr(move.logs.futures, "prepare", delete_and_prepare)
    assert not await move.copy.replace_log(pytest.fail, STEP)
    monkeypatch.undo()
    await move.finish()
    assert (move.future.log_start_offset, move.future.log_end_offset) == (23, 25)


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


async def test_a_log_that_is_truncated_fully(move):
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


async def test_a_truncation_not_yet_applied_to_the_copy(move):
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
            from storage.log.leader_epoch_cache import LeaderEpochCache

            self.leader_epochs = LeaderEpochCache(None, "")
            self.leader_epochs._set(entries)

        def end_offset_for_epoch(self, epoch):
            return self.leader_epochs.end_offset_for(epoch, 15)

    assert common_end(Side(current), Side(future)) == end


async def test_no_swap_before_a_pending_truncation(move, monkeypatch):
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
    assert not await move.copy.replace_log(pytest.fail, STEP)
    go_on.set()
    assert await truncating
    await move.copy_all()
    await move.finish()
    assert move.future.log_end_offset == 12


# -- syncing -----------------------------------------------------------------------------------------------------------


async def test_waiters_for_the_old_log_wait_for_the_new_one(move):
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


async def test_the_swap_waits_for_a_running_flush(tmp_path):
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
    finishing = asyncio.create_task(move.copy.replace_log(lambda log: None, STEP))
    for _ in range(50):
        await asyncio.sleep(0)
    assert not finishing.done()
    assert move.logs.get(*KEY) is move.current
    go_on.set()
    assert await finishing
    await flushing
    assert move.future.recovery_point >= move.current.recovery_point == 5
    move.logs.dirs.unlock()


async def test_an_abandoned_move(move, monkeypatch):
    move.append(20)
    await move.begin()
    await move.copy.copy(STEP)
    prepare = move.logs.futures.prepare

    async def prepare_and_give_up(key):
        await prepare(key)
        move.copy.is_given_up = True

    monkeypatch.setattr(move.logs.futures, "prepare", prepare_and_give_up)
    assert not await move.copy.replace_log(pytest.fail, STEP)
    assert move.logs.get(*KEY) is move.current
    assert await move.copy.copy(STEP) == 0
    assert not await move.copy.replace_log(pytest.fail, STEP)
    await move.logs.futures.remove(KEY)
    assert move.logs.futures.logs == {}
    assert not move.current.is_being_moved
    assert [path.name.rpartition("-")[2] for path in (move.root / "b").glob("t-0*")] == ["delete"]


async def test_a_directory_of_the_same_name_exists(move):
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


@pytest.mark.parametrize("cached", [True, False])
async def test_a_disk_that_fails_on_read(cached, tmp_path):
    error = OSError(errno.EIO, "Input/output error")

    class Broken(UnsyncedFileSystem):
        def pread_now(self, fd, length, position):
            return self.fail() if cached else None

        async def run_blocking(self, work):
            self.fail()

        def fail(self):
            raise error

    failures = []
    move = await Move(tmp_path).start()
    move.append(6)
    await move.begin()
    broken = Broken()
    broken.on_failure = failures.append
    move.current.files.fs = move.current.segments[0].fs = move.current.segments[0].file.fs = broken
    with pytest.raises(LogDirIOError, match="Input/output error"):
        await move.copy.copy(STEP)
    assert [failure.path for failure in failures] == [str(move.current.directory)]


async def test_a_truncation_during_a_read(tmp_path):
    """What was read is of before: none of it may get into the copy."""

    class Cold(UnsyncedFileSystem):
        meanwhile = None

        def pread_now(self, fd, length, position):
            return None

        async def run_blocking(self, work):
            done = work()
            if self.meanwhile is not None:
                meanwhile, self.meanwhile = self.meanwhile, None
                meanwhile()
            return done

    fs = Cold()
    move = await Move(tmp_path, lambda: fs).start()
    move.append(6)
    await move.begin()

    def truncate():
        move.current.truncate_to(2)
        move.epoch = 9
        move.append(6)

    fs.meanwhile = truncate
    assert await move.copy.copy(STEP) == 0
    await move.copy_all()
    assert raw_batches(move.future) == raw_batches(move.current)
    move.logs.dirs.unlock()


async def test_a_sync_after_the_swap_syncs_the_new_name(tmp_path):
    """Else what is acknowledged as being on disk would be in a directory that a power cut calls a copy."""
    for name in "ab":
        (tmp_path / "run" / name).mkdir(parents=True)
    fs = PowerCutFileSystem(tmp_path / "run")
    move = await Move(tmp_path / "run", lambda: fs).start()
    move.append(6)
    await move.begin()
    await move.copy_all()
    await move.logs.futures.prepare(KEY)
    move.logs.futures.swap(KEY)
    swapped = fs.position
    move.current = move.future
    move.append()
    await move.logs.flush(move.current)
    assert "fsync b" in [words for words, _ in fs.journal[swapped:]]
    move.append(producer=(7, 0, 0))
    move.current.roll()
    move.current.move_to(tmp_path / "run" / "b" / "t-1")
    await move.logs.flush(move.current)
    assert "fsync b/t-1/00000000000000000008.snapshot" in [words for words, _ in fs.journal]
    move.logs.dirs.unlock()


async def test_the_cleaner_is_notified(move):
    told = []

    class Cleaner:
        async def gone_from(self, directory, key):
            told.append(("gone", directory.path.name, key))

        async def write_checkpoint(self, directory, coming=None):
            told.append(("write", directory.path.name, coming))

    move.append(3)
    move.logs.cleaner = Cleaner()
    await move.begin()
    await move.finish()
    assert told == [("write", "b", KEY), ("write", "b", None), ("gone", "a", KEY)]
