"""The producer: what it is told, what arrives, in which order, whatever the broker does in between."""

import asyncio
import random

import pytest

from client.errors import (
    BufferFullError,
    ClosedError,
    DeliveryTimeoutError,
    KafkaError,
    NoBrokersAvailableError,
    RecordTooLargeError,
    UnknownTopicOrPartitionError,
)
from client.producer.producer import Producer
from protocol.api_keys import ApiKey
from protocol.error_codes import ErrorCode
from protocol.messages.produce import ProduceResponse
from protocol.record_batch import read_batch
from support.deadlines import DEADLINE_S
from support.fake_broker import APPLY_AND_CLOSE, CLOSE, STALL, FakeBroker
from support.polling import until

PRODUCE = ApiKey.PRODUCE


@pytest.fixture
async def fake():
    async with FakeBroker({"t": 1, "many": 4}) as broker:
        yield broker


def producer(fake, **options):
    options = {"retry_backoff_ms": 1, "retry_backoff_max_ms": 5, "random": random.Random(1)} | options
    return Producer(bootstrap_servers=fake.address, **options)


def values(fake, topic="t", partition=0):
    return [record.value for record in fake.records(topic, partition)]


async def test_all_fields_of_a_record_arrive(fake):
    async with producer(fake) as sender:
        done = await sender.send("t", b"v", key=b"k", timestamp_ms=77, headers=[("a", b"1"), ("a", None)])
        assert done == ("t", 0, 0, 77)
        assert done.topic_partition == ("t", 0)
        done = await sender.send("t")
        assert done.offset == 1
    first, second = fake.records("t", 0)
    assert (first.key, first.value, first.timestamp) == (b"k", b"v", 77)
    assert first.headers == (("a", b"1"), ("a", None))
    assert (second.key, second.value, second.headers) == (None, None, ())
    assert second.timestamp > 1_700_000_000_000


@pytest.mark.parametrize("compression", [None, "gzip", "snappy", "lz4", "zstd"])
async def test_compression(fake, compression):
    async with producer(fake, compression_type=compression, linger_ms=5) as sender:
        await asyncio.gather(*(sender.send("t", b"value" * 20) for _ in range(50)))
    assert values(fake) == [b"value" * 20] * 50
    (data,) = fake.logs["t", 0]
    assert read_batch(data).compression.name.lower() == (compression or "none")


async def test_records_of_one_event_loop_iteration_share_a_batch(fake):
    async with producer(fake) as sender:
        await sender.send("t", b"first")
        futures = [sender.send_nowait("t", b"%d" % number) for number in range(100)]
        offsets = [(await future).offset for future in futures]
    assert offsets == list(range(1, 101))
    assert len(fake.seen(PRODUCE)) == 2


async def test_batches_are_cut_at_batch_size(fake):
    async with producer(fake, batch_size=1000, linger_ms=10_000, delivery_timeout_ms=20_000) as sender:
        for _ in range(50):
            sender.send_nowait("t", bytes(100))
        await sender.flush()
    sizes = [len(data) for data in fake.logs["t", 0]]
    assert len(sizes) >= 5
    assert all(size <= 1000 for size in sizes)


async def test_a_request_holds_a_batch_of_every_partition(fake):
    async with producer(fake) as sender:
        await sender.partitions_for("many")
        for partition in range(4):
            sender.send_nowait("many", b"x", partition=partition)
        await sender.flush()
    (request,) = fake.seen(PRODUCE)
    assert [part.index for part in request.topic_data[0].partition_data] == [0, 1, 2, 3]
    assert request.acks == -1


async def test_requests_are_bounded(fake):
    async with producer(fake, batch_size=600, max_request_size=1000) as sender:
        await sender.partitions_for("many")
        for partition in range(4):
            sender.send_nowait("many", bytes(500), partition=partition)
        await sender.flush()
        with pytest.raises(RecordTooLargeError, match="max_request_size"):
            await sender.send("t", bytes(1000))
    assert len(fake.seen(PRODUCE)) == 4


async def test_keys_choose_partitions(fake):
    from client.producer.partitioner import murmur2

    async with producer(fake) as sender:
        for number in range(20):
            key = b"%d" % number
            done = await sender.send("many", key=key)
            assert done.partition == (murmur2(key) & 0x7FFFFFFF) % 4


async def test_a_partition_that_is_added_later(fake):
    """Records for it wait, in their order; records for other partitions of the topic do not."""
    async with producer(fake) as sender:
        await sender.send("t", b"first", partition=0)
        waiting = [sender.send_nowait("t", b"%d" % number, partition=2) for number in range(3)]
        assert (await sender.send("t", b"second", partition=0)).offset == 1
        assert (await sender.send("t", b"third")).offset == 2
        assert not any(future.done() for future in waiting)
        asked = len(fake.seen(ApiKey.METADATA))
        await until(lambda: len(fake.seen(ApiKey.METADATA)) > asked + 2, "the producer asks again and again")
        fake.topics["t"] = 3
        waiting.append(sender.send_nowait("t", b"3", partition=2))
        assert [(await future)[1:3] for future in waiting] == [(2, offset) for offset in range(4)]
    assert values(fake, partition=2) == [b"0", b"1", b"2", b"3"]


async def test_a_partition_that_does_not_come(fake):
    async with producer(fake, max_block_ms=30) as sender:
        wrong = sender.send_nowait("t", b"wrong", partition=9)
        with pytest.raises(UnknownTopicOrPartitionError, match=r"topic t: .* no partition 9 within 0\.03 s"):
            await wrong
        assert (await sender.send("t", b"right")).offset == 0
        fake.topics["t"] = 10
        assert (await sender.send("t", b"now right", partition=9)).offset == 0


async def test_a_partition_that_cannot_exist_is_refused_at_once(fake):
    async with producer(fake) as sender, asyncio.timeout(DEADLINE_S):
        with pytest.raises(UnknownTopicOrPartitionError, match="no partition -1"):
            await sender.send("t", partition=-1)
    async with producer(fake, partitioner=lambda key, partitions, available: 5) as sender:
        with pytest.raises(UnknownTopicOrPartitionError, match="no partition 5"):
            await sender.send("t")


@pytest.mark.parametrize("acks", [0, 1, "all"])
async def test_acks(fake, acks):
    async with producer(fake, acks=acks) as sender:
        done = await sender.send("t", b"x")
        await sender.flush()
        assert done.offset == (-1 if acks == 0 else 0)
        assert fake.seen(PRODUCE) or acks == 0
        await until(lambda: values(fake), "the record")
    assert fake.seen(PRODUCE)[0].acks == {0: 0, 1: 1, "all": -1}[acks]


RETRIABLE = [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_ENOUGH_REPLICAS, CLOSE, APPLY_AND_CLOSE]


@pytest.mark.parametrize("trouble", RETRIABLE, ids=str)
async def test_retries_keep_order_and_write_once(fake, trouble):
    fake.script[PRODUCE] = [trouble, ErrorCode.NONE, trouble, trouble]
    async with producer(fake, batch_size=200) as sender:
        futures = [sender.send_nowait("t", b"%03d" % number + bytes(60)) for number in range(30)]
        offsets = [(await future).offset for future in futures]
    assert [value[:3] for value in values(fake)] == [b"%03d" % number for number in range(30)]
    assert offsets == list(range(30))


async def test_without_idempotence_a_lost_answer_may_write_twice_but_keeps_order(fake):
    fake.script[PRODUCE] = [APPLY_AND_CLOSE]
    async with producer(fake, acks=1) as sender:
        first = await sender.send("t", b"a")
        second = await sender.send("t", b"b")
    assert values(fake) == [b"a", b"a", b"b"]
    assert (first.offset, second.offset) == (1, 2)
    assert not fake.seen(ApiKey.INIT_PRODUCER_ID)


async def test_the_producer_id_is_requested_until_it_is_granted(fake):
    fake.script[ApiKey.INIT_PRODUCER_ID] = [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, CLOSE]
    async with producer(fake) as sender:
        assert (await sender.send("t", b"a")).offset == 0
    assert len(fake.seen(ApiKey.INIT_PRODUCER_ID)) == 3


async def test_without_a_producer_id_records_fail_with_its_error(fake):
    fake.script[ApiKey.INIT_PRODUCER_ID] = [ErrorCode.CLUSTER_AUTHORIZATION_FAILED]
    async with producer(fake) as sender:
        with pytest.raises(KafkaError) as refused:
            await sender.send("t", b"a")
        assert refused.value.code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        assert (await sender.send("t", b"b")).offset == 0  # it is asked for again
    assert values(fake) == [b"b"]


async def test_an_answer_without_a_partition_is_an_error(fake):
    fake.script[PRODUCE] = [lambda request, version: ProduceResponse()]
    async with producer(fake, acks=1) as sender:
        with pytest.raises(KafkaError, match="lacks a partition"):
            await sender.send("t", b"a")


async def test_sequences_count_up_per_partition(fake):
    async with producer(fake, batch_size=400) as sender:
        for number in range(24):
            sender.send_nowait("many", bytes(60), partition=number % 2)
        await sender.flush()
    for partition in (0, 1):
        batches = [read_batch(data) for data in fake.logs["many", partition]]
        assert len(batches) > 1
        assert batches[0].record_count > 1
        expected = 0
        for batch in batches:
            assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (1001, 0, expected)
            expected += batch.record_count


@pytest.mark.parametrize(("epoch", "ids"), [(0, [(1001, 0), (1001, 1)]), (32766, [(1001, 32766), (1002, 32766)])])
async def test_a_permanent_failure_is_followed_by_a_new_epoch(fake, epoch, ids):
    """Where there is none left, by another producer id."""
    fake.producer_epoch = epoch
    fake.script[PRODUCE] = [ErrorCode.NONE, ErrorCode.INVALID_RECORD]
    async with producer(fake) as sender:
        await sender.send("t", b"a")
        with pytest.raises(KafkaError, match="INVALID_RECORD"):
            await sender.send("t", b"b")
        await sender.send("t", b"c")
    assert values(fake) == [b"a", b"c"]
    batches = [read_batch(data) for data in fake.logs["t", 0]]
    assert [(batch.producer_id, batch.producer_epoch) for batch in batches] == ids
    assert [batch.base_sequence for batch in batches] == [0, 0]


async def test_a_duplicate_of_an_old_batch_counts_as_written(fake):
    fake.script[PRODUCE] = [ErrorCode.DUPLICATE_SEQUENCE_NUMBER]
    async with producer(fake) as sender:
        assert (await sender.send("t", b"a")).offset == -1


async def test_a_permanent_error_fails_the_record_and_names_the_partition(fake):
    fake.script[PRODUCE] = [ErrorCode.TOPIC_AUTHORIZATION_FAILED]
    async with producer(fake) as sender:
        with pytest.raises(KafkaError, match="t-0: TOPIC_AUTHORIZATION_FAILED"):
            await sender.send("t", b"a")
        await sender.send("t", b"b")


async def test_delivery_timeout_names_the_last_reason(fake):
    fake.script[PRODUCE] = [ErrorCode.NOT_ENOUGH_REPLICAS] * 1000
    async with producer(fake, delivery_timeout_ms=2_000) as sender:  # a busy machine connects meanwhile
        with pytest.raises(DeliveryTimeoutError, match=r"t-0: not acknowledged within 2 s: .*NOT_ENOUGH_REPLICAS"):
            await sender.send("t", b"a")


async def test_leader_change_is_followed():
    first = FakeBroker({"t": 1}, node_id=1)
    second = FakeBroker(first.topics, node_id=2, cluster=first.cluster)
    first.cluster.append(second)
    async with first, second:
        async with producer(first) as sender:
            await sender.send("t", b"a")
            for broker in (first, second):
                broker.leaders["t", 0] = 2
            await sender.send("t", b"b")
        assert values(first) == [b"a"]
        assert values(second) == [b"b"]


async def test_without_acknowledgements_a_leader_change_is_followed_when_the_old_leader_closes_the_connection():
    first = FakeBroker({"t": 1}, node_id=1)
    second = FakeBroker(first.topics, node_id=2, cluster=first.cluster)
    first.cluster.append(second)
    async with first, second, producer(first, acks=0) as sender:
        await sender.send("t", b"a")
        await until(lambda: values(first) == [b"a"], "the record is there")
        for broker in (first, second):
            broker.leaders["t", 0] = 2

        async def arrives():
            await sender.send("t", b"b")  # those that the old leader gets are lost
            return values(second)

        await until(arrives, "a record arrives at the new leader")
        assert values(first) == [b"a"]


async def test_records_wait_for_a_broker_that_dies():
    first = FakeBroker({"t": 1}, node_id=1)
    second = FakeBroker(first.topics, node_id=2, cluster=first.cluster)
    first.cluster.append(second)
    async with first, second:
        for broker in (first, second):
            broker.leaders["t", 0] = 2
        async with producer(first) as sender:
            await sender.send("t", b"a")
            await second.stop()
            waiting = asyncio.ensure_future(sender.send("t", b"b"))
            await until(lambda: len(first.seen(ApiKey.METADATA)) >= 4, "looking for a new leader")
            first.leaders["t", 0] = 1
            await waiting
        assert values(first) == [b"b"]


async def test_a_topic_is_created_later(fake):
    async with producer(fake) as sender:
        futures = [sender.send_nowait("late", b"%d" % number) for number in range(5)]
        await until(lambda: len(fake.seen(ApiKey.METADATA)) >= 3, "asking again")
        fake.topics["late"] = 1
        await asyncio.gather(*futures)
    assert values(fake, "late") == [b"0", b"1", b"2", b"3", b"4"]
    assert fake.seen(ApiKey.METADATA)[1].allow_auto_topic_creation


@pytest.mark.parametrize("allowed", [True, False])
async def test_topics_are_auto_created_if_enabled(fake, allowed):
    async with producer(fake, allow_auto_create_topics=allowed) as sender:
        await sender.send("t", b"x")
    assert fake.seen(ApiKey.METADATA)[-1].allow_auto_topic_creation is allowed


async def test_an_unknown_topic_fails_after_the_timeout(fake):
    async with producer(fake, max_block_ms=30) as sender:
        with pytest.raises(UnknownTopicOrPartitionError, match="topic nosuch"):
            await sender.send("nosuch", b"x")
        await sender.send("t", b"x")


async def test_buffer_memory_blocks_senders(fake):
    produce = fake._produce

    async with producer(fake, buffer_memory=2000, acks=1) as sender:
        await sender.send("t", b"warm")
        fake._produce = lambda *arguments: STALL  # takes it and does not answer
        sender.send_nowait("t", bytes(1500))
        with pytest.raises(BufferFullError, match="buffer_memory=2000"):
            sender.send_nowait("t", bytes(1500))
        waiting = [asyncio.ensure_future(sender.send("t", b"%d" % number + bytes(900))) for number in range(4)]
        await asyncio.sleep(0)
        assert not any(future.done() for future in waiting)
        fake._produce = produce
        fake.drop_connections()
        await asyncio.gather(*waiting)
        assert sender._memory.used == 0
    assert [value[:1] for value in values(fake)[2:]] == [b"0", b"1", b"2", b"3"]


async def test_buffer_memory_waits_no_longer_than_max_block_ms(fake):
    async with producer(fake, buffer_memory=1000, max_block_ms=20, acks=1) as sender:
        await sender.send("t", b"warm")
        fake.script[PRODUCE] = [STALL]
        first = sender.send_nowait("t", bytes(900))
        with pytest.raises(BufferFullError, match="within"):
            await sender.send("t", bytes(900))
        await until(lambda: len(fake.seen(PRODUCE)) == 2, "the first is on its way")
        fake.drop_connections()
        assert (await first).offset == 1


async def test_many_waiting_senders_all_get_their_turn_in_order(fake):
    async with producer(fake, buffer_memory=500, batch_size=200, acks=1) as sender:
        waiting = [asyncio.ensure_future(sender.send("t", b"%d" % number)) for number in range(300)]
        await asyncio.sleep(0)
        for one in waiting[50:100]:
            one.cancel()
        results = await asyncio.gather(*waiting, return_exceptions=True)
        assert sender._memory.used == 0
    assert sum(isinstance(result, asyncio.CancelledError) for result in results) == 50
    written = [int(value) for value in values(fake)]
    assert written == sorted(written)
    assert set(range(50)) | set(range(100, 300)) <= set(written)


async def test_send_nowait_as_fast_as_the_buffer_allows(fake):
    async with producer(fake, buffer_memory=3000, batch_size=1000, acks=1) as sender:
        for number in range(200):
            while True:
                try:
                    sender.send_nowait("t", b"%04d" % number + bytes(600 + 2000 * (number % 10 == 0)))
                    break
                except BufferFullError:
                    await sender.buffer_has_room()
        await sender.flush()
    assert [int(value[:4]) for value in values(fake)] == list(range(200))


async def test_close_sends_waiting_records(fake):
    sender = producer(fake, linger_ms=60_000)
    await sender.start()
    future = sender.send_nowait("t", b"x")
    await sender.close()
    assert (await future).offset == 0
    with pytest.raises(ClosedError):
        await sender.send("t", b"y")
    await sender.close()


async def test_close_with_a_limit_fails_the_rest(fake):
    fake._produce = lambda *arguments: STALL
    sender = producer(fake)
    await sender.start()
    future = sender.send_nowait("t", b"x")
    lost = sender.send_nowait("nosuch", b"x")
    await sender.close(timeout_s=0.02)
    for one in (future, lost):
        with pytest.raises(ClosedError):
            await one


async def test_an_error_in_the_block_does_not_wait_for_the_broker(fake):
    fake._produce = lambda *arguments: STALL
    futures = []

    async def fail():
        async with producer(fake) as sender:
            futures.append(sender.send_nowait("t", b"x"))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await fail()
    with pytest.raises(ClosedError):
        await futures[0]


async def test_serializers_and_types(fake):
    async with producer(fake, key_serializer=str.encode, value_serializer=lambda value: b"%d" % value) as sender:
        await sender.send("t", 5, key="k")
        await sender.send("t", None)
    assert [(record.key, record.value) for record in fake.records("t", 0)] == [(b"k", b"5"), (None, None)]
    async with producer(fake) as sender:
        with pytest.raises(TypeError, match="value must be bytes or None, not str"):
            await sender.send("t", "text")
        with pytest.raises(KafkaError, match="timestamp_ms=-1"):
            await sender.send("t", timestamp_ms=-1)


async def test_an_unreachable_broker():
    with pytest.raises(NoBrokersAvailableError, match=r"no broker answers at 127\.0\.0\.1:1 \(Connection refused\)"):
        async with Producer(bootstrap_servers="127.0.0.1:1"):
            pass


@pytest.mark.parametrize("acks", [1, "all"])
async def test_mock_cluster(mock_cluster, acks):
    topic = f"produced-{acks}"
    async with Producer(bootstrap_servers=mock_cluster.bootstrap, acks=acks, linger_ms=2) as sender:
        partitions = await sender.partitions_for(topic)
        futures = [
            sender.send_nowait(topic, b"%d" % number, partition=partitions[number % len(partitions)])
            for number in range(400)
        ]
        offsets = [(await future).offset for future in futures]
    assert offsets == [number // len(partitions) for number in range(400)]
