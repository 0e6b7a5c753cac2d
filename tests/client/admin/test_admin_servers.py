"""The admin client against our broker and against librdkafka's mock cluster: what both of them serve."""

import pytest

from client.admin.admin import Admin
from client.consumer.consumer import Consumer
from client.consumer.group_metadata import OffsetAndMetadata
from client.consumer.offsets import EARLIEST, LATEST
from client.errors import UnknownTopicOrPartitionError, UnsupportedApiError
from client.producer.producer import Producer
from client.topic_partition import TopicPartition
from support.names import name_for


@pytest.fixture(params=["ours", "mock"])
def servers(request):
    if request.param == "ours":
        return request.getfixturevalue("broker").bootstrap
    return request.getfixturevalue("mock_cluster").bootstrap


@pytest.fixture
async def admin(servers):
    async with Admin(bootstrap_servers=servers) as opened:
        yield opened


@pytest.fixture
async def topic(servers, request):
    """A topic with five records in its first partition."""
    name = name_for(request, "admin-")
    async with Producer(bootstrap_servers=servers) as producer:
        for number in range(5):
            await producer.send(name, b"%d" % number, partition=0, timestamp_ms=1000 + number)
    return name


async def test_topics_and_brokers(admin, topic):
    assert topic in await admin.list_topics()
    described = (await admin.describe_topics([topic]))[topic]
    assert described.name == topic
    assert all(partition.leader in partition.isr for partition in described.partitions.values())
    cluster = await admin.describe_cluster()
    assert cluster.brokers
    assert {partition.leader for partition in described.partitions.values()} <= {one.node_id for one in cluster.brokers}


async def test_an_unknown_topic(admin):
    with pytest.raises(UnknownTopicOrPartitionError, match="nowhere"):
        await admin.describe_topics(["nowhere"])


async def test_offsets_of_partitions(admin, topic):
    partition = TopicPartition(topic, 0)
    assert (await admin.list_offsets({partition: EARLIEST}))[partition].offset == 0
    assert (await admin.list_offsets({partition: LATEST}))[partition].offset == 5


async def test_offsets_of_groups(admin, topic, servers):
    partition = TopicPartition(topic, 0)
    assert await admin.alter_group_offsets(topic, {partition: OffsetAndMetadata(3)}) == {partition: None}
    async with Consumer(bootstrap_servers=servers, group_id=topic) as consumer:
        assert (await consumer.committed([partition]))[partition].offset == 3
        consumer.assign([partition])
        assert (await anext(consumer)).value == b"3"


async def test_an_unsupported_request_is_reported(admin, servers, mock_cluster):
    if servers == mock_cluster.bootstrap:
        with pytest.raises(UnsupportedApiError, match="DESCRIBE_LOG_DIRS"):
            await admin.describe_log_dirs()
    else:
        assert await admin.describe_log_dirs()
