"""The connection to a broker: a connection whose negotiation fails or is cancelled is never used again."""

from __future__ import annotations

import asyncio

import pytest

from client.errors import BrokerUnknownError, ConnectionLostError, KafkaError
from client.wire.network import AsyncioNetwork
from client.wire.node_connection import ConnectionOptions, NodeConnection
from protocol.api_keys import ApiKey
from protocol.error_codes import ErrorCode
from protocol.host_port import HostPort
from protocol.messages.metadata import MetadataRequest, MetadataResponse
from support.deadlines import DEADLINE_S
from support.fake_broker import SILENCE, FakeBroker
from support.polling import until


def options():
    return ConnectionOptions(AsyncioNetwork(), "test", request_timeout_s=DEADLINE_S, negotiates=True)


def connection_to(broker):
    return NodeConnection("broker 0", lambda: HostPort("127.0.0.1", broker.port), options().open)


async def call(node):
    """A call that leaves its version open."""
    connection = await node.open()
    return await connection.call(MetadataRequest(topics=[]), MetadataResponse)


async def is_served_on_a_connection_of_its_own(broker, node):
    opened = len(broker.seen(ApiKey.API_VERSIONS))
    assert (await call(node)).cluster_id == "fake"
    assert len(broker.seen(ApiKey.API_VERSIONS)) == opened + 1
    await until(lambda: broker.connections == 1, "the connection that failed is closed")
    node.close()


async def test_a_refused_negotiation_does_not_break_later_calls():
    async with FakeBroker() as broker:
        node = connection_to(broker)
        broker.script[ApiKey.API_VERSIONS] = [ErrorCode.UNKNOWN_SERVER_ERROR]
        with pytest.raises(KafkaError, match="ApiVersions"):
            await call(node)
        await is_served_on_a_connection_of_its_own(broker, node)


async def test_a_cancelled_negotiation_does_not_break_later_calls():
    async with FakeBroker() as broker:
        node = connection_to(broker)
        broker.script[ApiKey.API_VERSIONS] = [SILENCE]
        cancelled = asyncio.create_task(call(node))
        await until(lambda: broker.requests, "the negotiation is under way")
        cancelled.cancel()
        with pytest.raises(asyncio.CancelledError):
            await cancelled
        await is_served_on_a_connection_of_its_own(broker, node)


async def test_one_negotiated_connection_serves_every_call():
    async with FakeBroker() as broker:
        node = connection_to(broker)
        for _ in range(3):
            assert (await call(node)).cluster_id == "fake"
        assert len(broker.seen(ApiKey.API_VERSIONS)) == 1
        node.close()


async def test_a_connection_closed_during_its_opening_is_not_returned():
    async with FakeBroker() as broker:
        closed = asyncio.Event()

        async def answer(request, version):
            await closed.wait()
            return broker._api_versions(request, version, ErrorCode.NONE)

        node = connection_to(broker)
        broker.script[ApiKey.API_VERSIONS] = [answer]
        opening = asyncio.create_task(node.open())
        await until(lambda: broker.requests, "the negotiation is under way")
        node.close()
        closed.set()
        with pytest.raises(ConnectionLostError, match="closed by this side"):
            await opening
        await until(lambda: broker.connections == 0, "it is closed")


async def test_concurrent_callers_share_one_connection_attempt():
    async with FakeBroker() as broker:
        node = connection_to(broker)
        first, second = await asyncio.gather(node.open(), node.open())
        assert first is second
        node.close()


async def test_a_broker_that_moved_is_reached_at_its_new_address():
    async with FakeBroker() as old, FakeBroker() as new:
        addresses = [HostPort("127.0.0.1", old.port)]
        node = NodeConnection("broker 0", lambda: addresses[-1], options().open)
        before = await node.open()
        addresses.append(HostPort("127.0.0.1", new.port))
        assert (await node.open()).port == new.port
        assert before.is_closed
        node.close()


async def test_the_error_names_a_broker_without_an_address():
    with pytest.raises(BrokerUnknownError, match="no address of broker 3 is known"):
        await NodeConnection("broker 3", lambda: None, options().open).open()
