"""A new leader that does not know yet how far its log is committed tells nobody of an end that others have passed."""

import asyncio

import pytest

from protocol.error_codes import ErrorCode
from protocol.messages.leader_and_isr import LeaderAndIsrPartitionState
from protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from support.pair import pair
from support.polling import until
from support.wire import append, batch, fetch, wire_client

LATEST, EARLIEST, MAX_TIMESTAMP = -1, -2, -3


async def lead_anew(leader, follower):
    """The leader begins another epoch, knowing less than it did; its follower has not heard of that yet."""
    await follower.services.replicas.fetchers.remove([("t", 0)])
    partition = leader.services.replicas.partitions["t", 0]
    partition.log.update_high_watermark(1)
    state = LeaderAndIsrPartitionState(
        partition_index=0,
        controller_epoch=partition.controller_epoch,
        leader=0,
        leader_epoch=partition.leader_epoch + 1,
        isr=[0, 1],
        partition_epoch=partition.partition_epoch + 1,
        replicas=[0, 1],
    )
    outcomes = await leader.services.replicas.controller_requests.become_leader_or_follower(
        [("t", partition.topic_id, state)]
    )
    assert outcomes == {("t", 0): None}
    assert partition.is_high_watermark_behind
    return partition, state


async def offsets(client, timestamp, version=9, **fields):
    asked = ListOffsetsPartition(partition_index=0, timestamp=timestamp)
    request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name="t", partitions=[asked])], **fields)
    answer = (await client.call(request, version)).topics[0].partitions[0]
    return ErrorCode(answer.error_code), answer.offset


async def test_offsets_and_fetches_wait_for_the_replicas(tmp_path):
    async with (
        pair(tmp_path) as (leader, follower),
        wire_client(leader.bootstrap_servers) as client,
        wire_client(leader.bootstrap_servers) as poller,
    ):
        for value in (b"a", b"b", b"c"):
            assert (await append(client, "t", batch(value))).error_code == 0
        partition, state = await lead_anew(leader, follower)
        not_yet = (ErrorCode.OFFSET_NOT_AVAILABLE, -1)
        assert await offsets(client, LATEST) == not_yet
        assert await offsets(client, LATEST, 4) == (ErrorCode.LEADER_NOT_AVAILABLE, -1)
        assert await offsets(client, LATEST, 9, isolation_level=1) == not_yet
        assert await offsets(client, MAX_TIMESTAMP) in (not_yet, (ErrorCode.NONE, 0))
        assert await offsets(client, EARLIEST) == (ErrorCode.NONE, 0)

        committed = (await client.call(fetch("t", 0, max_wait_ms=0), 12)).responses[0].partitions[0]
        assert (committed.error_code, bool(committed.records)) == (0, True)
        assert (committed.high_watermark, committed.last_stable_offset) == (-1, -1)
        for version, code in ((12, ErrorCode.OFFSET_NOT_AVAILABLE), (10, ErrorCode.REPLICA_NOT_AVAILABLE)):
            beyond = (await client.call(fetch("t", 1, max_wait_ms=0), version)).responses[0].partitions[0]
            assert ErrorCode(beyond.error_code) == code

        waiting = asyncio.create_task(poller.call(fetch("t", 2, max_wait_ms=30_000, min_bytes=1), 12))
        await until(lambda: leader.services.replicas.fetches.size == 1, "it waits")
        outcomes = await follower.services.replicas.controller_requests.become_leader_or_follower(
            [("t", partition.topic_id, state)]
        )
        assert outcomes == {("t", 0): None}
        answer = (await waiting).responses[0].partitions[0]
        assert (answer.error_code, answer.high_watermark, bool(answer.records)) == (0, 3, True)
        assert await offsets(client, LATEST) == (ErrorCode.NONE, 3)


async def test_a_follower_restarts_at_the_log_start_of_its_leader(tmp_path):
    async with pair(tmp_path) as (leader, follower), wire_client(leader.bootstrap_servers) as client:
        assert (await append(client, "t", batch(b"a"))).error_code == 0
        copy = follower.services.logs.get("t", 0)
        await until(lambda: copy.log_end_offset == 1, "it has the first")
        await follower.services.replicas.fetchers.remove([("t", 0)])
        log = leader.services.logs.get("t", 0)
        for value in (b"b", b"c", b"d"):
            log.append_as_leader(batch(value), 0)
        log.update_high_watermark(4)
        log.increment_log_start_offset(3)
        follower.services.replicas.fetchers.add(follower.services.replicas.partitions["t", 0])
        await until(lambda: (copy.log_start_offset, copy.log_end_offset) == (3, 4), "it has the last")


@pytest.mark.parametrize("version", [4, 9])
async def test_a_partition_with_one_replica_knows_its_high_watermark_at_once(tmp_path, version):
    async with pair(tmp_path) as (leader, _), wire_client(leader.bootstrap_servers) as client:
        assert await offsets(client, LATEST, version) == (ErrorCode.NONE, 0)
