"""Several batches of a partition under way: each is written once and in order, whatever becomes of the others.

Every record is a batch of its own here.
"""

import asyncio
import random

import pytest

from client.errors import KafkaError
from client.producer.producer import Producer
from client.topic_partition import TopicPartition
from protocol.api_keys import ApiKey
from protocol.error_codes import ErrorCode
from protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from protocol.record_batch import read_batch
from support.fake_broker import APPLY_AND_CLOSE, CLOSE, SILENCE, FakeBroker
from support.polling import until

PRODUCE = ApiKey.PRODUCE
OK = ErrorCode.NONE


@pytest.fixture
async def fake():
    async with FakeBroker({"t": 1, "many": 3}) as broker:
        yield broker


def producer(fake, **options):
    named = {"retry_backoff_ms": 1, "retry_backoff_max_ms": 5, "random": random.Random(1), "batch_size": 1}
    return Producer(bootstrap_servers=fake.address, **(named | options))


def values(fake, topic="t", partition=0):
    return [record.value for record in fake.records(topic, partition)]


def identities(fake):
    batches = [read_batch(data) for data in fake.logs["t", 0]]
    return [(batch.producer_epoch, batch.base_sequence) for batch in batches]


def in_flight(sender):
    return sender._sender.queues[TopicPartition("t", 0)].in_flight


def hold(fake):
    """The next produce request is carried out when the event is set."""
    event = asyncio.Event()

    async def later(request, version):
        await event.wait()
        return fake._produce(request, version, OK)

    fake.script[PRODUCE].append(later)
    return event


def unanswered(fake):
    """Carry out, and forget to answer: the next answer breaks the connection."""

    def action(request, version):
        fake._produce(request, version, OK)

    return action


def applied(fake, code):
    """Carry out, and answer with an error."""

    def action(request, version):
        fake._produce(request, version, OK)
        return fake._produce(request, version, code)

    return action


@pytest.mark.parametrize(
    ("options", "most"),
    [
        ({}, 5),
        ({"max_in_flight_requests_per_connection": 20}, 5),
        ({"max_in_flight_requests_per_connection": 2}, 2),
        ({"acks": 1}, 1),
        ({"enable_idempotence": False}, 1),
    ],
)
async def test_the_number_of_batches_in_flight_is_limited(fake, options, most):
    async with producer(fake, **options) as sender:
        await sender.send("t", b"0")
        event = hold(fake)
        futures = [sender.send_nowait("t", b"%d" % number) for number in range(1, 9)]
        await until(lambda: in_flight(sender) == most, "batches in flight")
        event.set()
        assert [(await future).offset for future in futures] == list(range(1, 9))
    assert values(fake) == [b"%d" % number for number in range(9)]


async def test_the_first_batch_of_a_producer_is_sent_alone(fake):
    """A broker takes any number from a producer that it has never seen."""
    fake.script[PRODUCE] = [ErrorCode.NOT_ENOUGH_REPLICAS]
    async with producer(fake) as sender:
        await asyncio.gather(*(sender.send("t", b"%d" % number) for number in range(4)))
    assert values(fake) == [b"0", b"1", b"2", b"3"]


async def test_a_partial_batch_waits_for_the_answer_unless_flushed(fake):
    async with producer(fake, batch_size=1000) as sender:
        await sender.send("t", b"0")
        event = hold(fake)
        sender.send_nowait("t", b"1")
        await until(lambda: in_flight(sender) == 1, "the first")
        sender.send_nowait("t", b"2")
        for _ in range(5):
            await asyncio.sleep(0)
        assert in_flight(sender) == 1
        flushing = asyncio.ensure_future(sender.flush())
        await until(lambda: in_flight(sender) == 2, "the second")
        event.set()
        await flushing
    assert values(fake) == [b"0", b"1", b"2"]


@pytest.mark.parametrize("trouble", [ErrorCode.NOT_ENOUGH_REPLICAS, CLOSE, APPLY_AND_CLOSE], ids=str)
@pytest.mark.parametrize("which", range(5))
async def test_a_failed_batch_is_resent_in_order(fake, which, trouble):
    fake.script[PRODUCE] = [OK] + [OK] * which + [trouble]
    async with producer(fake) as sender:
        await sender.send("t", b"0")
        futures = [sender.send_nowait("t", b"%d" % number) for number in range(1, 9)]
        assert [(await future).offset for future in futures] == list(range(1, 9))
    assert values(fake) == [b"%d" % number for number in range(9)]
    assert {epoch for epoch, _ in identities(fake)} == {0}


async def test_a_permanently_refused_batch_does_not_affect_the_others(fake):
    fake.script[PRODUCE] = [OK, OK, ErrorCode.INVALID_RECORD]
    async with producer(fake) as sender:
        await sender.send("t", b"0")
        done = await asyncio.gather(*(sender.send("t", b"%d" % one) for one in range(1, 9)), return_exceptions=True)
        assert [one.offset if one in done and not isinstance(one, KafkaError) else None for one in done] == [
            1,
            None,
            *range(2, 8),
        ]
    assert values(fake) == [b"0", b"1", *(b"%d" % number for number in range(3, 9))]
    assert identities(fake) == [(0, 0), (0, 1), *((1, number) for number in range(6))]


async def test_a_broker_that_remembers_only_the_last_batch(fake):
    """Five were written and not acknowledged, the broker was started again: it refuses four that it has."""
    fake.script[PRODUCE] = [OK, *[unanswered(fake)] * 4, APPLY_AND_CLOSE, lambda *_: fake.forget() or CLOSE]
    async with producer(fake) as sender:
        await sender.send("t", b"0")
        futures = [sender.send_nowait("t", b"%d" % number) for number in range(1, 9)]
        offsets = [(await future).offset for future in futures]
    assert offsets == [-1, -1, -1, -1, 5, 6, 7, 8]
    assert values(fake) == [b"%d" % number for number in range(9)]
    assert {epoch for epoch, _ in identities(fake)} == {0}


async def test_an_acknowledged_batch_implies_that_earlier_ones_are_written(fake):
    """The first is written and answered with an error, those behind it are acknowledged; then it is forgotten."""
    after_append = applied(fake, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)
    fake.script[PRODUCE] = [OK, after_append, OK, OK, OK, OK, lambda *_: fake.forget() or CLOSE]
    async with producer(fake) as sender:
        await sender.send("t", b"0")
        futures = [sender.send_nowait("t", b"%d" % number) for number in range(1, 7)]
        offsets = [(await future).offset for future in futures]
    assert offsets == [-1, 2, 3, 4, 5, 6]
    assert values(fake) == [b"%d" % number for number in range(7)]


@pytest.mark.parametrize("trouble", [OK, CLOSE], ids=str)
async def test_a_leader_that_lost_acknowledged_batches_gets_the_rest_with_a_new_epoch(fake, trouble):
    fake.script[PRODUCE] = [OK, OK, trouble]
    async with producer(fake) as sender:
        await sender.send("t", b"0")
        await sender.send("t", b"1")
        del fake.logs["t", 0][1:]
        futures = [sender.send_nowait("t", b"%d" % number) for number in range(2, 9)]
        await asyncio.gather(*futures)
    assert values(fake) == [b"0", *(b"%d" % number for number in range(2, 9))]
    assert identities(fake) == [(0, 0), *((1, number) for number in range(7))]


@pytest.mark.parametrize("late_first", [True, False], ids=["before the next epoch", "after it"])
async def test_requests_of_a_lost_connection_that_arrive_late(fake, late_first):
    """1 and 2 are lost; 1 fails when it is sent again, so that 2 does not follow. Then both arrive after all."""
    lost = []

    def keep(action):
        return lambda *request: lost.append(request) or action

    def arrive(*request):
        if late_first:
            arrive_late()
        return fake._produce(*request, OK)

    def arrive_late():
        for request in lost:
            fake._produce(*request, OK)

    fake.script[PRODUCE] = [OK, keep(SILENCE), keep(CLOSE), ErrorCode.TOPIC_AUTHORIZATION_FAILED, OK, arrive]
    async with producer(fake) as sender:
        await sender.send("t", b"0")
        first, second, third = (sender.send_nowait("t", b"%d" % number) for number in range(1, 4))
        with pytest.raises(KafkaError, match="TOPIC_AUTHORIZATION_FAILED"):
            await first
        with pytest.raises(KafkaError, match="t-0: OUT_OF_ORDER_SEQUENCE_NUMBER: an earlier batch failed"):
            await second
        await third
        arrive_late()
        await sender.send("t", b"4")
    assert values(fake) == [b"0", *([b"1", b"2"] if late_first else []), b"3", b"4"]


async def test_a_transaction_does_not_continue_over_a_gap():
    from support.fake_coordinator import FakeCoordinator

    async with FakeCoordinator({"t": 1}) as fake, producer(fake, transactional_id="id") as sender:
        await sender.begin_transaction()
        await sender.send("t", b"0")
        await sender.send("t", b"1")
        del fake.logs["t", 0][1:]
        for number in range(2, 5):
            sender.send_nowait("t", b"%d" % number)
        with pytest.raises(KafkaError, match="OUT_OF_ORDER_SEQUENCE_NUMBER"):
            await sender.commit_transaction()
        assert fake.ends == [False]
        async with sender.transaction():
            await sender.send("t", b"5")
    assert values(fake) == [b"0", b"5"]


async def test_a_new_leader_gets_nothing_before_the_old_leader_answers():
    first = FakeBroker({"t": 1}, node_id=1)
    second = FakeBroker(first.topics, node_id=2, cluster=first.cluster)
    first.cluster.append(second)
    async with first, second, producer(first) as sender:
        await sender.send("t", b"0")
        event = hold(first)
        futures = [sender.send_nowait("t", b"%d" % number) for number in range(1, 4)]
        await until(lambda: in_flight(sender) == 2, "two in flight")
        for broker in (first, second):
            broker.leaders["t", 0] = 2
        second.logs = first.logs  # as replicas have
        second.next_offsets = first.next_offsets
        connection = await sender._cluster.connection(2)  # the other one waits
        request = MetadataRequest(topics=[MetadataRequestTopic(name="t")])
        sender._cluster._take(await connection.call(request, MetadataResponse), is_everything=False)
        futures += [sender.send_nowait("t", b"%d" % number) for number in range(4, 9)]
        for _ in range(5):
            await asyncio.sleep(0)
        assert not second.seen(PRODUCE)
        event.set()
        await asyncio.gather(*futures)
        assert values(second) == [b"%d" % number for number in range(9)]


@pytest.mark.parametrize("seed", range(40))
async def test_random_faults_keep_each_record_once_and_in_order(fake, seed):
    rng = random.Random(seed)
    troubles = [
        OK,
        OK,
        OK,
        CLOSE,
        APPLY_AND_CLOSE,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        unanswered(fake),
        applied(fake, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND),
        lambda *_: fake.forget() or CLOSE,
        lambda *_: fake.forget() or APPLY_AND_CLOSE,
    ]
    async with producer(fake, random=rng, delivery_timeout_ms=100_000, request_timeout_ms=300) as sender:
        # A broker that has never seen the producer takes any number, and may forget that it ever has.
        for partition in range(3):
            await sender.send("many", b"0", partition=partition)
        fake.script[PRODUCE] = rng.choices(troubles, k=rng.randrange(80))
        futures = []
        for number in range(1, 60):
            futures.append(sender.send_nowait("many", b"%d" % number, partition=rng.randrange(3)))
            if rng.random() < 0.1:
                await asyncio.sleep(0)
        written = [await future for future in futures]
    found = {partition: [int(value) for value in values(fake, "many", partition)] for partition in range(3)}
    assert sorted(number for numbers in found.values() for number in numbers) == [0, 0, 0, *range(1, 60)]
    for partition, numbers in found.items():
        assert numbers == sorted(numbers), partition
    for number, where in enumerate(written, 1):
        assert where.offset == -1 or found[where.partition][where.offset] == number
