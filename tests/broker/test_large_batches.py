"""Large batches whose records must be read, and large message sets, are validated in another thread.

Other connections do not wait.
"""

from __future__ import annotations

import asyncio
import random

import pytest

from broker.broker import Broker
from broker.settings.config import BrokerConfig
from protocol.compression import CompressionType
from protocol.error_codes import ErrorCode
from protocol.messages.metadata import MetadataRequest
from protocol.messages.produce import ProduceRequest
from protocol.record_batch import TimestampType, iter_batches
from storage.file_system import FileSystem
from storage.log.batch_validation import MAX_BYTES_AT_ONCE, MESSAGE_SET_BYTES_AT_ONCE, BatchValidation
from support.broker import settings
from support.held_commits import hold, let_go, resign
from support.polling import until
from support.transactions import TransactionalProducer
from support.wire import append, batch, create_topic, fetch, message_set, produce, wire_client

ZEROS = bytes(MAX_BYTES_AT_ONCE + 1)
RANDOM = random.Random(0).randbytes(200_000)
LARGE = {
    "decompressed": {"values": (ZEROS,), "codec": CompressionType.GZIP},
    "decompressed zstd": {"values": (ZEROS,), "codec": CompressionType.ZSTD},
    "compressed": {"values": (RANDOM,), "codec": CompressionType.LZ4},
    "not compressed": {"values": (ZEROS,), "codec": CompressionType.NONE},
}
LARGE_SETS = {
    "decompressed": {"values": (ZEROS[: MESSAGE_SET_BYTES_AT_ONCE + 1],), "codec": CompressionType.GZIP},
    "compressed": {"values": (RANDOM[:20_000],), "codec": CompressionType.GZIP},
    "not compressed": {"values": (ZEROS[:MESSAGE_SET_BYTES_AT_ONCE],), "codec": CompressionType.NONE},
}
"""Message sets of clients older than Kafka 0.11."""
SMALL = {
    "decompressed": {"values": (ZEROS[: MAX_BYTES_AT_ONCE // 2],), "codec": CompressionType.GZIP},
    "not compressed": {"values": (RANDOM,), "codec": CompressionType.NONE},
}


class GatedThreads(FileSystem):
    """Validations in other threads do not begin while the gate is closed."""

    def __init__(self):
        super().__init__()
        self.gate = asyncio.Event()
        self.gate.set()
        self.begun = 0

    async def run_blocking(self, work):
        if isinstance(getattr(work, "__self__", None), BatchValidation):
            self.begun += 1
            await self.gate.wait()
        return await super().run_blocking(work)


@pytest.fixture
def fs():
    return GatedThreads()


@pytest.fixture
async def broker(tmp_path, fs):
    config = BrokerConfig.load(None, settings(tmp_path / "data", message_max_bytes="4000000"))
    async with Broker(config, fs=fs) as broker:
        yield broker


@pytest.fixture
async def client(broker):
    async with wire_client(broker.bootstrap_servers) as client:
        yield client


def records(given):
    return batch(*given["values"], codec=given["codec"])


async def values(client, topic):
    data = (await client.call(fetch(topic, partition_max_bytes=1 << 24), 11)).responses[0].partitions[0].records
    return [record.value for one in iter_batches(bytes(data)) for record in one.records()]


@pytest.mark.parametrize("given", LARGE.values(), ids=LARGE)
async def test_other_connections_are_served_meanwhile(broker, client, fs, given):
    await create_topic(client, "t", cleanup_policy="compact")
    async with wire_client(broker.bootstrap_servers) as other:
        fs.gate.clear()
        appending = asyncio.create_task(append(client, "t", records(given)))
        await until(lambda: fs.begun, "the batch is to be validated in another thread")
        await other.call(MetadataRequest(topics=[]), 4)
        assert (await append(other, "t", batch(b"small"))).base_offset == 0
        assert not appending.done()
        fs.gate.set()
        answer = await appending
    assert (answer.error_code, answer.base_offset) == (0, 1)
    assert await values(client, "t") == [b"small", *given["values"]]


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("given", LARGE_SETS.values(), ids=LARGE_SETS)
async def test_other_connections_are_served_while_a_message_set_is_converted(broker, client, fs, given, magic):
    await create_topic(client, "t")
    async with wire_client(broker.bootstrap_servers) as other:
        fs.gate.clear()
        records = message_set(magic, *given["values"], codec=given["codec"])
        appending = asyncio.create_task(append(client, "t", records, version=2))
        await until(lambda: fs.begun, "the message set is to be converted in another thread")
        assert (await append(other, "t", message_set(magic, b"small"), version=2)).base_offset == 0
        assert not appending.done()
        fs.gate.set()
        answer = await appending
    assert (answer.error_code, answer.base_offset) == (0, 1)
    assert await values(client, "t") == [b"small", *given["values"]]


async def test_small_message_sets_need_no_thread(client, fs):
    await create_topic(client, "t")
    for value, codec in ((ZEROS[:200_000], CompressionType.GZIP), (RANDOM, CompressionType.NONE)):
        assert (await append(client, "t", message_set(1, value, codec=codec), version=2)).error_code == 0
    assert not fs.begun


async def test_a_large_message_set_follows_the_rules_of_its_topic(client, fs):
    await create_topic(client, "t", cleanup_policy="compact")
    answer = await append(client, "t", message_set(1, RANDOM, RANDOM, key=None), version=2)
    assert answer.error_code == ErrorCode.INVALID_RECORD
    assert (await append(client, "t", message_set(1, ZEROS, ZEROS, ZEROS, ZEROS), version=2)).error_code == (
        ErrorCode.MESSAGE_TOO_LARGE
    )
    await create_topic(client, "u", message_timestamp_type="LogAppendTime", compression_type="gzip")
    answer = await append(client, "u", message_set(1, ZEROS, ZEROS), version=2)
    assert (answer.error_code, answer.log_append_time_ms > 0) == (0, True)
    assert await values(client, "u") == [ZEROS, ZEROS]
    assert fs.begun == 3


@pytest.mark.parametrize("magic", [3, 127])
async def test_large_records_of_an_unknown_format_are_refused(client, magic):
    await create_topic(client, "t")
    records = bytearray(message_set(1, ZEROS))
    records[16] = magic
    assert (await append(client, "t", bytes(records), version=2)).error_code == ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("given", SMALL.values(), ids=SMALL)
async def test_small_batches_need_no_thread(client, fs, given):
    await create_topic(client, "t", cleanup_policy="compact")
    assert (await append(client, "t", records(given))).error_code == 0
    assert not fs.begun


async def test_large_batches_that_need_no_look_inside_need_no_thread(client, fs):
    await create_topic(client, "t")
    assert (await append(client, "t", records(LARGE["not compressed"]))).error_code == 0
    assert not fs.begun


async def test_requests_of_one_connection_keep_their_order(client):
    await create_topic(client, "t", cleanup_policy="compact")
    sent = [
        batch(*given["values"], codec=given["codec"], producer_id=7, producer_epoch=0, sequence=number)
        for number, given in enumerate([LARGE["decompressed"], SMALL["not compressed"], LARGE["compressed"]])
    ]
    for one in sent:
        client.send(produce("t", one), 11)
    answers = [(await client.receive(ProduceRequest.API_KEY, 11))[1].responses[0] for _ in sent]
    assert [(one.partition_responses[0].error_code, one.partition_responses[0].base_offset) for one in answers] == [
        (0, 0),
        (0, 1),
        (0, 2),
    ]


async def test_a_large_batch_with_an_invalid_record_is_refused(client):
    await create_topic(client, "t", cleanup_policy="compact")
    answer = await append(client, "t", batch(ZEROS, key=None, codec=CompressionType.GZIP))
    assert answer.error_code == ErrorCode.INVALID_RECORD
    assert [one.batch_index for one in answer.record_errors] == [0]
    assert (await append(client, "t", records(LARGE["decompressed"]))).error_code == 0
    assert await values(client, "t") == [ZEROS]


async def test_a_large_batch_is_converted_as_the_topic_says(client):
    await create_topic(client, "t", compression_type="zstd", message_timestamp_type="LogAppendTime")
    answer = await append(client, "t", records(LARGE["decompressed"]))
    assert answer.error_code == 0
    assert answer.log_append_time_ms > 0
    data = (await client.call(fetch("t", partition_max_bytes=1 << 24), 11)).responses[0].partitions[0].records
    (stored,) = iter_batches(bytes(data))
    assert (stored.compression, stored.timestamp_type) == (CompressionType.ZSTD, TimestampType.LOG_APPEND_TIME)
    assert [record.value for record in stored.records()] == [ZEROS]


async def test_the_partitions_of_a_request_with_a_large_batch(client):
    await create_topic(client, "t", partitions=3, cleanup_policy="compact")
    request = produce("t", records(SMALL["not compressed"]))
    data = request.topic_data[0].partition_data
    for given in (LARGE["decompressed"], LARGE["not compressed"]):
        data.append(type(data[0])(index=len(data), records=records(given)))
    answer = await client.call(request, 11)
    answers = answer.responses[0].partition_responses
    assert [(one.index, one.error_code, one.base_offset) for one in answers] == [(n, 0, 0) for n in range(3)]


class FirstPartition:
    """Names a partition for `hold`."""

    topic = "t"

    @staticmethod
    def partition_for(key):
        return 0


async def test_an_append_is_not_acknowledged_if_its_leader_changes_during_the_validation_of_another(broker, client, fs):
    await create_topic(client, "t", partitions=2, cleanup_policy="compact")
    request = produce("t", records(SMALL["not compressed"]))
    data = request.topic_data[0].partition_data
    data.append(type(data[0])(index=1, records=records(LARGE["decompressed"])))
    partition = hold(broker, FirstPartition, "")
    fs.gate.clear()
    answering = asyncio.create_task(client.call(request, 11))
    await until(lambda: fs.begun, "the batch is to be validated in another thread")
    sync = partition.sync
    resign(broker, partition)
    partition.sync = sync
    broker.services.replicas.role_changed(("t", 0))
    let_go(broker, partition)
    fs.gate.set()
    answers = (await answering).responses[0].partition_responses
    assert [one.error_code for one in answers] == [ErrorCode.NOT_LEADER_OR_FOLLOWER, 0]


async def test_a_large_batch_of_a_transaction(client):
    await create_topic(client, "t", cleanup_policy="compact")
    producer = TransactionalProducer(client.call, "x")
    await producer.begin()
    await producer.added("t", 0)
    await producer.write("t", ZEROS)
    await producer.ended(True)
    data = (await client.call(fetch("t", partition_max_bytes=1 << 24), 11)).responses[0].partitions[0].records
    assert [record.value for one in iter_batches(bytes(data)) if not one.is_control for record in one.records()] == [
        ZEROS
    ]
