"""Metadata, DescribeCluster, DescribeLogDirs, ApiVersions: what clients ask about the cluster."""

from __future__ import annotations

import pytest

from broker.requests.api_table import API_TABLE
from protocol.error_codes import ErrorCode
from protocol.messages.api_versions import ApiVersionsRequest
from protocol.messages.describe_cluster import DescribeClusterRequest
from protocol.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from protocol.messages.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)
from support.broker import running_broker
from support.polling import until
from support.wire import append, batch, create_topic, wire_client

pytestmark = pytest.mark.asyncio(loop_scope="module")

NOT_ASKED = -(2**31)
CREATION = range(4, 13)


def asking(*names, version=12, **fields):
    topics = None if names == (None,) else [MetadataRequestTopic(name=name) for name in names]
    if version >= 4:
        fields.setdefault("allow_auto_topic_creation", False)
    return MetadataRequest(topics=topics, **fields)


@pytest.mark.parametrize("version", range(13))
async def test_every_version(broker, client, name, version):
    topic = name()
    topic_id = await create_topic(client, topic, partitions=2)
    answer = await client.call(asking(topic, version=version), version)
    (node,) = answer.brokers
    assert (node.node_id, f"{node.host}:{node.port}") == (0, broker.bootstrap_servers)
    assert answer.controller_id == (0 if version >= 1 else -1)
    assert answer.cluster_id == (broker.services.cluster_id if version >= 2 else None)
    (found,) = answer.topics
    assert (found.error_code, found.name, found.is_internal) == (0, topic, False)
    assert found.topic_id == (topic_id if version >= 10 else bytes(16))
    assert [one.partition_index for one in found.partitions] == [0, 1]
    for one in found.partitions:
        assert (one.error_code, one.leader_id, one.replica_nodes, one.isr_nodes) == (0, 0, [0], [0])
        assert one.leader_epoch == (0 if version >= 7 else -1)
        assert one.offline_replicas == []
    assert found.topic_authorized_operations == NOT_ASKED
    assert answer.cluster_authorized_operations == NOT_ASKED


async def test_null_and_empty_lists(client, name):
    topic = name()
    await create_topic(client, topic)
    for version in range(13):
        everything = asking(version=version) if version == 0 else asking(None, version=version)
        answer = await client.call(everything, version)
        assert topic in {found.name for found in answer.topics}
        assert all(found.error_code == 0 for found in answer.topics)
        if version >= 1:
            answer = await client.call(asking(version=version), version)
            assert answer.topics == []
            assert len(answer.brokers) == 1


async def test_unknown_topic_names(client, name):
    topic = name()
    await create_topic(client, topic)
    answer = await client.call(asking("missing", topic, "bad/name", "", ".", "x" * 250, "missing", topic))
    codes = {found.name: found.error_code for found in answer.topics}
    invalid = ErrorCode.INVALID_TOPIC_EXCEPTION
    assert codes == {
        "missing": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        topic: 0,
        "bad/name": invalid,
        "": invalid,
        ".": invalid,
        "x" * 250: invalid,
    }
    assert len(answer.topics) == len(codes)  # who asks twice is answered once
    answer = await client.call(asking("__consumer_offsets"))
    assert answer.topics[0].is_internal


async def test_topic_ids(client, name):
    topic = name()
    topic_id = await create_topic(client, topic)
    request = MetadataRequest(
        topics=[MetadataRequestTopic(topic_id=topic_id, name=None), MetadataRequestTopic(topic_id=b"u" * 16, name=None)]
    )
    answer = await client.call(request, 12)
    found = {one.topic_id: (one.name, one.error_code, len(one.partitions)) for one in answer.topics}
    assert found == {topic_id: (topic, 0, 1), b"u" * 16: (None, ErrorCode.UNKNOWN_TOPIC_ID, 0)}
    for version in (10, 11):  # ids and null names are in the schema there, but not allowed
        for asked in (MetadataRequestTopic(topic_id=topic_id, name=None), MetadataRequestTopic(name=None)):
            answer = await client.call(MetadataRequest(topics=[asked]), version)
            assert [one.error_code for one in answer.topics] == [ErrorCode.INVALID_REQUEST]
        asked = MetadataRequestTopic(topic_id=topic_id, name=topic)
        answer = await client.call(MetadataRequest(topics=[asked]), version)
        assert [one.error_code for one in answer.topics] == [ErrorCode.INVALID_REQUEST]


async def test_authorized_operations(client, name):
    topic = name()
    await create_topic(client, topic)
    for version in range(8, 13):
        fields = {"include_cluster_authorized_operations": True} if version <= 10 else {}
        request = asking(topic, "missing", include_topic_authorized_operations=True, **fields)
        answer = await client.call(request, version)
        # READ WRITE CREATE DELETE ALTER DESCRIBE DESCRIBE_CONFIGS ALTER_CONFIGS; for the cluster CREATE ALTER DESCRIBE
        # CLUSTER_ACTION DESCRIBE_CONFIGS ALTER_CONFIGS IDEMPOTENT_WRITE and the tokens
        of_topic = sum(1 << operation for operation in (3, 4, 5, 6, 7, 8, 10, 11))
        assert {one.topic_authorized_operations for one in answer.topics} == {of_topic}
        of_cluster = sum(1 << operation for operation in (5, 7, 8, 9, 10, 11, 12))
        assert answer.cluster_authorized_operations == (of_cluster if version <= 10 else NOT_ASKED)


async def test_auto_creation(tmp_path):
    async with (
        running_broker(tmp_path / "data", num_partitions="3") as broker,
        wire_client(broker.bootstrap_servers) as client,
    ):
        answer = await client.call(asking("not-this", version=12), 12)
        assert answer.topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        for version in range(13):
            fields = {"allow_auto_topic_creation": True} if version >= 4 else {}
            topic = f"made-{version}"
            request = asking(topic, "bad/name", version=version, **fields)
            answer = await client.call(request, version)
            codes = {one.name: one.error_code for one in answer.topics}
            assert codes[topic] in (0, ErrorCode.LEADER_NOT_AVAILABLE)
            assert codes["bad/name"] == ErrorCode.INVALID_TOPIC_EXCEPTION
            await until(lambda topic=topic: topic in broker.metadata.snapshot.topics, "it is led")
            assert (await append(client, topic, batch(b"v"), 2)).error_code == 0
        names = {one.name: len(one.partitions) for one in (await client.call(asking(None), 12)).topics}
        assert names == {f"made-{version}": 3 for version in range(13)}
        answer = await client.call(asking("a.b", "a_b", allow_auto_topic_creation=True), 12)
        codes = sorted(one.error_code for one in answer.topics)
        assert codes[0] in (0, ErrorCode.LEADER_NOT_AVAILABLE)
        assert codes[1] == ErrorCode.INVALID_TOPIC_EXCEPTION


async def test_auto_creation_disabled_by_the_broker(client):
    request = asking("never-made", allow_auto_topic_creation=True)
    assert (await client.call(request, 12)).topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert (await client.call(asking("never-made", version=0), 0)).topics[0].error_code == 3


async def test_brokers_and_listeners_that_no_longer_exist(tmp_path):
    alone = {"controlled_shutdown_enable": "false"}  # the others, which it would tell of its end, are made up
    async with running_broker(tmp_path / "data", **alone) as broker, wire_client(broker.bootstrap_servers) as client:
        await create_topic(client, "mine")

        def endpoint(listener):
            return UpdateMetadataEndpoint(host="h", port=5, listener=listener, security_protocol=0)

        def partition(index, leader, replicas):
            return UpdateMetadataPartitionState(
                partition_index=index,
                controller_epoch=9,
                leader=leader,
                leader_epoch=2,
                isr=replicas,
                replicas=replicas,
                offline_replicas=[replica for replica in replicas if replica == 3],
            )

        states = [partition(0, 0, [0, 3]), partition(1, 3, [3, 0]), partition(2, 7, [7]), partition(3, -1, [0])]
        update = UpdateMetadataRequest(
            controller_id=7,
            controller_epoch=9,
            live_brokers=[
                UpdateMetadataBroker(id=0, endpoints=[endpoint("PLAINTEXT")], rack="r"),
                UpdateMetadataBroker(id=7, endpoints=[endpoint("OTHER")]),
            ],
            topic_states=[UpdateMetadataTopicState(topic_name="t", topic_id=b"i" * 16, partition_states=states)],
        )
        assert (await client.call(update)).error_code == 0
        unavailable, replica, listener = (
            ErrorCode.LEADER_NOT_AVAILABLE,
            ErrorCode.REPLICA_NOT_AVAILABLE,
            ErrorCode.LISTENER_NOT_FOUND,
        )
        for version, codes in (
            (0, [replica, unavailable, unavailable, unavailable]),
            (1, [0, unavailable, unavailable, unavailable]),
            (5, [0, unavailable, unavailable, unavailable]),
            (6, [0, unavailable, listener, unavailable]),
            (12, [0, unavailable, listener, unavailable]),
        ):
            answer = await client.call(asking("t", version=version), version)
            found = answer.topics[0].partitions
            assert [one.error_code for one in found] == codes, version
            assert [one.leader_id for one in found] == [0, -1, -1, -1]
            assert found[0].replica_nodes == ([0] if version == 0 else [0, 3])
            assert found[0].offline_replicas == ([3] if version >= 5 else [])
            assert [node.node_id for node in answer.brokers] == [0]
            assert answer.brokers[0].rack == ("r" if version >= 1 else None)


# -- DescribeCluster ---------------------------------------------------------------------------------------------------


async def test_describe_cluster(broker, client):
    for version in (0, 1):
        answer = await client.call(DescribeClusterRequest(), version)
        assert (answer.error_code, answer.controller_id) == (0, 0)
        assert answer.cluster_id == broker.services.cluster_id
        assert [f"{node.host}:{node.port}" for node in answer.brokers] == [broker.bootstrap_servers]
        assert answer.cluster_authorized_operations == NOT_ASKED
        request = DescribeClusterRequest(include_cluster_authorized_operations=True)
        answer = await client.call(request, version)
        assert answer.cluster_authorized_operations == sum(1 << bit for bit in (5, 7, 8, 9, 10, 11, 12))
    for endpoint_type, code in ((2, ErrorCode.MISMATCHED_ENDPOINT_TYPE), (3, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE)):
        answer = await client.call(DescribeClusterRequest(endpoint_type=endpoint_type), 1)
        assert answer.error_code == code
        assert answer.error_message


# -- DescribeLogDirs ---------------------------------------------------------------------------------------------------


async def test_describe_log_dirs(broker, client, name):
    topic, other = name(), name()
    await create_topic(client, topic, partitions=2)
    await create_topic(client, other)
    records = batch(b"v" * 100)
    await append(client, topic, bytes(records), 1)
    for version in range(5):
        answer = await client.call(DescribeLogDirsRequest(topics=None), version)
        assert answer.error_code == 0
        (directory,) = answer.results
        assert (directory.error_code, directory.log_dir) == (0, str(broker.config.log_dirs[0]))
        if version >= 4:
            assert directory.total_bytes >= directory.usable_bytes > 0
        sizes = {
            (one.name, each.partition_index): (each.partition_size, each.offset_lag, each.is_future_key)
            for one in directory.topics
            for each in one.partitions
        }
        assert sizes[topic, 0] == (0, 0, False)
        assert sizes[topic, 1] == (len(records), 0, False)
        assert (other, 0) in sizes
        asked = [DescribableLogDirTopic(topic=topic, partitions=[1, 9]), DescribableLogDirTopic(topic="missing")]
        answer = await client.call(DescribeLogDirsRequest(topics=asked), version)
        assert [(one.name, len(one.partitions)) for one in answer.results[0].topics] == [(topic, 1)]
        answer = await client.call(DescribeLogDirsRequest(topics=[]), version)
        assert answer.results[0].topics == []


# -- ApiVersions -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(5))
async def test_api_versions(client, version):
    fields = {"client_software_name": "a-b.c", "client_software_version": "1.0"} if version >= 3 else {}
    answer = await client.call(ApiVersionsRequest(**fields), version)
    assert answer.error_code == 0
    assert [(row.api_key, row.min_version, row.max_version) for row in answer.api_keys] == [
        (row.key, row.min_version, row.max_version) for row in API_TABLE
    ]
    assert answer.finalized_features_epoch in (0, -1)


@pytest.mark.parametrize("software", [("", ""), ("bad name", "1"), ("-a", "1"), ("a", "1-"), ("a", ""), ("é", "1")])
async def test_invalid_client_software_names(client, software):
    request = ApiVersionsRequest(client_software_name=software[0], client_software_version=software[1])
    answer = await client.call(request, 3)
    assert (answer.error_code, answer.api_keys) == (ErrorCode.INVALID_REQUEST, [])


@pytest.mark.parametrize("version", [5, 99, 32767, -1, -32768])
async def test_unknown_version_of_api_versions(client, version):
    header = (18).to_bytes(2, "big") + (version & 0xFFFF).to_bytes(2, "big") + (7).to_bytes(4, "big") + b"\0\1x"
    client.send_raw(len(header).to_bytes(4, "big") + header)
    data = await client.receive_raw()
    assert data.hex() == "00000007" + "0023" + "00000001" + "0012" + "0000" + "0004"
