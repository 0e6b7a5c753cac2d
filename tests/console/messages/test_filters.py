"""Filters of records."""

import sys

import pytest

from console.decoding.record_decoder import RecordDecoder
from console.messages.filters import RecordFilter
from console.messages.stored_record import Batch, StoredRecord
from console.rest.errors import RestError

BATCH = Batch(0, 0, 1, 80, "none", -1, -1, -1, 0, 2)
JSON = b'{"user": {"id": 5, "name": "Ottla", "is-new": true}, "items": [{"price": 2.5}], "a b": null}'
RECORD = StoredRecord(0, 0, 0, 0, b"Key-1", JSON, (("trace", b"ABC"), ("none", None)), None, BATCH)


def matches(record=RECORD, **query):
    return RecordFilter.of(query, RecordDecoder("orders")).matches(record)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({}, True),
        ({"key": "key"}, True),
        ({"key": "other"}, False),
        ({"value": "oTTla"}, True),
        ({"value": "ottla", "key": "other"}, False),
        ({"header": "abc"}, True),
        ({"header": "trace=b"}, True),
        ({"header": "other=b"}, False),
        ({"header": "none="}, True),
        ({"regex": "^Key-[0-9]$"}, True),
        ({"regex": '"id": 5\\b'}, True),
        ({"regex": "nothing"}, False),
        ({"path": "$.user.id"}, True),
        ({"path": "user.id == 5"}, True),
        ({"path": "user.id==6"}, False),
        ({"path": "user.id != 6"}, True),
        ({"path": "user.id > 4.5"}, True),
        ({"path": 'user.name == "Ottla"'}, True),
        ({"path": "user.name == Ottla"}, True),
        ({"path": "user.name ~ TT"}, True),
        ({"path": "user.name > 3"}, False),
        ({"path": "user.is-new == true"}, True),
        ({"path": "user.is-new == 1"}, False),
        ({"path": "items[0].price <= 2.5"}, True),
        ({"path": "items[0].price < 2.5"}, False),
        ({"path": "items[0].price >= 2.5"}, True),
        ({"path": "items[1]"}, False),
        ({"path": '$["a b"] == null'}, True),
        ({"path": "user.missing"}, False),
    ],
)
def test_conditions(query, expected):
    assert matches(**query) is expected


def test_null_and_other_data_have_no_path():
    assert not matches(RECORD._replace(value=None), path="$")
    assert not matches(RECORD._replace(value=b"\xff\x00"), path="$.a")
    assert not matches(RECORD._replace(value=b"[" * 5000), path="$.a")
    assert matches(RECORD._replace(value=b"\x81\xa1a\x01"), path="$.a == 1")


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ({"regex": "("}, "is not a regular expression of RE2"),
        ({"regex": r"(a)\1"}, "is not a regular expression of RE2"),
        ({"path": "a b"}, "is not a path"),
        ({"value": "x" * 1001}, "value has more than 1000 characters"),
    ],
)
def test_what_is_refused(query, message):
    with pytest.raises(RestError, match=message):
        matches(**query)


def test_without_re2_the_library_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "re2", None)
    with pytest.raises(RestError, match="pip install google-re2"):
        matches(regex="not used by another test")
