"""Starts with a log and its copy in two log directories, wherever the process or the machine was stopped."""

import asyncio
import contextlib
import logging
import shutil
from types import SimpleNamespace

import pytest

from storage.compaction.compactor import ProcessCompactor
from storage.compaction.log_cleaner import LogCleaner
from storage.directories.loader import list_contents
from storage.directories.log_copy import LogCopy
from storage.directories.moved_from import MOVED_FROM
from storage.directories.replica_places import ReplicaPlaces
from storage.file_system import FileSystem
from support.counts import count
from support.cut_log import raw_batches
from support.log_dirs import UnsyncedFileSystem, batch
from support.log_move import KEY, STEP, Move, files, let_go, manager
from support.memory_disk import memory_directory
from support.power_cut import Disk, PowerCutFileSystem

CLEANED = 5

pytestmark = pytest.mark.usefixtures("quiet_storage")


# -- starts ------------------------------------------------------------------------------------------------------------


async def started(root, fs=None):
    logs = manager(root, fs)
    logs.cleaner = log_cleaner(logs)
    logs.dirs.lock()
    await logs.load()
    return logs


def log_cleaner(logs):
    """A cleaner that compacts nothing, for what it remembers of the logs."""
    return LogCleaner(
        logs.logs, logs.dirs, SimpleNamespace(), fs=logs.fs, now_ms=logs.now_ms, new_compactor=ProcessCompactor
    )


def cleaner_offsets(logs):
    """The entries of all `cleaner-offset-checkpoint` for the log, by the name of their directory."""
    found = {directory.path.name: directory.cleaner_offsets.read() for directory in logs.dirs.all}
    return {name: offsets[KEY] for name, offsets in found.items() if KEY in offsets}


async def test_a_copy_is_recovered_and_continued(move):
    move.append(30)
    await move.begin()
    for _ in range(5):
        await move.copy.copy(STEP)
    copied = move.future.log_end_offset
    let_go(move.logs)
    last = max(files(move.future.directory))
    with (move.future.directory / last).open("ab") as file:
        file.write(b"half a batch")
    logs = await started(move.root)
    current, future = logs.get(*KEY), logs.futures.logs[KEY]
    assert (current.is_being_moved, future.log_end_offset) == (True, copied)
    copy = LogCopy(logs, current, future)
    while await copy.copy(STEP):
        pass
    assert await copy.replace_log(lambda log: None, STEP)
    assert len(raw_batches(logs.get(*KEY))) == 30
    let_go(logs)


async def test_a_stop_between_the_two_renames(move):
    """The stop came between the two renames."""
    move.append(10)
    await move.begin()
    await move.copy_all()
    await move.logs.futures.prepare(KEY)
    move.logs.futures.swap(KEY)
    move.current = move.future
    move.append(2)
    let_go(move.logs)
    assert (move.root / "a" / "t-0").exists()
    assert (move.root / "b" / "t-0" / MOVED_FROM).read_text() == str(move.root / "a")
    logs = await started(move.root)
    assert logs.get(*KEY).directory == move.root / "b" / "t-0"
    assert logs.get(*KEY).log_end_offset == 12
    assert not (move.root / "a" / "t-0").exists()
    assert not (move.root / "b" / "t-0" / MOVED_FROM).exists()
    await logs.delayed_deletes.run_due()
    assert list((move.root / "a").glob("t-0*")) == []
    let_go(logs)


async def test_log_and_copy_have_the_same_name_without_a_note(move, caplog):
    logging.getLogger("storage").setLevel(logging.NOTSET)
    move.append(10)
    let_go(move.logs)
    shutil.copytree(move.root / "a" / "t-0", move.root / "b" / "t-0")
    logs = await started(move.root)
    assert logs.get(*KEY).directory == move.root / "a" / "t-0"
    assert (move.root / "b" / "t-0").exists()
    assert "is in two log directories" in caplog.text
    let_go(logs)


async def test_a_note_about_another_directory_is_ignored(move):
    move.append(10)
    let_go(move.logs)
    shutil.copytree(move.root / "a" / "t-0", move.root / "b" / "t-0")
    (move.root / "b" / "t-0" / MOVED_FROM).write_text(str(move.root / "c"))
    logs = await started(move.root)
    assert logs.get(*KEY).directory == move.root / "a" / "t-0"
    let_go(logs)


async def test_a_copy_without_its_log_is_kept(move, caplog):
    logging.getLogger("storage").setLevel(logging.NOTSET)
    move.append(10)
    await move.begin()
    await move.copy_all()
    let_go(move.logs)
    shutil.rmtree(move.root / "a" / "t-0")
    logs = await started(move.root)
    assert (logs.logs, logs.futures.logs) == ({}, {})
    assert move.future.directory.exists()
    assert "a future log without its log" in caplog.text
    let_go(logs)


async def test_two_copies(move):
    move.append(10)
    await move.begin()
    await move.copy_all()
    let_go(move.logs)
    shutil.copytree(move.future.directory, move.root / "b" / f"t-0.{'0' * 32}-future")
    shutil.copytree(move.future.directory, move.root / "a" / f"t-0.{'1' * 32}-future")
    logs = await started(move.root)
    assert list(logs.futures.logs) == [KEY]
    assert len(list(move.root.glob("*/t-0.*-future"))) == 1
    let_go(logs)


async def test_a_leftover_note_is_removed_by_the_next_move(move):
    """Else both would have one after a stop in the midst of it."""
    move.append(10)
    (move.current.directory / MOVED_FROM).write_text(str(move.root / "b"))
    await move.begin()
    assert not (move.current.directory / MOVED_FROM).exists()


def settled(root, fs):
    """A start that finds a log in `a` and its copy in `b`: the directories that failed, and what is in each."""
    for name in "ab":
        (root / name / "t-0").mkdir(parents=True)
    (root / "b" / "t-0" / MOVED_FROM).write_text(str(root / "a"))
    logs = manager(root, fs)
    contents = {directory: list_contents(directory) for directory in logs.dirs.all}
    failed = []
    ReplicaPlaces(
        logs.fs, contents, logs.log_removal.put_aside_found, lambda directory, error: failed.append(directory.path.name)
    ).settle()
    return failed, contents


def test_a_directory_fails_during_the_decision(tmp_path):
    class Failing(FileSystem):
        def rename(self, source, target):
            raise OSError(5, "I/O error")

    failed, contents = settled(tmp_path, Failing())
    assert failed == ["a"]
    assert [found.path for one in contents.values() for found in one.logs] == [tmp_path / "b" / "t-0"]
    assert (tmp_path / "b" / "t-0" / MOVED_FROM).exists()  # the other one is still there


def test_a_directory_fails_before_the_decision(tmp_path):
    """Whether it is a copy is not known: neither is removed."""

    class Failing(FileSystem):
        def read_file(self, path):
            if path.endswith(MOVED_FROM):
                raise OSError(5, "I/O error")
            return super().read_file(path)

    failed, contents = settled(tmp_path, Failing())
    assert set(failed) == {"a", "b"}
    assert [found.path for one in contents.values() for found in one.logs] == [tmp_path / "a" / "t-0"]
    assert not [found for one in contents.values() for found in one.deleted]
    assert {str(path.relative_to(tmp_path)) for path in tmp_path.glob("?/t-*")} == {"a/t-0", "b/t-0"}


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

    assert await move.copy.replace_log(swapped, STEP)
    note()
    for _ in range(3):
        move.append(producer=(7, 0, move.number))
        note()
    await step(move.logs.flush(move.current))
    await move.logs.delayed_deletes.run_due()
    note()
    let_go(move.logs)
    written = raw_batches(move.current)
    assert len(written) == move.number
    return fs, story, written


def check_start(root, written, least, most, cleaned=None):
    """A start finds the log once, with all that must be there, and a move that was under way comes to its end.

    cleaned: up to where the log is compacted, as one checkpoint says in the directory where the log is.
    """

    async def main():
        logs = await started(root)
        log = logs.get(*KEY)
        if log is None:
            assert least == 0
            let_go(logs)
            return
        found = raw_batches(log)
        assert least <= len(found) <= most, f"{least} <= {len(found)} <= {most}"
        assert found == written[: len(found)]
        assert len(list(root.glob("*/t-0"))) == 1
        if cleaned is not None:
            assert cleaner_offsets(logs) == {log.directory.parent.name: cleaned}
            assert logs.cleaner.checkpoints == {KEY: cleaned}
        if KEY in logs.futures.logs:
            copy = LogCopy(logs, log, logs.futures.logs[KEY])
            while await copy.copy(STEP):
                pass
            assert await copy.replace_log(lambda log: None, STEP)
            log = logs.get(*KEY)
            assert log.directory == root / "b" / "t-0"
            assert raw_batches(log) == found
        log.append_as_leader(batch(b"more"), 9)
        assert await_all_clean(logs)
        await logs.shutdown()
        again = await started(root)
        assert again.get(*KEY).log_end_offset == len(found) + 1
        assert not list(root.glob("*/*-future"))
        let_go(again)

    asyncio.run(main())


def await_all_clean(logs):
    return all(directory.is_online for directory in logs.dirs.all)


@pytest.mark.counted
@pytest.mark.timeout(600)
def test_a_power_cut_after_every_operation(tmp_path):
    fs, story, written = asyncio.run(moved_with_a_journal(tmp_path / "run"))
    words = " ".join(text for text, _ in fs.journal)
    assert "-future to b/t-0" in words
    assert "a/t-0 to a/t-0." in words
    disk = Disk(fs)
    step, seeds = count(4, 1), count(1, 3)
    with memory_directory("moved") as root:
        for position in range(0, len(fs.journal) + 1, step):
            disk.advance(position)
            least = max((synced for when, _, synced in story if when <= position), default=0)
            for seed in range(seeds):
                target = root / f"{position}-{seed}"
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
    cleaner = move.logs.cleaner = log_cleaner(move.logs)
    cleaner.checkpoints[KEY] = CLEANED
    await cleaner.write_checkpoint(move.logs.dirs.all[0])
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

        await move.copy.replace_log(swapped, STEP)
        move.append()
        done = move.number
        return done, False, ""
    except KilledError:
        return done, True, fs.what
    finally:
        fs.at = 1 << 60
        with contextlib.suppress(Exception):
            let_go(move.logs)


@pytest.mark.counted
@pytest.mark.timeout(600)
def test_a_kill_before_every_operation(tmp_path):
    at, killed, seen = 0, True, set()
    while killed:
        at += count(3, 1)
        root = tmp_path / str(at)
        done, killed, what = asyncio.run(move_until_killed(root, at))
        seen.add(what.partition(" ")[0])
        try:
            written = [bytes(one) for one in expected_batches(root)]
            assert len(written) >= done
            check_start(root, written, done, done + 1, CLEANED)
        except BaseException as error:
            error.add_note(f"in front of operation {at}: {what}")
            raise
        shutil.rmtree(root)
    assert seen >= {"", "write", "rename"}
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
