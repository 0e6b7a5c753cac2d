"""Compaction: MB/s and records/s, and the memory of the process that does it.

    python -m benchmarks.compaction --megabytes 1000 --dedupe-megabytes 4

builds a log of one partition with ten versions of every key, has it compacted by a child process as a broker does, run
after run until nothing is dirty (a small map takes several), and prints one JSON line. `measure` is what it calls.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from protocol.compression import CompressionType
from protocol.record_batch_builder import RecordBatchBuilder
from storage.compaction.cleanable import cleanable_range
from storage.compaction.compaction import CleanedGroup
from storage.compaction.compactor import ProcessCompactor
from storage.compaction.run import CompactionRun
from storage.file_system import FileSystem
from storage.log.config import LogConfig
from storage.log.log import Log

RECORDS_A_BATCH = 100
NOW_MS = 1_700_000_000_000


def build_log(
    directory: Path, size_bytes: int, *, value_bytes: int = 100, codec: CompressionType = CompressionType.NONE
) -> Log:
    """A log of at least `size_bytes` in `directory` (`<topic>-<partition>`): each key ten times, in any order."""
    config = LogConfig({"cleanup.policy": "compact", "segment.bytes": str(max(size_bytes // 10, 1 << 20))})
    log = Log.open(directory, config, fs=FileSystem(), now_ms=lambda: NOW_MS, clean_shutdown=True)
    rng = random.Random(7)
    keys = max(size_bytes // ((value_bytes + 30) * 10), 1)
    while log.size_bytes < size_bytes:
        builder = RecordBatchBuilder(0, codec)
        for _ in range(RECORDS_A_BATCH):
            builder.append(NOW_MS, b"key-%016d" % rng.randrange(keys), rng.randbytes(value_bytes))
        log.append_as_leader(builder.build(), 0)
    log.roll()
    log.commit_all()
    log.flush()
    return log


def memory_bytes(pid: int) -> int:
    """The most memory that a process has had resident (Linux)."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    raise ValueError("no VmHWM")


async def compact(log: Log, dedupe_bytes: int) -> dict[str, Any]:
    """Compact all of a log in a child process; bytes and records are those of every run together."""
    compactor = ProcessCompactor()
    runs = bytes_read = map_bytes = records = memory = 0
    checkpoint = 0
    began = time.perf_counter()
    try:
        while (dirty := cleanable_range(log, checkpoint)).cleanable_bytes:
            run = CompactionRun(log)

            async def swap(group: CleanedGroup, run: CompactionRun = run) -> None:
                run.stage(group)
                run.swap()

            job = run.job(dirty.first_dirty_offset, dirty.end_offset, dedupe_buffer_bytes=dedupe_bytes)
            result = await compactor.run(job, swap)
            run.end()
            checkpoint = result.end_offset
            runs += 1
            bytes_read += result.stats.bytes_read
            map_bytes += result.stats.map_bytes_read
            records += result.stats.records_read
            assert compactor.pid is not None
            memory = memory_bytes(compactor.pid)
    finally:
        await compactor.close()
    seconds = time.perf_counter() - began
    return {
        "runs": runs,
        "seconds": round(seconds, 2),
        "cleaned_mb": round(bytes_read / 1e6, 1),
        "mapped_mb": round(map_bytes / 1e6, 1),
        "records": records,
        "mb_per_s": round(bytes_read / 1e6 / seconds, 1),
        "records_per_s": round(records / seconds),
        "log_mb_after": round(log.size_bytes / 1e6, 1),
        "child_rss_mb": round(memory / 1e6, 1),
    }


def measure(size_bytes: int, dedupe_bytes: int, directory: Path | None = None, **of_log: Any) -> dict[str, Any]:
    """Build a log of `size_bytes` in `directory` and compact it with a map of `dedupe_bytes`."""
    root = Path(tempfile.mkdtemp(prefix="ottla-compaction-", dir=directory))
    try:
        log = build_log(root / "t-0", size_bytes, **of_log)
        before = log.size_bytes
        figures = asyncio.run(compact(log, dedupe_bytes))
        log.close()
        return {"log_mb": round(before / 1e6, 1), "dedupe_mb": round(dedupe_bytes / 1e6, 1), **figures}
    finally:
        shutil.rmtree(root)


def _arguments() -> Iterator[tuple[int, int, dict[str, Any]]]:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=int, default=200)
    parser.add_argument("--dedupe-megabytes", type=float, default=4)
    parser.add_argument("--value-bytes", type=int, default=100)
    parser.add_argument("--codec", choices=[codec.name.lower() for codec in CompressionType], default="none")
    given = parser.parse_args()
    of_log = {"value_bytes": given.value_bytes, "codec": CompressionType[given.codec.upper()]}
    yield given.megabytes * 1_000_000, int(given.dedupe_megabytes * 1_000_000), of_log


if __name__ == "__main__":
    for size, dedupe, settings in _arguments():
        print(json.dumps(measure(size, dedupe, **settings)))
