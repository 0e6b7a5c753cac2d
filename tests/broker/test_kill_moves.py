"""A broker is killed again and again while its replicas move between three log directories, under load.

What was acknowledged is there, in order and once, wherever the replica is at last; nothing is left of its copies.
"""

from __future__ import annotations

import asyncio
import os
import random
import threading
import time
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from client.admin.admin import Admin
from client.admin.types import Replica
from storage.verification.verification import verify_directory
from support.acknowledged import Load, Reader, check_compacted, check_kept, partitions_of
from support.broker import BrokerProcess
from support.counts import count
from support.deadlines import DEADLINE_MS, DEADLINE_S
from support.seeds import chosen_seed

KILLS = int(os.environ.get("OTTLA_KILLS") or count(3, 30))
SEGMENT = {"segment.bytes": "20000", "index.interval.bytes": "500", "file.delete.delay.ms": "100"}
KEPT, COMPACTED = {"kept": 3}, {"compacted": 2}
COMPACT = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01", "delete.retention.ms": "100"}
BROKER = {
    "auto.create.topics.enable": "false",
    "log.flush.offset.checkpoint.interval.ms": "150",
    "log.flush.start.offset.checkpoint.interval.ms": "170",
    "log.initial.task.delay.ms": "50",
    "log.cleaner.backoff.ms": "50",
}


def acknowledged(loads, more):
    """Everybody gets on."""
    before = [load.count for load in loads]
    deadline = time.monotonic() + DEADLINE_S
    while any(load.count < old + more for load, old in zip(loads, before, strict=True)):
        assert not any(load.errors for load in loads), [load.errors[:3] for load in loads]
        assert time.monotonic() < deadline
        threading.Event().wait(0.01)


async def shuffle(servers, paths, rng):
    """Ask for another directory for every replica."""
    async with Admin(bootstrap_servers=servers, default_api_timeout_ms=DEADLINE_MS) as admin:
        replicas = [Replica(*where, 0) for where in partitions_of(KEPT | COMPACTED)]
        await admin.alter_replica_log_dirs({replica: str(rng.choice(paths)) for replica in replicas})


async def move_all(servers, paths):
    """Ask for the next directory for every replica."""
    async with Admin(bootstrap_servers=servers) as admin:
        moves = {}
        for one in await admin.describe_log_dirs([0]):
            target = str(paths[(paths.index(Path(one.path)) + 1) % len(paths)])
            moves |= {Replica(replica.topic, replica.partition, 0): target for replica in one.replicas}
        await admin.alter_replica_log_dirs(moves)


async def settled(servers):
    """Wait until nothing is on its way."""
    async with Admin(bootstrap_servers=servers) as admin, asyncio.timeout(DEADLINE_S):
        while True:
            found = [replica for one in await admin.describe_log_dirs([0]) for replica in one.replicas]
            if not any(replica.is_future for replica in found):
                return
            await asyncio.sleep(0.02)


def is_left_by_a_stop(problem):
    """Files on their way out, and what a first compaction has taken that did not come to its end."""
    taken = "/compacted-" in problem and "are in no batch" in problem
    return taken or "-delete" in problem or ".deleted" in problem


@pytest.mark.counted
@pytest.mark.timeout(900)
def test_replicas_move_while_the_broker_is_killed(tmp_path):
    seed = chosen_seed(1)
    rng = random.Random(seed)
    paths = [tmp_path / name for name in "abc"]
    with BrokerProcess(tmp_path / "broker", BROKER | {"log.dirs": ",".join(map(str, paths))}) as process:
        admin = AdminClient({"bootstrap.servers": process.bootstrap})
        topics = [NewTopic(name, number, 1, config=SEGMENT) for name, number in KEPT.items()]
        topics += [NewTopic(name, number, 1, config=SEGMENT | COMPACT) for name, number in COMPACTED.items()]
        for created in admin.create_topics(topics).values():
            created.result(DEADLINE_S)
        loads = [
            Load("plain", process.bootstrap, KEPT | COMPACTED, seed),
            Load("zstd", process.bootstrap, KEPT | COMPACTED, seed, **{"compression.type": "zstd"}),
        ]
        kept = Reader(process.bootstrap, list(partitions_of(KEPT)))
        compacted = Reader(process.bootstrap, list(partitions_of(COMPACTED)))
        for _ in range(KILLS):
            acknowledged(loads, 50)
            for _ in range(rng.randint(1, 3)):
                asyncio.run(shuffle(process.bootstrap, paths, rng))
                threading.Event().wait(rng.random() * 0.1)
            process.kill()
            process.start()
            for reader in (kept, compacted):
                reader.look_at_offsets()
            promised = {(load.name, *where): dict(load.acknowledged[where]) for load in loads for where in kept.found}
            kept.read_on()
            check_kept(kept, loads, lambda load, where: promised[load.name, *where])  # noqa: B023 - used at once
        for load in loads:
            load.finish()
        asyncio.run(settled(process.bootstrap))
        asyncio.run(move_all(process.bootstrap, paths))  # whatever the kills have left to the moves before
        asyncio.run(settled(process.bootstrap))
        for reader in (kept, compacted):
            reader.look_at_offsets()
            reader.found = {where: {} for where in reader.found}
            reader.read_on()
            reader.close()
        check_kept(kept, loads, lambda load, where: load.acknowledged[where])
        check_compacted(compacted, loads)
        sent = sum(len(load.sent[where]) for load in loads for where in kept.found)
        assert sum(len(found) for found in kept.found.values()) == sent
        assert process.stop() == 0
        log = process.log_text()
        assert "has been moved to" in log
        assert "Traceback" not in log
    for topic, partition in partitions_of(KEPT | COMPACTED):
        assert len([root for root in paths if (root / f"{topic}-{partition}").exists()]) == 1
    assert not [path for root in paths for path in root.glob("*-future")]
    for root in paths:
        assert [text for text in map(str, verify_directory(root)) if not is_left_by_a_stop(text)] == []
