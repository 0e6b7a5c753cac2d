"""Kafka for tests: a broker, or a cluster of brokers, in this process, in a thread of its own.

    from ottla import testing

    with testing.broker() as broker:
        producer = confluent_kafka.Producer({"bootstrap.servers": broker.bootstrap_servers})

    with testing.cluster(3) as cluster:
        cluster.kill_broker(2)

Brokers listen on free ports of 127.0.0.1, and their data is removed at the end.
"""

from ottla.testing.broker_thread import BrokerThread, broker
from ottla.testing.cluster_thread import ClusterThread, cluster
from ottla.testing.member import Environment, Member

__all__ = ["BrokerThread", "ClusterThread", "Environment", "Member", "broker", "cluster"]
