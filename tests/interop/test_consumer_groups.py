"""librdkafka in consumer groups (`group.protocol=consumer`): static members, regular expressions, restarts, migration.

What storms do to such groups is in test_groups.py.
"""

from __future__ import annotations

import itertools

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from support.broker import BrokerProcess
from support.deadlines import DEADLINE_S
from support.polling import until_blocking

ANSWER_S = 10.0
TIMES = {
    "group.min.session.timeout.ms": "1000",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": "3000",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "200",
}
CLASSIC = {"group.protocol": "classic", "session.timeout.ms": 3000, "heartbeat.interval.ms": 200}
_NUMBERS = itertools.count(1)


@pytest.fixture(scope="module")
def broker(tmp_path_factory):
    with BrokerProcess(tmp_path_factory.mktemp("broker") / "data", TIMES) as process:
        yield process
        assert "Traceback" not in process.log_text()
        assert process.stop() == 0


class Group:
    """Consumers of one group in this process, polled together."""

    def __init__(self, broker) -> None:
        number = next(_NUMBERS)
        self.name = f"group-{number}"
        self.prefix = f"topic-{number}"
        self.broker = broker
        # After a re-bootstrap (KIP-899) librdkafka 2.16 asks for coordinators at the broker handle it has given up.
        self.admin = AdminClient({"bootstrap.servers": broker.bootstrap, "metadata.recovery.strategy": "none"})
        self.consumers: list[Consumer] = []
        self.handled: list[tuple[str, int, int]] = []
        self.revoked: list[tuple[str, int]] = []

    def create(self, suffix: str, partitions: int) -> str:
        name = f"{self.prefix}-{suffix}"
        self.admin.create_topics([NewTopic(name, partitions)])[name].result(DEADLINE_S)
        return name

    def add(self, *topics: str, **settings) -> Consumer:
        consumer = Consumer(
            {
                "bootstrap.servers": self.broker.bootstrap,
                "group.id": self.name,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "group.protocol": "consumer",
                "topic.metadata.refresh.interval.ms": 500,
            }
            | {name.replace("_", "."): value for name, value in settings.items()}
        )
        consumer.subscribe(list(topics), on_revoke=self.on_revoke)
        self.consumers.append(consumer)
        return consumer

    def on_revoke(self, _, partitions) -> None:
        self.revoked += [(one.topic, one.partition) for one in partitions]

    def remove(self, consumer: Consumer) -> None:
        self.consumers.remove(consumer)
        consumer.close()

    def shares(self) -> list[list[tuple[str, int]]]:
        return [sorted((one.topic, one.partition) for one in consumer.assignment()) for consumer in self.consumers]

    def until(self, condition, what: str) -> None:
        def holds() -> bool:
            for consumer in self.consumers:
                message = consumer.poll(0.01)
                if message is not None and message.error() is None:
                    self.handled.append((message.topic(), message.partition(), message.offset()))
            return bool(condition())

        try:
            until_blocking(holds, what)
        except AssertionError as error:
            raise AssertionError(f"{error}; {self.shares()}, {self.described()}") from None

    def described(self):
        """Its state and type, or what is answered meanwhile; after a restart librdkafka takes its time to ask again."""
        try:
            found = self.admin.describe_consumer_groups([self.name], request_timeout=ANSWER_S)[self.name].result()
        except KafkaException as error:
            return str(error), ""
        return found.state.name, found.type.name

    def settle(self, sizes: list[int], state=("STABLE", "CONSUMER")) -> None:
        """Wait until the members have so many partitions, none twice, and the broker says that all is well."""

        def is_settled() -> bool:
            shares = self.shares()
            flat = list(itertools.chain.from_iterable(shares))
            return (
                sorted(map(len, shares)) == sorted(sizes) and len(set(flat)) == len(flat) and self.described() == state
            )

        self.until(is_settled, f"settled with {sizes}")

    def close(self) -> None:
        for consumer in self.consumers:
            consumer.close()


@pytest.fixture
def group(broker):
    made = Group(broker)
    yield made
    made.close()


def test_members_come_and_go_with_both_assignors(group):
    topic = group.create("a", 7)
    for assignor in ("uniform", "range"):
        one = group.add(topic, group_remote_assignor=assignor)
        group.settle([7])
        two, three = (group.add(topic, group_remote_assignor=assignor) for _ in range(2))
        group.settle([2, 2, 3])
        group.remove(one)
        group.settle([3, 4])
        group.remove(two)
        group.settle([7])
        group.remove(three)


def test_a_static_member_returns_without_a_rebalance(group):
    topic = group.create("a", 6)
    stays = group.add(topic, group_instance_id="stays")
    goes = group.add(topic, group_instance_id="goes")
    group.settle([3, 3])
    had = group.shares()
    group.revoked.clear()
    group.remove(goes)
    group.add(topic, group_instance_id="goes")
    group.settle([3, 3])
    assert group.shares() == had
    assert set(group.revoked) == set(had[1])  # what went was given up; who stayed has noticed nothing
    assert group.consumers[0] is stays
    group.remove(group.consumers[1])
    group.settle([6])  # its session is over


def test_a_regular_expression(group):
    group.create("a", 2)
    group.add(f"^{group.prefix}-[ab]$")
    group.settle([2])
    group.create("b", 3)
    group.create("c", 3)
    group.settle([5])
    group.add(f"^{group.prefix}-.*")
    group.settle([4, 4])


def test_a_restart_of_the_broker_in_the_middle(group, broker):
    topic = group.create("a", 4)
    for _ in range(2):
        group.add(topic)
    group.settle([2, 2])
    had = group.shares()
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for partition in range(4):
        producer.produce(topic, b"v", partition=partition)
    assert producer.flush(DEADLINE_S) == 0
    group.until(lambda: len(group.handled) >= 4, "all is handled")
    for consumer, share in zip(group.consumers, had, strict=True):
        consumer.commit(offsets=[TopicPartition(name, partition, 1) for name, partition in share], asynchronous=False)
    third = group.add(topic)
    broker.kill()
    broker.start()
    group.settle([1, 1, 2])
    group.remove(third)
    group.settle([2, 2])
    committed = group.consumers[0].committed([TopicPartition(topic, partition) for partition in range(4)], 30)
    assert [one.offset for one in committed] == [1] * 4
    assert sorted(group.handled) == [(topic, partition, 0) for partition in range(4)]


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
def test_members_move_to_the_newer_protocol_and_back(group, strategy):
    topic = group.create("a", 6)
    classic = CLASSIC | {"partition.assignment.strategy": strategy}
    old = [group.add(topic, **classic) for _ in range(2)]
    group.settle([3, 3], ("STABLE", "CLASSIC"))
    new = [group.add(topic)]
    group.settle([2, 2, 2])
    new.append(group.add(topic))
    for consumer in old:
        group.remove(consumer)
    group.settle([3, 3])
    back = [group.add(topic, **classic)]
    group.settle([2, 2, 2])
    for consumer in new:
        group.remove(consumer)
    group.settle([6], ("STABLE", "CLASSIC"))
    assert len(back) == 1
