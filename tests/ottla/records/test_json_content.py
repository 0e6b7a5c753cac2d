"""Bytes in JSON: every content is restored exactly."""

import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from client.schemas.json_text import dump, load
from ottla.records.json_content import JsonText, as_json, from_json

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=10,
)
CONTENT = st.none() | st.binary() | st.text().map(str.encode)


@given(
    CONTENT | st.builds(lambda value, indent: json.dumps(value, indent=indent).encode(), JSON, st.none() | st.just(1))
)
@example(b'{"a":1,"a":2}')
@example(b'{"base64":"AA=="}')
@example(b'["\\ud800"]')
@example(b"[" * 100_000)
@example(b"[1e999]")
@example(b"[" + b"9" * 5000 + b"]")
@example(b"[NaN]")
@example(b"\xff")
@example(b"")
def test_every_content_is_restored(content):
    value, text = json.loads(dump(list(as_json(content))))
    assert (text.encode() if text is not None else from_json(value)) == content


@pytest.mark.parametrize(
    ("content", "value", "text"),
    [
        (b'{"a":[1,"\xc3\xa9"]}', {"a": [1, "é"]}, None),
        (b'{"a": 1}', {"a": 1}, '{"a": 1}'),
        (b"[]", [], None),
        (b"42", "42", None),
        (b'"quoted"', '"quoted"', None),
        (b"null", "null", None),
        (b"{", "{", None),
        (JsonText(b'"decoded"'), "decoded", None),
        (JsonText(b"null"), None, None),
    ],
)
def test_what_becomes_of_text(content, value, text):
    assert as_json(content) == (value, text)


def test_values_that_people_write():
    assert from_json(42) == b"42"
    assert from_json(True) == b"true"
    assert from_json({"b": 1.5, "a": "é"}) == '{"b":1.5,"a":"é"}'.encode()
    assert from_json({"base64": "AP8="}) == b"\x00\xff"
    for wrong, clue in (({"base64": 1}, "must be a string"), ({"base64": "?"}, "base64"), ("\ud800", "surrogates")):
        with pytest.raises(ValueError, match=clue):
            from_json(wrong)
    with pytest.raises(ValueError, match="NaN is not JSON"):
        load("[NaN]")
