"""Three broker processes: what is acknowledged by all in-sync replicas survives their kills and stops."""

import asyncio
import contextlib

import pytest

from client.admin.admin import Admin
from client.consumer.offsets import EARLIEST
from client.topic_partition import TopicPartition
from protocol.error_codes import ErrorCode
from support.acknowledged import Load, Reader, check_kept
from support.cluster import broker_cluster
from support.counts import count
from support.deadlines import DEADLINE_MS
from support.polling import until
from support.wire import batch, produce, wire_client

LAG_MS = 1_500
ALL = [0, 1, 2]
KEPT = ("t", 0)


@contextlib.asynccontextmanager
async def cluster_with_topic(tmp_path, *, min_isr=2, partitions=1, **settings):
    """(cluster, leader, other, another): three brokers and a topic `t` on all of them, led by the controller.

    So that a follower can be stopped without keeping the controller from deciding.
    """
    settings = {"replica_lag_time_max_ms": str(LAG_MS), "log_initial_task_delay_ms": "100", **settings}
    async with broker_cluster(tmp_path, **settings) as cluster:
        leader = await cluster.controller()
        others = [one for one in ALL if one != leader]
        assignment = {partition: [leader, *others] for partition in range(partitions)}
        await cluster.create_topic("t", assignment, {"min.insync.replicas": str(min_isr), "segment.bytes": "200000"})
        yield cluster, leader, *others


async def isr_is(cluster, *expected):
    async def holds():
        return sorted((await cluster.state("t")).get("isr", [])) == sorted(expected)

    await until(holds, f"the ISR is {expected}")


async def until_acknowledged(load, more):
    """Wait until the load has got `more` acknowledgements than now."""
    wanted = acknowledged(load) + more

    async def holds():
        assert not load.errors
        return acknowledged(load) >= wanted

    await until(holds, f"{more} more acknowledgements")


def acknowledged(load):
    return sum(len(one) for one in load.acknowledged.values())


def log_bytes(tmp_path, broker_id):
    """The records of every segment of t-0, by file."""
    directory = tmp_path / f"broker-{broker_id}" / "t-0"
    return {path.name: path.read_bytes() for path in sorted(directory.glob("*.log"))}


async def logs_are_equal(tmp_path):
    async def holds():
        first, *others = [log_bytes(tmp_path, broker_id) for broker_id in ALL]
        return all(other == first for other in others)

    await until(holds, "the replicas' logs are byte-identical")
    assert sum(map(len, log_bytes(tmp_path, 0).values())) > 0


@contextlib.contextmanager
def producing(cluster):
    """A producer with acks=all that never gives up; at the end every record that it sent is acknowledged."""
    load = Load("load", cluster.bootstrap(), {"t": 1}, 0)
    try:
        yield load
    except BaseException:
        load.stop()
        raise


async def check(cluster, load, reader):
    """Every acknowledged record is there once and in order, and the end has not gone back."""
    await asyncio.to_thread(load.finish)
    await asyncio.to_thread(reader.look_at_offsets)
    await asyncio.to_thread(reader.read_on)
    check_kept(reader, [load], lambda load, where: load.acknowledged[where])
    reader.close()


async def produced(client, acks=-1, timeout_ms=DEADLINE_MS):
    """The error code of one record."""
    request = produce("t", batch(b"v"), acks=acks)
    request.timeout_ms = timeout_ms
    response = await client.call(request, 9)
    return ErrorCode(response.responses[0].partition_responses[0].error_code)


async def test_a_killed_follower_catches_up(tmp_path):
    async with cluster_with_topic(tmp_path) as (cluster, leader, other, another):
        reader = Reader(cluster.bootstrap(), [KEPT])
        with producing(cluster) as load:
            await until_acknowledged(load, 500)
            await cluster.kill(another)
            await isr_is(cluster, leader, other)
            await until_acknowledged(load, 500)
            await asyncio.to_thread(reader.look_at_offsets)
            await cluster.start(another)
            await isr_is(cluster, *ALL)
            await until_acknowledged(load, 500)
            await check(cluster, load, reader)
        await logs_are_equal(tmp_path)


@pytest.mark.parametrize("version", ["3.9", "2.6"])
async def test_a_paused_follower_leaves_the_isr_and_rejoins(tmp_path, version):
    """Its session lives on, so that it is the leader that decides; before 2.7 it writes to ZooKeeper itself."""
    settings = {"zookeeper_session_timeout_ms": "30000", "inter_broker_protocol_version": version}
    async with cluster_with_topic(tmp_path, **settings) as (cluster, leader, other, another):
        reader = Reader(cluster.bootstrap(), [KEPT])
        with producing(cluster) as load:
            await until_acknowledged(load, 200)
            cluster.pause(another)
            await isr_is(cluster, leader, other)
            await until_acknowledged(load, 200)
            cluster.resume(another)
            await isr_is(cluster, *ALL)
            assert (await cluster.state("t"))["leader_epoch"] == 0
            await until_acknowledged(load, 200)
            await check(cluster, load, reader)
        await logs_are_equal(tmp_path)


async def test_min_insync_replicas_are_required(tmp_path):
    settings = {"zookeeper_session_timeout_ms": "30000"}
    async with cluster_with_topic(tmp_path, **settings) as (cluster, leader, other, another):
        async with wire_client(cluster.bootstrap(leader)) as client:

            async def is_taken():
                return await produced(client) == ErrorCode.NONE

            async def is_refused():
                # A record that the leader takes before it knows the controller's ISR waits until its time is up.
                return await produced(client, timeout_ms=100) == ErrorCode.NOT_ENOUGH_REPLICAS

            await until(is_taken, "all are there")
            cluster.pause(other)
            cluster.pause(another)
            assert await produced(client, acks=1) == ErrorCode.NONE  # or they would lack nothing
            await isr_is(cluster, leader)
            await until(is_refused, "the leader knows that it is alone")
            assert await produced(client, acks=1) == ErrorCode.NONE
            cluster.resume(other)
            await isr_is(cluster, leader, other)
            await until(is_taken, "the leader has heard of it")
            cluster.resume(another)
            await isr_is(cluster, *ALL)
        await logs_are_equal(tmp_path)


async def test_a_record_does_not_wait_for_followers_that_are_too_many_messages_behind(tmp_path):
    """Whether or not another record is written meanwhile: nothing else makes the leader look at what is committed."""
    settings = {"zookeeper_session_timeout_ms": "30000", "replica_lag_max_messages": "10"}
    async with cluster_with_topic(tmp_path, min_isr=1, **settings) as (cluster, leader, other, another):
        async with wire_client(cluster.bootstrap(leader)) as client:
            assert await produced(client) == ErrorCode.NONE
            cluster.pause(other)
            cluster.pause(another)
            for _ in range(10):
                assert await produced(client, acks=1) == ErrorCode.NONE
            assert await produced(client) == ErrorCode.NONE
            await isr_is(cluster, leader)
            assert await produced(client) == ErrorCode.NONE
            cluster.resume(other)
            cluster.resume(another)
            await isr_is(cluster, *ALL)
        await logs_are_equal(tmp_path)


async def test_records_that_were_deleted_are_deleted_everywhere(tmp_path):
    async with cluster_with_topic(tmp_path) as (cluster, leader, *_):
        async with wire_client(cluster.bootstrap(leader)) as client:
            for _ in range(10):
                assert await produced(client) == ErrorCode.NONE
        async with Admin(bootstrap_servers=cluster.bootstrap()) as admin:
            assert await admin.delete_records({TopicPartition(*KEPT): 7}) == {TopicPartition(*KEPT): 7}
        await cluster.kill_and_expire(leader)

        async def is_led_by_another():
            return (await cluster.state("t"))["leader"] not in (leader, -1)

        await until(is_led_by_another, "another leads")
        await cluster.start(leader)
        async with Admin(bootstrap_servers=cluster.bootstrap()) as admin:
            found = await admin.list_offsets({TopicPartition(*KEPT): EARLIEST})
        assert found[TopicPartition(*KEPT)].offset == 7


@pytest.mark.counted
@pytest.mark.timeout(0)
async def test_a_killed_leader_is_replaced(tmp_path):
    async with cluster_with_topic(tmp_path) as (cluster, *_):
        reader = Reader(cluster.bootstrap(), [KEPT])
        with producing(cluster) as load:
            for _ in range(count(1, 5)):
                await until_acknowledged(load, 500)
                leader = (await cluster.state("t"))["leader"]
                await cluster.kill(leader)
                await until_acknowledged(load, 500)
                await asyncio.to_thread(reader.look_at_offsets)
                assert (await cluster.state("t"))["leader"] != leader
                await cluster.start(leader)
                await isr_is(cluster, *ALL)
            await check(cluster, load, reader)
        await logs_are_equal(tmp_path)


@pytest.mark.counted
@pytest.mark.timeout(0)
async def test_the_whole_cluster_is_killed(tmp_path):
    async with cluster_with_topic(tmp_path) as (cluster, *_):
        reader = Reader(cluster.bootstrap(), [KEPT])
        with producing(cluster) as load:
            for _ in range(count(1, 5)):
                await until_acknowledged(load, 500)
                await asyncio.to_thread(reader.look_at_offsets)
                await asyncio.gather(*(cluster.kill(broker_id) for broker_id in ALL))
                await cluster.start(*ALL)
                await asyncio.to_thread(reader.look_at_offsets)
                await until_acknowledged(load, 500)
            await isr_is(cluster, *ALL)
            await check(cluster, load, reader)
        await logs_are_equal(tmp_path)
