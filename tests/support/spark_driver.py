"""A driver of Spark as a process of its own that can be killed: a stream from a topic, to a topic or to Parquet."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
from collections import defaultdict
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

import psutil

from support.broker import ROOT
from support.spark import QUICK_START, start_session

Victim = Literal["driver", "driver's Python", "executor", "Python worker"]
WAIT_S = 60.0


@dataclass(frozen=True)
class Job:
    """What a driver does: the topic `source` to the topic `sink` (exactly once), or to Parquet files in a folder."""

    bootstrap: str
    source: str
    sink: str
    kind: Literal["topic", "parquet"]
    folder: str
    master: str

    @property
    def checkpoint(self) -> Path:
        """Where the query keeps its progress."""
        return Path(self.folder) / "checkpoint"


class SparkDriver:
    """One driver after another for the same job, with all the processes that they start."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._lives = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._seen: set[psutil.Process] = set()
        self._pythons: defaultdict[Victim, set[psutil.Process]] = defaultdict(set)
        """Of each kind. Those whose daemon is killed go on without it, below nobody, and Spark goes on with them."""

    @property
    def lives(self) -> bool:
        """Whether the driver runs."""
        return self._process is not None and self._process.poll() is None

    def start(self, *, to_the_end: bool = False) -> None:
        """Start one. `to_the_end`: it writes what is there and ends."""
        self._lives += 1
        arguments = json.dumps([self._lives, to_the_end, asdict(self._job)])
        environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "tests")])}
        with (Path(self._job.folder) / "driver.out").open("ab") as out:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "support.spark_driver", arguments],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
            )

    def wait(self, timeout_s: float) -> int:
        """Wait until it has ended by itself. Its exit code."""
        assert self._process is not None
        return self._process.wait(timeout_s)

    def kill(self, victim: Victim, chance: random.Random) -> bool:
        """SIGKILL to one of the processes; False where there is none of its kind now."""
        found = sorted(self._of_kind(victim), key=lambda one: one.pid)
        if not found:
            return False
        for process in found if victim == "driver" else [chance.choice(found)]:
            _send(process, signal.SIGKILL)
        if victim == "driver":
            assert self._process is not None
            self._process.wait(WAIT_S)
        return True

    def _of_kind(self, victim: Victim) -> list[psutil.Process]:
        """The driver is two processes: a Python, and its JVM."""
        if not self.lives:
            return []
        assert self._process is not None
        own = psutil.Process(self._process.pid)
        machines = [one for one in _children(own) if _is_java(one)]
        below = [child for machine in machines for child in _children(machine)]
        executors = [one for one in below if _is_java(one)]
        self._seen.update([own, *machines, *below, *_children(own, recursive=True)])
        if victim == "driver":
            return [own, *machines]
        if victim == "executor":
            return executors
        roots = executors if victim == "Python worker" else [one for one in below if one not in executors]
        found = {one for root in roots for one in [root, *_children(root, recursive=True)]}
        pythons = self._pythons[victim]
        pythons |= found - {*executors}
        return [one for one in pythons if _is_running(one)]

    def end(self) -> None:
        """Kill all remaining processes."""
        self._of_kind("driver")
        for process in self._seen:
            _send(process, signal.SIGKILL)
        if self._process is not None:
            self._process.wait(WAIT_S)

    def said(self) -> str:
        """Their output."""
        return (Path(self._job.folder) / "driver.out").read_text(errors="replace")


def _children(process: psutil.Process, *, recursive: bool = False) -> list[psutil.Process]:
    with contextlib.suppress(psutil.NoSuchProcess):
        return process.children(recursive=recursive)
    return []


def _is_running(process: psutil.Process) -> bool:
    with contextlib.suppress(psutil.NoSuchProcess):
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    return False


def _is_java(process: psutil.Process) -> bool:
    try:
        return "java" in process.name()
    except psutil.Error:
        return False


def _send(process: psutil.Process, number: int) -> None:
    with contextlib.suppress(psutil.Error):  # which knows a process that only has the id of one that is gone
        process.send_signal(number)


def _run(life: int, to_the_end: bool, job: Job) -> None:
    session = start_session(
        Path(job.folder) / f"spark-{life}",
        job.master,
        spark_executor_extraJavaOptions=QUICK_START,
        spark_executor_memory="600m",
        spark_driver_memory="600m",
        spark_deploy_maxExecutorRetries="-1",
        spark_task_maxFailures="8",
    )
    rows = (
        session.readStream.format("ottla")
        .option("kafka.bootstrap.servers", job.bootstrap)
        .option("subscribe", job.source)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", "1000000" if to_the_end else "1000")
        .load()
        .selectExpr("cast(value as string) value", "rand() r")
        .repartitionByRange(3, "r")  # every run of a batch distributes its rows otherwise
        .select("value")
    )
    writer = rows.writeStream.option("checkpointLocation", str(job.checkpoint))
    if job.kind == "topic":
        writer = writer.format("ottla").options(
            **{
                "kafka.bootstrap.servers": job.bootstrap,
                "topic": job.sink,
                "deliveryGuarantee": "exactly-once",
                "transactionalIdPrefix": f"{job.sink}-writer",
            }
        )
    else:
        writer = writer.format("parquet").option("path", job.sink)
    if to_the_end:
        writer = writer.trigger(availableNow=True)
    writer.start().awaitTermination()


if __name__ == "__main__":
    life, to_the_end, job = json.loads(sys.argv[1])
    _run(life, to_the_end, Job(**job))
