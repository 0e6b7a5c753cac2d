"""Transactions with other people's clients: every client reads all that is committed, and nothing else.

Producers: confluent-kafka (librdkafka), aiokafka and our own. Readers of committed data: these and kafka-python.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import signal
import subprocess
import sys
import time

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka import TopicPartition as AioTopicPartition
from aiokafka.errors import ProducerFenced
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from client.producer.producer import Producer as OttlaProducer
from support.deadlines import DEADLINE_S
from support.kafka_clients import kafka
from support.polling import until_blocking

_NUMBERS = itertools.count(1)


def create(broker, name: str) -> str:
    """A topic of two partitions."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_topics([NewTopic(name, 2)])[name].result(DEADLINE_S)
    return name


@pytest.fixture
def topic(broker):
    return create(broker, f"transactions-{next(_NUMBERS)}")


def confluent(broker, transactional_id, **options) -> Producer:
    named = {name.replace("_", "."): value for name, value in options.items()}
    return Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": transactional_id} | named)


# -- readers ----------------------------------------------------------------------------------------------------------


def read_confluent(servers: str, topic: str, isolation: str) -> list[bytes]:
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "reader",
            "isolation.level": isolation,
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
    )
    consumer.assign([TopicPartition(topic, partition, 0) for partition in (0, 1)])
    values, ends, deadline = [], set(), time.monotonic() + DEADLINE_S
    while len(ends) < 2:
        assert time.monotonic() < deadline
        message = consumer.poll(1)
        if message is None:
            continue
        if message.error() is None:
            values.append(message.value())
        else:
            ends.add(message.partition())
    consumer.close()
    return sorted(values)


def read_kafka_python(servers: str, topic: str, isolation: str) -> list[bytes]:
    consumer = kafka.KafkaConsumer(bootstrap_servers=servers, isolation_level=isolation)
    partitions = [kafka.TopicPartition(topic, partition) for partition in (0, 1)]
    consumer.assign(partitions)
    consumer.seek_to_beginning()
    ends = consumer.end_offsets(partitions)
    values, deadline = [], time.monotonic() + DEADLINE_S
    while any(consumer.position(partition) < ends[partition] for partition in partitions):
        assert time.monotonic() < deadline
        for records in consumer.poll(500).values():
            values += [record.value for record in records]
    consumer.close()
    return sorted(values)


async def _read_aiokafka(servers: str, topic: str, isolation: str) -> list[bytes]:
    consumer = AIOKafkaConsumer(bootstrap_servers=servers, isolation_level=isolation)
    await consumer.start()
    try:
        partitions = [AioTopicPartition(topic, partition) for partition in (0, 1)]
        consumer.assign(partitions)
        await consumer.seek_to_beginning()
        values = []
        ends = await consumer.end_offsets(partitions)
        for partition in partitions:
            async with asyncio.timeout(DEADLINE_S):
                while await consumer.position(partition) < ends[partition]:
                    for records in (await consumer.getmany(timeout_ms=500)).values():
                        values += [record.value for record in records]
        return sorted(values)
    finally:
        await consumer.stop()


def read_aiokafka(servers: str, topic: str, isolation: str) -> list[bytes]:
    return asyncio.run(_read_aiokafka(servers, topic, isolation))


READERS = {"confluent-kafka": read_confluent, "kafka-python": read_kafka_python, "aiokafka": read_aiokafka}


# -- producers --------------------------------------------------------------------------------------------------------


def produce_confluent(broker, topic) -> None:
    producer = confluent(broker, f"confluent-{topic}")
    producer.init_transactions(DEADLINE_S)
    for number, commit in enumerate([True, False, True]):
        producer.begin_transaction()
        for partition in (0, 1):
            for part in range(20):
                producer.produce(topic, f"{number}-{partition}-{part}", partition=partition)
        producer.flush(DEADLINE_S)
        if commit:
            producer.commit_transaction(DEADLINE_S)
        else:
            producer.abort_transaction(DEADLINE_S)


async def _produce_aiokafka(broker, topic) -> None:
    producer = AIOKafkaProducer(bootstrap_servers=broker.bootstrap, transactional_id=f"aiokafka-{topic}")
    await producer.start()
    try:
        for number, commit in enumerate([True, False, True]):
            await producer.begin_transaction()
            for partition in (0, 1):
                for part in range(20):
                    await producer.send_and_wait(topic, f"{number}-{partition}-{part}".encode(), partition=partition)
            await (producer.commit_transaction() if commit else producer.abort_transaction())
    finally:
        await producer.stop()


def produce_aiokafka(broker, topic) -> None:
    asyncio.run(_produce_aiokafka(broker, topic))


async def _produce_ottla(broker, topic) -> None:
    async with OttlaProducer(bootstrap_servers=broker.bootstrap, transactional_id=f"ottla-{topic}") as producer:
        for number, commit in enumerate([True, False, True]):
            await producer.begin_transaction()
            for partition in (0, 1):
                for part in range(20):
                    producer.send_nowait(topic, f"{number}-{partition}-{part}".encode(), partition=partition)
            await producer.flush()
            await (producer.commit_transaction() if commit else producer.abort_transaction())


def produce_ottla(broker, topic) -> None:
    asyncio.run(_produce_ottla(broker, topic))


PRODUCERS = {"confluent-kafka": produce_confluent, "aiokafka": produce_aiokafka, "ottla": produce_ottla}


@pytest.mark.parametrize("producer", PRODUCERS)
def test_committed_records_are_visible_and_aborted_records_are_not(broker, topic, producer):
    PRODUCERS[producer](broker, topic)
    values = {number: [b"%d-%d-%d" % (number, partition, part) for partition in (0, 1) for part in range(20)]
              for number in range(3)}  # fmt: skip
    for read in READERS.values():
        assert read(broker.bootstrap, topic, "read_committed") == sorted(values[0] + values[2])
        assert read(broker.bootstrap, topic, "read_uncommitted") == sorted(values[0] + values[1] + values[2])


@pytest.mark.parametrize("reader", READERS)
def test_an_open_transaction_blocks_committed_readers(broker, topic, reader):
    producer = confluent(broker, f"open-{topic}")
    producer.init_transactions(DEADLINE_S)
    producer.begin_transaction()
    producer.produce(topic, "v", partition=0)
    producer.flush(DEADLINE_S)
    plain = Producer({"bootstrap.servers": broker.bootstrap})
    plain.produce(topic, "behind", partition=0)
    plain.flush(DEADLINE_S)
    read = READERS[reader]
    assert read(broker.bootstrap, topic, "read_committed") == []
    assert read(broker.bootstrap, topic, "read_uncommitted") == [b"behind", b"v"]
    producer.commit_transaction(DEADLINE_S)
    until_blocking(lambda: read(broker.bootstrap, topic, "read_committed") == [b"behind", b"v"], "both are seen")


# -- zombies ----------------------------------------------------------------------------------------------------------


def test_a_zombie_of_confluent_kafka_is_fenced(broker, topic):
    old = confluent(broker, f"zombie-{topic}")
    old.init_transactions(DEADLINE_S)
    old.begin_transaction()
    old.produce(topic, "zombie", partition=0)
    old.flush(DEADLINE_S)
    new = confluent(broker, f"zombie-{topic}")
    new.init_transactions(DEADLINE_S)  # aborts what is open
    with pytest.raises(KafkaException) as caught:
        old.commit_transaction(DEADLINE_S)
    assert caught.value.args[0].fatal()
    new.begin_transaction()
    new.produce(topic, "kept", partition=0)
    new.commit_transaction(DEADLINE_S)
    assert read_confluent(broker.bootstrap, topic, "read_committed") == [b"kept"]


async def test_a_zombie_of_aiokafka_is_fenced(broker, topic):
    old, new = (
        AIOKafkaProducer(bootstrap_servers=broker.bootstrap, transactional_id=f"zombie-{topic}") for _ in range(2)
    )
    await old.start()
    try:
        await old.begin_transaction()
        await old.send_and_wait(topic, b"zombie", partition=0)
        await new.start()
        with pytest.raises(ProducerFenced):
            await old.commit_transaction()
        async with new.transaction():
            await new.send_and_wait(topic, b"kept", partition=0)
    finally:
        await old.stop()
        await new.stop()
    assert await _read_aiokafka(broker.bootstrap, topic, "read_committed") == [b"kept"]


DOOMED = """
import sys, json
from confluent_kafka import Producer
servers, topic = sys.argv[1:]
producer = Producer({"bootstrap.servers": servers, "transactional.id": "doomed-" + topic})
producer.init_transactions(30)
producer.begin_transaction()
for number in range(100):
    producer.produce(topic, str(number), partition=number % 2)
producer.flush(30)
print(json.dumps("open"), flush=True)
sys.stdin.read()
"""


def test_a_producer_is_killed_during_a_transaction(broker, topic):
    """Nothing of its transaction is seen, and readers go on as soon as the next producer has come."""
    doomed = subprocess.Popen(
        [sys.executable, "-c", DOOMED, broker.bootstrap, topic],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    with doomed:
        assert json.loads(doomed.stdout.readline()) == "open"
        os.kill(doomed.pid, signal.SIGKILL)
        doomed.wait(DEADLINE_S)
    assert read_confluent(broker.bootstrap, topic, "read_committed") == []
    assert len(read_confluent(broker.bootstrap, topic, "read_uncommitted")) == 100
    successor = confluent(broker, f"doomed-{topic}")
    successor.init_transactions(DEADLINE_S)
    successor.begin_transaction()
    successor.produce(topic, "next", partition=0)
    successor.commit_transaction(DEADLINE_S)
    for read in READERS.values():
        assert read(broker.bootstrap, topic, "read_committed") == [b"next"]


# -- offsets in a transaction -----------------------------------------------------------------------------------------


def positions(broker, group: str, topic: str) -> list[int]:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": group})
    found = consumer.committed([TopicPartition(topic, partition) for partition in (0, 1)], DEADLINE_S)
    consumer.close()
    return [one.offset for one in found]


@pytest.mark.parametrize("commit", [True, False], ids=["commit", "abort"])
def test_offsets_are_committed_with_the_transaction(broker, topic, commit):
    """Read, process, write with confluent-kafka: offsets and records are there together or not at all."""
    source, group = topic, f"group-{topic}"
    target = create(broker, f"{topic}-out")
    plain = Producer({"bootstrap.servers": broker.bootstrap})
    for number in range(10):
        plain.produce(source, str(number), partition=0)
    plain.flush(DEADLINE_S)
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
        }
    )
    consumer.subscribe([source])
    producer = confluent(broker, f"transfer-{topic}")
    producer.init_transactions(DEADLINE_S)
    producer.begin_transaction()
    read = 0
    deadline = time.monotonic() + DEADLINE_S
    while read < 10:
        assert time.monotonic() < deadline
        for message in consumer.consume(10, 1):
            assert message.error() is None
            producer.produce(target, message.value(), partition=1)
            read += 1
    moved = consumer.position(consumer.assignment())
    producer.send_offsets_to_transaction(
        [one for one in moved if one.offset >= 0], consumer.consumer_group_metadata(), DEADLINE_S
    )
    if commit:
        producer.commit_transaction(DEADLINE_S)
    else:
        producer.abort_transaction(DEADLINE_S)
    consumer.close()
    wanted = [10 if commit else -1001, -1001]
    until_blocking(lambda: positions(broker, group, source) == wanted, "the offsets")
    expected = sorted(b"%d" % number for number in range(10)) if commit else []
    assert read_confluent(broker.bootstrap, target, "read_committed") == expected


async def test_offsets_in_a_transaction_of_aiokafka(broker, topic):
    group = f"group-{topic}"
    producer = AIOKafkaProducer(bootstrap_servers=broker.bootstrap, transactional_id=f"offsets-{topic}")
    await producer.start()
    try:
        partition = AioTopicPartition(topic, 0)
        for offset, commit in ((3, True), (7, False)):
            await producer.begin_transaction()
            await producer.send_and_wait(topic, b"v", partition=1)
            await producer.send_offsets_to_transaction({partition: offset}, group)
            await (producer.commit_transaction() if commit else producer.abort_transaction())
    finally:
        await producer.stop()
    await asyncio.to_thread(
        until_blocking, lambda: positions(broker, group, topic) == [3, -1001], "the offsets of what was committed"
    )
