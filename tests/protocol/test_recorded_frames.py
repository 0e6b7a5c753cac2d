"""Frames recorded between Kafka 3.9, its own clients and others: header and body, there and back."""

import json

import pytest

from protocol.api_keys import ApiKey, request_class, response_class
from protocol.errors import UnsupportedVersionError
from protocol.headers import (
    ResponseHeader,
    decode_request_header,
    request_header_version,
    response_header_version,
)
from protocol.json import to_json
from support.reference import REFERENCE

WIRE = REFERENCE / "wire"


def frames(file):
    with (WIRE / file).open() as lines:
        return [json.loads(line) for line in lines]


def without_records(value):
    if isinstance(value, dict):
        return {key: without_records(item) for key, item in value.items() if key != "records"}
    if isinstance(value, list):
        return [without_records(item) for item in value]
    return value


@pytest.mark.parametrize("file", sorted(path.name for path in WIRE.glob("*.jsonl")))
def test_frame(file):
    for frame in frames(file):
        raw, key, version = bytes.fromhex(frame["frame"]), frame["api_key"], frame["api_version"]
        if version == 99:
            continue
        where = f"pair {frame['pair']} {frame['api_name']} v{version} {frame['direction']}"
        if frame["direction"] == "request":
            header, start = decode_request_header(raw)
            assert header.request_api_key == key, where
            assert header.request_api_version == version, where
            assert header.client_id == frame["client_id"], where
            header_version = request_header_version(key, version)
            cls = request_class(key)
        else:
            header_version = response_header_version(key, version)
            header, start = ResponseHeader.decode(raw, header_version)
            cls = response_class(key)
        assert header.correlation_id == frame["correlation_id"], where
        assert header_version == frame["header_version"], where
        body, end = cls.decode(raw, version, start)
        assert end == len(raw), where
        assert header.to_bytes(header_version) + body.to_bytes(version) == raw, where
        assert without_records(to_json(body, version)) == without_records(frame["decoded"]), where


def test_there_are_398_frames():
    assert sum(len(frames(path.name)) for path in WIRE.glob("*.jsonl")) == 398


def test_api_versions_99_has_a_readable_header_and_an_answer_of_version_0():
    request, response = (frame for frame in frames("errors.jsonl") if frame["api_version"] == 99)
    header, start = decode_request_header(bytes.fromhex(request["frame"]))
    assert (header.request_api_key, header.request_api_version) == (ApiKey.API_VERSIONS, 99)
    assert (header.correlation_id, header.client_id) == (95, "errors")
    with pytest.raises(UnsupportedVersionError, match="no version 99"):
        request_class(ApiKey.API_VERSIONS).decode(bytes.fromhex(request["frame"]), 99, start)
    raw = bytes.fromhex(response["frame"])
    header, start = ResponseHeader.decode(raw, response_header_version(ApiKey.API_VERSIONS, 99))
    body, end = response_class(ApiKey.API_VERSIONS).decode(raw, 0, start)
    assert end == len(raw)
    assert to_json(body, 0) == response["decoded"]


def test_records_of_a_recorded_produce_request_are_a_view_into_the_frame():
    frame = next(
        frame
        for frame in frames("clients-java.jsonl")
        if frame["api_key"] == ApiKey.PRODUCE and frame["direction"] == "request"
    )
    raw = bytearray.fromhex(frame["frame"])
    _, start = decode_request_header(raw)
    body, _ = request_class(ApiKey.PRODUCE).decode(raw, frame["api_version"], start)
    records = body.topic_data[0].partition_data[0].records
    assert isinstance(records, memoryview)
    assert records.obj is raw
    assert records[16] == 2  # magic
    base_offset_before = bytes(records[:8])
    raw[raw.index(records[:61].tobytes())] ^= 0xFF
    assert bytes(records[:8]) != base_offset_before
