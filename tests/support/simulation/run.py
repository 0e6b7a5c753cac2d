"""One run: a cluster, its clients and its faults, all from one seed.

    outcome = run_seed(17, directory)

Kinds of runs, also by the seed: with and without flush.messages=1, one to three partitions, small segments, an
inter.broker.protocol.version before 2.7 (truncation by OffsetForLeaderEpoch, ISR changes written to the registry),
with and without replica.lag.max.messages, one log directory or two, three brokers or four.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from client.errors import KafkaError
from client.topic_partition import TopicPartition
from support.simulation.base_run import HEALED_WITHIN_S, REPLICAS, TOPIC, BaseRun
from support.simulation.cluster import SimulatedCluster
from support.simulation.faults import Faults
from support.simulation.inspection import watch_leaders
from support.simulation.ledger import BrokenPromiseError
from support.simulation.process import ProcessDiedError
from support.simulation.trace import Trace
from support.simulation.virtual_loop import VirtualTimeLoop
from support.simulation.workload import Workload

OLD_PROTOCOL = "2.6"


@dataclass
class Outcome:
    """The outcome of a run. `failure` is None if every guarantee held."""

    seed: int
    failure: str | None = None
    trace_hash: int = 0
    events: int = 0
    virtual_s: float = 0.0
    faults: int = 0
    acknowledged: int = 0
    failed: int = 0
    consumed: int = 0
    frames: dict[tuple[str, str], int] = field(default_factory=dict)
    story: list[str] = field(default_factory=list)


class Run(BaseRun):
    """A run with producers, consumers and replicas."""

    def __init__(self, seed: int, directory: Path, trace: Trace) -> None:
        self.random = random.Random(f"run {seed}")
        choose = self.random.random
        partitions = [TopicPartition(TOPIC, number) for number in range(self.random.randint(1, 3))]
        self.is_always_synced = choose() < 0.3
        settings = {"num.replica.fetchers": str(self.random.choice((1, 1, 2)))}
        if choose() < 0.2:
            settings["inter.broker.protocol.version"] = OLD_PROTOCOL
        if choose() < 0.5:
            settings["leader.imbalance.check.interval.seconds"] = "5"
        if choose() < 0.3:
            settings["replica.lag.max.messages"] = str(self.random.choice((2, 10)))
        self.topic_configs = {"min.insync.replicas": "2", "segment.bytes": str(self.random.choice((2_000, 1 << 20)))}
        if self.is_always_synced:
            self.topic_configs["flush.messages"] = "1"
        self.duration_s = self.random.uniform(10.0, 20.0)
        self.trace = trace
        brokers, log_dirs = REPLICAS + (choose() < 0.4), 1 + (choose() < 0.4)
        cluster = SimulatedCluster(f"cluster {seed}", directory, trace, settings, log_dirs=log_dirs)
        super().__init__(cluster, partitions, brokers)
        trace.tell(
            f"{brokers} brokers, {log_dirs} log directories, {len(partitions)} partitions,"
            f" {settings}, {self.topic_configs}"
        )
        self.workload = Workload(self.cluster, self.ledger, partitions)
        self.faults = Faults(
            self.cluster,
            self.random,
            self.suspicion,
            is_in_sync=self.is_in_sync,
            is_always_synced=self.is_always_synced,
            reassign=self.reassignments.start,
        )

    async def go(self) -> None:
        """Run everything. Raises the first failure."""
        await self.cluster.start(self.brokers)
        await self.create_topic(len(self.partitions), self.topic_configs)
        await self.cluster.until(self.is_in_sync, "the topic has leaders")
        await self.watch_states()
        async with asyncio.TaskGroup() as tasks:
            inspecting = tasks.create_task(self.inspect())
            consuming = tasks.create_task(self.workload.consume())
            producing = [tasks.create_task(self.workload.produce(f"p{one}", (0.03, 0.3))) for one in (1, 2)]
            await self.faults.run(self.duration_s)
            self.trace.tell("everything is mended")
            await asyncio.sleep(3.0)
            self.workload.stop()
            await asyncio.wait(producing)
            await self.cluster.until(self.inspection.are_equal, "all replicas are in sync and equal", HEALED_WITHIN_S)
            await self._check_everything()
            for task in (inspecting, consuming):
                task.cancel()
        self.check_hosts()

    async def _check_everything(self) -> None:
        self.inspection.look()
        ends = self.inspection.compare_whole_logs()
        for key, content in (await self.workload.read_everything(ends, HEALED_WITHIN_S)).items():
            self.ledger.check_complete(*key, content)

        def is_consumed() -> bool:
            return all(len(self.ledger.of(*key).seen) == end for key, end in ends.items())

        await self.cluster.until(is_consumed, "the consumer has read everything", HEALED_WITHIN_S)


class _Complaints(logging.Handler):
    """Collects unexpected exceptions that production code has logged."""

    def __init__(self, trace: Trace, level: int, directory: Path) -> None:
        super().__init__(level)
        self.unexpected: list[str] = []
        self._trace = trace
        self._directory = str(directory)

    def emit(self, record: logging.LogRecord) -> None:
        """Keep it."""
        text = f"{record.levelname}: {record.getMessage()}"
        if record.exc_info and record.levelno >= logging.ERROR:
            trouble = "".join(traceback.format_exception(*record.exc_info))
            self.unexpected.append(f"{record.getMessage()}\n{trouble}")
            text += f": {record.exc_info[1]!r}"
        self._trace.remark(text.replace(self._directory, ""))


def run_seed(
    seed: int,
    directory: Path,
    *,
    new_run: Callable[[int, Path, Trace], BaseRun] = Run,
    trace_path: Path | None = None,
    log_level: int = logging.WARNING,
) -> Outcome:
    """Run a seed on its own loop. Only for a process that ends soon after: killed tasks are never cleaned up."""
    loop = VirtualTimeLoop()
    trace = Trace(loop.time, trace_path)
    complaints = _Complaints(trace, log_level, directory)
    root = logging.getLogger()
    root.addHandler(complaints)
    root.setLevel(log_level)
    outcome = Outcome(seed)
    unhandled: list[str] = []

    def note_unhandled(_: object, context: dict[str, object]) -> None:
        error = context.get("exception")
        if not isinstance(error, ProcessDiedError):
            trouble = "".join(traceback.format_exception(error)) if isinstance(error, BaseException) else ""
            unhandled.append(f"{context!r}\n{trouble}")

    loop.set_exception_handler(note_unhandled)
    run: BaseRun | None = None
    clean_up = contextlib.ExitStack()
    try:
        asyncio.set_event_loop(loop)
        run = new_run(seed, directory, trace)
        clean_up.callback(watch_leaders(run.ledger, {partition.topic for partition in run.partitions}))
        loop.run_until_complete(run.go())
        if complaints.unexpected or unhandled:
            raise BrokenPromiseError("unexpected: " + "\n".join([*complaints.unexpected, *unhandled]))
    except BaseException as error:
        outcome.failure = explain(error)
    finally:
        clean_up.close()
        root.removeHandler(complaints)
    if run is not None:
        outcome.faults = run.faults.count
        outcome.acknowledged, outcome.failed = run.workload.acknowledged, run.workload.failed
        outcome.consumed = run.ledger.consumed
        outcome.frames = run.cluster.network.frames_between
    outcome.trace_hash, outcome.events, outcome.virtual_s = trace.hash, trace.events, loop.time()
    outcome.story = list(trace.last)
    return outcome


def explain(error: BaseException) -> str:
    """The innermost cause, in a few lines."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, (BrokenPromiseError, AssertionError)) and str(error):
        return f"{type(error).__name__}: {error}"
    if isinstance(error, KafkaError):
        return f"a client got {type(error).__name__}: {error}"
    return "".join(traceback.format_exception(error))
