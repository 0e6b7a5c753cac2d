"""Captured requests: what is kept of them, how a test waits for one, and what its error shows."""

import asyncio

import pytest
from aiokafka import AIOKafkaConsumer

from broker.requests.api_table import API_TABLE
from broker.requests.context import RequestContext
from broker.requests.handler import Handler
from broker.requests.tasks import RequestTasks
from ottla import testing
from ottla.testing.requests import CapturedRequests
from protocol.error_codes import ErrorCode
from protocol.messages.metadata import MetadataRequest, MetadataResponse
from protocol.messages.produce import ProduceRequest
from protocol.record_batch import iter_batches
from support.deadlines import DEADLINE_S
from support.faulty_cluster import SeenProducer, consume, create_topic
from support.polling import until, until_blocking


@pytest.fixture(scope="module")
def cluster():
    with testing.cluster(2) as running:
        yield running


@pytest.fixture(autouse=True)
def cleared(cluster):
    cluster.faults.heal_all()
    cluster.requests.clear()


def test_a_request_of_a_client(cluster):
    topic = create_topic(cluster, "captured", [2, 1])
    producer = SeenProducer(cluster.bootstrap_servers, client_id="billing")
    other = SeenProducer(cluster.bootstrap_servers, client_id="other")
    assert other.deliver(topic, b"other") == (None, 0)
    assert producer.deliver(topic, b"value") == (None, 1)
    (one,) = cluster.requests.wait(api="produce", client_id="billing", timeout_s=DEADLINE_S)
    assert (one.broker, one.api, one.client_id, one.topics) == (2, "Produce", "billing", {topic})
    assert (one.error_code, one.is_over) == (ErrorCode.NONE, True)
    assert one.size_bytes > len(b"value")
    assert isinstance(one.request, ProduceRequest)
    (data,) = one.request.topic_data[0].partition_data
    (batch,) = iter_batches(data.records)
    assert [bytes(record.value) for record in batch.records()] == [b"value"]
    assert str(one) == f"Produce v{one.version} of {topic} from 'billing' to broker 2: NONE"
    assert {one.client_id for one in cluster.requests.seen(topic=topic, api="Produce", broker=2)} == {
        "billing",
        "other",
    }
    numbers = [one.number for one in cluster.requests.seen()]
    assert numbers == sorted(set(numbers))


def test_errors_and_lost_answers(cluster):
    topic = create_topic(cluster, "errors", [1])
    producer = SeenProducer(cluster.bootstrap_servers, client_id="unlucky")
    cluster.faults.answer("Produce", error="NOT_ENOUGH_REPLICAS", count=1)
    assert producer.deliver(topic, b"one") == (None, 0)
    cluster.faults.answer("Produce", close=True, count=1)
    assert producer.deliver(topic, b"two") == (None, 1)
    found = cluster.requests.wait(api="Produce", count=4, timeout_s=DEADLINE_S)
    assert [one.error_code for one in found] == [ErrorCode.NOT_ENOUGH_REPLICAS, 0, None, 0]
    assert str(found[2]).endswith("no answer")


def test_topics_by_id_and_requests_that_wait(cluster):
    topic = create_topic(cluster, "waits", [1])
    assert SeenProducer(cluster.bootstrap_servers).deliver(topic, b"one") == (None, 0)
    assert consume(cluster.bootstrap_servers, topic, 1, client_id="reader") == [b"one"]

    async def read():
        settings = {"bootstrap_servers": cluster.bootstrap_servers, "client_id": "aio", "auto_offset_reset": "earliest"}
        async with AIOKafkaConsumer(topic, **settings) as consumer:
            return (await consumer.getone()).value

    assert asyncio.run(read()) == b"one"
    for client_id in ("reader", "aio"):
        assert cluster.requests.wait(api="Fetch", client_id=client_id, topic=topic, timeout_s=DEADLINE_S)
    assert cluster.requests.seen(api="JoinGroup", client_id="reader")


def test_a_client_that_leaves_while_its_request_waits(cluster):
    topic = create_topic(cluster, "left", [1])

    def waits():
        return any(not one.is_over for one in cluster.requests.seen(api="Fetch", client_id="leaver"))

    async def leave():
        settings = {"bootstrap_servers": cluster.bootstrap_servers, "client_id": "leaver", "fetch_max_wait_ms": 30_000}
        async with AIOKafkaConsumer(topic, **settings):
            await until(waits, "it waits for records")

    asyncio.run(leave())
    (one,) = cluster.requests.wait(api="Fetch", client_id="leaver", timeout_s=DEADLINE_S)
    assert (one.is_over, one.error_code) == (True, None)


def test_a_broker_that_stops_while_its_request_waits(cluster):
    topic = create_topic(cluster, "stranded", [2])
    cluster.faults.answer("Produce", delay_s=600, broker=2)
    producer = SeenProducer(cluster.bootstrap_servers, client_id="stranded")
    producer.send(topic, b"value")
    until_blocking(lambda: cluster.requests.seen(api="Produce", client_id="stranded"), "it waits")
    cluster.faults.kill(2)
    one = cluster.requests.wait(api="Produce", client_id="stranded", timeout_s=DEADLINE_S)[0]
    assert (one.is_over, one.error_code) == (True, None)
    producer.client.purge()


async def test_a_broker_that_stops_before_it_begins_to_answer():
    """A coroutine that nobody awaits would be a warning."""

    class Later(Handler):
        async def handle(self, request, context):
            return MetadataResponse()

        def failed(self, request, code):
            raise AssertionError

    captured = CapturedRequests(None, lambda context: False)
    api = next(api for api in API_TABLE if api.name == "Metadata")
    handler = captured.wrapper(1, lambda: 0, lambda topic_id: None)(api, Later())
    answer = handler.handle(MetadataRequest(topics=[]), RequestContext(None, 12, 0, "client"))
    assert RequestTasks(asyncio.TaskGroup()).start(answer).cancelled()
    (one,) = await captured.chosen(lambda one: True)
    assert (one.is_over, one.error_code) == (True, None)


def test_brokers_are_no_clients(cluster):
    topic = create_topic(cluster, "replicated", [1, 2])
    assert SeenProducer(cluster.bootstrap_servers, client_id="p").deliver(topic, b"one") == (None, 0)
    apis = {one.api for one in cluster.requests.seen()}
    assert "Produce" in apis
    assert not apis & {"Fetch", "LeaderAndIsr", "UpdateMetadata", "AlterPartition"}


def test_a_request_that_does_not_come(cluster):
    create_topic(cluster, "missing", [1])
    with pytest.raises(AssertionError, match="1 request with api=Produce, client_id=billing") as caught:
        cluster.requests.wait(api="Produce", client_id="billing", timeout_s=0.01)
    assert "CreateTopics" in str(caught.value)


def test_memory_is_bounded(cluster, monkeypatch):
    monkeypatch.setattr(cluster.requests, "max_bytes", 10_000)
    topic = create_topic(cluster, "bounded", [1])
    producer = SeenProducer(cluster.bootstrap_servers)
    for _ in range(5):
        assert producer.deliver(topic, bytes(4000))[0] is None
    assert len(cluster.requests.seen(api="Produce")) == 2
    assert producer.deliver(topic, bytes(40_000))[0] is None
    assert [one.size_bytes > 10_000 for one in cluster.requests.seen(api="Produce")] == [True]
    monkeypatch.setattr(cluster.requests, "max_requests", 3)
    for _ in range(5):
        assert producer.deliver(topic, b"")[0] is None
    assert len(cluster.requests.seen()) == 3
