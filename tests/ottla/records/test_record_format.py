"""The formats of `ottla consume`, applied to a record."""

import json

import pytest

from client.consumer.fetched import ConsumerRecord
from ottla.command_line.failure import CommandError
from ottla.records.record_format import format_writer, iso_time, json_writer


def record(key=b"k", value=b"v", headers=(), timestamp=1_700_000_000_123):
    return ConsumerRecord("orders", 2, 0, 7, timestamp, key, value, headers)


def shown(text, one, null_marker=b""):
    return format_writer(text, null_marker)(one)


@pytest.mark.parametrize(
    ("text", "one", "printed"),
    [
        (r"%s\n", record(), b"v\n"),
        (r"%s\n", record(value=None), b"NULL\n"),
        ("%t/%p/%o/%T/%k/%v/%s/%K/%S/%%", record(), b"orders/2/7/1700000000123/k/v/v/1/1/%"),
        ("%v{hex} %k{hex}", record(value=b"\x00\xff"), b"00ff 6b"),
        ("%v{base64} %s{base64}", record(value=b"\x00\xff"), b"AP8= AP8="),
        ("%v{hex} %v{base64} %v{json}", record(value=None), b"NULL NULL null"),
        ("%v{json}", record(value=b"text"), b'"text"'),
        ("%v{json}", record(value=b"\xff"), b'{"base64":"/w=="}'),
        ("%v{json}", record(value=b'{"a": [1, 2.50]}'), b'{"a": [1, 2.50]}'),
        ("%v{json}", record(value=b'{"a": nothing'), b'"{\\"a\\": nothing"'),
        ("%T{iso}", record(), b"2023-11-14T22:13:20.123Z"),
        (r"%v\x7bhex}", record(), b"v{hex}"),
        ("%p%%{}", record(), b"2%{}"),
        ("%h", record(headers=(("a", b"1"), ("b", None))), b"a=1,b=NULL"),
        ("%h{json}", record(headers=(("a", None), ("c", b"\xff"))), b'[["a",null],["c",{"base64":"/w=="}]]'),
        (r"[%h{%k: %v{hex};}]", record(headers=(("a", b"1"), ("b", None))), b"[a: 31;b: NULL;]"),
        ("[%h{%k}]", record(), b"[]"),
    ],
)  # fmt: skip
def test_fields_and_modifiers(text, one, printed):
    assert shown(text, one, b"NULL") == printed


@pytest.mark.parametrize(
    ("text", "clue"),
    [
        ("%q", "%q must be one of %t %p"),
        ("x%", "% must be one of"),
        ("%v{yaml}", r"the modifier of %v must be \{hex\} or \{base64\} or \{json\}, not \{yaml\}"),
        ("%v{}", r"not \{\}"),
        ("%v{hex", "is not closed"),
        ("%p{hex}", "%p has no modifiers"),
        ("%T{hex}", "must be {iso}, not {hex}"),
        ("%h{hex}", "or {a format with %k and %v}, not {hex}"),
        ("%h{%x}", "%x must be one of %k %v"),
        (r"%h{%k\q}", "must be followed by"),
    ],
)
def test_what_is_no_format(text, clue):
    with pytest.raises(CommandError, match=clue):
        format_writer(text, b"")


def test_times():
    assert iso_time(0) == "1970-01-01T00:00:00.000Z"
    assert iso_time(-1) == "-"
    assert iso_time(10**18) == str(10**18)


def test_json_lines():
    line = json.loads(json_writer(record(key=b"[1]", value=b'{"a": 1}', headers=(("h", b'{"a":1}'),))))
    assert line == {
        "topic": "orders",
        "partition": 2,
        "offset": 7,
        "timestamp": 1_700_000_000_123,
        "timestamp_type": "CreateTime",
        "headers": [["h", '{"a":1}']],
        "key": [1],
        "value": {"a": 1},
        "value_text": '{"a": 1}',
    }
