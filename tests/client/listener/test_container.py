"""The listener container: order, what is committed when, slow handlers, rebalances, errors, the end."""

import asyncio
import contextlib
import itertools
import random
import struct
import threading

import pytest

from client.admin.admin import Admin
from client.consumer.consumer import Consumer
from client.consumer.rebalance_listener import RebalanceListener
from client.errors import (
    CommitFailedError,
    ConnectionLostError,
    HandlerFailedError,
    IllegalStateError,
    InvalidOptionError,
    KafkaError,
)
from client.listener.ack_mode import AckMode
from client.listener.container import ListenerContainer
from client.listener.error_handlers import DeadLetter, Retry, Skip, Stop
from client.listener.rate_limit import RateLimit
from client.producer.producer import Producer
from client.topic_partition import TopicPartition
from client.wire.network import AsyncioNetwork
from protocol.api_keys import ApiKey
from protocol.error_codes import ErrorCode
from protocol.messages.join_group import JoinGroupResponse
from support.broker import broker_process
from support.fake_coordinator import RefusingGroup
from support.polling import until
from support.quick_groups import BROKER_SETTINGS, PROTOCOLS, quick_consumer
from support.simulation.virtual_loop import VirtualTimeLoop
from support.tcp_proxy import TcpProxy

_NUMBERS = itertools.count(1)
SETTINGS = BROKER_SETTINGS | {
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": "5000",
}


@pytest.fixture(scope="module")
def servers(tmp_path_factory):
    with broker_process(tmp_path_factory.mktemp("broker") / "data", **SETTINGS) as process:
        yield process.bootstrap


@pytest.fixture
async def name(servers):
    """Of a group and a topic of four partitions that nobody else uses."""
    name = f"container-{next(_NUMBERS)}"
    async with Admin(bootstrap_servers=servers) as admin:
        await admin.create_topic(name, 4)
    return name


@pytest.fixture(params=PROTOCOLS)
def group(request):
    return PROTOCOLS[request.param]


def consumer(servers, name, **options):
    return quick_consumer(servers, name, **{"group_id": name, "enable_auto_commit": False} | options)


@contextlib.asynccontextmanager
async def running(servers, name, handler, group=(), **options):
    async with (
        consumer(servers, name, **dict(group)) as source,
        ListenerContainer(source, handler, poll_timeout_ms=20, **options) as container,
    ):
        await container.start()
        yield container


async def write(servers, name, values, partition=0, key=None):
    """`key` gives that of a value."""
    async with Producer(bootstrap_servers=servers, linger_ms=1) as producer:
        for value in values:
            producer.send_nowait(name, b"%d" % value, key=None if key is None else key(value), partition=partition)
        await producer.flush()


async def committed(servers, name):
    """By partition, what the group has committed."""
    async with Admin(bootstrap_servers=servers) as admin:
        return {number: found.offset for (_, number), found in (await admin.list_group_offsets(name)).items()}


async def is_committed(servers, name, offset, partition=0):
    async def is_so():
        return (await committed(servers, name)).get(partition) == offset

    await until(is_so, f"{offset} is committed")


class Gate:
    """A handler whose records wait until they are let go, and which notes what it did."""

    def __init__(self):
        self.begun, self.done, self.cancelled = [], [], []
        self._free, self._all = set(), False

    async def __call__(self, record, *_):
        self.begun.append(record.offset)
        try:
            while not (self._all or record.offset in self._free):  # noqa: ASYNC110
                await asyncio.sleep(0.002)
        except asyncio.CancelledError:
            self.cancelled.append(record.offset)
            raise
        self.done.append(record.offset)

    def let_go(self, *offsets):
        self._free.update(offsets)
        self._all = not offsets


# -- order and commits -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
async def test_records_of_a_key_are_in_order_and_others_concurrent(servers, name, seed):
    chosen = random.Random(seed)
    keys = {value: chosen.choice([b"a", b"b", b"c", b"d", None]) for value in range(400)}
    await write(servers, name, keys, key=keys.get)
    got, most, now = [], 0, 0
    busy = set()

    async def handler(record):
        nonlocal most, now
        assert record.key not in busy
        if record.key is not None:
            busy.add(record.key)
        now += 1
        most = max(most, now)
        await asyncio.sleep(chosen.choice((0, 0, 0.001, 0.005)))
        now -= 1
        busy.discard(record.key)
        got.append((record.key, record.offset))

    async with running(servers, name, handler, concurrency=8, error_handler=Stop()):
        await until(lambda: len(got) == 400, "all are handled")
        await is_committed(servers, name, 400)
    for key in (b"a", b"b", b"c", b"d"):
        assert [offset for found, offset in got if found == key] == [one for one, found in keys.items() if found == key]
    assert [offset for _, offset in got] != list(range(400))
    assert most == 8


async def test_without_concurrency_a_partition_is_in_order(servers, name):
    for partition in range(4):
        await write(servers, name, range(20), partition)
    got = []

    async def handler(record):
        await asyncio.sleep(0.001 * (record.offset % 3))
        got.append((record.partition, record.offset))

    async with running(servers, name, handler):
        await until(lambda: len(got) == 80, "all are handled")
    for partition in range(4):
        assert [offset for number, offset in got if number == partition] == list(range(20))
    assert await committed(servers, name) == dict.fromkeys(range(4), 20)


@pytest.mark.parametrize("mode", [AckMode.RECORD, AckMode.COUNT, AckMode.TIME, AckMode.COUNT_TIME])
async def test_commits_stop_below_the_first_unfinished_record(servers, name, mode):
    await write(servers, name, range(10))
    gate = Gate()
    async with running(servers, name, gate, concurrency=10, ack_mode=mode, ack_count=1, ack_time_ms=20):
        await until(lambda: len(gate.begun) == 10, "all have begun")
        gate.let_go(1, 2, 5)
        await until(lambda: len(gate.done) == 3, "some are done")
        gate.let_go(0)
        await is_committed(servers, name, 3)
        gate.let_go(3, 6, 7, 8, 9)
        await is_committed(servers, name, 4)
        await until(lambda: len(gate.done) == 9, "all but one are done")
        assert await committed(servers, name) == {0: 4}
        gate.let_go(4)
        await is_committed(servers, name, 10)


async def test_batch_commits_whole_polls(servers, name):
    await write(servers, name, range(6))
    gate = Gate()
    async with running(servers, name, gate, {"max_poll_records": 3}, concurrency=6):
        await until(lambda: len(gate.begun) == 6, "all have begun")
        gate.let_go(0, 1, 3)
        await until(lambda: len(gate.done) == 3, "some are done")
        assert await committed(servers, name) == {}
        gate.let_go(2)
        await is_committed(servers, name, 3)
        assert await committed(servers, name) == {0: 3}
        gate.let_go()
    assert gate.cancelled == []
    assert await committed(servers, name) == {0: 6}


async def test_count(servers, name):
    await write(servers, name, range(10))
    gate = Gate()
    async with running(servers, name, gate, ack_mode=AckMode.COUNT, ack_count=4):
        for offset in range(3):
            gate.let_go(offset)
        await until(lambda: len(gate.begun) == 4, "three are done")
        assert await committed(servers, name) == {}
        gate.let_go(3)
        await is_committed(servers, name, 4)
        gate.let_go()


async def test_manual(servers, name):
    await write(servers, name, range(6))
    got = {}

    async def handler(record, acknowledgment):
        got[record.offset] = acknowledgment

    async with running(servers, name, handler, ack_mode=AckMode.MANUAL):
        await until(lambda: len(got) == 6, "all are handled")
        assert await committed(servers, name) == {}
        await got[1].acknowledge()
        await got[0].acknowledge()
        await got[0].acknowledge()
        await got[3].acknowledge()
        await is_committed(servers, name, 2)
        await got[2].acknowledge()
        await is_committed(servers, name, 4)
    assert await committed(servers, name) == {0: 4}


async def test_manual_immediate(servers, name):
    await write(servers, name, range(3))
    got, found = {}, []

    async def handler(record, acknowledgment):
        got[record.offset] = acknowledgment
        if record.offset == 0:
            await acknowledgment.acknowledge()
            found.append(await committed(servers, name))

    async with running(servers, name, handler, ack_mode=AckMode.MANUAL_IMMEDIATE):
        await until(lambda: len(got) == 3, "all are handled")
        await got[2].acknowledge()
        assert await committed(servers, name) == {0: 1}
        await got[1].acknowledge()
        assert await committed(servers, name) == {0: 3}
    assert found == [{0: 1}]


async def test_batches(servers, name):
    await write(servers, name, range(10))
    got = []

    async def handler(records):
        got.append([record.offset for record in records])
        records.clear()  # it is the handler's own

    async with running(servers, name, handler, {"max_poll_records": 4}, batch=True):
        await is_committed(servers, name, 10)
    assert list(itertools.chain(*got)) == list(range(10))
    assert max(map(len, got)) == 4


async def test_plain_functions_run_in_threads(servers, name):
    await write(servers, name, range(5))
    threads = []
    async with running(servers, name, lambda record: threads.append(threading.current_thread())):
        await is_committed(servers, name, 5)
    assert len(threads) == 5
    assert threading.main_thread() not in threads


# -- slow handlers and rebalances --------------------------------------------------------------------------------------


async def test_full_queues_pause_and_resume_partitions(servers, name):
    await write(servers, name, range(100))
    await write(servers, name, range(5), 1)
    gate = Gate()
    async with running(servers, name, gate, {"max_poll_records": 7}, queue_size=10) as container:
        full, other = TopicPartition(name, 0), TopicPartition(name, 1)
        most = 0

        def look():
            nonlocal most
            most = max(most, *container.unfinished.values())
            return most

        await until(lambda: container.unfinished and look() == 10, "full")
        assert full in container._consumer.paused()
        await until(lambda: container.unfinished.get(other) == 5, "the other one goes on")
        gate.let_go()
        await until(lambda: look() and len(gate.done) == 105, "all are handled")
        assert most == 10
        assert container._consumer.paused() == []
    assert await committed(servers, name) == {0: 100, 1: 5}


async def test_slow_handlers_do_not_cost_the_membership(servers, name, group):
    await write(servers, name, range(3))
    heard = []

    class Notes(RebalanceListener):
        def on_partitions_lost(self, partitions):
            heard.append(partitions)

    gate = Gate()
    async with consumer(servers, name, max_poll_interval_ms=300, **group) as source:
        source.rebalance_listener = Notes()
        async with ListenerContainer(source, gate, ack_mode=AckMode.RECORD, poll_timeout_ms=20) as container:
            await container.start()
            await until(lambda: gate.begun == [0], "begun")
            before, loop = source.group_metadata(), asyncio.get_running_loop()
            over = loop.time() + 1.5
            await until(lambda: loop.time() > over, "five times max_poll_interval_ms")
            assert source.group_metadata().member_id == before.member_id
            assert (heard, gate.begun) == ([], [0])
            gate.let_go()
            await is_committed(servers, name, 3)
        assert gate.done == [0, 1, 2]


async def test_two_containers_share_partitions(servers, name, group):
    """Nothing is handled twice while partitions move between containers whose handlers are slow."""
    chosen = random.Random(1)
    got = []

    async def handler(record):
        await asyncio.sleep(chosen.choice((0, 0.005, 0.02)))
        got.append((record.partition, record.offset))

    for partition in range(4):
        await write(servers, name, range(50), partition)
    options = {"concurrency": 1, "ack_mode": AckMode.RECORD, "queue_size": 20}
    async with running(servers, name, handler, group, **options) as one:
        await until(lambda: len(got) > 20, "the first handles")
        async with running(servers, name, handler, group, **options) as other:
            await until(lambda: len(one.unfinished) <= 2 and len(other.unfinished) == 2, "shared")
            await until(lambda: len(got) > 150, "both handle")
        await until(lambda: len(got) >= 200, "all are handled")
    assert len(got) == len(set(got)) == 200
    for partition in range(4):
        assert [offset for number, offset in got if number == partition] == list(range(50))
    assert await committed(servers, name) == dict.fromkeys(range(4), 50)


async def test_handlers_that_do_not_finish_are_cancelled_when_the_partition_is_revoked(servers, name, group):
    for partition in range(4):
        await write(servers, name, range(3), partition)
    slow, quick = Gate(), []

    async def handler(record):
        quick.append((record.partition, record.offset))

    async with running(servers, name, slow, group, drain_timeout_s=0.1):
        await until(lambda: len(slow.begun) == 4, "begun")
        async with running(servers, name, handler, group):
            await until(lambda: len(quick) == 6, "the other one has two partitions")
            assert 0 in slow.cancelled
            assert sorted(offset for _, offset in quick) == [0, 0, 1, 1, 2, 2]


async def test_finished_records_are_committed_when_the_partition_is_revoked(servers, name, group):
    for partition in range(4):
        await write(servers, name, range(3), partition)
    gate, others = Gate(), []

    async def handler(record):
        others.append((record.partition, record.offset))

    gate.let_go(0)
    async with running(servers, name, gate, group, ack_mode=AckMode.COUNT, ack_count=1_000) as one:
        await until(lambda: gate.begun.count(1) == 4, "each in the second")
        async with running(servers, name, handler, group):
            await until(lambda: any(runner.is_over for runner in one._runners.values()), "some are to go")
            gate.let_go(0, 1)  # those that are to go begin no third
            await until(lambda: len(others) == 2, "the other one goes on")
            assert [offset for _, offset in others] == [2, 2]
            gate.let_go()
    assert await committed(servers, name) == dict.fromkeys(range(4), 3)


class Link(AsyncioNetwork):
    """All connections go through a proxy, whatever the broker says where it is."""

    def __init__(self, proxy):
        self._proxy = proxy

    async def connect(self, protocol_factory, host, port):
        return await super().connect(protocol_factory, "127.0.0.1", self._proxy.port)


async def test_a_disconnected_member_stops_and_commits_nothing(servers, name, group):
    for partition in range(4):
        await write(servers, name, range(3), partition)
    gate, others, lost = Gate(), [], []
    gate.let_go(0)

    class Notes(RebalanceListener):
        def on_partitions_lost(self, partitions):
            lost.extend(number for _, number in partitions)

    async def handler(record):
        others.append((record.partition, record.offset))

    host, port = servers.split(":")
    async with TcpProxy(host, int(port)) as proxy:
        options = {"network": Link(proxy), "session_timeout_ms": 2_000, "request_timeout_ms": 1_000, **group}
        async with consumer(servers, name, fetch_max_wait_ms=100, **options) as source:
            source.rebalance_listener = Notes()
            async with ListenerContainer(
                source, gate, ack_mode=AckMode.RECORD, poll_timeout_ms=20, drain_timeout_s=0.1
            ) as container:
                await container.start()
                await until(lambda: gate.begun.count(1) == 4, "one of each partition is done, and committed")
                proxy.stall()
                async with running(servers, name, handler, group):
                    await until(lambda: len(others) == 8, "the other one has all the rest")
                    assert all(offset > 0 for _, offset in others)
                    proxy.drop()
                    await until(lambda: sorted(lost) == [0, 1, 2, 3], "it has learnt that")
                    assert gate.cancelled == [1, 1, 1, 1]
                    assert await committed(servers, name) == dict.fromkeys(range(4), 3)
                    assert gate.done == [0, 0, 0, 0]
        assert await committed(servers, name) == dict.fromkeys(range(4), 3)


async def test_lost_partitions_are_not_committed(servers, name):
    await write(servers, name, range(4))
    gate, acknowledgments = Gate(), []

    async def handler(record, acknowledgment):
        acknowledgments.append(acknowledgment)
        await gate(record)

    async with running(servers, name, handler, ack_mode=AckMode.MANUAL_IMMEDIATE) as container:
        await until(lambda: gate.begun == [0], "begun")
        partitions = list(container.unfinished)
        await container._consumer.rebalance_listener.on_partitions_lost(partitions)
        assert gate.cancelled == [0]
        assert container.unfinished == {}
        with pytest.raises(CommitFailedError, match="another member"):
            await acknowledgments[0].acknowledge()
        assert await committed(servers, name) == {}


# -- errors ------------------------------------------------------------------------------------------------------------


class Fails:
    """A handler that fails so often on the offset 2."""

    def __init__(self, times):
        self.times, self.handled = times, []

    async def __call__(self, record, *_):
        if record.offset == 2 and self.times:
            self.times -= 1
            raise ZeroDivisionError("two")
        self.handled.append(record.offset)


async def test_a_failed_record_is_retried(servers, name):
    await write(servers, name, range(5))
    handler = Fails(3)
    async with running(servers, name, handler, error_handler=Retry(3, backoff_ms=1)):
        await is_committed(servers, name, 5)
    assert (handler.times, handler.handled) == (0, [0, 1, 2, 3, 4])


async def test_stopping_at_an_error(servers, name):
    await write(servers, name, range(5))
    handler = Fails(3)
    async with consumer(servers, name) as source:
        container = ListenerContainer(source, handler, error_handler=Retry(2, backoff_ms=1), poll_timeout_ms=20)
        with pytest.raises(HandlerFailedError, match=f"failed on {name}-0 offset 2: ZeroDivisionError: two") as caught:
            async with container:
                await container.run()
        assert isinstance(caught.value.__cause__, ZeroDivisionError)
        assert await committed(servers, name) == {0: 2}
        with pytest.raises(IllegalStateError, match="once"):
            await container.start()
        # The consumer goes on from there.
        async with ListenerContainer(source, handler, poll_timeout_ms=20) as again:
            await again.start()
            await is_committed(servers, name, 5)
    assert handler.handled == [0, 1, 2, 3, 4]


async def test_no_handler_starts_after_an_error(servers, name):
    await write(servers, name, range(10))
    gate = Gate()

    async def handler(record):
        await gate(record)
        if record.offset == 0:
            raise ZeroDivisionError

    async with consumer(servers, name) as source:
        container = ListenerContainer(source, handler, concurrency=2, error_handler=Stop(), poll_timeout_ms=1_000)
        await container.start()
        await until(lambda: gate.begun == [0, 1], "two have begun")
        gate.let_go(0)
        await until(lambda: container._failure is not None, "one has failed")
        gate.let_go()
        with pytest.raises(HandlerFailedError):
            await container.stop()
        assert gate.done == [0, 1]
    assert await committed(servers, name) == {}


async def test_other_errors_are_not_retried(servers, name):
    await write(servers, name, range(5))
    handler = Fails(1)
    async with running(servers, name, handler, error_handler=Retry(5, only=OSError, then=Skip())):
        await is_committed(servers, name, 5)
    assert handler.handled == [0, 1, 3, 4]


@pytest.mark.parametrize("mode", [AckMode.BATCH, AckMode.MANUAL])
async def test_dead_letters(servers, name, mode):
    await write(servers, name, range(5), 3, key=lambda value: b"k%d" % value)
    handler = Fails(2)

    async def manual(record, acknowledgment):
        await handler(record)
        await acknowledgment.acknowledge()

    async with Producer(bootstrap_servers=servers) as producer, Admin(bootstrap_servers=servers) as admin:
        await admin.create_topic(f"{name}.DLT", 4)
        chosen = manual if mode.is_manual else handler
        errors = Retry(1, backoff_ms=1, then=DeadLetter(producer))
        async with running(servers, name, chosen, ack_mode=mode, error_handler=errors):
            await is_committed(servers, name, 5, 3)
        assert handler.handled == [0, 1, 3, 4]
        async with Consumer(f"{name}.DLT", bootstrap_servers=servers, auto_offset_reset="earliest") as source:
            record = await anext(source)
    assert (record.partition, record.key, record.value) == (3, b"k2", b"2")
    headers = dict(record.headers)
    assert headers["kafka_dlt-original-topic"] == name.encode()
    assert headers["kafka_dlt-original-partition"] == struct.pack(">i", 3)
    assert headers["kafka_dlt-original-offset"] == struct.pack(">q", 2)
    assert headers["kafka_dlt-exception-fqcn"] == b"builtins.ZeroDivisionError"
    assert headers["kafka_dlt-exception-message"] == b"two"
    assert b"raise ZeroDivisionError" in headers["kafka_dlt-exception-stacktrace"]


async def test_a_handler_that_cancels_itself_stops_the_container(servers, name):
    await write(servers, name, range(5))

    async def handler(record):
        raise asyncio.CancelledError

    async with consumer(servers, name) as source:
        container = ListenerContainer(source, handler, poll_timeout_ms=20)
        with pytest.raises(IllegalStateError, match="was cancelled"):
            await container.run()
    assert await committed(servers, name) == {}


async def test_an_unreadable_record_stops_the_container(servers, name):
    await write(servers, name, [1, 2, 0])
    got = []

    async def handler(record):
        got.append(record.value)

    async with consumer(servers, name, value_deserializer=lambda value: 2 // int(value)) as source:
        container = ListenerContainer(source, handler, poll_timeout_ms=20)
        with pytest.raises(ZeroDivisionError):
            await container.run()


async def test_a_group_that_refuses_the_member_stops_the_container():
    def refuse(request, version):
        return JoinGroupResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)

    async with RefusingGroup({"t": 1}) as fake, consumer(fake.address, "t") as source:
        fake.script[ApiKey.JOIN_GROUP] = [refuse]
        with pytest.raises(KafkaError) as refused:
            await ListenerContainer(source, print, poll_timeout_ms=20).run()
        assert refused.value.code == ErrorCode.GROUP_AUTHORIZATION_FAILED


# -- the end -----------------------------------------------------------------------------------------------------------


async def test_stop_waits_for_running_handlers(servers, name):
    await write(servers, name, range(10))
    gate = Gate()
    async with consumer(servers, name) as source:
        container = ListenerContainer(source, gate, concurrency=3, poll_timeout_ms=20)
        await container.start()
        await until(lambda: gate.begun == [0, 1, 2], "begun")
        stopping = asyncio.create_task(container.stop())
        await until(lambda: source.paused(), "it is stopping")
        gate.let_go()
        await stopping
        assert sorted(gate.done) == [0, 1, 2]  # they end in any order
        assert await committed(servers, name) == {0: 3}
        assert (await anext(source)).offset == 3


async def test_a_handler_may_stop_the_container(servers, name):
    await write(servers, name, range(10))
    got = []

    async def handler(record):
        got.append(record.offset)
        if record.offset == 4:
            container.request_stop()

    async with consumer(servers, name) as source, ListenerContainer(source, handler, poll_timeout_ms=20) as container:
        await container.run()
    assert await committed(servers, name) == {0: len(got)}


async def test_cancelling_run_waits_for_running_handlers(servers, name):
    await write(servers, name, range(3))
    gate = Gate()
    async with consumer(servers, name) as source:
        container = ListenerContainer(source, gate, poll_timeout_ms=20)
        task = asyncio.create_task(container.run())
        await until(lambda: gate.begun == [0], "begun")
        task.cancel()
        await until(lambda: source.paused(), "it is stopping")
        gate.let_go()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert await committed(servers, name) == {0: 1}


async def test_a_rate_limit_holds_records_back(servers, name):
    await write(servers, name, range(5))
    got = []

    async def handler(record):
        got.append(record.offset)

    limit = RateLimit(records=0.001, burst=2)  # the third comes after a quarter of an hour
    async with running(servers, name, handler, concurrency=5, rate_limit=limit):
        await until(lambda: len(got) == 2, "two")
        limit._bucket._level = 0  # the bucket is full again
        limit._bucket._wake_next()
        await until(lambda: len(got) == 4, "two more")
    assert len(got) == 4
    assert await committed(servers, name) == {0: 4}


# -- what is refused ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("of_consumer", "options", "message"),
    [
        ({"enable_auto_commit": True}, {}, "enable_auto_commit=True: must be False"),
        ({}, {"queue_size": 0}, "queue_size=0"),
        ({}, {"concurrency": 0}, "concurrency=0"),
        ({}, {"concurency": 2}, "no option concurency.*did you mean concurrency"),
        ({}, {"batch": True, "ack_mode": AckMode.RECORD}, "ack_mode=.*batch=True"),
        ({}, {"batch": True, "concurrency": 2}, "concurrency=2: must be 1"),
        ({}, {"handler": print, "ack_mode": AckMode.MANUAL}, "ack_mode=.*needs an async handler"),
    ],
)
async def test_invalid_options_are_refused(of_consumer, options, message):
    async def handler(record):
        pass

    with pytest.raises(InvalidOptionError, match=message):
        ListenerContainer(consumer("localhost", "t", **of_consumer), **({"handler": handler} | options))


async def test_a_consumer_without_a_group_is_refused():
    with pytest.raises(IllegalStateError, match="group_id"):
        ListenerContainer(consumer("localhost", "t", group_id=None), print)


class FailingSource:
    """A consumer without partitions, whose polls fail or find nothing, as `outcomes` say; then the container stops."""

    enable_auto_commit = False
    rebalance_listener = None
    max_poll_records = 1

    def __init__(self, outcomes):
        self.outcomes = iter(outcomes)
        self.container = None
        self.polled_s = []

    async def getmany(self, *, timeout_ms, max_records=None):
        self.polled_s.append(asyncio.get_running_loop().time())
        await asyncio.sleep(0)
        outcome = next(self.outcomes, None)
        if outcome is None:
            self.container.request_stop()
        elif not outcome:
            raise ConnectionLostError("broker", 1, "gone")
        return {}

    def assignment(self):
        return []

    def pause(self, partitions):
        pass

    resume = pause


def test_the_delays_between_polls_that_fail_grow_until_a_poll_succeeds():
    source = FailingSource([False] * 6 + [True] + [False] * 2)

    async def handler(record):
        pass

    async def run():
        source.container = ListenerContainer(source, handler)
        await source.container.run()

    loop = VirtualTimeLoop()
    loop.run_until_complete(run())
    loop.close()
    waited_s = [after - before for before, after in itertools.pairwise(source.polled_s)]
    assert waited_s[:9] == pytest.approx([0.1, 0.2, 0.4, 0.8, 1.0, 1.0, 0.0, 0.1, 0.2], rel=0.21)
