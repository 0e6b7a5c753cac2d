"""A broker on a disk of a few megabytes that fills up, for `support.small_disk`.

An idempotent producer of confluent-kafka fills the disk, beside a ballast file; the broker refuses what finds no room,
lives on and serves readers; the ballast goes; the producer gets on by itself. What was acknowledged is then read back:
each record once, in order.
"""

from __future__ import annotations

import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from support.broker import BrokerProcess
from support.deadlines import DEADLINE_S

DISK_BYTES = 8 << 20
BALLAST_BYTES = 5 << 20
RECORDS = 4000


class FilledDisk:
    """The broker, its producer, and what was acknowledged."""

    def __init__(self, disk: Path) -> None:
        self.ballast = disk / "ballast"
        self.ballast.write_bytes(bytes(BALLAST_BYTES))
        settings = {
            "ottla.console.listener": "127.0.0.1:0",
            "auto.create.topics.enable": "false",  # a producer would create a deleted topic
            "log.segment.bytes": "100000",
            "log.index.interval.bytes": "500",
            "replica.high.watermark.checkpoint.interval.ms": "50",
            "log.flush.offset.checkpoint.interval.ms": "50",
            "log.flush.start.offset.checkpoint.interval.ms": "50",
            "log.flush.interval.messages": "20",
            "log.initial.task.delay.ms": "50",
            "log.cleaner.backoff.ms": "100",
            "log.segment.delete.delay.ms": "100",  # what was compacted away must not fill the disk
        }
        self.broker = BrokerProcess(disk / "data", settings).start()
        self.acknowledged: dict[int, dict[int, bytes]] = {0: {}, 1: {}}
        self.failed: list[object] = []
        self.producer = Producer(
            {
                "bootstrap.servers": self.broker.bootstrap,
                "enable.idempotence": True,
                "delivery.timeout.ms": 110_000,
                "batch.size": 8000,
                "linger.ms": 1,
            }
        )

    def produce(self) -> None:
        def delivered(error: object, message: Message) -> None:
            if error is not None:
                self.failed.append(error)
            else:
                self.acknowledged[message.partition()][message.offset()] = message.value()

        for number in range(RECORDS):
            value = b"%08d" % number + bytes(800)
            self.producer.produce("t", value, b"%d" % number, partition=number % 2, on_delivery=delivered)
            self.producer.poll(0)

    def until(self, condition: Callable[[], object], what: str) -> None:
        deadline = time.monotonic() + DEADLINE_S
        while not condition():
            assert time.monotonic() < deadline, f"{what}\n{self.broker.log_text()[-5000:]}"
            assert self.broker.process is not None
            assert self.broker.process.poll() is None, self.broker.log_text()
            self.producer.poll(0.02)

    def console(self, path: str) -> str:
        url = [word for word in self.broker.log_text().split() if word.startswith("http://127.0.0.1:")][-1]
        try:
            with urllib.request.urlopen(f"{url}{path}") as answer:
                return answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.read().decode()

    def metric(self, name: str) -> float:
        lines = self.console("metrics").splitlines()
        return float(next(line for line in lines if line.startswith(name)).rpartition(" ")[2])

    def read(self, partition: int, count: int) -> list[tuple[int, bytes]]:
        """(offset, value) of the first `count` records."""
        found = []
        for message in self._messages(partition):
            found.append((message.offset(), message.value()))
            if len(found) == count:
                break
        assert len(found) == count, f"{len(found)} of {count} records"
        return found

    def latest(self, partition: int) -> dict[bytes, bytes]:
        """The last value of every key."""
        return {message.key(): message.value() for message in self._messages(partition)}

    def _messages(self, partition: int) -> Iterator[Message]:
        """All records up to the end."""
        settings = {
            "bootstrap.servers": self.broker.bootstrap,
            "group.id": "g",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
        consumer = Consumer(settings)
        consumer.assign([TopicPartition("t", partition, 0)])
        deadline = time.monotonic() + DEADLINE_S
        try:
            while True:
                assert time.monotonic() < deadline, "the end of the partition is not reached"
                message = consumer.poll(0.1)
                if message is None:
                    continue
                error = message.error()
                if error is not None and error.code() == KafkaError._PARTITION_EOF:
                    return
                assert error is None, error
                yield message
        finally:
            consumer.close()


def fill_and_free(filled: FilledDisk) -> None:
    """The scenario."""
    admin = AdminClient({"bootstrap.servers": filled.broker.bootstrap})
    admin.create_topics([NewTopic("t", 2, 1)])["t"].result(DEADLINE_S)
    filled.produce()
    filled.until(lambda: "is full" in filled.broker.log_text(), "the disk fills up")
    assert filled.metric("ottla_log_dir_full") == 1
    assert filled.metric("ottla_log_dir_online") == 1
    before = sum(map(len, filled.acknowledged.values()))
    assert 0 < before < RECORDS
    # The registry is on the same disk: sooner or later it finds no room either, says so, and lives.
    created, refusal = [], None
    for number in range(200):
        name = f"u{number}"
        try:
            admin.create_topics([NewTopic(name, 1, 1)])[name].result(DEADLINE_S)
            created.append(name)
        except KafkaException as error:
            refusal = error.args[0]
            break
    assert refusal is not None
    assert refusal.name() == "KAFKA_STORAGE_ERROR", refusal
    data = filled.broker.log_dir
    expected = f"not ready: log directory {data} is full; registry {data}/registry.sqlite: the disk is full\n"
    assert filled.console("readyz") == expected
    for partition in (0, 1):  # readers go on
        acknowledged = dict(filled.acknowledged[partition])
        assert dict(filled.read(partition, len(acknowledged))).items() >= acknowledged.items()
    filled.ballast.unlink()
    filled.until(lambda: "has room again" in filled.broker.log_text(), "there is room again")
    filled.until(lambda: len(filled.producer) == 0, "everything is delivered")
    assert not filled.failed, filled.failed[:3]
    assert filled.metric("ottla_log_dir_full") == 0
    filled.until(lambda: filled.console("readyz") == "ready\n", "the broker is ready")
    for partition in (0, 1):
        expected = [b"%08d" % number + bytes(800) for number in range(partition, RECORDS, 2)]
        assert [filled.acknowledged[partition][offset] for offset in sorted(filled.acknowledged[partition])] == expected
        assert [value for _, value in filled.read(partition, len(expected))] == expected
    admin.create_topics([NewTopic("after", 1, 1)])["after"].result(DEADLINE_S)
    for name in [*created[:2], "after"]:  # also what was created while its log could not be
        filled.producer.produce(name, b"x", partition=0)
    assert filled.producer.flush(DEADLINE_S) == 0
    assert filled.broker.stop() == 0
    text = filled.broker.log_text()
    assert "Traceback" not in text, text
    assert (filled.broker.log_dir / ".kafka_cleanshutdown").exists()


def kill_while_full(filled: FilledDisk) -> None:
    """Kill the broker on the full disk, and restart it when there is space: acknowledged records still exist."""
    admin = AdminClient({"bootstrap.servers": filled.broker.bootstrap})
    admin.create_topics([NewTopic("t", 2, 1)])["t"].result(DEADLINE_S)
    filled.produce()
    filled.until(lambda: "is full" in filled.broker.log_text(), "the disk fills up")
    filled.broker.kill()
    filled.ballast.unlink()
    filled.broker.start()
    filled.until(lambda: len(filled.producer) == 0, "everything is delivered")
    assert not filled.failed, filled.failed[:3]
    for partition in (0, 1):
        expected = [b"%08d" % number + bytes(800) for number in range(partition, RECORDS, 2)]
        assert [value for _, value in filled.read(partition, len(expected))] == expected
    assert filled.broker.stop() == 0


def delete_while_full(filled: FilledDisk) -> None:
    """On a full disk the broker is killed and started, and a topic is deleted: the producer of another one gets on."""
    admin = AdminClient({"bootstrap.servers": filled.broker.bootstrap})
    for topic, partitions in (("large", 1), ("t", 2)):
        admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(DEADLINE_S)
    for _ in range(100):
        filled.producer.produce("large", bytes(10_000), partition=0)
    assert filled.producer.flush(DEADLINE_S) == 0
    filled.produce()
    filled.until(lambda: "is full" in filled.broker.log_text(), "the disk fills up")
    filled.broker.kill()
    filled.broker.start()
    filled.until(lambda: "not ready: log directory" in filled.console("readyz"), "the broker runs on the full disk")
    before = sum(map(len, filled.acknowledged.values()))
    admin.delete_topics(["large"])["large"].result(DEADLINE_S)
    data = filled.broker.log_dir
    filled.until(lambda: not list(data.glob("large-*")), "its files are removed")
    filled.until(lambda: sum(map(len, filled.acknowledged.values())) > before + 200, "the producer gets on")
    admin.delete_topics(["t"])["t"].result(DEADLINE_S)
    filled.until(lambda: not list(data.glob("t-*")), "its files are removed")
    filled.until(lambda: filled.console("readyz") == "ready\n", "the broker is ready")
    filled.producer.purge()
    admin.create_topics([NewTopic("after", 1, 1)])["after"].result(DEADLINE_S)
    assert filled.broker.stop() == 0


def compact_without_room(filled: FilledDisk) -> None:
    """The log of a compacted topic fills the disk. It is compacted when there is space, and keys keep their values."""
    admin = AdminClient({"bootstrap.servers": filled.broker.bootstrap})
    configs = {
        "cleanup.policy": "compact",
        "min.cleanable.dirty.ratio": "0.01",
        "min.compaction.lag.ms": "2000",  # nothing before the disk is full
    }
    admin.create_topics([NewTopic("t", 2, 1, config=configs)])["t"].result(DEADLINE_S)
    filled.produce()
    filled.until(lambda: "is full" in filled.broker.log_text(), "the disk fills up")
    filled.until(lambda: "too full for compaction" in filled.broker.log_text(), "the cleaner finds no room")
    for partition in (0, 1):
        acknowledged = dict(filled.acknowledged[partition])
        assert dict(filled.read(partition, len(acknowledged))).items() >= acknowledged.items()
    filled.ballast.unlink()
    filled.until(lambda: len(filled.producer) == 0, "everything is delivered")
    for number in range(0, RECORDS, 3):  # a third of the keys get another value
        filled.producer.produce("t", b"new", b"%d" % number, partition=number % 2)
        filled.producer.poll(0)
    for number in range(600):  # what is compacted lies before the active segment
        filled.producer.produce("t", bytes(800), b"last", partition=number % 2)
        filled.producer.poll(0)
    assert filled.producer.flush(DEADLINE_S) == 0
    assert not filled.failed, filled.failed[:3]
    data = filled.broker.log_dir

    def is_compacted() -> bool:
        try:
            return sum(path.stat().st_size for path in data.glob("t-*/*.log")) < 3_000_000
        except FileNotFoundError:  # one was replaced just now
            return False

    filled.until(is_compacted, "it is compacted")
    for partition in (0, 1):
        latest = {
            b"%d" % number: b"%08d" % number + bytes(800) if number % 3 else b"new"
            for number in range(partition, RECORDS, 2)
        }
        assert filled.latest(partition) == latest | {b"last": bytes(800)}
    assert filled.broker.stop() == 0
    assert not [path for suffix in ("cleaned", "swap") for path in data.glob(f"t-*/*.{suffix}")]
    assert "cannot be compacted" not in filled.broker.log_text()


SCENARIOS = {
    "fill": fill_and_free,
    "kill": kill_while_full,
    "delete": delete_while_full,
    "compact": compact_without_room,
}


def main(disk: Path, scenario: str) -> None:
    """Run a scenario on this disk."""
    filled = FilledDisk(disk)
    try:
        SCENARIOS[scenario](filled)
    finally:
        if filled.broker.process is not None and filled.broker.process.poll() is None:
            filled.broker.kill()
