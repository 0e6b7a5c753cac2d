"""A log in one log directory and its copy in another one, without a broker."""

from __future__ import annotations

import random

from storage.directories.log_copy import LogCopy
from storage.log.config import LogConfig
from storage.log_manager import LogManager
from support.log_dirs import BASE_TIME_MS, UnsyncedFileSystem, batch

SETTINGS = {"segment_bytes": 500, "index_interval_bytes": 150, "file_delete_delay_ms": 0}
KEY = ("t", 0)
STEP = 300


def manager(root, fs=None, **settings):
    return LogManager(
        [root / "a", root / "b"],
        lambda topic: LogConfig().with_overrides(**SETTINGS | settings),
        fs=fs or UnsyncedFileSystem(),
        now_ms=lambda: BASE_TIME_MS,
        rng=random.Random(1),
    )


def let_go(logs):
    """The process is gone: it has no file and no lock any more, and has written nothing."""
    for log in logs.all_logs():
        log.release()
    logs.dirs.unlock()


class Move:
    """A log in `a`, and its copy in `b`."""

    def __init__(self, root, fs=None, **settings):
        self.root = root
        for name in "ab":
            (root / name).mkdir(parents=True, exist_ok=True)
        self.logs = manager(root, fs() if fs else None, **settings)
        self.current = None
        self.future = None
        self.copy = None
        self.epoch = 3
        self.number = 0

    async def start(self):
        self.logs.dirs.lock()
        await self.logs.load()
        self.logs.prefer(*KEY, self.logs.dirs.all[0])
        self.current = self.logs.get_or_create(*KEY, b"T" * 16)
        return self

    def append(self, times=1, **options):
        for _ in range(times):
            self.number += 1
            self.current.append_as_leader(batch(b"%d" % self.number * 10, **options), self.epoch)
            self.current.commit_all()

    async def begin(self):
        self.future = await self.logs.futures.begin(self.current, self.logs.dirs.all[1])
        self.copy = LogCopy(self.logs, self.current, self.future)

    async def copy_all(self):
        while await self.copy.copy(STEP):
            assert self.future.log_end_offset <= self.current.log_end_offset
        assert self.copy.bytes_behind == 0

    async def finish(self):
        seen = []
        assert await self.copy.replace_log(seen.append, STEP)
        assert seen == [self.future]
        assert self.logs.get(*KEY) is self.future


def files(directory, suffix=".log"):
    return {path.name: path.read_bytes() for path in directory.glob(f"*{suffix}")}
