"""Helpers of the storage tests: recorded log directories, logs in a temporary directory, batches to append."""

import json
import shutil
from base64 import b64decode
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

from protocol.compression import CompressionType
from protocol.record import Record
from protocol.record_batch import RecordBatch, iter_batches
from protocol.record_batch_builder import RecordBatchBuilder
from storage.file_system import FileSystem
from storage.log.config import LogConfig
from storage.log.log import Log
from support.reference import REFERENCE

LOG_DIRS = REFERENCE / "log-dirs"
RECORDED_NOW_MS = 1_795_236_000_000  # a little after the recording
BASE_TIME_MS = 1_700_000_000_000

EXPECTED = sorted(path.stem for path in (LOG_DIRS / "expected").glob("*.json"))


class UnsyncedFileSystem(FileSystem):
    """Real files without fsync: syncs have their own tests, so other tests do not wait for the disk."""

    fsync = staticmethod(lambda fd: None)

    def sync_path(self, path: str) -> None:
        pass


def expected(name: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((LOG_DIRS / "expected" / f"{name}.json").read_text())
    return content


def recorded_directory(name: str) -> Path:
    """`name` as in expected/: the partition, with `.broker-N` where there are several."""
    partition, _, broker = name.partition(".")
    if broker:
        return LOG_DIRS / partition.rpartition("-")[0] / broker / partition
    return LOG_DIRS / "broker-0" / partition


def copy_directory(name: str, target: Path) -> Path:
    """A writable copy of a recorded partition."""
    source = recorded_directory(name)
    target.mkdir(parents=True, exist_ok=True)
    bring(source, target)
    return target / source.name


def copy_log_directory(name: str, target: Path, *partitions: str) -> Path:
    """A writable copy of a recorded log directory (`broker-0`, `epochs/broker-1`, …) with these partitions, or all."""
    source = LOG_DIRS / name
    target.mkdir()
    for file in source.iterdir():
        if file.is_file():
            shutil.copyfile(file, target / file.name)
        elif not partitions or file.name in partitions:
            bring(file, target)
    return target


def bring(source: Path, log_directory: Path) -> None:
    """Copy one partition into a log directory."""
    (log_directory / source.name).mkdir()
    for file in source.iterdir():
        shutil.copyfile(file, log_directory / source.name / file.name)


def recorded_config(name: str) -> dict[str, Any]:
    """The settings, other than the defaults, of the topic that a partition was recorded of (snake case)."""
    return {
        "multi-segment-0": {"segment_bytes": 16384, "index_interval_bytes": 512},
        "multi-segment-batched-0": {"segment_bytes": 8192, "index_interval_bytes": 1024},
        "transactional-0": {"segment_bytes": 4096, "index_interval_bytes": 512},
        "start-offset-0": {"segment_bytes": 2000},
    }.get(name, {})


def open_log(
    directory: Path, *, clean: bool = True, now_ms: int | Callable[[], int] = RECORDED_NOW_MS, **settings: Any
) -> Log:
    """Open with Kafka's defaults, `settings` of LogConfig (snake case) and of `Log.open` (named below) aside."""
    of_open = {
        name: settings.pop(name)
        for name in ("recovery_point", "log_start_offset", "topic_id", "full_validation", "fs")
        if name in settings
    }
    return Log.open(
        directory,
        LogConfig().with_overrides(**settings),
        fs=of_open.pop("fs", None) or UnsyncedFileSystem(),
        now_ms=(lambda: now_ms) if isinstance(now_ms, int) else now_ms,
        clean_shutdown=clean,
        **of_open,
    )


def batch(
    *values: bytes | str,
    timestamp: int = BASE_TIME_MS,
    step: int = 1,
    key: bytes | None = b"k",
    codec: CompressionType = CompressionType.NONE,
    producer: tuple[int, int, int] = (-1, -1, -1),
    transactional: bool = False,
    base_offset: int = 0,
    leader_epoch: int = -1,
) -> bytearray:
    """One batch; `producer` is (id, epoch, base sequence), `step` the ms from record to record."""
    builder = RecordBatchBuilder(
        base_offset,
        codec,
        producer_id=producer[0],
        producer_epoch=producer[1],
        base_sequence=producer[2],
        transactional=transactional,
        partition_leader_epoch=leader_epoch,
    )
    for index, value in enumerate(values):
        builder.append(timestamp + index * step, key, value.encode() if isinstance(value, str) else value)
    return builder.build()


def read_batches(log: Log, offset: int | None = None, max_bytes: int = 1 << 20) -> list[RecordBatch]:
    """Every batch from `offset` on, read with successive fetches like a consumer."""
    position = log.log_start_offset if offset is None else offset
    found: list[RecordBatch] = []
    while True:
        info = log.read(position, max_bytes, max_offset=log.log_end_offset)
        if info.records is None:
            return found
        data = info.records.to_bytes()
        whole = [each for each in iter_whole(data) if each.next_offset > position]
        assert whole
        found += whole
        position = whole[-1].next_offset


def iter_whole(data: bytes) -> list[RecordBatch]:
    """The complete batches in the result of a fetch; the last batch may be truncated."""
    end = 0
    while end + 12 <= len(data):
        size = int.from_bytes(data[end + 8 : end + 12], "big") + 12
        if end + size > len(data):
            break
        end += size
    return list(iter_batches(data[:end]))


def read_records(log: Log, offset: int | None = None) -> list[Record]:
    start = log.log_start_offset if offset is None else offset
    return [
        record
        for each in read_batches(log, offset)
        if not each.is_control
        for record in each.records()
        if record.offset >= start
    ]


def matches(actual: bytes | None, recorded: Any) -> bool:
    """Whether bytes are what expected/ describes: null, text, base64 or a hash of long ones."""
    if recorded is None or actual is None:
        return recorded is None and actual is None
    if isinstance(recorded, str):
        return actual == recorded.encode()
    if "b64" in recorded:
        return actual == b64decode(recorded["b64"])
    return len(actual) == recorded["len"] and sha256(actual).hexdigest() == recorded["sha256"]


def look_up(log: Log, timestamp: int | None) -> tuple[int, int, int] | None:
    """(timestamp, offset, leader epoch) of the first record at or above `timestamp`; None: of the largest timestamp."""
    lookup = log.prepare_lookup(timestamp)
    found = lookup.run()
    lookup.done()
    return found
