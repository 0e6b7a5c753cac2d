"""Fetch with an authorizer: rights are asked for at every request, also in sessions and for idle partitions."""

from __future__ import annotations

import asyncio

import pytest
import pytest_asyncio

from protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic
from support.authorization import allow, authorized_broker, client_of, put_acls
from support.wire import append, batch, create_topic, fetch, wire_client

pytestmark = pytest.mark.asyncio(loop_scope="module")

READ_ALL = allow("User:alice", "Read", "Topic", "*")
DENIED = 29


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def broker(tmp_path_factory):
    async with authorized_broker(tmp_path_factory.mktemp("data")) as running:
        async with wire_client(running.bootstrap_servers) as admin:
            for topic in ("a", "b"):
                await create_topic(admin, topic)
        yield running


@pytest_asyncio.fixture(loop_scope="module")
async def admin(broker):
    async with wire_client(broker.bootstrap_servers) as client:
        yield client


@pytest_asyncio.fixture(loop_scope="module")
async def alice(broker):
    async with client_of(broker, "User:alice") as client:
        yield client


def request(broker, version, session_id=0, epoch=0, topics=("a", "b"), **fields):
    """A fetch of partition 0 of these topics from the end of their logs, in a session."""
    by_id = {name: one.topic_id for name, one in broker.metadata.snapshot.topics.items()}
    named = []
    for name in topics:
        end = broker.services.logs.get(name, 0).log_end_offset
        one = FetchPartition(partition=0, fetch_offset=end, partition_max_bytes=1 << 20)
        key = {"topic_id": by_id[name]} if version >= 13 else {"topic": name}
        named.append(FetchTopic(partitions=[one], **key))
    defaults = {"max_wait_ms": 0, "min_bytes": 1, "max_bytes": 1 << 20}
    return FetchRequest(session_id=session_id, session_epoch=epoch, topics=named, **defaults | fields)


def told(broker, answer):
    """Error codes by topic."""
    names = broker.metadata.snapshot.topic_names
    return {
        topic.topic or names[topic.topic_id]: partition.error_code
        for topic in answer.responses
        for partition in topic.partitions
    }


@pytest.mark.parametrize("version", [7, 12, 13, 17])
async def test_rights_that_end_and_return_in_a_session(broker, admin, alice, version):
    put_acls(broker, [READ_ALL])
    first = await alice.call(request(broker, version), version)
    assert told(broker, first) == {"a": 0, "b": 0}
    session = first.session_id
    again = await alice.call(request(broker, version, session, 1, ()), version)
    assert told(broker, again) == {}  # nothing new: both are idle
    put_acls(broker, [allow("User:alice", "Read", "Topic", "a")])
    refused = await alice.call(request(broker, version, session, 2, ()), version)
    assert told(broker, refused) == {"b": DENIED}
    await append(admin, "b", batch(b"hush"))
    still = await alice.call(request(broker, version, session, 3, ()), version)
    assert told(broker, still) == {"b": DENIED}
    put_acls(broker, [READ_ALL])
    back = await alice.call(request(broker, version, session, 4, ()), version)
    assert told(broker, back) == {"b": 0}
    assert b"hush" in bytes(back.responses[0].partitions[0].records)


async def test_a_wait_does_not_read_what_is_refused(broker, admin, alice):
    put_acls(broker, [allow("User:alice", "Read", "Topic", "a")])
    first = await alice.call(request(broker, 12), 12)
    assert told(broker, first) == {"a": 0, "b": DENIED}
    waiting = asyncio.create_task(alice.call(request(broker, 12, first.session_id, 1, (), max_wait_ms=10_000), 12))
    await append(admin, "b", batch(b"hush"))
    await append(admin, "a", batch(b"said"))
    answer = await waiting
    assert told(broker, answer) == {"a": 0, "b": DENIED}
    assert all(b"hush" not in bytes(one.partitions[0].records or b"") for one in answer.responses)


async def test_another_user_cannot_read_with_somebodys_session(broker, admin, alice):
    put_acls(broker, [READ_ALL])
    session = (await alice.call(request(broker, 12), 12)).session_id
    await alice.call(request(broker, 12, session, 1, ()), 12)
    await append(admin, "a", batch(b"hush"))
    async with client_of(broker, "User:mallory") as mallory:
        answer = await mallory.call(request(broker, 12, session, 2, ()), 12)
    assert told(broker, answer) == {"a": DENIED, "b": DENIED}


async def test_a_forgotten_partition_is_not_refused(broker, alice):
    put_acls(broker, [])
    first = await alice.call(request(broker, 12), 12)
    assert told(broker, first) == {"a": DENIED, "b": DENIED}

    gone = ForgottenTopic(topic="b", partitions=[0])
    answer = await alice.call(request(broker, 12, first.session_id, 1, (), forgotten_topics_data=[gone]), 12)
    assert told(broker, answer) == {"a": DENIED}


async def test_a_follower_needs_cluster_action_on_any_listener(broker, alice):
    put_acls(broker, [READ_ALL])
    answer = await alice.call(fetch("a", replica_id=5), 12)
    assert told(broker, answer) == {"a": DENIED}
    put_acls(broker, [allow("User:alice", "ClusterAction", "Cluster")])
    answer = await alice.call(fetch("a", replica_id=5), 12)
    assert told(broker, answer)["a"] != DENIED
