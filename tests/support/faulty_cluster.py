"""Clients of other libraries for the tests of faults, and what they see."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from confluent_kafka import Consumer, Producer

from ottla import Admin, NewTopic
from support.deadlines import DEADLINE_S
from support.polling import until_blocking

QUICK = {"reconnect.backoff.ms": "10", "reconnect.backoff.max.ms": "50", "retry.backoff.ms": "10"}
"""Settings of a client of librdkafka that retries at once."""


class SeenProducer:
    """A producer of librdkafka, with the errors that it reports and the number of its lost connections."""

    def __init__(self, servers: str, **settings: Any) -> None:
        """settings: have _ for each dot."""
        self.errors: list[str] = []
        self.reports: list[tuple[str | None, int | None]] = []
        """(name of the error or None, offset) of each message that was delivered, or was not."""
        self.disconnects = 0
        self._statistics = 0
        options = {name.replace("_", "."): value for name, value in settings.items()}
        self.client = Producer(
            {"bootstrap.servers": servers, "linger.ms": 0, "statistics.interval.ms": 50}
            | QUICK
            | {"error_cb": self._failed, "stats_cb": self._counted}
            | options
        )

    def _failed(self, error: Any) -> None:
        self.errors.append(error.name())

    def _counted(self, stats: str) -> None:
        self._statistics += 1
        self.disconnects = sum(broker["disconnects"] for broker in json.loads(stats)["brokers"].values())

    def disconnects_now(self) -> int:
        """The number of lost connections until now; callbacks are served until librdkafka has counted them again."""
        self.client.poll(0)
        before = self._statistics
        self.until(lambda: self._statistics > before, "statistics")
        return self.disconnects

    def send(self, topic: str, value: bytes) -> None:
        """Queue a message."""

        def report(error: Any, message: Any) -> None:
            self.reports.append((None, message.offset()) if error is None else (error.name(), None))

        self.client.produce(topic, value, on_delivery=report)

    def until(self, condition: Any, what: str) -> None:
        """Serve callbacks until the condition holds."""
        until_blocking(lambda: (self.client.poll(0.01) and False) or condition(), what, 3 * DEADLINE_S)

    def deliver(self, topic: str, value: bytes) -> tuple[str | None, int | None]:
        """Send a message and return its report."""
        count = len(self.reports)
        self.send(topic, value)
        self.until(lambda: len(self.reports) > count, f"a report of {value!r}")
        return self.reports[-1]


def consume(servers: str, topic: str, count: int, **settings: Any) -> list[bytes]:
    """Read messages from the beginning."""
    options = {name.replace("_", "."): value for name, value in settings.items()}
    consumer = Consumer(
        {"bootstrap.servers": servers, "group.id": topic, "auto.offset.reset": "earliest"} | QUICK | options
    )
    consumer.subscribe([topic])
    try:
        return [message.value() for message in consumer.consume(count, 3 * DEADLINE_S)]
    finally:
        consumer.close()


def create_topic(cluster: Any, name: str, replicas: list[int], **configs: str) -> str:
    """Create a topic of one partition, and wait until all brokers know the leader: the first replica."""

    async def create() -> None:
        settings = {key.replace("_", "."): value for key, value in configs.items()}
        async with Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
            await admin.create_topics([NewTopic(name, assignment={0: replicas}, configs=settings)])

    asyncio.run(create())
    until_blocking(lambda: leader_of(cluster, name) == replicas[0], f"broker {replicas[0]} leads {name}")
    return name


def _states(cluster: Any, topic: str) -> list[Any]:
    return [
        member.broker.metadata.snapshot.partition(topic, 0)
        for member in cluster.brokers.values()
        if member.state.value == "running"
    ]


def leader_of(cluster: Any, topic: str) -> int | None:
    """The leader in the metadata of all running brokers; None if they differ."""
    known = {getattr(state, "leader", None) for state in _states(cluster, topic)}
    return known.pop() if len(known) == 1 else None


def isr_of(cluster: Any, topic: str) -> set[int]:
    """The in-sync replicas in the metadata of all running brokers; empty if they differ."""
    known = {frozenset(getattr(state, "isr", ())) for state in _states(cluster, topic)}
    return set(known.pop()) if len(known) == 1 else set()


def whole(cluster: Any) -> bool:
    """Whether every broker runs and knows the others."""
    return all(
        member.broker is not None and set(member.broker.metadata.snapshot.brokers) == set(cluster.brokers)
        for member in cluster.brokers.values()
    )
