"""Fetch: long polls, limits, isolation, old versions, topic ids, epochs; sessions are in test_fetch_sessions.py."""

from __future__ import annotations

import asyncio

import pytest

from broker import fetch_answers
from protocol.compression import CompressionType
from protocol.error_codes import ErrorCode
from protocol.message_set import iter_messages
from protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from protocol.record_batch import iter_batches
from support.broker import running_broker
from support.deadlines import DEADLINE_MS
from support.polling import until
from support.transactions import TransactionalProducer
from support.wire import WireClient, append, batch, create_topic, fetch, produce, wire_client

pytestmark = pytest.mark.asyncio(loop_scope="module")

LONG_MS = 20_000
"""A wait that no test waits out."""


def only(answer):
    (topic,) = answer.responses
    (partition,) = topic.partitions
    return partition


def values(records):
    return [record.value for one in iter_batches(records) for record in one.records()]


def fetch_many(*wanted, **fields):
    """(topic, partition, offset, max bytes) …"""
    topics = [
        FetchTopic(
            topic=topic,
            partitions=[FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=size)],
        )
        for topic, partition, offset, size in wanted
    ]
    defaults = {"replica_id": -1, "max_wait_ms": 0, "min_bytes": 1, "max_bytes": 1 << 24, "session_epoch": -1}
    return FetchRequest(**defaults | fields | {"topics": topics})


def by_topic(answer):
    return {topic.topic: topic.partitions[0] for topic in answer.responses}


# -- what is read ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(18))
async def test_every_version_reads(client, name, version):
    topic = name()
    topic_id = await create_topic(client, topic)
    for value in (b"a", b"b", b"c"):
        await append(client, topic, batch(value))
    named = {"topic_id": topic_id} if version >= 13 else {}
    request = fetch("" if version >= 13 else topic, 1, **named)
    if version < 7:
        request.session_epoch = -1
    one = only(await client.call(request, version))
    assert (one.error_code, one.high_watermark) == (0, 3)
    assert one.last_stable_offset == (3 if version >= 4 else -1)
    assert one.log_start_offset == (0 if version >= 5 else -1)
    if version >= 4:
        assert values(one.records) == [b"b", b"c"]
        assert one.aborted_transactions is None
    else:
        messages = [record for message in iter_messages(one.records) for record in message.records()]
        assert [(record.offset, record.value) for record in messages] == [(1, b"b"), (2, b"c")]
        assert {message.magic for message in iter_messages(one.records)} == {0 if version < 2 else 1}


@pytest.mark.parametrize("version", [0, 2, 3])
@pytest.mark.parametrize("codec", [CompressionType.GZIP, CompressionType.SNAPPY, CompressionType.LZ4])
async def test_compressed_batches_are_down_converted(client, name, version, codec):
    topic = name()
    await create_topic(client, topic)
    await append(client, topic, batch(b"a", b"b", codec=codec))
    one = only(await client.call(fetch(topic, 0), version))
    (message,) = iter_messages(one.records)
    assert message.compression is codec
    assert [(record.offset, record.value) for record in message.records()] == [(0, b"a"), (1, b"b")]


async def test_zstd_and_old_versions(client, name):
    topic, forced = name(), name()
    await create_topic(client, topic)
    await create_topic(client, forced, compression_type="zstd")
    await append(client, topic, batch(b"a", codec=CompressionType.ZSTD))
    for version in (4, 9, 10):  # only a topic that is set to zstd is refused: Kafka does not look into batches
        assert only(await client.call(fetch(topic), version)).error_code == 0
    assert only(await client.call(fetch(topic), 3)).error_code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    for version in (0, 3, 9):
        one = only(await client.call(fetch(forced), version))
        assert one.error_code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
        assert one.high_watermark == -1
    assert only(await client.call(fetch(forced), 10)).error_code == 0


async def test_down_conversion_in_one_answer_is_bounded(client, name, monkeypatch):
    monkeypatch.setattr(fetch_answers, "MAX_CONVERTED_BYTES", 4000)
    topic = name()
    await create_topic(client, topic)
    for size in (1000, 1000, 1000, 1000, 1000, 9000, 10):
        await append(client, topic, batch(b"v" * size))
    offset, seen = 0, []
    while offset < 7:
        one = only(await client.call(fetch(topic, offset), 3))
        offsets = [record.offset for message in iter_messages(one.records) for record in message.records()]
        assert offsets[0] == offset
        seen.append(len(offsets))
        offset = offsets[-1] + 1
    assert seen == [3, 2, 1, 1]


async def test_down_conversion_can_be_forbidden(client, name):
    topic = name()
    await create_topic(client, topic, message_downconversion_enable="false")
    await append(client, topic, batch(b"a"))
    assert only(await client.call(fetch(topic), 3)).error_code == ErrorCode.UNSUPPORTED_VERSION
    assert only(await client.call(fetch(topic), 4)).error_code == 0


@pytest.mark.parametrize("version", [0, 1, 2])
async def test_old_clients_get_the_beginning_of_a_message_above_their_limit(client, name, version):
    topic = name()
    await create_topic(client, topic)
    await append(client, topic, batch(b"v" * 1000))
    one = only(await client.call(fetch(topic, partition_max_bytes=100), version))
    assert 0 < len(one.records) <= 100
    assert int.from_bytes(one.records[8:12], "big") + 12 > len(one.records)


# -- limits (KIP-74) ---------------------------------------------------------------------------------------------------


async def test_the_first_batch_is_complete_for_any_limit(client, name):
    topic = name()
    await create_topic(client, topic)
    for value in (b"a" * 5000, b"b" * 5000):
        await append(client, topic, batch(value))
    for limits in ({"partition_max_bytes": 1}, {"max_bytes": 1}, {"partition_max_bytes": 0, "max_bytes": 0}):
        for version in (3, 4, 12):
            one = only(await client.call(fetch(topic, **limits), version))
            if version >= 4:
                assert values(one.records) == [b"a" * 5000]
            else:
                assert [r.value for m in iter_messages(one.records) for r in m.records()] == [b"a" * 5000]
    one = only(await client.call(fetch(topic, 1, partition_max_bytes=6000), 12))
    assert values(one.records) == [b"b" * 5000]


async def test_only_the_first_partition_with_data_may_exceed_the_limits(client, name):
    empty, first, second = name(), name(), name()
    for topic in (empty, first, second):
        await create_topic(client, topic)
    await append(client, first, batch(b"a" * 5000))
    await append(client, second, batch(b"b" * 5000))
    request = fetch_many((empty, 0, 0, 100), (first, 0, 0, 100), (second, 0, 0, 100))
    found = by_topic(await client.call(request, 12))
    assert [len(found[topic].records) > 0 for topic in (empty, first, second)] == [False, True, False]
    assert found[second].high_watermark == 1
    # The whole answer's limit counts down over the partitions.
    request = fetch_many((first, 0, 0, 1 << 20), (second, 0, 0, 1 << 20), max_bytes=6000)
    found = by_topic(await client.call(request, 12))
    assert values(found[first].records) == [b"a" * 5000]
    assert len(found[second].records) == 0
    request = fetch_many((first, 0, 0, 1 << 20), (second, 0, 0, 1 << 20), max_bytes=20_000)
    found = by_topic(await client.call(request, 12))
    assert values(found[second].records) == [b"b" * 5000]


async def test_the_limit_of_the_broker_applies(tmp_path):
    async with (
        running_broker(tmp_path / "data", fetch_max_bytes="1024") as broker,
        wire_client(broker.bootstrap_servers) as client,
    ):
        await create_topic(client, "t", partitions=2)
        for partition in (0, 1):
            await append(client, "t", batch(b"a" * 900), partition)
        answer = await client.call(fetch_many(("t", 0, 0, 1 << 20), ("t", 1, 0, 1 << 20)), 12)
        sizes = [len(partition.records) > 0 for topic in answer.responses for partition in topic.partitions]
        assert sizes == [True, False]


# -- errors ------------------------------------------------------------------------------------------------------------


async def test_offsets_out_of_range(client, name):
    topic = name()
    await create_topic(client, topic)
    await append(client, topic, batch(b"a", b"b"))
    for offset in (-1, -2, 3, 2**62):
        one = only(await client.call(fetch(topic, offset, max_wait_ms=LONG_MS), 12))
        assert (one.error_code, one.high_watermark) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)
    one = only(await client.call(fetch(topic, 2), 12))  # the end itself is in range
    assert (one.error_code, len(one.records)) == (0, 0)


async def test_leader_epochs(broker, client, name):
    topic = name()
    await create_topic(client, topic)
    await append(client, topic, batch(b"a"))
    broker.services.replicas.partitions[(topic, 0)].leader_epoch = 5
    for epoch, code in ((-1, 0), (5, 0), (4, ErrorCode.FENCED_LEADER_EPOCH), (6, ErrorCode.UNKNOWN_LEADER_EPOCH)):
        one = only(await client.call(fetch(topic, current_leader_epoch=epoch, max_wait_ms=LONG_MS), 12))
        assert one.error_code == code
    broker.services.replicas.partitions[(topic, 0)].leader_epoch = 0


async def test_unknown_topics_partitions_and_ids(client, name):
    topic = name()
    topic_id = await create_topic(client, topic)
    request = fetch_many(("missing", 0, 0, 100), (topic, 9, 0, 100), max_wait_ms=LONG_MS)
    found = by_topic(await client.call(request, 12))
    assert found["missing"].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert found[topic].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    for unknown in (b"x" * 16, bytes(16)):
        one = only(await client.call(fetch("", topic_id=unknown, max_wait_ms=LONG_MS), 13))
        assert one.error_code == ErrorCode.UNKNOWN_TOPIC_ID
    one = only(await client.call(fetch("", 0, 9, topic_id=topic_id, max_wait_ms=LONG_MS), 17))
    assert one.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_unknown_partitions_do_not_end_the_wait_of_the_others(broker, client, name):
    topic = name()
    await create_topic(client, topic)
    async with wire_client(broker.bootstrap_servers) as waiting:
        waiting.send(fetch_many(("missing", 0, 0, 100), (topic, 0, 0, 100), max_wait_ms=LONG_MS), 12)
        await until(lambda: broker.services.replicas.fetches.size == 1, "the fetch waits")
        await append(client, topic, batch(b"a"))
        found = by_topic((await waiting.receive(1, 12))[1])
        assert found["missing"].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert values(found[topic].records) == [b"a"]


async def test_an_empty_request_does_not_wait(client):
    answer = await client.call(fetch_many(max_wait_ms=LONG_MS), 12)
    assert (answer.error_code, answer.responses) == (0, [])


# -- long polls --------------------------------------------------------------------------------------------------------


async def test_a_produce_ends_the_wait(broker, client, name):
    topic = name()
    await create_topic(client, topic)
    async with wire_client(broker.bootstrap_servers) as waiting:
        waiting.send(fetch(topic, max_wait_ms=LONG_MS), 12)
        await until(lambda: broker.services.replicas.fetches.size == 1, "the fetch waits")
        await append(client, topic, batch(b"a"))
        _, answer = await waiting.receive(1, 12)
        assert values(only(answer).records) == [b"a"]
    assert broker.services.replicas.fetches.size == 0


async def test_the_wait_lasts_until_min_bytes(broker, client, name):
    topic = name()
    await create_topic(client, topic, partitions=2)
    both = FetchRequest(
        replica_id=-1,
        max_wait_ms=LONG_MS,
        min_bytes=2000,
        max_bytes=1 << 20,
        session_epoch=-1,
        topics=[
            FetchTopic(
                topic=topic,
                partitions=[FetchPartition(partition=i, fetch_offset=0, partition_max_bytes=1 << 20) for i in (0, 1)],
            )
        ],
    )
    async with wire_client(broker.bootstrap_servers) as waiting:
        waiting.send(both, 12)
        await until(lambda: broker.services.replicas.fetches.size == 1, "the fetch waits")
        await append(client, topic, batch(b"a" * 900), 0)
        await append(client, topic, batch(b"b" * 100), 1)
        assert broker.services.replicas.fetches.size == 1
        await append(client, topic, batch(b"c" * 1000), 1)
        _, answer = await waiting.receive(1, 12)
        first, second = answer.responses[0].partitions
        assert values(first.records) == [b"a" * 900]
        assert values(second.records) == [b"b" * 100, b"c" * 1000]


async def test_an_expired_wait_returns_the_available_records(client, name):
    topic = name()
    await create_topic(client, topic)
    started = asyncio.get_running_loop().time()
    assert only(await client.call(fetch(topic, max_wait_ms=60), 12)).high_watermark == 0
    assert asyncio.get_running_loop().time() - started >= 0.059
    await append(client, topic, batch(b"a"))
    assert values(only(await client.call(fetch(topic, max_wait_ms=60, min_bytes=5000), 12)).records) == [b"a"]
    for wait, least in ((0, 5000), (-1, 5000), (LONG_MS, 0), (LONG_MS, -1)):
        one = only(await client.call(fetch(topic, 1, max_wait_ms=wait, min_bytes=least), 12))
        assert (one.error_code, len(one.records)) == (0, 0)


async def test_min_bytes_is_reduced_to_max_bytes(client, name):
    topic = name()
    await create_topic(client, topic)
    await append(client, topic, batch(b"a" * 500))
    one = only(await client.call(fetch(topic, max_wait_ms=LONG_MS, min_bytes=1 << 30, max_bytes=200), 12))
    assert values(one.records) == [b"a" * 500]


async def test_deleting_the_topic_ends_the_wait(broker, client, name):
    from protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState

    topic = name()
    topic_id = await create_topic(client, topic)
    async with wire_client(broker.bootstrap_servers) as waiting:
        waiting.send(fetch("", topic_id=topic_id, max_wait_ms=LONG_MS), 13)
        await until(lambda: broker.services.replicas.fetches.size == 1, "the fetch waits")
        await client.call(DeleteTopicsRequest(topics=[DeleteTopicState(name=topic)], timeout_ms=DEADLINE_MS))
        _, answer = await waiting.receive(1, 13)
        assert only(answer).error_code in (
            ErrorCode.UNKNOWN_TOPIC_ID,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            ErrorCode.NOT_LEADER_OR_FOLLOWER,
        )


async def test_a_client_that_disconnects_leaves_nothing_in_the_purgatory(broker, client, name, monkeypatch):
    monkeypatch.setattr("broker.network.connection.CLOSE_LINGER_S", 0.1)
    topic = name()
    await create_topic(client, topic, partitions=3)
    fetches = broker.services.replicas.fetches
    connections = []
    for _ in range(20):
        waiting = await WireClient.open(broker.bootstrap_servers)
        waiting.send(fetch(topic, max_wait_ms=LONG_MS), 12)
        connections.append(waiting)
    await until(lambda: fetches.size == 20, "twenty fetches wait")
    for waiting in connections[::2]:
        waiting.close()
    for waiting in connections[1::2]:
        waiting.writer.transport.abort()
    await until(lambda: fetches.size == 0, "no fetch waits")
    assert not fetches._waiters
    await append(client, topic, batch(b"a"))


async def test_pipelined_requests_are_answered_in_order(broker, client, name):
    topic = name()
    await create_topic(client, topic)
    async with wire_client(broker.bootstrap_servers) as pipelined:
        sent = [pipelined.send(fetch(topic, max_wait_ms=100), 12)]
        sent.append(pipelined.send(produce(topic, batch(b"a")), 9))
        sent.append(pipelined.send(fetch(topic, 0, max_wait_ms=LONG_MS), 11))
        sent.append(pipelined.send(fetch(topic, 99), 10))
        received = [await pipelined.receive(key, version) for key, version in ((1, 12), (0, 9), (1, 11), (1, 10))]
        assert [correlation_id for correlation_id, _ in received] == sent
        # One request at a time: the produce behind the long poll could not end it.
        assert len(only(received[0][1]).records) == 0
        assert values(only(received[2][1]).records) == [b"a"]
        assert only(received[3][1]).error_code == ErrorCode.OFFSET_OUT_OF_RANGE


async def test_stopping_the_broker_answers_waiting_fetches(tmp_path):
    async with running_broker(tmp_path / "data") as broker:
        client = await WireClient.open(broker.bootstrap_servers)
        await create_topic(client, "t")
        client.send(fetch("t", max_wait_ms=LONG_MS), 12)
        await until(lambda: broker.services.replicas.fetches.size == 1, "the fetch waits")
    client.close()


# -- isolation ---------------------------------------------------------------------------------------------------------


async def test_isolation_levels(broker, client, name):
    topic = name()
    await create_topic(client, topic)
    aborting, committing = (TransactionalProducer(client.call, f"{way} {topic}") for way in ("abort", "commit"))
    for producer in (aborting, committing):
        await producer.begin()

    async def read(isolation):
        one = only(await client.call(fetch(topic, isolation_level=isolation), 12))
        return one, [(r.offset, r.value) for b in iter_batches(one.records) if not b.is_control for r in b.records()]

    await append(client, topic, batch(b"plain"))
    assert await aborting.write(topic, b"aborted") == 1
    assert await committing.write(topic, b"committed") == 2
    await append(client, topic, batch(b"later"))
    one, seen = await read(1)
    assert (one.last_stable_offset, one.high_watermark, seen) == (1, 4, [(0, b"plain")])
    assert one.aborted_transactions == []
    one, seen = await read(0)
    assert [value for _, value in seen] == [b"plain", b"aborted", b"committed", b"later"]
    assert one.aborted_transactions is None
    # A reader of committed data waits while the transaction is open.
    async with wire_client(broker.bootstrap_servers) as waiting:
        waiting.send(fetch(topic, 1, isolation_level=1, max_wait_ms=LONG_MS), 12)
        await until(lambda: broker.services.replicas.fetches.size == 1, "the fetch waits")
        await aborting.ended(committed=False)
        _, answer = await waiting.receive(1, 12)
        assert only(answer).last_stable_offset == 2
        (aborted,) = only(answer).aborted_transactions
        assert (aborted.producer_id, aborted.first_offset) == (aborting.producer_id, 1)
    await committing.ended(committed=True)
    await until(lambda: broker.services.replicas.partitions[(topic, 0)].log.last_stable_offset == 6, "both have ended")
    one, seen = await read(1)
    assert one.last_stable_offset == 6
    assert [(one.producer_id, one.first_offset) for one in one.aborted_transactions] == [(aborting.producer_id, 1)]
    assert seen[-1] == (3, b"later")
    old = only(await client.call(fetch(topic), 3))  # old clients never see control records
    offsets = [record.offset for message in iter_messages(old.records) for record in message.records()]
    assert offsets == [0, 1, 2, 3]
