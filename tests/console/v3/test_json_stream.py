"""Splitting a stream into JSON objects."""

import json
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from console.v3.json_stream import JsonStream, JsonStreamError, ObjectTooLargeError

KEYS = st.text(alphabet='{"\\', max_size=3)
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(alphabet='{}[]"\\ aé'),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=8,
)
OBJECTS = st.lists(st.dictionaries(st.text(alphabet='{}"\\a', max_size=3), JSON_VALUES, max_size=3), max_size=5)


def split(data, sizes):
    stream, found = JsonStream(10_000), []
    while data:
        size = next(sizes)
        found += stream.feed(data[:size])
        data = data[size:]
    stream.close()
    return found


@given(OBJECTS, st.sampled_from(["", " ", "\r\n"]), st.lists(st.integers(1, 7), min_size=1), st.booleans())
def test_objects_are_found_in_pieces_of_any_size(objects, between, sizes, is_ascii):
    text = between.join(json.dumps(one, ensure_ascii=is_ascii) for one in objects) + between

    def forever():
        while True:
            yield from sizes

    assert [json.loads(one) for one in split(text.encode(), forever())] == objects


@pytest.mark.parametrize("data", [b"[1]", b'{"a": 1} x', b"1", b"}"])
def test_what_is_no_object(data):
    with pytest.raises(JsonStreamError, match="must be a JSON object"):
        list(JsonStream(100).feed(data))


def test_a_stream_that_ends_within_an_object():
    stream = JsonStream(100)
    assert list(stream.feed(b'{"a": 1} {"b": "}')) == [b'{"a": 1}']
    with pytest.raises(JsonStreamError, match="ends within"):
        stream.close()


def test_an_object_that_is_too_large():
    stream = JsonStream(10)
    assert list(stream.feed(b'{"a": 1}{"a": 2}')) == [b'{"a": 1}', b'{"a": 2}']
    with pytest.raises(ObjectTooLargeError, match="more than 10 bytes"):
        list(stream.feed(b'{"a": "' + b"x" * 10))


def test_an_object_costs_no_copy_of_what_follows_it():
    objects = JsonStream(1 << 20).feed(b"{}" * 50_000)
    tracemalloc.start()
    try:
        next(objects)
        before, _ = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        next(objects)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak - before < 10_000
