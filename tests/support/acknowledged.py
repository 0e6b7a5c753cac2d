"""Load on a broker that is killed repeatedly, and a check of every acknowledgement.

Each `Load` is one idempotent librdkafka producer in a thread of its own that never gives up; it notes what it was
told. `Reader` reads by assignment and holds what it finds against that. Every value names its producer and the number
of the record, so that order, loss, repetition and invention are seen.
"""

from __future__ import annotations

import contextlib
import logging
import random
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from itertools import pairwise

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from support.deadlines import DEADLINE_S
from support.delivered import Delivered

ANSWER_S = 5.0
UNSENT = 300  # records under way at a time: more would only make the tail longer

PASSING = frozenset(
    {
        KafkaError._UNKNOWN_PARTITION,  # librdkafka has just lost all of its brokers and found one again
        KafkaError._DESTROY_BROKER,
        KafkaError._TIMED_OUT,
        KafkaError._TRANSPORT,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.OFFSET_NOT_AVAILABLE,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.UNKNOWN_LEADER_EPOCH,
    }
)
"""What a question about offsets may be answered with for a moment, while leaders change."""

Partition = tuple[str, int]


class EpochRaises(logging.Handler):
    """Counts how often a producer of librdkafka has raised its epoch by itself, from what it logs.

    It raises the epoch for all partitions when a batch is refused because the one before it was, and sends everything
    again that is not acknowledged, even what another partition has already (its issue 4953). Java's producer does not.
    """

    def __init__(self) -> None:
        super().__init__()
        self.count = 0
        logger = logging.Logger("producer")
        logger.addHandler(self)
        self.settings: dict[str, object] = {"debug": "eos", "log_level": 7, "logger": logger}
        """Settings for the producer."""

    def emit(self, record: logging.LogRecord) -> None:
        """One line of its log."""
        self.count += "bumped epoch" in record.getMessage()


class Load:
    """One producer; `topics` are names with their numbers of partitions. Keys are few, so that compaction has work."""

    def __init__(
        self, name: str, servers: str, topics: dict[str, int], seed: object, *, pause_s: float = 0.0, **settings: object
    ) -> None:
        """pause_s: after each few dozen records. settings: librdkafka's."""
        self.name = name
        self.acknowledged: dict[Partition, dict[int, int]] = defaultdict(dict)  # offset → number of the record
        self.implied: dict[Partition, set[int]] = defaultdict(set)
        """Records whose answer was lost, and that are there since a later one of the same producer is, or that the
        broker calls duplicates: librdkafka acknowledges them without an offset."""
        self._delivered = Delivered()
        self.sent: dict[Partition, dict[int, bytes]] = defaultdict(dict)  # number of the record → key
        self.count = 0
        self.errors: list[str] = []
        self.epoch_raises = EpochRaises()
        self._topics = [(topic, partition) for topic, partitions in topics.items() for partition in range(partitions)]
        self._random = random.Random(repr((seed, name)))
        self._pause_s = pause_s
        self._stopping = threading.Event()
        self._producer = Producer(
            {
                "bootstrap.servers": servers,
                "enable.idempotence": True,
                "linger.ms": 2,
                "batch.num.messages": 50,
                "message.timeout.ms": 0,  # it tries for ever
                "reconnect.backoff.ms": 20,
                "reconnect.backoff.max.ms": 100,
                "retry.backoff.ms": 20,
                **self.epoch_raises.settings,
                **settings,
            }
        )
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        number = 0
        while not self._stopping.is_set() and not self.errors:
            if len(self._producer) >= UNSENT:
                self._producer.poll(0.01)
                continue
            for _ in range(self._random.randint(1, 40)):
                self._send(number)
                number += 1
            self._producer.poll(self._pause_s + self._random.random() * 0.02)
        while len(self._producer) and not self.errors:
            self._producer.poll(0.1)

    def _send(self, number: int) -> None:
        topic, partition = where = self._random.choice(self._topics)
        key = b"%s-%d" % (self.name.encode(), self._random.randrange(40))
        self.sent[where][number] = key
        value = b"%s:%d:" % (self.name.encode(), number) + b"x" * self._random.randrange(200)

        def told(error: KafkaError | None, message: Message) -> None:
            if error is not None:
                self.errors.append(f"record {number} to {topic}-{partition}: {error}")
            else:
                self.count += 1
                offsets = self.acknowledged[where]
                offset = self._delivered.offset(message)
                if offset is None:
                    self.implied[where].add(number)
                    return
                if offset in offsets:
                    self.errors.append(f"{topic}-{partition}@{offset} was given to {offsets[offset]} and {number}")
                offsets[offset] = number

        self._producer.produce(topic, value, key, partition, on_delivery=told)

    def stop(self) -> None:
        """Stop sending."""
        self._stopping.set()

    def finish(self) -> None:
        """Stop sending, and wait until everything is acknowledged."""
        self.stop()
        self._thread.join(DEADLINE_S)
        assert not self.errors, self.errors[:3]
        assert not self._thread.is_alive(), f"{len(self._producer)} records of {self.name} were not acknowledged"


class Reader:
    """Reads some partitions with one consumer from given offsets on, and checks them against the acknowledgements."""

    def __init__(self, servers: str, partitions: list[Partition], **settings: object) -> None:
        """settings: librdkafka's."""
        self.found: dict[Partition, dict[int, tuple[str, int]]] = {each: {} for each in partitions}
        self.ends = dict.fromkeys(partitions, 0)
        self.starts = dict.fromkeys(partitions, 0)
        self._consumer = Consumer(
            {
                "bootstrap.servers": servers,
                "group.id": "none",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "check.crcs": True,
                "reconnect.backoff.ms": 20,
                "reconnect.backoff.max.ms": 100,
                "fetch.wait.max.ms": 50,
                "auto.offset.reset": "earliest",
                "log_level": 0,
                **settings,
            }
        )

    def look_at_offsets(self) -> None:
        """Check that neither the start nor the end offset of a partition decreases."""
        for where in self.found:
            low, high = self._watermarks(where)
            assert low >= self.starts[where], f"{where} began at {self.starts[where]} and begins at {low}"
            assert high >= self.ends[where], f"{where} ended at {self.ends[where]} and ends at {high}"
            self.starts[where], self.ends[where] = low, high

    def _watermarks(self, where: Partition) -> tuple[int, int]:
        deadline = time.monotonic() + DEADLINE_S
        while True:
            try:
                found: tuple[int, int] = self._consumer.get_watermark_offsets(TopicPartition(*where), ANSWER_S)
                return found
            except KafkaException as error:
                if error.args[0].code() not in PASSING or time.monotonic() > deadline:
                    raise
                with contextlib.suppress(KafkaException):
                    self._consumer.list_topics(where[0], ANSWER_S)  # it would go on asking a broker that is dead
                self._consumer.poll(0.01)

    def read_on(self, *, to_ends: bool = False) -> None:
        """Read to the end of every partition, from where it was left: or to the ends that were looked at, where more is
        being written.
        """
        after = {where: max(found, default=-1) + 1 for where, found in self.found.items()}
        self._consumer.assign([TopicPartition(*where, offset or OFFSET_BEGINNING) for where, offset in after.items()])
        left = set(self.found)
        deadline = time.monotonic() + DEADLINE_S
        while left:
            assert time.monotonic() < deadline, f"no end of {left}"
            for message in self._consumer.consume(1000, 0.1):
                where = (message.topic(), message.partition())
                error = message.error()
                if error is None:
                    self._take(where, message.offset(), message.value())
                    if to_ends and message.offset() >= self.ends[where] - 1:
                        left.discard(where)
                elif error.code() == KafkaError._PARTITION_EOF:
                    left.discard(where)
                else:
                    assert error.retriable() or error.code() < 0, error
        self._consumer.unassign()

    def _take(self, where: Partition, offset: int, value: bytes) -> None:
        found = self.found[where]
        assert offset > max(found, default=-1) if not found else offset > next(reversed(found)), f"{where}@{offset}"
        name, number, _ = value.split(b":")
        found[offset] = name.decode(), int(number)

    def close(self) -> None:
        self._consumer.close()


def check_kept(reader: Reader, loads: list[Load], acknowledged: Callable[[Load, Partition], dict[int, int]]) -> None:
    """Every acknowledged record is where it was said to be, once; each producer's are in order; none is invented.

    A producer that has raised its epoch (`EpochRaises`) may have begun again that often. It then repeats, in order,
    everything from some record on, which may not have ended yet: brokers give answers in order, so what it does not
    know of is at the end.

    acknowledged: what had been acknowledged before the reading began.
    """
    for where, found in reader.found.items():
        start = reader.starts[where]
        for load in loads:
            mine = {offset: number for offset, (name, number) in found.items() if name == load.name}
            numbers = list(mine.values())
            again = [place for place, (one, other) in enumerate(pairwise(numbers), 1) if one >= other]
            steps = [(numbers[place - 1], numbers[place]) for place in again]
            assert len(again) <= load.epoch_raises.count, f"{where}: {load.name} repeats records: {steps}"
            for place in again:
                due = {number for number in numbers[:place] if numbers[place] <= number < numbers[-1]}
                missing = due - {*numbers[place:]}
                assert not missing, f"{where}: {load.name} is out of order at {steps}: {sorted(missing)}"
            assert load.sent[where].keys() >= set(numbers), f"{where}: {load.name} never sent this"
            for offset, number in acknowledged(load, where).items():
                if offset >= start or offset in mine:
                    there = mine.get(offset)
                    assert there == number, f"{where}@{offset}: {there} of {load.name}, not {number}"


def check_compacted(reader: Reader, loads: list[Load]) -> None:
    """Of a compacted partition: the newest record of each key is there, and each record is where it was said to be."""
    for where, found in reader.found.items():
        for load in loads:
            mine = {offset: number for offset, (name, number) in found.items() if name == load.name}
            promised, implied = load.acknowledged[where], load.implied[where]
            misplaced = {offset: number for offset, number in mine.items() if promised.get(offset) != number}
            assert set(misplaced.values()) <= implied, f"{where}: {load.name}"
            newest = {load.sent[where][number]: number for number in sorted({*promised.values(), *implied})}
            assert set(newest.values()) <= set(mine.values()), (
                f"{where}: the newest of some keys of {load.name} is lost"
            )


def partitions_of(topics: dict[str, int]) -> Iterator[Partition]:
    for topic, partitions in topics.items():
        yield from ((topic, partition) for partition in range(partitions))
