"""Brokers for tests with unittest.

class OrdersTest(testing.BrokerTestCase):
    def test_a_message_arrives(self):
        producer = confluent_kafka.Producer({"bootstrap.servers": self.bootstrap_servers})
        producer.produce(self.new_topic(), b"one")
"""

from __future__ import annotations

import contextlib
import itertools
import secrets
import unittest
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Final

from client.errors import KafkaError
from ottla.testing.broker_thread import BrokerThread
from ottla.testing.cluster_thread import ClusterThread

_RUN: Final = secrets.token_hex(3)
_NUMBERS: Final = itertools.count(1)


class BrokerTestCase(unittest.TestCase):
    """A TestCase with brokers that all its tests share. It may stand before another TestCase among the bases.

    Set `brokers` and `settings` in the class. After each test, stopped and paused brokers run again.
    """

    brokers: ClassVar[int] = 1
    """How many brokers: one with the id 0, or several with the ids 1, 2, 3, …."""
    settings: ClassVar[Mapping[str, str]] = {}
    """Settings of every broker by Kafka's names."""
    is_isolated: ClassVar[bool] = False
    """Whether each test begins with empty brokers. Otherwise tests use topics and groups of their own."""
    cluster: ClassVar[ClusterThread]
    """The brokers; a `BrokerThread` if there is one."""
    _is_used: ClassVar[bool]

    @classmethod
    def setUpClass(cls) -> None:
        """Start the brokers."""
        super().setUpClass()
        settings = dict(cls.settings)
        cls.cluster = BrokerThread(settings) if cls.brokers == 1 else ClusterThread(cls.brokers, settings)
        cls.cluster.start()
        cls.addClassCleanup(cls.cluster.stop)
        cls._is_used = False

    def run(self, result: unittest.TestResult | None = None) -> unittest.TestResult | None:
        """Run the test. With `is_isolated`, replace the brokers by empty ones before.

        Both steps around the test run as parts of it, so that an error in them is one of this test only. They do not
        depend on a `setUp` of the class that calls the one of its base class.
        """
        if self.is_isolated and type(self)._is_used:
            self.setUp = _both(self.cluster.reset, self.setUp)  # type: ignore[method-assign]
        type(self)._is_used = True
        self.addCleanup(self._restore)
        return super().run(result)

    @property
    def bootstrap_servers(self) -> str:
        """The addresses for clients, "host:port,…"."""
        return self.cluster.bootstrap_servers

    def new_topic(self, **options: Any) -> str:
        """Create a topic with a new name, and return the name; the topic is deleted after the test.

        options: `partitions`, `replication_factor` and `configs`, as of `ClusterThread.create_topic`.
        """
        name = self._new_name()
        self.cluster.create_topic(name, **options)
        self.addCleanup(self._delete_topic, name)
        return name

    def new_group(self) -> str:
        """Return a group id that no other test uses."""
        return self._new_name()

    def _restore(self) -> None:
        self.cluster.restore()

    def _new_name(self) -> str:
        return f"{self._testMethodName}-{_RUN}-{next(_NUMBERS)}"

    def _delete_topic(self, name: str) -> None:
        self.cluster.restore()
        with contextlib.suppress(KafkaError):  # the test has deleted it
            self.cluster.delete_topic(name)


def _both(first: Callable[[], None], then: Callable[[], None]) -> Callable[[], None]:
    def call() -> None:
        first()
        then()

    return call
