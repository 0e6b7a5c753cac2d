"""The power goes behind every single operation on the disk: nothing that was synced is lost, every start succeeds."""

import asyncio
import os
import random
import shutil
from contextlib import closing

import pytest

from protocol.control_records import ControlRecordType, EndTransactionMarker, end_marker_batch
from storage.compaction.run import compact_log
from storage.log.append import AppendOrigin
from storage.log.config import LogConfig
from storage.log_manager import LogManager
from support.counts import count
from support.cut_log import (
    Promises,
    appended,
    as_it_is,
    check,
    check_compacted,
    deleted,
    deleting,
    started,
    starting,
    synced,
    truncated,
    truncating,
)
from support.log_dirs import BASE_TIME_MS, batch
from support.memory_disk import memory_directory
from support.power_cut import Disk, PowerCutFileSystem

pytestmark = pytest.mark.usefixtures("quiet_storage")

WORKLOADS = int(os.environ.get("OTTLA_WORKLOADS") or count(1, 2))
SETTINGS = {"segment_bytes": 500, "index_interval_bytes": 150, "file_delete_delay_ms": 1000}
OF_TOPIC = {
    "sized": {"retention_bytes": 900, "retention_ms": -1},
    "timed": {"retention_ms": 1000},
    "keyed": {"cleanup_policy": "compact"},
    "large": {"segment_bytes": 2500, "preallocate": True},
}


class Workload:
    """What a broker does to its log directory, with a note of what is promised after each step."""

    def __init__(self, root, seed):
        (root / "logs").mkdir(parents=True)
        self.fs = PowerCutFileSystem(root)
        self.rng = random.Random(seed)
        self.clock = [BASE_TIME_MS]
        self.promises = {}
        self.sequences = {}
        self.epochs = {}
        self.runner = asyncio.Runner()

    def start(self):
        self.logs = manager(self.fs, self.fs.root, self.clock)
        self.logs.dirs.lock()
        self.run(self.logs.load())

    def run(self, work):
        return self.runner.run(work)

    def say(self, key):
        return self.promises.setdefault(key, Promises(self.fs))

    def create(self, topic):
        self.logs.get_or_create(topic, 0, topic.encode().ljust(16, b"-"))
        self.say((topic, 0))
        return self.logs.get(topic, 0)

    def append(self, log, *, producer=None, transactional=False, values=2, key=b"k"):
        producer_of_batch = (-1, -1, -1)
        if producer is not None:
            sequence = self.sequences.get((log.topic, producer), 0)
            producer_of_batch = (producer, 0, sequence)
            self.sequences[log.topic, producer] = sequence + values
        self.clock[0] += 10
        data = batch(
            *("x" * self.rng.randint(1, 60) for _ in range(values)),
            timestamp=self.clock[0] + self.rng.choice((0, 0, -25)),
            key=key,
            producer=producer_of_batch,
            transactional=transactional,
        )
        self._append(log, data)

    def mark(self, log, producer, *, commit):
        kind = ControlRecordType.COMMIT if commit else ControlRecordType.ABORT
        data = end_marker_batch(
            EndTransactionMarker(kind, 0), producer_id=producer, producer_epoch=0, timestamp=self.clock[0]
        )
        self._append(log, bytearray(data), origin=AppendOrigin.COORDINATOR)

    def _append(self, log, data, **options):
        began = self.fs.position
        log.append_as_leader(data, self.epochs.get(log.topic, 0), **options)
        log.commit_all()
        self.say((log.topic, 0)).since(began, appended(data))
        self.run(self.logs._do_urgent())
        self.note_synced(log)

    def note_synced(self, log):
        self.say((log.topic, 0)).now(synced(log.recovery_point))

    def flush(self, log):
        self.run(self.logs.flush(log))
        self.note_synced(log)

    def retain(self):
        began = self.fs.position
        self.run(self.logs.delete_old_segments())
        for key, log in self.logs.logs.items():
            self.say(key).since(began, starting(log.log_start_offset))

    def give_up(self, log, offset):
        log.increment_log_start_offset(offset)
        self.say((log.topic, 0)).now(starting(offset))

    def truncate(self, log, offset):
        began = self.fs.position
        self.run(self.logs.truncate_to(log, offset))
        promises = self.say((log.topic, 0))
        promises.since(began, truncating(offset))
        promises.now(truncated)

    def compact(self, log):
        compact_log(log, 0, log.segments[-1].base_offset)

    def delete(self, log):
        key = (log.topic, 0)
        began = self.fs.position
        self.run(self.logs.delete(*key))
        self.say(key).since(began, deleting)
        self.say(key).now(deleted)

    def checkpoint(self):
        self.run(self.logs.checkpoints.write_recovery_points())
        self.run(self.logs.checkpoints.write_log_start_offsets())
        self.run(self.logs.checkpoints.write_high_watermarks())
        for key, log in self.logs.logs.items():
            self.say(key).now(started(log.log_start_offset))

    def remove_files(self):
        self.clock[0] += 1000
        self.run(self.logs._do_urgent())

    def stop(self):
        self.run(self.logs.shutdown())
        for key, log in self.logs.logs.items():
            self.say(key).now(synced(log.log_end_offset))
            self.say(key).now(started(log.log_start_offset))


def manager(fs, root, clock):
    return LogManager(
        [root / "logs"],
        lambda topic: LogConfig().with_overrides(**{**SETTINGS, **OF_TOPIC.get(topic, {})}),
        fs=fs,
        now_ms=lambda: clock[0],
        rng=random.Random(1),
    )


def run_workload(root, seed):
    work = Workload(root, seed)
    work.start()
    sized, timed, large = (work.create(topic) for topic in ("sized", "timed", "large"))
    for number in range(8):
        work.append(sized)
        work.append(large, producer=5)
        if number == 3:
            work.checkpoint()
        if number == 4:
            work.flush(large)
    work.retain()
    for number in range(4):
        work.append(timed, producer=7, transactional=True)
        work.append(timed, producer=8, transactional=number % 2 == 0)
        work.mark(timed, 7, commit=number % 2 == 0)
        if number % 2 == 0:
            work.mark(timed, 8, commit=number == 2)
        work.append(sized, producer=5)
    work.checkpoint()
    work.remove_files()
    work.flush(timed)
    work.append(timed, producer=7, transactional=True)
    work.flush(timed)
    work.mark(timed, 7, commit=False)
    work.flush(timed)
    cut = work.create("cut")
    for number in range(6):
        work.append(cut, producer=5)
        work.epochs["cut"] = number
    work.flush(cut)
    work.checkpoint()
    work.truncate(cut, 8)
    work.sequences["cut", 5] = cut.producers.producers[5].last_sequence + 1
    for _ in range(4):
        work.append(cut, producer=5)
    work.truncate(cut, 10)
    work.sequences["cut", 5] = cut.producers.producers[5].last_sequence + 1
    for _ in range(6):
        work.append(cut, producer=5)
    work.give_up(large, 9)
    work.append(large)
    work.checkpoint()
    work.clock[0] += 900
    work.append(timed, producer=8)
    work.retain()
    gone = work.create("gone")
    work.append(gone)
    work.flush(gone)
    work.checkpoint()
    work.delete(gone)
    work.stop()
    work.start()
    sized, timed, cut = (work.logs.get(topic, 0) for topic in ("sized", "timed", "cut"))
    for _ in range(5):
        work.append(sized)
        work.append(timed, producer=9)
        work.append(cut, producer=5)
    work.remove_files()
    work.retain()
    work.checkpoint()
    work.append(sized)
    work.runner.close()
    return work


def run_compaction(root, seed):
    """A log whose keys come again and again is compacted twice, the second time with what the first one left."""
    work = Workload(root, seed)
    work.start()
    keyed = work.create("keyed")
    for times in (12, 10):
        for number in range(times):
            work.append(keyed, producer=5 if number % 3 else None, values=1, key=b"%d" % work.rng.randint(0, 4))
        work.checkpoint()
        work.compact(keyed)
    work.append(keyed, key=b"last")
    work.remove_files()
    work.runner.close()
    return work


class Restart:
    """A start on what the disk came back with. The power may go again in the midst of it."""

    def __init__(self, root, clock):
        self.fs = PowerCutFileSystem(root)
        self.logs = manager(self.fs, root, clock)
        self.clock = clock
        self.logs.dirs.lock()

    def close(self):
        for log in self.logs.logs.values():
            log.release()
        self.logs.dirs.unlock()

    def check(self, promises, position, runner):
        runner.run(self.logs.load())
        for key, story in promises.items():
            (check_compacted if key[0] == "keyed" else check)(self.logs.logs.get(key), story.at(position))

    def cut_again(self, seed, target, promises, position, runner):
        """The power goes while the start is under way; the one after it finds what the first one should have found."""
        rng = random.Random(repr(seed))
        disk = Disk(self.fs)
        disk.advance(rng.randint(0, self.fs.position))
        disk.write_out(seed, target)
        with closing(Restart(target, self.clock)) as again:
            again.check(promises, position, runner)

    def go_on(self, seed, target, runner):
        """The logs are written to as they came back, and the power goes a second time."""
        rng = random.Random(repr(seed))
        promises = {key: Promises(self.fs) for key in self.logs.logs if key[0] != "keyed"}
        begin = self.fs.position
        for key, story in promises.items():
            story.now(as_it_is(self.logs.logs[key]))
        for key, story in promises.items():
            log = self.logs.logs[key]
            for number in range(rng.randint(1, 6)):
                data = batch("y" * rng.randint(20, 90), producer=(77, 0, number), timestamp=self.clock[0])
                began = self.fs.position
                log.append_as_leader(data, 20)
                log.commit_all()
                story.since(began, appended(data))
                if rng.random() < 0.3:
                    runner.run(self.logs.flush(log))
                    story.now(synced(log.recovery_point))
        position = rng.randint(begin, self.fs.position)
        disk = Disk(self.fs)
        disk.advance(position)
        disk.write_out(seed, target)
        with closing(Restart(target, self.clock)) as again:
            again.check(promises, position, runner)

    def use(self, runner):
        """The logs can be appended to and stopped, and are what they were at the next start."""
        ends = {}
        for key, log in self.logs.logs.items():
            assert log.append_as_leader(batch("more"), 9).first_offset == log.log_end_offset - 1
            ends[key] = log.log_end_offset
        runner.run(self.logs.shutdown())
        with closing(Restart(self.fs.root, self.clock)) as again:
            runner.run(again.logs.load())
            assert again.logs.dirs.all[0].clean
            assert {key: log.log_end_offset for key, log in again.logs.logs.items()} == ends


def cut_everywhere(work, seeds, step, tmp_path):
    """Cut behind every operation of a workload (every `step`-th), `seeds` times. What fails is kept in `tmp_path`."""
    journal = work.fs.journal
    disk = Disk(work.fs)
    with asyncio.Runner() as runner, memory_directory("power-cut") as root:
        for position in range(0, len(journal) + 1, step):
            disk.advance(position)
            for seed in range(seeds):
                target = root / f"{position}-{seed}"
                target.mkdir()
                try:
                    disk.write_out((position, seed), target / "first")
                    with closing(Restart(target / "first", work.clock)) as restart:
                        restart.check(work.promises, position, runner)
                        if (position + seed) % 4 == 0:
                            restart.cut_again((position, seed), target / "second", work.promises, position, runner)
                        elif (position + seed) % 4 == 1:
                            restart.go_on((position, seed), target / "second", runner)
                        elif (position + seed) % 8 == 2:
                            restart.use(runner)
                except Exception as error:
                    kept = shutil.copytree(target, tmp_path / target.name)
                    error.add_note(f"behind operation {position} ({journal[position - 1][0]}), seed {seed}: {kept}")
                    raise
                shutil.rmtree(target)


@pytest.mark.counted
@pytest.mark.timeout(900)
@pytest.mark.parametrize("number", range(WORKLOADS))
def test_a_cut_behind_every_operation(tmp_path, number):
    work = run_workload(tmp_path / "run", number)
    assert len(work.fs.journal) > 700
    cut_everywhere(work, count(1, 2), count(4, 1), tmp_path)


@pytest.mark.counted
@pytest.mark.timeout(900)
@pytest.mark.parametrize("number", range(WORKLOADS))
def test_a_cut_behind_every_operation_of_a_compaction(tmp_path, number):
    work = run_compaction(tmp_path / "run", number)
    words = " ".join(words for words, _ in work.fs.journal)
    assert ".log.swap to" in words
    assert ".log.cleaned to" in words
    cut_everywhere(work, count(1, 4), count(3, 1), tmp_path)
