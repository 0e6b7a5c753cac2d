"""When snapshots are taken, and what is kept of them."""

import asyncio

import pytest

from client.admin.admin import Admin
from client.errors import KafkaError
from console.inside import Traffic
from console.watching.observer import PERIOD_MS, Observer
from console.watching.rates import KEPT_MS
from ottla import testing
from support.polling import until


class Clock:
    """A clock that stands still until it is set."""

    def __init__(self):
        self.ms = 1_000_000

    def __call__(self):
        return self.ms


class Inside:
    """Counters that grow with every reading."""

    broker_id = 1

    def __init__(self):
        self.readings = 0

    def traffic(self):
        self.readings += 1
        return Traffic(self.readings, 0, 0)


async def test_a_snapshot_is_shared_until_its_time_is_over():
    clock = Clock()
    with testing.broker() as broker:
        async with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            observer = Observer(clock)
            first, second = await asyncio.gather(observer.look(admin, None), observer.look(admin, None))
            assert first is second
            await admin.create_topic("orders", partitions=3)

            async def is_known():
                return "orders" in await admin.describe_topics()

            await until(is_known, "the broker knows the topic")
            assert await observer.look(admin, None) is first
            clock.ms += PERIOD_MS
            third = await observer.look(admin, None)
            assert third.topics.keys() - first.topics.keys() == {"orders"}
            assert [one.text for one in observer.changes] == ["created with 3 partitions"]
            assert [one.time_ms for one in observer.rates] == [clock.ms]
            assert third.problems == ()


async def test_nothing_is_kept_if_no_broker_answers():
    with testing.broker() as broker:
        async with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            await admin.close()
            with pytest.raises(KafkaError):
                await Observer().look(admin, None)


async def test_counters_are_read_until_an_hour_after_the_last_look():
    clock, inside = Clock(), Inside()
    with testing.broker() as broker:
        async with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            observer = Observer(clock, traffic_period_s=0.01)
            await observer.look(admin, inside)
            await until(lambda: observer.traffic_rates, "a rate")
            clock.ms += KEPT_MS + 1
            await until(lambda: observer._timer is None, "the readings end")
            readings = inside.readings
            await observer.look(admin, inside)
            assert inside.readings > readings
            assert observer._timer is not None
            observer.close()
            assert observer._timer is None
