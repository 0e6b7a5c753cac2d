"""The link to another broker: a connection whose negotiation fails or is cancelled is never used again."""

from __future__ import annotations

import asyncio

import pytest

from client.errors import KafkaError
from client.wire.network import AsyncioNetwork
from protocol.api_keys import ApiKey
from protocol.error_codes import ErrorCode
from protocol.messages.metadata import MetadataRequest, MetadataResponse
from replication.broker_link import BrokerLink
from support.fake_broker import SILENCE, FakeBroker
from support.polling import until


def link_to(broker):
    return BrokerLink(
        "broker 0",
        lambda: ("127.0.0.1", broker.port),
        network=AsyncioNetwork(),
        client_id="test",
        request_timeout_s=5,
        negotiates=True,
    )


async def call(link):
    """A call that leaves its version open."""
    connection = await link.open()
    return await connection.call(MetadataRequest(topics=[]), MetadataResponse)


async def is_served_on_a_connection_of_its_own(broker, link):
    opened = len(broker.seen(ApiKey.API_VERSIONS))
    assert (await call(link)).cluster_id == "fake"
    assert len(broker.seen(ApiKey.API_VERSIONS)) == opened + 1
    await until(lambda: broker.connections == 1, "the connection that failed is closed")
    link.close()


async def test_a_refused_negotiation_does_not_break_later_calls():
    async with FakeBroker() as broker:
        link = link_to(broker)
        broker.script[ApiKey.API_VERSIONS] = [ErrorCode.UNKNOWN_SERVER_ERROR]
        with pytest.raises(KafkaError, match="ApiVersions"):
            await call(link)
        await is_served_on_a_connection_of_its_own(broker, link)


async def test_a_cancelled_negotiation_does_not_break_later_calls():
    async with FakeBroker() as broker:
        link = link_to(broker)
        broker.script[ApiKey.API_VERSIONS] = [SILENCE]
        cancelled = asyncio.create_task(call(link))
        await until(lambda: broker.requests, "the negotiation is under way")
        cancelled.cancel()
        with pytest.raises(asyncio.CancelledError):
            await cancelled
        await is_served_on_a_connection_of_its_own(broker, link)


async def test_a_connection_that_is_negotiated_serves_every_call():
    async with FakeBroker() as broker:
        link = link_to(broker)
        for _ in range(3):
            assert (await call(link)).cluster_id == "fake"
        assert len(broker.seen(ApiKey.API_VERSIONS)) == 1
        link.close()
