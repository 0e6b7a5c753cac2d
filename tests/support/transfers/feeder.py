"""Writes transactions of several records to several partitions, or records without a transaction."""

from __future__ import annotations

import time
from typing import Any, ClassVar

from confluent_kafka import KafkaError, Message, Producer

from support.deadlines import DEADLINE_S
from support.delivered import Delivered
from support.transfers.client import FAST, Client
from support.transfers.journal import Journal


class Feeder(Client):
    """A producer in transactions."""

    def fill(self) -> bool:
        """Send some records with pauses; some of them are acknowledged before the next ones are sent."""
        for _ in range(self.rng.choice((1, 2, 5, 12))):
            self.send(self.rng.choice(self.plan.targets))
            if self.rng.random() < 0.2:
                self.flush(self.rng.random() * 0.1)
        if self.rng.random() < 0.1:
            time.sleep(self.rng.random() * 0.3)
        return True


class PlainFeeder(Client):
    """An idempotent producer without transactions: its records are between those of transactions."""

    is_idempotent = True
    settings: ClassVar[dict[str, Any]] = {"enable.idempotence": True, "message.timeout.ms": 0}

    def run(self) -> None:
        """Send until the run ends."""
        self.journal = Journal(self.plan.directory / f"{self.plan.name}.jsonl")
        self.producer = Producer({"bootstrap.servers": self.plan.servers} | self.settings | FAST)
        self.delivered = Delivered()
        number = 0
        while not self.is_over():
            number += 1
            self._send_alone(f"{self.plan.name}/{number}")
            self.producer.poll(self.rng.random() * 0.1)
        self.producer.flush(DEADLINE_S)
        self.journal.close()

    def _send_alone(self, value: str) -> None:
        def told(error: KafkaError | None, message: Message) -> None:
            if error is None:
                self.journal.note("ack", value, self.delivered.offset(message))

        topic, partition = self.rng.choice(self.plan.targets)
        self.journal.note("plain", self.is_idempotent)
        self.journal.note("send", topic, partition, value)
        self.producer.produce(topic, value, partition=partition, on_delivery=told)


class OnceFeeder(PlainFeeder):
    """A producer with acks=all that is not idempotent, and sends each record once: without an answer it gives up.

    librdkafka sends a request again that was refused, whatever `retries` is: a record is there twice if the leader had
    written it before it lost the leadership. And a request that waited for the former leader comes after later records,
    although only one is in flight.
    """

    is_idempotent = False
    settings: ClassVar[dict[str, Any]] = {"acks": "all", "retries": 0, "max.in.flight": 1, "message.timeout.ms": 10_000}
