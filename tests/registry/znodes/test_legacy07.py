"""Znodes of Kafka 0.7."""

import pytest

from registry.errors import ZnodeFormatError
from registry.znodes.legacy07 import (
    BrokerPartition,
    LegacyBrokerTopicZnode,
    LegacyBrokerZnode,
    LegacyConsumerZnode,
    LegacyOffsetZnode,
    LegacyOwnerZnode,
    LegacyPartitionOffsetZnode,
    LegacyPartitionOwnerZnode,
    LegacyPartitionsZnode,
)
from registry.znodes.tree import LEGACY_07, znode_class

PARTITION = BrokerPartition(29, 5)


@pytest.mark.parametrize(
    ("znode", "path", "data"),
    [
        (
            LegacyBrokerZnode(creator="mota29-1394675777000", host="mota29", port=9092),
            LegacyBrokerZnode.path(29),
            "mota29-1394675777000:mota29:9092",
        ),
        (LegacyBrokerTopicZnode(partitions=5), LegacyBrokerTopicZnode.path("topic1", 29), "5"),
        (
            LegacyConsumerZnode(subscription={"topic1": 1, "topic2": 2}),
            LegacyConsumerZnode.path("group1", "group1_host1-1394675777000-a8e438be"),
            '{"topic1":1,"topic2":2}',
        ),
        (
            LegacyConsumerZnode(subscription={"a*|b": 3}, pattern="white_list"),
            LegacyConsumerZnode.path("g", "c"),
            "*3*a*|b",
        ),
        (LegacyConsumerZnode(subscription={"!": 1}, pattern="black_list"), LegacyConsumerZnode.path("g", "c"), "!1!!"),
        (
            LegacyOwnerZnode(thread="group_host-1394675777000-a8e438be-0"),
            LegacyOwnerZnode.path("group1", "topic1", PARTITION),
            "group_host-1394675777000-a8e438be-0",
        ),
        (LegacyPartitionsZnode(numbers=(0, 12)), LegacyPartitionsZnode.path("topic1", 29), "0,12"),
        (
            LegacyPartitionOwnerZnode(thread="group_host-1394675777000-a8e438be-0"),
            LegacyPartitionOwnerZnode.path("group1", "topic1", 5),
            "group_host-1394675777000-a8e438be-0",
        ),
        (
            LegacyPartitionOffsetZnode(broker_partition="29-5", offset=17),
            LegacyPartitionOffsetZnode.path("group1", "topic1", 5),
            '{"broker_partition":"29-5","offset":17}',
        ),
        (LegacyOffsetZnode(position=123456), LegacyOffsetZnode.path("group1", "topic1", PARTITION), "123456"),
    ],
)
def test_content(znode, path, data):
    assert znode_class(path, LEGACY_07) is type(znode)
    assert znode.encode() == data.encode()
    assert type(znode).decode(data.encode(), path) == znode


def test_as_0_7_wrote_it_with_spaces():
    path = LegacyConsumerZnode.path("g", "c")
    assert LegacyConsumerZnode.decode(b'{ "topic1": 1 ,"topic2":2 }', path).subscription == {"topic1": 1, "topic2": 2}


@pytest.mark.parametrize(
    ("path", "data", "rule"),
    [
        ("/brokers/ids/29", b"mota29:9092", "host-millis:host:port"),
        ("/brokers/ids/29", b"a-1:::1:9092", "host-millis:host:port"),
        ("/brokers/ids/29", b"a-1:a:0", "from 1 to 65535"),
        ("/brokers/ids/29", b"a-1:a:x", "the port"),
        ("/brokers/topics/t/29", b"-1", "must not be negative"),
        ("/brokers/topics/t/29", b"{}", "decimal integer of 32 bits"),
        ("/brokers/partitions/t/29", b"", "the number of a partition"),
        ("/brokers/partitions/t/29", b"1,-1", "different partition numbers"),
        ("/brokers/partitions/t/29", b"1,1", "different partition numbers"),
        ("/consumers/g/partition_offsets/t/5", b"17", "must be a JSON object"),
        ("/consumers/g/partition_offsets/t/5", b'{"broker_partition":"29","offset":1}', "a broker's id, a hyphen"),
        ("/consumers/g/partition_offsets/t/5", b'{"broker_partition":"29-5","offset":-1}', "must not be negative"),
        ("/consumers/g/ids/c", b'{"t":0}', "must be an integer from 1"),
        ("/consumers/g/ids/c", b"*x*t", "the number of threads"),
        ("/consumers/g/ids/c", b"*3!t", "the number of threads"),
        ("/consumers/g/ids/c", b"!0!t", "at least one thread"),
        ("/consumers/g/offsets/t/5", b"1", "a hyphen and the number of its partition"),
        ("/consumers/g/offsets/t/1-2-3", b"1", "a hyphen and the number of its partition"),
        ("/consumers/g/offsets/t/29-5", b"-1", "must not be negative"),
        ("/consumers/g/owners/t/29-5", b"nobody", "the id of a consumer's thread"),
    ],
)
def test_broken_content_is_reported(path, data, rule):
    znode = znode_class(path, LEGACY_07)
    with pytest.raises(ZnodeFormatError, match=rule) as raised:
        znode.decode(data, path)
    assert raised.value.path == path


def test_layouts_differ():
    assert znode_class("/brokers/topics/t/29") is None
    assert znode_class("/controller", LEGACY_07) is None
    assert znode_class("/brokers/topics/t", LEGACY_07).__name__ == "LegacyTopicZnode"
