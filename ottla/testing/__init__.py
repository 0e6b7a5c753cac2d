"""Kafka for tests: a broker, or a cluster of brokers, in this process, in a thread of its own.

    from ottla import testing

    with testing.broker() as broker:
        producer = confluent_kafka.Producer({"bootstrap.servers": broker.bootstrap_servers})

    with testing.cluster(3) as cluster:
        cluster.kill_broker(2)

Brokers listen on free ports of 127.0.0.1, and their data is removed at the end.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from ottla.testing.broker_thread import BrokerThread, broker
    from ottla.testing.cluster_thread import ClusterThread, cluster
    from ottla.testing.member import Environment, Member
    from ottla.testing.test_case import BrokerTestCase

__all__ = ["BrokerTestCase", "BrokerThread", "ClusterThread", "Environment", "Member", "broker", "cluster"]

_HOMES: Final = {
    "BrokerTestCase": "test_case",
    "BrokerThread": "broker_thread",
    "ClusterThread": "cluster_thread",
    "Environment": "member",
    "Member": "member",
    "broker": "broker_thread",
    "cluster": "cluster_thread",
}
"""The modules of the names. They are imported when they are used: a broker takes 0.3 s, and pytest loads its plugin in
every run."""


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
