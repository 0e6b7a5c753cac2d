"""A transactional client of the workload, in its own process, which may be killed or stopped at any time.

librdkafka's send_offsets_to_transaction may hang for ever after its group coordinator was away (its issues 5456, 5511);
so may the close of a consumer whose partitions are just being revoked, after "Consumer group sub-system terminated",
and any consumer (support/pulse.py). A client that hangs ends with STUCK or SIGALRM, and is started again.

And a librdkafka that aborts takes what it purges for never sent (ADVBASE in its rdkafka_partition.c). Where only the
answer was lost, with a connection, the next record gets the sequence number of one that is in the log: a broker has to
take it for that one sent again, and it is lost. So after an abort that has purged something another life begins, with
another epoch.

It lives until the file `stop` is there; when its producer is fenced or dies, it begins another life with the same
transactional id, or ends. Every choice comes from its plan's seed.
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import random
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from support.delivered import Delivered
from support.transfers.history import Partition
from support.transfers.journal import Journal

STOP = "stop"
STUCK = 7
SHOW_STACKS = signal.SIGUSR1
STUCK_S = 2.5
CALL_S = 2.0
DEADLINE_S = 40.0
LONGEST_LIFE_S = 300.0
FAST = {"reconnect.backoff.ms": 10, "reconnect.backoff.max.ms": 50, "retry.backoff.ms": 20, "log_level": 0}
R = TypeVar("R")
FENCED = (KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH)


@dataclass(frozen=True)
class Plan:
    """The plan of a client. It is passed to its process."""

    name: str
    """Of its journals, with the number of its process and of its life."""
    seed: str
    servers: str
    directory: Path
    transactional_id: str
    timeout_ms: int
    targets: tuple[Partition, ...]
    abort_chance: float
    sources: tuple[Partition, ...] = ()
    group: str = ""
    subscribes: bool = False
    """Whether its sources are given to it by the group's rebalances."""
    protocol: str = "classic"
    """Of its group: classic, or consumer (KIP-848)."""
    usurps_chance: float = 0.0
    """How often it makes itself a zombie: another producer takes its id while its transaction is open."""
    compression: str = "none"


class LifeOverError(Exception):
    """The producer is no longer usable."""


class Client:
    """The common part of feeders and transferers: a producer, its transactions, its journal."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.rng = random.Random(f"{plan.seed} {plan.name}")
        self.journal: Journal
        self.producer: Producer
        self._retired: list[Producer] = []
        """Those of lives before: to give one up could take until its messages are given up."""
        self._delivered: dict[int, Delivered] = {}  # by id of the producer
        self._stop = plan.directory / STOP
        self._latest = time.monotonic() + LONGEST_LIFE_S
        self._life = 0
        self._sent = 0
        self._usurpers = 0  # in this life
        self._has_purged = False
        self._is_superseded = False
        """The producer was fenced, and not by ourselves."""

    def run(self) -> None:
        """Run producers one after the other, until the run ends."""
        try:
            while not self.is_over() and not (self._is_superseded and self.rng.random() < 0.5):
                self._live()
        finally:
            self.close()

    def is_over(self) -> bool:
        """Whether the run is over; also after a time limit, in case the process that ends the run is dead."""
        return self._stop.exists() or time.monotonic() > self._latest

    def _live(self) -> None:
        self._life += 1
        self._is_superseded = False
        self._usurpers = 0
        self.name = f"{self.plan.name}.{self._life}"
        self.journal = Journal(self.plan.directory / f"{self.name}.jsonl")
        try:
            self.producer = self._begin_producer(self.journal)
            self.began()
            while not self.is_over():
                self._transact()
                time.sleep(self.rng.random() ** 3 * 0.03)
        except KafkaException as error:
            self._note_error(error)
        except LifeOverError:
            pass

    def _begin_producer(self, journal: Journal) -> Producer:
        producer = Producer(
            {
                "bootstrap.servers": self.plan.servers,
                "transactional.id": self.plan.transactional_id,
                "transaction.timeout.ms": self.plan.timeout_ms,
                "compression.type": self.plan.compression,
                "linger.ms": self.rng.choice((0, 1, 5)),
                "batch.num.messages": self.rng.choice((1, 3, 1000)),
                **FAST,
            }
        )
        self._retired.append(producer)
        self._delivered[id(producer)] = Delivered()
        journal.note("init", self.plan.transactional_id)
        self.call(producer.init_transactions)
        journal.note("ready")
        return producer

    # -- for the two kinds of clients ----------------------------------------------------------------------------------

    def began(self) -> None:
        """Begin with a new producer: the earlier transactions are decided."""

    def fill(self) -> bool:
        """Read and write in the open transaction. Return whether there is something to commit."""
        raise NotImplementedError

    def aborted(self) -> None:
        """The transaction was aborted."""

    def close(self) -> None:
        """Called before the process ends."""

    # -- a transaction -------------------------------------------------------------------------------------------------

    def _transact(self) -> None:
        self.journal.note("begin")
        self.producer.begin_transaction()
        try:
            useful = self.fill()
            if useful and self.rng.random() < self.plan.usurps_chance:
                self._become_zombie()
            if useful and self.rng.random() < 0.1:
                time.sleep(self.rng.random() * 0.3)
            if useful and self.rng.random() >= self.plan.abort_chance:
                self.journal.note("commit")
                self.call(self.producer.commit_transaction)
                self.journal.note("committed")
                return
            if self.rng.random() < 0.5:  # else some is purged
                self.flush(0.5)
        except KafkaException as error:
            self._note_error(error)
            if error.args[0].fatal():
                raise LifeOverError from error
        self._has_purged = False
        self.journal.note("abort")
        self.call(self.producer.abort_transaction)
        self.journal.note("aborted")
        if self._has_purged:
            self._retired.remove(self.producer)  # it has nothing to send
            raise LifeOverError
        self.aborted()

    def _become_zombie(self) -> None:
        """Somebody else begins with our id, once or for good, and we go on as if nothing were.

        It may happen again in the same life: nothing that has not reached a broker tells us that we are fenced.
        """
        self._usurpers += 1
        name = f"{self.name}-usurper{self._usurpers}"
        journal = Journal(self.plan.directory / f"{name}.jsonl")
        usurper = self._begin_producer(journal)
        if self.rng.random() < 0.5:
            journal.note("begin")
            usurper.begin_transaction()
            for number in range(self.rng.randint(1, 3)):
                self._send(usurper, journal, self.rng.choice(self.plan.targets), f"{name}/{number}")
            journal.note("commit")
            self.call(usurper.commit_transaction)
            journal.note("committed")
        if self.rng.random() < 0.7:
            self.send(self.rng.choice(self.plan.targets))

    def send(self, partition: Partition) -> None:
        """Send one record to a partition, within the open transaction."""
        self._sent += 1
        self._send(self.producer, self.journal, partition, f"{self.name}/{self._sent}")

    def _send(self, producer: Producer, journal: Journal, where: Partition, value: str) -> None:
        def told(error: KafkaError | None, message: Message) -> None:
            if error is None:
                journal.note("ack", value, self._delivered[id(producer)].offset(message))
            else:
                self._has_purged |= error.code() == KafkaError._PURGE_QUEUE
                journal.note("nack", value, error.name(), error.str())

        journal.note("send", *where, value)
        producer.produce(where[0], value + "." * self.rng.randrange(200), partition=where[1], on_delivery=told)
        producer.poll(0)

    def flush(self, timeout_s: float) -> None:
        """Wait until all requests are answered, or until the timeout."""
        with contextlib.suppress(SystemError):  # confluent-kafka's, of a dead producer
            self.producer.flush(timeout_s)

    def call(self, method: Callable[..., Any], *arguments: object) -> Any:
        """Call, and retry retriable errors."""
        deadline = time.monotonic() + DEADLINE_S
        while True:
            try:
                return method(*arguments, CALL_S)
            except KafkaException as error:
                if not error.args[0].retriable() or time.monotonic() > deadline:
                    raise

    @staticmethod
    def call_or_end(method: Callable[..., R], *arguments: object, within_s: float = STUCK_S) -> R:
        """Call, and end this process with SIGALRM if the call hangs.

        The kernel ends it: a thread of ours could not if the call holds the GIL.
        """
        signal.setitimer(signal.ITIMER_REAL, within_s)
        try:
            return method(*arguments)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)

    def _note_error(self, error: KafkaException) -> None:
        what: KafkaError = error.args[0]
        self._is_superseded = what.code() in FENCED and not self._usurpers
        self.journal.note("error", what.name(), what.str(), what.fatal(), what.txn_requires_abort())


def text_of(message: Message) -> str:
    """The value of a record, without its padding."""
    value = message.value()
    assert isinstance(value, bytes)
    return value.decode().rstrip(".")


def run_client(kind: type[Client], plan: Plan) -> None:
    """The entry point of the process."""
    output = os.open(plan.directory / f"{plan.name}.out", os.O_WRONLY | os.O_CREAT, 0o644)
    os.dup2(output, 1)
    os.dup2(output, 2)
    faulthandler.register(SHOW_STACKS)
    kind(plan).run()
    os._exit(0)  # the ends of fenced producers are not waited for
