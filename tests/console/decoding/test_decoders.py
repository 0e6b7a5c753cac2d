"""Decoders of keys and values."""

import json
import uuid

import pytest

from console.decoding.decoders import NAMES, decode, is_text
from console.decoding.limits import MAX_BYTES, MAX_DEPTH

ID = uuid.UUID("01890a5d-ac96-774b-bcce-b302099a8057")


@pytest.mark.parametrize(
    ("data", "decoder", "text"),
    [
        (b"", "text", ""),
        (b"hello\n", "text", "hello\n"),
        ("é€".encode(), "text", "é€"),
        (b"42", "text", "42"),
        (b'{"id": 12345678901234567890}', "json", '{"id": 12345678901234567890}'),
        (b"[1, 2", "text", "[1, 2"),
        (b"{NaN}", "text", "{NaN}"),
        (b"\x00\x00\x00\x2a", "int32", "42"),
        (b"\xff" * 8, "int64", "-1"),
        (b"\x00\x01\x02", "hex", "00 01 02"),
        (ID.bytes, "uuid", str(ID)),
        (b"\x82\xa1a\x01\xa1b\xc0", "messagepack", '{"a":1,"b":null}'),
        (b"\xa2aa\x01ab\xf6", "cbor", '{"a":1,"b":null}'),
        (b"\xd9\xd9\xf7\x01", "cbor", "1"),
    ],
)
def test_the_decoder_is_chosen_by_the_data(data, decoder, text):
    found = decode("auto", data)
    assert (found.decoder, found.text, found.error) == (decoder, text, None)


@pytest.mark.parametrize(
    ("name", "data", "error"),
    [
        ("json", b"{", "is not JSON"),
        ("json", b"[" * 100_000, "is not JSON"),
        ("json", b"1" * 5000, "5000 digits"),
        ("int32", b"123", "has 3 bytes; int32 has 4"),
        ("uuid", b"no", "is neither 16 bytes nor the text of a UUID"),
        ("messagepack", b"\xc1", "0xc1"),
        ("cbor", b"\xff", "break"),
        ("internal", b"x", "is not in an internal topic"),
    ],
)
def test_data_without_the_format_is_shown_with_the_error(name, data, error):
    found = decode(name, data)
    assert found.decoder in ("text", "hex")
    assert error in found.error


@pytest.mark.parametrize("name", NAMES)
def test_no_data_is_an_exception(name):
    for data in (
        b"",
        b"\xff" * 100,
        bytes(range(256)),
        b"[" * 5000,
        b"\x91" * 5000,
        b"\x81" * 5000,
        bytes(MAX_BYTES + 1),
    ):
        found = decode(name, data)
        assert isinstance(found.text, str)
        if found.is_json:
            json.loads(found.text)


def test_large_data_is_shown_in_part():
    found = decode("auto", b"x" * (MAX_BYTES + 1))
    assert (found.decoder, len(found.text)) == ("text", MAX_BYTES)


@pytest.mark.parametrize("name", ["messagepack", "cbor"])
def test_depth_is_limited(name):
    one = {"messagepack": b"\x91", "cbor": b"\x81"}[name]
    assert decode(name, one * MAX_DEPTH + b"\x01").error is None
    assert f"more than {MAX_DEPTH} levels" in decode(name, one * (MAX_DEPTH + 1) + b"\x01").error


def test_text_that_is_cut_inside_a_character_is_text():
    assert is_text("é€".encode()[:-1])
    assert not is_text(b"\xff\xfe")
    assert not is_text(b"a\x00b")
