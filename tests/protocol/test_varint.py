"""Unsigned varints: their bytes, and numbers that have none. The tests of messages and of records read them."""

import pytest

from protocol.varint import encode_unsigned_varint


@pytest.mark.parametrize(
    ("value", "raw"),
    [(0, "00"), (1, "01"), (127, "7f"), (128, "8001"), (300, "ac02"), (16383, "ff7f"), (16384, "808001"),
     (2**32 - 1, "ffffffff0f"), (2**64 - 1, "ff" * 9 + "01")],
)  # fmt: skip
def test_each_byte_holds_seven_bits(value, raw):
    assert encode_unsigned_varint(value).hex() == raw


@pytest.mark.parametrize("value", [-1, 2**64])
def test_values_that_do_not_fit_are_refused(value):
    with pytest.raises(ValueError, match="not an unsigned varint"):
        encode_unsigned_varint(value)
