"""Where brokers have a listener of their own, what only brokers send is refused on the listeners for clients."""

import pytest

from broker.authorization.rules import SENT_BY_BROKERS
from broker.broker import Broker
from broker.requests.api_table import API_TABLE
from broker.settings.config import BrokerConfig
from protocol.error_codes import ErrorCode
from protocol.messages.leader_and_isr import LeaderAndIsrPartitionState, LeaderAndIsrRequest, LeaderAndIsrTopicState
from protocol.messages.write_txn_markers import WritableTxnMarker, WritableTxnMarkerTopic, WriteTxnMarkersRequest
from support.broker import settings
from support.wire import append, batch, create_topic, fetch, wire_client

REFUSED = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
BETWEEN_BROKERS = {
    "AllocateProducerIds",
    "AlterPartition",
    "ControlledShutdown",
    "LeaderAndIsr",
    "StopReplica",
    "UpdateMetadata",
    "WriteTxnMarkers",
}


@pytest.fixture
async def broker(tmp_path):
    overrides = {
        "listener.security.protocol.map": "INTERNAL:PLAINTEXT,PLAINTEXT:PLAINTEXT",
        "listeners": "PLAINTEXT://127.0.0.1:0,INTERNAL://127.0.0.1:0",
        "inter.broker.listener.name": "INTERNAL",
    }
    async with Broker(BrokerConfig.load(None, settings(tmp_path / "data") | overrides)) as running:
        yield running


@pytest.fixture
async def outside(broker):
    async with wire_client(f"127.0.0.1:{broker.acceptors['PLAINTEXT'].port}") as client:
        yield client


@pytest.fixture
async def inside(broker):
    async with wire_client(f"127.0.0.1:{broker.acceptors['INTERNAL'].port}") as client:
        yield client


async def test_every_api_that_needs_cluster_action_is_refused(broker, outside):
    refused = set()
    for row in API_TABLE:
        handler = row.handler(broker.services)
        if row.key in SENT_BY_BROKERS:
            request = row.request()
            answer = await outside.call(request, row.max_version)
            assert answer == handler.failed(request, REFUSED)
            refused.add(row.name)
    assert refused == BETWEEN_BROKERS


async def test_the_first_refusal_is_logged(outside, caplog):
    request = LeaderAndIsrRequest(controller_id=5, controller_epoch=9, broker_epoch=-1)
    for _ in range(3):
        assert (await outside.call(request)).error_code == REFUSED
    (line,) = [one.getMessage() for one in caplog.records if one.name == "broker.requests.between_brokers"]
    assert line.startswith("refused LeaderAndIsr from 127.0.0.1 on listener PLAINTEXT: ")
    assert "is answered only on INTERNAL. " in line
    assert "ottla.inter.broker.listener.names" in line


async def test_a_forged_controller_changes_nothing(broker, outside, inside):
    topic_id = await create_topic(outside, "t")
    state = LeaderAndIsrPartitionState(partition_index=0, controller_epoch=9, leader=5, leader_epoch=9, replicas=[0, 5])
    topic = LeaderAndIsrTopicState(topic_name="t", topic_id=topic_id, partition_states=[state])
    forged = LeaderAndIsrRequest(controller_id=5, controller_epoch=9, broker_epoch=-1, topic_states=[topic])
    assert (await outside.call(forged)).error_code == REFUSED
    assert (await append(outside, "t", batch(b"v"))).error_code == 0
    marker = WritableTxnMarker(topics=[WritableTxnMarkerTopic(name="t", partition_indexes=[0])])
    (answer,) = (await outside.call(WriteTxnMarkersRequest(markers=[marker]))).markers
    assert answer.topics[0].partitions[0].error_code == REFUSED
    assert (await inside.call(forged)).error_code == 0
    assert (await append(outside, "t", batch(b"v"))).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


@pytest.mark.parametrize("version", [0, 3, 6, 7, 11, 12])
async def test_a_client_cannot_fetch_as_a_follower(broker, outside, inside, version):
    await create_topic(outside, "t")
    await append(outside, "t", batch(b"v"))

    async def code(client, **who):
        answer = await client.call(fetch("t", **who), version)
        return answer.responses[0].partitions[0].error_code

    assert await code(outside) == ErrorCode.NONE
    assert await code(outside, replica_id=5) == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert await code(inside, replica_id=5) != ErrorCode.TOPIC_AUTHORIZATION_FAILED
