"""End markers against Kafka's vectors and its log."""

import json

import pytest

from protocol.control_records import (
    ControlRecordType,
    EndTransactionMarker,
    decode_control_key,
    decode_end_marker,
    encode_control_key,
    encode_end_marker,
    end_marker_batch,
    read_end_marker,
)
from protocol.errors import InvalidRecordError
from protocol.record import Record
from protocol.record_batch import iter_batches, read_batch
from protocol.record_batch_builder import empty_batch
from support.batches import build
from support.reference import REFERENCE


def vectors(name: str) -> list[dict]:
    lines = (REFERENCE / "wire" / "vectors" / "records.jsonl").read_text().splitlines()
    return [vector for vector in map(json.loads, lines) if vector["name"] == name]


def test_vectors() -> None:
    keys, values = vectors("ControlRecordKey"), vectors("EndTxnMarker")
    assert len(keys) == 2
    assert len(values) == 4
    for key in keys:
        record_type = ControlRecordType(key["json"]["type"])
        assert encode_control_key(record_type).hex() == key["hex"]
        assert decode_control_key(bytes.fromhex(key["hex"])) is record_type
        for value in values:
            marker = EndTransactionMarker(record_type, value["json"]["coordinatorEpoch"])
            assert encode_end_marker(marker) == (bytes.fromhex(key["hex"]), bytes.fromhex(value["hex"]))
            record = Record(0, 0, bytes.fromhex(key["hex"]), bytes.fromhex(value["hex"]))
            assert decode_end_marker(record) == marker


def test_marker_batches_are_those_in_kafkas_log() -> None:
    seen = 0
    for path in (REFERENCE / "log-dirs" / "broker-0").glob("transactional*/*.log"):
        for batch in iter_batches(path.read_bytes()):
            if not batch.is_control:
                continue
            marker = read_end_marker(batch)
            assert marker is not None
            seen += 1
            again = end_marker_batch(
                marker,
                producer_id=batch.producer_id,
                producer_epoch=batch.producer_epoch,
                timestamp=batch.max_timestamp,
                base_offset=batch.base_offset,
                partition_leader_epoch=batch.partition_leader_epoch,
            )
            assert again == bytes(batch.buffer)
    assert seen > 10


def test_commit_and_abort() -> None:
    assert EndTransactionMarker(ControlRecordType.COMMIT, 1).committed
    assert not EndTransactionMarker(ControlRecordType.ABORT, 1).committed


def test_later_versions_and_other_types_are_skipped() -> None:
    assert decode_control_key(bytes.fromhex("0001 0001 ff")) is ControlRecordType.COMMIT
    assert decode_control_key(bytes.fromhex("0000 0002")) is ControlRecordType.UNKNOWN
    assert decode_end_marker(Record(0, 0, bytes.fromhex("00000002"), None)) is None
    marker = decode_end_marker(Record(0, 0, bytes.fromhex("00000001"), bytes.fromhex("0001 00000007 ffff")))
    assert marker == EndTransactionMarker(ControlRecordType.COMMIT, 7)
    with pytest.raises(ValueError, match="unknown"):
        encode_control_key(ControlRecordType.UNKNOWN)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, b"\x00" * 6),
        (b"\x00\x00\x00", b"\x00" * 6),
        (b"\xff\xff\x00\x00", b"\x00" * 6),
        (b"\x00" * 4, None),
        (b"\x00" * 4, b"\x00" * 5),
        (b"\x00" * 4, b"\xff\xff\x00\x00\x00\x00"),
    ],
)
def test_short_and_negative_are_refused(key: bytes | None, value: bytes | None) -> None:
    with pytest.raises(InvalidRecordError):
        decode_end_marker(Record(0, 0, key, value))


def test_an_emptied_control_batch_holds_no_marker() -> None:
    assert read_end_marker(read_batch(empty_batch(0, 0, max_timestamp=0, attributes=0x30))) is None
    with pytest.raises(InvalidRecordError):
        read_end_marker(read_batch(build([(0, b"k", b"v", ())])))
