"""One Python client that sends or reads records: a process of its own like benchmarks/load.py, with the same signals.

`python -m benchmarks.client_load produce|consume --client NAME --bootstrap HOST:PORT …`

Senders wait for all replicas, are idempotent, linger 5 ms and learn of every record where it was written. Batches hold
64 KiB but for confluent-kafka's, which are at its default (1 MB). The asyncio clients run on uvloop where it is there.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import warnings
from collections.abc import Callable

from benchmarks.client_consumers import CONSUMERS
from benchmarks.client_stopwatch import Figures, Stopwatch, run

LINGER_MS = 5
BATCH_SIZE = 64 * 1024
TURN = 500  # records, after which an asyncio client lets the event loop go round
MANY = 1000  # records handed over at a time, as columns


def produce_ottla(options: argparse.Namespace) -> Figures:
    return run(_produce_ottla(options))


async def _produce_ottla(options: argparse.Namespace) -> Figures:
    from client.errors import BufferFullError
    from client.producer.producer import Producer

    topic, value = options.topic, bytes(options.size)
    async with Producer(bootstrap_servers=options.bootstrap, linger_ms=LINGER_MS, batch_size=BATCH_SIZE) as producer:
        await producer.partitions_for(topic)
        watch = Stopwatch()
        for number in range(options.count):
            try:
                producer.send_nowait(topic, value)
            except BufferFullError:
                await producer.buffer_has_room()
                producer.send_nowait(topic, value)
            if number % TURN == 0:
                await asyncio.sleep(0)
        await producer.flush()
        return watch.stop(options.count)


def produce_ottla_columns(options: argparse.Namespace) -> Figures:
    return run(_produce_ottla_columns(options))


async def _produce_ottla_columns(options: argparse.Namespace) -> Figures:
    from client.producer.producer import Producer

    topic, values = options.topic, [bytes(options.size)] * MANY
    async with Producer(bootstrap_servers=options.bootstrap, linger_ms=LINGER_MS, batch_size=BATCH_SIZE) as producer:
        await producer.partitions_for(topic)
        written = []
        watch = Stopwatch()
        for number in range(0, options.count, MANY):
            written += await producer.send_columns(topic, values[: options.count - number])
        await asyncio.gather(*written)
        return watch.stop(options.count)


def produce_aiokafka(options: argparse.Namespace) -> Figures:
    return run(_produce_aiokafka(options))


async def _produce_aiokafka(options: argparse.Namespace) -> Figures:
    from aiokafka import AIOKafkaProducer

    topic, value = options.topic, bytes(options.size)
    async with AIOKafkaProducer(
        bootstrap_servers=options.bootstrap,
        acks="all",
        enable_idempotence=True,
        linger_ms=LINGER_MS,
        max_batch_size=BATCH_SIZE,
    ) as producer:
        await producer.partitions_for(topic)
        watch = Stopwatch()
        for _ in range(options.count):
            await producer.send(topic, value)
        await producer.flush()
        return watch.stop(options.count)


def produce_kafka_python(options: argparse.Namespace) -> Figures:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import kafka

    topic, value = options.topic, bytes(options.size)
    producer = kafka.KafkaProducer(
        bootstrap_servers=options.bootstrap,
        acks="all",
        enable_idempotence=True,
        linger_ms=LINGER_MS,
        batch_size=BATCH_SIZE,
    )
    producer.partitions_for(topic)
    watch = Stopwatch()
    for _ in range(options.count):
        producer.send(topic, value)
    producer.flush()
    figures = watch.stop(options.count)
    producer.close()
    return figures


def produce_confluent_kafka(options: argparse.Namespace) -> Figures:
    from confluent_kafka import Producer

    topic, value = options.topic, bytes(options.size)
    delivered = 0

    def note(error: object, _message: object) -> None:
        nonlocal delivered
        assert error is None, error
        delivered += 1

    producer = Producer({"bootstrap.servers": options.bootstrap, "enable.idempotence": True, "linger.ms": LINGER_MS})
    producer.list_topics(topic, 30)
    watch = Stopwatch()
    for number in range(options.count):
        while True:
            try:
                producer.produce(topic, value, on_delivery=note)
                break
            except BufferError:
                producer.poll(0.1)
        if number % TURN == 0:
            producer.poll(0)
    producer.flush()
    figures = watch.stop(options.count)
    assert delivered == options.count
    return figures


PRODUCERS: dict[str, Callable[[argparse.Namespace], Figures]] = {
    "ottla": produce_ottla,
    "ottla columns": produce_ottla_columns,
    "aiokafka": produce_aiokafka,
    "kafka-python": produce_kafka_python,
    "confluent-kafka": produce_confluent_kafka,
}


async def written(options: argparse.Namespace) -> int:
    """How many records the topic holds."""
    from client.admin.admin import Admin
    from client.consumer.reader import Reader
    from client.topic_partition import TopicPartition

    async with (
        Admin(bootstrap_servers=options.bootstrap) as admin,
        Reader(bootstrap_servers=options.bootstrap) as reader,
    ):
        topics = await admin.describe_topics([options.topic])
        partitions = [TopicPartition(options.topic, number) for number in topics[options.topic].partitions]
        return sum((await reader.end_offsets(partitions)).values())


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.client_load", description=__doc__)
    parser.add_argument("command", choices=["produce", "consume"])
    parser.add_argument("--client", choices=list(PRODUCERS | CONSUMERS), required=True)
    parser.add_argument("--bootstrap", required=True, help="HOST:PORT")
    parser.add_argument("--topic", required=True)
    parser.add_argument("--size", type=int, default=100, help="bytes of a value")
    parser.add_argument("--count", type=int, default=100_000, help="records")
    options = parser.parse_args()
    clients = PRODUCERS if options.command == "produce" else CONSUMERS
    figures = clients[options.client](options)
    print(json.dumps(figures | {"written": asyncio.run(written(options))}))


if __name__ == "__main__":
    main()
