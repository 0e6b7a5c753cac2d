"""What others rely on in messages: defaults, versions, equality, errors, records, laziness."""

import copy
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

from protocol.buffer import LazyRecords, join
from protocol.errors import DecodeError, EncodeError, UnsupportedVersionError
from protocol.messages import alter_configs, incremental_alter_configs
from protocol.messages.alter_user_scram_credentials import AlterUserScramCredentialsRequest, ScramCredentialUpsertion
from protocol.messages.consumer_group_describe import ConsumerGroupDescribeResponse, DescribedGroup, Member
from protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from protocol.messages.create_delegation_token import CreateDelegationTokenResponse
from protocol.messages.describe_delegation_token import DescribedDelegationToken, DescribeDelegationTokenResponse
from protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest
from protocol.messages.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
    ReplicaState,
)
from protocol.messages.join_group import JoinGroupRequest
from protocol.messages.list_groups import ListGroupsRequest
from protocol.messages.metadata import MetadataRequest, MetadataResponse, MetadataResponseTopic
from protocol.messages.offset_commit import OffsetCommitRequest
from protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from protocol.messages.renew_delegation_token import RenewDelegationTokenRequest
from protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from protocol.uuid import ZERO_UUID


def produce(records):
    partition = PartitionProduceData(index=3, records=records)
    return ProduceRequest(acks=-1, timeout_ms=100, topic_data=[TopicProduceData(name="t", partition_data=[partition])])


def fetch_response(*records):
    return FetchResponse(
        responses=[
            FetchableTopicResponse(
                topic="t",
                partitions=[PartitionData(partition_index=i, records=r) for i, r in enumerate(records)],
            )
        ]
    )


class FileRange:
    def __init__(self, content):
        self.content = content

    def __len__(self):
        return len(self.content)

    def read(self, offset, length):
        return self.content[offset : offset + length]

    def to_bytes(self):
        return self.content

    def read_now(self, offset, length):
        return self.read(offset, length)

    async def read_later(self, offset, length):
        return self.read(offset, length)


class TestConstructor:
    def test_omitted_fields_have_kafkas_defaults(self):
        request = FetchRequest()
        assert request.replica_id == -1
        assert request.max_bytes == 0x7FFFFFFF
        assert request.cluster_id is None
        assert request.topics == []
        assert request.unknown_tags == {}
        assert FetchTopic().topic_id == ZERO_UUID
        assert PartitionData().diverging_epoch == EpochEndOffset(epoch=-1, end_offset=-1)

    def test_lists_are_not_shared(self):
        FetchRequest().topics.append(FetchTopic())
        assert FetchRequest().topics == []
        Member().assignment.topic_partitions.append("x")
        assert Member().assignment.topic_partitions == []

    def test_unknown_names_are_refused(self):
        with pytest.raises(TypeError, match="tpoics"):
            FetchRequest(tpoics=[])
        with pytest.raises(AttributeError):
            FetchRequest().tpoics = []

    def test_shared_defaults_refuse_changes(self):
        partition = PartitionData()
        with pytest.raises(AttributeError, match="assign a new one"):
            partition.diverging_epoch.epoch = 5
        with pytest.raises(TypeError, match="assign a new dict"):
            partition.unknown_tags[1] = b""
        partition.diverging_epoch = EpochEndOffset(epoch=5, end_offset=6)
        assert PartitionData().diverging_epoch.epoch == -1

    def test_shared_defaults_of_decoded_messages_refuse_changes(self):
        decoded, _ = FetchRequest.decode(FetchRequest(max_wait_ms=1).to_bytes(4), 4)
        with pytest.raises(AttributeError, match="assign a new one"):
            decoded.replica_state.replica_id = 5

    @pytest.mark.parametrize("version", [4, 17])
    def test_copies_and_pickles_are_equal(self, version):
        raw = fetch_response(b"abc", None).to_bytes(12)
        message, _ = FetchResponse.decode(raw, 12)
        for partition in message.responses[0].partitions:
            if partition.records is not None:
                partition.records = bytes(partition.records)
        assert copy.deepcopy(message) == message
        assert pickle.loads(pickle.dumps(message)) == message


class TestEquality:
    def test_by_class_fields_and_unknown_tags(self):
        assert produce(b"a") == produce(memoryview(b"a"))
        assert produce(b"a") != produce(b"b")
        tagged = produce(b"a")
        tagged.unknown_tags = {9: b"x"}
        assert tagged != produce(b"a")
        assert EpochEndOffset() != "x"
        assert EpochEndOffset() != ReplicaState()

    def test_messages_are_not_hashable(self):
        with pytest.raises(TypeError):
            hash(FetchRequest())

    def test_repr_names_fields_but_not_the_records(self):
        text = repr(produce(b"secret"))
        assert "acks=-1" in text
        assert "records=<6 bytes>" in text
        assert "secret" not in text


class TestRecords:
    def test_are_pieces_of_their_own_and_uncopied(self):
        first, second = bytearray(b"first"), memoryview(b"second")
        pieces = fetch_response(first, second).encode(12)
        assert any(piece is first for piece in pieces)
        assert any(piece is second for piece in pieces)
        assert len(pieces) == 5
        decoded, _ = FetchResponse.decode(join(pieces), 12)
        assert [bytes(p.records) for p in decoded.responses[0].partitions] == [b"first", b"second"]

    def test_may_be_lazy(self):
        lazy = FileRange(b"from a file")
        assert isinstance(lazy, LazyRecords)
        response = fetch_response(lazy)
        assert any(piece is lazy for piece in response.encode(11))
        assert response.to_bytes(11) == fetch_response(b"from a file").to_bytes(11)

    @pytest.mark.parametrize("version", [4, 11, 12, 17])
    def test_null_and_empty_differ(self, version):
        response = fetch_response(None, b"")
        response.responses[0].topic = "" if version > 12 else "t"
        decoded, _ = FetchResponse.decode(response.to_bytes(version), version)
        none, empty = decoded.responses[0].partitions
        assert none.records is None
        assert empty.records == b""

    def test_longer_than_one_byte_of_length(self):
        for size in (126, 127, 128, 16_382, 16_383, 16_384, 2**21):
            decoded, _ = ProduceRequest.decode(produce(bytes(size)).to_bytes(9), 9)
            assert len(decoded.topic_data[0].partition_data[0].records) == size

    def test_are_a_view_and_everything_else_is_a_copy(self):
        raw = bytearray(produce(b"abc").to_bytes(9))
        request, _ = ProduceRequest.decode(raw, 9)
        records = request.topic_data[0].partition_data[0].records
        start = raw.index(b"abc")
        raw[start : start + 3] = b"xyz"
        assert records == b"xyz"
        joined, _ = JoinGroupRequest.decode(bytearray(JoinGroupRequest(protocol_type="consumer").to_bytes(5)), 5)
        assert isinstance(joined.protocol_type, str)

    def test_any_view_will_do_as_input(self):
        raw = produce(b"abc").to_bytes(9)
        for view in (
            bytearray(raw),
            memoryview(raw),
            memoryview(raw).cast("b"),
            memoryview(raw).toreadonly(),
        ):
            assert ProduceRequest.decode(view, 9)[0] == produce(b"abc")


class TestVersions:
    def test_without_fields_there_is_one_empty_piece(self):
        assert ListGroupsRequest().encode(0) == [b""]
        assert ListGroupsRequest.decode(b"", 0) == (ListGroupsRequest(), 0)

    @pytest.mark.parametrize("version", [-1, 12, 99])
    def test_others_are_refused(self, version):
        with pytest.raises(UnsupportedVersionError, match="versions: 0 to 11"):
            ProduceRequest.decode(b"", version)
        with pytest.raises(UnsupportedVersionError, match=f"no version {version}"):
            ProduceRequest().encode(version)

    def test_structs_have_none(self):
        with pytest.raises(UnsupportedVersionError, match="none of its own"):
            FetchTopic().encode(0)

    def test_a_field_that_the_version_lacks_must_be_at_its_default(self):
        request = FetchRequest(topics=[FetchTopic(partitions=[FetchPartition(last_fetched_epoch=7)])])
        with pytest.raises(EncodeError, match=r"topics\.partitions: version 11 has no last_fetched_epoch, which is 7"):
            request.encode(11)
        request.encode(12)
        with pytest.raises(EncodeError, match="version 15 has no replica_id"):
            FetchRequest(replica_id=1).encode(15)
        with pytest.raises(EncodeError, match="version 14 has no replica_state"):
            FetchRequest(replica_state=ReplicaState(replica_id=1)).encode(14)

    def test_unless_it_is_ignorable(self):
        decoded, _ = FetchRequest.decode(FetchRequest(rack_id="r", max_bytes=5).to_bytes(2), 2)
        assert (decoded.rack_id, decoded.max_bytes) == ("", 0x7FFFFFFF)

    def test_tagged_fields_need_a_flexible_version(self):
        request = MetadataRequest(unknown_tags={5: b"x"})
        assert MetadataRequest.decode(request.to_bytes(9), 9)[0].unknown_tags == {5: b"x"}
        with pytest.raises(EncodeError, match="no tagged fields"):
            request.encode(8)

    def test_tagged_fields_are_written_in_the_order_of_their_tags(self):
        request = FetchRequest(cluster_id="c", replica_state=ReplicaState(replica_id=1, replica_epoch=2))
        request.unknown_tags = {9: b"9", 300: b"300", 4: b"4"}
        state = "010d" + "00000001" + "0000000000000002" + "00"
        tags = "05" + "00020263" + state + "040134" + "090139" + "ac0203333030"
        assert request.to_bytes(15).hex().endswith(tags)
        assert FetchRequest.decode(request.to_bytes(15), 15)[0] == request

    def test_an_unknown_tag_must_not_be_a_known_one(self):
        request = FetchRequest(cluster_id="c")
        request.unknown_tags = {0: b"x"}
        with pytest.raises(EncodeError, match="tag 0 is a field"):
            request.encode(12)

    def test_kafka_4_versions_of_the_new_group_protocol(self):
        heartbeat = ConsumerGroupHeartbeatRequest(group_id="g", member_id="m", subscribed_topic_regex="a.*")
        assert ConsumerGroupHeartbeatRequest.decode(heartbeat.to_bytes(1), 1)[0] == heartbeat
        with pytest.raises(EncodeError, match="subscribed_topic_regex"):
            heartbeat.encode(0)
        described = ConsumerGroupDescribeResponse(groups=[DescribedGroup(members=[Member(member_type=1)])])
        old, new = (ConsumerGroupDescribeResponse.decode(described.to_bytes(v), v)[0] for v in (0, 1))
        assert old.groups[0].members[0].member_type == -1
        assert new.groups[0].members[0].member_type == 1
        assert len(described.to_bytes(1)) == len(described.to_bytes(0)) + 1


class TestEncodeErrors:
    @pytest.mark.parametrize("version", [8, 9])
    @pytest.mark.parametrize(
        ("request_", "field", "rule"),
        [
            (ProduceRequest(acks=1 << 15), "acks", "format"),
            (ProduceRequest(topic_data=[TopicProduceData(name=None)]), "topic_data.name", "null"),
            (ProduceRequest(topic_data=None), "topic_data", "null"),
            (ProduceRequest(transactional_id="x" * 32768), "transactional_id", "32767|format"),
            (ProduceRequest(transactional_id="\ud800"), "transactional_id", "surrogates"),
        ],
    )
    def test_name_the_field(self, request_, field, rule, version):
        with pytest.raises(EncodeError, match=rule) as caught:
            request_.encode(version)
        assert field in caught.value.field.split(" or ")
        assert str(caught.value).startswith(f"ProduceRequest v{version}.")

    def test_a_uuid_has_16_bytes(self):
        with pytest.raises(EncodeError, match="16 bytes"):
            MetadataResponse(topics=[MetadataResponseTopic(topic_id=b"short")]).encode(12)

    def test_the_longest_string_passes(self):
        for version in (8, 9):
            request = ProduceRequest(transactional_id="x" * 32767)
            assert ProduceRequest.decode(request.to_bytes(version), version)[0] == request


class TestDecodeErrors:
    @pytest.mark.parametrize(
        ("raw", "version", "field", "offset", "rule"),
        [
            ("", 3, "transactional_id", 0, "needs 2 bytes, 0 left"),
            ("ffff", 3, "acks", 2, "needs 2 bytes, 0 left"),
            ("ffff 0001 0000", 3, "timeout_ms", 4, "needs 4 bytes, 2 left"),
            ("fffe 0001 00000000 00000000", 3, "transactional_id", 2, "negative length -2"),
            ("0005 6162", 3, "transactional_id", 2, "length 5, 2 bytes left"),
            ("0002 ff62 0000", 3, "transactional_id", 2, "not valid UTF-8"),
            ("ffff 0001 00000000 7fffffff", 3, "topic_data", 12, "2147483647 elements, 0 bytes left"),
            ("ffff 0001 00000000 ffffffff", 3, "topic_data", 12, "null is not allowed"),
            ("ffff 0001 00000000 fffffffe", 3, "topic_data", 12, "negative count -2"),
            ("ffff 0001 00000000 00000001 ffff 00000000", 3, "topic_data.name", 14, "null is not allowed"),
            ("80 80 80 80 80 01", 9, "transactional_id", 0, "varint longer than 5 bytes"),
            ("80 80 80 80 80 00", 9, "transactional_id", 0, "varint longer than 5 bytes"),
            ("ff ff ff ff 1f", 9, "transactional_id", 0, "varint longer than 5 bytes or 32 bits"),
            ("81 80 02", 9, "transactional_id", 0, "string of 32768 bytes"),
            ("00 0001 00000000 00", 9, "topic_data", 8, "null is not allowed"),
            ("00 0001 00000000 01 02 64 05 00", 9, "tagged fields", 11, "length 5, 1 bytes left"),
        ],
    )
    def test_name_field_offset_and_rule(self, raw, version, field, offset, rule):
        with pytest.raises(DecodeError) as caught:
            ProduceRequest.decode(bytes.fromhex(raw), version)
        error = caught.value
        assert error.message == f"ProduceRequest v{version}"
        assert error.field == field
        assert rule in error.rule
        assert error.offset == offset
        assert str(error) == f"ProduceRequest v{version}.{field} at offset {offset}: {error.rule}"

    def test_a_known_tagged_field_must_fill_its_size(self):
        raw = FetchRequest(cluster_id="abc").to_bytes(12)
        assert raw.endswith(bytes.fromhex("01 00 04 04 616263"))
        with pytest.raises(DecodeError, match=r"cluster_id.*off the tagged field's size"):
            FetchRequest.decode(raw[:-5] + bytes.fromhex("05 04 616263 00"), 12)

    def test_counts_are_checked_against_what_an_element_takes_at_least(self):
        raw = bytes.fromhex("ffff 0001 00000000") + (3).to_bytes(4, "big") + bytes(17)
        with pytest.raises(DecodeError, match="3 elements, 17 bytes left"):
            ProduceRequest.decode(raw, 3)


def test_importing_a_message_compiles_nothing():
    """Start-up pays for the messages that are used, in the versions that are used."""
    program = (
        "import sys, protocol.messages.fetch as f\n"
        "lazy = [f'protocol.{name}' for name in ('encoder', 'decoder', 'constructor', 'json')]\n"
        "assert not [name for name in lazy if name in sys.modules]\n"
        "raw = f.FetchRequest().to_bytes(4)\n"
        "assert f.FetchRequest.ENCODERS.keys() == {4}, f.FetchRequest.ENCODERS\n"
        "assert not f.FetchRequest.DECODERS\n"
        "assert 'protocol.decoder' not in sys.modules\n"
    )
    root = Path(__file__).resolve().parents[2]
    subprocess.run([sys.executable, "-c", program], check=True, cwd=root)


def test_declared_versions_of_one_message_do_not_leak_into_another():
    request = OffsetCommitRequest(group_id="g", generation_id_or_member_epoch=5)
    for version in (1, 9):
        decoded, _ = OffsetCommitRequest.decode(request.to_bytes(version), version)
        assert decoded.generation_id_or_member_epoch == 5


@pytest.mark.parametrize(
    "message",
    [
        SaslAuthenticateRequest(auth_bytes=b"planted"),
        SaslAuthenticateResponse(auth_bytes=b"planted"),
        CreateDelegationTokenResponse(hmac=b"planted"),
        DescribeDelegationTokenResponse(tokens=[DescribedDelegationToken(hmac=b"planted")]),
        RenewDelegationTokenRequest(hmac=b"planted"),
        ExpireDelegationTokenRequest(hmac=b"planted"),
        AlterUserScramCredentialsRequest(
            upsertions=[ScramCredentialUpsertion(name="alice", salt=b"planted", salted_password=b"planted")]
        ),
    ],
    ids=lambda message: message.NAME,
)
def test_repr_hides_secrets(message):
    assert "planted" not in repr(message)
    assert "<hidden>" in repr(message)


@pytest.mark.parametrize("struct", [alter_configs.AlterableConfig, incremental_alter_configs.AlterableConfig])
@pytest.mark.parametrize(
    ("name", "is_shown"),
    [
        ("listener.name.ssl.ssl.keystore.password", False),
        ("ssl.keystore.key", False),
        ("listener.name.sasl.plain.sasl.jaas.config", False),
        ("SCRAM-SHA-256", False),
        ("retention.ms", True),
    ],
)
def test_repr_hides_values_of_sensitive_settings(struct, name, is_shown):
    assert ("planted" in repr(struct(name=name, value="planted"))) is is_shown
