"""Clients of the message sets before 0.11: they write magic 0 and 1, and get what is stored converted back.

librdkafka as of 0.9 speaks magic 0 (told to be older than 0.10 it asks no broker for its versions; from 0.10 on it does
whatever it is told), kafka-python as of 0.10 magic 1. Neither format has headers, magic 0 has no timestamps either.
"""

import itertools
import json

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from support.deadlines import DEADLINE_MS, DEADLINE_S
from support.kafka_clients import CLIENTS, Sent, kafka, kcat

AS_OF_0_9 = ["-X", "api.version.request=false", "-X", "broker.version.fallback=0.9.0.1"]
_NUMBERS = itertools.count(1)
OFFERED = ["none", "gzip", "snappy", "lz4"]
RECORDS = [Sent(0, b"k%d" % number, b"value %d " % number * 20) for number in range(200)]
NEW_RECORDS = [*(one._replace(headers=(("h", b"1"),)) for one in RECORDS), Sent(0, None, b"x" * 700_000)]


def each(records):
    """The same records to a partition for each codec."""
    return [one._replace(partition=partition) for partition in range(len(OFFERED)) for one in records]


def read_by_kcat(broker, topic, *options):
    """What is in each partition of a topic, by partition and offset."""
    lines = kcat(broker.bootstrap, "-C", "-t", topic, "-o", "beginning", "-e", "-J", *options)
    found = [[] for _ in OFFERED]
    for line in lines.splitlines():
        message = json.loads(line)
        assert "headers" not in message
        assert "ts" not in message
        into = found[message["partition"]]
        assert message["offset"] == len(into)
        into.append((message["partition"], message["key"] and message["key"].encode(), message["payload"].encode()))
    return list(itertools.chain.from_iterable(found))


def read_by_kafka_python(broker, topic, count, version=(0, 10, 2)):
    """The same with `count` records in each partition."""
    consumer = kafka.KafkaConsumer(bootstrap_servers=broker.bootstrap, api_version=version, group_id=None)
    consumer.assign([kafka.TopicPartition(topic, partition) for partition in range(len(OFFERED))])
    consumer.seek_to_beginning()
    found = [[] for _ in OFFERED]
    while (missing := count * len(OFFERED) - sum(map(len, found))) > 0:
        polled = consumer.poll(DEADLINE_MS)
        assert polled, f"{missing} records are missing"
        for partition, messages in polled.items():
            found[partition.partition] += messages
    consumer.close()
    for messages in found:
        assert [message.offset for message in messages] == list(range(count))
        assert not any(message.headers for message in messages)
        assert all(message.timestamp > 1_700_000_000_000 for message in messages)
    return [(message.partition, message.key, message.value) for messages in found for message in messages]


def without_headers(records):
    return [(one.partition, one.key, one.value) for one in records]


def read_by_all(broker, topic):
    for client in CLIENTS:
        assert client.consume(broker.bootstrap, topic, [len(RECORDS)] * len(OFFERED)) == each(RECORDS), client


@pytest.fixture
def topic(broker):
    """With a partition for each codec."""
    name = f"old-{next(_NUMBERS)}"
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_topics([NewTopic(name, len(OFFERED))])[name].result(DEADLINE_S)
    return name


def test_everyone_reads_what_was_written_with_magic_0(topic, broker):
    lines = b"".join(b"%s|%s\n" % (one.key, one.value) for one in RECORDS)
    for partition, codec in enumerate(OFFERED):
        options = ["-p", str(partition), "-K", "|", "-z", codec, *AS_OF_0_9]
        kcat(broker.bootstrap, "-P", "-t", topic, *options, stdin=lines)
    read_by_all(broker, topic)
    assert read_by_kcat(broker, topic, *AS_OF_0_9) == without_headers(each(RECORDS))


def test_everyone_reads_what_was_written_with_magic_1(topic, broker):
    for partition, codec in enumerate(OFFERED):
        producer = kafka.KafkaProducer(
            bootstrap_servers=broker.bootstrap,
            api_version=(0, 10, 2),
            enable_idempotence=False,
            compression_type=None if codec == "none" else codec,
            linger_ms=20,
        )
        sent = [producer.send(topic, one.value, one.key, partition=partition) for one in RECORDS]
        producer.flush(DEADLINE_S)
        assert [one.get(DEADLINE_S).offset for one in sent] == list(range(len(RECORDS)))
        producer.close()
    read_by_all(broker, topic)
    assert read_by_kafka_python(broker, topic, len(RECORDS)) == without_headers(each(RECORDS))


def test_old_consumers_read_what_a_new_producer_wrote(topic, broker):
    records = each(NEW_RECORDS)
    for partition, codec in enumerate(OFFERED):
        mine = [one for one in records if one.partition == partition]
        CLIENTS[0].produce(broker.bootstrap, topic, mine, codec, idempotent=True)
    assert read_by_kcat(broker, topic, *AS_OF_0_9) == without_headers(records)
    assert read_by_kafka_python(broker, topic, len(NEW_RECORDS)) == without_headers(records)


def test_an_old_consumer_starts_in_the_middle_of_a_batch(broker):
    topic = "middle"
    CLIENTS[0].produce(broker.bootstrap, topic, [Sent(0, None, b"%d" % n) for n in range(100)], "gzip", idempotent=True)
    shown = kcat(broker.bootstrap, "-C", "-t", topic, "-p", "0", "-o", "37", "-e", "-f", "%o=%s ", *AS_OF_0_9)
    assert shown == b"".join(b"%d=%d " % (n, n) for n in range(37, 100))


def test_librdkafka_configured_for_0_10_works(broker):
    """It asks for the versions nevertheless."""
    options = ["-X", "api.version.request=false", "-X", "broker.version.fallback=0.10.2.2"]
    kcat(broker.bootstrap, "-P", "-t", "told", "-p", "0", *options, stdin=b"a\nb\n")
    assert kcat(broker.bootstrap, "-C", "-t", "told", "-e", "-D", "|", *options) == b"a|b|"
