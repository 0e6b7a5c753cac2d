"""The reader: from where it is told, everything once and in order, whatever the broker does in between."""

import asyncio
import random

import pytest

from client.consumer.reader import Reader
from client.consumer.reader_state import Timestamp
from client.errors import (
    ClosedError,
    IllegalStateError,
    InvalidOptionError,
    KafkaError,
    NoOffsetError,
    OffsetOutOfRangeError,
    UnknownTopicOrPartitionError,
)
from client.producer.producer import Producer
from client.topic_partition import TopicPartition
from protocol.api_keys import ApiKey
from protocol.error_codes import ErrorCode
from protocol.errors import CorruptRecordError
from protocol.messages.fetch import LeaderIdAndEpoch
from protocol.record_batch_builder import RecordBatchBuilder
from support.fake_broker import CLOSE, STALL, FakeBroker
from support.polling import until

T0 = TopicPartition("t", 0)


@pytest.fixture
async def fake():
    async with FakeBroker({"t": 1, "many": 3}) as broker:
        yield broker


def reader(fake, **options):
    options = {
        "retry_backoff_ms": 1,
        "retry_backoff_max_ms": 5,
        "fetch_max_wait_ms": 1,
        "random": random.Random(1),
    } | options
    return Reader(bootstrap_servers=fake.address, **options)


def fill(fake, count, *, topic="t", partition=0, per_batch=3, start=0):
    for first in range(start, start + count, per_batch):
        builder = RecordBatchBuilder()
        for number in range(first, min(first + per_batch, start + count)):
            builder.append(1000 + 10 * number, b"k", b"%d" % number, [("h", b"x")])
        fake.append(topic, partition, builder.build())


async def take(source, count):
    records = []
    async for record in source:
        records.append(record)
        if len(records) == count:
            return records
    return records


def numbers(records):
    return [int(record.value) for record in records]


async def test_a_record_has_all_its_fields(fake):
    fill(fake, 1)
    async with reader(fake) as source:
        source.assign({T0: "beginning"})
        (record,) = await take(source, 1)
    assert (record.topic, record.partition, record.offset, record.timestamp) == ("t", 0, 0, 1000)
    assert (record.key, record.value, record.headers, record.timestamp_type) == (b"k", b"0", (("h", b"x"),), 0)


@pytest.mark.parametrize(
    ("position", "first"),
    [
        ("beginning", 0),
        (0, 0),
        (7, 7),
        (Timestamp(0), 0),
        (Timestamp(1041), 5),
        (Timestamp(1050), 5),
        ("end", 10),
        (Timestamp(99_999), 10),
        (10, 10),
    ],
)
async def test_positions(fake, position, first):
    fill(fake, 10)
    async with reader(fake) as source:
        source.assign({T0: position})
        await until(lambda: source.is_known(T0), "the lookup")
        assert source.position(T0) == first
        fill(fake, 3, start=10)
        assert numbers(await take(source, 13 - first)) == list(range(first, 13))
        assert source.position(T0) == 13
        assert await source.end_offsets([T0]) == {T0: 13}
        assert await source.beginning_offsets([T0]) == {T0: 0}
        found = await source.offsets_for_times({T0: 1041})
        assert found[T0].offset == 5
        assert await source.offsets_for_times({T0: 99_999}) == {T0: None}


async def test_small_answers_are_combined(fake):
    fill(fake, 200)
    async with reader(fake, max_partition_fetch_bytes=300, max_buffered_bytes=500) as source:
        source.assign({T0: "beginning"})
        assert numbers(await take(source, 200)) == list(range(200))


async def test_many_partitions_each_in_order(fake):
    for partition in range(3):
        fill(fake, 30, topic="many", partition=partition, start=100 * partition)
    async with reader(fake) as source:
        source.assign({TopicPartition("many", partition): "beginning" for partition in range(3)})
        records = await take(source, 90)
    for partition in range(3):
        mine = [record for record in records if record.partition == partition]
        assert numbers(mine) == [100 * partition + number for number in range(30)]


@pytest.mark.parametrize("version", [4, 11, 12, 13, 17])
async def test_topic_names_and_ids(fake, version):
    fake.versions[ApiKey.FETCH] = (0, version)
    fill(fake, 5)
    async with reader(fake) as source:
        source.assign({T0: "beginning"})
        assert numbers(await take(source, 5)) == [0, 1, 2, 3, 4]


async def test_an_old_broker_without_topic_ids(fake):
    fake.versions[ApiKey.METADATA] = (0, 9)
    fill(fake, 5)
    async with reader(fake) as source:
        source.assign({T0: "beginning"})
        assert numbers(await take(source, 5)) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(
    "trouble",
    [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_LEADER_EPOCH, ErrorCode.UNKNOWN_TOPIC_ID, CLOSE],
    ids=str,
)
async def test_temporary_errors_are_retried(fake, trouble):
    fill(fake, 20)
    fake.script[ApiKey.FETCH] = [trouble, ErrorCode.NONE, trouble]
    fake.script[ApiKey.LIST_OFFSETS] = [trouble]
    async with reader(fake, max_partition_fetch_bytes=300) as source:
        source.assign({T0: "beginning"})
        assert numbers(await take(source, 20)) == list(range(20))


async def test_leader_change_is_followed():
    first = FakeBroker({"t": 1}, node_id=1)
    second = FakeBroker(first.topics, node_id=2, cluster=first.cluster)
    first.cluster.append(second)
    second.logs, second.next_offsets = first.logs, first.next_offsets
    async with first, second:
        fill(first, 5)
        async with reader(first) as source:
            source.assign({T0: "beginning"})
            assert numbers(await take(source, 5)) == [0, 1, 2, 3, 4]
            for broker in (first, second):
                broker.leaders["t", 0] = 2
            first.script[ApiKey.FETCH] = [ErrorCode.NOT_LEADER_OR_FOLLOWER] * 1000
            fill(first, 5, start=5)
            assert numbers(await take(source, 5)) == [5, 6, 7, 8, 9]
        assert second.seen(ApiKey.FETCH)


async def test_a_leader_is_found_although_metadata_lag_behind():
    """The old leader names the new one (KIP-951), and every broker that is asked for metadata the old one."""
    old = FakeBroker({"t": 1}, node_id=1)
    new = FakeBroker(old.topics, node_id=2, cluster=old.cluster)
    old.cluster.append(new)
    for broker in (old, new):
        broker.leaders["t", 0] = 1

    def named(request, version):
        response = old._fetch(request, version, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        response.responses[0].partitions[0].current_leader = LeaderIdAndEpoch(leader_id=2, leader_epoch=1)
        return response

    async with old, new:
        fill(new, 5)
        old.script[ApiKey.FETCH] = [named] * 1000
        async with reader(old, auto_offset_reset="none") as source:
            source.assign({T0: 0})
            assert numbers(await take(source, 5)) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("held", [ApiKey.API_VERSIONS, ApiKey.FETCH])
async def test_a_late_answer_of_a_replaced_leader_is_ignored(held):
    """Neither is it asked, once there is a connection, nor is its answer heard: here it has fewer records."""
    old = FakeBroker({"t": 1}, node_id=1)
    new = FakeBroker(old.topics, node_id=2, cluster=old.cluster)
    old.cluster.append(new)
    goes_on, leader = asyncio.Event(), 1

    def led(response):
        for topic in response.topics:
            for partition in topic.partitions:
                partition.leader_id = partition.leader_epoch = leader
        return response

    async def late(request, version):
        await goes_on.wait()
        return getattr(old, f"_{held.name.lower()}")(request, version, ErrorCode.NONE)

    async with old, new:
        fill(new, 5)
        for broker in (old, new):
            metadata = broker._metadata
            broker._metadata = lambda *arguments, metadata=metadata: led(metadata(*arguments))
        old.script[held] = [late]
        async with reader(new, auto_offset_reset="none") as source:
            source.assign({T0: 2})
            await until(lambda: old.seen(held), "the leader is asked")
            leader = 2
            source._cluster.request_refresh()
            assert numbers(await take(source, 3)) == [2, 3, 4]
            goes_on.set()
            await until(lambda: 1 not in source._fetcher._polling, "the old leader is left alone")
            fill(new, 2, start=5)
            assert numbers(await take(source, 2)) == [5, 6]
        assert len(old.seen(ApiKey.FETCH)) == (held is ApiKey.FETCH)


@pytest.mark.parametrize(("policy", "first"), [("earliest", 0), ("latest", 10)])
async def test_out_of_range_by_policy(fake, policy, first):
    fill(fake, 10)
    async with reader(fake, auto_offset_reset=policy) as source:
        source.assign({T0: 99})
        await until(lambda: source.is_known(T0) and source.position(T0) != 99, "the reset")
        fill(fake, 1, start=10)
        assert numbers(await take(source, 1)) == [first]


async def test_out_of_range_without_policy(fake):
    async with reader(fake, auto_offset_reset="none") as source:
        source.assign({T0: 99})
        with pytest.raises(OffsetOutOfRangeError, match=r"t-0.*offset 99"):
            await source.fetch()
        source.seek(T0, 0)
        fill(fake, 1)
        assert numbers(await take(source, 1)) == [0]


async def test_seek_drops_what_was_fetched_ahead(fake):
    fill(fake, 30)
    async with reader(fake) as source:
        source.assign({T0: "beginning"})
        assert numbers(await take(source, 2)) == [0, 1]
        source.seek(T0, 20)
        assert numbers(await take(source, 2)) == [20, 21]
        source.seek(T0, "beginning")
        with pytest.raises(NoOffsetError):
            source.position(T0)
        assert numbers(await take(source, 2)) == [0, 1]
        with pytest.raises(KeyError):
            source.seek(TopicPartition("t", 9), 0)


async def test_an_answer_to_a_fetch_from_before_a_seek_is_dropped(fake):
    fill(fake, 30)
    async with reader(fake) as source:
        fetch = fake._fetch

        def seek_meanwhile(*arguments):
            fake._fetch = fetch
            source.seek(T0, 0)
            return fetch(*arguments)

        fake._fetch = seek_meanwhile
        source.assign({T0: 20})
        assert numbers(await take(source, 5)) == [0, 1, 2, 3, 4]


async def test_chunks_fetched_ahead_of_a_seek_are_dropped(fake):
    fill(fake, 30)
    async with reader(fake, max_partition_fetch_bytes=300) as source:
        source.assign({T0: 0})
        await until(lambda: len(source._ready) > 2, "chunks fetched ahead")
        source.seek(T0, 25)
        assert numbers(await take(source, 5)) == [25, 26, 27, 28, 29]


async def test_a_new_assignment_replaces_the_old_one(fake):
    fill(fake, 10)
    fill(fake, 10, topic="many", start=50)
    async with reader(fake) as source:
        source.assign({T0: "beginning"})
        await take(source, 1)
        source.assign({TopicPartition("many", 0): "beginning"})
        assert source.assignment() == [TopicPartition("many", 0)]
        assert numbers(await take(source, 10)) == list(range(50, 60))


async def test_partitions_are_added_to_those_that_are_read(fake):
    fill(fake, 10)
    fill(fake, 5, topic="many", start=50)
    async with reader(fake) as source:
        source.assign({T0: "beginning"})
        assert numbers(await take(source, 4)) == [0, 1, 2, 3]
        source.incremental_assign({TopicPartition("many", 0): 2})
        assert source.assignment() == [T0, TopicPartition("many", 0)]
        assert sorted(numbers(await take(source, 9))) == [4, 5, 6, 7, 8, 9, 52, 53, 54]
        with pytest.raises(IllegalStateError, match="t-0 is assigned already"):
            source.incremental_assign({TopicPartition("many", 1): 0, T0: 0})
        assert source.assignment() == [T0, TopicPartition("many", 0)]


async def test_pause_and_resume(fake):
    fill(fake, 3, topic="many", partition=0)
    one, two = TopicPartition("many", 0), TopicPartition("many", 1)
    async with reader(fake) as source:
        source.assign({one: "beginning", two: "beginning"})
        source.pause([one])
        fill(fake, 3, topic="many", partition=1, start=10)
        assert numbers(await take(source, 3)) == [10, 11, 12]
        assert await source.fetch(timeout_ms=20) == []
        source.resume([one])
        assert numbers(await take(source, 3)) == [0, 1, 2]


async def test_prefetching_is_bounded(fake):
    fill(fake, 3000)
    async with reader(fake, max_partition_fetch_bytes=1000, max_buffered_bytes=2000) as source:
        source.assign({T0: "beginning"})
        await take(source, 1)
        for _ in range(200):
            await asyncio.sleep(0)
        state = source._states[T0]
        assert state.buffered < 2000 + 1500
        assert len(fake.seen(ApiKey.FETCH)) < 10
        assert numbers(await take(source, 2999)) == list(range(1, 3000))


async def test_batches_without_decoding(fake):
    fill(fake, 7)
    async with reader(fake) as source:
        source.assign({T0: "beginning"})
        run = await source.fetch_batches()
        assert run.partition == T0
        assert run.high_watermark == source.high_watermark(T0) == 7
        assert sum(batch.record_count for batch in run.batches) == 7
        assert source.position(T0) == 7
        assert await source.fetch_batches(timeout_ms=5) is None


async def test_one_table_of_all_partitions(fake):
    pytest.importorskip("pyarrow")
    partitions = [TopicPartition("many", number) for number in range(3)]
    for partition in partitions:
        fill(fake, 7, topic="many", partition=partition.partition, start=partition.partition * 100)
    async with reader(fake) as source:
        source.assign(dict.fromkeys(partitions, 1))
        found = {number: [] for number in range(3)}
        while sum(map(len, found.values())) < 18:
            table = await source.fetch_table(["partition", "offset", "value"])
            for row in table.to_pylist():
                found[row["partition"]].append((row["offset"], int(row["value"])))
        assert found == {number: [(at, number * 100 + at) for at in range(1, 7)] for number in range(3)}
        assert [source.position(partition) for partition in partitions] == [7, 7, 7]
        nothing = await source.fetch_table(["offset"], timeout_ms=5)
        assert (nothing.num_rows, nothing.schema.names) == (0, ["offset"])


async def test_a_failed_table_loses_no_records(fake):
    pytest.importorskip("pyarrow")
    partitions = [TopicPartition("many", number) for number in range(3)]
    for partition in partitions:
        fill(fake, 3, topic="many", partition=partition.partition)
    sound = fake.logs["many", 1][0]
    fake.logs["many", 1][0] = sound[:-1] + bytes([sound[-1] ^ 1])
    async with reader(fake) as source:
        source.assign(dict.fromkeys(partitions, 0))
        with pytest.raises(InvalidOptionError, match="columns='ofset'"):
            await source.fetch_table(["ofset"])

        async def everything():
            for _ in partitions:
                await source.fetch_table()

        with pytest.raises(CorruptRecordError):
            await everything()
        assert source.position(partitions[1]) == 0
        fake.logs["many", 1][0] = sound
        rows = 0
        for partition in partitions:
            source.seek(partition, 0)
        while rows < 9:
            rows += (await source.fetch_table()).num_rows
        assert rows == 9


async def test_a_failed_table_of_several_answers(fake):
    pytest.importorskip("pyarrow")
    fill(fake, 9)
    fake.logs["t", 0][-1] = fake.logs["t", 0][-1][:-1] + b"?"
    async with reader(fake, max_partition_fetch_bytes=1) as source:
        source.assign({T0: 0})
        await until(lambda: len(source._ready) == 3, "three answers are there")
        with pytest.raises(CorruptRecordError):
            await source.fetch_table()
        assert source.position(T0) == 0


async def test_a_corrupt_batch_is_reported(fake):
    fill(fake, 3)
    broken = bytearray(fake.logs["t", 0][0])
    broken[-1] ^= 1
    fake.logs["t", 0][0] = bytes(broken)
    async with reader(fake) as source:
        source.assign({T0: "beginning"})
        with pytest.raises(CorruptRecordError):
            await take(source, 3)


async def test_a_failed_lookup_is_retried(fake):
    fill(fake, 3)
    fake.script[ApiKey.LIST_OFFSETS] = [ErrorCode.TOPIC_AUTHORIZATION_FAILED]
    async with reader(fake) as source:
        source.assign({T0: "beginning"})
        with pytest.raises(KafkaError, match="TOPIC_AUTHORIZATION_FAILED"):
            await take(source, 1)
        assert numbers(await take(source, 3)) == [0, 1, 2]


async def test_the_first_of_several_errors_is_raised(fake):
    """The second one may follow from it: here the caller comes after both."""
    fake.script[ApiKey.FETCH] = [ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.UNKNOWN_SERVER_ERROR]
    async with reader(fake) as source:
        source.assign({T0: 0})
        await until(lambda: len(fake.seen(ApiKey.FETCH)) >= 3, "both errors are answered")
        with pytest.raises(KafkaError, match="t-0: TOPIC_AUTHORIZATION_FAILED"):
            await source.fetch()


async def test_an_error_is_raised_before_the_records_that_were_fetched_after_it(fake):
    fill(fake, 3)
    fake.script[ApiKey.FETCH] = [ErrorCode.TOPIC_AUTHORIZATION_FAILED]
    async with reader(fake) as source:
        source.assign({T0: 0})
        await until(lambda: source._ready, "records are fetched")
        with pytest.raises(KafkaError, match="t-0: TOPIC_AUTHORIZATION_FAILED"):
            await source.fetch()
        assert numbers(await take(source, 3)) == [0, 1, 2]


async def test_permanent_errors_are_raised(fake):
    fake.script[ApiKey.FETCH] = [ErrorCode.TOPIC_AUTHORIZATION_FAILED]
    async with reader(fake) as source:
        source.assign({T0: 0})
        with pytest.raises(KafkaError, match="t-0: TOPIC_AUTHORIZATION_FAILED"):
            await source.fetch()


async def test_unknown_topic_and_partition(fake):
    async with reader(fake) as source:
        with pytest.raises(UnknownTopicOrPartitionError, match="nosuch"):
            await source.partitions_for("nosuch")
        source.assign({TopicPartition("t", 5): "beginning"})
        with pytest.raises(UnknownTopicOrPartitionError, match="no partition 5"):
            await source.fetch()
        assert not fake.seen(ApiKey.METADATA)[0].allow_auto_topic_creation


async def test_close_ends_a_waiting_fetch(fake):
    async with reader(fake) as source:
        source.assign({T0: "end"})
        waiting = asyncio.ensure_future(anext(aiter(source)))
        await until(lambda: fake.seen(ApiKey.FETCH), "the fetch")
    with pytest.raises(ClosedError):
        await waiting


async def test_close_does_not_wait_for_a_long_poll(fake):
    fake.script[ApiKey.FETCH] = [STALL]
    async with reader(fake) as source:
        source.assign({T0: 0})
        assert await source.fetch(timeout_ms=20) == []


async def test_mock_cluster(mock_cluster):
    topic = "read-back"
    async with Producer(bootstrap_servers=mock_cluster.bootstrap, compression_type="lz4", linger_ms=1) as sender:
        partitions = await sender.partitions_for(topic)
        for number in range(500):
            sender.send_nowait(topic, b"%d" % number, partition=partitions[number % len(partitions)])
        await sender.flush()
    async with Reader(bootstrap_servers=mock_cluster.bootstrap, fetch_max_wait_ms=10) as source:
        names = [TopicPartition(topic, partition) for partition in partitions]
        source.assign(dict.fromkeys(names, "beginning"))
        records = await take(source, 500)
        assert sorted(numbers(records)) == list(range(500))
        for name in names:
            mine = [int(record.value) for record in records if record.partition == name.partition]
            assert mine == sorted(mine)
        assert sum((await source.end_offsets(names)).values()) == 500
