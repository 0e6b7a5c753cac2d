"""Protobuf: the JSON mapping, the indexes of Confluent's wire format, and schemas that cannot be compiled."""

import pytest

from client.schemas import protobuf
from client.schemas.codec import MisfitError, SchemaError
from client.schemas.protobuf import ProtobufCodec, compile_file, compile_text, decode_indexes, encode_indexes
from ottla.schemas.loading import codec_of_file

ORDERS = """
syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";
import "common/money.proto";
message Order {
  int64 order_id = 1;
  optional string note = 2;
  common.Money price = 3;
  google.protobuf.Timestamp at = 4;
  bytes code = 5;
  message Line { string name = 1; message Part { int32 size = 1; } }
}
message Refund { int64 order_id = 1; }
"""
MONEY = 'syntax = "proto3"; package common; message Money { int64 cents = 1; string currency = 2; }'


@pytest.fixture(scope="module")
def compiled():
    return compile_text(ORDERS, {"common/money.proto": MONEY})


def test_round_trips(compiled):
    codec = ProtobufCodec(compiled)
    value = {"order_id": 7, "price": {"cents": "5"}, "at": "2026-11-22T10:00:00Z", "code": "AP8="}
    data = codec.encode(value, is_framed=False)
    decoded = codec.decode(data, is_framed=False)
    assert decoded == {
        "orderId": "7",
        "price": {"cents": "5", "currency": ""},
        "at": "2026-11-22T10:00:00Z",
        "code": "AP8=",
    }
    assert codec.encode(decoded, is_framed=False) == data
    assert codec.encode(decoded, is_framed=True) == b"\0" + data


@pytest.mark.parametrize(
    ("message", "prefix"),
    [(None, b"\0"), ("Refund", b"\x02\x02"), ("shop.Order.Line", b"\x04\0\0"), ("Order.Line.Part", b"\x06\0\0\0")],
)
def test_messages_and_their_indexes(compiled, message, prefix):
    codec = ProtobufCodec(compiled, message)
    framed = codec.encode({}, is_framed=True)
    assert framed == prefix
    # Any codec of the schema decodes it: the indexes name the message.
    assert ProtobufCodec(compiled).decode(framed, is_framed=True) == codec.decode(b"", is_framed=False)


@pytest.mark.parametrize("indexes", [[0], [1], [0, 0], [2, 63, 64], [300, 5, 70_000]])
def test_indexes(indexes):
    encoded = encode_indexes(indexes)
    assert decode_indexes(encoded + b"rest") == (indexes, len(encoded))


@pytest.mark.parametrize(
    ("data", "clue"),
    [
        (b"", "ends before the indexes"),
        (b"\x04\x00", "ends before the indexes"),
        (b"\xff", "ends before the indexes"),
        (b"\x02\x08", r"names the message with the indexes \[4\]"),
        (b"\x04\x02\x00", r"names the message with the indexes \[1, 0\]"),
        (b"\0\xff\xff", "does not fit the Protobuf message shop.Order: "),
    ],
)
def test_bytes_that_do_not_fit(compiled, data, clue):
    with pytest.raises(MisfitError, match=clue):
        ProtobufCodec(compiled).decode(data, is_framed=True)


@pytest.mark.parametrize("value", [{"color": 1}, {"order_id": "x"}, [], "text", 5, {"code": 5}])
def test_values_that_do_not_fit(compiled, value):
    with pytest.raises(MisfitError, match=r"does not fit the Protobuf message shop\.Order: "):
        ProtobufCodec(compiled).encode(value, is_framed=False)


def test_schemas_that_cannot_be_used(compiled):
    with pytest.raises(SchemaError, match=r"not a Protobuf schema: schema.proto:1:1: Expected"):
        compile_text("nonsense", {})
    with pytest.raises(SchemaError, match=r"not a Protobuf schema: .*common/money.proto"):
        compile_text(ORDERS, {})
    with pytest.raises(SchemaError, match="outside its folder"):
        compile_text(ORDERS, {"../money.proto": MONEY})
    with pytest.raises(SchemaError, match="has no message"):
        ProtobufCodec(compile_text('syntax = "proto3";', {}))
    with pytest.raises(SchemaError, match="has no message Basket: it has Order, Refund"):
        ProtobufCodec(compiled, "Basket")
    for wrong in (b"", b"\xff\xff"):
        with pytest.raises(SchemaError, match="not a set of Protobuf descriptors"):
            ProtobufCodec(wrong)


def test_a_compiler_that_does_not_end(monkeypatch):
    monkeypatch.setattr(protobuf, "_COMPILER_TIMEOUT_S", 0.001)
    with pytest.raises(SchemaError, match=r"the Protobuf compiler has not ended in 0\.001 s"):
        compile_text(MONEY, {})


async def test_files(tmp_path):
    (tmp_path / "common").mkdir()
    (tmp_path / "common" / "money.proto").write_text(MONEY)
    proto = tmp_path / "orders.proto"
    proto.write_text(ORDERS)
    (tmp_path / "orders.desc").write_bytes(compile_file(proto))
    for name in ("orders.proto#Refund", "orders.desc#Refund"):
        codec = await codec_of_file(str(tmp_path / name))
        assert codec.decode(b"\x08\x07", is_framed=False) == {"orderId": "7"}
