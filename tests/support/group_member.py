"""A consumer as a process of its own: subscribes, handles records, commits them; says on stdout what it does.

    python -m support.group_member LIBRARY SERVERS GROUP TOPIC ASSIGNOR SESSION_MS

Lines: `A 0 3 …` its partitions, whenever they change; `R partition offset` a record that it has handled. Offsets are
committed after that, so what it dies over is handled again: at least once. SIGTERM lets it leave the group.
"""

from __future__ import annotations

import asyncio
import signal
import sys
import warnings
from collections.abc import Iterable
from typing import Any

STRATEGIES = {"range": "range", "roundrobin": "roundrobin", "sticky": "sticky", "cooperative": "cooperative-sticky"}
stopping = False


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


class Assignment:
    """Prints the assignment when it changes."""

    def __init__(self) -> None:
        self.said: list[int] | None = None

    def tell(self, partitions: Iterable[int]) -> None:
        partitions = sorted(partitions)
        if partitions != self.said:
            self.said = partitions
            say(" ".join(["A", *map(str, partitions)]))


def confluent(servers: str, group: str, topic: str, assignor: str, session_ms: int) -> None:
    from confluent_kafka import Consumer, KafkaException

    if assignor == "consumer":  # the newer protocol: the broker assigns, and says when it wants to hear of members
        protocol: dict[str, str | int] = {"group.protocol": "consumer", "debug": "cgrp"}
    else:
        protocol = {
            "partition.assignment.strategy": STRATEGIES[assignor],
            "session.timeout.ms": session_ms,
            "heartbeat.interval.ms": 300,
        }
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "topic.metadata.refresh.interval.ms": 1000,
        }
        | protocol
    )
    assignment = Assignment()
    consumer.subscribe([topic])
    while not stopping:
        messages = consumer.consume(100, 0.1)
        assignment.tell(one.partition for one in consumer.assignment())
        handled = [message for message in messages if message.error() is None]
        for message in handled:
            say(f"R {message.partition()} {message.offset()}")
        for message in handled:
            try:
                consumer.commit(message, asynchronous=True)
            except KafkaException:  # the partition has been taken away
                break
    consumer.close()


def kafka_python(servers: str, group: str, topic: str, assignor: str, session_ms: int) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import kafka
        from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
        from kafka.coordinator.assignors.range import RangePartitionAssignor
        from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
        from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
        from kafka.errors import KafkaError

    assignors = {
        "range": RangePartitionAssignor,
        "roundrobin": RoundRobinPartitionAssignor,
        "sticky": StickyPartitionAssignor,
        "cooperative": CooperativeStickyAssignor,
    }

    class Listener(kafka.ConsumerRebalanceListener):
        """Prints assignments during a long poll."""

        def on_partitions_revoked(self, _: object) -> None:
            assignment.tell(one.partition for one in consumer.assignment())

        on_partitions_assigned = on_partitions_revoked

    consumer = kafka.KafkaConsumer(
        bootstrap_servers=servers,
        group_id=group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        partition_assignment_strategy=[assignors[assignor]],
        session_timeout_ms=session_ms,
        heartbeat_interval_ms=300,
    )
    assignment = Assignment()
    consumer.subscribe([topic], listener=Listener())
    while not stopping:
        # kafka-python 3.0 forgets a rebalance in whose middle poll's time is up: it is given enough.
        polled = consumer.poll(3000, max_records=100)
        assignment.tell(one.partition for one in consumer.assignment())
        for partition, messages in polled.items():
            for message in messages:
                say(f"R {partition.partition} {message.offset}")
        if polled:
            try:
                consumer.commit()
            except KafkaError:  # the group has moved on: what was handled is handled again
                continue
    consumer.close()


async def poll_and_commit(consumer: Any, kafka_error: type[Exception]) -> None:
    """Until the member is to stop. aiokafka and Ottla have the same methods, and each its own exceptions."""
    assignment = Assignment()
    while not stopping:
        polled = await consumer.getmany(timeout_ms=100, max_records=100)
        assignment.tell(one.partition for one in consumer.assignment())
        for partition, messages in polled.items():
            for message in messages:
                say(f"R {partition.partition} {message.offset}")
        if polled:
            try:
                await consumer.commit()
            except kafka_error:  # the group has moved on: what was handled is handled again
                continue


async def aiokafka(servers: str, group: str, topic: str, assignor: str, session_ms: int) -> None:
    from aiokafka import AIOKafkaConsumer
    from aiokafka.coordinator.assignors.range import RangePartitionAssignor
    from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
    from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
    from aiokafka.errors import KafkaError

    assignors = {
        "range": RangePartitionAssignor,
        "roundrobin": RoundRobinPartitionAssignor,
        "sticky": StickyPartitionAssignor,
    }
    consumer = AIOKafkaConsumer(
        topic,
        bootstrap_servers=servers,
        group_id=group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        partition_assignment_strategy=[assignors[assignor]],
        session_timeout_ms=session_ms,
        heartbeat_interval_ms=300,
    )
    await consumer.start()
    await poll_and_commit(consumer, KafkaError)
    await consumer.stop()


async def ottla(servers: str, group: str, topic: str, assignor: str, session_ms: int) -> None:
    from ottla import Consumer
    from ottla.errors import KafkaError

    newer = assignor == "consumer"
    async with Consumer(
        topic,
        bootstrap_servers=servers,
        group_id=group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        group_protocol="consumer" if newer else "classic",
        partition_assignment_strategy="range" if newer else STRATEGIES[assignor],
        session_timeout_ms=session_ms,
        heartbeat_interval_ms=300,
    ) as consumer:
        await poll_and_commit(consumer, KafkaError)


def main() -> None:
    library, servers, group, topic, assignor, session = sys.argv[1:]

    def stop(*_: object) -> None:
        global stopping
        stopping = True

    signal.signal(signal.SIGTERM, stop)
    if library == "ottla":
        asyncio.run(ottla(servers, group, topic, assignor, int(session)))
    elif library == "aiokafka":
        asyncio.run(aiokafka(servers, group, topic, assignor, int(session)))
    elif library == "kafka-python":
        kafka_python(servers, group, topic, assignor, int(session))
    else:
        confluent(servers, group, topic, assignor, int(session))


if __name__ == "__main__":
    main()
