"""AlterReplicaLogDirs: what is asked for, what is told of it, and what becomes of it (KIP-113)."""

from __future__ import annotations

import asyncio

import pytest

from protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from protocol.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from protocol.messages.delete_topics import DeleteTopicsRequest
from protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from storage.log_manager import MAX_PREFERRED
from support.broker import until_leader
from support.deadlines import DEADLINE_MS, DEADLINE_S
from support.log_dir_moves import (
    INVALID_TOPIC,
    NONE,
    NOT_FOUND,
    STORAGE_ERROR,
    UNKNOWN,
    alter,
    begun,
    contents,
    described,
    filled,
    moved,
    numbers,
    other_than,
    records,
    replicas_of,
    throttle,
)
from support.polling import until
from support.wire import append, batch, create_topic, wire_client
from support.wire import fetch as fetch_request


async def test_a_replica_is_moved_under_load(disks):
    async with disks.running(), wire_client(disks.broker.bootstrap_servers) as producer:
        await create_topic(disks.client, "t", segment_bytes="200000")
        acknowledged = []
        going = True

        async def load():
            while going:
                value = b"%06d" % len(acknowledged) * 150
                answer = await append(producer, "t", batch(value))
                assert answer.error_code == NONE
                acknowledged.append((answer.base_offset, value))

        loading = asyncio.create_task(load())
        await until(lambda: len(acknowledged) > 500, "there is something to move")
        source = disks.directory_of("t")
        target = other_than(disks, source)
        assert await alter(disks.client, target) == NONE
        await moved(disks, target)
        count = len(acknowledged)
        await until(lambda: len(acknowledged) > count + 100, "the load goes on")
        going = False
        await loading
        assert await records(disks.client) == acknowledged
        (old,) = source.glob("t-0.*-delete")
        before = contents(old)
        assert len(before) > 400_000
        assert contents(target / "t-0").startswith(before)
        names = sorted(path.name for path in old.glob("*.log"))
        assert sorted(path.name for path in (target / "t-0").glob("*.log"))[: len(names)] == names


# -- what is asked for -------------------------------------------------------------------------------------------------


async def test_error_codes(disks):
    async with disks.running():
        source, target = await filled(disks)
        assert await alter(disks.client, disks.paths[0].parent / "d") == NOT_FOUND
        assert await alter(disks.client, "b") == NOT_FOUND
        assert await alter(disks.client, target, "u") == UNKNOWN
        assert await alter(disks.client, target, "t", 1) == UNKNOWN
        long_name = "x" * 214  # and "-0.", 32 digits, "-future": 256
        await create_topic(disks.client, long_name)
        assert await alter(disks.client, target, long_name) == INVALID_TOPIC
        fits = "y" * 213
        await create_topic(disks.client, fits)
        target_of_fits = other_than(disks, disks.directory_of(fits))
        assert await alter(disks.client, target_of_fits, fits) == NONE
        await moved(disks, target_of_fits, fits)
        assert await alter(disks.client, source) == NONE  # where it is
        assert disks.logs.futures.logs == {}
        assert replicas_of(disks) == [f"{source.name}/t-0"]


async def test_several_replicas_in_one_request(disks):
    async with disks.running():
        await create_topic(disks.client, "t", 3)
        target, other = disks.paths[0], disks.paths[1]
        request = AlterReplicaLogDirsRequest(
            dirs=[
                AlterReplicaLogDir(
                    path=str(target),
                    topics=[
                        AlterReplicaLogDirTopic(name="t", partitions=[0, 1, 2, 3]),
                        AlterReplicaLogDirTopic(name="u", partitions=[0]),
                    ],
                ),
                AlterReplicaLogDir(path=str(other), topics=[AlterReplicaLogDirTopic(name="t", partitions=[2])]),
            ]
        )
        answer = await disks.client.call(request, 1)
        codes = {
            (topic.topic_name, one.partition_index): one.error_code
            for topic in answer.results
            for one in topic.partitions
        }
        assert codes == {("t", 0): NONE, ("t", 1): NONE, ("t", 2): NONE, ("t", 3): UNKNOWN, ("u", 0): UNKNOWN}
        for partition, path in ((0, target), (1, target), (2, other)):
            await moved(disks, path, "t", partition)


async def test_a_replica_that_does_not_exist_yet_is_created_in_that_directory(disks):
    async with disks.running():
        await create_topic(disks.client, "first", 5)  # two in a, two in b, one in c, where the next one would go
        assert await alter(disks.client, disks.paths[0]) == UNKNOWN
        await create_topic(disks.client, "t")
        assert disks.directory_of("t") == disks.paths[0]
        assert disks.logs.preferred == {}
        await create_topic(disks.client, "u")
        assert disks.directory_of("u") == disks.paths[2]


async def test_preferred_directories_of_unknown_partitions_are_bounded(disks):
    async with disks.running():
        for first in (0, MAX_PREFERRED // 2, MAX_PREFERRED):
            numbers_asked = range(first, first + MAX_PREFERRED // 2 + 1)
            topics = [AlterReplicaLogDirTopic(name="t", partitions=list(numbers_asked))]
            dirs = [AlterReplicaLogDir(path=str(disks.paths[1]), topics=topics)]
            answer = await disks.client.call(AlterReplicaLogDirsRequest(dirs=dirs), 1)
            assert {one.error_code for one in answer.results[0].partitions} == {UNKNOWN}
        assert len(disks.logs.preferred) == MAX_PREFERRED
        assert max(disks.logs.preferred) == ("t", MAX_PREFERRED + MAX_PREFERRED // 2)
        assert ("t", 0) not in disks.logs.preferred


async def test_a_preferred_directory_that_fails_is_ignored(disks):
    async with disks.running():
        await create_topic(disks.client, "first", 3)
        assert await alter(disks.client, disks.paths[1]) == UNKNOWN
        await disks.fail(disks.paths[1])
        await create_topic(disks.client, "t")
        assert disks.directory_of("t") != disks.paths[1]


async def test_no_replica_is_moved_while_a_directory_is_offline(disks):
    async with disks.running():
        await create_topic(disks.client, "t", 3)
        where = {disks.directory_of("t", partition): partition for partition in range(3)}
        a, b, c = disks.paths
        await disks.fail(b)
        assert await alter(disks.client, c, "t", where[a]) == STORAGE_ERROR
        assert await alter(disks.client, b, "t", where[a]) == STORAGE_ERROR
        assert await alter(disks.client, c, "t", where[b]) == STORAGE_ERROR
        assert await alter(disks.client, a, "t", where[a]) == NONE
        assert not list(c.glob("*-future"))


# -- on the way --------------------------------------------------------------------------------------------------------


async def test_describe_log_dirs_reports_a_move(disks):
    async with disks.running():
        source, target = await filled(disks)
        future = await begun(disks, target)
        log = disks.logs.get("t", 0)
        assert await described(disks) == {
            (str(source), False): (log.size_bytes, 0),
            (str(target), True): (future.size_bytes, 20 - future.log_end_offset),
        }
        assert 0 < future.size_bytes < log.size_bytes
        (name,) = [path.name for path in target.glob("t-0*")]
        assert name.startswith("t-0.")
        assert name.endswith("-future")
        await append(disks.client, "t", batch(b"20"))
        assert (await described(disks))[str(target), True][1] == 21 - future.log_end_offset
        await throttle(disks, None)
        await moved(disks, target)
        assert await described(disks) == {(str(target), False): (log.size_bytes, 0)}
        assert await records(disks.client) == numbers(21)


async def test_a_repeated_request_continues_the_move(disks):
    async with disks.running():
        _, target = await filled(disks)
        future = await begun(disks, target)
        assert await alter(disks.client, target) == NONE
        assert disks.logs.futures.logs["t", 0] is future
        await throttle(disks, None)
        await moved(disks, target)


@pytest.mark.parametrize("back", [True, False])
async def test_a_request_for_another_directory_abandons_the_move(disks, back):
    async with disks.running():
        source, target = await filled(disks, file_delete_delay_ms="0")
        await begun(disks, target)
        third = next(path for path in disks.paths if path not in (source, target))
        await throttle(disks, None if not back else 1)
        assert await alter(disks.client, source if back else third) == NONE
        await moved(disks, source if back else third)
        await until(lambda: not list(target.glob("t-0*")), "nothing is left of it")
        log = disks.logs.get("t", 0)
        assert not log.is_being_moved
        assert await records(disks.client) == numbers(20)
        assert (await append(disks.client, "t", batch(b"20"))).error_code == NONE


async def test_a_replica_is_moved_back_and_forth(disks):
    async with disks.running():
        source, target = await filled(disks, segment_bytes="300")
        for number, path in enumerate((target, source, target, source)):
            assert await alter(disks.client, path) == NONE
            await moved(disks, path)
            assert (await append(disks.client, "t", batch(b"%d" % (20 + number)))).error_code == NONE
        assert await records(disks.client) == numbers(24)
    async with disks.running():
        await until_leader(disks.broker, "t")
        assert disks.directory_of("t") == source
        assert await records(disks.client) == numbers(24)


async def test_a_topic_is_deleted_during_a_move(disks):
    async with disks.running():
        _, target = await filled(disks, file_delete_delay_ms="0")
        await begun(disks, target)
        request = DeleteTopicsRequest(topic_names=["t"], timeout_ms=DEADLINE_MS)
        assert (await disks.client.call(request, 3)).responses[0].error_code == NONE
        await until(lambda: not [path for root in disks.paths for path in root.glob("t-0*")], "both copies are gone")
        assert disks.logs.futures.logs == {}
        assert disks.broker.services.replicas.moves.moves == {}
        await filled(disks, 3)
        assert await records(disks.client) == numbers(3)
    for path in disks.paths:
        assert "t 0 20" not in (path / "recovery-point-offset-checkpoint").read_text()


async def test_records_are_deleted_during_a_move(disks):
    async with disks.running():
        _, target = await filled(disks, segment_bytes="300")
        future = await begun(disks, target)
        before = DeleteRecordsPartition(partition_index=0, offset=13)
        request = DeleteRecordsRequest(
            topics=[DeleteRecordsTopic(name="t", partitions=[before])], timeout_ms=DEADLINE_MS
        )
        assert (await disks.client.call(request, 2)).topics[0].partitions[0].low_watermark == 13
        await throttle(disks, None)
        await moved(disks, target)
        log = disks.logs.get("t", 0)
        assert log is future
        assert log.log_start_offset == log.segments[0].base_offset == 13
        assert await records(disks.client, offset=13) == numbers(13, 20)


async def test_a_log_that_starts_within_a_batch(disks):
    async with disks.running():
        await create_topic(disks.client, "t")
        for number in range(0, 30, 5):
            values = [b"%d" % value for value in range(number, number + 5)]
            assert (await append(disks.client, "t", batch(*values))).error_code == NONE
        before = DeleteRecordsPartition(partition_index=0, offset=12)
        request = DeleteRecordsRequest(
            topics=[DeleteRecordsTopic(name="t", partitions=[before])], timeout_ms=DEADLINE_MS
        )
        assert (await disks.client.call(request, 2)).topics[0].partitions[0].low_watermark == 12
        target = other_than(disks, disks.directory_of("t"))
        assert await alter(disks.client, target) == NONE
        await moved(disks, target)
        log = disks.logs.get("t", 0)
        assert (log.segments[0].base_offset, log.log_start_offset, log.log_end_offset) == (10, 12, 30)
        assert [one for one in await records(disks.client, offset=12) if one[0] >= 12] == numbers(12, 30)


async def test_the_settings_of_a_topic_change_during_a_move(disks):
    async with disks.running():
        _, target = await filled(disks)
        future = await begun(disks, target)
        change = AlterableConfig(name="max.message.bytes", config_operation=0, value="100")
        resource = AlterConfigsResource(resource_type=2, resource_name="t", configs=[change])
        await disks.client.call(IncrementalAlterConfigsRequest(resources=[resource], validate_only=False))
        await until(lambda: future.config.max_message_bytes == 100, "the copy has heard of it")
        await throttle(disks, None)
        await moved(disks, target)
        assert (await append(disks.client, "t", batch(bytes(200)))).error_code == 10


async def test_readers_of_the_old_files_are_not_disturbed(disks):
    async with disks.running():
        source, target = await filled(disks, file_delete_delay_ms="0")
        old = disks.logs.get("t", 0)
        before = old.read(0, 1 << 20, max_offset=old.log_end_offset).records
        async with wire_client(disks.broker.bootstrap_servers) as other:
            waiting = asyncio.create_task(
                other.call(fetch_request("t", 20, max_wait_ms=20_000, min_bytes=1), 12)
            )  # a long poll that began before the move
            await until(lambda: disks.broker.services.replicas.fetches.size, "it waits")
            assert await alter(disks.client, target) == NONE
            await moved(disks, target)
            await until(lambda: not list(source.glob("t-0*")), "the old files are gone")
            assert len(before.to_bytes()) == old.size_bytes
            assert (await append(disks.client, "t", batch(b"20"))).error_code == NONE
            answer = await asyncio.wait_for(waiting, DEADLINE_S)
            assert answer.responses[0].partitions[0].error_code == NONE
            assert b"20" in bytes(answer.responses[0].partitions[0].records)


async def test_producer_state_and_transactions_are_moved(disks):
    async with disks.running():
        source, target = await filled(disks, 2)
        open_batch = batch(b"2", producer_id=7, producer_epoch=0, sequence=0, transactional=True)
        log = disks.logs.get("t", 0)
        log.append_as_leader(bytearray(open_batch), 0)
        idempotent = batch(b"3", producer_id=8, producer_epoch=0, sequence=0)
        assert (await append(disks.client, "t", idempotent)).base_offset == 3
        log.commit_all()
        stable = log.last_stable_offset
        assert stable == 2
        known = {entry.producer_id: entry.to_snapshot() for entry in log.producers.producers.values()}
        assert await alter(disks.client, target) == NONE
        await moved(disks, target)
        log = disks.logs.get("t", 0)
        assert log.directory.parent == target != source
        assert log.last_stable_offset == stable
        assert {entry.producer_id: entry.to_snapshot() for entry in log.producers.producers.values()} == known
        assert (await append(disks.client, "t", idempotent)).base_offset == 3  # it is a repetition
        assert log.log_end_offset == 4


@pytest.mark.parametrize("what", ["deleted", "moved elsewhere"])
async def test_removing_the_copy_waits_for_a_sync_in_progress(disks, monkeypatch, what):
    """Here for a sync of it: its directory is not renamed meanwhile."""
    async with disks.running():
        source, target = await filled(disks, file_delete_delay_ms="0")
        third = next(path for path in disks.paths if path not in (source, target))
        held, go_on = asyncio.Event(), asyncio.Event()
        flush = disks.logs.flusher.flush

        async def slow_flush(log, offset=None):
            if log is disks.logs.futures.logs.get(("t", 0)) and log.directory.parent == target:
                held.set()
                await go_on.wait()
            await flush(log, offset)

        monkeypatch.setattr(disks.logs.flusher, "flush", slow_flush)
        assert await alter(disks.client, target) == NONE
        await held.wait()
        if what == "deleted":
            request = DeleteTopicsRequest(topic_names=["t"], timeout_ms=DEADLINE_MS)
            asking = asyncio.create_task(disks.client.call(request, 3))
        else:
            asking = asyncio.create_task(alter(disks.client, third))
        await until(lambda: not disks.broker.services.replicas.moves.moves, "it has been told to end")
        for _ in range(100):
            await asyncio.sleep(0)
        assert len(replicas_of(disks)) == 2
        go_on.set()
        await asking
        if what == "deleted":
            await until(lambda: not replicas_of(disks), "nothing is left")
        else:
            await moved(disks, third)
            assert await records(disks.client) == numbers(20)
