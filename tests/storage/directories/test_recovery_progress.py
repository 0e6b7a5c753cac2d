"""A start that has much to recover: what it says, how it is stopped, what it does not read."""

import asyncio
import random
from contextlib import asynccontextmanager

import pytest

from storage.errors import LoadingStoppedError
from storage.file_system import FileSystem
from storage.log.config import LogConfig
from storage.log_manager import LogManager
from support.deadlines import DEADLINE_S
from support.log_dirs import BASE_TIME_MS, batch, read_records

PARTITIONS = 6
SETTINGS = {"segment_bytes": 20_000, "index_interval_bytes": 1000, "max_message_bytes": 10_000}


class WatchedFileSystem(FileSystem):
    """Notes the ranges of segment files that are read, and calls `on_read` before each (in any thread)."""

    def __init__(self):
        super().__init__()
        self.ranges = {}
        self.on_read = lambda name: None
        self._names = {}

    def open(self, path, *, create=False):
        handle = super().open(path, create=create)
        self._names[handle.fd] = path
        return handle

    def pread(self, fd, size, position):
        name = self._names.get(fd, "")
        if name.endswith(".log"):
            self.on_read(name)
            self.ranges.setdefault(name, []).append((position, position + size))
        return FileSystem.pread(fd, size, position)

    def bytes_read(self):
        return sum(end - start for ranges in self.ranges.values() for start, end in ranges)


def manager(*paths, fs=None, clock=None, threads=1):
    clock = clock or [BASE_TIME_MS]
    return LogManager(
        paths,
        lambda topic: LogConfig().with_overrides(**SETTINGS),
        fs=fs or FileSystem(),
        now_ms=lambda: clock[0],
        rng=random.Random(1),
        recovery_threads=threads,
    )


@asynccontextmanager
async def started(*paths, **options):
    logs = manager(*paths, **options)
    logs.dirs.lock()
    try:
        await logs.load()
        yield logs
    finally:
        for log in logs.logs.values():
            log.release()
        logs.dirs.unlock()


async def fill(*paths, stop, batches=12):
    """Logs of some segments each. Returns what they hold."""
    async with started(*paths) as logs:
        for partition in range(PARTITIONS):
            log = logs.get_or_create("t", partition)
            for number in range(batches):
                log.append_as_leader(batch(f"{partition}-{number} ".ljust(5000)), 0)
        content = contents(logs)
        if stop:
            await logs.shutdown()
    return content


def contents(logs):
    return {key: [(record.offset, record.value) for record in read_records(log)] for key, log in logs.logs.items()}


@pytest.mark.parametrize("threads", [1, 3])
async def test_a_line_every_few_seconds_and_one_at_the_end(tmp_path, caplog, threads):
    before = await fill(tmp_path, stop=False)
    size = f"{sum(file.stat().st_size for file in tmp_path.rglob('*.log')) / 1e9:.3f} GB"
    for name in ("notes.log", "0123"):
        (tmp_path / "t-0" / name).write_bytes(bytes(10_000_000))
    fs = WatchedFileSystem()
    clock = [BASE_TIME_MS]

    def second_by_second(name):
        clock[0] += 1000

    fs.on_read = second_by_second
    caplog.set_level("INFO", "storage")
    async with started(tmp_path, fs=fs, clock=clock, threads=threads) as logs:
        assert contents(logs) == before
    lines = [line for line in caplog.messages if line.startswith(f"{tmp_path}: recovered ")]
    assert f"was not stopped cleanly: recovering {PARTITIONS} logs, {size}" in caplog.text
    assert len(lines) > 2
    assert all(f"of {PARTITIONS} logs" in line and f"of {size}" in line for line in lines[:-1])
    assert f"recovered {PARTITIONS} logs, {size} in " in lines[-1]
    assert "log ends at offset" not in caplog.text  # a line for each log would be thousands, of logs that were whole


async def test_a_log_that_was_cut_has_its_own_line(tmp_path, caplog):
    await fill(tmp_path, stop=False)
    last = max((tmp_path / "t-0").glob("0*.log"))
    with last.open("ab") as file:
        file.write(b"garbage")
    caplog.set_level("INFO", "storage")
    async with started(tmp_path):
        pass
    (line,) = (line for line in caplog.messages if "log ends at offset" in line)
    assert line.startswith(f"{tmp_path}/t-0: recovered ")
    assert "cut 7 bytes" in line


async def test_a_rebuilt_index_has_its_own_line(tmp_path, caplog):
    await fill(tmp_path, stop=True)
    min((tmp_path / "t-1").glob("0*.index")).unlink()
    caplog.set_level("INFO", "storage")
    async with started(tmp_path):
        pass
    (line,) = (line for line in caplog.messages if "log ends at offset" in line)
    assert line.startswith(f"{tmp_path}/t-1: recovered 1 of ")


@pytest.mark.parametrize("threads", [1, 2])
async def test_a_stopped_recovery_ends_at_the_next_read(tmp_path, threads):
    before = await fill(tmp_path, stop=False)
    fs = WatchedFileSystem()
    logs = manager(tmp_path, fs=fs, threads=threads)
    reads = []

    def stop(name):
        reads.append(name)
        if len(reads) == 8:
            logs.stop_loading()

    fs.on_read = stop
    logs.dirs.lock()
    with pytest.raises(LoadingStoppedError, match=str(tmp_path)):
        await logs.load()
    logs.dirs.unlock()
    assert len(reads) < 8 + 4 * threads
    assert logs.logs == {}
    assert fs.descriptors.open_files == 0
    assert not (tmp_path / ".kafka_cleanshutdown").exists()
    async with started(tmp_path) as logs:
        assert contents(logs) == before


async def test_a_clean_start_can_be_stopped(tmp_path):
    before = await fill(tmp_path, stop=True)
    logs = manager(tmp_path)
    asyncio.get_running_loop().call_soon(logs.stop_loading)
    with pytest.raises(LoadingStoppedError):
        await logs.load()
    assert not (tmp_path / ".kafka_cleanshutdown").exists()
    async with started(tmp_path) as logs:
        assert contents(logs) == before


async def test_directories_are_recovered_in_parallel(tmp_path):
    paths = [tmp_path / "a", tmp_path / "b"]
    await fill(*paths, stop=False)
    fs = WatchedFileSystem()
    both = {}
    loop = asyncio.get_running_loop()
    gate = asyncio.Event()

    def wait_for_the_other(name):
        if not gate.is_set():
            loop.call_soon_threadsafe(lambda: (both.update({name.removeprefix(f"{tmp_path}/")[0]: 1}), check()))
            asyncio.run_coroutine_threadsafe(gate.wait(), loop).result(DEADLINE_S)

    def check():
        if len(both) == 2:
            gate.set()

    fs.on_read = wait_for_the_other
    async with started(*paths, fs=fs):
        assert set(both) == {"a", "b"}


async def test_only_the_ends_of_clean_logs_are_read(tmp_path):
    await fill(tmp_path, stop=True)
    fs = WatchedFileSystem()
    async with started(tmp_path, fs=fs) as logs:
        assert len(logs.logs) == PARTITIONS
        assert {log.log_end_offset for log in logs.logs.values()} == {12}
    for name, ranges in fs.ranges.items():
        assert name.endswith(max(file.name for file in (tmp_path / name).parent.glob("*.log")))
        assert min(start for start, _ in ranges) > 0, "from the last index entry on"
    assert fs.bytes_read() < PARTITIONS * 15_000


async def test_below_the_recovery_point_nothing_is_read(tmp_path):
    async with started(tmp_path) as logs:
        log = logs.get_or_create("t", 0)
        for _ in range(20):
            log.append_as_leader(batch("x" * 5000), 0)
        bases = [segment.base_offset for segment in log.segments]
        await logs.flush(log, bases[-2] + 1)
        await logs.checkpoints.write_recovery_points()
    fs = WatchedFileSystem()
    async with started(tmp_path, fs=fs) as logs:
        assert logs.get("t", 0).recovery_point == bases[-2] + 1
        assert logs.get("t", 0).log_end_offset == 20
    recovered = {f"{tmp_path}/t-0/{base:020d}.log" for base in bases[-2:]}
    assert set(fs.ranges) == recovered
    size = sum(file.stat().st_size for file in (tmp_path / "t-0").glob("*.log") if str(file) in recovered)
    assert size <= fs.bytes_read() < 2 * size, "each is read once, and the end of the last one again"
