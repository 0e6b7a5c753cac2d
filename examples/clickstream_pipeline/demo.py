"""One run: brokers, the load, the job, what they show, and their end."""

import asyncio
import contextlib
import json
import time
from collections import deque
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console
from rich.live import Live

from examples.clickstream_pipeline.audit import Alert, Audit
from examples.clickstream_pipeline.clicks import START_MS, incidents
from examples.clickstream_pipeline.job_process import JobProcess
from examples.clickstream_pipeline.live_table import LINE_EVERY_S, LiveTable, say
from examples.clickstream_pipeline.load import Load
from examples.clickstream_pipeline.plot import Sample, Span, draw
from examples.clickstream_pipeline.query_progress import QUERIES, QueryProgress
from examples.clickstream_pipeline.spark_files import read_files
from examples.clickstream_pipeline.topic_records import read_topic
from ottla import Admin, Producer, Reader, TopicPartition
from ottla.cluster.local_cluster import LocalCluster
from ottla.command_line.failure import CommandError

CLICKS, DEAD_LETTERS, ALERTS = "clicks", "clicks.dead-letters", "clicks.alerts"
LOOK_S = 0.5
CATCH_UP_S = 300.0
JOB_START_S = 300.0


class Settings(NamedTuple):
    """What a run is to be like. `rate` is clicks per real second, `speed` event time over real time."""

    output: Path
    duration_s: float
    rate: float
    speed: float
    seed: int
    brokers: int
    partitions: int
    master: str
    trigger_s: float


class Demo:
    """`run` does it all, and `stop` ends what it has started; both once. Output is in `settings.output`."""

    def __init__(self, settings: Settings, console: Console) -> None:
        self.settings = settings
        self._console = console
        self._cluster = LocalCluster(
            settings.output / "cluster",
            brokers=settings.brokers,
            zookeeper_nodes=1,
            port=0,
            zookeeper_port=0,
            console_port=None,
            quiet=True,
        )
        self._progress = QueryProgress(settings.output / "progress.jsonl")
        self._table = LiveTable(self._progress)
        self._job: JobProcess | None = None
        self._samples: deque[Sample] = deque()
        self._wrong = incidents(START_MS, int(settings.duration_s * settings.speed * 1000))

    async def run(self) -> bool:
        """Go through a run; whether it adds up. Raises CommandError or KafkaError where it cannot be finished."""
        settings = self.settings
        say(self._console, f"output: {settings.output}")
        say(self._console, f"starting ZooKeeper and {settings.brokers} brokers")
        await self._cluster.start()
        servers = self._cluster.bootstrap_servers
        async with Admin(bootstrap_servers=servers) as admin:
            for topic in (CLICKS, DEAD_LETTERS, ALERTS):
                await admin.create_topic(topic, partitions=settings.partitions if topic == CLICKS else 1)
        say(self._console, f"brokers: {servers}; starting Spark ({settings.master}): a minute or so")
        self._job = JobProcess(settings.output, settings.master, self._job_arguments())
        await self._job.start()
        async with Producer(bootstrap_servers=servers, linger_ms=10, client_id="shop") as producer:
            load = Load(
                producer,
                CLICKS,
                seed=settings.seed,
                rate=settings.rate,
                speed=settings.speed,
                duration_s=settings.duration_s,
            )
            began_at_s = await self._drive(load, servers)
        await self._end_job()
        audit = await self._audit(load, servers)
        await self.stop()  # before the summary, so that the summary is the last output
        self._finish(audit, began_at_s)
        return all(check.holds for check in audit.checks())

    async def stop(self) -> None:
        """End everything that was started. Idempotent."""
        if self._job is not None:
            await self._job.stop()
        await self._cluster.stop()

    def kill(self) -> None:
        """End the job and the brokers at once; `stop`, which waits for them, goes on."""
        if self._job is not None:
            self._job.kill()
        self._cluster.kill()

    def _job_arguments(self) -> list[str]:
        output = self.settings.output
        options = {
            "bootstrap-servers": self._cluster.bootstrap_servers,
            "output-dir": str(output / "parquet"),
            "checkpoint-dir": str(output / "checkpoints"),
            "topic": CLICKS,
            "dead-letter-topic": DEAD_LETTERS,
            "alert-topic": ALERTS,
            "trigger-seconds": str(self.settings.trigger_s),
            "progress-file": str(output / "progress.jsonl"),
        }
        return [word for name, value in options.items() for word in (f"--{name}", value)]

    async def _drive(self, load: Load, servers: str) -> float:
        """Send, while the job works, until it has read everything and closed all windows; when that began."""
        assert self._job is not None
        ended = asyncio.create_task(self._job.wait())
        showing = asyncio.create_task(self._show(load))
        alerts = asyncio.create_task(self._follow_alerts(servers))
        working = asyncio.create_task(self._work(load))
        try:
            await asyncio.wait({ended, showing, alerts, working}, return_when=asyncio.FIRST_COMPLETED)
            if ended.done():
                raise CommandError(f"the job ended with {ended.result()}: {self._job.last_words()} ({self._job.log})")
            for task in (showing, alerts):
                if task.done():
                    task.result()
            return working.result()
        finally:
            for one in (ended, showing, alerts, working):
                one.cancel()
            await asyncio.wait({ended, showing, alerts, working})

    async def _work(self, load: Load) -> float:
        await self._until(lambda: all(self._progress.batches.values()), JOB_START_S, "the queries have not started")
        self._table.state = "sending"
        began_at_s = time.time()
        await load.run(self._wrong)
        self._table.state = "catching up"
        behind = "the queries have not read everything"
        await self._until(lambda: self._progress.have_read(load.acknowledged), CATCH_UP_S, behind)
        await load.close()
        self._table.state = "closing windows"
        end_s = load.end_ms / 1000
        await self._until(
            lambda: self._progress.have_read(load.acknowledged) and self._progress.is_past(end_s), CATCH_UP_S, behind
        )
        self._table.state = "done"
        return began_at_s

    async def _until(self, condition: Any, timeout_s: float, what: str) -> None:
        deadline = time.monotonic() + timeout_s
        while not condition():
            if time.monotonic() > deadline:
                raise CommandError(f"{what} within {timeout_s:.0f} s: {self._table.line()}")
            await asyncio.sleep(LOOK_S / 2)

    async def _show(self, load: Load) -> None:
        """Look at everything twice a second, keep it for the plot, and show it."""
        is_terminal = self._console.is_terminal
        line_at = time.monotonic()
        live = Live(self._table, console=self._console, auto_refresh=False)
        with live if is_terminal else contextlib.nullcontext():
            while True:
                self._progress.read()
                self._sample(load)
                if is_terminal:
                    live.refresh()
                elif time.monotonic() >= line_at:
                    say(self._console, self._table.line())
                    line_at += LINE_EVERY_S
                await asyncio.sleep(LOOK_S)

    def _sample(self, load: Load) -> None:
        sent = load.acknowledged
        lag = sent - min(self._progress.rows[query] for query in QUERIES)
        self._samples.append(Sample(time.time(), sent, max(lag, 0)))
        before = self._samples[max(len(self._samples) - 5, 0)]
        passed_s = self._samples[-1].at_s - before.at_s
        self._table.sent = sent
        self._table.sent_per_s = (sent - before.sent) / passed_s if passed_s else 0.0

    async def _follow_alerts(self, servers: str) -> None:
        async with Reader(bootstrap_servers=servers, isolation_level="read_committed") as reader:
            reader.assign({TopicPartition(ALERTS, 0): "beginning"})
            async for record in reader:
                alert = json.loads(record.value)
                self._table.alerts.append(
                    f"{alert['name']} {alert['rate']:.0%} (limit {alert['limit']:.0%}) from {alert['start']}"
                )

    async def _end_job(self) -> None:
        assert self._job is not None
        if (code := await self._job.stop()) != 0:
            raise CommandError(f"the job ended with {code}: {self._job.last_words()} ({self._job.log})")

    async def _audit(self, load: Load, servers: str) -> Audit:
        parquet = self.settings.output / "parquet"
        events, page_views, conversion = (read_files(parquet / name) for name in ("events", "page_views", "conversion"))
        dead_letters = await read_topic(servers, DEAD_LETTERS)
        alerts = [Alert.of(record) for record in await read_topic(servers, ALERTS)]
        return Audit(load.sent, load.acknowledged, events, page_views, conversion, dead_letters, alerts, self._wrong)

    def _finish(self, audit: Audit, began_at_s: float) -> None:
        output = self.settings.output
        spans = [
            Span(one.name, *(began_at_s + (ms - START_MS) / 1000 / self.settings.speed for ms in one[1:]))
            for one in self._wrong
        ]
        samples = [sample for sample in self._samples if sample.at_s >= began_at_s]
        draw(output / "plot.png", samples, self._progress.batches["events"], audit.alerts, spans)
        checks = audit.checks()
        summary = {
            "produced": audit.produced,
            "parsed": audit.parsed,
            "dead_lettered": audit.dead_lettered,
            "reasons": dict(audit.reasons),
            "dropped_too_late": audit.dropped,
            "windows": audit.windows,
            "alerts": len(audit.alerts),
            "checks": {check.what: check.holds for check in checks},
        }
        (output / "summary.json").write_text(json.dumps(summary, indent=2) + "\n", encoding="utf-8")
        say(self._console, "")
        for name, value in list(summary.items())[:-1]:
            say(
                self._console,
                f"{name.replace('_', ' '):<17} {value:,}" if isinstance(value, int) else f"{name:<17} {value}",
            )
        for check in checks:
            say(self._console, f"{'ok ' if check.holds else 'NOT'}  {check.what}: {check.found}")
        say(self._console, f"plot: {output / 'plot.png'}")
