"""Brokers for unittest's test cases."""

import asyncio
import threading
import unittest

from confluent_kafka import Producer

from ottla import Admin, testing
from support.deadlines import DEADLINE_S

seen = []


class Orders(testing.BrokerTestCase):
    __test__ = False  # pytest does not collect it: the tests below run it

    settings = {"num.partitions": "3"}  # noqa: RUF012 - as users write it

    def test_a(self):
        topic = self.new_topic()
        producer = Producer({"bootstrap.servers": self.bootstrap_servers})
        producer.produce(topic, b"one")
        assert producer.flush(DEADLINE_S) == 0
        assert len(self.cluster.brokers[0].broker.metadata.snapshot.topics[topic].partitions) == 3
        seen.append(topic)
        self.cluster.kill_broker(0)

    def test_b(self):
        topic = self.new_topic(partitions=1, configs={"retention.ms": "5000"})
        assert topic not in seen
        assert self.new_group() != self.new_group()
        self.cluster.delete_topic(topic)


class Isolated(testing.BrokerTestCase, unittest.IsolatedAsyncioTestCase):
    __test__ = False
    brokers = 2
    is_isolated = True

    async def topics(self):
        async with Admin(bootstrap_servers=self.bootstrap_servers) as admin:
            return await admin.list_topics()

    async def test_a(self):
        assert await self.topics() == []
        await asyncio.to_thread(self.cluster.create_topic, "left")

    test_b = test_a


class Unreset(testing.BrokerTestCase):
    """The reset before the second test fails, and so does what follows the third."""

    __test__ = False
    is_isolated = True
    ran = []  # noqa: RUF012

    def setUp(self):  # without super().setUp()
        self.ran.append(self._testMethodName)

    def fail_once(self, name):
        def fail():
            setattr(self.cluster, name, getattr(type(self.cluster), name).__get__(self.cluster))
            raise OSError(f"no {name}")

        setattr(self.cluster, name, fail)

    def test_a(self):
        self.fail_once("reset")

    def test_b(self):
        raise AssertionError

    def test_c(self):
        self.fail_once("restore")

    def test_d(self):
        self.new_topic()


class Failing(testing.BrokerTestCase):
    __test__ = False
    settings = {"num.partitions": "x"}  # noqa: RUF012

    def test_never_runs(self):
        raise AssertionError


def outcome(case):
    result = unittest.TestResult()
    unittest.defaultTestLoader.loadTestsFromTestCase(case).run(result)
    assert not {"ottla-broker", "ottla-cluster"} & {thread.name for thread in threading.enumerate()}
    return result


def test_tests_share_brokers_that_are_restored():
    result = outcome(Orders)
    assert (result.testsRun, result.failures, result.errors) == (2, [], [])


def test_isolated_tests_of_coroutines_begin_with_empty_brokers():
    result = outcome(Isolated)
    assert (result.testsRun, result.failures, result.errors) == (2, [], [])


def test_a_reset_that_fails_is_an_error_of_one_test():
    result = outcome(Unreset)
    assert (result.testsRun, result.failures) == (4, [])
    assert [(case._testMethodName, text.splitlines()[-1]) for case, text in result.errors] == [
        ("test_b", "OSError: no reset"),
        ("test_c", "OSError: no restore"),
    ]
    assert Unreset.ran == ["test_a", "test_c", "test_d"]


def test_a_start_that_fails_is_an_error_of_the_class():
    result = outcome(Failing)
    assert result.testsRun == 0
    assert "num.partitions=x" in result.errors[0][1]
