"""JSON Schema: what fits, what does not, and references."""

import json

import pytest

from client.schemas.codec import MisfitError, SchemaError
from client.schemas.json_schema import JsonSchemaCodec

SCHEMA = {
    "type": "object",
    "properties": {"id": {"type": "integer"}, "price": {"$ref": "money.json"}},
    "required": ["id"],
}
MONEY = {"type": "object", "properties": {"cents": {"type": "integer", "minimum": 0}}}


@pytest.fixture
def codec():
    return JsonSchemaCodec(json.dumps(SCHEMA), {"money.json": json.dumps(MONEY)})


def test_round_trips(codec):
    value = {"id": 1, "price": {"cents": 5}, "é": None}
    data = codec.encode(value, is_framed=True)
    assert data == '{"id":1,"price":{"cents":5},"é":null}'.encode()
    assert codec.decode(data, is_framed=True) == value


def test_what_does_not_fit(codec):
    for value, clue in (
        ({}, "the value: 'id' is a required property"),
        ({"id": 1, "price": {"cents": -1}}, "price.cents: -1 is less than the minimum of 0"),
    ):
        with pytest.raises(MisfitError, match=f"does not fit its JSON Schema: {clue}"):
            codec.encode(value, is_framed=False)
        with pytest.raises(MisfitError, match=clue):
            codec.decode(json.dumps(value).encode(), is_framed=False)
    for data in (b"", b"\xff", b"{"):
        with pytest.raises(MisfitError, match="is not JSON: "):
            codec.decode(data, is_framed=False)


def test_schemas_that_cannot_be_used():
    with pytest.raises(SchemaError, match=r"refers to money\.json, which is not among its references"):
        JsonSchemaCodec(json.dumps(SCHEMA)).encode({"id": 1, "price": {}}, is_framed=False)
    for text in ("{", '{"type": "nothing"}', "5"):
        with pytest.raises(SchemaError, match="not a JSON Schema: "):
            JsonSchemaCodec(text)
