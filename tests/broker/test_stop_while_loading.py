"""A broker that is told to stop while it recovers its logs does so at once, and marks nothing clean."""

import asyncio

from broker.broker import Broker
from broker.settings.config import BrokerConfig
from storage.file_system import FileSystem
from support.broker import settings
from support.deadlines import DEADLINE_S
from support.log_dirs import BASE_TIME_MS, batch, open_log, read_records


class StoppingFileSystem(FileSystem):
    """Calls `on_log_read` (in a thread) before a segment file is read."""

    def __init__(self):
        super().__init__()
        self.on_log_read = lambda: None
        self.reads = 0
        self._logs = set()

    def open(self, path, *, create=False):
        handle = super().open(path, create=create)
        (self._logs.add if path.endswith(".log") else self._logs.discard)(handle.fd)
        return handle

    def pread(self, fd, size, position):
        if fd in self._logs:
            self.reads += 1
            self.on_log_read()
        return FileSystem.pread(fd, size, position)


async def test_stop_while_recovering(tmp_path):
    data = tmp_path / "data"
    for partition in range(20):
        log = open_log(data / f"t-{partition}", segment_bytes=1000, now_ms=BASE_TIME_MS)
        for number in range(20):
            log.append_as_leader(batch(f"value {number}".ljust(100)), 0)
        log.release()
    fs = StoppingFileSystem()
    broker = Broker(BrokerConfig.load(None, settings(data)), fs=fs)
    loop = asyncio.get_running_loop()
    fs.on_log_read = lambda: asyncio.run_coroutine_threadsafe(stop(), loop).result(DEADLINE_S)

    async def stop():
        broker.stop()

    ready = []
    async with asyncio.timeout(DEADLINE_S):
        await broker.run(ready.append)
    assert not ready
    assert fs.reads < 10, "the rest of the log under way at most"
    assert not (data / ".kafka_cleanshutdown").exists()
    fs.on_log_read = lambda: None
    async with Broker(BrokerConfig.load(None, settings(data)), fs=fs) as broker:
        logs = broker.services.logs
        assert not logs.dirs.all[0].clean
        for partition in range(20):
            assert len(read_records(logs.get("t", partition))) == 20
    assert (data / ".kafka_cleanshutdown").exists()


async def test_stop_before_loading_leaves_a_clean_directory_clean(tmp_path):
    config = BrokerConfig.load(None, settings(tmp_path))
    async with Broker(config) as broker:
        broker.services.logs.get_or_create("t", 0).append_as_leader(batch("a"), 0)
    broker = Broker(config)
    running = asyncio.create_task(broker.run())
    await asyncio.sleep(0)
    broker.stop()
    async with asyncio.timeout(DEADLINE_S):
        await running
    assert (tmp_path / ".kafka_cleanshutdown").exists()
