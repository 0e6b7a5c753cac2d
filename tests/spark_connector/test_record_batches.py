"""Arrow batches for Spark: the same as the records one by one, in Spark's types to the letter."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_schema

from client.consumer.fetched import FetchedBatches
from client.topic_partition import TopicPartition
from protocol.compression import CompressionType
from protocol.message_set import MessageSetBuilder
from protocol.record_batch import set_base_offset
from protocol.record_batch_builder import RecordBatchBuilder
from spark_connector.record_batches import TARGET_BYTES, RecordBatches
from spark_connector.schema import source_schema

T = TopicPartition("t", 3)
NOW = 1_700_000_000_000
ALL = source_schema({"includeHeaders": "true"})


def batch(records, base_offset=0, codec=CompressionType.NONE):
    builder = RecordBatchBuilder(0, codec)
    for record in records:
        builder.append(*record)
    data = builder.build()
    set_base_offset(data, 0, base_offset)
    return bytes(data)


def fetched(data, first_offset=0):
    return FetchedBatches(T, first_offset, data, high_watermark=10_000)


def rows(fetches, end=10_000, schema=ALL):
    found = []
    for made in RecordBatches(schema, *T, end).of(fetches):
        assert made.schema.equals(to_arrow_schema(schema, timezone="UTC"))
        made.validate(full=True)
        at = made.schema.get_field_index("timestamp")
        plain = made.set_column(at, "timestamp", made["timestamp"].cast(pa.int64())) if at >= 0 else made
        found += plain.to_pylist()
    return found


def expected(one):
    return {
        "key": one.key,
        "value": one.value,
        "topic": one.topic,
        "partition": one.partition,
        "offset": one.offset,
        "timestamp": one.timestamp * 1000,
        "timestampType": one.timestamp_type,
        "headers": [{"key": name, "value": value} for name, value in one.headers],
    }


def content(rng, longest):
    return None if rng.random() < 0.2 else rng.randbytes(rng.choice((0, 1, 12, 13, 70, longest)))


def some(rng, count):
    for _ in range(count):
        headers = [(f"h{at}", content(rng, 20)) for at in range(rng.choice((0, 0, 1, 3)))]
        yield NOW + rng.randint(-100_000, 100_000), content(rng, 40), content(rng, 20_000), headers


@pytest.mark.parametrize("codec", [CompressionType.NONE, CompressionType.LZ4])
def test_any_records_are_the_same_as_one_by_one(codec):
    rng = random.Random(int(codec) + 5)
    for _ in range(30):
        data, at = b"", rng.randrange(100)
        for _ in range(rng.randrange(1, 5)):
            count = rng.choice((1, 2, 30, 200))
            data += batch(list(some(rng, count)), at, codec=codec)
            at += count + rng.choice((0, 0, 7))
        first, end = rng.randrange(at), rng.randrange(at + 1)
        one = fetched(data, first)
        assert rows([one], end) == [expected(record) for record in one.records() if record.offset < end]


def test_records_of_equal_size_are_the_same_as_one_by_one():
    """Runs of them are found at a time: of many lengths, and with one in between that is longer."""
    for size in (0, 1, 50, 55, 56, 57, 58, 59, 60, 61, 62, 63, 64, 100, 8_180, 8_190, 20_000):
        records = [(NOW + at, None, bytes(size + (at == 40)), ()) for at in range(70)]
        one = fetched(batch(records) + batch(records, 70))
        assert rows([one]) == [expected(record) for record in one.records()]


def test_messages_of_old_formats_are_read():
    builder = MessageSetBuilder(1)
    for at in range(5):
        builder.append(at, NOW + at, None, b"old%d" % at)
    one = fetched(builder.build(), 1)
    assert [row["value"] for row in rows([one], 4)] == [b"old1", b"old2", b"old3"]
    assert [row["offset"] for row in rows([one], 4)] == [1, 2, 3]


def test_only_the_columns_that_are_wanted_are_made():
    one = fetched(batch([(NOW, b"k", b"v", ())]))
    assert rows([one], schema=source_schema({"columns": "offset,key"})) == [{"offset": 0, "key": b"k"}]
    assert rows([one], schema=source_schema({"columns": "topic"})) == [{"topic": "t"}]


def test_small_fetches_are_joined_and_large_ones_are_cut():
    def sizes(fetches):
        return [made.num_rows for made in RecordBatches(ALL, *T, 10_000).of(fetches)]

    small = [fetched(batch([(NOW, None, bytes(10_000), ())] * 10, at * 10), at * 10) for at in range(30)]
    assert sum(sizes(small)) == 300
    assert all(10_000 * size >= TARGET_BYTES for size in sizes(small)[:-1])
    large = fetched(batch([(NOW, None, bytes(100_000), ())] * 100))
    assert sum(sizes([large])) == 100
    assert max(sizes([large])) <= 11
    assert sizes([fetched(batch([(NOW, None, bytes(5_000_000), ())]))]) == [1]
    assert sizes([]) == []
