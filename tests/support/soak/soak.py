"""A long run under faults: rounds on one cluster, each with topics, clients and faults of its own.

A round is judged before the next one begins: its history by the checker, its replicas byte by byte. Then its topics are
deleted. After the last one the brokers have the memory and the descriptors that they had after the first one, they stop
cleanly, and their log directories are sound.
"""

from __future__ import annotations

import itertools
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from support.broker import ROOT
from support.deadlines import DEADLINE_S
from support.soak.cluster import BROKERS, SoakCluster
from support.soak.resources import growth, measure
from support.soak.run import SoakRun, summary

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class SoakError(AssertionError):
    """A promise is broken. The text says which, and how to run the round again."""


def rounds(count: int | None, hours: float) -> Iterator[int]:
    """Numbers, until there are enough of them, or the time is over; at least two."""
    end = time.monotonic() + 3600 * hours
    for number in itertools.count():
        if number >= 2 and (number >= count if count is not None else time.monotonic() > end):
            return
        yield number


def soak(
    directory: Path,
    seed: int,
    *,
    count: int | None,
    hours: float,
    faults: int,
    spark: SparkSession | None,
    new_cluster: Callable[[Path], SoakCluster],
    say: Callable[[str], None],
) -> Counter[str]:
    """Run `count` rounds, or for some hours. Return what there was. Raises SoakError; the directory has the rest."""
    total: Counter[str] = Counter()
    with new_cluster(directory) as cluster:
        before = {}
        for number in rounds(count, hours):
            total += one_round(cluster, seed + number, directory / f"round-{number}", faults, spark, say)
            now = measure(cluster.processes(), cluster.consoles())
            before = before or now
            say(f"round {number}: " + "; ".join(f"broker {one}: {what}" for one, what in now.items()))
        grown = growth(before, now)
        if grown:
            raise SoakError("\n".join(grown))
        code = cluster.command.stop(signal.SIGTERM)  # the shell of a script lets what it starts with & ignore SIGINT
        if code != 0 or "Traceback" in cluster.command.errors + cluster.command.text:
            raise SoakError(f"the cluster ended with {code}: {cluster.command.errors[-5000:]}")
    verify(cluster)
    return total


def one_round(
    cluster: SoakCluster,
    seed: int,
    directory: Path,
    faults: int,
    spark: SparkSession | None,
    say: Callable[[str], None],
) -> Counter[str]:
    """One round, judged; its topics are deleted."""
    say(f"round with seed {seed}, journals in {directory}")
    run = SoakRun(seed, cluster, directory, faults, spark)
    try:
        history = run.history()
        found = run.judge(history)
    except Exception as error:
        raise broken(seed, faults, directory, f"{run.done}: {error}") from error
    if found:
        raise broken(seed, faults, directory, f"{run.done}: {found}")
    seen = summary(history, run)
    say(f"  {dict(seen)}")
    for deleted in cluster.admin.delete_topics(sorted({topic for topic, _ in run.partitions})).values():
        deleted.result(3 * DEADLINE_S)
    return seen


def broken(seed: int, faults: int, directory: Path, what: str) -> SoakError:
    """The error of a round."""
    again = f"make soak SEED={seed} SOAK_ARGS='--rounds 2 --faults {faults}'"
    return SoakError(f"seed {seed}, journals in {directory}, {what}\nagain: {again}")


def verify(cluster: SoakCluster) -> None:
    """Verify every log directory with `ottla verify-log --deep`."""
    for broker_id in BROKERS:
        command = [sys.executable, "-m", "ottla", "verify-log", "--deep", str(cluster.log_dir(broker_id))]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise SoakError(f"broker {broker_id}: {done.stdout}{done.stderr}")
