"""Arbitrary messages of every version: encode, decode, JSON, and back."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from protocol.buffer import join
from protocol.json import from_json, to_json
from support.counts import count
from support.messages import message_classes, strategy, versions

pytestmark = pytest.mark.counted

MANY = settings(max_examples=count(3, 15), database=None, suppress_health_check=list(HealthCheck))


@pytest.mark.parametrize("cls", message_classes().values(), ids=lambda cls: cls.NAME)
def test_round_trip(cls):
    for version in versions(cls):
        round_trip(cls, version)


def round_trip(cls, version):
    @MANY
    @given(
        message=strategy(cls, version, cls.is_flexible(version)),
        before=st.binary(max_size=3),
        after=st.binary(max_size=3),
    )
    def check(message, before, after):
        raw = join(message.encode(version))
        decoded, end = cls.decode(before + raw + after, version, len(before))
        assert end == len(before) + len(raw)
        assert decoded == message
        assert decoded.to_bytes(version) == raw
        assert cls.decode(bytearray(raw), version)[0] == message
        json = to_json(message, version)
        rebuilt = from_json(cls, json, version)
        assert to_json(rebuilt, version) == json

    check()
