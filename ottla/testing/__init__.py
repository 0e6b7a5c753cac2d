"""Kafka for tests: a broker in this process, in a thread of its own.

    from ottla import testing

    with testing.broker() as broker:
        producer = confluent_kafka.Producer({"bootstrap.servers": broker.bootstrap_servers})

It listens on a free port of 127.0.0.1, and its data is removed at the end.
"""

from ottla.testing.broker_thread import BrokerThread, broker

__all__ = ["BrokerThread", "broker"]
