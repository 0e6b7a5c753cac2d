"""What the settings of moves between log directories do."""

import asyncio
import random

import pytest

from broker.cluster.metadata_cache import MetadataCache
from broker.replicas import ReplicaParts
from broker.settings.config import BrokerConfig
from client.wire.connection_security import UNSECURED
from client.wire.network import AsyncioNetwork
from client.wire.setup_timeouts import SetupTimeouts
from replication.log_dir_moves import LogDirMoves
from storage.log.config import LogConfig
from support.effects import shows
from support.log_dir_moves import NONE, THROTTLE, alter, moved, other_than, throttle
from support.log_move import manager
from support.polling import until
from support.wire import append, batch, create_topic


@pytest.mark.parametrize(("threads", "busy"), [("1", 1), ("2", 2), (None, 3)])
@shows("num.replica.alter.log.dirs.threads")
async def test_how_many_replicas_are_copied_at_the_same_time(disks, threads, busy):
    if threads is not None:
        disks.overrides["num_replica_alter_log_dirs_threads"] = threads
    async with disks.running():
        await create_topic(disks.client, "t", 4)
        for partition in range(4):
            assert (await append(disks.client, "t", batch(b"v"), partition)).error_code == NONE
        moves = disks.broker.services.replicas.moves
        await throttle(disks, 1)
        moves._quota.record(1000)  # for some seconds nothing is copied
        for partition in range(4):
            target = other_than(disks, disks.directory_of("t", partition))
            assert await alter(disks.client, target, "t", partition) == NONE
        await until(lambda: sum(move.is_taken for move in moves.moves.values()) == busy, "they are at work")
        for _ in range(20):
            await asyncio.sleep(0)
        assert [move.is_taken for _, move in sorted(moves.moves.items())] == [number < busy for number in range(4)]
        await throttle(disks, None)
        await until(lambda: not moves.moves, "all are moved")


async def test_the_rate_of_moves_changes_during_a_move(disks):
    """replica.alter.log.dirs.io.max.bytes.per.second exists only as a dynamic setting."""
    async with disks.running():
        await create_topic(disks.client, "t")
        for _ in range(20):
            assert (await append(disks.client, "t", batch(bytes(1000)))).error_code == NONE
        await throttle(disks, 3000)
        target = other_than(disks, disks.directory_of("t"))
        assert await alter(disks.client, target) == NONE
        future = disks.logs.futures.logs["t", 0]
        await until(lambda: future.size_bytes, "it has begun")
        moves = disks.broker.services.replicas.moves
        await until(lambda: moves._quota.is_exceeded, "it is held back")
        assert future.size_bytes < 10_000
        assert disks.broker.config.dynamic_quota(THROTTLE) == 3000
        await throttle(disks, 1_000_000_000)
        await moved(disks, target)


async def test_small_replicas_count_towards_the_rate(disks):
    """Each of them is copied in one step, as the last one of a large one is."""
    async with disks.running():
        await create_topic(disks.client, "t", 3)
        for partition in range(3):
            assert (await append(disks.client, "t", batch(bytes(2000)), partition)).error_code == NONE
        await throttle(disks, 3000)
        moves = disks.broker.services.replicas.moves
        for partition in range(3):
            target = other_than(disks, disks.directory_of("t", partition))
            assert await alter(disks.client, target, "t", partition) == NONE
        await until(lambda: moves._quota.is_exceeded, "it is held back")
        assert moves.moves
        await throttle(disks, None)
        await until(lambda: not moves.moves, "all are moved")


@shows("alter.log.dirs.replication.quota.window.num", "alter.log.dirs.replication.quota.window.size.seconds")
def test_windows_of_the_quota(tmp_path):
    clock = [100.0]
    config = BrokerConfig(
        {
            "alter.log.dirs.replication.quota.window.num": "2",
            "alter.log.dirs.replication.quota.window.size.seconds": "3",
        },
        has_file=False,
    )
    parts = ReplicaParts(
        1,
        config,
        metadata=MetadataCache(),
        network=AsyncioNetwork(),
        security=UNSECURED,
        setup=SetupTimeouts(),
        registry=None,
        broker_epoch=lambda: 1,
        now_s=lambda: clock[0],
        rng=random.Random(1),
    )
    replicas = parts.manager(manager(tmp_path), lambda topic: LogConfig())
    assert isinstance(replicas.moves, LogDirMoves)
    quota = replicas.moves._quota
    config.values[THROTTLE] = 10
    quota.record(70)
    assert quota.is_exceeded  # 70 bytes in a sample of 3 s
    clock[0] += 5.9
    assert quota.is_exceeded
    clock[0] += 0.2  # two samples later it is forgotten
    assert not quota.is_exceeded
