"""librdkafka's mock cluster: an independent server of the Kafka protocol, inside this process."""

from confluent_kafka import Producer

from support.deadlines import DEADLINE_S


class MockCluster:
    """Three brokers; topics are created with four partitions at their first use."""

    def __init__(self, brokers=3):
        self._producer = Producer({"test.mock.num.brokers": brokers, "bootstrap.servers": "", "log_level": 0})
        found = self._producer.list_topics(timeout=DEADLINE_S).brokers.values()
        self.bootstrap = ",".join(f"{broker.host}:{broker.port}" for broker in found)
