"""A broker process is killed again and again under load: what was acknowledged is there, in order and once.

SIGKILL leaves the page cache, so every acknowledged record must survive without any fsync; what a power cut may take
has tests of its own (tests/storage/log/test_power_cut.py). The moments come from a seed, which a failure shows.
"""

from __future__ import annotations

import os
import random
import signal
import threading
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from storage.directories.checkpoints import CLEANER_CHECKPOINT, OffsetCheckpoint
from storage.file_system import FileSystem
from storage.verification.verification import verify_directory
from support.acknowledged import Load, Reader, check_compacted, check_kept, partitions_of
from support.broker import BrokerProcess
from support.counts import count
from support.deadlines import DEADLINE_S
from support.polling import until_blocking
from support.seeds import chosen_seed

KILLS = int(os.environ.get("OTTLA_KILLS") or count(4, 50))
SEGMENT = {"segment.bytes": "20000", "index.interval.bytes": "500"}
TOPICS = {"kept": 3, "packed": 2}
COMPACTED = {"compacted": 2}
SHORT = {"short": 1}
CONFIGS = {
    "kept": {},
    "packed": {},
    "compacted": {
        "cleanup.policy": "compact",
        "min.cleanable.dirty.ratio": "0.01",
        "delete.retention.ms": "100",
    },
    "short": {"retention.bytes": "60000", "file.delete.delay.ms": "200"},
}
BROKER = {
    "auto.create.topics.enable": "false",
    "log.retention.check.interval.ms": "100",
    "log.initial.task.delay.ms": "50",
    "log.flush.offset.checkpoint.interval.ms": "150",
    "log.flush.start.offset.checkpoint.interval.ms": "170",
    "log.cleaner.backoff.ms": "50",
    "log.segment.delete.delay.ms": "100",
}


def create_topics(servers: str) -> None:
    admin = AdminClient({"bootstrap.servers": servers})
    everything = TOPICS | COMPACTED | SHORT
    topics = [NewTopic(name, number, 1, config=SEGMENT | CONFIGS[name]) for name, number in everything.items()]
    for created in admin.create_topics(topics).values():
        created.result(DEADLINE_S)


def wait_for_acknowledgements(loads: list[Load], more: int) -> None:
    """Everybody gets on: `more` records of each are acknowledged."""
    before = [load.count for load in loads]

    def acknowledged() -> bool:
        errors = [error for load in loads for error in load.errors]
        assert not errors, errors[:3]
        return min(load.count - old for load, old in zip(loads, before, strict=True)) >= more

    until_blocking(acknowledged, f"{more} records of each are acknowledged")


def wait_for_upkeep(loads: list[Load], short: Reader, data: Path) -> None:
    """Something was deleted and something compacted, however fast this machine was."""
    cleaned = OffsetCheckpoint(FileSystem(), str(data / CLEANER_CHECKPOINT))

    def done() -> bool:
        wait_for_acknowledgements(loads, 50)
        short.look_at_offsets()
        return min(short.starts.values()) > 0 and all(cleaned.read().get(each) for each in partitions_of(COMPACTED))

    until_blocking(done, "something is deleted and something compacted")


class Killer:
    """Ends a broker in one way or another, at random moments, and starts it again."""

    def __init__(self, process: BrokerProcess, rng: random.Random) -> None:
        self.process = process
        self.kills = 0
        self._random = rng

    def pause(self, longest_s: float) -> None:
        threading.Event().wait(self._random.random() * longest_s)

    def under_load(self) -> None:
        self.pause(0.5)
        self._kill()

    def while_starting(self) -> None:
        self.under_load()
        for _ in range(self._random.randint(1, 3)):
            self.process.launch()
            self.pause(0.8)
            self._kill()

    def while_stopping(self) -> None:
        self.pause(0.3)
        assert self.process.process is not None
        self.process.process.send_signal(signal.SIGTERM)
        self.pause(0.15)
        self._kill()

    def clean_stop(self) -> None:
        self.pause(0.3)
        assert self.process.stop() == 0

    def _kill(self) -> None:
        self.process.kill()
        self.kills += 1

    def any_way(self) -> None:
        ways = (self.under_load, self.while_starting, self.while_stopping, self.clean_stop)
        self._random.choices(ways, (6, 2, 2, 1))[0]()


@pytest.mark.counted
@pytest.mark.timeout(900)
def test_nothing_acknowledged_is_lost_when_the_broker_is_killed(tmp_path):
    seed = chosen_seed(370)  # with which a broker ends in each of the ways
    with BrokerProcess(tmp_path / "data", BROKER) as process:
        create_topics(process.bootstrap)
        every = TOPICS | COMPACTED | SHORT
        loads = [
            Load("plain", process.bootstrap, every, seed),
            Load("lz4", process.bootstrap, TOPICS | SHORT, seed, **{"compression.type": "lz4"}),
            Load("zstd", process.bootstrap, TOPICS | COMPACTED, seed, **{"compression.type": "zstd"}),
        ]
        kept = Reader(process.bootstrap, list(partitions_of(TOPICS)))
        short = Reader(process.bootstrap, list(partitions_of(SHORT)))
        compacted = Reader(process.bootstrap, list(partitions_of(COMPACTED)))
        killer = Killer(process, random.Random(seed))
        while killer.kills < KILLS:
            wait_for_acknowledgements(loads, 50)
            killer.any_way()
            process.start()
            for reader in (kept, short, compacted):
                reader.look_at_offsets()
            promised = {(load.name, *where): dict(load.acknowledged[where]) for load in loads for where in kept.found}
            kept.read_on()
            check_kept(kept, loads, lambda load, where: promised[load.name, *where])  # noqa: B023 - used at once
        wait_for_upkeep(loads, short, tmp_path / "data")
        for load in loads:
            load.finish()
        for reader in (kept, short, compacted):
            reader.look_at_offsets()
            reader.found = {where: {} for where in reader.found}
            reader.read_on()
            reader.close()
        check_kept(kept, loads, lambda load, where: load.acknowledged[where])
        check_kept(short, loads, lambda load, where: load.acknowledged[where])
        check_compacted(compacted, loads)
        sent = sum(len(load.sent[where]) for load in loads for where in kept.found)
        assert sum(len(found) for found in kept.found.values()) == sent
        assert any(len(found) < compacted.ends[where] for where, found in compacted.found.items()), "nothing compacted"
        assert process.stop() == 0
    problems = verify_directory(tmp_path / "data")
    assert [problem for problem in problems if not problem.path.endswith(".deleted")] == []  # their delay is not over
