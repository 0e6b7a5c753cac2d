"""Every batch and record that Apache Kafka wrote, read back and rebuilt."""

import base64
import hashlib
import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from protocol.compression import CompressionType
from protocol.control_records import decode_end_marker
from protocol.record import Record, read_records
from protocol.record_batch import LOG_APPEND_TIME_FLAG, RecordBatch, TimestampType, iter_batches, read_batch
from protocol.record_batch_builder import RecordBatchBuilder
from support.reference import REFERENCE

LOG_DIRS = REFERENCE / "log-dirs"
EXPECTED = sorted(path.name for path in (LOG_DIRS / "expected").glob("*.json"))


def directory_of(name: str) -> Path:
    parts = name.removesuffix(".json").rsplit(".broker-", 1)
    if len(parts) == 2:
        return LOG_DIRS / parts[0].rsplit("-", 1)[0] / f"broker-{parts[1]}" / parts[0]
    return LOG_DIRS / "broker-0" / parts[0]


@cache
def segments(name: str) -> list[tuple[bytes, list[dict[str, Any]]]]:
    expected = json.loads((LOG_DIRS / "expected" / name).read_text())
    directory = directory_of(name)
    return [((directory / segment["file"]).read_bytes(), segment["batches"]) for segment in expected["segments"]]


def shown(field: bytes | None) -> Any:
    """A key, value or header value as the expected files show it."""
    if field is None:
        return None
    if len(field) > 4096:
        return {"len": len(field), "sha256": hashlib.sha256(field).hexdigest()}
    try:
        text = field.decode()
    except UnicodeDecodeError:
        text = "\x00"
    if any(ord(character) < 32 or 127 <= ord(character) < 160 for character in text):
        return {"b64": base64.b64encode(field).decode()}
    return text


def shown_batch(batch: RecordBatch) -> dict[str, Any]:
    return {
        "baseOffset": batch.base_offset,
        "lastOffset": batch.last_offset,
        "count": batch.record_count,
        "baseSequence": batch.base_sequence,
        "lastSequence": batch.last_sequence,
        "producerId": batch.producer_id,
        "producerEpoch": batch.producer_epoch,
        "partitionLeaderEpoch": batch.partition_leader_epoch,
        "isTransactional": batch.is_transactional,
        "isControl": batch.is_control,
        "deleteHorizonMs": batch.delete_horizon_ms,
        "position": batch.position,
        "size": batch.size_bytes,
        "magic": batch.magic,
        "compresscodec": batch.compression.config_name,
        "timestampType": "".join(part.title() for part in batch.timestamp_type.name.split("_")),
        "maxTimestamp": batch.max_timestamp,
        "attributes": batch.attributes,
        "baseTimestampField": batch.base_timestamp,
        "lastOffsetDelta": batch.last_offset_delta,
        "crc": batch.crc,
        "isvalid": True,
    }


def check_record(record: Record, expected: dict[str, Any]) -> None:
    assert record.offset == expected["offset"]
    assert record.timestamp == expected["timestamp"]
    assert shown(record.key) == expected.get("key")
    assert shown(record.value) == expected.get("value")
    assert [[name, shown(value)] for name, value in record.headers] == expected.get("headers", [])
    if "control" in expected:
        marker = decode_end_marker(record)
        assert marker is not None
        assert marker.type.name == expected["control"]
        assert marker.coordinator_epoch == expected["coordinatorEpoch"]


def stored_records(batch: RecordBatch) -> list[Record]:
    """The records with the timestamps that are stored, which LogAppendTime hides."""
    data = bytes(batch.records_data())
    return list(read_records(data, batch.record_count, batch.base_offset, batch.base_timestamp))


def rebuilt(batch: RecordBatch, codec: CompressionType) -> bytearray:
    builder = RecordBatchBuilder(
        batch.base_offset,
        codec,
        batch.timestamp_type,
        producer_id=batch.producer_id,
        producer_epoch=batch.producer_epoch,
        base_sequence=batch.base_sequence,
        transactional=batch.is_transactional,
        control=batch.is_control,
        partition_leader_epoch=batch.partition_leader_epoch,
        delete_horizon_ms=batch.delete_horizon_ms,
        log_append_time=batch.max_timestamp if batch.timestamp_type is TimestampType.LOG_APPEND_TIME else None,
    )
    for record in stored_records(batch):
        builder.append(record.timestamp, record.key, record.value, record.headers, offset=record.offset)
    return builder.build(last_offset=batch.last_offset)


@pytest.mark.parametrize("name", EXPECTED)
def test_headers_and_records_are_those_that_kafka_reads(name: str) -> None:
    for data, expected in segments(name):
        batches = list(iter_batches(data))
        assert len(batches) == len(expected)
        for batch, wanted in zip(batches, expected, strict=True):
            batch.check_crc()
            assert shown_batch(batch) == {key: wanted[key] for key in wanted if key != "records"}
            records = list(batch.records())
            assert len(records) == len(wanted["records"])
            for record, wanted_record in zip(records, wanted["records"], strict=True):
                check_record(record, wanted_record)


@pytest.mark.parametrize("name", EXPECTED)
def test_the_builder_writes_the_same_bytes(name: str) -> None:
    for data, _ in segments(name):
        for batch in iter_batches(data):
            if batch.is_compressed:
                continue
            again = rebuilt(batch, CompressionType.NONE)
            assert again == bytes(batch.buffer)


@pytest.mark.parametrize("name", [name for name in EXPECTED if name.startswith("codec")])
def test_recompressed_batches_have_the_same_records(name: str) -> None:
    for data, _ in segments(name):
        for batch in iter_batches(data):
            for codec in CompressionType:
                again = read_batch(rebuilt(batch, codec))
                again.check_crc()
                assert again.compression is codec
                assert list(again.records()) == list(batch.records())


def test_the_reference_has_every_kind_of_batch() -> None:
    batches = [batch for name in EXPECTED for data, _ in segments(name) for batch in iter_batches(data)]
    assert {batch.compression for batch in batches} == set(CompressionType)
    assert any(batch.attributes & LOG_APPEND_TIME_FLAG for batch in batches)
    assert any(batch.is_control for batch in batches)
    assert any(batch.delete_horizon_ms is not None for batch in batches)
    assert any(batch.record_count < batch.last_offset_delta + 1 for batch in batches)
