"""The verbs that move leaders, coordinators and the controller, as clients of other libraries meet them."""

from __future__ import annotations

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient

from ottla import testing
from ottla.testing.faults.errors import FaultError
from ottla.testing.faults.moves import MoveCoordinatorAction
from support.deadlines import DEADLINE_S
from support.faulty_cluster import QUICK, SeenProducer, consume, create_topic, isr_of, leader_of, whole
from support.polling import until_blocking


@pytest.fixture(scope="module")
def cluster():
    with testing.cluster(3) as running:
        yield running


@pytest.fixture(autouse=True)
def healed(cluster):
    yield
    cluster.faults.heal_all()
    until_blocking(lambda: whole(cluster), "the cluster is whole")


def controller_of(cluster):
    """The controller, by the metadata that a client of librdkafka gets."""
    return AdminClient({"bootstrap.servers": cluster.bootstrap_servers}).list_topics(timeout=DEADLINE_S).controller_id


def test_a_producer_follows_a_leader_that_moves(cluster):
    topic = create_topic(cluster, "leader", [1, 2, 3])
    producer = SeenProducer(cluster.bootstrap_servers, enable_idempotence=True)
    assert producer.deliver(topic, b"one") == (None, 0)
    until_blocking(lambda: isr_of(cluster, topic) == {1, 2, 3}, "all replicas are in sync")
    assert cluster.faults.move_leader(topic, to=3).did == {"from": 1, "to": 3}
    assert leader_of(cluster, topic) == 3
    assert producer.deliver(topic, b"two") == (None, 1)
    moved = cluster.faults.move_leader(topic).did
    assert moved["from"] == 3
    assert leader_of(cluster, topic) == moved["to"] != 3
    assert producer.deliver(topic, b"three") == (None, 2)
    assert consume(cluster.bootstrap_servers, topic, 3) == [b"one", b"two", b"three"]
    assert cluster.faults.active() == []


def test_a_consumer_follows_its_coordinator(cluster):
    topic = create_topic(cluster, "coordinated", [1])
    producer = SeenProducer(cluster.bootstrap_servers)
    assert producer.deliver(topic, b"one") == (None, 0)
    consumer = Consumer(
        {"bootstrap.servers": cluster.bootstrap_servers, "group.id": "g", "auto.offset.reset": "earliest"} | QUICK
    )
    consumer.subscribe([topic])
    try:
        (message,) = consumer.consume(1, DEADLINE_S)
        assert message.value() == b"one"
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
        before = admin.describe_consumer_groups(["g"])["g"].result(DEADLINE_S).coordinator.id
        until_blocking(lambda: isr_of(cluster, "__consumer_offsets") == {1, 2, 3}, "the offsets are in sync")
        did = cluster.faults.move_coordinator("g").did
        assert (did["from"], did["topic"], did["partition"]) == (before, "__consumer_offsets", 0)
        (committed,) = consumer.commit(message, asynchronous=False)
        assert (committed.error, committed.offset) == (None, 1)
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
        assert admin.describe_consumer_groups(["g"])["g"].result(DEADLINE_S).coordinator.id == did["to"] != before
    finally:
        consumer.close()


def test_a_transaction_goes_on_with_another_coordinator(cluster):
    topic = create_topic(cluster, "transacted", [1, 2, 3])
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "transactional.id": "t"} | QUICK)
    producer.init_transactions(DEADLINE_S)
    producer.begin_transaction()
    producer.produce(topic, b"one")
    assert producer.flush(DEADLINE_S) == 0
    until_blocking(lambda: isr_of(cluster, "__transaction_state") == {1, 2, 3}, "the transactions are in sync")
    did = cluster.faults.move_coordinator(transactional_id="t").did
    assert did["topic"] == "__transaction_state"
    producer.commit_transaction(DEADLINE_S)
    assert consume(cluster.bootstrap_servers, topic, 1, isolation_level="read_committed") == [b"one"]


def test_the_controller_moves(cluster):
    before = controller_of(cluster)
    target = max({1, 2, 3} - {before})
    assert cluster.faults.move_controller(to=target).did == {"from": before, "to": target}
    assert controller_of(cluster) == target
    create_topic(cluster, "created-by-the-new-one", [before])
    assert cluster.faults.move_controller().did["from"] == target
    assert controller_of(cluster) != target


def test_what_is_impossible_is_refused(cluster):
    topic = create_topic(cluster, "refused", [1, 2])
    until_blocking(lambda: isr_of(cluster, topic) == {1, 2}, "both replicas are in sync")
    faults = cluster.faults
    with pytest.raises(FaultError, match="nowhere-0: the partition does not exist"):
        faults.move_leader("nowhere")
    with pytest.raises(FaultError, match=r"to=3: the broker is no replica of refused-0; the replicas are \[1, 2\]"):
        faults.move_leader(topic, to=3)
    with pytest.raises(FaultError, match="to=1: the broker is the leader of refused-0 already"):
        faults.move_leader(topic, to=1)
    with pytest.raises(FaultError, match="the cluster has no broker with this id"):
        faults.move_leader(topic, to=9)
    with pytest.raises(FaultError, match=r"to=.: the broker is the controller already"):
        faults.move_controller(to=controller_of(cluster))
    faults.kill(2)
    with pytest.raises(FaultError, match="to=2: the broker does not run"):
        faults.move_leader(topic, to=2)
    until_blocking(lambda: isr_of(cluster, topic) == {1}, "broker 2 has left the ISR")
    with pytest.raises(FaultError, match=r"refused-0: no other replica is in sync; the replicas in sync are \[1\]"):
        faults.move_leader(topic)
    with pytest.raises(FaultError, match="one of group and transactional_id"):
        MoveCoordinatorAction()
