"""How each Python client reads a topic of four partitions to its end, record by record or in batches.

All read the partitions by hand, from the beginning, without a group, and look at each record's value. kafka-python is
iterated over, confluent-kafka asked for a thousand at a time; aiokafka and ottla are measured in both of their ways,
and ottla also with Arrow tables, where a record is a row.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable

from benchmarks.client_stopwatch import Figures, Stopwatch, run

PARTITIONS = 4
MANY = 1000


def ottla(options: argparse.Namespace) -> Figures:
    return run(_ottla(options, "for"))


def ottla_getmany(options: argparse.Namespace) -> Figures:
    return run(_ottla(options, "getmany"))


def ottla_arrow(options: argparse.Namespace) -> Figures:
    return run(_ottla(options, "arrow"))


async def _ottla(options: argparse.Namespace, how: str) -> Figures:
    from client.arrow import record_columns, tables  # noqa: F401  # pyarrow takes a while, once
    from client.consumer.consumer import Consumer
    from client.topic_partition import TopicPartition

    size = records = 0
    async with Consumer(bootstrap_servers=options.bootstrap) as consumer:
        watch = Stopwatch()
        consumer.assign({TopicPartition(options.topic, number): "beginning" for number in range(PARTITIONS)})
        if how == "for":
            async for record in consumer:
                size += len(record.value)
                records += 1
                if records == options.count:
                    break
        while records < options.count:
            if how == "arrow":
                table = await consumer.fetch_table(["partition", "offset", "timestamp", "key", "value"])
                records += table.num_rows
                size += options.size * table.num_rows
            else:
                for some in (await consumer.getmany(max_records=MANY)).values():
                    records += len(some)
                    for record in some:
                        size += len(record.value)
        return watch.stop(_checked(options, records, size))


def aiokafka(options: argparse.Namespace) -> Figures:
    return run(_aiokafka(options, "for"))


def aiokafka_getmany(options: argparse.Namespace) -> Figures:
    return run(_aiokafka(options, "getmany"))


async def _aiokafka(options: argparse.Namespace, how: str) -> Figures:
    from aiokafka import AIOKafkaConsumer, TopicPartition

    size = records = 0
    async with AIOKafkaConsumer(bootstrap_servers=options.bootstrap, auto_offset_reset="earliest") as consumer:
        watch = Stopwatch()
        consumer.assign([TopicPartition(options.topic, number) for number in range(PARTITIONS)])
        if how == "for":
            async for record in consumer:
                size += len(record.value)
                records += 1
                if records == options.count:
                    break
        while records < options.count:
            for some in (await consumer.getmany(timeout_ms=1000, max_records=MANY)).values():
                records += len(some)
                for record in some:
                    size += len(record.value)
        return watch.stop(_checked(options, records, size))


def kafka_python(options: argparse.Namespace) -> Figures:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import kafka

    size = records = 0
    consumer = kafka.KafkaConsumer(
        bootstrap_servers=options.bootstrap, auto_offset_reset="earliest", enable_auto_commit=False
    )
    watch = Stopwatch()
    consumer.assign([kafka.TopicPartition(options.topic, number) for number in range(PARTITIONS)])
    for record in consumer:
        size += len(record.value)
        records += 1
        if records == options.count:
            break
    figures = watch.stop(_checked(options, records, size))
    consumer.close()
    return figures


def confluent_kafka(options: argparse.Namespace) -> Figures:
    from confluent_kafka import Consumer, TopicPartition

    size = records = 0
    consumer = Consumer({"bootstrap.servers": options.bootstrap, "group.id": "nobody", "enable.auto.commit": False})
    watch = Stopwatch()
    consumer.assign([TopicPartition(options.topic, number, 0) for number in range(PARTITIONS)])
    while records < options.count:
        some = consumer.consume(MANY, 1.0)
        records += len(some)
        for record in some:
            size += len(record.value())
    figures = watch.stop(_checked(options, records, size))
    consumer.close()
    return figures


def _checked(options: argparse.Namespace, records: int, size: int) -> int:
    assert (records, size) == (options.count, options.count * options.size)
    return records


CONSUMERS: dict[str, Callable[[argparse.Namespace], Figures]] = {
    "ottla": ottla,
    "ottla getmany": ottla_getmany,
    "ottla Arrow": ottla_arrow,
    "aiokafka": aiokafka,
    "aiokafka getmany": aiokafka_getmany,
    "kafka-python": kafka_python,
    "confluent-kafka": confluent_kafka,
}
