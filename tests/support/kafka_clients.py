"""Clients of several vendors behind one interface: each produces records to partitions and reads assigned partitions.

They are used as their documentation describes, without workarounds in their settings.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import tempfile
import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from support.deadlines import DEADLINE_MS, DEADLINE_S

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # kafka-python warns when imported by Python 3.11
    import kafka

from support.programs import need_kcat


class Sent(NamedTuple):
    """One record, as it is given to a client and must be returned."""

    partition: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...] = ()


class Client(ABC):
    """One client library or tool."""

    name: str
    codecs: Sequence[str]

    @abstractmethod
    def produce(self, servers: str, topic: str, records: Iterable[Sent], codec: str, *, idempotent: bool) -> None:
        """Send the records, each to its partition, and wait for every acknowledgement."""

    @abstractmethod
    def consume(self, servers: str, topic: str, counts: Sequence[int]) -> list[Sent]:
        """Read that many records of each partition from its beginning, in order of partitions."""

    def __str__(self) -> str:
        return self.name


class ConfluentKafka(Client):
    """librdkafka through confluent-kafka."""

    name = "confluent-kafka"
    codecs = ("none", "gzip", "snappy", "lz4", "zstd")

    def produce(self, servers: str, topic: str, records: Iterable[Sent], codec: str, *, idempotent: bool) -> None:
        from confluent_kafka import Producer

        errors: list[object] = []
        producer = Producer(
            {
                "bootstrap.servers": servers,
                "compression.type": codec,
                "enable.idempotence": idempotent,
                "linger.ms": 5,
                "message.max.bytes": 2_000_000,
            }
        )

        def delivered(error: object, _message: object) -> None:
            if error is not None:
                errors.append(error)

        for record in records:
            while True:
                try:
                    producer.produce(
                        topic,
                        record.value,
                        record.key,
                        record.partition,
                        on_delivery=delivered,
                        headers=list(record.headers),
                    )
                    break
                except BufferError:
                    producer.poll(0.1)
            producer.poll(0)
        assert producer.flush(DEADLINE_S) == 0
        assert not errors, errors[:3]

    def consume(self, servers: str, topic: str, counts: Sequence[int]) -> list[Sent]:
        from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

        consumer = Consumer(
            {"bootstrap.servers": servers, "group.id": "none", "enable.auto.commit": False, "check.crcs": True}
        )
        consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in range(len(counts))])
        found: list[list[Sent]] = [[] for _ in counts]
        left = sum(counts)
        while left > 0:
            messages = consumer.consume(min(left, 10_000), DEADLINE_S)
            assert messages, f"{left} records are missing"
            for message in messages:
                assert message.error() is None, message.error()
                partition = message.partition()
                assert message.offset() == len(found[partition])
                headers = tuple((name, value) for name, value in message.headers() or ())
                found[partition].append(Sent(partition, message.key(), message.value(), headers))
                left -= 1
        consumer.close()
        return [record for partition in found for record in partition]


class KafkaPython(Client):
    """kafka-python."""

    name = "kafka-python"
    codecs = ("none", "gzip", "snappy", "lz4", "zstd")

    def produce(self, servers: str, topic: str, records: Iterable[Sent], codec: str, *, idempotent: bool) -> None:
        producer = kafka.KafkaProducer(
            bootstrap_servers=servers,
            compression_type=None if codec == "none" else codec,
            enable_idempotence=idempotent,
            linger_ms=5,
        )
        sent = [
            producer.send(topic, record.value, record.key, list(record.headers), partition=record.partition)
            for record in records
        ]
        producer.flush(DEADLINE_S)
        for future in sent:
            future.get(DEADLINE_S)
        producer.close()

    def consume(self, servers: str, topic: str, counts: Sequence[int]) -> list[Sent]:
        consumer = kafka.KafkaConsumer(bootstrap_servers=servers, group_id=None, check_crcs=True)
        partitions = [kafka.TopicPartition(topic, partition) for partition in range(len(counts))]
        consumer.assign(partitions)
        consumer.seek_to_beginning()
        found: list[list[Sent]] = [[] for _ in counts]
        left = sum(counts)
        while left > 0:
            polled = consumer.poll(DEADLINE_MS, max_records=10_000)
            assert polled, f"{left} records are missing"
            for partition, messages in polled.items():
                into = found[partition.partition]
                for message in messages:
                    assert message.offset == len(into)
                    headers = tuple((name, value) for name, value in message.headers)
                    into.append(Sent(partition.partition, message.key, message.value, headers))
                left -= len(messages)
        consumer.close()
        return [record for partition in found for record in partition]


class AioKafka(Client):
    """aiokafka."""

    name = "aiokafka"
    codecs = ("none", "gzip", "snappy", "lz4", "zstd")

    def produce(self, servers: str, topic: str, records: Iterable[Sent], codec: str, *, idempotent: bool) -> None:
        asyncio.run(self._produce(servers, topic, records, codec, idempotent))

    async def _produce(self, servers: str, topic: str, records: Iterable[Sent], codec: str, idempotent: bool) -> None:
        from aiokafka import AIOKafkaProducer

        producer = AIOKafkaProducer(
            bootstrap_servers=servers,
            compression_type=None if codec == "none" else codec,
            enable_idempotence=idempotent,
            max_request_size=2_000_000,
        )
        await producer.start()
        try:
            sent = [
                await producer.send(
                    topic, record.value, record.key, partition=record.partition, headers=list(record.headers)
                )
                for record in records
            ]
            for future in sent:
                await future
        finally:
            await producer.stop()

    def consume(self, servers: str, topic: str, counts: Sequence[int]) -> list[Sent]:
        return asyncio.run(self._consume(servers, topic, counts))

    async def _consume(self, servers: str, topic: str, counts: Sequence[int]) -> list[Sent]:
        from aiokafka import AIOKafkaConsumer, TopicPartition

        consumer = AIOKafkaConsumer(bootstrap_servers=servers, group_id=None, check_crcs=True)
        await consumer.start()
        found: list[list[Sent]] = [[] for _ in counts]
        try:
            consumer.assign([TopicPartition(topic, partition) for partition in range(len(counts))])
            await consumer.seek_to_beginning()
            left = sum(counts)
            while left > 0:
                polled = await consumer.getmany(timeout_ms=DEADLINE_MS, max_records=10_000)
                assert polled, f"{left} records are missing"
                for partition, messages in polled.items():
                    into = found[partition.partition]
                    for message in messages:
                        assert message.offset == len(into)
                        into.append(Sent(partition.partition, message.key, message.value, tuple(message.headers)))
                    left -= len(messages)
        finally:
            await consumer.stop()
        return [record for partition in found for record in partition]


class Ottla(Client):
    """Ottla's client, which must be compatible with the others."""

    name = "ottla"
    codecs = ("none", "gzip", "snappy", "lz4", "zstd")

    def produce(self, servers: str, topic: str, records: Iterable[Sent], codec: str, *, idempotent: bool) -> None:
        asyncio.run(self._produce(servers, topic, records, codec, idempotent))

    async def _produce(self, servers: str, topic: str, records: Iterable[Sent], codec: str, idempotent: bool) -> None:
        from client.producer.producer import Producer

        async with Producer(
            bootstrap_servers=servers,
            compression_type=codec,
            enable_idempotence=idempotent,
            linger_ms=5,
            max_request_size=2_000_000,
        ) as producer:
            sent = [
                producer.send_nowait(
                    topic, record.value, key=record.key, partition=record.partition, headers=record.headers
                )
                for record in records
            ]
            await asyncio.gather(*sent)

    def consume(self, servers: str, topic: str, counts: Sequence[int]) -> list[Sent]:
        return asyncio.run(self._consume(servers, topic, counts))

    async def _consume(self, servers: str, topic: str, counts: Sequence[int]) -> list[Sent]:
        from client.consumer.reader import Reader
        from client.topic_partition import TopicPartition

        found: list[list[Sent]] = [[] for _ in counts]
        async with Reader(bootstrap_servers=servers) as reader:
            reader.assign({TopicPartition(topic, partition): "beginning" for partition in range(len(counts))})
            while sum(map(len, found)) < sum(counts):
                records = await reader.fetch(timeout_ms=DEADLINE_MS)
                assert records, "records are missing"
                for record in records:
                    into = found[record.partition]
                    assert record.offset == len(into)
                    headers = tuple((name, value or b"") for name, value in record.headers)
                    into.append(Sent(record.partition, record.key, record.value, headers))
        return [record for partition in found for record in partition]


class Kcat(Client):
    """kcat, and with it a librdkafka of 2022. A call a record, or a file: text without line ends only."""

    name = "kcat"
    codecs = ("none", "gzip", "snappy", "lz4", "zstd")

    def produce(self, servers: str, topic: str, records: Iterable[Sent], codec: str, *, idempotent: bool) -> None:
        options = [
            "-z",
            codec,
            "-X",
            f"enable.idempotence={str(idempotent).lower()}",
            "-X",
            "message.max.bytes=2000000",
        ]
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory) / "value"
            for record in records:
                command = ["-P", "-t", topic, "-p", str(record.partition), *options]
                for name, value in record.headers:
                    command += ["-H", f"{name}={value.decode()}"]
                if record.value is None:  # a line with nothing behind the key
                    kcat(servers, *command, "-Z", "-K", "|", stdin=b"%s|\n" % record.key)
                    continue
                path.write_bytes(record.value)
                if record.key is not None:
                    command += ["-k", record.key.decode()]
                kcat(servers, *command, str(path))

    def consume(self, servers: str, topic: str, counts: Sequence[int]) -> list[Sent]:
        found: list[list[Sent]] = [[] for _ in counts]
        lines = kcat(servers, "-C", "-t", topic, "-o", "beginning", "-c", str(sum(counts)), "-J")
        for line in lines.splitlines():
            message = json.loads(line)
            into = found[message["partition"]]
            assert message["offset"] == len(into)
            pairs = message.get("headers") or []
            headers = tuple(zip(pairs[::2], map(_bytes, pairs[1::2]), strict=True))
            into.append(Sent(message["partition"], _bytes(message["key"]), _bytes(message["payload"]), headers))
        return [record for partition in found for record in partition]


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else text.encode()


def kcat(servers: str, *arguments: str, stdin: bytes | None = None, timeout_s: float = DEADLINE_S) -> bytes:
    """The output of kcat, which must succeed."""
    done = subprocess.run(
        [need_kcat(), "-q", "-b", servers, *arguments],
        input=stdin,
        stdin=subprocess.DEVNULL if stdin is None else None,
        capture_output=True,
        timeout=timeout_s,
    )
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


CLIENTS: tuple[Client, ...] = (ConfluentKafka(), AioKafka(), KafkaPython(), Kcat())
OURS = Ottla()
