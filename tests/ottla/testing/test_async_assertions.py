"""The assertions wait for what they say, on our brokers and on another implementation, and say what they saw."""

import asyncio
import contextlib
import json

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka import TopicPartition as AiokafkaPartition

from client.errors import InvalidTopicError
from ottla import Admin, Consumer, Producer, TopicPartition, testing
from ottla.testing import async_assertions as kafka
from ottla.testing.topic_assertions import Reading, make_reader
from support.deadlines import DEADLINE_S
from support.mock_cluster import MockCluster

SOON_S = 0.2
"""The first deadline of assertions that must fail: nothing ever makes their condition true."""


@pytest.fixture(scope="module")
def servers():
    with testing.broker() as broker:
        yield broker.bootstrap_servers


async def produce(servers, topic, *values, partition=0, **options):
    async with Producer(bootstrap_servers=servers, **options) as producer:
        for value in values:
            await producer.send(topic, value, key=b"k", partition=partition)


async def create(servers, topic, partitions=1):
    async with Admin(bootstrap_servers=servers) as admin:
        await admin.create_topic(topic, partitions)


async def failure(function, *args, says, **options):
    """The error of an assertion that fails, which contains `says`.

    A deadline that passes before the first look, on a machine that stands still, is followed by a longer one.
    """
    timeout_s = SOON_S
    while True:
        with pytest.raises(AssertionError) as caught:
            await function(*args, timeout_s=timeout_s, **options)
        text = str(caught.value)
        if says in text or timeout_s > DEADLINE_S:
            assert says in text
            return text
        timeout_s *= 4


async def commit(servers, group_id, offsets):
    consumer = AIOKafkaConsumer(bootstrap_servers=servers, group_id=group_id, enable_auto_commit=False)
    await consumer.start()
    try:
        consumer.assign(list(offsets))
        await consumer.commit(offsets)
    finally:
        await consumer.stop()


@contextlib.asynccontextmanager
async def transactional(servers, transactional_id):
    producer = AIOKafkaProducer(bootstrap_servers=servers, transactional_id=transactional_id)
    await producer.start()
    try:
        yield producer
    finally:
        await producer.stop()


# ---- topics


async def test_read_topic_returns_all_records_of_all_partitions_in_order(servers):
    await create(servers, "read", 2)
    await produce(servers, "read", b"one", b"two", partition=1)
    await produce(servers, "read", b"three", None, partition=0)
    records = await kafka.read_topic(servers, "read", timeout_s=DEADLINE_S)
    found = [(record.partition, record.offset, record.value) for record in records]
    assert found == [(0, 0, b"three"), (0, 1, None), (1, 0, b"one"), (1, 1, b"two")]
    of_one = await kafka.read_topic(servers, "read", partitions=[1], timeout_s=DEADLINE_S)
    assert [record.value for record in of_one] == [b"one", b"two"]


async def test_read_topic_of_an_empty_topic_returns_nothing(servers):
    await create(servers, "empty", 3)
    assert await kafka.read_topic(servers, "empty", timeout_s=DEADLINE_S) == []


async def test_read_topic_waits_for_the_topic(servers):
    reading = asyncio.create_task(kafka.read_topic(servers, "later", timeout_s=DEADLINE_S))
    await create(servers, "later")
    assert await reading == []


async def test_read_topic_ends_while_a_producer_continues(servers):
    """The end is the one at the start of the read."""
    stopped = asyncio.Event()

    async def produce_forever():
        async with Producer(bootstrap_servers=servers) as producer:
            while not stopped.is_set():
                await producer.send("busy", b"value", partition=0)

    producing = asyncio.create_task(produce_forever())
    await kafka.wait_for_records(servers, "busy", 10, timeout_s=DEADLINE_S)
    for _ in range(3):
        records = await kafka.read_topic(servers, "busy", timeout_s=DEADLINE_S)
        assert [record.offset for record in records] == list(range(len(records)))
    stopped.set()
    await producing


async def test_records_after_the_end_of_a_read_are_dropped(servers):
    """A Fetch answer can have records that were written after the end was looked up."""
    await produce(servers, "longer", *[b"value"] * 5)
    partition = TopicPartition("longer", 0)
    reading = Reading("longer", {partition: 1}, {partition: 3})
    async with make_reader(servers, "read_uncommitted", {}) as reader, asyncio.timeout(DEADLINE_S):
        await reading.read(reader)
    assert [record.offset for record in reading.decoded(None, None)] == [1, 2]


async def test_read_topic_decodes_on_demand(servers):
    await produce(servers, "json", b'{"id": 1}', None)
    records = await kafka.read_topic(
        servers, "json", key_deserializer=bytes.decode, value_deserializer=json.loads, timeout_s=DEADLINE_S
    )
    assert [(record.key, record.value) for record in records] == [("k", {"id": 1}), ("k", None)]
    await produce(servers, "json", b"no json")
    with pytest.raises(json.JSONDecodeError) as caught:
        await kafka.read_topic(servers, "json", value_deserializer=json.loads, timeout_s=DEADLINE_S)
    assert "json-0 offset 2 key b'k' value b'no json'" in caught.value.__notes__[0]


async def test_read_committed_omits_aborted_and_open_transactions(servers):
    async with transactional(servers, "omits") as producer:
        for value in (b"aborted", b"committed"):
            await producer.begin_transaction()
            await producer.send_and_wait("transactions", value)
            await (producer.abort_transaction() if value == b"aborted" else producer.commit_transaction())
        await producer.begin_transaction()
        await producer.send_and_wait("transactions", b"open")
        committed = await kafka.read_topic(
            servers, "transactions", isolation_level="read_committed", timeout_s=DEADLINE_S
        )
        everything = await kafka.read_topic(servers, "transactions", timeout_s=DEADLINE_S)
        await producer.commit_transaction()
    assert [record.value for record in committed] == [b"committed"]
    assert [record.value for record in everything] == [b"aborted", b"committed", b"open"]


async def test_wait_for_records_returns_when_there_are_enough(servers):
    waiting = asyncio.create_task(kafka.wait_for_records(servers, "counted", 3, timeout_s=DEADLINE_S))
    await produce(servers, "counted", b"one", b"two")
    assert not waiting.done()
    await produce(servers, "counted", b"three")
    assert [record.value for record in await waiting] == [b"one", b"two", b"three"]


async def test_wait_for_records_says_what_it_has_read(servers):
    await produce(servers, "few", b"one", b"x" * 1000)
    last_seen = " s: 3 records in topic few. Last seen: 2 records (2 in few-0); the last: "
    text = await failure(kafka.wait_for_records, servers, "few", 3, says=last_seen)
    assert "few-0 offset 0 key b'k' value b'one'" in text
    assert "… (1003 characters)" in text


async def test_a_topic_that_does_not_exist(servers):
    await failure(kafka.read_topic, servers, "nowhere", says="Last seen: there is no topic nowhere")
    await create(servers, "somewhere")
    text = await failure(kafka.wait_for_topic, servers, "nowhere", says="broker 0 has no topic nowhere; topics: ")
    assert "somewhere" in text
    with pytest.raises(InvalidTopicError):
        await kafka.wait_for_topic(servers, "no/name", timeout_s=DEADLINE_S)


async def test_a_partition_that_does_not_exist(servers):
    await create(servers, "two", 2)
    says = "topic two has no partition 5, only 0, 1"
    await failure(kafka.read_topic, servers, "two", partitions=[1, 5], says=says)
    says = "topic two has 2 partitions on broker 0"
    text = await failure(kafka.wait_for_topic, servers, "two", partitions=3, says=says)
    assert "topic two with 3 partitions" in text


async def test_wait_for_topic_returns_its_metadata(servers):
    waiting = asyncio.create_task(kafka.wait_for_topic(servers, "expected", partitions=2, timeout_s=DEADLINE_S))
    await create(servers, "expected", 2)
    assert sorted((await waiting).partitions) == [0, 1]
    found = await kafka.wait_for_full_isr(servers, "expected", timeout_s=DEADLINE_S)
    assert [partition.isr for partition in found.partitions.values()] == [(0,), (0,)]


async def test_no_broker_answers():
    for function in (kafka.wait_for_topic, kafka.wait_for_group, kafka.read_topic):
        await failure(function, "127.0.0.1:1", "any", says="no broker answers at 127.0.0.1:1")


async def test_another_implementation():
    """librdkafka's mock cluster in place of Apache Kafka."""
    mock = MockCluster()
    await produce(mock.bootstrap, "mocked", b"one", b"two", partition=2, enable_idempotence=False)
    await kafka.wait_for_topic(mock.bootstrap, "mocked", partitions=4, timeout_s=DEADLINE_S)
    records = await kafka.read_topic(mock.bootstrap, "mocked", timeout_s=DEADLINE_S)
    assert [(record.partition, record.value) for record in records] == [(2, b"one"), (2, b"two")]


# ---- groups


@contextlib.asynccontextmanager
async def member(servers, topic, **options):
    """A member that takes part in rebalances: it waits for records that never come."""
    async with Consumer(topic, bootstrap_servers=servers, heartbeat_interval_ms=100, **options) as consumer:
        waiting = asyncio.create_task(consumer.getmany())
        try:
            yield
        finally:
            waiting.cancel()
            await asyncio.wait([waiting])


async def test_wait_for_group_counts_the_members(servers):
    await create(servers, "shared", 2)
    async with member(servers, "shared", group_id="sharing", client_id="first"):
        group = await kafka.wait_for_group(servers, "sharing", members=1, timeout_s=DEADLINE_S)
        assert group.members[0].assignment == (TopicPartition("shared", 0), TopicPartition("shared", 1))
        says = "group sharing is Stable with 1 member: first ("
        text = await failure(kafka.wait_for_group, servers, "sharing", members=2, says=says)
        assert "group sharing is stable with 2 members" in text
        assert "has shared-0, shared-1" in text
        async with member(servers, "shared", group_id="sharing", client_id="second"):
            group = await kafka.wait_for_group(servers, "sharing", members=2, timeout_s=DEADLINE_S)
            assert sorted(one.client_id for one in group.members) == ["first", "second"]
    assert (await kafka.wait_for_group(servers, "sharing", members=0, timeout_s=DEADLINE_S)).members == ()


async def test_wait_for_group_of_the_new_protocol(servers):
    await create(servers, "modern", 1)
    async with member(servers, "modern", group_id="moderns", group_protocol="consumer"):
        group = await kafka.wait_for_group(servers, "moderns", timeout_s=DEADLINE_S)
        assert (group.type, group.members[0].assignment) == ("consumer", (TopicPartition("modern", 0),))


async def test_a_group_that_does_not_exist(servers):
    await create(servers, "known")
    await commit(servers, "known-group", {AiokafkaPartition("known", 0): 0})
    for function, *args in (
        [kafka.wait_for_group],
        [kafka.wait_for_no_lag],
        [kafka.wait_for_commit, {("known", 0): 1}],
    ):
        text = await failure(function, servers, "unknown", *args, says="there is no group unknown; groups: ")
        assert "known-group" in text


async def test_wait_for_commit(servers):
    await produce(servers, "committed", b"one", b"two")
    await commit(servers, "committers", {AiokafkaPartition("committed", 0): 1})
    says = "group committers has committed committed-0: 2. Last seen: committed committed-0: 1"
    await failure(kafka.wait_for_commit, servers, "committers", {("committed", 0): 2}, says=says)
    wanted = {TopicPartition("committed", 0): 2}
    waiting = asyncio.create_task(kafka.wait_for_commit(servers, "committers", wanted, timeout_s=DEADLINE_S))
    await commit(servers, "committers", {AiokafkaPartition("committed", 0): 2})
    assert (await waiting)[TopicPartition("committed", 0)].offset == 2


async def test_wait_for_no_lag(servers):
    await create(servers, "lagging", 2)
    await produce(servers, "lagging", b"one", b"two", b"three")
    await commit(servers, "slow", {AiokafkaPartition("lagging", 0): 1})
    says = "group slow has no lag. Last seen: lagging-0: committed 1, end 3, lag 2"
    await failure(kafka.wait_for_no_lag, servers, "slow", says=says)
    await commit(servers, "slow", {AiokafkaPartition("lagging", 0): 3})
    await kafka.wait_for_no_lag(servers, "slow", timeout_s=DEADLINE_S)
    # Partition 1 has no committed offset: it counts if its topic is named, and has no lag until it has a record.
    await kafka.wait_for_no_lag(servers, "slow", topics=["lagging"], timeout_s=DEADLINE_S)
    await produce(servers, "lagging", b"four", partition=1)
    says = "Last seen: lagging-1: nothing committed, end 1, lag 1"
    await failure(kafka.wait_for_no_lag, servers, "slow", topics=["lagging"], says=says)


async def test_markers_and_aborted_records_are_no_lag(servers):
    async with transactional(servers, "marking") as producer:
        await producer.begin_transaction()
        await producer.send_and_wait("marked", b"one", partition=0)
        await producer.commit_transaction()
        await commit(servers, "markers", {AiokafkaPartition("marked", 0): 1})
        await kafka.wait_for_no_lag(servers, "markers", timeout_s=DEADLINE_S)  # the marker is at offset 1
        await producer.begin_transaction()
        await producer.send_and_wait("marked", b"two", partition=0)
        await producer.abort_transaction()
    await kafka.wait_for_no_lag(servers, "markers", isolation_level="read_committed", timeout_s=DEADLINE_S)
    await failure(kafka.wait_for_no_lag, servers, "markers", says="Last seen: marked-0: committed 1, end 4, lag 3")


async def test_a_member_that_consumes(servers):
    await produce(servers, "consumed", *[b"value"] * 100)
    consumer = AIOKafkaConsumer(
        "consumed", bootstrap_servers=servers, group_id="consumers", auto_offset_reset="earliest"
    )
    await consumer.start()
    waiting = asyncio.create_task(kafka.wait_for_no_lag(servers, "consumers", timeout_s=DEADLINE_S))
    async for message in consumer:
        if message.offset == 99:
            break
    assert not waiting.done()
    await consumer.commit()
    assert (await waiting)[TopicPartition("consumed", 0)].offset == 100
    await consumer.stop()
