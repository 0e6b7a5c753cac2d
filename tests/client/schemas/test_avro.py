"""Avro: the JSON encoding of every type, and back to the same bytes."""

import io
import json

import fastavro
import pytest

from client.schemas.avro import AvroCodec
from client.schemas.codec import MisfitError, SchemaError

EVERYTHING = {
    "type": "record",
    "name": "shop.Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "note", "type": ["null", "string"], "default": None},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 6, "scale": 2}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}, "default": 1},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["NEW", "OLD"]}, "default": "NEW"},
        {"name": "code", "type": {"type": "fixed", "name": "Code", "size": 2}, "default": "ab"},
        {"name": "ratio", "type": "double", "default": 0.5},
        {"name": "tags", "type": {"type": "array", "items": "string"}, "default": []},
        {"name": "parts", "type": {"type": "map", "values": ["null", "Order", "Kind"]}, "default": {}},
        {"name": "any", "type": ["null", "boolean", "int", "long", "float", "double", "bytes", "string", "Code"]},
    ],
}


@pytest.fixture(scope="module")
def orders():
    return AvroCodec(json.dumps(EVERYTHING))


def order(**fields):
    return {"id": 1, "note": None, "price": "\x01\xff", "day": 20_000, "kind": "OLD", "code": "\x00\xff",
            "ratio": 1.5, "tags": ["a"], "parts": {}, "any": None} | fields  # fmt: skip


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"note": {"string": "né"}},
        {"ratio": "NaN"},
        {"ratio": "-Infinity"},
        {"day": -(2**31)},
        {"id": 2**63 - 1},
        {"parts": {"x": None, "y": {"shop.Kind": "NEW"}, "z": {"shop.Order": order()}}},
        {"any": {"boolean": True}},
        {"any": {"int": 7}},
        {"any": {"long": 2**40}},
        {"any": {"double": 0.1}},
        {"any": {"bytes": "\xfe"}},
        {"any": {"string": "s"}},
        {"any": {"shop.Code": "xy"}},
    ],
)
def test_round_trips(orders, fields):
    value = order(**fields)
    data = orders.encode(value, is_framed=False)
    assert orders.decode(data, is_framed=False) == value
    assert orders.encode(orders.decode(data, is_framed=False), is_framed=False) == data


def test_fastavro_reads_what_is_written(orders):
    data = orders.encode(order(note="plain", any=2.5), is_framed=True)
    read = fastavro.schemaless_reader(io.BytesIO(data), fastavro.parse_schema(EVERYTHING), None)
    assert (read["note"], read["any"], str(read["price"]), str(read["day"])) == ("plain", 2.5, "5.11", "2024-10-04")


def test_what_may_be_left_out(orders):
    data = orders.encode({"id": 1, "price": "", "any": {"Code": "xy"}}, is_framed=False)
    assert orders.decode(data, is_framed=False) == order(
        price="", day=1, kind="NEW", code="ab", ratio=0.5, tags=[], any={"shop.Code": "xy"}
    )


@pytest.mark.parametrize(
    ("fields", "clue"),
    [
        ({"id": "x"}, 'id must be an integer of 64 bits, not "x"'),
        ({"id": True}, "id must be an integer of 64 bits, not true"),
        ({"id": 2**63}, "id must be an integer of 64 bits"),
        ({"day": 2**31}, "day must be an integer of 32 bits"),
        ({"note": 5}, "note must be a string, not 5"),
        ({"note": {"int": 5}}, 'note must be a string, not {"int": 5}'),
        ({"kind": "x"}, 'kind must be one of NEW, OLD, not "x"'),
        ({"code": "abc"}, 'code must be a string of 2 characters, not "abc"'),
        ({"price": "€"}, "price must be a string with a character up to U+00FF"),
        ({"ratio": "much"}, "ratio must be a number"),
        ({"tags": ["a", 1]}, "tags[1] must be a string, not 1"),
        ({"tags": {}}, "tags must be an array"),
        ({"parts": {"x": {"Order": {}}}}, "the field parts.x.id is missing"),
        ({"parts": {"x": 1}}, "parts.x must be one of null, shop.Order, shop.Kind"),
        ({"color": 1}, "there is no field color in the schema"),
    ],
)
def test_values_that_do_not_fit(orders, fields, clue):
    with pytest.raises(MisfitError) as raised:
        orders.encode(order(**fields), is_framed=False)
    assert clue in str(raised.value)


def test_bytes_that_do_not_fit(orders):
    data = orders.encode(order(), is_framed=False)
    for wrong in (b"", data[:-1], data + b"\0", b"\xff" * 50):
        with pytest.raises(MisfitError, match="does not fit its Avro schema: "):
            orders.decode(wrong, is_framed=False)


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ('"string"', "text"),
        ('["null","long"]', None),
        ('["null","long"]', {"long": 5}),
        ('"bytes"', "\x00"),
        ('{"type":"null"}', None),
    ],
)
def test_schemas_that_are_no_records(schema, value):
    codec = AvroCodec(schema)
    assert codec.decode(codec.encode(value, is_framed=False), is_framed=False) == value


def test_references():
    item = {"type": "record", "name": "Item", "namespace": "shop", "fields": [{"name": "size", "type": "shop.Size"}]}
    size = {"type": "enum", "name": "shop.Size", "symbols": ["S", "L"]}
    references = {"shop.Item": json.dumps(item), "shop.Size": json.dumps(size)}
    record = {
        "type": "record",
        "name": "shop.Cart",
        "fields": [{"name": "a", "type": "Item"}, {"name": "b", "type": "Size"}],
    }
    cart = AvroCodec(json.dumps(record), references)
    value = {"a": {"size": "S"}, "b": "L"}
    assert cart.decode(cart.encode(value, is_framed=False), is_framed=False) == value
    union = AvroCodec('["shop.Item", "shop.Size"]', references)
    for value in ({"shop.Item": {"size": "L"}}, {"shop.Size": "S"}):
        assert union.decode(union.encode(value, is_framed=False), is_framed=False) == value


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]x",
        '{"type": "record"}',
        '"nothing"',
        '{"type":"record","name":"R","fields":[{"name":"x","type":"Y"}]}',
        "5",
    ],
)
def test_what_is_no_schema(text):
    with pytest.raises(SchemaError, match="not an Avro schema: "):
        AvroCodec(text)
