"""The settings of the log cleaner, seen in a live broker whose compaction is done inline and watched."""

import asyncio

from storage.compaction.compactor import InlineCompactor
from storage.file_system import FileSystem
from support.effects import shows
from support.live import live
from support.polling import until

SOON = {"log.cleaner.backoff.ms": "10"}
POLICY = {"cleanup_policy": "compact", "segment_bytes": "300", "min_cleanable_dirty_ratio": "0.01"}


class Watched(InlineCompactor):
    """Notes its jobs and rates; while `hold` is set no job goes on before there were two at a time."""

    def __init__(self, watch):
        super().__init__(FileSystem())
        self.watch = watch

    async def run(self, job, on_group):
        self.watch.jobs.append(job)
        self.watch.running += 1
        self.watch.most_running = max(self.watch.most_running, self.watch.running)
        if self.watch.running > 1:
            self.watch.both.set()
        if self.watch.hold:
            await self.watch.both.wait()
        try:
            return await super().run(job, on_group)
        finally:
            self.watch.running -= 1

    def set_rate(self, bytes_per_second):
        self.watch.rates.append(bytes_per_second)


class Watch:
    def __init__(self):
        self.jobs = []
        self.rates = []
        self.running = self.most_running = 0
        self.hold = False
        self.both = asyncio.Event()

    def __call__(self):
        return Watched(self)


async def fill(broker, topic="t", rounds=6):
    await broker.create(topic, **POLICY)
    await write(broker, topic, rounds)


async def write(broker, topic="t", rounds=6):
    for number in range(rounds):
        assert (await broker.produce(topic, [(b"k%d" % key, b"%d" % number * 30) for key in range(3)])).error_code == 0


async def job_with(tmp_path, **settings):
    watch = Watch()
    named = {name.replace("_", "."): text for name, text in settings.items()}
    async with live(tmp_path / str(len(list(tmp_path.iterdir()))), SOON | named, new_compactor=watch) as broker:
        await fill(broker)
        await until(lambda: watch.jobs, "a job")
        return watch.jobs[0]


@shows("log.cleaner.backoff.ms")
async def test_dirty_logs_are_looked_for_at_the_backoff_interval(tmp_path):
    async with live(tmp_path, {"log.cleaner.backoff.ms": "100000000"}) as broker:
        cleaner = broker.broker.services.logs.cleaner
        await until(lambda: cleaner.is_running, "the cleaner runs")
        await fill(broker)
        assert cleaner.totals.runs == 0
        await broker.set_dynamic(log_cleaner_backoff_ms="10")
        await until(lambda: cleaner.totals.runs > 0, "the shorter pause is over")


@shows("log.cleaner.enable")
async def test_with_the_cleaner_disabled_nothing_is_compacted(tmp_path):
    async with live(tmp_path / "on", SOON) as broker:
        cleaner = broker.broker.services.logs.cleaner
        await until(lambda: cleaner.is_running, "the cleaner runs")
    async with live(tmp_path / "off", SOON | {"log.cleaner.enable": "false"}) as broker:
        await fill(broker)
        cleaner = broker.broker.services.logs.cleaner
        assert cleaner.find_filthiest() is not None
        assert not cleaner.is_running
        assert cleaner.totals.runs == 0


@shows("log.cleaner.dedupe.buffer.size", "log.cleaner.io.buffer.size", "log.cleaner.io.buffer.load.factor")
async def test_memory_is_shared_by_the_workers(tmp_path):
    default = await job_with(tmp_path)
    assert (default.dedupe_buffer_bytes, default.io_buffer_bytes, default.dedupe_load_factor) == (1 << 27, 1 << 18, 0.9)
    other = await job_with(
        tmp_path,
        log_cleaner_threads="2",
        log_cleaner_dedupe_buffer_size="4000000",
        log_cleaner_io_buffer_size="80000",
        log_cleaner_io_buffer_load_factor="0.5",
    )
    assert (other.dedupe_buffer_bytes, other.io_buffer_bytes, other.dedupe_load_factor) == (2_000_000, 20_000, 0.5)


@shows("log.cleaner.io.max.bytes.per.second")
async def test_the_rate_is_shared_by_the_busy_workers(tmp_path):
    watch = Watch()
    watch.hold = True
    settings = SOON | {"log.cleaner.io.max.bytes.per.second": "1000000", "log.cleaner.threads": "2"}
    async with live(tmp_path, settings, new_compactor=watch) as broker:
        await fill(broker, "a")
        await until(lambda: watch.running == 1, "a job")
        assert watch.rates == [1e6]
        await broker.set_dynamic(log_cleaner_io_max_bytes_per_second="500000")
        await until(lambda: watch.rates == [1e6, 5e5], "the rate is another")
        await fill(broker, "b")
        await until(lambda: watch.most_running == 2, "both workers are busy")
        assert watch.rates[2:4] == [2.5e5, 2.5e5]


@shows("log.cleaner.threads")
async def test_as_many_logs_at_a_time_as_there_are_workers(tmp_path):
    watch = Watch()
    watch.hold = True
    async with live(tmp_path, SOON, new_compactor=watch) as broker:
        await fill(broker, "a")
        await fill(broker, "b")
        await until(lambda: watch.running == 1, "a job")
        await broker.set_dynamic(log_cleaner_threads="2")
        await until(lambda: watch.most_running == 2, "two jobs at a time")
        watch.hold = False
        cleaner = broker.broker.services.logs.cleaner
        await until(lambda: cleaner.totals.runs >= 2, "both are compacted")
        await broker.set_dynamic(log_cleaner_threads="1")
        await until(lambda: cleaner._settings.log_cleaner_threads == 1 and not watch.running, "one worker is left")
        watch.most_running = 0
        await write(broker, "a")
        await write(broker, "b")
        await until(lambda: cleaner.totals.runs >= 4, "both are compacted again")
        assert watch.most_running == 1
