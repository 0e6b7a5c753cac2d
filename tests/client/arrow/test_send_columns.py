"""Records handed over by columns: the same records as one by one."""

from __future__ import annotations

import asyncio
import itertools

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from client.admin.admin import Admin
from client.arrow.key_column import partitions_of_keys
from client.errors import (
    ClosedError,
    IllegalStateError,
    InvalidOptionError,
    RecordTooLargeError,
    UnknownTopicOrPartitionError,
)
from client.producer.partitioner import murmur2
from client.producer.producer import Producer
from support.broker import broker_process
from support.topic_contents import topic_contents

_NUMBERS = itertools.count(1)
HEADERS = (("name", b"x"), ("none", None))


@pytest.fixture
def topic():
    return f"columns-{next(_NUMBERS)}"


def contents(broker, topic, *, is_open=False):
    return topic_contents(broker.bootstrap, topic, is_open=is_open)


async def test_records_have_the_values_of_the_columns(broker, topic):
    async with Producer(bootstrap_servers=broker.bootstrap) as producer:
        futures = await producer.send_columns(
            topic, [b"a", None, b""], keys=[None, b"k", b""], headers=[(), HEADERS, ()], partition=0
        )
        assert await asyncio.gather(*futures) == [None]
    assert await asyncio.to_thread(contents, broker, topic) == [
        (0, None, b"a", ()),
        (0, b"k", None, HEADERS),
        (0, b"", b"", ()),
    ]


async def test_many_rows_become_batches_in_order(broker, topic):
    values = [b"%06d" % number * (number % 7) for number in range(20_000)]
    options = {"batch_size": 5000, "buffer_memory": 50_000, "compression_type": "lz4"}
    async with Producer(bootstrap_servers=broker.bootstrap, **options) as producer:
        futures = await producer.send_columns(topic, values, partition=0)
        assert len(futures) > 100
        await producer.flush()
        assert all(future.done() for future in futures)
    assert [one.value for one in await asyncio.to_thread(contents, broker, topic)] == values


async def test_the_order_is_kept_among_single_records_and_columns(broker, topic):
    async with Producer(bootstrap_servers=broker.bootstrap) as producer:
        producer.send_nowait(topic, b"first", partition=0)  # waits for the topic
        await producer.send_columns(topic, [b"second", b"third"], partition=0)
        await producer.send(topic, b"last", partition=0)
    found = await asyncio.to_thread(contents, broker, topic)
    assert [one.value for one in found] == [b"first", b"second", b"third", b"last"]


async def test_without_keys_batches_go_to_all_partitions(broker, topic):
    async with Admin(bootstrap_servers=broker.bootstrap) as admin:
        await admin.create_topic(topic, partitions=3)
    async with Producer(bootstrap_servers=broker.bootstrap, batch_size=500) as producer:
        await producer.send_columns(topic, [b"x" * 50] * 500)
    assert {one.partition for one in await asyncio.to_thread(contents, broker, topic)} == {0, 1, 2}


async def test_records_for_partitions_that_were_added_a_moment_ago(broker, topic):
    async with Admin(bootstrap_servers=broker.bootstrap) as admin:
        await admin.create_topic(topic, partitions=1)
        async with Producer(bootstrap_servers=broker.bootstrap) as producer:
            await producer.send_columns(topic, [b"x"], partition=0)
            await admin.create_partitions(topic, 3)
            assert (await producer.send(topic, b"x", partition=1)).offset == 0
            await asyncio.gather(*await producer.send_columns(topic, [b"x"], partition=2))
    found = await asyncio.to_thread(contents, broker, topic)
    assert sorted(one.partition for one in found) == [0, 1, 2]


async def test_invalid_columns_are_refused(broker, topic):
    async with Producer(bootstrap_servers=broker.bootstrap, max_request_size=1000, max_block_ms=2000) as producer:
        with pytest.raises(InvalidOptionError, match="must be set if records have keys"):
            await producer.send_columns(topic, [b"v"], keys=[b"k"])
        with pytest.raises(RecordTooLargeError, match="max_request_size is 1000"):
            await producer.send_columns(topic, [b"v", b"v" * 1000], partition=0)
        with pytest.raises(UnknownTopicOrPartitionError, match="no partition 99"):
            await producer.send_columns(topic, [b"v"], partition=99)
        with pytest.raises(TypeError, match="each value must be bytes or None"):
            await producer.send_columns(topic, ["v"], partition=0)
        assert await producer.send_columns(topic, [], partition=0) == []
        assert producer._memory.used == 0
    with pytest.raises(ClosedError):
        await producer.send_columns(topic, [b"v"], partition=0)


async def test_a_transaction_of_columns_can_be_handed_over(broker, topic):
    async with Producer(bootstrap_servers=broker.bootstrap, transactional_id=topic) as producer:
        with pytest.raises(IllegalStateError):
            await producer.send_columns(topic, [b"v"], partition=0)
        await producer.begin_transaction()
        await producer.send_columns(topic, [b"v"] * 10, partition=0)
        prepared = await producer.prepare_transaction()
        with pytest.raises(IllegalStateError, match="the transaction was handed over"):
            await producer.send_columns(topic, [b"v"], partition=0)
    assert await asyncio.to_thread(contents, broker, topic, is_open=True) == []
    async with Admin(bootstrap_servers=broker.bootstrap) as admin:
        assert await admin.end_transactions([prepared], commit=True) == {prepared: None}
    assert len(await asyncio.to_thread(contents, broker, topic)) == 10


async def test_batches_of_a_closed_producer_fail(tmp_path):
    with broker_process(tmp_path / "log") as broker:
        async with Producer(bootstrap_servers=broker.bootstrap) as producer:
            await producer.send("t", b"v")
            broker.kill()
            (future,) = await producer.send_columns("t", [b"v"], partition=0)
            await producer.close(timeout_s=0)
            with pytest.raises(ClosedError):
                await future


async def test_a_killed_broker_gets_each_record_once(tmp_path):
    with broker_process(tmp_path / "log") as broker:
        async with Producer(bootstrap_servers=broker.bootstrap, batch_size=2000) as producer:
            values = [b"%d" % number for number in range(5000)]
            await asyncio.gather(*await producer.send_columns("t", values[:100], partition=0))
            futures = await producer.send_columns("t", values[100:], partition=0)
            await asyncio.sleep(0)
            broker.kill()
            broker.start()
            await asyncio.gather(*futures)
        found = await asyncio.to_thread(contents, broker, "t")
        assert [one.value for one in found] == values


@given(st.lists(st.none() | st.binary(max_size=20)), st.integers(1, 100), st.integers(0, 3))
def test_a_column_of_keys_uses_the_partition_of_each_key(keys, count, start):
    column = pa.array(keys, pa.binary())[start:]
    expected = [-1 if key is None else (murmur2(key) & 0x7FFFFFFF) % count for key in keys[start:]]
    assert partitions_of_keys(column, count).tolist() == expected
