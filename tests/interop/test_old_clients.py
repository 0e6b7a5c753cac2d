"""Clients of the message sets before 0.11: they write magic 0 and 1, and get what is stored converted back.

librdkafka as of 0.9 speaks magic 0 (told to be older than 0.10 it asks no broker for its versions; from 0.10 on it does
whatever it is told), kafka-python as of 0.10 magic 1. Neither format has headers, magic 0 has no timestamps either.
"""

import json

import pytest

from support.kafka_clients import CLIENTS, Sent, kafka, kcat

AS_OF_0_9 = ["-X", "api.version.request=false", "-X", "broker.version.fallback=0.9.0.1"]
OFFERED = ["none", "gzip", "snappy", "lz4"]
RECORDS = [Sent(0, b"k%d" % number, b"value %d " % number * 20) for number in range(200)]
NEW_RECORDS = [*(one._replace(headers=(("h", b"1"),)) for one in RECORDS), Sent(0, None, b"x" * 700_000)]


def read_by_kcat(broker, topic, *options):
    lines = kcat(broker.bootstrap, "-C", "-t", topic, "-p", "0", "-o", "beginning", "-e", "-J", *options)
    messages = [json.loads(line) for line in lines.splitlines()]
    assert [message["offset"] for message in messages] == list(range(len(messages)))
    assert not any("headers" in message for message in messages)
    assert not any("ts" in message for message in messages)
    return [(message["key"] and message["key"].encode(), message["payload"].encode()) for message in messages]


def read_by_kafka_python(broker, topic, count, version=(0, 10, 2)):
    consumer = kafka.KafkaConsumer(bootstrap_servers=broker.bootstrap, api_version=version, group_id=None)
    partition = kafka.TopicPartition(topic, 0)
    consumer.assign([partition])
    consumer.seek_to_beginning()
    messages = []
    while len(messages) < count:
        polled = consumer.poll(20_000)
        assert polled, f"{count - len(messages)} records are missing"
        messages += polled[partition]
    consumer.close()
    assert [message.offset for message in messages] == list(range(count))
    assert not any(message.headers for message in messages)
    assert all(message.timestamp > 1_700_000_000_000 for message in messages)
    return [(message.key, message.value) for message in messages]


def read_by_all(broker, topic):
    for client in CLIENTS:
        assert client.consume(broker.bootstrap, topic, [len(RECORDS)]) == RECORDS, client


@pytest.mark.parametrize("codec", OFFERED)
def test_everyone_reads_what_was_written_with_magic_0(codec, broker):
    topic = f"written-0-{codec}"
    lines = b"".join(b"%s|%s\n" % (one.key, one.value) for one in RECORDS)
    kcat(broker.bootstrap, "-P", "-t", topic, "-p", "0", "-K", "|", "-z", codec, *AS_OF_0_9, stdin=lines)
    read_by_all(broker, topic)
    assert read_by_kcat(broker, topic, *AS_OF_0_9) == [(one.key, one.value) for one in RECORDS]


@pytest.mark.parametrize("codec", OFFERED)
def test_everyone_reads_what_was_written_with_magic_1(codec, broker):
    topic = f"written-1-{codec}"
    producer = kafka.KafkaProducer(
        bootstrap_servers=broker.bootstrap,
        api_version=(0, 10, 2),
        enable_idempotence=False,
        compression_type=None if codec == "none" else codec,
        linger_ms=20,
    )
    sent = [producer.send(topic, one.value, one.key, partition=0) for one in RECORDS]
    producer.flush(20)
    assert [one.get(20).offset for one in sent] == list(range(len(RECORDS)))
    producer.close()
    read_by_all(broker, topic)
    assert read_by_kafka_python(broker, topic, len(RECORDS)) == [(one.key, one.value) for one in RECORDS]


@pytest.mark.parametrize("codec", OFFERED)
def test_old_consumers_read_what_a_new_producer_wrote(codec, broker):
    topic = f"read-{codec}"
    CLIENTS[0].produce(broker.bootstrap, topic, NEW_RECORDS, codec, idempotent=True)
    expected = [(one.key, one.value) for one in NEW_RECORDS]
    assert read_by_kcat(broker, topic, *AS_OF_0_9) == expected
    assert read_by_kafka_python(broker, topic, len(expected)) == expected


def test_an_old_consumer_starts_in_the_middle_of_a_batch(broker):
    topic = "middle"
    CLIENTS[0].produce(broker.bootstrap, topic, [Sent(0, None, b"%d" % n) for n in range(100)], "gzip", idempotent=True)
    shown = kcat(broker.bootstrap, "-C", "-t", topic, "-p", "0", "-o", "37", "-e", "-f", "%o=%s ", *AS_OF_0_9)
    assert shown == b"".join(b"%d=%d " % (n, n) for n in range(37, 100))


def test_librdkafka_that_is_told_of_0_10_works(broker):
    """It asks for the versions nevertheless."""
    options = ["-X", "api.version.request=false", "-X", "broker.version.fallback=0.10.2.2"]
    kcat(broker.bootstrap, "-P", "-t", "told", "-p", "0", *options, stdin=b"a\nb\n")
    assert kcat(broker.bootstrap, "-C", "-t", "told", "-e", "-D", "|", *options) == b"a|b|"
