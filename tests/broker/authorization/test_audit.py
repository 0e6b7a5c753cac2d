"""The audit log: a line for each denied decision, and at level DEBUG for each allowed one."""

from __future__ import annotations

import logging

import pytest
import pytest_asyncio

from broker.authorization import audit
from protocol.messages.delete_topics import DeleteTopicsRequest
from protocol.messages.init_producer_id import InitProducerIdRequest
from protocol.messages.metadata import MetadataRequest
from support.authorization import authorized_broker, client_of
from support.wire import append, batch, create_topic, produce, wire_client

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def broker(tmp_path_factory):
    async with authorized_broker(tmp_path_factory.mktemp("data")) as running:
        async with wire_client(running.bootstrap_servers) as admin:
            await create_topic(admin, "t")
        yield running


@pytest.fixture
def lines(caplog):
    def of(level):
        return [one.getMessage() for one in caplog.records if one.name == audit.logger.name and one.levelno == level]

    caplog.set_level(logging.INFO, audit.logger.name)
    return of


async def test_a_denied_decision_is_logged(broker, lines):
    async with client_of(broker, "User:alice") as alice:
        await append(alice, "t", batch(b"v"))
    (line,) = lines(logging.INFO)
    assert line == (
        'denied: principal="User:alice" host="127.0.0.1" operation=Write resource=Topic:"t" api=Produce'
        ' client_id="wire" listener=PLAINTEXT'
    )


async def test_each_decision_is_logged_also_if_it_is_cached(broker, lines):
    async with client_of(broker, "User:carol") as carol:
        for _ in range(3):
            await append(carol, "t", batch(b"v"))
    assert len(lines(logging.INFO)) == 3


async def test_an_allowed_decision_is_logged_at_level_debug(broker, lines, caplog):
    async with client_of(broker, "User:admin") as admin:
        await append(admin, "t", batch(b"v"))
        assert lines(logging.DEBUG) == []
        caplog.set_level(logging.DEBUG, audit.logger.name)
        await append(admin, "t", batch(b"v"))
    (line,) = [one for one in lines(logging.DEBUG) if "User:admin" in one]
    assert line.startswith('allowed: principal="User:admin" host="127.0.0.1" operation=Write resource=Topic:"t"')
    assert lines(logging.INFO) == []


async def test_what_is_left_out_of_a_list_is_not_logged(broker, lines):
    async with client_of(broker, "User:alice") as alice:
        assert (await alice.call(MetadataRequest(topics=None))).topics == []
    assert lines(logging.INFO) == []


async def test_any_topic_is_logged_without_a_name(broker, lines):
    async with client_of(broker, "User:alice") as alice:
        await alice.call(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000))
    (line,) = lines(logging.INFO)
    assert " operation=Write resource=Topic:null api=InitProducerId " in line


FORGED = 'x"\ndenied: principal="User:admin"\r\x1b[2K\x00\u2028é'


async def test_clients_cannot_forge_lines(broker, lines):
    """The client id, the user and the names of resources are chosen by the client."""
    async with client_of(broker, f"User:{FORGED}") as forger:
        request = produce(FORGED, batch(b"v"))
        await forger.call(request, 9, client_id=FORGED)
        await forger.call(DeleteTopicsRequest(topic_names=[FORGED], timeout_ms=100), 5, client_id=FORGED)
    written = lines(logging.INFO)
    assert len(written) == 2
    for line in written:
        assert line.isprintable()
        assert line.isascii()
        assert line.startswith('denied: principal="User:x\\"\\ndenied: principal=\\"User:admin\\"')
        assert line.count(" operation=") == 1
