"""Replicas on their way between log directories: disks that fail, followers, compaction (KIP-113)."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import shutil

import pytest

from client.admin.admin import Admin
from client.admin.types import ConfigChange, ConfigOperation, ResourceType
from client.topic_partition import TopicPartition
from protocol.messages.delete_topics import DeleteTopicsRequest
from support.broker import until_leader
from support.cut_log import raw_batches
from support.deadlines import DEADLINE_MS
from support.log_dir_moves import (
    NONE,
    NOT_AVAILABLE,
    STORAGE_ERROR,
    THROTTLE,
    alter,
    begun,
    described,
    filled,
    moved,
    numbers,
    other_than,
    records,
    replicas_of,
    throttle,
)
from support.pair import pair
from support.polling import until
from support.wire import append, batch, create_topic, wire_client

# -- disks -------------------------------------------------------------------------------------------------------------


async def test_the_copys_directory_fails(disks):
    async with disks.running():
        source, target = await filled(disks)
        await begun(disks, target)
        disks.fs.broken[target] = errno.EIO
        await throttle(disks, None)
        await until(lambda: not disks.logs.dirs.of(str(target)).is_online, "it is offline")
        assert disks.logs.futures.logs == {}
        await until(lambda: not disks.broker.services.replicas.moves.moves, "the move is over")
        assert disks.directory_of("t") == source
        assert not disks.logs.get("t", 0).is_being_moved
        assert (await append(disks.client, "t", batch(b"20"))).error_code == NONE
        assert await records(disks.client) == numbers(21)
        assert (await described(disks)).keys() == {(str(source), False)}
    disks.fs.broken.clear()
    async with disks.running():  # the directory is back, and the move goes on
        await moved(disks, target)
        assert await records(disks.client) == numbers(21)


async def test_the_logs_directory_fails(disks):
    async with disks.running():
        source, target = await filled(disks)
        future = await begun(disks, target)
        await disks.fail(source)
        assert disks.logs.get("t", 0) is None
        await throttle(disks, None)
        assert disks.broker.services.replicas.moves.moves == {}
        assert future.log_end_offset < 20  # nobody knows how much the copy lacks: it is not served
        assert (await append(disks.client, "t", batch(b"20"))).error_code != NONE
        assert (await described(disks)) == {(str(target), True): (future.size_bytes, -1)}
    disks.fs.broken.clear()
    async with disks.running():
        await moved(disks, target)
        await until_leader(disks.broker, "t")
        assert await records(disks.client) == numbers(20)


async def test_the_copys_directory_is_full_temporarily(disks):
    async with disks.running():
        _, target = await filled(disks)
        await begun(disks, target)
        disks.fs.root, disks.fs.capacity = target, 1
        await throttle(disks, None)
        await until(lambda: disks.fs.refused > 2, "it has tried more than once")
        assert (await append(disks.client, "t", batch(b"20"))).error_code == NONE
        disks.fs.capacity = None
        await moved(disks, target)
        assert await records(disks.client) == numbers(21)


async def test_no_space_to_create_a_copy(disks):
    async with disks.running():
        source, target = await filled(disks)
        disks.fs.root, disks.fs.capacity = target, 1
        assert await alter(disks.client, target) == STORAGE_ERROR
        assert replicas_of(disks) == [f"{source.name}/t-0"]
        assert not disks.logs.get("t", 0).is_being_moved
        disks.fs.capacity = None
        assert await alter(disks.client, target) == NONE
        await moved(disks, target)


async def test_a_restart_during_a_move(disks):
    async with disks.running():
        _, target = await filled(disks)
        future = await begun(disks, target)
        copied = future.log_end_offset
        await throttle(disks, 2)
    assert (target / ".kafka_cleanshutdown").exists()
    async with disks.running():
        assert disks.logs.futures.logs["t", 0].log_end_offset >= copied
        await throttle(disks, None)
        await moved(disks, target)
        assert await records(disks.client) == numbers(20)
    assert "t 0 20" in (target / "recovery-point-offset-checkpoint").read_text()


async def test_a_copy_of_a_topic_of_the_same_name(disks):
    async with disks.running():
        source, target = await filled(disks)
        future = await begun(disks, target)
        name = future.directory.name
    aside = target.parent / "aside"
    (target / name).rename(aside)
    async with disks.running():
        await disks.client.call(DeleteTopicsRequest(topic_names=["t"], timeout_ms=DEADLINE_MS), 3)
        await create_topic(disks.client, "t")
        assert (await append(disks.client, "t", batch(b"new"))).error_code == NONE
        source = disks.directory_of("t")
    elsewhere = other_than(disks, source)
    shutil.copytree(aside, elsewhere / name)
    async with disks.running():
        await until_leader(disks.broker, "t")
        assert disks.logs.futures.logs == {}
        assert not (elsewhere / name).exists()
        assert await records(disks.client) == [(0, b"new")]


# -- followers and compaction ------------------------------------------------------------------------------------------


def directories(tmp_path, broker_id):
    return [tmp_path / f"{broker_id}-{name}" for name in "ab"]


@contextlib.asynccontextmanager
async def two_brokers(tmp_path, **options):
    """Broker 0 leads t-0, broker 1 follows; each has two log directories."""
    own = {number: {"log_dirs": ",".join(map(str, directories(tmp_path, number)))} for number in range(2)}
    async with (
        pair(tmp_path, own=own, **options) as brokers,
        wire_client(brokers[0].bootstrap_servers) as leader,
        wire_client(brokers[1].bootstrap_servers) as follower,
    ):
        yield brokers, (leader, follower)


def place(broker):
    return broker.services.logs.get("t", 0).directory.parent


def other_place(broker, tmp_path):
    return next(path for path in directories(tmp_path, broker.services.broker_id) if path != place(broker))


@pytest.mark.parametrize("flush_messages", ["1", "1000000"])
async def test_both_replicas_are_moved_under_load(tmp_path, flush_messages):
    async with two_brokers(tmp_path, log_flush_interval_messages=flush_messages) as (brokers, clients):
        acknowledged = []
        going = True

        async def load():
            async with wire_client(brokers[0].bootstrap_servers) as producer:
                while going:
                    answer = await append(producer, "t", batch(b"%d" % len(acknowledged) * 100))
                    assert answer.error_code == NONE
                    acknowledged.append(answer.base_offset)

        loading = asyncio.create_task(load())
        await until(lambda: len(acknowledged) > 50, "there is something to move")
        moves = 0
        for _ in range(2):
            for broker, client in zip(brokers, clients, strict=True):
                target = other_place(broker, tmp_path)
                assert await alter(client, target) == NONE
                await until(
                    lambda: place(broker) == target and not broker.services.replicas.moves.moves,  # noqa: B023
                    "it is moved",
                )
                moves += 1
                count = len(acknowledged)
                await until(lambda: len(acknowledged) > count + 20, "both are in sync")  # noqa: B023
        going = False
        await loading
        assert moves == 4
        assert acknowledged == list(range(len(acknowledged)))
        logs = [broker.services.logs.get("t", 0) for broker in brokers]
        await until(lambda: logs[1].log_end_offset == logs[0].log_end_offset, "the follower has all")
        assert raw_batches(logs[0]) == raw_batches(logs[1])
        assert brokers[0].services.replicas.partitions["t", 0].isr == (0, 1)


async def test_a_move_continues_when_the_follower_becomes_the_leader(tmp_path):
    async with two_brokers(tmp_path) as (brokers, clients):
        for number in range(20):
            assert (await append(clients[0], "t", batch(b"%d" % number))).error_code == NONE
        async with Admin(bootstrap_servers=brokers[0].bootstrap_servers) as admin:
            await admin.incremental_alter_configs(ResourceType.BROKER, "1", [ConfigChange(THROTTLE, "1")])
            await until(lambda: brokers[1].config.values.get(THROTTLE) == 1, "the rate is known")
            target = other_place(brokers[1], tmp_path)
            assert await alter(clients[1], target) == NONE
            future = brokers[1].services.logs.futures.logs["t", 0]
            await until(lambda: future.log_end_offset, "it has begun")
            await admin.alter_partition_reassignments({TopicPartition("t", 0): [1, 0]})
            await until(
                lambda: brokers[0].metadata.snapshot.partition("t", 0).replicas == [1, 0], "the order is another"
            )
            await admin.elect_leaders([TopicPartition("t", 0)])
            partition = brokers[1].services.replicas.partitions[("t", 0)]
            await until(lambda: partition.is_leader, "it leads")
            assert brokers[1].services.logs.futures.logs["t", 0] is future
            assert (await append(clients[1], "t", batch(b"20"))).error_code == NONE
            await admin.incremental_alter_configs(
                ResourceType.BROKER, "1", [ConfigChange(THROTTLE, None, ConfigOperation.DELETE)]
            )
            await until(lambda: place(brokers[1]) == target, "it is moved")
        assert partition.log is future
        assert future.leader_epochs.latest_epoch == partition.leader_epoch
        assert [value for _, value in await records(clients[1])] == [b"%d" % number for number in range(21)]


async def test_a_removed_replica_loses_its_copy(tmp_path):
    async with two_brokers(tmp_path) as (brokers, clients):
        for number in range(5):
            assert (await append(clients[0], "t", batch(b"%d" % number))).error_code == NONE
        async with Admin(bootstrap_servers=brokers[0].bootstrap_servers) as admin:
            await admin.incremental_alter_configs(ResourceType.BROKER, "1", [ConfigChange(THROTTLE, "1")])
            await until(lambda: brokers[1].config.values.get(THROTTLE) == 1, "the rate is known")
            assert await alter(clients[1], other_place(brokers[1], tmp_path)) == NONE
            await admin.alter_partition_reassignments({TopicPartition("t", 0): [0]})
            logs = brokers[1].services.logs
            await until(lambda: not logs.logs and not logs.futures.logs, "both are gone")
            assert await alter(clients[1], directories(tmp_path, 1)[1]) == NOT_AVAILABLE
            await admin.alter_partition_reassignments({TopicPartition("t", 0): [0, 1]})
            await until(lambda: logs.get("t", 0) is not None, "it is back")
            assert place(brokers[1]) == directories(tmp_path, 1)[1]


def noted(directory):
    """The checkpoint of the cleaner in a log directory; empty before the first one is written."""
    path = directory / "cleaner-offset-checkpoint"
    return path.read_text() if path.exists() else ""


async def test_cleaning_pauses_and_its_checkpoint_moves(disks):
    disks.overrides |= {"log_cleaner_backoff_ms": "20"}
    async with disks.running():
        compact = {"cleanup_policy": "compact", "segment_bytes": "2000", "min_cleanable_dirty_ratio": "0.01"}
        await create_topic(disks.client, "t", **compact)
        cleaner = disks.logs.cleaner

        async def overwrite():
            for number in range(60):
                keyed = batch(b"%d" % number * 20, key=b"key-%d" % (number % 5))
                assert (await append(disks.client, "t", keyed)).error_code == NONE

        async def is_clean():
            await until(
                lambda: cleaner.checkpoints.get(("t", 0)) == disks.logs.get("t", 0).segments.active.base_offset,
                "it is compacted",
            )

        await overwrite()
        await is_clean()
        source, target = disks.directory_of("t"), other_than(disks, disks.directory_of("t"))
        await until(lambda: "t 0" in noted(source), "it is noted")
        await begun(disks, target)
        checkpoint, runs = cleaner.checkpoints["t", 0], cleaner.totals.runs
        await overwrite()
        looked_ms = cleaner.last_run_ms
        await until(lambda: cleaner.last_run_ms > looked_ms + 100, "it has looked for what to compact several times")
        assert (cleaner.checkpoints["t", 0], cleaner.totals.runs) == (checkpoint, runs)
        await throttle(disks, None)
        await moved(disks, target)
        await is_clean()
        assert cleaner.checkpoints["t", 0] > checkpoint
        await until(lambda: "t 0" in noted(target), "it is noted there")
        assert noted(source) == "0\n0\n"
        found = dict(await records(disks.client))
        assert len(found) < 60
        assert b"59" * 20 in found.values()
