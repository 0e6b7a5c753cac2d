"""Fetch sessions (KIP-227): the bookkeeping by itself, and whole lives of sessions over the wire."""

from __future__ import annotations

import random

import pytest

from broker.fetch_sessions import EVICTION_MS, FetchSessionError, FetchSessions
from protocol.error_codes import ErrorCode
from protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic
from protocol.record_batch import iter_batches
from replication.fetch import FetchPartition as Wanted
from support.broker import running_broker
from support.wire import append, batch, create_topic, fetch, wire_client

pytestmark = pytest.mark.asyncio(loop_scope="module")


class Clock:
    def __init__(self):
        self.ms = 1_000_000

    def __call__(self):
        return self.ms


def sessions(slots=3):
    clock = Clock()
    return FetchSessions(slots, clock, random.Random(1)), clock


def filled(made, partitions):
    made.update([(("t", i), Wanted("t", bytes(16), i, 0, 100)) for i in range(partitions)], ())
    return made


# -- the bookkeeping ---------------------------------------------------------------------------------------------------


async def test_epochs_increase_and_wrap():
    held, _ = sessions()
    session = held.create(1, is_follower=False, uses_topic_ids=False)
    assert held.use(session.id, 1, uses_topic_ids=False) is session
    assert held.use(session.id, 2, uses_topic_ids=False) is session
    for epoch in (1, 2, 4, 0, -1):
        with pytest.raises(FetchSessionError) as error:
            held.use(session.id, epoch, uses_topic_ids=False)
        assert error.value.code is ErrorCode.INVALID_FETCH_SESSION_EPOCH
    session.epoch = 2**31 - 1
    held.use(session.id, 2**31 - 1, uses_topic_ids=False)
    assert session.epoch == 1


async def test_the_topics_of_a_session():
    held, _ = sessions()
    session = filled(held.create(2, is_follower=False, uses_topic_ids=False), 2)
    assert held.topics_of(session.id) == {"t"}
    assert held.topics_of(session.id + 1) == set()


async def test_unknown_ids_and_topic_ids():
    held, _ = sessions()
    session = held.create(1, is_follower=False, uses_topic_ids=True)
    with pytest.raises(FetchSessionError) as error:
        held.use(session.id + 1, 1, uses_topic_ids=True)
    assert error.value.code is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    with pytest.raises(FetchSessionError) as error:
        held.use(session.id, 1, uses_topic_ids=False)
    assert error.value.code is ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
    assert held.use(session.id, 1, uses_topic_ids=True) is session  # a refused request does not advance the epoch


async def test_without_slots_there_are_no_sessions():
    held, _ = sessions(0)
    assert held.create(1, is_follower=False, uses_topic_ids=False) is None
    assert held.create(1, is_follower=True, uses_topic_ids=False) is None


async def test_the_least_recently_used_session_is_evicted_after_two_minutes():
    held, clock = sessions(2)
    first = filled(held.create(5, is_follower=False, uses_topic_ids=False), 5)
    clock.ms += 1000
    second = filled(held.create(5, is_follower=False, uses_topic_ids=False), 5)
    clock.ms += EVICTION_MS - 999
    third = held.create(1, is_follower=False, uses_topic_ids=False)
    assert third is not None
    assert {session.id for session in held._sessions.values()} == {second.id, third.id}
    assert first.id not in held._sessions


async def test_used_sessions_stay_unless_they_are_old_and_smaller():
    held, clock = sessions(1)
    session = filled(held.create(5, is_follower=False, uses_topic_ids=False), 5)
    assert held.create(50, is_follower=False, uses_topic_ids=False) is None  # too young
    clock.ms += EVICTION_MS + 1
    held.use(session.id, 1, uses_topic_ids=False)
    assert held.create(4, is_follower=False, uses_topic_ids=False) is None  # smaller than what is there
    bigger = held.create(6, is_follower=False, uses_topic_ids=False)
    assert bigger is not None
    assert list(held._sessions) == [bigger.id]


async def test_sessions_of_followers_evict_sessions_of_clients():
    held, clock = sessions(1)
    consumer = filled(held.create(50, is_follower=False, uses_topic_ids=False), 50)
    follower = filled(held.create(1, is_follower=True, uses_topic_ids=False), 1)
    assert follower is not None
    assert consumer.id not in held._sessions
    assert held.create(50, is_follower=False, uses_topic_ids=False) is None
    clock.ms += EVICTION_MS + 1
    held.use(follower.id, 1, uses_topic_ids=False)
    assert held.create(50, is_follower=False, uses_topic_ids=False) is None  # never by a consumer while it is used
    assert held.create(2, is_follower=True, uses_topic_ids=False) is not None


# -- over the wire -----------------------------------------------------------------------------------------------------


def asked(session_id, epoch, *wanted, forgotten=(), by_id=False, **fields):
    """wanted: (topic or id, partition, offset); forgotten: (topic or id, partition)."""

    def of(topic):
        return {"topic_id": topic} if by_id else {"topic": topic}

    topics = [
        FetchTopic(
            **of(topic),
            partitions=[FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=1 << 20)],
        )
        for topic, partition, offset in wanted
    ]
    forgotten_topics = [ForgottenTopic(**of(topic), partitions=[partition]) for topic, partition in forgotten]
    defaults = {"replica_id": -1, "max_wait_ms": 0, "min_bytes": 1, "max_bytes": 1 << 24}
    return FetchRequest(
        **defaults | fields,
        session_id=session_id,
        session_epoch=epoch,
        topics=topics,
        forgotten_topics_data=forgotten_topics,
    )


def told(answer):
    """What an answer says: {(topic or id, partition): values or error}."""
    assert answer.error_code == 0
    return {
        (topic.topic or topic.topic_id, one.partition_index): (
            ErrorCode(one.error_code)
            if one.error_code
            else [record.value for each in iter_batches(one.records) for record in each.records()]
        )
        for topic in answer.responses
        for one in topic.partitions
    }


@pytest.mark.parametrize("version", [7, 12, 13, 17])
async def test_a_session_from_creation_to_close(client, name, version):
    first, second = name(), name()
    by_id = version >= 13
    ids = {topic: await create_topic(client, topic, partitions=2) for topic in (first, second)}
    a, b = (ids[first], ids[second]) if by_id else (first, second)
    await append(client, first, batch(b"1"))
    opened = await client.call(asked(0, 0, (a, 0, 0), (a, 1, 0), (b, 0, 0), by_id=by_id), version)
    session = opened.session_id
    assert session > 0
    assert told(opened) == {(a, 0): [b"1"], (a, 1): [], (b, 0): []}
    # Only what changes is named: here the offset that was read up to.
    answer = await client.call(asked(session, 1, (a, 0, 1), by_id=by_id), version)
    assert answer.session_id == session
    assert told(answer) == {}
    await append(client, second, batch(b"2"))
    answer = await client.call(asked(session, 2, by_id=by_id), version)
    assert told(answer) == {(b, 0): [b"2"]}
    # Not read on: told again, as often as asked.
    assert told(await client.call(asked(session, 3, by_id=by_id), version)) == {(b, 0): [b"2"]}
    # Forgotten partitions are not answered, new ones are.
    await append(client, first, batch(b"3"), 1)
    request = asked(session, 4, (b, 1, 0), forgotten=[(b, 0), (a, 1)], by_id=by_id)
    assert told(await client.call(request, version)) == {(b, 1): []}
    # A wrong epoch is refused and does no harm.
    for epoch in (4, 6):
        refused = await client.call(asked(session, epoch, by_id=by_id), version)
        assert (refused.error_code, refused.session_id) == (ErrorCode.INVALID_FETCH_SESSION_EPOCH, 0)
    assert told(await client.call(asked(session, 5, (a, 1, 0), by_id=by_id), version)) == {(a, 1): [b"3"]}
    # With its last partition the session goes, too.
    request = asked(session, 6, forgotten=[(a, 0), (a, 1), (b, 1)], by_id=by_id)
    answer = await client.call(request, version)
    assert (answer.session_id, told(answer)) == (0, {})
    gone = await client.call(asked(session, 7, by_id=by_id), version)
    assert gone.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


async def test_a_session_is_closed_and_replaced(broker, client, name):
    topic = name()
    await create_topic(client, topic)
    held = broker.services.fetch_sessions
    before = len(held)
    first = (await client.call(asked(0, 0, (topic, 0, 0)), 12)).session_id
    assert len(held) == before + 1
    second = (await client.call(asked(first, 0, (topic, 0, 0)), 12)).session_id  # replaces the first session
    assert second not in (0, first)
    assert len(held) == before + 1
    closing = await client.call(asked(second, -1, (topic, 0, 0)), 12)
    assert (closing.session_id, told(closing)) == (0, {(topic, 0): []})
    assert len(held) == before


async def test_a_session_with_topic_ids_refuses_names_and_vice_versa(client, name):
    topic = name()
    topic_id = await create_topic(client, topic)
    by_id = (await client.call(asked(0, 0, (topic_id, 0, 0), by_id=True), 13)).session_id
    by_name = (await client.call(asked(0, 0, (topic, 0, 0)), 12)).session_id
    assert (await client.call(asked(by_id, 1), 12)).error_code == ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
    assert (await client.call(asked(by_name, 1), 13)).error_code == ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR


async def test_an_error_is_repeated_until_it_ends(client, name):
    topic = name()
    await create_topic(client, topic)
    await append(client, topic, batch(b"a"))
    session = (await client.call(asked(0, 0, (topic, 0, 0)), 12)).session_id
    for epoch in (1, 2):
        answer = await client.call(asked(session, epoch, (topic, 0, 50)), 12)
        assert told(answer) == {(topic, 0): ErrorCode.OFFSET_OUT_OF_RANGE}
    answer = await client.call(asked(session, 3, (topic, 0, 1)), 12)
    assert told(answer) == {(topic, 0): []}  # the error's end is news, though there is no data
    assert told(await client.call(asked(session, 4), 12)) == {}


async def test_a_session_finds_a_topic_that_is_created_later(client, name):
    topic, later = name(), name()
    await create_topic(client, topic)
    opened = await client.call(asked(0, 0, (topic, 0, 0), (later, 0, 0)), 12)
    assert told(opened) == {(topic, 0): [], (later, 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    await create_topic(client, later)
    await append(client, later, batch(b"a"))
    assert told(await client.call(asked(opened.session_id, 1), 12)) == {(later, 0): [b"a"]}


async def test_partitions_with_data_take_turns(client, name):
    first, second = name(), name()
    for topic in (first, second):
        await create_topic(client, topic)
        for i in range(3):
            await append(client, topic, batch(b"%d" % i * 1000))
    opened = await client.call(asked(0, 0, (first, 0, 0), (second, 0, 0), max_bytes=1), 12)
    assert [topic for (topic, _), got in told(opened).items() if got] == [first]
    seen = []
    for epoch in range(1, 5):
        answer = await client.call(asked(opened.session_id, epoch, max_bytes=1), 12)
        seen += [topic for (topic, _), got in told(answer).items() if got]
    assert seen == [first, second, first, second]


async def test_before_version_7_there_are_no_sessions(broker, client, name):
    topic = name()
    await create_topic(client, topic)
    before = len(broker.services.fetch_sessions)
    answer = await client.call(fetch(topic), 6)
    assert answer.session_id == 0
    assert len(broker.services.fetch_sessions) == before


async def test_fetches_are_answered_without_a_session_if_the_cache_is_full(tmp_path):
    async with (
        running_broker(tmp_path / "data", max_incremental_fetch_session_cache_slots="1") as broker,
        wire_client(broker.bootstrap_servers) as client,
    ):
        await create_topic(client, "t")
        await append(client, "t", batch(b"a"))
        assert (await client.call(asked(0, 0, ("t", 0, 0)), 12)).session_id > 0
        answer = await client.call(asked(0, 0, ("t", 0, 0)), 12)
        assert (answer.session_id, told(answer)) == (0, {("t", 0): [b"a"]})
