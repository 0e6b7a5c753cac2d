"""The blocking forms of the assertions: the same functions, without an event loop of the caller."""

import asyncio
import inspect

import pytest
from confluent_kafka import Consumer, Producer

from ottla import testing
from ottla.testing import assertions, async_assertions
from support.deadlines import DEADLINE_S


@pytest.fixture(scope="module")
def servers():
    with testing.broker() as broker:
        yield broker.bootstrap_servers


def test_every_function_has_a_blocking_form():
    for name in async_assertions.__all__:
        blocking, original = getattr(assertions, name), getattr(async_assertions, name)
        assert inspect.signature(blocking) == inspect.signature(original)
        assert blocking.__doc__ == original.__doc__
        assert f"- `{name}`: " in async_assertions.__doc__
        assert not inspect.iscoroutinefunction(blocking)


def test_a_test_with_a_blocking_client(servers):
    producer = Producer({"bootstrap.servers": servers})
    producer.produce("orders", b"one")
    assert producer.flush(DEADLINE_S) == 0
    assertions.wait_for_topic(servers, "orders", timeout_s=DEADLINE_S)
    assertions.wait_for_full_isr(servers, "orders", timeout_s=DEADLINE_S)
    assert len(assertions.wait_for_records(servers, "orders", 1, timeout_s=DEADLINE_S)) == 1
    assert [record.value for record in assertions.read_topic(servers, "orders", timeout_s=DEADLINE_S)] == [b"one"]

    consumer = Consumer({"bootstrap.servers": servers, "group.id": "billing", "auto.offset.reset": "earliest"})
    consumer.subscribe(["orders"])
    assert consumer.poll(DEADLINE_S).value() == b"one"
    assertions.wait_for_group(servers, "billing", members=1, timeout_s=DEADLINE_S)
    consumer.commit(asynchronous=False)
    assertions.wait_for_no_lag(servers, "billing", timeout_s=DEADLINE_S)
    assertions.wait_for_commit(servers, "billing", {("orders", 0): 1}, timeout_s=DEADLINE_S)
    consumer.close()


def test_the_callers_event_loop_stays_what_it_is(servers):
    """A call must not replace or close the loop that is set for the thread."""
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    try:
        with pytest.raises(AssertionError, match="not within"):
            assertions.read_topic(servers, "none", timeout_s=0.1)
        assert asyncio.get_event_loop() is loop
        assert not loop.is_closed()
    finally:
        asyncio.set_event_loop(None)
        loop.close()


async def test_a_blocking_call_in_a_coroutine_is_refused(servers):
    with pytest.raises(RuntimeError, match=r"read_topic blocks.*async_assertions"):
        assertions.read_topic(servers, "orders")


def test_the_isr_is_full_again_after_a_broker_was_away():
    with testing.cluster(2) as cluster:
        servers = cluster.bootstrap_servers
        cluster.create_topic("orders", partitions=2, replication_factor=2)
        assertions.wait_for_full_isr(servers, "orders", timeout_s=DEADLINE_S)
        cluster.stop_broker(2)
        with pytest.raises(AssertionError, match=r"replicas (1, 2|2, 1), ISR 1"):
            wait_for_full_isr_in_vain(servers)
        cluster.start_broker(2)
        found = assertions.wait_for_full_isr(servers, "orders", timeout_s=DEADLINE_S)
    assert [sorted(partition.isr) for partition in found.partitions.values()] == [[1, 2], [1, 2]]


def wait_for_full_isr_in_vain(servers):
    """A deadline that passes before the first look is followed by a longer one."""
    timeout_s = 0.2
    while timeout_s < DEADLINE_S:
        try:
            assertions.wait_for_full_isr(servers, "orders", timeout_s=timeout_s)
        except AssertionError as error:
            if "ISR" in str(error).partition("Last seen")[2]:
                raise
        timeout_s *= 4
