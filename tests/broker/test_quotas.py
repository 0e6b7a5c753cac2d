"""Quotas of a running broker: what clients are told, and what they have to wait for."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest
import pytest_asyncio

from broker.console import quota_metrics
from broker.console.metrics import METRICS, Source
from protocol.error_codes import ErrorCode
from protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from protocol.uuid import ZERO_UUID
from support.broker import running_broker
from support.deadlines import DEADLINE_MS
from support.polling import until
from support.wire import batch, create_topic, produce, wire_client

pytestmark = pytest.mark.asyncio(loop_scope="module")

USER = "users/ANONYMOUS"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def broker(tmp_path_factory):
    async with running_broker(tmp_path_factory.mktemp("quotas") / "data") as running:
        yield running


@pytest_asyncio.fixture(loop_scope="module")
async def quota(broker):
    """Set quotas of the user of all clients; they end with the test."""

    async def alter(path=USER, **values):
        await broker.services.configs.entities.alter(path, lambda config: {**config, **values})
        paths.append(path)

    paths = []
    yield alter
    for path in paths:
        await broker.services.configs.entities.alter(path, lambda config: {})
    broker.services.quotas._rates.clear()
    broker.services.quotas._buckets.clear()
    broker.services.quotas._limits.clear()


@pytest.fixture
def clock(broker, monkeypatch):
    """The time of the quotas: it passes in steps, so that a slow machine cannot expire what was counted."""
    stopped = SimpleNamespace(now_s=broker.services.quotas.now_s())
    monkeypatch.setattr(broker.services.quotas, "now_s", lambda: stopped.now_s)
    return stopped


def connections(broker):
    return broker.acceptors["PLAINTEXT"].connections


def muted(broker):
    return [one for one in connections(broker) if one._muted is not None]


async def test_a_producer_is_answered_at_once_and_then_muted(broker, quota):
    async with wire_client(broker.bootstrap_servers) as client, wire_client(broker.bootstrap_servers) as other:
        await create_topic(client, "muted")
        request = produce("muted", batch(bytes(5000)))
        size = 5000 + 100  # about
        await quota(producer_byte_rate=str((size - 50) // 10))  # a little less than is allowed in ten seconds
        answer = await client.call(request, 9)
        assert answer.responses[0].partition_responses[0].error_code == 0
        assert 0 < answer.throttle_time_ms < 1000
        assert len(muted(broker)) == 1
        waiting = asyncio.create_task(client.call(MetadataRequest(topics=[]), 9))
        await other.call(MetadataRequest(topics=[]), 9)  # others are served meanwhile, also of the same user
        assert (await waiting).throttle_time_ms == 0  # and this one when its time is over
        assert muted(broker) == []


async def test_a_client_that_leaves_while_it_is_muted_is_forgotten(broker, quota):
    await until(lambda: len(connections(broker)) == 1, "the controller's connection is left")
    async with wire_client(broker.bootstrap_servers) as client:
        await create_topic(client, "left")
        await quota(producer_byte_rate="1")
        answer = await client.call(produce("left", batch(bytes(1000))), 9)
        assert answer.throttle_time_ms > 900_000
    await until(lambda: len(connections(broker)) == 1, "the muted connection is gone")


async def test_acks_0_mutes_too(broker, quota):
    async with wire_client(broker.bootstrap_servers) as client:
        await create_topic(client, "silent")
        await quota(producer_byte_rate="1")
        client.send(produce("silent", batch(bytes(1000)), acks=0), 9)
        await until(lambda: len(muted(broker)) == 1, "the connection is muted")


def fetch_request(topic, *, session_id=0, session_epoch=-1, size=1 << 20, topics=True):
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=size)
    return FetchRequest(
        replica_id=-1,
        max_wait_ms=0,
        min_bytes=1,
        max_bytes=size,
        session_id=session_id,
        session_epoch=session_epoch,
        topics=[FetchTopic(topic=topic, partitions=[partition])] if topics else [],
    )


async def filled(client, name, batches, size):
    await create_topic(client, name)
    for _ in range(batches):
        await client.call(produce(name, batch(bytes(size))), 9)


def bytes_of(answer):
    return sum(len(one.records or b"") for topic in answer.responses for one in topic.partitions)


@pytest.mark.parametrize("version", [1, 4, 11, 12])
async def test_a_consumer_above_the_quota_gets_an_empty_answer(broker, quota, version, clock):
    async with wire_client(broker.bootstrap_servers) as client:
        name = f"consumed-{version}"
        await filled(client, name, 3, 20_000)
        await quota(consumer_byte_rate="5000")
        request = fetch_request(name)
        answers = [await client.call(request, version)]
        clock.now_s += (answers[0].throttle_time_ms + 1) / 1000  # it was rounded
        answers.append(await client.call(request, version))
        if version >= 4:  # as recorded: what ten seconds allow, and the rest of the answer, is a little too much
            assert 0 < answers[0].throttle_time_ms < 30
            assert answers[0].responses == []
            assert (answers[1].throttle_time_ms, bytes_of(answers[1])) == (0, 50_000)
            answers.append(await client.call(request, version))
        assert 0 < bytes_of(answers[-2]) <= 50_000
        assert answers[-1].throttle_time_ms > 5000
        assert answers[-1].responses == []
        [share] = broker.services.quotas.shares(10)
        assert bytes_of(answers[-2]) <= share.measure.total < 51_000  # the empty answers do not count


async def test_a_session_goes_on_after_an_empty_answer(broker, quota, clock):
    async with wire_client(broker.bootstrap_servers) as client, wire_client(broker.bootstrap_servers) as other:
        await filled(client, "session", 2, 20_000)
        sessions = len(broker.services.fetch_sessions)
        opened = await client.call(fetch_request("session", session_epoch=0, size=10_000), 12)
        await quota(consumer_byte_rate="1000")
        throttled = await client.call(fetch_request("session", session_id=opened.session_id, session_epoch=1), 12)
        assert throttled.throttle_time_ms > 0
        assert (throttled.session_id, throttled.responses) == (opened.session_id, [])
        refused = await other.call(fetch_request("session", session_epoch=0), 12)
        assert refused.throttle_time_ms > 0
        assert (refused.session_id, refused.responses) == (0, [])
        assert len(broker.services.fetch_sessions) == sessions + 1  # no new session began
        await quota(consumer_byte_rate="1000000")
        async with wire_client(broker.bootstrap_servers) as third:
            again = fetch_request("session", session_id=opened.session_id, session_epoch=2, topics=False)
            assert bytes_of(await third.call(again, 12)) > 40_000


async def test_a_fetch_that_waits_for_data_is_throttled_when_it_comes(broker, quota):
    async with wire_client(broker.bootstrap_servers) as consumer, wire_client(broker.bootstrap_servers) as producer:
        await create_topic(producer, "late")
        await quota(consumer_byte_rate="100")
        request = fetch_request("late")
        request.max_wait_ms = 20_000
        fetching = asyncio.create_task(consumer.call(request, 12))
        await until(lambda: broker.services.replicas.fetches.size == 1, "the fetch waits")
        await producer.call(produce("late", batch(bytes(5000))), 9)
        answer = await fetching
        assert answer.throttle_time_ms == pytest.approx(40_000, rel=0.1)
        assert answer.responses == []


def topics_request(names, partitions, validate_only=False):
    topics = [
        CreatableTopic(name=name, num_partitions=partitions, replication_factor=1, assignments=[], configs=[])
        for name in names
    ]
    return CreateTopicsRequest(topics=topics, timeout_ms=DEADLINE_MS, validate_only=validate_only)


async def test_controller_mutations_are_refused_or_only_throttled(broker, quota, clock):
    """As recorded: two topics overdraw the bucket, the next is refused; older versions never are."""
    await quota(controller_mutation_rate="1")

    async def ask(request, version):
        async with wire_client(broker.bootstrap_servers) as client:  # a new one: the last may be muted
            return await client.call(request, version)

    created = await ask(topics_request(["m-0", "m-1", "m-2"], 6), 7)
    assert [topic.error_code for topic in created.topics] == [0, 0, ErrorCode.THROTTLING_QUOTA_EXCEEDED]
    assert 0 < created.throttle_time_ms <= 1000
    assert created.topics[2].error_message is None
    validated = await ask(topics_request(["m-9"], 1, validate_only=True), 7)
    assert (validated.topics[0].error_code, validated.throttle_time_ms) == (0, 0)
    grow = CreatePartitionsRequest(
        topics=[CreatePartitionsTopic(name="m-0", count=9, assignments=None)], timeout_ms=DEADLINE_MS
    )
    refused = await ask(grow, 3)
    assert refused.results[0].error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert refused.throttle_time_ms > 0
    grown = await ask(grow, 2)
    assert grown.results[0].error_code == 0
    assert grown.throttle_time_ms > refused.throttle_time_ms
    delete = DeleteTopicsRequest(topics=[DeleteTopicState(name="m-1", topic_id=ZERO_UUID)], timeout_ms=DEADLINE_MS)
    refused = await ask(delete, 6)
    assert refused.responses[0].error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    deleted = await ask(DeleteTopicsRequest(topic_names=["m-1"], timeout_ms=DEADLINE_MS), 4)
    assert deleted.responses[0].error_code == 0
    assert deleted.throttle_time_ms > refused.throttle_time_ms
    [share] = broker.services.quotas.shares(10)
    assert share.measure._tokens == 11 - 6 - 6 - 3 - 6


async def test_topics_that_are_created_automatically_count_too(broker, quota, clock):
    await quota(controller_mutation_rate="1")
    async with wire_client(broker.bootstrap_servers) as client:
        request = MetadataRequest(
            topics=[MetadataRequestTopic(name=f"automatic-{number}") for number in range(20)],
            allow_auto_topic_creation=True,
        )
        answer = await client.call(request, 9)
        assert answer.throttle_time_ms == 0
        assert len(answer.topics) == 20
        refused = await client.call(topics_request(["refused"], 1), 7)
        assert refused.topics[0].error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED


async def test_large_requests_above_the_quota_make_progress(broker, quota):
    async with wire_client(broker.bootstrap_servers) as client:
        await create_topic(client, "large")
        await quota(producer_byte_rate="20000")
        for _ in range(3):
            answer = await client.call(produce("large", batch(bytes(202_000))), 9)
            assert answer.responses[0].partition_responses[0].error_code == 0
            broker.services.quotas._rates.clear()  # as if time had passed
            broker.services.quotas._limits.clear()


async def test_an_address_above_its_quota_is_held_and_closed(broker, quota):
    await quota("ips/127.0.0.1", connection_creation_rate="0")
    limits = broker._listeners._quota
    async with wire_client(broker.bootstrap_servers) as client:
        client.send(MetadataRequest(topics=[]), 9)
        await until(lambda: len(limits._held_to_close) == 1, "the connection is held")
        [held] = limits._held_to_close
        assert held._held
    await until(lambda: not limits._held_to_close, "it is forgotten when it leaves")


async def test_the_metrics_of_quotas_have_a_bounded_number_of_entities(broker, quota, monkeypatch):
    def read(name):
        [metric] = [one for one in METRICS if one.name == f"ottla_quota_{name}"]
        return dict(metric.read(Source(broker.services, {}, "v")))

    assert read("rate") == {}
    await quota(producer_byte_rate="100")
    await quota("clients/<default>", consumer_byte_rate="100")
    quotas = broker.services.quotas
    share = quotas.of("ANONYMOUS", "wire").produce
    share.throttle(share.measure.record(1500, quotas.now_s()))
    key = ("producer_byte_rate", "ANONYMOUS", "")
    assert read("rate")[key] == pytest.approx(150, rel=0.01)
    assert read("limit")[key] == 100
    assert read("throttled_requests")[key] == 1
    assert read("throttled_seconds")[key] == pytest.approx(5, rel=0.01)
    monkeypatch.setattr(quota_metrics, "MAX_ENTITIES", 3)
    for number in range(10):
        quotas.settle_fetch("ANONYMOUS", f"client-{number}", 10, 0)
    assert len(read("rate")) == 3
