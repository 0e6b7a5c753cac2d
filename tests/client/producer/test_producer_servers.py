"""The producer against servers of the Kafka protocol: our broker, and librdkafka's mock cluster, which is not ours.

The same tests for both. What was written is read back by librdkafka, which takes what is committed only; the markers of
transactions that its mock cluster writes have no checksum, so our own reader refuses them.
"""

import asyncio
import itertools

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer
from confluent_kafka import TopicPartition as ConfluentPartition

from client.consumer.group_metadata import ConsumerGroupMetadata
from client.errors import IllegalStateError, KafkaError, UnknownTopicOrPartitionError
from client.producer.producer import Producer
from client.topic_partition import TopicPartition
from support.broker import BrokerProcess
from support.deadlines import DEADLINE_S
from support.polling import until

PARTITIONS = 4  # of every topic, in both
_NUMBERS = itertools.count(1)


@pytest.fixture(scope="module")
def ottla(tmp_path_factory):
    settings = {"num.partitions": str(PARTITIONS), "log.retention.ms": "-1"}
    with BrokerProcess(tmp_path_factory.mktemp("broker") / "data", settings) as process:
        yield process


@pytest.fixture(params=["ottla", "librdkafka"])
def servers(request):
    """Where to connect to."""
    return request.getfixturevalue("ottla" if request.param == "ottla" else "mock_cluster").bootstrap


@pytest.fixture
def topic():
    return f"produced-{next(_NUMBERS)}"


async def read(servers, topic, counts):
    """So many records of each partition: lists by partition."""
    return await asyncio.to_thread(_read, servers, topic, counts)


def _read(servers, topic, counts):
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "reader", "enable.auto.commit": False})
    consumer.assign([ConfluentPartition(topic, partition, OFFSET_BEGINNING) for partition in counts])
    found = {partition: [] for partition in counts}
    while any(len(found[partition]) < count for partition, count in counts.items()):
        message = consumer.poll(DEADLINE_S)
        assert message is not None, found
        assert message.error() is None, message.error()
        found[message.partition()].append(message)
    consumer.close()
    return found


@pytest.mark.parametrize("acks", [1, "all"])
async def test_records_are_written_in_order(servers, topic, acks):
    async with Producer(bootstrap_servers=servers, acks=acks, linger_ms=2, batch_size=1000) as sender:
        assert await sender.partitions_for(topic) == list(range(PARTITIONS))
        futures = [sender.send_nowait(topic, b"%d" % number, partition=number % PARTITIONS) for number in range(800)]
        offsets = [(await future).offset for future in futures]
    assert offsets == [number // PARTITIONS for number in range(800)]
    found = await read(servers, topic, dict.fromkeys(range(PARTITIONS), 200))
    for partition, records in found.items():
        assert [int(record.value()) for record in records] == list(range(partition, 800, PARTITIONS))


async def test_acks_0_returns_no_offset(servers, topic):
    async with Producer(bootstrap_servers=servers, acks=0) as sender:
        assert (await sender.send(topic, b"x", partition=1)).offset == -1
        found = await read(servers, topic, {1: 1})
    assert found[1][0].value() == b"x"


@pytest.mark.parametrize("compression", [None, "gzip", "snappy", "lz4", "zstd"])
async def test_all_fields_of_a_record_round_trip(servers, topic, compression):
    async with Producer(bootstrap_servers=servers, compression_type=compression) as sender:
        sent = [
            sender.send(topic, b"value" * 1000, key=b"key", partition=0, timestamp_ms=1_700_000_000_123),
            sender.send(topic, None, key=b"gone", partition=0, headers=[("a", b"1"), ("a", None), ("ä", b"")]),
            sender.send(topic, b"", partition=0),
            sender.send(topic, bytearray(b"array"), key=memoryview(b"view"), partition=0),
        ]
        done = await asyncio.gather(*sent)
    assert [one.offset for one in done] == [0, 1, 2, 3]
    records = (await read(servers, topic, {0: 4}))[0]
    assert [(record.key(), record.value()) for record in records] == [
        (b"key", b"value" * 1000),
        (b"gone", None),
        (None, b""),
        (b"view", b"array"),
    ]
    assert records[0].timestamp()[1] == 1_700_000_000_123
    assert records[1].headers() == [("a", b"1"), ("a", None), ("ä", b"")]


async def test_keys_use_the_partitions_of_the_java_client(servers, topic):
    """Of the hashes in Kafka's own tests, modulo the partitions."""
    hashes = {b"21": -973932308, b"foobar": -790332482, b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971}
    async with Producer(bootstrap_servers=servers) as sender:
        for key, signed in hashes.items():
            assert (await sender.send(topic, b"v", key=key)).partition == (signed & 0x7FFFFFFF) % PARTITIONS


@pytest.mark.parametrize("partitioner", ["sticky", "round_robin", lambda key, partitions, available: max(available)])
async def test_partitioners(servers, topic, partitioner):
    async with Producer(bootstrap_servers=servers, partitioner=partitioner) as sender:
        await sender.partitions_for(topic)
        futures = [sender.send_nowait(topic, b"v", key=b"%d" % number) for number in range(8)]
        chosen = [(await future).partition for future in futures]
    if partitioner == "round_robin":
        assert chosen == [0, 1, 2, 3, 0, 1, 2, 3]
    else:
        assert len(set(chosen)) == 1
    if callable(partitioner):
        assert chosen[0] == PARTITIONS - 1


async def test_an_unknown_partition(servers, topic):
    async with Producer(bootstrap_servers=servers, max_block_ms=200) as sender:
        with pytest.raises(UnknownTopicOrPartitionError, match="no partition 99"):
            await sender.send(topic, b"x", partition=99)
        await sender.send(topic, b"x", partition=0)


async def test_more_than_the_buffer_holds(servers, topic):
    async with Producer(bootstrap_servers=servers, buffer_memory=100_000, batch_size=10_000) as sender:
        await asyncio.gather(*(sender.send(topic, bytes(1000), partition=number % 2) for number in range(1000)))
    assert sum(map(len, (await read(servers, topic, {0: 500, 1: 500})).values())) == 1000


async def test_connections_are_closed_when_idle_and_opened_again(servers, topic):
    async with Producer(bootstrap_servers=servers, connections_max_idle_ms=50) as sender:
        await sender.send(topic, b"x", partition=0)
        cluster = sender._cluster
        nodes = list(cluster.metadata.brokers)
        await until(lambda: not any(cluster.open_connection(node_id) for node_id in nodes), "idle connections")
        assert (await sender.send(topic, b"y", partition=0)).offset == 1


# -- transactions -----------------------------------------------------------------------------------------------------


async def test_successive_transactions(servers, topic):
    async with Producer(bootstrap_servers=servers, transactional_id=f"id-{topic}") as sender:
        for number in range(5):
            async with sender.transaction():
                for partition in range(PARTITIONS):
                    sender.send_nowait(topic, b"%d" % number, partition=partition)
    found = await read(servers, topic, dict.fromkeys(range(PARTITIONS), 5))
    for records in found.values():
        assert [record.value() for record in records] == [b"0", b"1", b"2", b"3", b"4"]


async def test_offsets_and_records_in_a_transaction(servers, topic):
    async with Producer(bootstrap_servers=servers, transactional_id=f"id-{topic}") as sender:
        for number in range(3):
            async with sender.transaction():
                sender.send_nowait(topic, b"%d" % number, partition=0)
                offsets = {TopicPartition(topic, partition): number for partition in range(2)}
                await sender.send_offsets(offsets, f"group-{topic}")
                await sender.send_offsets(offsets, ConsumerGroupMetadata(f"another-{topic}"))
    assert len((await read(servers, topic, {0: 3}))[0]) == 3


async def test_the_next_transaction_works_after_an_abort(servers, topic):
    async with Producer(bootstrap_servers=servers, transactional_id=f"id-{topic}") as sender:
        await sender.begin_transaction()
        await sender.send(topic, b"no", partition=0)
        await sender.abort_transaction()
        async with sender.transaction():
            assert (await sender.send(topic, b"yes", partition=0)).offset >= 1


async def test_invalid_calls_are_refused_by_their_state(servers, topic):
    async with Producer(bootstrap_servers=servers, transactional_id=f"id-{topic}") as sender:
        with pytest.raises(IllegalStateError, match="no transaction is open"):
            await sender.send(topic, b"x")
        await sender.begin_transaction()
        with pytest.raises(IllegalStateError, match="a transaction is open"):
            await sender.begin_transaction()
        sender.send_nowait(topic, b"x", partition=-1)
        with pytest.raises(KafkaError, match="no partition -1"):
            await sender.commit_transaction()
        async with sender.transaction():
            await sender.send(topic, b"y", partition=0)
