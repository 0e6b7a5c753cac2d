"""Writes transactions of several records to several partitions, or records without a transaction."""

from __future__ import annotations

import json
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
    """An idempotent producer without transactions: its records are between those of transactions.

    It notes its epoch: when librdkafka raises it, records that are in flight get new sequence numbers, so one that was
    written and whose answer was lost is written again. (librdkafka raises the epoch when a leader that has just been
    elected refuses one request and then answers OUT_OF_ORDER_SEQUENCE_NUMBER to the next, as Kafka does. It takes the
    records of all partitions along.)
    """

    is_idempotent = True
    settings: ClassVar[dict[str, Any]] = {"enable.idempotence": True, "message.timeout.ms": 0}
    _latest_statistics_ns = 0

    def run(self) -> None:
        """Send until the run ends."""
        self.journal = Journal(self.plan.directory / f"{self.plan.name}.jsonl")
        statistics = {"statistics.interval.ms": 100, "stats_cb": self._note_epoch}
        self.producer = Producer({"bootstrap.servers": self.plan.servers} | self.settings | FAST | statistics)
        self.delivered = Delivered()
        number = 0
        while not self.is_over():
            number += 1
            self._send_alone(f"{self.plan.name}/{number}")
            self.producer.poll(self.rng.random() * 0.1)
        self.producer.flush(DEADLINE_S)
        flushed_ns = time.monotonic_ns()
        while self._latest_statistics_ns < flushed_ns and time.monotonic_ns() < flushed_ns + DEADLINE_S * 1_000_000_000:
            self.producer.poll(0.1)
        self.journal.close()

    def _note_epoch(self, statistics: str) -> None:
        told = json.loads(statistics)
        self._latest_statistics_ns = 1_000 * told["ts"]  # of the same clock as the journal's times
        if "eos" in told:
            self.journal.note("epoch", self._latest_statistics_ns, told["eos"]["producer_epoch"])

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
