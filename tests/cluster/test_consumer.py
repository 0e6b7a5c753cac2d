"""Our consumer and several brokers: one nearby is read, and any of them may die."""

import asyncio
import contextlib

import pytest

from client.admin.admin import Admin
from client.consumer.consumer import Consumer
from client.consumer.group_metadata import OffsetAndMetadata
from client.producer.producer import Producer
from client.topic_partition import TopicPartition
from protocol.error_codes import ErrorCode
from protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchResponse
from support.cluster_security import PLAINTEXT, with_security
from support.polling import until

RACK_AWARE = "org.apache.kafka.common.replica.RackAwareReplicaSelector"


async def write(cluster, topic, values):
    async with Producer(**cluster.options(*await cluster.live())) as producer:
        futures = [producer.send_nowait(topic, b"%d" % value) for value in values]
        await producer.flush()
        assert all(future.result().offset >= 0 for future in futures)


@contextlib.asynccontextmanager
async def handling(consumer):
    """What is handled, in order."""
    values = []

    async def handle():
        async for record in consumer:
            values.append(int(record.value))  # noqa: PERF401  # others look at it meanwhile

    task = asyncio.create_task(handle())
    try:
        yield values
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


@with_security(PLAINTEXT)
async def test_a_nearby_follower_is_read_and_the_leader_after_its_death(start_cluster):
    async with start_cluster(0, replica_selector_class=RACK_AWARE) as cluster:
        for broker_id, rack in enumerate("ab"):
            await cluster.start(broker_id, broker_rack=rack)
        await cluster.create_topic("t", {0: [0, 1]}, {"min.insync.replicas": "1"})
        partition = TopicPartition("t", 0)
        async with Consumer(**cluster.options(), client_rack="b", retry_backoff_ms=20) as consumer:
            consumer.assign({partition: "beginning"})
            state = consumer._states[partition]
            async with handling(consumer) as values:
                await write(cluster, "t", range(100))
                await until(lambda: len(values) == 100, "all are read")
                await until(lambda: state.read_replica == 1, "the follower is read")
                await write(cluster, "t", range(100, 200))
                await until(lambda: len(values) == 200, "all are read from the follower")
                assert state.read_replica == 1
                await cluster.kill_and_expire(1)
                await write(cluster, "t", range(200, 300))
                await until(lambda: len(values) == 300, "all are read from the leader")
        assert values == list(range(300))


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
@with_security(PLAINTEXT)
async def test_the_coordinator_is_killed(start_cluster, protocol):
    partition = TopicPartition("t", 0)
    settings = {"offsets_topic_replication_factor": "3", "group_initial_rebalance_delay_ms": "0"}
    async with start_cluster(**settings) as cluster:
        await cluster.create_topic("t", {0: [0, 1, 2]})
        async with (
            Consumer(
                "t",
                **cluster.options(),
                group_id="g",
                group_protocol=protocol,
                auto_offset_reset="earliest",
                auto_commit_interval_ms=100,
                retry_backoff_ms=20,
                heartbeat_interval_ms=200,
            ) as consumer,
            handling(consumer) as values,
        ):
            await write(cluster, "t", range(50))
            await until(lambda: len(values) == 50, "all are handled")
            async with Admin(**cluster.options()) as admin:
                await cluster.kill_and_expire((await admin.describe_group("g")).coordinator)
            await write(cluster, "t", range(50, 100))
            await until(lambda: values[-1] == 99, "all are handled")

            async def all_committed():
                found = await consumer.committed([partition])
                return found and found[partition].offset == consumer.position(partition)

            await until(all_committed, "they are committed, at the new coordinator")
            assert consumer.group_metadata().generation_id > 0
        assert sorted(set(values)) == list(range(100))


OFFSETS = TopicPartition("__consumer_offsets", 0)
ANSWERS = 50  # as many as a coordinator has to give while it waits; it would be done after a few


@with_security(PLAINTEXT)
async def test_a_new_coordinator_returns_only_replicated_offsets(start_cluster, tmp_path):
    async with start_cluster(
        offsets_topic_num_partitions="1",
        auto_leader_rebalance_enable="false",
        zookeeper_session_timeout_ms="20000",
        offsets_commit_timeout_ms="500",  # the election is asked for by the same connection, behind the commit
    ) as cluster:
        old = await cluster.controller()
        new, slow = {0, 1, 2} - {old}
        await cluster.create_topic("t", {0: [old]})
        await cluster.create_topic(OFFSETS.topic, {0: [old, new, slow]}, {"min.insync.replicas": "1"})
        async with Admin(**cluster.options(old, new)) as admin:
            assert await admin.alter_partition_reassignments({OFFSETS: [new, old, slow]}) == {OFFSETS: None}
            partition = TopicPartition("t", 0)
            await admin.alter_group_offsets("g", {partition: OffsetAndMetadata(1)})

            async def ask_new():
                connection = await admin._cluster.connection(new)
                request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=None)])
                return (await connection.call(request, OffsetFetchResponse, 8)).groups[0]

            def log_of(broker_id):
                return (tmp_path / f"broker-{broker_id}/{OFFSETS.topic}-0/{0:020}.log").read_bytes()

            cluster.pause(slow)
            try:
                before = len(log_of(old))
                committing = asyncio.create_task(admin.alter_group_offsets("g", {partition: OffsetAndMetadata(2)}))
                await until(lambda: len(log_of(old)) > before and log_of(new) == log_of(old), "two of three have it")
                electing = asyncio.create_task(admin.elect_leaders([OFFSETS]))  # told when all brokers know
                await until_error(ask_new, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
                for _ in range(ANSWERS):
                    assert (await ask_new()).error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            finally:
                cluster.resume(slow)
            await until_error(ask_new, ErrorCode.NONE)
            assert (await ask_new()).topics[0].partitions[0].committed_offset == 2
            assert await electing == {OFFSETS: None}
            await asyncio.gather(committing, return_exceptions=True)


async def until_error(ask, code):
    async def is_so():
        return (await ask()).error_code == code

    await until(is_so, f"the answer is {code.name}")
