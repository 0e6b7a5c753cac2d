"""Every client writes, and every client reads what every other one wrote, with everything that a record may have."""

import asyncio
import functools
import itertools
from collections import Counter

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from protocol.compression import CompressionType
from protocol.record_batch import iter_batches
from support.deadlines import DEADLINE_S
from support.kafka_clients import CLIENTS, OURS, Sent, kcat
from support.programs import need_kcat

PARTITIONS = 3
TOPICS = itertools.count()
ALL = (*CLIENTS, OURS)


def text(size, seed=0):
    """`size` characters that compress somewhat."""
    words = " ".join(str((number + seed) * 7919 % 100_003) for number in range(size // 4 + 1))
    return words[:size].encode()


@functools.cache
def mixed_records():
    """Keyed and unkeyed, with and without headers, from nothing to a megabyte."""
    return [
        Sent(0, None, b"x"),
        Sent(0, b"key", b"y" * 100, (("trace", b"1"), ("trace", b"2"), ("unit", b"km"))),
        Sent(0, b"key", text(1_000_000)),
        Sent(1, b"k" * 300, text(10_000), (("h", b""),)),
        Sent(1, None, text(3000)),
        Sent(1, b"gone", None),
        Sent(2, "schlüssel".encode(), "größe".encode(), (("überschrift", "ä".encode()),)),
    ]


def new_topic(broker, partitions=PARTITIONS, **config):
    name = f"interop-{next(TOPICS)}"
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    config = {key.replace("_", "."): value for key, value in config.items()}
    admin.create_topics([NewTopic(name, partitions, 1, config=config)])[name].result(DEADLINE_S)
    return name


def ways(client):
    """(codec, idempotent): every codec of a client; idempotent with all but the last, that is the default of most."""
    return [*((codec, True) for codec in client.codecs), ("none", False)]


@pytest.mark.parametrize("producer", ALL, ids=str)
def test_what_one_client_writes_all_clients_read(producer, broker):
    """Every codec goes to partitions of its own, so that a consumer of each library reads all of them at once."""
    if producer.name == "kcat":
        need_kcat()
    topic = new_topic(broker, PARTITIONS * len(ways(producer)))
    records = []
    for number, (codec, idempotent) in enumerate(ways(producer)):
        partitions = range(number * PARTITIONS, (number + 1) * PARTITIONS)
        some = [record._replace(partition=partitions[record.partition]) for record in mixed_records()]
        producer.produce(broker.bootstrap, topic, some, codec, idempotent=idempotent)
        batches = [batch for partition in partitions for batch in stored_batches(broker, topic, partition)]
        assert CompressionType.from_config_name(codec) in {batch.compression for batch in batches}, codec
        assert {batch.producer_id >= 0 for batch in batches} == {idempotent}, codec
        records += some
    counted = Counter(record.partition for record in records)
    counts = [counted[partition] for partition in range(PARTITIONS * len(ways(producer)))]
    for reader in ALL:
        if reader.name == "kcat":
            need_kcat()
        assert described(reader.consume(broker.bootstrap, topic, counts)) == described(records), reader


def stored_batches(broker, topic, partition):
    """What lies on the disk: that a client did use the codec, and an id."""
    for path in broker.log_dir.glob(f"{topic}-{partition}/*.log"):
        yield from iter_batches(memoryview(path.read_bytes()))


def described(records):
    """Records with long values cut: a failure then prints something that can be read."""
    return [
        (one.partition, one.key, one.headers, one.value and (len(one.value), hash(one.value), one.value[:20]))
        for one in records
    ]


@pytest.mark.parametrize("client", ALL, ids=str)
def test_empty_values_and_empty_keys_are_not_null(client, broker):
    topic = new_topic(broker, 1)
    records = [Sent(0, b"", b""), Sent(0, b"", None), Sent(0, None, b"")]
    CLIENTS[0].produce(broker.bootstrap, topic, records, "none", idempotent=True)
    if client.name == "kcat":
        shown = kcat(broker.bootstrap, "-C", "-t", topic, "-o", "beginning", "-c", "3", "-f", "%K %S\n")
        assert shown == b"0 0\n0 -1\n-1 0\n"
    else:
        assert client.consume(broker.bootstrap, topic, [3]) == records


def test_clients_with_the_same_partitioner_choose_the_same_partition(broker):
    """kafka-python, aiokafka and we hash keys as Java does, librdkafka when asked to: they must know the same topic."""
    import kafka
    from confluent_kafka import Producer

    from client.producer.producer import Producer as OttlaProducer

    topic = new_topic(broker, 7)
    keys = [b"key-%d" % number for number in range(50)]
    chosen = {}
    ours = kafka.KafkaProducer(bootstrap_servers=broker.bootstrap)
    for key in keys:
        chosen[key] = ours.send(topic, b"v", key).get(DEADLINE_S).partition
    ours.close()
    assert len(set(chosen.values())) == 7
    theirs = {}
    producer = Producer({"bootstrap.servers": broker.bootstrap, "partitioner": "murmur2_random"})
    for key in keys:
        producer.produce(
            topic, b"v", key, on_delivery=lambda _, message: theirs.update({message.key(): message.partition()})
        )
    assert producer.flush(DEADLINE_S) == 0
    assert theirs == chosen

    async def produce():
        async with OttlaProducer(bootstrap_servers=broker.bootstrap) as producer:
            return {key: (await producer.send(topic, b"v", key=key)).partition for key in keys}

    assert asyncio.run(produce()) == chosen


def test_a_topic_is_created_by_its_first_write(broker):
    for client in ALL:
        if client.name == "kcat":
            need_kcat()
        topic = f"auto-{client}"
        client.produce(broker.bootstrap, topic, [Sent(0, b"k", b"v")], "none", idempotent=True)
        assert client.consume(broker.bootstrap, topic, [1]) == [Sent(0, b"k", b"v")]
