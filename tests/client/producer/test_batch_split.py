"""Batches that are larger than a topic takes are sent in parts: each record once and in order."""

import asyncio

import pytest

from client.admin.admin import Admin
from client.consumer.fetched import ConsumerRecord
from client.consumer.reader import Reader
from client.errors import KafkaError, RecordTooLargeError
from client.producer.producer import Producer
from client.topic_partition import TopicPartition
from support.broker import running_broker

LIMIT = 2_000
PARTITION = TopicPartition("t", 0)


@pytest.fixture
async def servers(tmp_path):
    async with running_broker(tmp_path / "data") as broker, Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        await admin.create_topic("t", configs={"max.message.bytes": str(LIMIT)})
        yield broker.bootstrap_servers


async def read(servers: str, count: int) -> list[ConsumerRecord]:
    async with Reader(bootstrap_servers=servers, isolation_level="read_committed") as reader:
        reader.assign({PARTITION: "beginning"})
        return [await anext(reader) for _ in range(count)]


@pytest.mark.parametrize("options", [{}, {"acks": 1}, {"compression_type": "lz4"}, {"transactional_id": "x"}])
async def test_a_batch_that_is_too_large_is_written_in_parts(servers, options):
    async with Producer(bootstrap_servers=servers, retry_backoff_ms=1, **options) as producer:
        if "transactional_id" in options:
            await producer.begin_transaction()
        sent = [
            producer.send_nowait("t", bytes([number % 251]) * 90, key=b"%d" % number, headers=[("n", b"%d" % number)])
            for number in range(1_000)
        ]
        await producer.flush()
        if "transactional_id" in options:
            await producer.commit_transaction()
        offsets = [future.result().offset for future in sent]
    assert offsets == list(range(1_000))
    records = await read(servers, 1_000)
    assert [record.key for record in records] == [b"%d" % number for number in range(1_000)]
    assert [record.value for record in records] == [bytes([number % 251]) * 90 for number in range(1_000)]
    assert [record.headers for record in records] == [(("n", b"%d" % number),) for number in range(1_000)]


async def test_a_record_that_is_too_large_fails_alone(servers):
    async with Producer(bootstrap_servers=servers, retry_backoff_ms=1) as producer:
        sent = [producer.send_nowait("t", b"x" * (3_000 if number % 100 == 50 else 90)) for number in range(500)]
        outcomes = await asyncio.gather(*sent, return_exceptions=True)
        again = await producer.send("t", b"afterwards")
    failed = [number for number, outcome in enumerate(outcomes) if isinstance(outcome, KafkaError)]
    assert failed == [50, 150, 250, 350, 450]
    assert {type(outcomes[number]).__name__ for number in failed} == {"RecordTooLargeError"}
    offsets = [outcome.offset for outcome in outcomes if not isinstance(outcome, KafkaError)]
    assert [*offsets, again.offset] == list(range(496))


async def test_records_sent_as_columns_are_split(servers):
    values = [b"%d" % number + b"x" * 90 for number in range(1_000)]
    async with Producer(bootstrap_servers=servers, retry_backoff_ms=1) as producer:
        await asyncio.gather(*await producer.send_columns("t", values))
        sent = await producer.send_columns("t", [b"before", b"x" * 3_000, b"behind"])
        await producer.flush()
        with pytest.raises(RecordTooLargeError):
            await asyncio.gather(*sent)
    records = await read(servers, 1_002)
    assert [record.value for record in records] == [*values, b"before", b"behind"]


async def test_a_split_batch_releases_its_memory(servers):
    async with Producer(bootstrap_servers=servers, retry_backoff_ms=1, buffer_memory=100_000) as producer:
        for _ in range(5):
            await asyncio.gather(*[producer.send("t", b"x" * 90) for _ in range(1_000)])
        assert producer._memory.used == 0
