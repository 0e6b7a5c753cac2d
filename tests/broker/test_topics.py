"""CreateTopics, DeleteTopics, CreatePartitions."""

from __future__ import annotations

import asyncio
import random

import pytest

from broker.requests.api_table import API_TABLE
from broker.topics import Topics
from protocol.api_keys import ApiKey
from protocol.error_codes import ErrorCode
from protocol.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from registry.znodes.topics import TopicZnode
from support.broker import running_broker
from support.deadlines import DEADLINE_MS, DEADLINE_S
from support.lossy_registry import LossyRegistry
from support.polling import until
from support.wire import append, batch, create_topic, wire_client

pytestmark = pytest.mark.asyncio(loop_scope="module")

INVALID_TOPIC = ErrorCode.INVALID_TOPIC_EXCEPTION
INVALID_ASSIGNMENT = ErrorCode.INVALID_REPLICA_ASSIGNMENT


def versions(key):
    (row,) = [row for row in API_TABLE if row.key == key]
    return range(row.min_version, row.max_version + 1)


def new(topic, partitions=1, factor=1, assignments=(), configs=()):
    return CreatableTopic(
        name=topic,
        num_partitions=partitions,
        replication_factor=factor,
        assignments=[CreatableReplicaAssignment(partition_index=i, broker_ids=ids) for i, ids in assignments],
        configs=[CreatableTopicConfig(name=name, value=value) for name, value in configs],
    )


async def create(client, *topics, version=7, timeout_ms=DEADLINE_MS, validate_only=False):
    request = CreateTopicsRequest(topics=list(topics), timeout_ms=timeout_ms, validate_only=validate_only)
    answer = await client.call(request, version)
    return answer.topics


async def described(client, topic):
    asked = [MetadataRequestTopic(name=topic)]
    answer = await client.call(MetadataRequest(topics=asked, allow_auto_topic_creation=False))
    return answer.topics[0]


# -- CreateTopics ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", versions(ApiKey.CREATE_TOPICS))
async def test_create_in_every_version(client, name, version):
    topic = name()
    (made,) = await create(client, new(topic, 3, configs=[("retention.ms", "77")]), version=version)
    assert (made.name, made.error_code, made.error_message) == (topic, 0, None if version >= 1 else "")
    found = await described(client, topic)
    assert [one.leader_id for one in found.partitions] == [0, 0, 0]
    if version >= 5:
        assert (made.num_partitions, made.replication_factor) == (3, 1)
        configs = {one.name: (one.value, one.config_source, one.read_only) for one in made.configs}
        assert configs["retention.ms"] == ("77", 1, False)
        assert configs["segment.ms"][1] == 5
        assert len(configs) > 25
    assert made.topic_id == (found.topic_id if version >= 7 else bytes(16))
    (again,) = await create(client, new(topic), version=version)
    assert again.error_code == ErrorCode.TOPIC_ALREADY_EXISTS
    if version >= 1:
        assert again.error_message == f"Topic '{topic}' already exists."


async def test_defaults(tmp_path):
    async with (
        running_broker(tmp_path / "data", num_partitions="4") as broker,
        wire_client(broker.bootstrap_servers) as client,
    ):
        (made,) = await create(client, new("t", -1, -1))
        assert (made.error_code, made.num_partitions, made.replication_factor) == (0, 4, 1)


async def test_validate_only(client, name):
    topic = name()
    made, refused = await create(client, new(topic, 2), new("bad name"), validate_only=True)
    assert (made.error_code, made.num_partitions, made.topic_id) == (0, 2, bytes(16))
    assert made.configs
    assert refused.error_code == INVALID_TOPIC
    assert (await described(client, topic)).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_explicit_assignment(client, name):
    topic = name()
    (made,) = await create(client, new(topic, -1, -1, [(1, [0]), (0, [0])]))
    assert (made.error_code, made.num_partitions, made.replication_factor) == (0, 2, 1)
    assert [one.replica_nodes for one in (await described(client, topic)).partitions] == [[0], [0]]


REFUSED = [
    ("no partitions", {"partitions": 0}, ErrorCode.INVALID_PARTITIONS),
    ("two billion partitions", {"partitions": 2**31 - 1}, ErrorCode.POLICY_VIOLATION),
    ("negative partitions", {"partitions": -2}, ErrorCode.INVALID_PARTITIONS),
    ("no replicas", {"factor": 0}, ErrorCode.INVALID_REPLICATION_FACTOR),
    ("negative replicas", {"factor": -2}, ErrorCode.INVALID_REPLICATION_FACTOR),
    ("too many replicas", {"factor": 2}, ErrorCode.INVALID_REPLICATION_FACTOR),
    ("count and assignment", {"assignments": [(0, [0])]}, ErrorCode.INVALID_REQUEST),
    ("gap", {"partitions": -1, "factor": -1, "assignments": [(0, [0]), (2, [0])]}, INVALID_ASSIGNMENT),
    ("not from 0", {"partitions": -1, "factor": -1, "assignments": [(1, [0])]}, INVALID_ASSIGNMENT),
    ("twice", {"partitions": -1, "factor": -1, "assignments": [(0, [0]), (0, [0])]}, INVALID_ASSIGNMENT),
    ("same broker", {"partitions": -1, "factor": -1, "assignments": [(0, [0, 0])]}, INVALID_ASSIGNMENT),
    ("nobody", {"partitions": -1, "factor": -1, "assignments": [(0, [])]}, INVALID_ASSIGNMENT),
    ("differ", {"partitions": -1, "factor": -1, "assignments": [(0, [0]), (1, [])]}, INVALID_ASSIGNMENT),
    ("unknown config", {"configs": [("no.such", "1")]}, ErrorCode.INVALID_CONFIG),
    ("bad config", {"configs": [("retention.ms", "soon")]}, ErrorCode.INVALID_CONFIG),
    ("out of range", {"configs": [("segment.bytes", "1")]}, ErrorCode.INVALID_CONFIG),
    ("null config", {"configs": [("retention.ms", None)]}, ErrorCode.INVALID_CONFIG),
    ("config twice", {"configs": [("retention.ms", "1"), ("retention.ms", "2")]}, None),
]


@pytest.mark.parametrize(("fields", "code"), [case[1:] for case in REFUSED], ids=[case[0] for case in REFUSED])
@pytest.mark.parametrize("validate_only", [False, True])
async def test_refused(client, name, fields, code, validate_only):
    topic = name()
    (refused,) = await create(client, new(topic, **fields), validate_only=validate_only)
    if code is None:
        assert refused.error_code != ErrorCode.UNKNOWN_SERVER_ERROR
        return
    assert (refused.error_code, refused.num_partitions, refused.replication_factor) == (code, -1, -1)
    assert refused.error_message
    assert refused.configs == []
    assert (await described(client, topic)).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize("bad", ["", ".", "..", "a/b", "a b", "é", "x" * 250, "a\0b", "a\nb"])
async def test_refused_names(client, bad):
    (refused,) = await create(client, new(bad))
    assert (refused.name, refused.error_code) == (bad, INVALID_TOPIC)


async def test_colliding_names(client, name):
    topic = name().replace("-", ".") + ".x"
    (made,) = await create(client, new(topic))
    assert made.error_code == 0
    (refused,) = await create(client, new(topic.replace(".", "_")))
    assert refused.error_code == INVALID_TOPIC


async def test_longest_name(client):
    (made,) = await create(client, new("y" * 249))
    assert made.error_code == 0
    assert (await append(client, "y" * 249, batch(b"v"))).error_code == 0


async def test_duplicates_are_refused_and_other_topics_are_created(client, name):
    topic, twice = name(), name()
    answers = await create(client, new(twice), new(topic), new(twice, 2))
    codes = [(one.name, one.error_code) for one in answers]
    invalid = ErrorCode.INVALID_REQUEST
    assert sorted(codes) == sorted([(twice, invalid), (topic, 0), (twice, invalid)])
    assert (await create(client, new("__cluster_metadata")))[0].error_code == invalid
    assert await create(client) == []


@pytest.mark.parametrize("timeout_ms", [0, -1])
async def test_without_a_timeout_the_answer_comes_at_once(client, name, timeout_ms):
    topic = name()
    (made,) = await create(client, new(topic), timeout_ms=timeout_ms)
    assert (made.error_code, made.num_partitions, made.configs) == (ErrorCode.REQUEST_TIMED_OUT, -1, [])

    async def is_there():
        return (await described(client, topic)).error_code == 0

    await until(is_there, "the topic is created")


async def test_two_clients_create_the_same_topic(broker, name):
    topic = name()

    async def one():
        async with wire_client(broker.bootstrap_servers) as client:
            return (await create(client, new(topic)))[0].error_code

    codes = await asyncio.gather(*(one() for _ in range(8)))
    assert sorted(codes) == [0] + [ErrorCode.TOPIC_ALREADY_EXISTS] * 7


# -- DeleteTopics ------------------------------------------------------------------------------------------------------


async def delete(client, *topics, version=6, timeout_ms=DEADLINE_MS):
    if version >= 6:
        states = [DeleteTopicState(name=name, topic_id=topic_id) for name, topic_id in topics]
        request = DeleteTopicsRequest(topics=states, timeout_ms=timeout_ms)
    else:
        request = DeleteTopicsRequest(topic_names=[name for name, _ in topics], timeout_ms=timeout_ms)
    return (await client.call(request, version)).responses


@pytest.mark.parametrize("version", versions(ApiKey.DELETE_TOPICS))
async def test_delete_by_name(broker, client, name, version):
    topic = name()
    await create_topic(client, topic, partitions=2)
    await append(client, topic, batch(b"v"))
    answers = await delete(client, (topic, bytes(16)), ("missing", bytes(16)), version=version)
    codes = {one.name: (one.error_code, one.error_message) for one in answers}
    assert codes == {topic: (0, None), "missing": (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None)}
    assert (await described(client, topic)).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert (await append(client, topic, batch(b"v"))).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert broker.services.logs.get(topic, 0) is None
    # The name is free at once, and what was is gone.
    await create_topic(client, topic)
    assert (await append(client, topic, batch(b"v"))).base_offset == 0


async def test_delete_by_id(client, name):
    topic = name()
    topic_id = await create_topic(client, topic)
    answers = await delete(client, (None, topic_id), (None, b"u" * 16))
    found = {one.topic_id: (one.name, one.error_code) for one in answers}
    assert found == {topic_id: (topic, 0), b"u" * 16: (None, ErrorCode.UNKNOWN_TOPIC_ID)}
    assert (await create_topic(client, topic)) != topic_id


async def test_delete_by_name_and_id_is_refused_whole(client, name):
    topic, other = name(), name()
    topic_id = await create_topic(client, topic)
    await create_topic(client, other)
    answers = await delete(client, (topic, topic_id), (other, bytes(16)))
    assert [one.error_code for one in answers] == [ErrorCode.INVALID_REQUEST] * 2
    assert (await described(client, other)).error_code == 0


async def test_settings_are_deleted_with_the_topic(broker, client, name):
    topic = name()
    await create_topic(client, topic, retention_ms="77")
    assert broker.services.logs.get(topic, 0).config.retention_ms == 77
    await delete(client, (topic, bytes(16)))
    await create_topic(client, topic)
    assert broker.services.logs.get(topic, 0).config.retention_ms != 77


@pytest.mark.parametrize("bad", ["", "a/b", ".", "x" * 300])
async def test_delete_invalid_names(client, bad):
    (answer,) = await delete(client, (bad, bytes(16)))
    assert answer.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_delete_without_a_timeout(client, name):
    topic = name()
    await create_topic(client, topic)
    (answer,) = await delete(client, (topic, bytes(16)), timeout_ms=0)
    assert answer.error_code == ErrorCode.REQUEST_TIMED_OUT
    assert await delete(client) == []


async def test_deletion_disabled(tmp_path):
    async with (
        running_broker(tmp_path / "data", delete_topic_enable="false") as broker,
        wire_client(broker.bootstrap_servers) as client,
    ):
        topic_id = await create_topic(client, "t")
        for version in versions(ApiKey.DELETE_TOPICS):
            (answer,) = await delete(client, ("t", bytes(16)), version=version)
            code = ErrorCode.TOPIC_DELETION_DISABLED if version >= 3 else ErrorCode.INVALID_REQUEST
            assert answer.error_code == code
        (answer,) = await delete(client, (None, topic_id))
        assert answer.error_code == ErrorCode.TOPIC_DELETION_DISABLED


# -- CreatePartitions --------------------------------------------------------------------------------------------------


async def grow(client, *topics, version=3, timeout_ms=DEADLINE_MS, validate_only=False):
    asked = [
        CreatePartitionsTopic(
            name=topic,
            count=count,
            assignments=(
                None if assignments is None else [CreatePartitionsAssignment(broker_ids=ids) for ids in assignments]
            ),
        )
        for topic, count, assignments in topics
    ]
    request = CreatePartitionsRequest(topics=asked, timeout_ms=timeout_ms, validate_only=validate_only)
    return {one.name: one.error_code for one in (await client.call(request, version)).results}


@pytest.mark.parametrize("version", versions(ApiKey.CREATE_PARTITIONS))
async def test_grow(client, name, version):
    topic = name()
    await create_topic(client, topic)
    assert await grow(client, (topic, 3, None), version=version, validate_only=True) == {topic: 0}
    assert len((await described(client, topic)).partitions) == 1
    assert await grow(client, (topic, 3, None), version=version) == {topic: 0}
    assert await grow(client, (topic, 4, [[0]]), version=version) == {topic: 0}
    assert [one.leader_id for one in (await described(client, topic)).partitions] == [0] * 4
    assert (await append(client, topic, batch(b"v"), 3)).error_code == 0


@pytest.mark.parametrize(
    ("count", "assignments", "code"),
    [
        (2, None, ErrorCode.INVALID_PARTITIONS),
        (1, None, ErrorCode.INVALID_PARTITIONS),
        (0, None, ErrorCode.INVALID_PARTITIONS),
        (2**31 - 1, None, ErrorCode.POLICY_VIOLATION),
        (-1, None, ErrorCode.INVALID_PARTITIONS),
        (3, [], INVALID_ASSIGNMENT),
        (3, [[0], [0]], INVALID_ASSIGNMENT),
        (3, [[9]], INVALID_ASSIGNMENT),
        (3, [[0, 0]], INVALID_ASSIGNMENT),
        (3, [[]], INVALID_ASSIGNMENT),
    ],
)
async def test_refused_growth(client, name, count, assignments, code):
    topic = name()
    await create_topic(client, topic, partitions=2)
    assert await grow(client, (topic, count, assignments)) == {topic: code}
    assert len((await described(client, topic)).partitions) == 2


async def test_growth_of_unknown_and_duplicate_topics(client, name):
    topic = name()
    await create_topic(client, topic)
    codes = await grow(
        client, ("missing", 2, None), (topic, 2, None), (topic, 3, None), ("a/b", 2, None), ("", 2, None)
    )
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert codes == {"missing": unknown, topic: ErrorCode.INVALID_REQUEST, "a/b": unknown, "": unknown}
    assert await grow(client, (topic, 2, None), timeout_ms=0) == {topic: ErrorCode.REQUEST_TIMED_OUT}


async def test_a_topic_does_not_grow_while_it_has_more_replicas_than_there_are_brokers(broker, client, name):
    topic = name()
    znode = TopicZnode(partitions={0: [0, 1]}, topic_id=None)
    await broker.services.registry_access.registry.create(TopicZnode.path(topic), znode.encode())
    assert await grow(client, (topic, 2, None)) == {topic: ErrorCode.INVALID_REPLICATION_FACTOR}
    assert await grow(client, (topic, 2, [[0, 1]])) == {topic: INVALID_ASSIGNMENT}


async def test_two_clients_grow_the_same_topic(broker, client, name):
    topic = name()
    await create_topic(client, topic)

    async def one(count):
        async with wire_client(broker.bootstrap_servers) as other:
            return (await grow(other, (topic, count, None)))[topic]

    codes = await asyncio.gather(*(one(count) for count in (2, 3, 4, 5, 5)))
    assert set(codes) <= {0, ErrorCode.INVALID_PARTITIONS}
    assert len((await described(client, topic)).partitions) == 5


async def test_a_broker_that_is_not_the_controller_refuses(broker, client, name):
    topic = name()
    broker.services.is_controller, is_controller = lambda: False, broker.services.is_controller
    try:
        not_controller = ErrorCode.NOT_CONTROLLER
        assert [one.error_code for one in await create(client, new(topic), new(topic))] == [not_controller] * 2
        assert [one.error_code for one in await delete(client, (topic, bytes(16)))] == [not_controller]
        assert await grow(client, (topic, 2, None)) == {topic: not_controller}
    finally:
        broker.services.is_controller = is_controller
    await until(lambda: topic not in broker.metadata.snapshot.topics, "no topic was made")


# -- lost connections to ZooKeeper -------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_applied", [False, True], ids=["not applied", "applied"])
async def test_topics_are_changed_although_the_answers_of_zookeeper_are_lost(tmp_path, is_applied):
    async with running_broker(tmp_path / "data") as broker:
        services = broker.services
        registry = LossyRegistry(services.registry_access.registry)
        registry.is_applied = is_applied
        topics = Topics(services.config, registry, services.metadata, services.configs, random.Random(1))

        async def lost(write):
            registry.writes_left = 1
            return await write

        made = await lost(topics.create("t", partitions=1))
        assert await topics.wait_until_led("t", 1, DEADLINE_S)
        assert services.metadata.snapshot.topics["t"].topic_id == made.topic_id
        await lost(topics.add_partitions("t", 2))
        assert await topics.wait_until_led("t", 2, DEADLINE_S)
        await lost(topics.delete("t"))
        assert await topics.wait_until_deleted("t", DEADLINE_S)
