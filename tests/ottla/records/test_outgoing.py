"""Lines that become records of `ottla produce`."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from client.consumer.fetched import ConsumerRecord
from ottla.command_line.failure import CommandError
from ottla.records.outgoing import JsonLines, LineError, OutgoingRecord, PlainLines, RecordDefaults
from ottla.records.record_format import json_writer

CONTENT = st.none() | st.binary() | st.text().map(str.encode) | st.sampled_from([b'{"a": 1}', b'{"a":1}', b"[1.50]"])


def no_key(number):
    return None


@given(
    key=CONTENT,
    value=CONTENT,
    headers=st.lists(st.tuples(st.text(), CONTENT), max_size=3),
    partition=st.integers(0, 9),
    timestamp=st.integers(0, 2**50),
)
def test_a_line_of_consume_is_the_same_record(key, value, headers, partition, timestamp):
    record = ConsumerRecord("orders", partition, 0, 12, timestamp, key, value, tuple(headers))
    parse = JsonLines(RecordDefaults(None, no_key))
    assert parse(json_writer(record), 1) == OutgoingRecord("orders", key, value, headers, partition, timestamp)


def test_options_apply_to_records_without_the_field():
    parse = JsonLines(RecordDefaults("copy", b"key %d".__mod__, [("a", b"1")], 3, 77))
    assert parse(b'{"value": "v"}', 5) == ("copy", b"key 5", b"v", [("a", b"1")], 3, 77)
    line = b'{"topic": "orders", "key": null, "value": 5, "headers": {}, "partition": 0, "timestamp": 8}'
    assert parse(line, 5) == ("copy", None, b"5", [], 0, 8)
    assert parse(b'{"headers": {"n": "x"}, "timestamp": -1}', 1) == ("copy", b"key 1", None, [("n", b"x")], 3, 77)
    assert parse(b'{"timestamp": "1970-01-01T00:00:01Z"}', 1).timestamp_ms == 1000
    assert parse(b"  ", 1) is None


@pytest.mark.parametrize(
    ("line", "clue"),
    [
        (b'{"value": }', "is not JSON: Expecting value at column 11"),
        (b"\xff", "is not JSON: "),
        (b"[" * 100_000, "is not JSON: too many levels"),
        (b'["k", "v"]', "is not a JSON object such as"),
        (b'{"vaule": 1}', "has the unknown field 'vaule' (did you mean value?)"),
        (b'{"x": 1}', "has the unknown field 'x'; the fields are topic, key, value, headers, partition, timestamp"),
        (b'{"value": "\\ud800"}', "has a wrong value: "),
        (b'{"key": {"base64": "?"}}', "has a wrong key: "),
        (b'{"headers": ["a"]}', "has wrong headers: they must be"),
        (b'{"headers": {"a": {"base64": 7}}}', 'has a wrong header: "base64" must be a string'),
        (b'{"partition": -1}', "has a wrong partition: -1 is not a number from 0"),
        (b'{"partition": "1"}', 'has a wrong partition: "1"'),
        (b'{"timestamp": "soon"}', "has a wrong timestamp 'soon' is neither"),
        (b'{"timestamp": true}', "has a wrong timestamp: true is neither"),
        (b'{"value": {"a": 2}, "value_text": "{\\"a\\": 1}"}', "has a value_text that is not the text of its value"),
        (b'{"value": 1, "value_text": 1}', "has a value_text that is not the text of its value"),
    ],
)
def test_lines_that_are_no_records(line, clue):
    with pytest.raises(LineError) as raised:
        JsonLines(RecordDefaults("orders", no_key))(line, 1)
    assert clue in str(raised.value)


def test_a_topic_is_needed():
    with pytest.raises(LineError, match="names no topic, and the command has no TOPIC"):
        JsonLines(RecordDefaults(None, no_key))(b'{"value": 1}', 1)
    with pytest.raises(CommandError, match="the topic is missing"):
        PlainLines(RecordDefaults(None, no_key), separator=None, null_marker=None)


def test_a_schema_gets_the_json_text():
    def encode(text):
        return b"<" + text + b">"

    parse = JsonLines(RecordDefaults("t", lambda _: b"7", encode_key=encode, encode_value=encode))
    assert parse(b'{"value": {"a": 1.50}}', 1)[1:3] == (b"<7>", b'<{"a":1.5}>')
    assert parse(b'{"key": "k", "value": null}', 1)[1:3] == (b'<"k">', None)
    assert parse(json.dumps({"value": {"a": 1}, "value_text": '{"a": 1}'}).encode(), 1).value == b'<{"a": 1}>'
    plain = PlainLines(
        RecordDefaults("t", no_key, encode_key=encode, encode_value=encode), separator=b":", null_marker=b"~"
    )
    assert plain(b"1:2", 1)[1:3] == (b"<1>", b"<2>")
    assert plain(b"~:~", 1)[1:3] == (None, None)
