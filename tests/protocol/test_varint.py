"""Varints: the three kinds, their widths, and what is refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.errors import DecodeError
from protocol.varint import (
    decode_unsigned_varint,
    decode_varint,
    decode_varlong,
    encode_unsigned_varint,
    encode_varint,
    encode_varlong,
    size_of_unsigned_varint,
    size_of_varint,
    size_of_varlong,
)


@pytest.mark.parametrize(
    ("value", "raw"),
    [(0, "00"), (1, "01"), (127, "7f"), (128, "8001"), (300, "ac02"), (16383, "ff7f"), (16384, "808001"),
     (2**32 - 1, "ffffffff0f")],
)  # fmt: skip
def test_unsigned(value, raw):
    assert encode_unsigned_varint(value).hex() == raw
    assert decode_unsigned_varint(bytes.fromhex(raw), 0) == (value, len(raw) // 2)


@pytest.mark.parametrize(
    ("value", "raw"),
    [(0, "00"), (-1, "01"), (1, "02"), (-64, "7f"), (64, "8001"), (2**31 - 1, "feffffff0f"),
     (-(2**31), "ffffffff0f")],
)  # fmt: skip
def test_zigzag(value, raw):
    assert encode_varint(value).hex() == raw
    assert decode_varint(bytes.fromhex(raw), 0) == (value, len(raw) // 2)


@given(st.integers(-(2**63), 2**63 - 1), st.binary(max_size=3), st.binary(max_size=3))
def test_varlong_round_trip(value, before, after):
    raw = encode_varlong(value)
    assert len(raw) == size_of_varlong(value)
    assert decode_varlong(before + raw + after, len(before)) == (value, len(before) + len(raw))


@given(st.integers(-(2**31), 2**31 - 1))
def test_varint_round_trip(value):
    raw = encode_varint(value)
    assert len(raw) == size_of_varint(value) <= 5
    assert decode_varint(memoryview(raw), 0) == (value, len(raw))


@given(st.integers(0, 2**32 - 1))
def test_unsigned_round_trip(value):
    raw = encode_unsigned_varint(value)
    assert len(raw) == size_of_unsigned_varint(value) <= 5
    assert decode_unsigned_varint(bytearray(raw), 0) == (value, len(raw))


@pytest.mark.parametrize("value", [-1, 2**64])
def test_values_that_do_not_fit_are_refused(value):
    with pytest.raises(ValueError, match="no unsigned varint"):
        encode_unsigned_varint(value)


@pytest.mark.parametrize(
    ("decode", "raw", "rule"),
    [
        (decode_unsigned_varint, "", "ends inside"),
        (decode_unsigned_varint, "80", "ends inside"),
        (decode_unsigned_varint, "808080808001", "longer than 5 bytes"),
        (decode_unsigned_varint, "ffffffff1f", "wider than 32 bits"),
        (decode_varint, "ffffffff1f", "wider than 32 bits"),
        (decode_varint, "ffffffffff00", "longer than 5 bytes"),
        (decode_varlong, "ff" * 9 + "02", "wider than 64 bits"),
        (decode_varlong, "ff" * 10 + "00", "longer than 10 bytes"),
        (decode_varlong, "ff" * 9, "ends inside"),
    ],
)
def test_malformed(decode, raw, rule):
    with pytest.raises(DecodeError, match=rule):
        decode(bytes.fromhex(raw), 0)


@given(st.binary(max_size=12), st.sampled_from([decode_unsigned_varint, decode_varint, decode_varlong]))
def test_any_bytes(raw, decode):
    try:
        _, end = decode(raw, 0)
    except DecodeError:
        return
    assert 0 < end <= len(raw)
