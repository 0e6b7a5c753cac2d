"""Writes transactions of several records to several partitions, or records without a transaction."""

from __future__ import annotations

import time

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

    def run(self) -> None:
        """Send, and retry without a limit."""
        self.journal = Journal(self.plan.directory / f"{self.plan.name}.jsonl")
        self.producer = Producer(
            {"bootstrap.servers": self.plan.servers, "enable.idempotence": True, "message.timeout.ms": 0} | FAST
        )
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
        self.journal.note("plain")
        self.journal.note("send", topic, partition, value)
        self.producer.produce(topic, value, partition=partition, on_delivery=told)
