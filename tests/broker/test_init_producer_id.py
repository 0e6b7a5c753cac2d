"""InitProducerId: ids that nobody had before, not even before a restart."""

from __future__ import annotations

import asyncio

import pytest

from broker.errors import RequestError
from broker.producer_ids import ProducerIds
from protocol.error_codes import ErrorCode
from protocol.messages.init_producer_id import InitProducerIdRequest
from registry.embedded.store import EmbeddedStore
from support.broker import running_broker
from support.wire import wire_client

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def ids(bootstrap, count):
    async with wire_client(bootstrap) as client:
        found = []
        for i in range(count):
            request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000)
            answer = await client.call(request, i % 6)
            assert (answer.error_code, answer.producer_epoch) == (0, 0)
            found.append(answer.producer_id)
        return found


async def test_ids_are_unique_over_clients_and_restarts(tmp_path):
    seen = []
    for _ in range(3):
        async with running_broker(tmp_path / "data") as broker:
            for some in await asyncio.gather(*(ids(broker.bootstrap_servers, 350) for _ in range(3))):
                seen += some
    assert len(set(seen)) == len(seen) == 3 * 3 * 350
    assert min(seen) >= 0


async def test_no_ids_are_allocated_while_the_registry_is_disconnected(tmp_path):
    """A session that has just expired is none of the producer's business: NOT_CONTROLLER would end it."""
    store = await EmbeddedStore.open()
    registry = store.session()
    await registry.start()
    await registry.expire()
    with pytest.raises(RequestError) as raised:
        await ProducerIds(0, registry).next()
    assert raised.value.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    await store.close()


async def test_invalid_requests_are_refused(client):
    async def code(version=5, **fields):
        request = InitProducerIdRequest(**{"transactional_id": None, "transaction_timeout_ms": 1000} | fields)
        answer = await client.call(request, version)
        if answer.error_code:
            assert (answer.producer_id, answer.producer_epoch) == (-1, -1)
        return answer.error_code

    assert await code(transactional_id="") == ErrorCode.INVALID_REQUEST
    assert await code(transactional_id="t") == ErrorCode.NOT_COORDINATOR
    assert await code(producer_id=5, producer_epoch=-1) == ErrorCode.INVALID_REQUEST
    assert await code(producer_id=-1, producer_epoch=0) == ErrorCode.INVALID_REQUEST
    assert await code(producer_id=5, producer_epoch=3) == 0  # without a transactional id: a new one, blindly
