"""The markers of decided transactions on their way to a scripted leader."""

from __future__ import annotations

import asyncio
import contextlib
import random

import pytest

from broker.cluster.connections import BrokerConnections
from broker.coordinator.transactions.markers import Ending, TransactionMarkers
from client.wire.backoff import Backoff
from client.wire.network import AsyncioNetwork
from client.wire.node_connection import ConnectionOptions
from protocol.api_keys import ApiKey
from protocol.error_codes import ErrorCode
from protocol.messages.write_txn_markers import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersResponse,
)
from support.deadlines import DEADLINE_S
from support.fake_broker import FakeBroker
from support.known_brokers import LISTENER, metadata_of
from support.polling import until

LEADER = 3
UNKNOWN_CODE = 999


@contextlib.asynccontextmanager
async def sending_to(leader):
    """The markers' sender, whose tasks end when the block does; a task that fails fails the block."""

    async def count_partitions(topic):
        return 1

    metadata = metadata_of(leader, leaders={("t", 0): LEADER})
    connections = BrokerConnections(
        metadata, LISTENER, ConnectionOptions(AsyncioNetwork(), "markers", request_timeout_s=DEADLINE_S)
    )
    try:
        async with asyncio.TaskGroup() as tasks:
            yield TransactionMarkers(
                connections,
                metadata,
                count_partitions,
                tasks.create_task,
                backoff=Backoff(1, 10, random.Random(0)),
            )
    finally:
        connections.close()


def ending(events):
    return Ending(
        "x", 7, 0, 5,
        committed=True,
        missing={("t", 0)},
        is_current=lambda: True,
        on_written=lambda: events.append("written"),
        on_given_up=lambda: events.append("given up"),
    )  # fmt: skip


def answering(*codes):
    """Answers to WriteTxnMarkers, one after the other, with these codes for every partition."""

    def answer(code):
        return lambda request, version: WriteTxnMarkersResponse(
            markers=[
                WritableTxnMarkerResult(
                    producer_id=marker.producer_id,
                    topics=[
                        WritableTxnMarkerTopicResult(
                            name=topic.name,
                            partitions=[
                                WritableTxnMarkerPartitionResult(partition_index=partition, error_code=code)
                                for partition in topic.partition_indexes
                            ],
                        )
                        for topic in marker.topics
                    ],
                )
                for marker in request.markers
            ]
        )

    return [answer(code) for code in codes]


async def test_a_marker_is_resent_after_an_unknown_error_code(caplog):
    caplog.set_level("INFO")
    events = []
    async with FakeBroker(node_id=LEADER) as leader:
        leader.script[ApiKey.WRITE_TXN_MARKERS] = answering(UNKNOWN_CODE, 0)
        async with sending_to(leader) as markers:
            markers.send(ending(events))
            await until(lambda: events, "the marker is written")
    assert events == ["written"]
    assert f"t-0 is not written yet: unknown error code {UNKNOWN_CODE}" in caplog.text


@pytest.mark.parametrize("code", [ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED])
async def test_a_fenced_end_is_abandoned_once(code):
    events = []
    async with FakeBroker(node_id=LEADER) as leader:
        leader.script[ApiKey.WRITE_TXN_MARKERS] = answering(code)
        async with sending_to(leader) as markers:
            markers.send(ending(events))
            await until(lambda: events, "the end is given up")
        assert len(leader.seen(ApiKey.WRITE_TXN_MARKERS)) == 1
    assert events == ["given up"]
