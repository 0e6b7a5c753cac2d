"""What the verification of transactions makes of a coordinator's answers."""

from __future__ import annotations

import pytest

from broker.cluster.connections import BrokerConnections
from broker.coordinator.transactions.verifier import TransactionVerifier
from client.wire.network import AsyncioNetwork
from client.wire.node_connection import ConnectionOptions
from protocol.api_keys import ApiKey
from protocol.error_codes import ErrorCode
from protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
)
from support.deadlines import DEADLINE_S
from support.fake_broker import FakeBroker
from support.known_brokers import LISTENER, metadata_of

COORDINATOR = 2
UNKNOWN_CODE = 999


class OneCoordinator:
    """Stands for the coordinators' log: one broker coordinates everything."""

    def __init__(self, metadata):
        self.metadata = metadata

    async def learn_partitions(self):
        pass

    def find(self, key, listener_name):
        return self.metadata.snapshot.node(COORDINATOR, listener_name)


def refused_whole(request, version):
    return AddPartitionsToTxnResponse(error_code=UNKNOWN_CODE)


def refused_partition(request, version):
    partitions = [AddPartitionsToTxnPartitionResult(partition_index=0, partition_error_code=UNKNOWN_CODE)]
    topics = [AddPartitionsToTxnTopicResult(name="t", results_by_partition=partitions)]
    return AddPartitionsToTxnResponse(
        results_by_transaction=[AddPartitionsToTxnResult(transactional_id="x", topic_results=topics)]
    )


@pytest.mark.parametrize("answer", [refused_whole, refused_partition])
async def test_an_unknown_error_code_refuses_the_partition(answer):
    async with FakeBroker(node_id=COORDINATOR) as coordinator:
        coordinator.script[ApiKey.ADD_PARTITIONS_TO_TXN] = [answer]
        metadata = metadata_of(coordinator)
        connections = BrokerConnections(
            metadata, LISTENER, ConnectionOptions(AsyncioNetwork(), "verification", request_timeout_s=DEADLINE_S)
        )
        verifier = TransactionVerifier(OneCoordinator(metadata), connections, LISTENER, lambda: True)
        refused = await verifier.verify("x", 7, 0, [("t", 0)], knows_abortable=True)
        connections.close()
    assert refused == {("t", 0): ErrorCode.UNKNOWN_SERVER_ERROR}
