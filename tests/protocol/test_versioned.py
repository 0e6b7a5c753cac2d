"""Messages with their version in front, and the JSON form's refusals."""

import pytest

from protocol.errors import DecodeError, UnsupportedVersionError
from protocol.json import from_json, to_json
from protocol.messages.consumer_protocol import ConsumerProtocolSubscription
from protocol.messages.control_record import ControlRecordKey, EndTxnMarker
from protocol.messages.group_metadata import GroupMetadataKey, OffsetCommitKey, OffsetCommitValue
from protocol.messages.produce import ProduceRequest
from protocol.versioned import decode_versioned, encode_versioned, peek_version


def test_the_version_comes_first():
    key = OffsetCommitKey(group="g", topic="t", partition=4)
    raw = encode_versioned(key, 1)
    assert raw.hex() == "0001" + "000167" + "000174" + "00000004"
    assert peek_version(raw) == 1
    assert decode_versioned(OffsetCommitKey, raw) == (key, 1)


@pytest.mark.parametrize("version", range(5))
def test_offset_commit_value(version):
    value = OffsetCommitValue(offset=7, metadata="m", commit_timestamp=3)
    decoded, found = decode_versioned(OffsetCommitValue, encode_versioned(value, version))
    assert (decoded, found) == (value, version)


def test_invalid_data_is_refused():
    with pytest.raises(DecodeError, match=r"GroupMetadataKey.*needs 2 bytes, 1 left"):
        decode_versioned(GroupMetadataKey, b"\0")
    with pytest.raises(UnsupportedVersionError, match="no version 1"):
        decode_versioned(GroupMetadataKey, b"\0\1\0\0")
    with pytest.raises(DecodeError, match="group"):
        decode_versioned(GroupMetadataKey, b"\0\2\0\5a")


def test_subscription_of_an_old_consumer():
    subscription = ConsumerProtocolSubscription(topics=["a"], user_data=None)
    assert encode_versioned(subscription, 0).hex() == "0000" + "00000001000161" + "ffffffff"


def test_control_records_carry_their_version_as_a_field():
    assert ControlRecordKey(version=0, type=1).to_bytes(0).hex() == "00000001"
    assert EndTxnMarker(version=0, coordinator_epoch=3).to_bytes(0).hex() == "000000000003"


def test_json_refuses_names_that_the_version_lacks():
    json = to_json(ProduceRequest(transactional_id="x"), 3)
    assert json == {"transactionalId": "x", "acks": 0, "timeoutMs": 0, "topicData": []}
    assert from_json(ProduceRequest, json, 3) == ProduceRequest(transactional_id="x")
    with pytest.raises(ValueError, match="version 2 has no field transactionalId"):
        from_json(ProduceRequest, json, 2)
    with pytest.raises(UnsupportedVersionError):
        to_json(ProduceRequest(), 12)
    with pytest.raises(UnsupportedVersionError):
        from_json(ProduceRequest, {}, -1)
