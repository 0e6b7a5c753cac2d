"""CBOR: the examples of RFC 8949, appendix A."""

import pytest

from console.decoding.cbor import decode
from console.decoding.errors import DecodingError


@pytest.mark.parametrize(
    ("data", "value"),
    [
        ("00", 0),
        ("1818", 24),
        ("1903e8", 1000),
        ("1b000000e8d4a51000", 1000000000000),
        ("c249010000000000000000", 18446744073709551616),
        ("c349010000000000000000", -18446744073709551617),
        ("20", -1),
        ("3903e7", -1000),
        ("f90000", 0.0),
        ("f93e00", 1.5),
        ("fa47c35000", 100000.0),
        ("fb3ff199999999999a", 1.1),
        ("f97c00", "inf"),
        ("f4", False),
        ("f5", True),
        ("f6", None),
        ("f7", None),
        ("f0", {"simple": 16}),
        ("f8ff", {"simple": 255}),
        ("c11a514b67b0", {"tag": 1, "value": 1363896240}),
        ("4401020304", {"base64": "AQIDBA=="}),
        ("6449455446", "IETF"),
        ("83010203", [1, 2, 3]),
        ("a201020304", {"1": 2, "3": 4}),
        ("826161a161626163", ["a", {"b": "c"}]),
        ("5f42010243030405ff", {"base64": "AQIDBAU="}),
        ("7f657374726561646d696e67ff", "streaming"),
        ("9f018202039f0405ffff", [1, [2, 3], [4, 5]]),
        ("bf61610161629f0203ffff", {"a": 1, "b": [2, 3]}),
    ],
)
def test_values(data, value):
    assert decode(bytes.fromhex(data)) == value


@pytest.mark.parametrize(
    ("data", "error"),
    [
        ("", "ends"),
        ("ff", "break that ends nothing"),
        ("1c", "reserved length 28"),
        ("fc", "reserved simple value 28"),
        ("1f", "indefinite length"),
        ("5f01ff", "pieces of another type"),
        ("9bffffffffffffffff", "ends inside an array"),
        ("a1", "ends inside an array or object of 2 entries"),
        ("a18001", "whose key is an array"),
        ("0000", "1 bytes after its end"),
        ("61ff", "not UTF-8"),
        ("c1" * 100 + "00", "levels"),
    ],
)
def test_errors(data, error):
    with pytest.raises(DecodingError, match=error):
        decode(bytes.fromhex(data))
