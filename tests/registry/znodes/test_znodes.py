"""Znode classes where nothing was recorded: older versions, odd values, and content that breaks the rules."""

import json
import random

import pytest

from registry.errors import ZnodeFormatError
from registry.znodes.acls import AclChangeZnode, AclEntry, ResourceAclZnode
from registry.znodes.admin import DeleteTopicZnode, ReassignPartitionsZnode
from registry.znodes.brokers import BrokerZnode, Endpoint
from registry.znodes.configs import (
    BrokerConfigZnode,
    ClientConfigZnode,
    ConfigChangeZnode,
    TopicConfigZnode,
    UserClientConfigZnode,
    UserConfigZnode,
)
from registry.znodes.consumers import ConsumerOffsetZnode, ConsumerOwnerZnode, ConsumerZnode
from registry.znodes.controller import (
    ControllerEpochZnode,
    ControllerZnode,
    FeatureZnode,
    MigrationZnode,
    ProducerIdBlockZnode,
)
from registry.znodes.delegation_tokens import DelegationTokenZnode
from registry.znodes.java_order import immutable_map_order, java_hash, mutable_map_order, properties_order
from registry.znodes.notifications import IsrChangeNotificationZnode
from registry.znodes.sanitizer import desanitize, sanitize
from registry.znodes.topics import PartitionStateZnode, TopicZnode
from registry.znodes.tree import znode_class
from registry.znodes.znode import to_json
from support.counts import count
from support.reference import REFERENCE


@pytest.mark.parametrize(
    ("znode", "path", "data"),
    [
        (
            BrokerZnode(endpoints=(Endpoint("PLAINTEXT", "PLAINTEXT", "h", 1),), timestamp_ms=7, version=1),
            "/brokers/ids/3",
            '{"jmx_port":-1,"port":1,"host":"h","version":1,"timestamp":"7"}',
        ),
        (
            BrokerZnode(endpoints=(Endpoint("SSL", "SSL", "h", 1),), timestamp_ms=7, version=3, rack="r"),
            "/brokers/ids/3",
            '{"endpoints":["SSL://h:1"],"rack":"r","jmx_port":-1,"port":-1,"host":null,"version":3,"timestamp":"7"}',
        ),
        (
            BrokerZnode(
                endpoints=(Endpoint("IN", "SASL_SSL", None, 0), Endpoint("OUT", "PLAINTEXT", "::1", 9092)),
                timestamp_ms=7,
                jmx_port=99,
                features={"f": (1, 2)},
            ),
            "/brokers/ids/3",
            '{"features":{"f":{"min_version":1,"max_version":2}},'  # noqa: ISC004
            '"listener_security_protocol_map":{"IN":"SASL_SSL","OUT":"PLAINTEXT"},'
            '"endpoints":["IN://:0","OUT://[::1]:9092"],"jmx_port":99,"port":9092,"host":"::1",'
            '"version":5,"timestamp":"7"}',
        ),
        (
            TopicZnode(partitions={0: [1]}, version=1),
            "/brokers/topics/t",
            '{"version":1,"partitions":{"0":[1]}}',
        ),
        (
            TopicZnode(partitions={0: [1, 2]}, adding_replicas={0: [2]}, version=2),
            "/brokers/topics/t",
            '{"version":2,"partitions":{"0":[1,2]},"adding_replicas":{"0":[2]},"removing_replicas":{}}',
        ),
        (
            PartitionStateZnode(leader=1, leader_epoch=2, isr=[1], controller_epoch=3, leader_recovery_state=1),
            "/brokers/topics/t/partitions/0/state",
            '{"controller_epoch":3,"leader":1,"version":1,"leader_recovery_state":1,"leader_epoch":2,"isr":[1]}',
        ),
        (
            ControllerZnode(broker=1, timestamp_ms=5, version=1),
            "/controller",
            '{"version":1,"brokerid":1,"timestamp":"5"}',
        ),
        (
            FeatureZnode(features={"f": 3}, version=1),
            "/feature",
            '{"features":{"f":{"max_version_level":3,"min_version_level":3}},"version":1,"status":1}',
        ),
        (
            ConfigChangeZnode(entity_path="topics/t", version=1),
            "/config/changes/config_change_0000000001",
            '{"version":1,"entity_type":"topics","entity_name":"t"}',
        ),
        (ConsumerOffsetZnode(offset=12), "/consumers/g/offsets/t/0", "12"),
        (
            ConsumerZnode(subscription={"t": 2, "a": 1}, timestamp_ms=7),
            "/consumers/g/ids/g_host-7-0123abcd",
            '{"version":1,"subscription":{"t":2,"a":1},"pattern":"static","timestamp":"7"}',
        ),
        (
            ConsumerZnode(subscription={"a\\.b|c": 3}, pattern="black_list", timestamp_ms=7),
            "/consumers/g/ids/g_x",
            '{"version":1,"subscription":{"a\\\\.b|c":3},"pattern":"black_list","timestamp":"7"}',
        ),
        (ConsumerOwnerZnode(thread="g_host-7-0123abcd-1"), "/consumers/g/owners/t/0", "g_host-7-0123abcd-1"),
        (ControllerEpochZnode(epoch=5), "/controller_epoch", "5"),
        (
            AclChangeZnode(resource_type="TOPIC", resource="a:b"),
            "/kafka-acl-changes/acl_changes_0000000001",
            "TOPIC:a:b",
        ),
    ],
)
def test_versions_that_were_not_recorded(znode, path, data):
    assert znode_class(path) is type(znode)
    assert znode.encode() == data.encode()
    assert type(znode).decode(data.encode(), path) == znode


@pytest.mark.parametrize(
    "znode",
    [
        DelegationTokenZnode(
            token_id="abc",
            owner="User:al ice",
            token_requester="User:bob*",
            renewers=["User:carol~"],
            issue_timestamp_ms=1,
            max_timestamp_ms=1 << 40,
            expiry_timestamp_ms=3,
        ),
        MigrationZnode(
            kraft_controller_id=3000,
            kraft_controller_epoch=2,
            kraft_metadata_offset=1 << 40,
            kraft_metadata_epoch=1,
        ),
    ],
)
def test_round_trip_without_a_recorded_order(znode):
    path = type(znode).TEMPLATE
    assert type(znode).decode(znode.encode(), path) == znode


def test_old_tokens_have_no_requester():
    data = (
        b'{"version":1,"owner":"User%3Aalice","renewers":[],"issueTimestamp":1,"maxTimestamp":2,'
        b'"expiryTimestamp":3,"tokenId":"t"}'
    )
    token = DelegationTokenZnode.decode(data, "/delegation_token/tokens/t")
    assert token.owner == token.token_requester == "User:alice"


def test_empty_content_means_no_override_and_no_rule():
    assert TopicConfigZnode.decode(None, "/config/topics/t").config == {}
    assert TopicConfigZnode.decode(b"{}", "/config/topics/t").config == {}
    assert ResourceAclZnode.decode(None, "/kafka-acl/Topic/t").acls == []
    assert DeleteTopicZnode.decode(b"", "/admin/delete_topics/t") == DeleteTopicZnode()


def test_unknown_keys_are_ignored():
    data = b'{"version":1,"brokerid":4,"timestamp":"5","new":[{}]}'
    assert ControllerZnode.decode(data, "/controller").broker == 4
    spaced = b' { "version" : 1 , "config" : { "a" : "b" } } '
    assert TopicConfigZnode.decode(spaced, "/config/topics/t").config == {"a": "b"}


@pytest.mark.parametrize(
    ("path", "data", "rule"),
    [
        ("/brokers/ids/1", None, "has no content"),
        ("/brokers/ids/1", b"", "must be JSON in UTF-8"),
        ("/brokers/ids/1", b"\xff{}", "must be JSON in UTF-8"),
        ("/brokers/ids/1", b"[]", "must be a JSON object"),
        ("/brokers/ids/1", b"[" * 100_000, "must be JSON in UTF-8"),
        ("/brokers/ids/1", b"{}", "version is missing"),
        ("/brokers/ids/1", b'{"version":0}', "version must be an integer from 1"),
        ("/brokers/ids/1", b'{"version":true}', "version must be an integer"),
        ("/brokers/ids/1", b'{"version":2,"endpoints":["h:1"]}', "endpoints must be of the form"),
        ("/brokers/ids/1", b'{"version":2,"endpoints":["SSL://h:--1"]}', "the port in"),
        ("/brokers/ids/1", b'{"version":2,"endpoints":["X://h:1"]}', "must name the protocol of listener X"),
        ("/brokers/topics/t", b'{"version":4,"partitions":{}}', "version must be an integer from 1 to 3"),
        ("/brokers/topics/t", b'{"version":3,"partitions":{"x":[1]}}', "each partition in partitions"),
        (
            "/brokers/topics/t",
            b'{"version":3,"partitions":{"0":["1"]}}',
            "partitions.0 must be a list of int",
        ),
        ("/brokers/topics/t", b'{"version":3,"partitions":{"0":[2147483648]}}', "must be a list of integers"),
        ("/brokers/topics/t", b'{"version":3,"topic_id":"short"}', "topic_id"),
        ("/brokers/topics/t/partitions/0/state", b'{"leader":"1"}', "leader must be an integer"),
        ("/controller_epoch", b"1x", "decimal integer of 32 bits"),
        ("/controller_epoch", b"9" * 5000, "decimal integer of 32 bits"),
        ("/controller_epoch", b"2147483648", "decimal integer of 32 bits"),
        ("/controller_epoch", None, "has no content"),
        ("/consumers/g/offsets/t/0", b"9223372036854775808", "decimal integer of 64 bits"),
        ("/consumers/g/owners/t/0", b"g_x", "the id of a consumer's thread"),
        ("/consumers/g/ids/g_x", b'{"subscription":{"t":1}}', "pattern is missing"),
        ("/consumers/g/ids/g_x", b'{"pattern":"x","subscription":{"t":1}}', "pattern must be one of static, white"),
        ("/consumers/g/ids/g_x", b'{"pattern":"static","subscription":{"t":0}}', "subscription.t must be an integer"),
        ("/consumers/g/ids/g_x", b'{"pattern":"white_list","subscription":{}}', "one regular expression"),
        ("/latest_producer_id_block", b'{"broker":1,"block_start":"5","block_end":"4"}', "ascending range"),
        ("/feature", b'{"version":2,"status":2,"features":{}}', "status must be an integer from 0 to 1"),
        ("/config/topics/t", b'{"config":{"a":1}}', "config.a must be a string"),
        (
            "/config/changes/config_change_0000000000",
            b'{"version":2,"entity_path":"topics"}',
            "a kind and a name",
        ),
        ("/config/changes/config_change_0000000000", b'{"version":3}', "version must be"),
        ("/kafka-acl/Topic/t", b'{"version":1,"acls":[{"principal":"alice"}]}', "acls.0.principal must be"),
        ("/kafka-acl-changes/acl_changes_0000000000", b"TOPIC", "TYPE:name"),
        ("/admin/delete_topics/t", b"x", "must have no content"),
        ("/admin/reassign_partitions", b'{"partitions":[1]}', "partitions must be a list of objects"),
    ],
)
def test_broken_content_is_refused_with_path_and_rule(path, data, rule):
    with pytest.raises(ZnodeFormatError) as raised:
        znode_class(path).decode(data, path)
    assert str(raised.value).startswith(f"{path}: ")
    assert rule in str(raised.value)
    assert raised.value.path == path


def recorded():
    for name in ("14-unclean-election.json", "21-configs-quotas-scram-acls.json"):
        for entry in json.loads((REFERENCE / "zookeeper" / name).read_text()):
            if entry["value"]:
                yield entry["path"], json.dumps(entry["value"]).encode()


@pytest.mark.counted
def test_damaged_content_is_either_refused_or_read():
    """Bytes changed and JSON values swapped for others: ZnodeFormatError, or content that can be written."""
    rng = random.Random(11)
    wrong = [
        None,
        True,
        -1,
        1 << 40,
        1.5,
        "",
        "x",
        "-7",
        [],
        [1],
        ["a"],
        {},
        {"0": [1]},
        {"a": {}},
        [{"topic": 1}],
    ]
    samples = list(recorded())
    refused = read = 0
    for _ in range(count(4_000, 100_000)):
        path, data = rng.choice(samples)
        if rng.random() < 0.3 or not data.startswith(b"{"):
            damaged = bytearray(data)
            for _ in range(rng.randrange(1, 4)):
                damaged[rng.randrange(len(damaged))] = rng.choice(b'{}[]":,0129a\\\xff\x00')
            data = bytes(damaged)
        else:
            value = json.loads(data)
            key = rng.choice(list(value))
            if rng.random() < 0.2:
                del value[key]
            else:
                value[key] = rng.choice(wrong)
            data = json.dumps(value).encode()
        try:
            znode = znode_class(path).decode(data, path)
        except ZnodeFormatError as error:
            assert error.path == path  # noqa: PT017 - both outcomes are right
            refused += 1
        else:
            # Not the same value: a field that an old version lacks is read, but not written.
            written = znode.encode()
            assert znode_class(path).decode(written, path).encode() == written
            read += 1
    assert min(refused, read) > 500


def test_json_is_written_as_jackson_does():
    assert (
        to_json({"a/b": 'q"\\\n\t\b\f\r\x01\x1f\x0b\x7f'})
        == b'{"a/b":"q\\"\\\\\\n\\t\\b\\f\\r\\u0001\\u001F\\u000B\x7f"}'
    )
    assert to_json(["é中", "\\u001f", "😀"]) == '["é中","\\\\u001f","\\uD83D\\uDE00"]'.encode()
    assert to_json({"n": None, "i": 1, "e": {}, "l": []}) == b'{"n":null,"i":1,"e":{},"l":[]}'


def test_java_orders():
    assert java_hash("") == 0
    assert java_hash("hello") == 99162322
    assert java_hash("😀") == 0xD83D * 31 + 0xDE00
    of_60, of_10 = java_hash("x" * 60), java_hash("x" * 10)
    assert java_hash("x" * 70) == (of_60 * 31**10 + of_10) % 2**32  # longer than those that are cached
    # The hash of "10" is 1567, of "11" one more: buckets 15 and 0 of 16, 31 and 0 of 32. 12 keys double it.
    texts = [str(partition) for partition in range(12)]
    for order in (mutable_map_order, properties_order):
        assert order(texts[:11]) == texts[:11]
        assert order(texts) == ["11", *texts[:11]]
    for order in (mutable_map_order, properties_order, immutable_map_order):
        many = [f"key-{i}" for i in range(500)]
        assert sorted(order(many)) == sorted(many)
        assert order([]) == []
    assert immutable_map_order(["b", "a", "d", "c"]) == ["b", "a", "d", "c"]
    assert len(immutable_map_order(["Aa", "BB", "AaAa", "BBBB", "AaBB"])) == 5  # equal hashes


def test_paths():
    assert BrokerConfigZnode.path(None) == "/config/brokers/<default>"
    assert BrokerConfigZnode.path(1) == "/config/brokers/1"
    assert ClientConfigZnode.path("app 1") == "/config/clients/app%201"
    assert UserConfigZnode.path("CN=x*y,O=é") == "/config/users/CN%3Dx%2Ay%2CO%3D%C3%A9"
    assert UserClientConfigZnode.path(None, "a") == "/config/users/<default>/clients/a"
    assert IsrChangeNotificationZnode.path() == "/isr_change_notification/isr_change_"
    for path, kind in (
        ("/config/users/u/clients/c", UserClientConfigZnode),
        ("/config/users/clients", UserConfigZnode),
        ("/config/topics/changes", TopicConfigZnode),
    ):
        assert znode_class(path) is kind


@pytest.mark.parametrize("name", ["a", "a b", "a+b", "*", "~", "CN=x,O=é", "a/b", "%", "<default>", "-_."])
def test_sanitizer(name):
    text = sanitize(name)
    assert set(text) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789%.-_")
    assert desanitize(text) == name


def test_values():
    state = PartitionStateZnode(leader=1, leader_epoch=2, isr=[1], controller_epoch=3)
    changed = state.replace(leader=2)
    assert (state.leader, changed.leader, changed.isr) == (1, 2, [1])
    assert state != changed
    assert state == changed.replace(leader=1)
    assert repr(state).startswith("PartitionStateZnode(leader=1, leader_epoch=2, isr=[1]")
    with pytest.raises(AttributeError, match="immutable"):
        state.leader = 3
    with pytest.raises(TypeError, match="isr"):
        PartitionStateZnode(leader=1, leader_epoch=2, controller_epoch=3)
    with pytest.raises(TypeError, match="oops"):
        state.replace(oops=1)
    with pytest.raises(TypeError):
        hash(state)
    # A default must not be shared.
    topic = TopicZnode(partitions={})
    topic.adding_replicas[0] = [1]
    assert TopicZnode(partitions={}).adding_replicas == {}
    assert ProducerIdBlockZnode(broker=1, block_start=0, block_end=999).encode() == (
        b'{"version":1,"broker":1,"block_start":"0","block_end":"999"}'
    )
    assert ReassignPartitionsZnode(partitions={("t", 0): [1]}) != IsrChangeNotificationZnode(partitions=[("t", 0)])
    assert AclEntry("User:a", "Allow", "*", "Read").operation == "Read"
