"""Requests with many topics, some of them refused: each topic is decided on once, and topics are not compared."""

from __future__ import annotations

import pytest
import pytest_asyncio

from broker.authorization.access import Access
from protocol.message import Message
from protocol.messages.fetch import FetchPartition as AskedPartition
from protocol.messages.fetch import FetchRequest, FetchTopic
from protocol.messages.find_coordinator import FindCoordinatorRequest
from protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from replication.fetch import FetchPartition
from support.authorization import allow, authorized_broker, client_of, put_acls
from support.wire import wire_client

pytestmark = pytest.mark.asyncio(loop_scope="module")

COUNT = 500
ALLOWED = [f"mine-{number}" for number in range(COUNT)]
DENIED = [f"other-{number}" for number in range(COUNT)]
MIXED = [name for pair in zip(ALLOWED, DENIED, strict=True) for name in pair]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def broker(tmp_path_factory):
    async with authorized_broker(tmp_path_factory.mktemp("data")) as running:
        async with wire_client(running.bootstrap_servers) as admin:
            await admin.call(FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]))
        yield running


@pytest_asyncio.fixture(loop_scope="module")
async def alice(broker):
    mine = [allow("User:alice", operation, "Topic", "mine-", "prefixed") for operation in ("Read", "Describe")]
    put_acls(broker, [*mine, allow("User:alice", "Describe", "Group", "g")])
    async with client_of(broker, "User:alice") as client:
        yield client


@pytest.fixture
def compared(monkeypatch):
    """The comparisons of elements of requests."""
    pairs = []

    def count(self, other):
        pairs.append((self, other))
        return self is other

    monkeypatch.setattr(Message, "__eq__", count)
    monkeypatch.setattr(FetchPartition, "__eq__", count, raising=False)
    return pairs


@pytest.fixture
def decided(monkeypatch):
    """The names that rights were asked for."""
    names = []
    real = Access.allows

    def count(self, context, api, operation, resource_type, name):
        names.append(name)
        return real(self, context, api, operation, resource_type, name)

    monkeypatch.setattr(Access, "allows", count)
    return names


def refused(topics):
    return [topic.name for topic in topics if topic.partitions[0].error_code == 29]


async def test_offsets_of_many_topics(alice, compared, decided):
    asked = [OffsetFetchRequestTopic(name=name, partition_indexes=[0]) for name in MIXED]
    answer = await alice.call(OffsetFetchRequest(group_id="g", topics=asked), 7)
    assert (refused(answer.topics), len(answer.topics)) == (DENIED, 2 * COUNT)
    assert decided == ["g", *MIXED]
    assert len(compared) < COUNT


async def test_offsets_of_many_topics_of_several_groups(alice, compared, decided):
    asked = [OffsetFetchRequestTopics(name=name, partition_indexes=[0]) for name in MIXED]
    answer = await alice.call(OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=asked)]), 8)
    (group,) = answer.groups
    assert (refused(group.topics), len(group.topics)) == (DENIED, 2 * COUNT)
    assert decided == ["g", *MIXED]
    assert len(compared) < COUNT


async def test_a_fetch_of_many_topics_outside_of_a_session(alice, compared, decided):
    one = AskedPartition(partition=0, fetch_offset=0, partition_max_bytes=1)
    topics = [FetchTopic(topic=name, partitions=[one]) for name in MIXED]
    request = FetchRequest(session_epoch=-1, max_wait_ms=0, min_bytes=1, max_bytes=1, topics=topics)
    answer = await alice.call(request, 12)
    found = {topic.topic: topic.partitions[0].error_code for topic in answer.responses}
    assert ([name for name in found if found[name] == 29], len(found)) == (DENIED, 2 * COUNT)
    assert decided == MIXED
    assert len(compared) < COUNT
