"""The connections of a client: one a broker, and none that nobody closes."""

import asyncio

import pytest

from client.errors import ClosedError
from client.wire.cluster import Cluster
from client.wire.cluster_options import ClusterOptions
from protocol.api_keys import ApiKey
from protocol.error_codes import ErrorCode
from protocol.messages.metadata import MetadataRequest, MetadataResponse
from support.fake_broker import SILENCE, FakeBroker
from support.polling import until


class SlowBroker(FakeBroker):
    """`hold` keeps the answer to the next ApiVersions back until the event that it returns is set."""

    def hold(self):
        event = asyncio.Event()

        async def answer(request, version):
            await event.wait()
            return self._api_versions(request, version, ErrorCode.NONE)

        self.script[ApiKey.API_VERSIONS].append(answer)
        return event


@pytest.fixture
async def broker():
    async with SlowBroker() as fake:
        yield fake


async def test_a_connection_opened_during_another_negotiation_is_kept(broker):
    cluster = Cluster(ClusterOptions(bootstrap_servers=broker.address))
    await cluster.start()
    broker.drop_connections()
    await until(lambda: cluster.has_lost(0), "the connection is gone")
    event = broker.hold()
    slow = asyncio.create_task(cluster.connection(0))
    await until(lambda: not broker.script[ApiKey.API_VERSIONS], "it is asked for its versions")
    await cluster.refresh([])
    event.set()
    assert await slow is await cluster.connection(0)
    await until(lambda: broker.connections == 1, "the other one is closed")
    await cluster.close()
    await until(lambda: broker.connections == 0, "both are closed")


async def test_a_connection_opened_during_close_is_closed(broker):
    cluster = Cluster(ClusterOptions(bootstrap_servers=broker.address))
    await cluster.start()
    event = broker.hold()
    own = asyncio.create_task(cluster.open_own(0))
    await until(lambda: not broker.script[ApiKey.API_VERSIONS], "it is asked for its versions")
    await cluster.close()
    event.set()
    with pytest.raises(ClosedError):
        await own
    await until(lambda: broker.connections == 0, "both are closed")


async def test_a_separate_connection_is_closed_with_the_client(broker):
    cluster = Cluster(ClusterOptions(bootstrap_servers=broker.address))
    await cluster.start()
    own = await cluster.open_own(0)
    await cluster.close()
    assert own.is_closed
    await until(lambda: broker.connections == 0, "both are closed")


async def test_a_broker_that_did_not_answer_in_time_is_asked_last(broker):
    async with SlowBroker(broker.topics, node_id=1, cluster=broker.cluster) as other:
        broker.cluster.append(other)
        cluster = Cluster(ClusterOptions(bootstrap_servers=broker.address))
        await cluster.start()
        silent, busy = await cluster.connection(0), await cluster.connection(1)
        broker.script[ApiKey.METADATA] = [SILENCE]
        other.script[ApiKey.METADATA] = [SILENCE] * 2
        asked = [asyncio.create_task(one.call(MetadataRequest(), MetadataResponse)) for one in (silent, busy, busy)]
        await until(lambda: silent.in_flight == 1 and busy.in_flight == 2, "they are asked")
        assert await cluster.any_connection() is silent
        asked[0].cancel()
        await asyncio.wait(asked[:1])
        assert await cluster.any_connection() is busy
        await cluster.close()
        await asyncio.gather(*asked, return_exceptions=True)
