"""Which of the fetched records a reader sees: whole batches, from its offset on, committed ones if asked."""

import json

import pytest

from client.consumer.fetched import FetchedBatches
from client.topic_partition import TopicPartition
from protocol.compression import CompressionType
from protocol.errors import CorruptRecordError
from protocol.message_set import MessageSetBuilder
from protocol.record_batch_builder import RecordBatchBuilder
from support.reference import REFERENCE

PARTITION = TopicPartition("t", 0)
BROKER = REFERENCE / "log-dirs" / "broker-0"


def batch(base, values, **options):
    builder = RecordBatchBuilder(base_offset=base, **options)
    for value in values:
        builder.append(1000, None, value)
    return bytes(builder.build())


def fetched(data, first=0, **options):
    return FetchedBatches(PARTITION, first, data, high_watermark=100, **options)


def test_an_incomplete_last_batch_is_left_out():
    data = batch(0, [b"a", b"b"]) + batch(2, [b"c"])
    for cut in range(len(data)):
        whole = fetched(data[: len(data) - 1 - cut]).next_offset
        assert whole == (2 if len(data) - 1 - cut >= len(batch(0, [b"a", b"b"])) else 0)
    assert [record.value for record in fetched(data).records()] == [b"a", b"b", b"c"]


def test_records_before_the_offset_are_dropped():
    run = fetched(batch(10, [b"a", b"b", b"c"]), first=12)
    assert [(record.offset, record.value) for record in run.records()] == [(12, b"c")]
    assert run.next_offset == 13


def test_checksum():
    data = bytearray(batch(0, [b"abc"], compression=CompressionType.NONE))
    data[-2] ^= 1
    with pytest.raises(CorruptRecordError, match="crc"):
        list(fetched(data).records())
    assert len(list(fetched(data, check_crcs=False).records())) == 1


def test_invalid_bytes_are_refused():
    data = bytearray(batch(0, [b"abc"]))
    data[8:12] = b"\xff\xff\xff\xff"
    with pytest.raises(CorruptRecordError):
        fetched(data)


def test_old_message_formats():
    builder = MessageSetBuilder(1)
    builder.append(5, 1234, b"k", b"v")
    builder.append(6, 1235, None, b"w")
    run = fetched(builder.build() + batch(7, [b"x"]), first=6)
    assert [(one.offset, one.timestamp, one.value) for one in run.records()] == [(6, 1235, b"w"), (7, 1000, b"x")]


def committed(directory):
    """What Kafka's own files say is committed: the batches outside the transaction index's ranges."""
    expected = json.loads((REFERENCE / "log-dirs" / "expected" / f"{directory}.json").read_text())
    aborted = [
        (entry["producerId"], entry["firstOffset"], entry["lastOffset"])
        for name, entries in expected["indexes"].items()
        if name.endswith(".txnindex")
        for entry in entries
    ]
    every, visible = [], []
    for segment in expected["segments"]:
        for one in segment["batches"]:
            attributes = one["attributes"]
            offsets = [record["offset"] for record in one["records"]]
            if attributes & 0x20:
                continue
            every += offsets
            hidden = attributes & 0x10 and any(
                one["producerId"] == producer and first <= one["baseOffset"] <= last
                for producer, first, last in aborted
            )
            if not hidden:
                visible += offsets
    return every, visible, [(producer, first) for producer, first, _ in aborted]


@pytest.mark.parametrize("directory", ["transactional-0", "transactional-2p-0", "transactional-2p-1"])
def test_aborted_transactions_are_hidden_from_committed_readers(directory):
    data = b"".join(path.read_bytes() for path in sorted((BROKER / directory).glob("*.log")))
    every, visible, aborted = committed(directory)
    assert [record.offset for record in fetched(data).records()] == every
    assert [record.offset for record in fetched(data, aborted=aborted).records()] == visible
    if aborted:
        assert len(visible) < len(every)


def test_control_records_move_the_position():
    data = b"".join(path.read_bytes() for path in sorted((BROKER / "transactional-2p-1").glob("*.log")))
    run = fetched(data)
    assert run.next_offset > max(record.offset for record in run.records()) + 1


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_kafkas_own_batches_of_every_codec(codec):
    data = (BROKER / f"codec-{codec}-0" / "00000000000000000000.log").read_bytes()
    records = list(fetched(data).records())
    assert [record.offset for record in records] == list(range(211))
    assert records[7].headers or any(record.headers for record in records)
