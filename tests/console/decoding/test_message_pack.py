"""MessagePack: values as the specification writes them."""

import struct

import pytest

from console.decoding.errors import DecodingError
from console.decoding.limits import MAX_ITEMS
from console.decoding.message_pack import decode


@pytest.mark.parametrize(
    ("data", "value"),
    [
        ("00", 0),
        ("7f", 127),
        ("ff", -1),
        ("e0", -32),
        ("c0", None),
        ("c2", False),
        ("c3", True),
        ("ccff", 255),
        ("cdffff", 65535),
        ("ceffffffff", 2**32 - 1),
        ("cfffffffffffffffff", 2**64 - 1),
        ("d080", -128),
        ("d18000", -(2**15)),
        ("d280000000", -(2**31)),
        ("d38000000000000000", -(2**63)),
        ("ca3fc00000", 1.5),
        ("cb3ff8000000000000", 1.5),
        ("cb7ff8000000000000", "nan"),
        ("a3616263", "abc"),
        ("d903616263", "abc"),
        ("da0003616263", "abc"),
        ("db00000003616263", "abc"),
        ("c4020102", {"base64": "AQI="}),
        ("c500020102", {"base64": "AQI="}),
        ("c6000000020102", {"base64": "AQI="}),
        ("920102", [1, 2]),
        ("dc00020102", [1, 2]),
        ("dd000000020102", [1, 2]),
        ("81a16101", {"a": 1}),
        ("de0001a16101", {"a": 1}),
        ("df00000001a16101", {"a": 1}),
        ("8101c0", {"1": None}),
        ("d4057f", {"extension": 5, "base64": "fw=="}),
        ("d6ff00000001", "1970-01-01T00:00:01Z"),
        ("c70cff00000000ffffffffffffffff", "1969-12-31T23:59:59Z"),
        ("c70cff000000007fffffffffffffff", {"extension": -1, "base64": "AAAAAH//////////"}),
    ],
)
def test_values(data, value):
    assert decode(bytes.fromhex(data)) == value


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (b"", "ends"),
        (b"\x01\x02", "1 bytes after its end"),
        (b"\xa3ab", "ends 1 bytes too early"),
        (b"\xa1\xff", "not UTF-8"),
        (b"\xdd\xff\xff\xff\xff", "ends inside an array or object of 4294967295 entries"),
        (b"\x81\x90\x01", "whose key is an array"),
        (b"\xdd" + struct.pack(">I", MAX_ITEMS + 1) + bytes(MAX_ITEMS + 1), f"more than {MAX_ITEMS} entries"),
    ],
)
def test_errors(data, error):
    with pytest.raises(DecodingError, match=error):
        decode(data)
