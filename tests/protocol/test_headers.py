"""Header versions against the table and the recorded frames' rules."""

import csv

import pytest

from protocol.api_keys import FLEXIBLE_FROM, ApiKey, api_name, request_class, response_class
from protocol.errors import DecodeError, UnsupportedVersionError
from protocol.headers import (
    RequestHeader,
    ResponseHeader,
    decode_request_header,
    request_header_version,
    response_header_version,
)
from support.reference import REFERENCE


def rows():
    with (REFERENCE / "tables" / "api-versions.tsv").open() as table:
        return list(csv.DictReader(table, delimiter="\t"))


def test_api_keys_are_those_of_the_table():
    assert {key.value: api_name(key) for key in ApiKey} == {int(row["api_key"]): row["name"] for row in rows()}
    assert FLEXIBLE_FROM.keys() == {int(row["api_key"]) for row in rows()}


def test_classes_are_found_by_key():
    for key in ApiKey:
        assert f"{api_name(key)}Request" == request_class(key).NAME
        assert f"{api_name(key)}Response" == response_class(key).NAME
        assert request_class(key).API_KEY == response_class(key).API_KEY == key


def test_flexible_versions_of_key_and_class_agree():
    for key in ApiKey:
        for cls in (request_class(key), response_class(key)):
            assert FLEXIBLE_FROM[key] == cls.FLEXIBLE_FROM, cls.NAME


def test_header_versions_follow_the_table():
    for row in rows():
        key, least = int(row["api_key"]), int(row["min_request_header"])
        first = row["flexible_from"]
        for version in range(int(row["min"]), int(row["max"]) + 1):
            flexible = first != "never" and version >= int(first)
            expected = 2 if flexible else 1 if version > 0 or least > 0 else 0
            assert request_header_version(key, version) == expected, row
            assert response_header_version(key, version) == int(flexible and key != ApiKey.API_VERSIONS), row
        assert request_header_version(key, int(row["min"])) == least or row["name"] == "ControlledShutdown"


def test_only_controlled_shutdown_0_has_no_client_id():
    raw = RequestHeader(request_api_key=ApiKey.CONTROLLED_SHUTDOWN, correlation_id=5).to_bytes(0)
    header, end = decode_request_header(raw)
    assert (header.correlation_id, header.client_id, end) == (5, "", 8)


def test_the_client_id_keeps_its_form_in_flexible_headers():
    header = RequestHeader(request_api_key=3, request_api_version=12, correlation_id=1, client_id="me")
    assert header.to_bytes(2).hex() == "0003000c0000000100026d6500"
    assert decode_request_header(header.to_bytes(2)) == (header, 13)
    assert decode_request_header(b"\0\0\0\x0d" + header.to_bytes(2), 4) == (header, 17)


@pytest.mark.parametrize("key", [-1, 52, 59, 70, 32767])
def test_unknown_keys(key):
    for function in (request_header_version, response_header_version):
        with pytest.raises(UnsupportedVersionError, match=f"unknown API key {key}"):
            function(key, 0)
    for function in (request_class, response_class):
        with pytest.raises(UnsupportedVersionError, match=f"unknown API key {key}"):
            function(key)
    with pytest.raises(UnsupportedVersionError, match=f"unknown API key {key}"):
        decode_request_header(key.to_bytes(2, "big", signed=True) + bytes(20))
    assert api_name(key) == f"unknown API {key}"


@pytest.mark.parametrize("raw", ["", "00", "000300", "0003000900", "00030009000000010005", "0003ffff00000001ffff"])
def test_malformed_headers(raw):
    with pytest.raises(DecodeError, match="RequestHeader"):
        decode_request_header(bytes.fromhex(raw))


def test_response_header():
    assert ResponseHeader(correlation_id=7).to_bytes(0).hex() == "00000007"
    assert ResponseHeader(correlation_id=7).to_bytes(1).hex() == "0000000700"
