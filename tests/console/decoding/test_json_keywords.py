"""JSON Schemas with regular expressions in RE2: what they accept, and what would keep Python's `re` busy for years."""

import json

import pytest

from client.schemas.codec import MisfitError, SchemaError
from client.schemas.json_schema import JsonSchemaCodec
from console.decoding.json_keywords import RE2_KEYWORDS

SLOW = "^(a+)+$"
TEXT = "a" * 64 + "b"
DRAFT = "http://json-schema.org/draft-07/schema#"


def codec(schema, references=None):
    return JsonSchemaCodec(json.dumps(schema), references, RE2_KEYWORDS)


def accepts(schema, value, references=None):
    try:
        codec(schema, references).encode(value, is_framed=True)
    except MisfitError:
        return False
    return True


@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        ({"pattern": "^a.c"}, ["abcd", 5, None], ["xabc", "ac"]),
        ({"patternProperties": {"^n": {"type": "number"}}}, [{"n": 1, "x": "y"}, {}, "n"], [{"number": "1"}]),
        (
            {"properties": {"a": {}}, "patternProperties": {"^n": {}}, "additionalProperties": False},
            [{"a": 1, "n1": 2}, {}, 7],
            [{"b": 1}],
        ),
        ({"properties": {"a": {}}, "additionalProperties": {"type": "string"}}, [{"a": 1, "b": "c"}], [{"b": 1}]),
        ({"additionalProperties": True}, [{"b": 1}], []),
    ],
)
def test_they_mean_what_jsonschema_means(schema, good, bad):
    plain = JsonSchemaCodec(json.dumps(schema))
    for value in good:
        assert accepts(schema, value)
        plain.encode(value, is_framed=True)
    for value in bad:
        assert not accepts(schema, value)
        with pytest.raises(MisfitError):
            plain.encode(value, is_framed=True)


@pytest.mark.parametrize(
    ("schema", "value", "references"),
    [
        ({"pattern": SLOW}, TEXT, None),
        ({"items": {"$schema": DRAFT, "pattern": SLOW}}, [TEXT], None),
        ({"$ref": "other"}, TEXT, {"other": json.dumps({"$schema": DRAFT, "pattern": SLOW})}),
    ],
)
def test_an_expression_that_re_would_not_finish(schema, value, references):
    assert not accepts(schema, value, references)


def test_a_property_of_many_names_does_not_either():
    assert accepts({"patternProperties": {SLOW: False}}, {TEXT: 1})


@pytest.mark.parametrize(
    ("schema", "value", "reason"),
    [
        ({"pattern": "(?=a)"}, "a", "is not a regular expression of RE2"),
        (
            {"$schema": "https://json-schema.org/draft/2020-12/schema", "unevaluatedProperties": False},
            {},
            "unevaluated",
        ),
    ],
)
def test_what_is_not_supported_is_named(schema, value, reason):
    with pytest.raises(SchemaError, match=reason) as error:
        codec(schema).encode(value, is_framed=True)
    assert not isinstance(error.value, MisfitError)
