"""Topics asked for by an id that the broker learns only after the rule of the API has been asked."""

from __future__ import annotations

import asyncio

import pytest
import pytest_asyncio

from broker.cluster.metadata_cache import EMPTY, Snapshot
from broker.topics import Topics
from protocol.error_codes import ErrorCode
from protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from protocol.uuid import ZERO_UUID
from support.authorization import allow, authorized_broker, client_of, put_acls
from support.deadlines import DEADLINE_MS
from support.polling import until
from support.wire import create_topic, wire_client

pytestmark = pytest.mark.asyncio(loop_scope="module")

OWN = [allow("User:alice", operation, "Topic", "own") for operation in ("Describe", "Delete")]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def broker(tmp_path_factory):
    async with authorized_broker(tmp_path_factory.mktemp("data")) as running:
        async with wire_client(running.bootstrap_servers) as admin:
            for topic in ("own", "victim", "kept"):
                await create_topic(admin, topic)
        put_acls(running, OWN)
        yield running


@pytest_asyncio.fixture(loop_scope="module")
async def alice(broker):
    async with client_of(broker, "User:alice") as client:
        yield client


def without(full, *names):
    """A snapshot that does not have these topics yet."""
    topics = {name: one for name, one in full.topics.items() if name not in names}
    topic_ids = {topic_id: name for topic_id, name in full.topic_names.items() if name not in names}
    return Snapshot(full.controller_id, full.brokers, topics, topic_ids)


async def test_delete_leaves_a_topic_whose_id_becomes_known_during_the_request(broker, alice, monkeypatch):
    full = broker.metadata.snapshot
    own, victim = full.topics["own"].topic_id, full.topics["victim"].topic_id
    deleted = []

    async def delete(self, name, take):
        deleted.append(name)
        broker.metadata.snapshot = full  # the controller's metadata arrives

    async def wait_until_deleted(self, name, timeout_s):
        return True

    monkeypatch.setattr(Topics, "delete", delete)
    monkeypatch.setattr(Topics, "wait_until_deleted", wait_until_deleted)
    monkeypatch.setattr(broker.metadata, "snapshot", without(full, "victim"))
    states = [DeleteTopicState(name=None, topic_id=one) for one in (own, victim)]
    answer = await alice.call(DeleteTopicsRequest(topics=states, timeout_ms=DEADLINE_MS), 6)
    assert deleted == ["own"]
    found = {one.topic_id: (one.name, one.error_code) for one in answer.responses}
    assert found == {own: ("own", 0), victim: (None, ErrorCode.UNKNOWN_TOPIC_ID)}


async def test_a_broker_that_is_not_the_controller_does_not_call_ids_unknown(broker, alice, monkeypatch):
    """The client must ask the controller, which may know the id."""
    monkeypatch.setattr(broker.services, "is_controller", lambda: False)
    states = [
        DeleteTopicState(name=None, topic_id=b"unknown_________"),
        DeleteTopicState(name="kept", topic_id=ZERO_UUID),
    ]
    answer = await alice.call(DeleteTopicsRequest(topics=states, timeout_ms=DEADLINE_MS), 6)
    assert [one.error_code for one in answer.responses] == [ErrorCode.NOT_CONTROLLER] * 2


@pytest.mark.parametrize("with_operations", [False, True])
async def test_metadata_that_waits_does_not_tell_a_topic_by_its_id(broker, alice, monkeypatch, with_operations):
    full = broker.metadata.snapshot
    own, victim = full.topics["own"].topic_id, full.topics["victim"].topic_id
    monkeypatch.setattr(broker.metadata, "snapshot", EMPTY)
    asked = [MetadataRequestTopic(name=None, topic_id=one) for one in (own, victim)]
    request = MetadataRequest(topics=asked, include_topic_authorized_operations=with_operations)
    waiting = asyncio.create_task(alice.call(request, 12))
    await until(lambda: broker.metadata._waiting, "the request waits for the brokers")
    broker.metadata.snapshot = full
    for one in list(broker.metadata._waiting):
        one.done() or one.set_result(None)
    answer = await waiting
    found = {one.topic_id: (one.name, one.error_code, len(one.partitions)) for one in answer.topics}
    assert found == {own: ("own", 0, 1), victim: (None, ErrorCode.TOPIC_AUTHORIZATION_FAILED, 0)}
