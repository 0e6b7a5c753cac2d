"""Batches against the record classes of aiokafka (compiled) and kafka-python, in both directions."""

import pytest
from aiokafka.record.default_records import DefaultRecordBatch as AiokafkaBatch
from aiokafka.record.default_records import DefaultRecordBatchBuilder as AiokafkaBuilder
from hypothesis import example, given, settings
from hypothesis import strategies as st

from protocol.compression import CompressionType
from protocol.record_batch import read_batch
from protocol.record_batch_builder import RecordBatchBuilder
from support.batches import Row, build, rows_of, some_rows
from support.counts import count
from support.kafka_python import DefaultRecordBatch as KafkaPythonBatch
from support.kafka_python import DefaultRecordBatchBuilder as KafkaPythonBuilder

pytestmark = pytest.mark.counted

fields = st.none() | st.binary(max_size=200)
rows = st.lists(
    st.tuples(
        st.integers(0, 2**61),
        fields,
        fields,
        st.lists(st.tuples(st.text(max_size=20), fields), max_size=4).map(tuple),
    ),
    min_size=1,
    max_size=30,
)
NOW = 1_700_000_000_000
EDGES: list[list[Row]] = [
    [(NOW, None, None, ())],
    [(NOW, b"", b"", (("", b""), ("", None)))],
    [(NOW, b"k", b"v", (("ключ", b"\xff\x00"), ("中" * 50, b"x" * 200)))],
    [(NOW - i * 86_400_000, b"%d" % i, b"v" * i, ()) for i in range(200)],
    [(0, b"x" * 63, b"y" * 64, ()), (2**61, b"x" * 8191, b"y" * 8192, ()), (0, b"z" * 70_000, None, ())],
]


def ours(given_rows: list[Row], codec: CompressionType) -> bytes:
    builder = RecordBatchBuilder(0, codec, producer_id=2**40, producer_epoch=7, base_sequence=11, transactional=True)
    for row in given_rows:
        builder.append(*row)
    return bytes(builder.build())


def theirs(builder_class: type, given_rows: list[Row], codec: CompressionType) -> bytes:
    builder = builder_class(
        2,
        int(codec),
        is_transactional=1,
        producer_id=2**40,
        producer_epoch=7,
        base_sequence=11,
        batch_size=1 << 26,
    )
    for offset, (timestamp, key, value, headers) in enumerate(given_rows):
        builder.append(offset, timestamp, key, value, list(headers))
    return bytes(builder.build())


def compare(batch_class: type, builder_class: type, given_rows: list[Row], codec: CompressionType) -> None:
    wanted = [(timestamp, key, value, tuple(headers)) for timestamp, key, value, headers in given_rows]
    mine, other = ours(given_rows, codec), theirs(builder_class, given_rows, codec)
    if codec is CompressionType.NONE:
        # The leader epoch of a batch that no leader has written is anything; all behind it is the same.
        assert mine[16:] == other[16:]
    batch = read_batch(other)
    batch.check_crc()
    assert rows_of(batch.records()) == wanted
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (2**40, 7, 11)
    assert batch.is_transactional
    read = batch_class(mine)
    assert read.validate_crc()
    assert read.is_transactional
    assert read.next_offset == len(wanted)
    assert [(r.timestamp, r.key, r.value, tuple(r.headers)) for r in read] == wanted


@pytest.mark.parametrize("codec", CompressionType)
@given(given_rows=rows)
@settings(max_examples=count(30, 300))
@example(given_rows=EDGES[0])
@example(given_rows=EDGES[1])
@example(given_rows=EDGES[2])
@example(given_rows=EDGES[3])
@example(given_rows=EDGES[4])
def test_aiokafka(codec: CompressionType, given_rows: list[Row]) -> None:
    compare(AiokafkaBatch, AiokafkaBuilder, given_rows, codec)


# kafka-python needs further libraries for snappy and lz4
@pytest.mark.parametrize("codec", [CompressionType.NONE, CompressionType.GZIP])
@given(given_rows=rows)
@settings(max_examples=count(30, 300))
@example(given_rows=EDGES[2])
@example(given_rows=EDGES[3])
@example(given_rows=EDGES[4])
def test_kafka_python(codec: CompressionType, given_rows: list[Row]) -> None:
    compare(KafkaPythonBatch, KafkaPythonBuilder, given_rows, codec)


@pytest.mark.parametrize("codec", CompressionType)
@pytest.mark.parametrize("size", [1, 100, 32 * 1024, 64 * 1024 + 1, 1_000_000])
def test_sizes_up_to_a_megabyte(codec: CompressionType, size: int) -> None:
    given_rows = some_rows(max(1, min(2000, 1_000_000 // size)), size)
    compare(AiokafkaBatch, AiokafkaBuilder, given_rows, codec)


@given(given_rows=rows, base_offset=st.integers(0, 2**50), codec=st.sampled_from(CompressionType))
@settings(max_examples=count(50, 1000))
def test_round_trip(given_rows: list[Row], base_offset: int, codec: CompressionType) -> None:
    batch = read_batch(build(given_rows, base_offset, codec))
    records = list(batch.records())
    assert rows_of(records) == given_rows
    assert [record.offset for record in records] == list(range(base_offset, base_offset + len(given_rows)))
    assert batch.max_timestamp == max(row[0] for row in given_rows)
    assert batch.base_timestamp == given_rows[0][0]
