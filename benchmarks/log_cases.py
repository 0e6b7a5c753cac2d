"""What benchmarks/storage.py measures of the log, one case a process: `python -m benchmarks.log_cases CASE DIRECTORY`.

Prints one JSON object. Directories are made by the `write…` cases and used by the others, so that a process that
measures has nothing in memory but what its case needs.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import resource
import time
from collections.abc import Callable
from pathlib import Path

from protocol.record_batch_builder import RecordBatchBuilder
from storage.file_system import FileSystem
from storage.log.config import LogConfig
from storage.log.log import Log
from storage.log_manager import LogManager

TOPIC = "bench"
PARTITIONS = 64
BATCH_BYTES = 16 * 1024
VALUE_BYTES = 100
SEGMENTS = 10_000
LOOKUPS = 100_000
COMPACTED_VALUE_BYTES = 1000
KEYS = 150_000
KEYED: dict[str, object] = {"cleanup_policy": "compact", "segment_bytes": 100_000_000}

Figures = dict[str, float]


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def batch_of(size: int, value_bytes: int) -> bytearray:
    """One batch of about `size` bytes."""
    builder = RecordBatchBuilder()
    rng = random.Random(0)
    timestamp = now_ms()
    while builder.size_estimate < size:
        builder.append(timestamp, None, rng.randbytes(value_bytes))
    return builder.build()


def open_log(directory: Path, *, clean: bool = True, fs: FileSystem | None = None, **settings: object) -> Log:
    config = LogConfig().with_overrides(**settings)
    return Log.open(directory, config, fs=fs or FileSystem(), now_ms=now_ms, clean_shutdown=clean)


def manager(directory: Path, threads: int = 1) -> LogManager:
    return LogManager(
        [directory],
        lambda topic: LogConfig(),
        fs=FileSystem(),
        now_ms=now_ms,
        rng=random.Random(0),
        recovery_threads=threads,
    )


def measured(work: Callable[[], object]) -> Figures:
    cpu, began = time.process_time(), time.perf_counter()
    work()
    return {"seconds": time.perf_counter() - began, "cpu_s": time.process_time() - cpu}


def write(options: argparse.Namespace) -> Figures:
    """64 partitions, stopped cleanly."""

    async def run() -> None:
        logs = manager(options.directory)
        logs.dirs.lock()
        await logs.load()
        batch = batch_of(options.batch, VALUE_BYTES)
        for partition in range(PARTITIONS):
            log = logs.get_or_create(TOPIC, partition)
            for _ in range(options.bytes // PARTITIONS // len(batch)):
                log.append_as_leader(memoryview(bytearray(batch)), 0)
        await logs.shutdown()

    return measured(lambda: asyncio.run(run()))


def load(options: argparse.Namespace, threads: int = 1) -> Figures:
    """Load what is there as a starting broker does."""
    figures: Figures = {}

    async def run() -> None:
        logs = manager(options.directory, threads)
        logs.dirs.lock()
        figures["bytes"] = sum(path.stat().st_size for path in options.directory.glob("*/*.log"))

        cpu, began = time.process_time(), time.perf_counter()
        await logs.load()
        figures["seconds"] = time.perf_counter() - began
        figures["cpu_s"] = time.process_time() - cpu
        figures["logs"] = len(logs.logs)
        assert len(logs.logs) == PARTITIONS
        await logs.shutdown()

    asyncio.run(run())
    return figures


def recover(options: argparse.Namespace, threads: int = 1) -> Figures:
    """The same after a crash in which no checkpoint had been written: every byte is read."""
    for name in (".kafka_cleanshutdown", "recovery-point-offset-checkpoint"):
        (options.directory / name).unlink(missing_ok=True)
    return load(options, threads)


def recover_two(options: argparse.Namespace) -> Figures:
    return recover(options, threads=2)


def lookups(options: argparse.Namespace) -> Figures:
    """Reads at random offsets in a log of many segments, with no more descriptors than a shell gives."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (1024, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    fs = FileSystem()
    log = open_log(options.directory / f"{TOPIC}-0", fs=fs, segment_bytes=BATCH_BYTES)
    batch = batch_of(1000, VALUE_BYTES)
    while len(log.segments) < SEGMENTS:
        log.append_as_leader(memoryview(bytearray(batch)), 0)
    log.update_high_watermark(log.log_end_offset)
    rng = random.Random(1)
    offsets = [rng.randrange(log.log_end_offset) for _ in range(LOOKUPS)]
    most = 0

    def run() -> None:
        nonlocal most
        for number, offset in enumerate(offsets):
            info = log.read(offset, 1000, max_offset=log.log_end_offset, min_one_message=True)
            assert info.records is not None
            info.records.read(0, 100)
            if number % 1000 == 0:
                most = max(most, len(list(Path("/proc/self/fd").iterdir())))

    figures = measured(run)
    return figures | {"lookups": LOOKUPS, "segments": len(log.segments), "descriptors": most}


def write_keyed(options: argparse.Namespace) -> Figures:
    """A log to compact: 1,000 B a value, each key overwritten several times."""
    log = open_log(options.directory / f"{TOPIC}-0", **KEYED)
    rng = random.Random(2)
    timestamp = now_ms()
    written = 0
    while written < options.bytes:
        builder = RecordBatchBuilder()
        while builder.size_estimate < BATCH_BYTES:
            builder.append(timestamp, b"key-%08d" % rng.randrange(KEYS), rng.randbytes(COMPACTED_VALUE_BYTES))
        batch = builder.build()
        written += len(batch)
        log.append_as_leader(memoryview(batch), 0)
    log.roll()
    log.close()
    return {"bytes": written}


CASES: dict[str, Callable[[argparse.Namespace], Figures]] = {
    "write": write,
    "load": load,
    "recover": recover,
    "recover-two": recover_two,
    "lookups": lookups,
    "write-keyed": write_keyed,
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.log_cases", description=__doc__)
    parser.add_argument("case", choices=list(CASES))
    parser.add_argument("directory", type=Path)
    parser.add_argument("--bytes", type=int, default=100_000_000, help="of what is written")
    parser.add_argument("--batch", type=int, default=BATCH_BYTES, help="bytes of a batch")
    options = parser.parse_args()
    print(json.dumps(CASES[options.case](options)))


if __name__ == "__main__":
    main()
