"""Arrow tables of what was fetched: the same as the records one by one, whatever they look like."""

import random
import subprocess
import sys

import pyarrow as pa
import pytest

from client.arrow.tables import SCHEMA, to_arrow
from client.consumer.fetched import FetchedBatches
from client.errors import InvalidOptionError
from client.topic_partition import TopicPartition
from protocol.compression import CompressionType
from protocol.errors import CorruptRecordError, InvalidRecordError
from protocol.message_set import MessageSetBuilder
from protocol.record_batch import set_base_offset
from protocol.record_batch_builder import RecordBatchBuilder

T = TopicPartition("t", 3)
NOW = 1_700_000_000_000


def batch(records, base_offset=0, **options):
    builder = RecordBatchBuilder(**options)
    for record in records:
        builder.append(*record)
    data = builder.build()
    set_base_offset(data, 0, base_offset)
    return bytes(data)


def content(rng, longest):
    return None if rng.random() < 0.2 else rng.randbytes(rng.choice((0, 1, 4, 11, 12, 13, longest)))


def random_records(rng, count):
    for _ in range(count):
        headers = [(f"h{at}", content(rng, 20)) for at in range(rng.choice((0, 0, 0, 1, 3)))]
        yield NOW + rng.randint(-100_000, 100_000), content(rng, 40), content(rng, 20_000), headers


def as_rows(fetched):
    return [
        {
            "topic": one.topic,
            "partition": one.partition,
            "offset": one.offset,
            "timestamp": one.timestamp,
            "timestamp_type": one.timestamp_type,
            "key": one.key,
            "value": one.value,
            "headers": [{"name": name, "value": value} for name, value in one.headers],
        }
        for one in fetched.records()
    ]


def rows(table):
    at = table.schema.get_field_index("timestamp")
    plain = table.set_column(at, "timestamp", table.column("timestamp").cast(pa.int64()))
    plain.validate(full=True)
    return plain.to_pylist()


def fetched(data, first_offset=0, **options):
    return FetchedBatches(T, first_offset, data, high_watermark=0, **options)


@pytest.mark.parametrize("codec", CompressionType)
@pytest.mark.parametrize("seed", range(12))
def test_tables_equal_the_single_records(seed, codec):
    rng = random.Random(seed)
    offset, data = rng.randint(0, 2**40), b""
    for _ in range(rng.randint(1, 5)):
        count = rng.randint(1, 300)
        data += batch(random_records(rng, count), offset, compression=codec)
        offset += count + rng.choice((0, 0, 7))
    some = fetched(data)
    first = rng.choice((0, some.batches[0].base_offset + rng.randint(0, 200)))
    some = fetched(data, first)
    assert rows(some.to_arrow()) == as_rows(some)
    assert some.to_arrow().schema == SCHEMA


def part(rng, kinds):
    """A partition's batches, and the offset that was asked for. A kind is a codec, None for the old format."""
    offset, data = rng.randint(0, 2**40), b""
    asked_for = offset + rng.choice((0, 0, 30))
    for _ in range(rng.randint(0, 3)):
        kind, count = rng.choice(kinds), rng.randint(1, 60)
        if kind is None:
            messages = MessageSetBuilder(1)
            for at in range(count):
                messages.append(offset + at, NOW + at, content(rng, 40), content(rng, 900))
            data += messages.build()
        else:
            data += batch(random_records(rng, count), offset, compression=kind)
        offset += count + rng.choice((0, 3))
    return data, asked_for


@pytest.mark.parametrize(
    "kinds", [(CompressionType.NONE,), (CompressionType.NONE, CompressionType.ZSTD), (CompressionType.NONE, None)]
)
@pytest.mark.parametrize("seed", range(20))
def test_partitions_of_several_answers_make_one_table(seed, kinds):
    """Those of an answer are decoded at a time, where they are not of an old format."""
    rng = random.Random(seed)
    fetches = []
    for _ in range(rng.randint(1, 3)):
        parts = [part(rng, kinds) for _ in range(rng.randint(1, 5))]
        answer, places = bytearray(rng.randbytes(rng.randrange(40))), []
        for data, _ in parts:
            places.append(len(answer))
            answer += data + rng.randbytes(rng.randrange(40))
        for number, ((data, asked_for), place) in enumerate(zip(parts, places, strict=True)):
            partition = TopicPartition(rng.choice(("t", "u")), number)
            view = memoryview(answer)[place : place + len(data)]
            fetches.append(FetchedBatches(partition, asked_for, view, high_watermark=0))
    table = to_arrow(fetches)
    assert table.schema == SCHEMA
    assert rows(table) == [row for one in fetches for row in as_rows(one)]
    assert table.select(["value"]).equals(to_arrow(fetches, ["value"]))


def test_columns_are_chosen():
    some = fetched(batch([(NOW, b"k", b"v", [])]))
    table = some.to_arrow(["value", "offset"])
    assert table.to_pylist() == [{"value": b"v", "offset": 0}]
    with pytest.raises(InvalidOptionError, match="columns='headder': must be one of topic, partition"):
        some.to_arrow(["headder"])


def test_a_table_without_records():
    assert fetched(b"").to_arrow().num_rows == 0
    assert fetched(batch([(NOW, None, b"v", [])]), 1).to_arrow(["value"]).num_rows == 0
    assert fetched(b"").to_arrow().schema == SCHEMA


def test_values_are_ordinary_binary_after_a_cast():
    some = fetched(batch([(NOW, None, b"v" * length, []) for length in range(30)]))
    column = some.to_arrow(["value"]).column("value").cast(pa.binary())
    assert column.to_pylist() == [b"v" * length for length in range(30)]


def test_tables_stay_valid_after_the_next_fetch():
    tables = []
    for number in range(50):
        data = bytearray(batch([(NOW, None, b"a value that is long %d" % number, [])]))
        tables.append(fetched(memoryview(data)).to_arrow(["value"]))
        del data
    values = [table.column("value").to_pylist() for table in tables]
    assert values == [[b"a value that is long %d" % number] for number in range(50)]


@pytest.mark.parametrize("seed", range(150))
def test_damaged_batches_are_reported_as_for_records(seed):
    rng = random.Random(seed)
    data = bytearray(batch(random_records(rng, 20)))
    for _ in range(rng.randint(1, 3)):
        data[rng.randrange(61, len(data))] = rng.randrange(256)
    some = fetched(data, check_crcs=False)
    try:
        expected = as_rows(some)
    except (InvalidRecordError, CorruptRecordError) as error:
        with pytest.raises(type(error)):
            some.to_arrow()
    else:
        assert rows(some.to_arrow()) == expected


WITHOUT_PANDAS = """
import sys
from importlib.util import find_spec
from client.arrow.tables import ArrowColumns
from client.consumer.fetched import FetchedBatches
from client.topic_partition import TopicPartition
from protocol.record_batch_builder import RecordBatchBuilder

builder = RecordBatchBuilder()
for value in (b"v", None):
    builder.append(1, value, value, [("h", value)])
fetched = FetchedBatches(TopicPartition("t", 0), 0, memoryview(builder.build()), high_watermark=2)
print(fetched.to_arrow().num_rows, ArrowColumns([fetched], [fetched.batches]).binary("value").to_pylist())
print(find_spec("pandas") is not None, "pandas" in sys.modules)
"""


def test_pandas_is_not_imported():
    """It takes longer than reading half a million records. (pyarrow imports it in many a place.)"""
    done = subprocess.run([sys.executable, "-c", WITHOUT_PANDAS], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["2 [b'v', None]", "True False"]
