"""`Faults`: a method for each verb, with its options; faults of requests as clients of other libraries meet them."""

import asyncio
import inspect
from dataclasses import MISSING, fields

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.errors import KafkaConnectionError, MessageSizeTooLargeError
from confluent_kafka import Consumer, KafkaException
from confluent_kafka.admin import AdminClient

from ottla import testing
from ottla.testing.faults.errors import FaultError, UnknownFaultError
from ottla.testing.faults.faults import Faults
from ottla.testing.faults.verbs import VERBS
from support.deadlines import DEADLINE_S
from support.faulty_cluster import QUICK, SeenProducer, consume, create_topic


@pytest.fixture(scope="module")
def cluster():
    with testing.cluster(2) as running:
        yield running


@pytest.fixture(autouse=True)
def healed(cluster):
    yield
    cluster.faults.heal_all()


@pytest.mark.parametrize("name", VERBS)
def test_each_verb_has_a_method_with_its_options(name):
    method = inspect.signature(getattr(Faults, name), eval_str=True)
    options = {field.name: field for field in fields(VERBS[name].description)}
    taken = {name: one for name, one in method.parameters.items() if name != "self"}
    assert taken.keys() == options.keys()
    for option, parameter in taken.items():
        default = options[option].default
        assert parameter.default == (parameter.empty if default is MISSING else default)
        assert options[option].metadata["help"]
    assert VERBS[name].summary
    assert getattr(Faults, name).__doc__


def test_a_block_heals(cluster):
    with cluster.faults.answer("Metadata", error="LEADER_NOT_AVAILABLE", topic="t") as fault:
        assert [one["id"] for one in cluster.faults.active()] == [fault.id]
        assert fault.state == cluster.faults.active()[0]
    assert cluster.faults.active() == []
    fault.heal()
    with pytest.raises(UnknownFaultError):
        cluster.faults.heal(fault.id)


def test_faults_of_a_cluster_that_does_not_run():
    stopped = testing.cluster(1)
    with pytest.raises(RuntimeError, match="does not run"):
        _ = stopped.faults


def test_a_cluster_that_stops_with_faults_leaves_nothing():
    with testing.broker() as broker:
        broker.faults.pause(0, for_s=3600)
        broker.faults.answer("Fetch", close=True, for_s=3600)


# -- answer, as producers and consumers meet it ------------------------------------------------------------------------


def test_a_retriable_error_is_retried(cluster):
    topic = create_topic(cluster, "retriable", [1, 2])
    producer = SeenProducer(cluster.bootstrap_servers)
    fault = cluster.faults.answer("Produce", error="NOT_ENOUGH_REPLICAS", count=2, topic=topic)
    assert producer.deliver(topic, b"one") == (None, 0)
    assert fault.state is None


def test_an_error_that_is_not_retriable_fails(cluster):
    topic = create_topic(cluster, "fatal", [1, 2])
    producer = SeenProducer(cluster.bootstrap_servers, client_id="unlucky")
    cluster.faults.answer("Produce", error="TOPIC_AUTHORIZATION_FAILED", client_id="unlucky")
    assert producer.deliver(topic, b"one") == ("TOPIC_AUTHORIZATION_FAILED", None)
    assert SeenProducer(cluster.bootstrap_servers).deliver(topic, b"two") == (None, 0)


@pytest.mark.parametrize("applied", [False, True])
def test_a_lost_answer_is_no_duplicate_with_idempotence(cluster, applied):
    topic = create_topic(cluster, f"lost-{applied}", [1, 2])
    producer = SeenProducer(cluster.bootstrap_servers, enable_idempotence=True)
    assert producer.deliver(topic, b"one") == (None, 0)
    cluster.faults.answer("Produce", close=True, applied=applied, count=1)
    assert producer.deliver(topic, b"two")[0] is None
    producer.until(lambda: producer.disconnects > 0, "the connection was closed")
    assert producer.deliver(topic, b"three")[0] is None
    assert consume(cluster.bootstrap_servers, topic, 3) == [b"one", b"two", b"three"]


def test_aiokafka_raises_the_error(cluster):
    topic = create_topic(cluster, "aio", [1, 2])

    async def run():
        async with AIOKafkaProducer(bootstrap_servers=cluster.bootstrap_servers) as producer:
            with cluster.faults.answer("Produce", error="MESSAGE_TOO_LARGE") as fault:
                with pytest.raises(MessageSizeTooLargeError):
                    await producer.send_and_wait(topic, b"one")
                assert fault.state["uses"] == 1
            return (await producer.send_and_wait(topic, b"two")).offset

    assert asyncio.run(run()) == 0


def test_an_answer_without_records_and_a_late_one(cluster):
    topic = create_topic(cluster, "late", [1, 2])
    assert SeenProducer(cluster.bootstrap_servers).deliver(topic, b"one") == (None, 0)
    cluster.faults.answer("Fetch", empty=True, count=2)
    cluster.faults.answer("Fetch", delay_s=0.05, count=2)

    async def run():
        settings = {"bootstrap_servers": cluster.bootstrap_servers, "auto_offset_reset": "earliest"}
        async with AIOKafkaConsumer(topic, **settings) as consumer:
            return (await consumer.getone()).value

    assert asyncio.run(run()) == b"one"


def test_commits_and_groups(cluster):
    topic = create_topic(cluster, "commits", [1, 2])
    assert SeenProducer(cluster.bootstrap_servers).deliver(topic, b"one") == (None, 0)
    consumer = Consumer(
        {"bootstrap.servers": cluster.bootstrap_servers, "group.id": "g", "auto.offset.reset": "earliest"}
        | {"enable.auto.commit": False}
        | QUICK
    )
    consumer.subscribe([topic])
    try:
        (message,) = consumer.consume(1, DEADLINE_S)
        cluster.faults.answer("OffsetCommit", error="GROUP_AUTHORIZATION_FAILED", count=1)
        with pytest.raises(KafkaException) as caught:
            consumer.commit(message, asynchronous=False)
        assert caught.value.args[0].name() == "GROUP_AUTHORIZATION_FAILED"
        consumer.commit(message, asynchronous=False)
    finally:
        consumer.close()


def test_an_admin_that_gets_no_answer(cluster):
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers} | QUICK)
    with cluster.faults.answer("ListGroups", close=True):
        groups = admin.list_consumer_groups(request_timeout=1).result(DEADLINE_S)
        assert groups.errors
    assert not admin.list_consumer_groups(request_timeout=DEADLINE_S).result(2 * DEADLINE_S).errors


def test_a_client_that_cannot_start(cluster):
    async def start():
        producer = AIOKafkaProducer(bootstrap_servers=cluster.bootstrap_servers)
        try:
            await producer.start()
        finally:
            await producer.stop()

    with cluster.faults.answer("ApiVersions", close=True), pytest.raises(KafkaConnectionError):
        asyncio.run(start())
    asyncio.run(start())


def test_followers_are_no_clients(cluster):
    """A fault of Fetch is not about the requests of followers, unless it has their client id."""
    topic = create_topic(cluster, "followers", [1, 2], min_insync_replicas="2")
    fault = cluster.faults.answer("Fetch", close=True)
    producer = SeenProducer(cluster.bootstrap_servers)
    assert [producer.deliver(topic, b"v")[0] for _ in range(3)] == [None] * 3
    assert fault.state["uses"] == 0


def test_wrong_options_are_refused(cluster):
    with pytest.raises(FaultError, match=r"error=NOT_ENOUGH: .* did you mean NOT_ENOUGH_REPLICAS"):
        cluster.faults.answer("Produce", error="NOT_ENOUGH")
