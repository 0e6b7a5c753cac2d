"""UUIDs as Kafka writes them, in files and JSON."""

import base64
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.uuid import METADATA_TOPIC_ID, ZERO_UUID, uuid_from_string, uuid_to_string


def test_known_values():
    assert uuid_to_string(ZERO_UUID) == "AAAAAAAAAAAAAAAAAAAAAA"
    assert uuid_to_string(METADATA_TOPIC_ID) == "AAAAAAAAAAAAAAAAAAAAAQ"
    assert uuid_to_string(b"\xff" * 16) == "_____________________w"


@given(st.binary(min_size=16, max_size=16))
def test_round_trip(value):
    text = uuid_to_string(value)
    assert text == base64.urlsafe_b64encode(uuid.UUID(bytes=value).bytes).decode().rstrip("=")
    assert uuid_from_string(text) == value
    assert uuid_from_string(text + "==") == value


@pytest.mark.parametrize(
    "text",
    [
        "",
        "A",
        "A" * 21,
        "A" * 23,
        "A" * 20 + "é-",
        "A" * 20 + "+*",
        "A" * 20 + " A",
        "A" * 20 + "**",
        "A" * 20 + "+A",
        "A" * 20 + "/A",
    ],
)
def test_malformed_text(text):
    with pytest.raises(ValueError, match="UUID"):
        uuid_from_string(text)


def test_malformed_bytes():
    with pytest.raises(ValueError, match="16 bytes"):
        uuid_to_string(b"short")
