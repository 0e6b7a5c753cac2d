"""The audit log: a line for each denied decision, and at level DEBUG for each allowed one."""

from __future__ import annotations

import logging

import pytest
import pytest_asyncio

from broker.authorization import audit
from broker.authorization.access import Access
from protocol.messages.delete_topics import DeleteTopicsRequest
from protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from protocol.messages.init_producer_id import InitProducerIdRequest
from protocol.messages.metadata import MetadataRequest
from protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics
from support.authorization import allow, authorized_broker, client_of, put_acls
from support.wire import append, batch, create_topic, produce, wire_client

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def broker(tmp_path_factory):
    async with authorized_broker(tmp_path_factory.mktemp("data")) as running:
        async with wire_client(running.bootstrap_servers) as admin:
            await create_topic(admin, "t")
        yield running


def resources(lines):
    """The resources of the lines at level INFO."""
    return [line.split(" resource=")[1].split(" ")[0] for line in lines(logging.INFO)]


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


def with_partitions(topic, count):
    one = [FetchPartition(partition=number, fetch_offset=0, partition_max_bytes=1) for number in range(count)]
    return FetchTopic(topic=topic, partitions=one)


@pytest.mark.parametrize("epoch", [0, -1])
async def test_a_fetch_has_a_line_for_each_topic_not_for_each_partition(broker, lines, epoch):
    topics = [with_partitions(name, 5) for name in ("t", "u", "t")]
    async with client_of(broker, "User:alice") as alice:
        request = FetchRequest(session_epoch=epoch, max_wait_ms=0, min_bytes=1, max_bytes=1, topics=topics)
        session = (await alice.call(request, 12)).session_id
        assert resources(lines) == ['Topic:"t"', 'Topic:"u"']
        if session:
            incremental = FetchRequest(session_id=session, session_epoch=1, max_wait_ms=0, min_bytes=1, topics=[])
            await alice.call(incremental, 12)
            assert resources(lines) == ['Topic:"t"', 'Topic:"u"'] * 2


async def test_a_fetch_decides_on_each_topic_once(broker, monkeypatch):
    decided = []
    real = Access.allows

    def count(self, context, api, operation, resource_type, name):
        decided.append(name)
        return real(self, context, api, operation, resource_type, name)

    monkeypatch.setattr(Access, "allows", count)
    async with client_of(broker, "User:alice") as alice:
        await alice.call(FetchRequest(max_wait_ms=0, min_bytes=1, topics=[with_partitions("t", 5)]), 12)
    assert decided == ["t"]


async def test_a_topic_in_several_parts_of_a_request_has_one_line(broker, lines):
    put_acls(broker, [allow("User:alice", "Describe", "Group", "*")])
    topic = OffsetFetchRequestTopics(name="t", partition_indexes=[0])
    groups = [OffsetFetchRequestGroup(group_id=name, topics=[topic]) for name in ("g", "h")]
    async with client_of(broker, "User:alice") as alice:
        await alice.call(OffsetFetchRequest(groups=groups), 8)
    put_acls(broker, [])
    assert resources(lines) == ['Topic:"t"']


async def test_a_produce_has_a_line_for_each_topic(broker, lines):
    request = produce("t", batch(b"v"))
    request.topic_data += produce("u", batch(b"v")).topic_data
    async with client_of(broker, "User:alice") as alice:
        await alice.call(request, 9)
    assert resources(lines) == ['Topic:"t"', 'Topic:"u"']


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
