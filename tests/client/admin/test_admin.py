"""The admin client against our broker."""

import os

import pytest

from client.admin.admin import Admin
from client.admin.types import ConfigChange, ConfigOperation, ConfigSource, NewTopic, ResourceType
from client.consumer.offsets import EARLIEST, LATEST, MAX_TIMESTAMP
from client.consumer.reader import Reader
from client.errors import (
    InvalidConfigurationError,
    InvalidOptionError,
    InvalidPartitionsError,
    OffsetOutOfRangeError,
    TopicExistsError,
    UnknownTopicOrPartitionError,
)
from client.producer.partitioner import murmur2
from client.producer.producer import Producer
from client.topic_partition import TopicPartition
from protocol.error_codes import ErrorCode
from support.names import name_for


@pytest.fixture
async def admin(broker):
    async with Admin(bootstrap_servers=broker.bootstrap) as opened:
        yield opened


@pytest.fixture
async def topic(admin, request):
    name = name_for(request, "a.")
    await admin.create_topic(name, 2)
    return name


async def test_create_describe_delete(admin):
    made = await admin.create_topic("made", 3, 1, configs={"retention.bytes": "1234"})
    assert (made.name, made.partitions, made.replication_factor) == ("made", 3, 1)
    assert "made" in await admin.list_topics()
    described = (await admin.describe_topics(["made"]))["made"]
    assert described.topic_id == made.topic_id
    assert list(described.partitions) == [0, 1, 2]
    assert all(one.leader in one.isr and not one.offline_replicas for one in described.partitions.values())
    with pytest.raises(TopicExistsError, match="made"):
        await admin.create_topic("made")
    await admin.delete_topic("made")
    with pytest.raises(UnknownTopicOrPartitionError, match="made"):
        await admin.describe_topics(["made"])
    with pytest.raises(UnknownTopicOrPartitionError, match="made"):
        await admin.delete_topic("made")


async def test_each_of_many_topics_has_its_own_outcome(admin):
    made = await admin.create_topics([NewTopic("one", 1), NewTopic("two", 0), NewTopic("three", assignment={0: [0]})])
    assert made["one"].partitions == made["three"].partitions == 1
    assert isinstance(made["two"], InvalidPartitionsError)
    gone = await admin.delete_topics(["one", "two", "three"])
    assert gone["one"] is None
    assert gone["three"] is None
    assert gone["two"].code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_validate_only_changes_nothing(admin, topic):
    await admin.create_topic("not-made", 1, validate_only=True)
    await admin.create_partitions(topic, 5, validate_only=True)
    change = ConfigChange("retention.bytes", "1")
    await admin.incremental_alter_configs(ResourceType.TOPIC, topic, [change], validate_only=True)
    assert "not-made" not in await admin.list_topics()
    assert len((await admin.describe_topics([topic]))[topic].partitions) == 2
    assert (await admin.describe_configs(ResourceType.TOPIC, topic))["retention.bytes"].is_default


async def test_create_partitions(admin, topic):
    await admin.create_partitions(topic, 3)
    await admin.create_partitions(topic, 4, assignment=[[0]])
    assert len((await admin.describe_topics([topic]))[topic].partitions) == 4
    with pytest.raises(InvalidPartitionsError):
        await admin.create_partitions(topic, 4)
    with pytest.raises(UnknownTopicOrPartitionError):
        await admin.create_partitions("nosuch", 4)


async def test_configs(admin, topic):
    both = ResourceType.TOPIC, topic
    await admin.incremental_alter_configs(
        *both, [ConfigChange("retention.bytes", "5"), ConfigChange("cleanup.policy", "compact", ConfigOperation.APPEND)]
    )
    found = await admin.describe_configs(*both, include_synonyms=True, include_documentation=True)
    assert list(found) == sorted(found)
    assert found["retention.bytes"].value == "5"
    assert found["retention.bytes"].source == ConfigSource.DYNAMIC_TOPIC_CONFIG
    assert found["retention.bytes"].synonyms[0] == ("retention.bytes", "5", ConfigSource.DYNAMIC_TOPIC_CONFIG)
    assert found["retention.bytes"].documentation
    assert found["cleanup.policy"].value == "delete,compact"
    assert list(await admin.describe_configs(*both, ["segment.ms"])) == ["segment.ms"]
    await admin.alter_configs(*both, {"segment.ms": "7"})
    found = await admin.describe_configs(*both)
    assert found["segment.ms"].value == "7"
    assert found["retention.bytes"].is_default
    await admin.incremental_alter_configs(*both, [ConfigChange("segment.ms", None, ConfigOperation.DELETE)])
    assert (await admin.describe_configs(*both))["segment.ms"].is_default
    with pytest.raises(InvalidConfigurationError, match=r"no\.such"):
        await admin.incremental_alter_configs(*both, [ConfigChange("no.such", "1")])
    with pytest.raises(UnknownTopicOrPartitionError):
        await admin.describe_configs(ResourceType.TOPIC, "nosuch")


async def test_configs_of_several_topics(admin, topic):
    await admin.incremental_alter_configs(ResourceType.TOPIC, topic, [ConfigChange("retention.bytes", "6")])
    found = await admin.describe_topic_configs([topic, "nosuch"], ["retention.bytes"])
    assert [(entry.name, entry.value) for entry in found[topic].values()] == [("retention.bytes", "6")]
    assert isinstance(found["nosuch"], UnknownTopicOrPartitionError)
    assert await admin.describe_topic_configs([]) == {}


async def test_broker_configs(admin):
    found = await admin.describe_configs(ResourceType.BROKER, "0", ["log.dirs"])
    assert found["log.dirs"].source == ConfigSource.STATIC_BROKER_CONFIG
    for name in ("7", "x"):
        with pytest.raises(InvalidOptionError, match="broker="):
            await admin.describe_configs(ResourceType.BROKER, name)


async def test_cluster_and_log_dirs(admin, broker, topic):
    cluster = await admin.describe_cluster()
    assert cluster.controller_id == 0
    assert [f"{one.host}:{one.port}" for one in cluster.brokers] == [broker.bootstrap]
    assert cluster.cluster_id
    async with Producer(bootstrap_servers=broker.bootstrap) as sender:
        await sender.send(topic, bytes(1000), partition=1)
    (log_dir,) = await admin.describe_log_dirs()
    assert log_dir.path == str(broker.log_dir)
    sizes = {one.partition: one.size_bytes for one in log_dir.replicas if one.topic == topic}
    assert sizes[0] == 0
    assert sizes[1] > 1000


async def test_offsets_and_delete_records(admin, broker, topic):
    async with Producer(bootstrap_servers=broker.bootstrap) as sender:
        for number in range(10):
            await sender.send(topic, b"%d" % number, partition=0, timestamp_ms=1000 + 10 * (number % 7))
    name = TopicPartition(topic, 0)

    async def offset(when):
        return (await admin.list_offsets({name: when}))[name].offset

    assert [await offset(when) for when in (EARLIEST, LATEST, MAX_TIMESTAMP, 1035, 5000)] == [0, 10, 6, 4, -1]
    assert await admin.delete_records({name: 4}) == {name: 4}
    assert await offset(EARLIEST) == 4
    with pytest.raises(OffsetOutOfRangeError):
        await admin.delete_records({name: 99})
    async with Reader(bootstrap_servers=broker.bootstrap, auto_offset_reset="earliest") as source:
        source.assign({name: 0})
        assert (await anext(aiter(source))).value == b"4"
    assert await admin.delete_records({name: -1}) == {name: 10}
    with pytest.raises(UnknownTopicOrPartitionError, match="no partition 9"):
        await admin.list_offsets({TopicPartition(topic, 9): LATEST})


async def test_round_trip_through_our_broker(admin, broker, topic):
    written = {0: [], 1: []}
    async with Producer(bootstrap_servers=broker.bootstrap, compression_type="zstd", linger_ms=2) as sender:
        futures = []
        for number in range(2000):
            value = os.urandom(number % 97)
            key = b"%d" % number
            futures.append(sender.send_nowait(topic, value, key=key))
            written[(murmur2(key) & 0x7FFFFFFF) % 2].append(value)
        await sender.flush()
        assert all(future.result().offset >= 0 for future in futures)
    async with Reader(bootstrap_servers=broker.bootstrap) as source:
        source.assign({TopicPartition(topic, number): "beginning" for number in (0, 1)})
        read = {0: [], 1: []}
        while sum(map(len, read.values())) < 2000:
            for record in await source.fetch():
                read[record.partition].append(record.value)
    assert read == written


async def test_the_broker_has_no_features(admin):
    features = await admin.describe_features()
    assert (features.supported, features.finalized) == ({}, {})
    for options in ({}, {"allow_downgrade": True}, {"validate_only": True}):
        refused = await admin.update_features({"metadata.version": 3}, **options)
        assert list(refused) == ["metadata.version"]
        assert refused["metadata.version"].code == ErrorCode.INVALID_REQUEST
        assert "not supported" in str(refused["metadata.version"])
