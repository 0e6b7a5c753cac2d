"""Exactly once, whoever is killed: driver, executors, Python workers, broker, at moments that a seed chooses.

A stream from a topic to Parquet files, and one to a topic through transactions: afterwards every record is there once.
`OTTLA_SEED` repeats a run's choices.
"""

from __future__ import annotations

import json
import os
import random
import threading
import time
from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from confluent_kafka import Producer

from support.broker import broker_process
from support.counts import full_only
from support.deadlines import DEADLINE_S
from support.polling import until_blocking
from support.seeds import chosen_seed
from support.spark_driver import Job, SparkDriver, Victim
from support.topic_contents import topic_contents

KILLS = int(os.environ.get("OTTLA_KILLS") or 20)
# The first two have the whole query started anew, which takes as long as all the others together.
ROUND: tuple[Victim, ...] = (
    "driver",
    "executor",
    "Python worker",
    "broker",
    "driver's Python",
    "executor",
    "Python worker",
    "broker",
    "executor",
    "Python worker",
    "broker",
)
RECORDS_A_SECOND = 200
SPARK_S = 5 * DEADLINE_S  # a driver takes a minute to start where cores are few


class Feeder(threading.Thread):
    """Writes numbers to the source's topic until it is stopped, through everything."""

    def __init__(self, bootstrap):
        super().__init__()
        self._producer = Producer(
            {"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 5, "log_level": 0}
        )
        self._stopped = threading.Event()
        self.count = 0

    def run(self):
        while not self._stopped.wait(0.05):
            for _ in range(RECORDS_A_SECOND // 20):
                self._producer.produce("source", f"{self.count}".encode(), partition=self.count % 3)
                self.count += 1
            self._producer.poll(0)
        assert self._producer.flush(SPARK_S) == 0

    def stop(self):
        self._stopped.set()
        self.join()


class Chaos:
    """Kills, and starts again what does not come back by itself."""

    def __init__(self, driver, broker, checkpoint, seed):
        self._driver = driver
        self._broker = broker
        self._commits = checkpoint / "commits"
        self._chance = random.Random(seed)
        self.killed = Counter()
        self._start = time.monotonic()

    def run(self, kills):
        order = [ROUND[number % len(ROUND)] for number in range(kills)]
        self._chance.shuffle(order)
        for victim in order:
            self._until_batches(self._chance.randint(1, 2))
            threading.Event().wait(self._chance.random())  # the moment: anywhere in a batch
            self._kill(victim)
        self._until_batches(1)

    def _kill(self, victim):
        if victim == "broker":
            self._broker.kill()
            self._broker.start()
        else:
            self._until(lambda: self._driver.kill(victim, self._chance), f"a {victim} to kill")
        self.killed[victim] += 1
        print(f"{time.monotonic() - self._start:.0f} s: {self._done()} batches, killed {victim}")

    def _until(self, condition, what):
        def happens():
            if not self._driver.lives:
                self._driver.start()
            return condition()

        try:
            until_blocking(happens, what, SPARK_S)
        except AssertionError:
            print(self._driver.said()[-3000:])
            raise

    def _until_batches(self, number):
        """Wait until so many more batches are done."""
        wanted = self._done() + number
        self._until(lambda: self._done() >= wanted, f"{wanted} batches")

    def _done(self):
        if not self._commits.exists():
            return 0
        return max((int(one.name) + 1 for one in self._commits.iterdir() if one.name.isdigit()), default=0)


def parquet_values(folder):
    """What Spark's log of a file sink says is there: a compacted file, and those after it."""
    log = Path(folder) / "_spark_metadata"
    files = {}
    names = sorted((one for one in log.iterdir() if not one.name.startswith(".")), key=lambda one: int(one.stem))
    compacted = [place for place, one in enumerate(names) if one.suffix == ".compact"]
    for name in names[compacted[-1] if compacted else 0 :]:
        for line in name.read_text().splitlines()[1:]:
            entry = json.loads(line)
            files[entry["path"]] = entry["action"]
    paths = [path.removeprefix("file://") for path, action in files.items() if action == "add"]
    return Counter(value for path in paths for value in pq.read_table(path)["value"].to_pylist())


@full_only
@pytest.mark.timeout(2400)
@pytest.mark.parametrize("kind", ["parquet", "topic"])
def test_every_record_is_written_once_for_any_killed_process(tmp_path, kind):
    seed = chosen_seed(1)
    with broker_process(tmp_path / "log", num_partitions="3") as broker:
        folder = tmp_path / "job"
        folder.mkdir()
        sink = "sink" if kind == "topic" else str(folder / "sink")
        job = Job(broker.bootstrap, "source", sink, kind, str(folder), "local-cluster[2,1,1024]")
        feeder = Feeder(broker.bootstrap)
        driver = SparkDriver(job)
        feeder.start()
        try:
            driver.start()
            chaos = Chaos(driver, broker, job.checkpoint, seed)
            chaos.run(KILLS)
            feeder.stop()
            driver.kill("driver", random.Random(seed))
            driver.start(to_the_end=True)
            assert driver.wait(SPARK_S) == 0, driver.said()[-5000:]
        finally:
            feeder.stop()
            driver.end()
        found = parquet_values(sink) if kind == "parquet" else values(broker, "sink")
        assert found == Counter(map(str, range(feeder.count)))
        print(f"{feeder.count} records, killed: {dict(chaos.killed)}")


def values(broker, topic):
    return Counter(one.value.decode() for one in topic_contents(broker.bootstrap, topic))
