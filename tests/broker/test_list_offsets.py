"""ListOffsets: every kind of timestamp in every version, OffsetForLeaderEpoch, DeleteRecords: what asks for offsets."""

from __future__ import annotations

import pytest

from protocol.error_codes import ErrorCode
from protocol.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from support.deadlines import DEADLINE_MS
from support.transactions import TransactionalProducer
from support.wire import NOW_MS, append, batch, create_topic, fetch

pytestmark = pytest.mark.asyncio(loop_scope="module")

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED = -1, -2, -3, -4, -5


async def list_offsets(client, topic, timestamp, version=9, partition=0, limit=5, epoch=-1, isolation=0):
    asked = ListOffsetsPartition(
        partition_index=partition, timestamp=timestamp, max_num_offsets=limit, current_leader_epoch=epoch
    )
    if version > 0:
        asked.max_num_offsets = 1
    request = ListOffsetsRequest(
        replica_id=-1,
        isolation_level=isolation,
        topics=[ListOffsetsTopic(name=topic, partitions=[asked])],
    )
    if version < 4:
        asked.current_leader_epoch = -1
    answer = await client.call(request, version)
    return answer.topics[0].partitions[0]


async def filled(client, topic, **configs):
    """Three batches of three records each: timestamps NOW, NOW+10 s, NOW+5 s and the two milliseconds after."""
    await create_topic(client, topic, **configs)
    for seconds in (0, 10, 5):
        await append(client, topic, batch(b"a", b"b", b"c", timestamp=NOW_MS + 1000 * seconds))


@pytest.mark.parametrize("version", range(1, 10))
async def test_every_version(client, name, version):
    topic = name()
    await filled(client, topic)
    epoch = 0 if version >= 4 else -1
    for timestamp, expected in (
        (LATEST, (-1, 9, epoch)),
        (EARLIEST, (-1, 0, epoch)),
        (0, (NOW_MS, 0, epoch)),
        (NOW_MS + 1, (NOW_MS + 1, 1, epoch)),
        (NOW_MS + 3, (NOW_MS + 10_000, 3, epoch)),
        (NOW_MS + 10_002, (NOW_MS + 10_002, 5, epoch)),
        (NOW_MS + 10_003, (-1, -1, -1)),
    ):
        found = await list_offsets(client, topic, timestamp, version)
        assert found.error_code == 0
        assert (found.timestamp, found.offset, found.leader_epoch) == expected, timestamp


@pytest.mark.parametrize(
    ("timestamp", "first_version", "expected"),
    [
        (MAX_TIMESTAMP, 7, (NOW_MS + 10_002, 5, 0)),
        (EARLIEST_LOCAL, 8, (-1, 0, 0)),
        (LATEST_TIERED, 9, (-1, -1, -1)),
        (-6, 10, None),
        (-(2**63), 10, None),
    ],
)
async def test_timestamps_of_later_versions(client, name, timestamp, first_version, expected):
    topic = name()
    await filled(client, topic)
    for version in range(1, 10):
        found = await list_offsets(client, topic, timestamp, version)
        if version < first_version:
            assert found.error_code == ErrorCode.UNSUPPORTED_VERSION
            assert (found.timestamp, found.offset) == (-1, -1)
        else:
            assert (found.timestamp, found.offset, found.leader_epoch) == expected


async def test_version_0_lists_segments(broker, client, name):
    topic = name()
    await filled(client, topic, segment_bytes="140")
    assert [segment.base_offset for segment in broker.services.logs.get(topic, 0).segments] == [0, 3, 6]
    for timestamp, limit, expected in (
        (LATEST, 5, [9, 6, 3, 0]),
        (LATEST, 2, [9, 6]),
        (EARLIEST, 5, [0]),
        (2**62, 5, [6, 3, 0]),
        (0, 5, []),
    ):
        found = await list_offsets(client, topic, timestamp, 0, limit=limit)
        assert (found.error_code, found.old_style_offsets) == (0, expected), timestamp
    assert (await list_offsets(client, topic, MAX_TIMESTAMP, 0)).error_code == ErrorCode.UNSUPPORTED_VERSION
    assert (await list_offsets(client, "missing", LATEST, 0)).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_an_empty_log(client, name):
    topic = name()
    await create_topic(client, topic)
    for timestamp, offset in ((LATEST, 0), (EARLIEST, 0), (MAX_TIMESTAMP, -1), (0, -1)):
        found = await list_offsets(client, topic, timestamp)
        assert (found.error_code, found.timestamp, found.offset) == (0, -1, offset), timestamp
    assert (await list_offsets(client, topic, LATEST, 0)).old_style_offsets == [0]


async def test_errors(client, name):
    topic = name()
    await filled(client, topic)
    assert (await list_offsets(client, topic, LATEST, partition=1)).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert (await list_offsets(client, topic, LATEST, epoch=3)).error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
    assert (await list_offsets(client, topic, LATEST, epoch=0)).error_code == 0
    asked = [ListOffsetsPartition(partition_index=0, timestamp=LATEST) for _ in range(2)]
    request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=asked)])
    answer = await client.call(request)
    assert [one.error_code for one in answer.topics[0].partitions] == [ErrorCode.INVALID_REQUEST] * 2


async def test_isolation(client, name):
    topic = name()
    await filled(client, topic)
    producer = TransactionalProducer(client.call, "t")
    await producer.begin()
    await producer.write(topic, b"x", timestamp=NOW_MS + 20_000)
    assert (await list_offsets(client, topic, LATEST)).offset == 10
    assert (await list_offsets(client, topic, LATEST, isolation=1)).offset == 9
    assert (await list_offsets(client, topic, NOW_MS + 15_000)).offset == 9
    assert (await list_offsets(client, topic, NOW_MS + 15_000, isolation=1)).offset == -1


# -- DeleteRecords -----------------------------------------------------------------------------------------------------


async def delete_records(client, topic, offset, partition=0, version=2):
    one = DeleteRecordsPartition(partition_index=partition, offset=offset)
    request = DeleteRecordsRequest(topics=[DeleteRecordsTopic(name=topic, partitions=[one])], timeout_ms=DEADLINE_MS)
    answer = await client.call(request, version)
    found = answer.topics[0].partitions[0]
    return found.error_code, found.low_watermark


@pytest.mark.parametrize("version", [0, 1, 2])
async def test_delete_records(client, name, version):
    topic = name()
    await filled(client, topic)
    assert await delete_records(client, topic, 4, version=version) == (0, 4)
    assert await delete_records(client, topic, 2, version=version) == (0, 4)  # it never goes back
    assert (await list_offsets(client, topic, EARLIEST)).offset == 4
    assert (await list_offsets(client, topic, 0)).offset == 4
    assert (await list_offsets(client, topic, LATEST, 0)).old_style_offsets == [9, 4]
    one = (await client.call(fetch(topic, 3), 12)).responses[0].partitions[0]
    assert one.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    one = (await client.call(fetch(topic, 4), 12)).responses[0].partitions[0]
    assert (one.error_code, one.log_start_offset) == (0, 4)
    assert await delete_records(client, topic, -1, version=version) == (0, 9)
    assert (await append(client, topic, batch(b"v"))).log_start_offset == 9
    assert (await list_offsets(client, topic, NOW_MS)).offset == 9


async def test_delete_records_refused(client, name):
    topic, compacted = name(), name()
    await filled(client, topic)
    await create_topic(client, compacted, cleanup_policy="compact")
    for offset in (10, 2**62, -2, -(2**63)):
        assert await delete_records(client, topic, offset) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1), offset
    assert await delete_records(client, topic, 0, partition=5) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)
    assert await delete_records(client, "missing", 0) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)
    assert await delete_records(client, compacted, 0) == (ErrorCode.POLICY_VIOLATION, -1)
    assert (await list_offsets(client, topic, EARLIEST)).offset == 0
    await create_topic(client, "__consumer_offsets")
    assert await delete_records(client, "__consumer_offsets", 0) == (ErrorCode.INVALID_TOPIC_EXCEPTION, -1)


# -- OffsetForLeaderEpoch ----------------------------------------------------------------------------------------------


async def end_of_epoch(client, topic, epoch, current=-1, partition=0, version=4):
    asked = OffsetForLeaderPartition(partition=partition, current_leader_epoch=current, leader_epoch=epoch)
    request = OffsetForLeaderEpochRequest(
        replica_id=-1 if version >= 3 else -2,
        topics=[OffsetForLeaderTopic(topic=topic, partitions=[asked])],
    )
    answer = await client.call(request, version)
    found = answer.topics[0].partitions[0]
    assert found.partition == partition
    return found.error_code, found.leader_epoch, found.end_offset


@pytest.mark.parametrize("version", range(5))
async def test_offset_for_leader_epoch(broker, client, name, version):
    topic = name()
    await filled(client, topic)
    log = broker.services.logs.get(topic, 0)
    log.leader_epochs.assign(4, 5)
    for epoch, expected in ((0, (0, 5)), (1, (0, 5)), (3, (0, 5)), (4, (4, 9)), (5, (-1, -1)), (-1, (-1, -1))):
        code, found, end = await end_of_epoch(client, topic, epoch, version=version)
        assert code == 0
        assert (found, end) == (expected if version >= 1 else (-1, expected[1])), epoch


async def test_offset_for_leader_epoch_errors(client, name):
    topic = name()
    await create_topic(client, topic)
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert await end_of_epoch(client, "missing", 0) == (unknown, -1, -1)
    assert await end_of_epoch(client, topic, 0, partition=3) == (unknown, -1, -1)
    assert await end_of_epoch(client, topic, 0, current=7) == (ErrorCode.UNKNOWN_LEADER_EPOCH, -1, -1)
    assert await end_of_epoch(client, topic, 0, current=0) == (0, 0, 0)
